/* Whole files: bounded reads and atomic replacement. */
#ifndef ETT_IO_FILE_H
#define ETT_IO_FILE_H

#include <stddef.h>

#include "base/err.h"

/* Reads path into memory that the caller frees; *data has a NUL after its *length bytes.
 * A file of more than max_bytes is refused before it is read (ETT_ERR_LIMIT). Pipes and
 * devices work. Returns 0, or -1 with *data NULL. */
int ett_file_read(const char *path, size_t max_bytes, char **data, size_t *length,
                  ett_err *err);

/* Replaces path by data[0 .. length): writes a new file beside it, syncs and renames it.
 * Readers see the old file or the new one. Devices and pipes are written directly, and a
 * link keeps its target. A private file is for its owner alone (mode 0600 whatever the
 * umask); it replaces a link or device. Returns 0 or -1. */
int ett_file_write(const char *path, const char *data, size_t length, int private,
                   ett_err *err);

/* Writes all bytes to an open file and retries after interruptions. Returns 0 or an
 * errno, which is also in errno. */
int ett_file_write_all(int fd, const char *data, size_t length);

/* Makes path and its missing parents: with mode 0777 less umask; private ones with mode
 * 0700, which path gets whatever the umask. Returns 0 or -1. */
int ett_folder_make(const char *path, int private, ett_err *err);

#endif
