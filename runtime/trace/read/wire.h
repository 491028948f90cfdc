/* wire.h - the fields of a protobuf message.
 *
 * Every length is checked against the rest of the enclosing message. */
#ifndef ETT_TRACE_WIRE_H
#define ETT_TRACE_WIRE_H

#include "trace/read/whole.h"

typedef struct field {
  uint32_t number, wire;
  uint64_t value; /* varint, or the bits of a fixed one */
  slice bytes;    /* of a length-delimited one */
} field;

static inline int varint(slice *s, uint64_t *value) {
  uint64_t v = 0;
  for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
    uint8_t b = (uint8_t)*s->at++;
    v |= (uint64_t)(b & 0x7F) << shift;
    if (!(b & 0x80)) {
      *value = v;
      return 1;
    }
  }
  return 0;
}

/* The next field of a message: 1, 0 at its end, -1 if it is damaged or truncated. */
static inline int next(slice *s, field *f) {
  if (s->at == s->end)
    return 0;
  uint64_t tag, length;
  if (!varint(s, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
    return -1;
  f->number = (uint32_t)(tag >> 3);
  f->wire = tag & 7;
  f->value = 0;
  f->bytes = (slice){s->at, s->at};
  size_t width = 8;
  switch (f->wire) {
  case 0:
    return varint(s, &f->value) ? 1 : -1;
  case 2:
    if (!varint(s, &length) || length > (uint64_t)(s->end - s->at))
      return -1;
    f->bytes = (slice){s->at, s->at + length};
    s->at += length;
    return 1;
  case 5:
    width = 4; /* fall through */
  case 1:
    if ((size_t)(s->end - s->at) < width)
      return -1;
    memcpy(&f->value, s->at, width);
    s->at += width;
    return 1;
  default:
    return -1;
  }
}

#endif
