/* Reads complete files before parsing. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/read/load.h"

/* Reads all bytes of a source, NULL with *err; capacity is an initial guess. */
static char *drain(ett_byte_source source, size_t capacity, size_t *size, ett_err *err) {
  char *bytes = malloc(capacity);
  ptrdiff_t n = 0;
  for (*size = 0; bytes; *size += (size_t)n) {
    if (*size == capacity) {
      char *grown = realloc(bytes, capacity *= 2);
      if (!grown)
        break;
      bytes = grown;
    }
    n = source.read(source.context, bytes + *size, capacity - *size, err);
    if (n == 0)
      return bytes;
    if (n < 0)
      break;
  }
  free(bytes);
  if (n >= 0)
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  return NULL;
}

/* Reads and decompresses a whole file; the caller frees it; NULL with *err. If the
 * compressed data is damaged, returns the data before the damage and sets *cut. */
static char *read_whole(const char *path, size_t *size, bool *cut, ett_err *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  char head[4], *bytes = NULL;
  if (fd < 0 || fstat(fd, &st) != 0) {
    ett_err_set(err, ETT_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    if (fd >= 0)
      close(fd);
    return NULL;
  }
  ett_file_source file = {fd, 0};
  ett_byte_source source = {&file, ett_file_source_read};
  ptrdiff_t n = source.read(source.context, head, sizeof head, err);
  if (n >= 0) {
    ett_compression kind = ett_compression_of(head, (size_t)n);
    ett_inflate *in = NULL;
    file.offset = 0;
    if (kind != ETT_COMPRESSION_NONE) {
      in = ett_inflate_new(kind, source);
      source = (ett_byte_source){in, ett_inflate_read};
    }
    if (kind != ETT_COMPRESSION_NONE && !in)
      ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    else
      bytes = drain(source, (size_t)st.st_size + 4096, size, err);
    *cut = in && ett_inflate_fault(in);
    ett_inflate_free(in);
  }
  close(fd);
  return bytes;
}

int ett_read_parsed(ett_trace_parser parse, const char *path, ett_trace_part *part,
                    const char *const *args, uint32_t arg_count, int64_t ticks_per_second,
                    ett_err *err) {
  size_t size = 0;
  bool cut = false;
  char *bytes = read_whole(path, &size, &cut, err);
  if (!bytes)
    return -1;
  if (cut)
    ett_part_damage(part, ETT_DAMAGE_TRUNCATED, size);
  int status = parse(bytes, size, part, args, arg_count, ticks_per_second, err);
  free(bytes);
  return status;
}
