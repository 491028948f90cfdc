/* source.h - the files of a trace, and the format of each. */
#ifndef ETT_TRACE_SOURCE_H
#define ETT_TRACE_SOURCE_H

#include "io/stream.h"
#include "trace/table/trace.h"

/* Why the profile mode "nsys" ignores a file. The kind of a database is known after
 * opening. */
#define ETT_SOURCE_NOT_NSYS "not an Nsight Systems export, as the profile mode requires"

typedef struct ett_source {
  char *path;
  uint64_t bytes;
  ett_compression compression;
  ett_trace_kind kind;
  const char *ignored; /* reason for ignoring it, or NULL */
} ett_source;

typedef struct ett_sources {
  ett_source *items;
  uint32_t count, capacity;
} ett_sources;

/* A file, or all files below a directory, sorted by path. Files with a trace's extension
 * but without its content are listed as ignored; other files are not listed. -1 with *err
 * when path does not exist or nothing is readable. */
int ett_sources_find(ett_sources *s, const char *path, ett_trace_kind mode, ett_err *err);
void ett_sources_free(ett_sources *s);

/* The rank in a file name: rank3, rank-3, worker3, kineto_trace_3.json, host-w-3; else
 * that of a folder rank3, worker_3. Returns "file name", "folder name", or NULL if there
 * is none. */
const char *ett_rank_of_path(const char *path, int64_t *rank);

#endif
