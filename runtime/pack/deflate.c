#include "pack/deflate.h"

#include <isa-l/igzip_lib.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/base64.h"

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
  char *text = used ? ett_base64(out, used, length) : NULL;
  if (out && level && !used)
    ett_err_set(err, ETT_ERR_INTERNAL, "ISA-L could not deflate %zu bytes", size);
  else if (!text)
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory for a page");
  free(level);
  free(out);
  return text;
}
