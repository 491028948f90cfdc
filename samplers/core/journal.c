#include "samplers/core/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

struct ett_sample_journal {
  int file, lock;
  int users; /* calls of open and share that close() has not undone */
  off_t bytes;
  char path[4096];
};

static void sync_folder(const char *path) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash)
    slash[slash == folder] = '\0';
  int file = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return;
  fsync(file);
  close(file);
}

/* The offset at which the last line of the first `end` bytes begins; -1 when the file
 * cannot be read. */
static off_t last_line(const ett_sample_journal *j, off_t end) {
  char block[4096];
  while (end > 0) {
    size_t want = end < (off_t)sizeof block ? (size_t)end : sizeof block;
    if (pread(j->file, block, want, end - (off_t)want) != (ssize_t)want)
      return -1;
    size_t i = want;
    while (i > 0 && block[i - 1] != '\n')
      i--;
    end -= (off_t)(want - i);
    if (i > 0)
      break;
  }
  return end;
}

/* Removes an incomplete last line, and trailing marks ("#~ ") without a row. */
static int repair(ett_sample_journal *j, ett_err *err) {
  struct stat info;
  if (fstat(j->file, &info) != 0)
    return ett_err_set(err, ETT_ERR_IO, "cannot read '%s': %s", j->path, strerror(errno));
  off_t end = last_line(j, info.st_size);
  while (end > 0) {
    char start[3] = "";
    off_t line = last_line(j, end - 1);
    if (line < 0 || pread(j->file, start, sizeof start, line) < 0)
      end = -1;
    else if (memcmp(start, "#~ ", 3) == 0)
      end = line;
    else
      break;
  }
  if (end < 0)
    return ett_err_set(err, ETT_ERR_IO, "cannot read '%s'", j->path);
  if (end < info.st_size && ftruncate(j->file, end) != 0)
    return ett_err_set(err, ETT_ERR_IO, "cannot repair '%s': %s", j->path,
                       strerror(errno));
  j->bytes = end;
  return 0;
}

/* Opens a file to write into it. Links are refused: they could make this process
 * overwrite another file. */
static int open_own(const char *path, int flags, const char *verb, const char *remedy,
                    ett_err *err) {
  flags |= O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  int file = open(path, flags, 0666);
  if (file < 0 && errno == EEXIST)
    file = open(path, flags & ~(O_CREAT | O_EXCL));
  struct stat info;
  if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink < 2)
    return file;
  if (file < 0 && errno != ELOOP) {
    ett_err_set(err, ETT_ERR_IO, "cannot %s '%s': %s", flags & O_CREAT ? "create" : verb,
                path, strerror(errno));
    return -1;
  }
  if (file >= 0)
    close(file);
  ett_err_set(err, ETT_ERR_IO, "cannot %s '%s': it is a link or not a regular file; %s",
              verb, path, remedy);
  return -1;
}

ett_sample_journal *ett_sample_journal_open(const char *path, const char *header,
                                            ett_err *err) {
  if (strlen(path) >= 4000) {
    ett_err_set(err, ETT_ERR_ARGUMENT, "path is too long");
    return NULL;
  }
  ett_sample_journal *j = calloc(1, sizeof *j);
  if (!j) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  j->users = 1;
  snprintf(j->path, sizeof j->path, "%s", path);
  char lock[4200];
  const char *slash = strrchr(path, '/');
  const int folder = slash ? (int)(slash - path) + 1 : 0;
  snprintf(lock, sizeof lock, "%.*s.%s.lock", folder, path, path + folder);
  j->file = -1;
  j->lock = open_own(lock, O_CREAT | O_EXCL, "lock", "remove it", err);
  if (j->lock < 0)
    goto failed;
  if (flock(j->lock, LOCK_EX | LOCK_NB) != 0) {
    char holder[64] = "";
    ssize_t n = pread(j->lock, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = '\0';
    ett_err_set(err, ETT_ERR_LIMIT,
                "'%s' is being written by another process (%s); wait for it, or run "
                "under mpirun to share the work",
                path, holder[0] ? holder : "unknown");
    goto failed;
  }
  char self[64];
  int length = snprintf(self, sizeof self, "pid %ld", (long)getpid());
  if (ftruncate(j->lock, 0) == 0 && pwrite(j->lock, self, (size_t)length, 0) < 0) {
    /* Only messages about another process lack the path. */
  }
  if (access(path, F_OK) != 0) {
    if (ett_file_write(path, header, strlen(header), ETT_FILE_DERIVED, err) != 0)
      goto failed;
    sync_folder(path);
  }
  j->file = open_own(path, O_APPEND, "append to", "replace it by a copy", err);
  if (j->file < 0 || repair(j, err) != 0)
    goto failed;
  return j;
failed:
  ett_sample_journal_close(j);
  return NULL;
}

int ett_sample_journal_append(ett_sample_journal *j, const char *lines, size_t bytes,
                              int sync, ett_err *err) {
  for (size_t i = 0; i <= bytes; i++)
    if ((i == bytes || lines[i] == '\n') && (i == 0 || lines[i - 1] == '\n'))
      return ett_err_set(err, ETT_ERR_ARGUMENT, "a line must not be empty");
  char *text = malloc(bytes + 1);
  if (!text)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  memcpy(text, lines, bytes);
  text[bytes] = '\n';
  int failed = ett_file_write_all(j->file, text, bytes + 1) != 0 ||
               (sync && fdatasync(j->file) != 0);
  int why = errno;
  free(text);
  if (failed) {
    if (ftruncate(j->file, j->bytes) != 0)
      why = why ? why : errno; /* the next open repairs the tail */
    return ett_err_set(err, ETT_ERR_IO, "cannot append to '%s': %s", j->path,
                       strerror(why));
  }
  j->bytes += (off_t)bytes + 1;
  return 0;
}

int ett_sample_journal_sync(ett_sample_journal *j, ett_err *err) {
  if (fdatasync(j->file) != 0)
    return ett_err_set(err, ETT_ERR_IO, "cannot sync '%s': %s", j->path, strerror(errno));
  return 0;
}

ett_sample_journal *ett_sample_journal_share(ett_sample_journal *j) {
  if (j)
    j->users++;
  return j;
}

void ett_sample_journal_close(ett_sample_journal *j) {
  if (!j || --j->users > 0)
    return;
  if (j->file >= 0)
    close(j->file);
  if (j->lock >= 0)
    close(j->lock); /* releases the lock; unlinking the file would race */
  free(j);
}
