/* merge.h - merges the parts filled by the readers into one trace. */
#ifndef ETT_TRACE_MERGE_H
#define ETT_TRACE_MERGE_H

#include "trace/read/load.h"

/* The trace of a load; takes over its rows and strings. NULL with *err on failure. */
ett_trace *ett_merge(ett_load *load, const ett_sources *sources,
                     const ett_trace_options *options, int64_t ticks_per_second,
                     ett_err *err);

#endif
