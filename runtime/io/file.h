/* Whole files: bounded reads and atomic replacement. */
#ifndef ETT_IO_FILE_H
#define ETT_IO_FILE_H

#include <stddef.h>

#include "base/err.h"

/* Sets err to "cannot read 'x': no such file or directory", of a verb and an errno.
 * Returns -1. */
int ett_file_fail(ett_err *err, const char *verb, const char *path, int code);

/* Reads path into memory that the caller frees; *data has a NUL after its *length bytes.
 * A file of more than max_bytes is refused before it is read (ETT_ERR_LIMIT). Pipes and
 * devices work. Returns 0, or -1 with *data NULL. */
int ett_file_read(const char *path, size_t max_bytes, char **data, size_t *length,
                  ett_err *err);

/* NAMED: the user named the path. A link keeps its target, and devices and pipes are
 * written directly. DERIVED: ett chose the name in a folder, which may hold links of
 * other users; the new file replaces a link, device or pipe. PRIVATE: the same, for its
 * owner alone (mode 0600 whatever the umask). */
typedef enum ett_file_kind {
  ETT_FILE_NAMED,
  ETT_FILE_DERIVED,
  ETT_FILE_PRIVATE
} ett_file_kind;

/* Replaces path by data[0 .. length): writes a new file beside it, syncs and renames it.
 * Readers see the old file or the new one. Returns 0 or -1. */
int ett_file_write(const char *path, const char *data, size_t length, ett_file_kind kind,
                   ett_err *err);

/* Writes all bytes to an open file and retries after interruptions. Returns 0 or an
 * errno, which is also in errno. */
int ett_file_write_all(int fd, const char *data, size_t length);

/* Makes path and its missing parents, with mode 0777 less umask, or 0700 if they are
 * private. A private path has mode 0700 with any umask. Returns 0 or -1. */
int ett_folder_make(const char *path, int private, ett_err *err);

#endif
