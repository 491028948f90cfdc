#include "io/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ett_file_fail(ett_err *err, const char *verb, const char *path, int code) {
  char reason[128];
  snprintf(reason, sizeof reason, "%s", strerror(code));
  reason[0] = (char)tolower((unsigned char)reason[0]);
  return ett_err_set(err, code == ENOENT ? ETT_ERR_MISSING : ETT_ERR_IO,
                     "cannot %s '%s': %s", verb, path, reason);
}

static int refuse_size(ett_err *err, const char *path, size_t max_bytes) {
  return ett_err_set(err, ETT_ERR_LIMIT,
                     "'%s' is larger than the limit of %zu bytes for its kind", path,
                     max_bytes);
}

static int read_all(int fd, const char *path, size_t capacity, size_t max_bytes,
                    char **data, size_t *length, ett_err *err) {
  char *buffer = malloc(capacity + 1);
  size_t filled = 0;
  for (;;) {
    if (!buffer)
      return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to read '%s'", path);
    ssize_t got = read(fd, buffer + filled, capacity - filled);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      int code = errno;
      free(buffer);
      return ett_file_fail(err, "read", path, code);
    }
    if (got == 0)
      break;
    filled += (size_t)got;
    if (filled > max_bytes) {
      free(buffer);
      return refuse_size(err, path, max_bytes);
    }
    if (filled == capacity) {
      capacity *= 2;
      char *grown = realloc(buffer, capacity + 1);
      if (!grown)
        free(buffer);
      buffer = grown;
    }
  }
  buffer[filled] = '\0';
  *data = buffer;
  *length = filled;
  return 0;
}

int ett_file_read(const char *path, size_t max_bytes, char **data, size_t *length,
                  ett_err *err) {
  *data = NULL;
  *length = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return ett_file_fail(err, "read", path, errno);
  struct stat status;
  int result;
  if (fstat(fd, &status) != 0)
    result = ett_file_fail(err, "read", path, errno);
  else if (S_ISDIR(status.st_mode))
    result = ett_file_fail(err, "read", path, EISDIR);
  else if (S_ISREG(status.st_mode) && (uint64_t)status.st_size > max_bytes)
    result = refuse_size(err, path, max_bytes);
  else
    /* One byte more than the size, so that the end of file is detected without
     * growing. */
    result =
        read_all(fd, path, S_ISREG(status.st_mode) ? (size_t)status.st_size + 1 : 65536,
                 max_bytes, data, length, err);
  close(fd);
  return result;
}

int ett_file_write_all(int fd, const char *data, size_t length) {
  while (length > 0) {
    ssize_t wrote = write(fd, data, length);
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote < 0)
      return errno;
    data += wrote;
    length -= (size_t)wrote;
  }
  return 0;
}

static int write_in_place(const char *path, const char *data, size_t length,
                          ett_err *err) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return ett_file_fail(err, "write", path, errno);
  int code = ett_file_write_all(fd, data, length);
  if (close(fd) != 0 && code == 0)
    code = errno;
  return code ? ett_file_fail(err, "write", path, code) : 0;
}

typedef enum file_kind { NEW_FILE, OLD_FILE, PRIVATE_FILE } file_kind;

/* A file without a name in the folder of `target`: a process that is killed while it
 * writes leaves nothing of it. -1: the file system has no such files. */
static int open_nameless(const char *target, mode_t mode) {
  char folder[PATH_MAX];
  const char *end = strrchr(target, '/');
  const int length = end ? (int)(end - target) + 1 : 0;
  snprintf(folder, sizeof folder, "%.*s.", length, target);
  return open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
}

/* Names a file without a name, or opens one with a name (fd: -1), beside `target`. Sets
 * `temporary`; returns a negative number on failure. */
static int make_name(char *temporary, size_t size, const char *target, int fd,
                     mode_t mode) {
  char link[64];
  int made = -1;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  for (unsigned attempt = 0; made < 0 && attempt < 100; attempt++) {
    snprintf(temporary, size, "%s.%ld-%u.tmp", target, (long)getpid(), attempt);
    made = fd >= 0 ? linkat(AT_FDCWD, link, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW)
                   : open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          mode);
    if (made < 0 && errno != EEXIST)
      break;
  }
  return made;
}

/* Writes a new file beside `target` and renames it; returns 0 or an errno. The umask
 * narrows the mode of new files only; some file systems of old ones have no modes. Sets
 * `*nameless` to false where it cannot open or name a file without a name. */
static int replace_by(bool *nameless, const char *target, mode_t mode, file_kind kind,
                      const char *data, size_t length) {
  char temporary[PATH_MAX + 64] = "";
  bool unnamed = *nameless;
  int fd = unnamed ? open_nameless(target, mode)
                   : make_name(temporary, sizeof temporary, target, -1, mode);
  if (fd < 0) {
    *nameless = false;
    return errno;
  }
  const int changed = kind == NEW_FILE ? 0 : fchmod(fd, mode);
  int code =
      kind == PRIVATE_FILE && changed != 0 ? errno : ett_file_write_all(fd, data, length);
  if (code == 0 && fsync(fd) != 0 && errno != EINVAL)
    code = errno;
  if (unnamed && code == 0) {
    unnamed = make_name(temporary, sizeof temporary, target, fd, mode) < 0;
    if (unnamed) {
      code = errno;
      *nameless = false;
    }
  }
  if (close(fd) != 0 && code == 0)
    code = errno;
  if (code == 0 && rename(temporary, target) != 0)
    code = errno;
  if (code && !unnamed)
    unlink(temporary);
  return code;
}

static int replace(const char *path, const char *target, mode_t mode, file_kind kind,
                   const char *data, size_t length, ett_err *err) {
  bool nameless = true;
  int code = replace_by(&nameless, target, mode, kind, data, length);
  if (code && !nameless)
    code = replace_by(&nameless, target, mode, kind, data, length);
  return code ? ett_file_fail(err, "write", path, code) : 0;
}

int ett_file_write(const char *path, const char *data, size_t length, ett_file_kind kind,
                   ett_err *err) {
  if (kind != ETT_FILE_NAMED && strlen(path) >= PATH_MAX)
    return ett_file_fail(err, "write", path, ENAMETOOLONG);
  if (kind == ETT_FILE_PRIVATE)
    return replace(path, path, 0600, PRIVATE_FILE, data, length, err);
  struct stat status;
  int exists =
      (kind == ETT_FILE_DERIVED ? lstat(path, &status) : stat(path, &status)) == 0;
  if (kind == ETT_FILE_DERIVED && !(exists && S_ISREG(status.st_mode)))
    return replace(path, path, 0666, NEW_FILE, data, length, err);
  if (exists && S_ISDIR(status.st_mode))
    return ett_file_fail(err, "write", path, EISDIR);
  if (exists && !S_ISREG(status.st_mode))
    return write_in_place(path, data, length, err);
  char target[PATH_MAX];
  if (!exists ||
      !realpath(path, target)) { /* a symbolic link is kept; its target is replaced */
    if ((size_t)snprintf(target, sizeof target, "%s", path) >= sizeof target)
      return ett_file_fail(err, "write", path, ENAMETOOLONG);
  }
  return replace(path, target, exists ? status.st_mode & 0777 : 0666,
                 exists ? OLD_FILE : NEW_FILE, data, length, err);
}

int ett_folder_make(const char *path, int private, ett_err *err) {
  char partial[PATH_MAX];
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof partial)
    return ett_file_fail(err, "make folder", path, length ? ENAMETOOLONG : ENOENT);
  memcpy(partial, path, length + 1);
  for (size_t i = 1; i <= length; i++) {
    if (partial[i] != '/' && partial[i] != '\0')
      continue;
    char kept = partial[i];
    partial[i] = '\0';
    if (mkdir(partial, private ? 0700 : 0777) != 0 && errno != EEXIST)
      return ett_file_fail(err, "make folder", path, errno);
    partial[i] = kept;
  }
  struct stat status;
  if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
    return ett_file_fail(err, "make folder", path, ENOTDIR);
  return private && chmod(path, 0700) != 0
             ? ett_file_fail(err, "protect folder", path, errno)
             : 0;
}
