/* source.h - which files make up a trace, and what each of them is. */
#ifndef ETT_TRACE_SOURCE_H
#define ETT_TRACE_SOURCE_H

#include "io/stream.h"
#include "trace/table/trace.h"

typedef struct ett_source {
  char *path;
  uint64_t bytes;
  ett_compression compression;
  ett_trace_kind kind;
  const char *ignored; /* why it is left out, or NULL */
} ett_source;

typedef struct ett_sources {
  ett_source *items;
  uint32_t count, capacity;
} ett_sources;

/* A file, or all files below a directory (sorted by path) whose content is that of a
 * trace. Files that carry a trace's extension but not its content are listed as ignored;
 * others are passed over. -1 with *err when path is not there or nothing is readable. */
int ett_sources_find(ett_sources *s, const char *path, ett_trace_kind mode, ett_err *err);
void ett_sources_free(ett_sources *s);

/* The rank that a file name carries: rank3, rank-3, worker3, kineto_trace_3.json,
 * host-w-3; 1 when it does. */
int ett_rank_of_name(const char *path, int64_t *rank);

#endif
