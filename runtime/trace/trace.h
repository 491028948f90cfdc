/* trace.h - a recorded run as columns.
 *
 * A trace is what one path holds: files, each of one rank, on one time axis and with one
 * string table. Events are rows of blocks: a row number is (block << 16 | index), stable
 * for the life of the trace and increasing with file and position. The readers fill the
 * columns; select.h, stats.h and interval.h answer questions about them in bulk.
 *
 * Memory: 41 bytes an event (ETT_TRACE_EVENT_BYTES), 16 for each requested arg that an
 * event has, and each distinct string once. */
#ifndef ETT_TRACE_TRACE_H
#define ETT_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ETT_TRACE_BLOCK 65536u
#define ETT_TRACE_EVENT_BYTES 41
#define ETT_TRACE_NONE UINT32_MAX /* no row, no string */

/* What a row is, from its category, line or table; never from its name. */
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

#endif
