/* open.h - opens a trace: finds its files, reads them in threads, merges what was read.
 */
#ifndef ETT_TRACE_OPEN_H
#define ETT_TRACE_OPEN_H

#include "trace/table/part.h"

/* Reads the file at path into a part; 0 or -1 with *err. The Nsight reader, a module of
 * its own because of SQLite, is passed in as one of these. */
typedef int (*ett_trace_reader)(const char *path, struct ett_trace_part *part,
                                const char *const *args, uint32_t arg_count,
                                int64_t ticks_per_second, ett_err *err);

typedef struct ett_trace_options {
  ett_trace_kind mode; /* AUTO, KINETO ("torch"), TPU_JSON ("tpu") or NSYS */
  const char *const *args;
  uint32_t arg_count;
  unsigned threads; /* 0: the number of cores */
  bool flows;
  const char *scanner; /* instruction set by name, for tests; NULL: the best */
  size_t memory_bytes; /* that rows may take; 0: no limit */
  size_t chunk_bytes;  /* of a file that several threads share; 0: chosen, for tests */
  /* Called from the caller's thread a few times a second; nonzero stops the reading. */
  int (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
  /* The Nsight reader, or NULL with *err; called once, when such a file is met. */
  ett_trace_reader (*nsys)(void *context, ett_err *err);
  void *context;
} ett_trace_options;

/* Everything at path; NULL with *err when it is not there or holds no trace. */
ett_trace *ett_trace_open(const char *path, const ett_trace_options *options,
                          ett_err *err);

#endif
