/* open.h - opens a trace: finds its files, reads them in threads, merges the results. */
#ifndef ETT_TRACE_OPEN_H
#define ETT_TRACE_OPEN_H

#include "trace/read/whole.h"

/* Reads the file at path into a part; 0, or -1 with *err. Type of the SQLite reader,
 * a separate module. */
typedef int (*ett_trace_reader)(const char *path, const ett_reading *r, ett_err *err);

typedef struct ett_trace_options {
  ett_trace_kind mode; /* AUTO, KINETO ("torch"), TPU_JSON ("tpu") or NSYS */
  const char *const *args;
  uint32_t arg_count;
  unsigned threads; /* 0: the number of cores */
  bool flows;
  const char *scanner; /* instruction set by name, for tests; NULL: the best */
  size_t memory_bytes; /* maximum memory of the rows; 0: no limit */
  size_t chunk_bytes;  /* size of the chunks of a file that threads share; 0: automatic;
                          for tests */
  /* Called in the caller's thread several times per second; a nonzero return value
   * cancels. */
  int (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
  /* Returns the SQLite reader, or NULL with *err; called once, at the first such file. */
  ett_trace_reader (*nsys)(void *context, ett_err *err);
  void *context;
} ett_trace_options;

/* Opens all files at path; NULL with *err if path does not exist or holds no trace. */
ett_trace *ett_trace_open(const char *path, const ett_trace_options *options,
                          ett_err *err);

#endif
