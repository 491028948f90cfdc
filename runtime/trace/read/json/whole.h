/* whole.h - a file in memory at once, gzip and zstd taken off. */
#ifndef ETT_TRACE_WHOLE_H
#define ETT_TRACE_WHOLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* 0 with *bytes (to be freed) and *size; -1 with *err. Where the compression is damaged
 * or ends early, what came before is there and *cut is set. */
int ett_whole_read(const char *path, char **bytes, size_t *size, bool *cut, ett_err *err);

#endif
