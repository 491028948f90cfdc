#include "pack/deflate.h"

#include <isa-l/igzip_lib.h>
#include <stdint.h>
#include <stdlib.h>

static char *base64(const uint8_t *bytes, size_t size, size_t *length) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;
  if (!text)
    return NULL;
  for (size_t i = 0; i < size; i += 3) {
    uint32_t left = size - i < 3 ? (uint32_t)(size - i) : 3;
    uint32_t word = (uint32_t)bytes[i] << 16;
    word |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
    word |= left > 2 ? bytes[i + 2] : 0;
    *to++ = digits[word >> 18];
    *to++ = digits[word >> 12 & 63];
    *to++ = left > 1 ? digits[word >> 6 & 63] : '=';
    *to++ = left > 2 ? digits[word & 63] : '=';
  }
  *to = 0;
  *length = (size_t)(to - text);
  return text;
}

/* Deflates into out, which has `room` bytes. Returns the number of bytes, 0 on
 * failure. */
static size_t deflate(const void *bytes, size_t size, uint8_t *out, size_t room,
                      uint8_t *level) {
  struct isal_zstream stream;
  isal_deflate_init(&stream);
  stream.level = 3;
  stream.level_buf = level;
  stream.level_buf_size = ISAL_DEF_LVL3_DEFAULT;
  stream.end_of_stream = 1;
  stream.next_in = (uint8_t *)(uintptr_t)bytes;
  stream.avail_in = (uint32_t)size;
  stream.next_out = out;
  stream.avail_out = (uint32_t)room;
  if (isal_deflate(&stream) != COMP_OK || stream.avail_in)
    return 0;
  return stream.total_out;
}

char *ett_pack_deflate(const void *bytes, size_t size, size_t *length, ett_err *err) {
  if (size > (size_t)1 << 30) {
    ett_err_set(err, ETT_ERR_LIMIT, "a part of a page holds at most 1 GiB");
    return NULL;
  }
  size_t room = size + size / 16 + 1024; /* worst case: stored blocks */
  uint8_t *out = malloc(room), *level = malloc(ISAL_DEF_LVL3_DEFAULT);
  size_t used = out && level ? deflate(bytes, size, out, room, level) : 0;
  char *text = used ? base64(out, used, length) : NULL;
  if (out && level && !used)
    ett_err_set(err, ETT_ERR_INTERNAL, "ISA-L could not deflate %zu bytes", size);
  else if (!text)
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory for a page");
  free(level);
  free(out);
  return text;
}
