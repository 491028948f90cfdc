/* trace.h - a recorded run as columns.
 *
 * A trace holds the files of one path, each of one rank, on one time axis and with one
 * string table. Events are rows of blocks. A row number is (block << 16 | index): it is
 * fixed for the life of the trace and grows with file and position. The readers of
 * runtime/trace/read fill the columns; runtime/trace/query selects and sums rows.
 *
 * Memory: ETT_TRACE_EVENT_BYTES an event, 16 for each requested arg that an event has,
 * and each distinct string once. */
#ifndef ETT_TRACE_TRACE_H
#define ETT_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/table/workers.h"

struct ett_member;
struct ett_strings;
struct ett_track;

#define ETT_TRACE_BLOCK 65536u
#define ETT_TRACE_EVENT_BYTES 41
#define ETT_TRACE_NONE UINT32_MAX /* no row, no string */
/* Longer rows are invalid: 30 days in seconds. */
#define ETT_TRACE_LONGEST_S INT64_C(2592000)
/* 9 September 2001: clocks that count from 1970 are later, others earlier. */
#define ETT_TRACE_EPOCH_NS INT64_C(1000000000000000000)

/* Class of a row, from its category, line or table; never from its name. */
typedef enum ett_trace_class {
  ETT_CLASS_OTHER = 0,
  ETT_CLASS_KERNEL,
  ETT_CLASS_MEMCPY,
  ETT_CLASS_MEMSET,
  ETT_CLASS_DEVICE_ANNOTATION,
  ETT_CLASS_DEVICE_STEP,
  ETT_CLASS_DEVICE_MODULE,
  ETT_CLASS_DEVICE_ASYNC,
  ETT_CLASS_CPU_OP,
  ETT_CLASS_ANNOTATION,
  ETT_CLASS_RUNTIME,
  ETT_CLASS_PYTHON,
  ETT_CLASS_OVERHEAD,
  ETT_CLASS_COMMUNICATION,
  ETT_CLASS_HOST,
  ETT_CLASS_COUNT
} ett_trace_class;

/* "kernel", "memcpy", ... */
const char *ett_trace_class_name(ett_trace_class c);
/* The class of that name, or -1. */
int ett_trace_class_find(const char *name);

typedef enum ett_trace_kind {
  ETT_TRACE_AUTO = 0,
  ETT_TRACE_KINETO,
  ETT_TRACE_TPU_JSON,
  ETT_TRACE_XPLANE,
  ETT_TRACE_NSYS,
  ETT_TRACE_PERFETTO,
  ETT_TRACE_ROCPROF,
  ETT_TRACE_CHAKRA,
} ett_trace_kind;

/* Rows: structure of arrays, each of ETT_TRACE_BLOCK entries. Times in ticks. */
typedef struct ett_trace_block {
  int64_t *ts, *dur, *correlation;
  uint32_t *name, *track;
  int32_t *stream;
  uint16_t *category;
  int16_t *device;
  uint8_t *ph;
  uint32_t count;
  uint32_t file;
  void *memory; /* one allocation holds all of them */
} ett_trace_block;

typedef enum ett_arg_type {
  ETT_ARG_NONE = 0,
  ETT_ARG_INTEGER,
  ETT_ARG_FLOAT,
  ETT_ARG_TEXT, /* string id; lists and objects as their JSON text */
} ett_arg_type;

/* One arg of one event; arrays of these are sorted by row. */
typedef struct ett_trace_arg {
  uint32_t row;
  uint32_t type;
  union {
    int64_t integer;
    double number;
    uint32_t text;
  } value;
} ett_trace_arg;

/* One recorded file. Strings are owned by the trace. */
typedef struct ett_trace_file {
  char *path;
  ett_trace_kind kind;
  bool has_rank, has_world;
  const char *rank_source; /* "distributedInfo", "file name", "folder name",
                            * "unknown" */
  int64_t rank, world_size;
  int64_t base_ns;             /* baseTimeNanoseconds, added to every ts; 0 if none */
  uint64_t bytes;              /* on disk */
  uint64_t uncompressed_bytes; /* read */
  uint64_t event_count;        /* rows */
  uint64_t seen_count;         /* records, including flows and metadata */
  struct ett_member *members;  /* of the root object, as JSON text */
  uint32_t member_count;
} ett_trace_file;

typedef struct ett_trace_warning {
  uint32_t file; /* ETT_TRACE_NONE: the whole trace */
  bool has_offset;
  uint64_t offset, count;
  const char *code;
  char *message;
} ett_trace_warning;

typedef struct ett_trace {
  ett_trace_file *files;
  uint32_t file_count;
  struct ett_strings *strings;
  uint32_t *categories; /* string ids */
  uint8_t *category_class;
  uint32_t category_count;
  struct ett_track *tracks;
  uint32_t track_count;
  ett_trace_block *blocks;
  uint32_t block_count;
  const char **arg_names; /* of the columns below */
  ett_trace_arg **args;
  uint32_t *arg_lengths;
  uint32_t *arg_hints; /* index of the last lookup: rows are mostly read in order */
  /* [block_count + 1][ETT_CLASS_COUNT]: rows of each class in the blocks before */
  uint32_t *class_starts;
  uint32_t **class_rows; /* sorted rows of each class, created at their first use */
  uint32_t arg_count;
  ett_trace_warning *warnings;
  uint32_t warning_count;
  int64_t ticks_per_second, origin_ns;
  int64_t start, stop; /* of all complete valid rows, in ticks; 0, 0 without rows */
  uint64_t event_count;
  size_t memory_bytes;
  ett_workers *workers; /* for work on many rows; may be NULL */
} ett_trace;

void ett_trace_free(ett_trace *t);

/* Number of rows of a class. */
static inline uint32_t ett_trace_class_count(const ett_trace *t, int class) {
  return t->class_starts[(size_t)t->block_count * ETT_CLASS_COUNT + (size_t) class];
}

/* Fills class_rows of the classes whose flag in wanted[ETT_CLASS_COUNT] is set; 0, or -1
 * when memory ran out. */
int ett_trace_index_classes(ett_trace *t, const uint8_t *wanted);

/* Column of the arg of that name, or -1 when it was not requested. */
int ett_trace_arg_find(const ett_trace *t, const char *name);

/* The arg of a row, or NULL. Only one thread at a time may read a trace, because this
 * updates a hint. */
const ett_trace_arg *ett_trace_arg_at(const ett_trace *t, uint32_t arg, uint32_t row);

#endif
