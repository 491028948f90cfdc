/* nsys.h - Nsight Systems SQLite exports as parts; a module of its own (SQLite). */
#ifndef ETT_TRACE_NSYS_H
#define ETT_TRACE_NSYS_H

#include "trace/read/open.h"

/* An ett_trace_reader (open.h). */
int ett_nsys_read(const char *path, ett_trace_part *part, const char *const *args,
                  uint32_t arg_count, int64_t ticks_per_second, ett_err *err);

/* The same from an open database (an sqlite3 *), for the fuzzer. */
int ett_nsys_read_database(void *database, ett_trace_part *part, const char *const *args,
                           uint32_t arg_count, int64_t ticks_per_second, ett_err *err);

#endif
