#include "trace/read/json/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/stream.h"

int ett_whole_read(const char *path, char **out, size_t *out_size, bool *cut,
                   ett_err *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC), status = -1;
  if (fd < 0)
    return ett_err_set(err, ETT_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
  struct stat st;
  size_t size = 0;
  char *bytes = NULL;
  if (fstat(fd, &st) != 0) {
    ett_err_set(err, ETT_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    goto done;
  }
  ett_file_source file = {fd, 0};
  ett_byte_source source = {&file, ett_file_source_read};
  ett_inflate *in = NULL;
  size_t capacity = (size_t)st.st_size + 4096;
  bytes = malloc(capacity);
  ptrdiff_t n = 0;
  if (!bytes)
    goto memory;
  n = source.read(source.context, bytes, 4, err);
  if (n < 0)
    goto done;
  ett_compression kind = ett_compression_of(bytes, (size_t)n);
  file.offset = 0;
  if (kind != ETT_COMPRESSION_NONE) {
    in = ett_inflate_new(kind, source);
    if (!in)
      goto memory;
    source = (ett_byte_source){in, ett_inflate_read};
  }
  while ((n = source.read(source.context, bytes + size, capacity - size, err)) > 0) {
    size += (size_t)n;
    if (size == capacity) {
      char *grown = realloc(bytes, capacity * 2);
      if (!grown) {
        ett_inflate_free(in);
        goto memory;
      }
      bytes = grown;
      capacity *= 2;
    }
  }
  *cut = in && ett_inflate_fault(in);
  ett_inflate_free(in);
  status = n < 0 ? -1 : 0;
  goto done;
memory:
  ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
done:
  close(fd);
  if (status) {
    free(bytes);
    return status;
  }
  *out = bytes;
  *out_size = size;
  return 0;
}
