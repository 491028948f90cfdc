/* nsys.h - SQLite files of Nsight Systems and rocprofv3 as parts; a module of its own
 * (SQLite). */
#ifndef ETT_TRACE_NSYS_H
#define ETT_TRACE_NSYS_H

#include "trace/read/open.h"

/* An ett_trace_reader (open.h). */
int ett_nsys_read(const char *path, const ett_reading *r, ett_err *err);

/* The same from an open database (an sqlite3 *), for the fuzzer. */
int ett_nsys_read_database(void *database, const ett_reading *r, ett_err *err);

/* Whether an open database is one of rocprofv3 (rocpd.c), and its rows. */
bool ett_rocpd_is(void *database);
int ett_rocpd_read_database(void *database, const ett_reading *r, ett_err *err);

#endif
