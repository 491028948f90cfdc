/* Temporary folders that do not outlive their process. */
#ifndef ETT_IO_TEMPORARY_H
#define ETT_IO_TEMPORARY_H

#include "base/err.h"

typedef struct ett_temporary ett_temporary;

/* A new empty folder under an existing one, with mode 0700. A process removes it with its
 * contents when ett_temporary_free is called, or when this process ends, also by SIGKILL.
 * Returns NULL on failure. */
ett_temporary *ett_temporary_new(const char *under, ett_err *err);

const char *ett_temporary_path(const ett_temporary *temporary);

/* Waits until the folder is removed. NULL does nothing. */
void ett_temporary_free(ett_temporary *temporary);

#endif
