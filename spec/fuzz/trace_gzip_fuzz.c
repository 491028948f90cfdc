/* Any bytes as gzip or zstd: the stream ends, within what was given, and says when it is
 * damaged. Whole members with a good checksum give back their content. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "io/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct memory {
  const uint8_t *bytes;
  size_t length, at, step;
} memory;

static ptrdiff_t memory_read(void *context, void *buffer, size_t size, ett_err *err) {
  memory *m = context;
  (void)err;
  size_t n = m->length - m->at;
  if (n > size)
    n = size;
  if (n > m->step)
    n = m->step;
  memcpy(buffer, m->bytes + m->at, n);
  m->at += n;
  return (ptrdiff_t)n;
}

static uint64_t drain(const uint8_t *data, size_t size, size_t step, size_t window,
                      uint64_t *total) {
  memory m = {data, size, 0, step};
  ett_byte_source source = {&m, memory_read};
  ett_compression kind = ett_compression_of(data, size);
  if (kind == ETT_COMPRESSION_NONE)
    kind = ETT_COMPRESSION_GZIP;
  ett_inflate *in = ett_inflate_new(kind, source);
  if (!in)
    abort();
  uint8_t *buffer = malloc(window);
  if (!buffer)
    abort();
  ett_err err;
  uint64_t h = 14695981039346656037u;
  *total = 0;
  for (ptrdiff_t n;
       *total < (1u << 22) && (n = ett_inflate_read(in, buffer, window, &err)) > 0;) {
    if ((size_t)n > window)
      abort();
    for (ptrdiff_t i = 0; i < n; i++)
      h = (h ^ buffer[i]) * 1099511628211u;
    *total += (uint64_t)n;
  }
  if (ett_inflate_fault(in))
    h = 0; /* how far a damaged stream was read depends on the windows */
  ett_inflate_free(in);
  free(buffer);
  return h;
}

/* Whether zstd frames state a size of 0, or a size that differs from their content. For
 * some of these, libzstd's answer depends on whether it gets the frame in one piece.
 */
static bool libzstd_may_differ(const uint8_t *data, size_t size, uint64_t content) {
  if (ett_compression_of(data, size) != ETT_COMPRESSION_ZSTD)
    return false;
  unsigned long long sum = 0;
  bool all_stated = true, some_stated = false;
  for (size_t at = 0; at < size;) {
    size_t length = ZSTD_findFrameCompressedSize(data + at, size - at);
    if (ZSTD_isError(length))
      return false;
    unsigned long long stated = ZSTD_getFrameContentSize(data + at, size - at);
    if (stated == 0)
      return true;
    if (stated == ZSTD_CONTENTSIZE_UNKNOWN)
      all_stated = false;
    else
      some_stated = true, sum += stated;
    at += length;
  }
  return some_stated && !(all_stated && sum == content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint64_t a, b;
  uint64_t h = drain(data, size, SIZE_MAX, 65536, &a);
  uint64_t k = drain(data, size, 1 + size / 7, 777, &b);
  if ((h == 0) != (k == 0) && libzstd_may_differ(data, size, h ? a : b))
    return 0;
  if (h != k && a < (1u << 22)) /* the same bytes, however they are handed over */
    abort();
  return 0;
}
