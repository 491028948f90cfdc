/* load.h - runs the readers over the files of a trace, in threads, into parts. */
#ifndef ETT_TRACE_LOAD_H
#define ETT_TRACE_LOAD_H

#include "trace/read/open.h"
#include "trace/read/source.h"

typedef struct ett_load_file {
  int failed; /* the file could not be read: err has the reason */
  ett_err err;
  char fault[96]; /* error of the compressed data; data before it was read */
  uint64_t uncompressed_bytes;
} ett_load_file;

/* The result: parts ordered by file and by position in the file. */
typedef struct ett_load {
  ett_trace_part *parts;
  uint32_t part_count;
  ett_lexicon *lexicons;
  uint32_t lexicon_count;
  ett_load_file *files; /* parallel to the sources */
  ett_workers *workers; /* may be NULL */
} ett_load;

/* Reads every source that is not ignored. -1 with *err if memory runs out, a thread
 * cannot start, or the progress function cancelled. */
int ett_load_run(ett_load *l, const ett_sources *sources,
                 const ett_trace_options *options, int64_t ticks_per_second,
                 ett_err *err);
void ett_load_free(ett_load *l);

/* Whether a file had a traceEvents array. */
bool ett_load_saw_events(const ett_load *l, uint32_t file);

#endif
