/* load_task.h - one task of load.c: a file, or a stretch of a JSON file, into a part. */
#ifndef ETT_TRACE_LOAD_TASK_H
#define ETT_TRACE_LOAD_TASK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "trace/read/json/json_read.h"
#include "trace/read/load.h"

/* One file, or a stretch of one: bytes from begin to stop. */
typedef struct ett_load_task {
  uint32_t file;
  uint64_t begin, stop;
  ett_json_start start;
  int status;
  ett_err err;
  char fault[96];
  uint64_t produced; /* bytes that came out of the source */
} ett_load_task;

/* What the tasks of a trace share. */
typedef struct ett_load_shared {
  const ett_sources *sources;
  const ett_trace_options *options;
  const ett_json_scanner *scanner;
  ett_json_args args;
  int64_t ticks_per_second;
  ett_trace_reader nsys;
  bool readahead;
  atomic_ullong done; /* bytes read so far */
  atomic_bool cancelled;
} ett_load_shared;

/* Reads the task's file or stretch into its part, which is made here. -1 with the task's
 * err set. */
int ett_load_task_run(ett_load_shared *shared, ett_load_task *t, ett_trace_part *part,
                      ett_lexicon *lexicon);

/* The same of JSON, into a part that is there. */
int ett_load_stretch(ett_load_shared *shared, ett_load_task *t, ett_trace_part *part);

#endif
