/* Reads complete files before parsing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "trace/read/whole.h"

/* Takes bytes of the memory that is left; -1 if there are fewer. room: NULL has no limit.
 */
static int take(atomic_llong *room, size_t bytes) {
  return room && atomic_fetch_sub(room, (long long)bytes) < (long long)bytes ? -1 : 0;
}

/* Reads all bytes of a source, NULL with *err; *capacity is an initial guess. Takes the
 * bytes that it grows by from room. */
static char *drain(ett_byte_source source, size_t *capacity, atomic_llong *room,
                   size_t *size, ett_err *err) {
  char *bytes = malloc(*capacity);
  ptrdiff_t n = 0;
  for (*size = 0; bytes; *size += (size_t)n) {
    if (*size == *capacity) {
      if (take(room, *capacity)) {
        n = ett_err_set(err, ETT_ERR_LIMIT,
                        "decompressed, it needs more memory than ETT_MEMORY_LIMIT");
        break;
      }
      char *grown = realloc(bytes, *capacity * 2);
      if (!grown)
        break;
      *capacity *= 2;
      bytes = grown;
    }
    n = source.read(source.context, bytes + *size, *capacity - *size, err);
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
 * compressed data is damaged, returns the data before the damage and sets *cut. The
 * growth of compressed data is taken from room; *taken is that number of bytes. */
static char *read_whole(const ett_source *s, atomic_llong *room, long long *taken,
                        size_t *size, bool *cut, ett_err *err) {
  ett_file_source file = {open(s->path, O_RDONLY | O_CLOEXEC), 0};
  ett_byte_source source = {&file, ett_file_source_read};
  ett_inflate *in = NULL;
  char *bytes = NULL;
  if (file.fd < 0) {
    ett_file_fail(err, "read", s->path, errno);
    return NULL;
  }
  if (s->compression != ETT_COMPRESSION_NONE) {
    in = ett_inflate_new(s->compression, source);
    source = (ett_byte_source){in, ett_inflate_read};
  }
  size_t capacity = s->bytes + 4096;
  if (source.context)
    bytes = drain(source, &capacity, in ? room : NULL, size, err);
  else
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  *taken = in ? (long long)(capacity - s->bytes - 4096) : 0;
  *cut = in && ett_inflate_fault(in);
  ett_inflate_free(in);
  close(file.fd);
  return bytes;
}

int ett_read_parsed(ett_trace_parser *parse, const ett_source *s, ett_reading *r,
                    ett_err *err) {
  size_t size = 0;
  bool cut = false;
  atomic_llong *room = r->part->lexicon->room;
  long long taken = 0;
  char *bytes = read_whole(s, room, &taken, &size, &cut, err);
  if (!bytes)
    return -1;
  if (cut)
    ett_part_damage(r->part, ETT_DAMAGE_TRUNCATED, size);
  r->bytes = (slice){bytes, bytes + size};
  int status = parse(r);
  free(bytes);
  if (room)
    atomic_fetch_add(room, taken);
  return status ? ett_err_set(err, ETT_ERR_MEMORY, "out of memory") : 0;
}

int ett_reading_arg(const ett_reading *r, slice name, ett_trace_arg arg, slice text) {
  uint32_t a = 0;
  while (a < r->arg_count && !slice_is(name, r->args[a]))
    a++;
  if (a == r->arg_count || arg.type == ETT_ARG_NONE)
    return 0;
  arg.row = ett_part_next(r->part);
  if (arg.type == ETT_ARG_TEXT &&
      (arg.value.text = ett_reading_intern(r, text)) == ETT_STRING_NONE)
    return -1;
  return ett_part_arg(r->part, a, arg);
}

int ett_reading_base(const ett_reading *r, int64_t base_ns) {
  char text[32];
  int n = snprintf(text, sizeof text, "%" PRId64, base_ns);
  return ett_part_member(r->part, "baseTimeNanoseconds", 19, text, (size_t)n);
}
