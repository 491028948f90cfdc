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
  if (s->at < s->end && !(*s->at & 0x80)) { /* most have one byte */
    *value = (uint8_t)*s->at++;
    return 1;
  }
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

/* Where a field of a message goes: to 64 bits (wire type 0), or to a slice (2). */
typedef struct wanted {
  uint32_t number, wire;
  void *to;
} wanted;

#define ABSENT UINT64_MAX

/* Reads these fields of a message and advances s as next() does. Of repeated fields the
 * last one counts. 0, or -1 if the message is damaged or truncated. */
static inline int read_wanted(slice *s, const wanted *list, size_t count) {
  field f;
  int status;
  while ((status = next(s, &f)) > 0) {
    const wanted *w = list, *end = list + count;
    while (w < end && (w->number != f.number || w->wire != f.wire))
      w++;
    if (w < end && f.wire == 2)
      *(slice *)w->to = f.bytes;
    else if (w < end)
      memcpy(w->to, &f.value, sizeof f.value);
  }
  return status;
}
#define READ_WANTED(s, ...)                                                              \
  read_wanted(s, (const wanted[]){__VA_ARGS__},                                          \
              sizeof((const wanted[]){__VA_ARGS__}) / sizeof(wanted))

/* The kinds of fields that hold the value of an arg, by field number; 0: none. */
enum { SIGNED = 1, SIGNED32, UNSIGNED, ZIGZAG, DOUBLE, SINGLE, TEXT };

/* Fills arg, or its type and text, from a field of such a kind. A field of another wire
 * type is left out, because it does not hold such a value. */
static inline void take_value(const field *f, const uint8_t *kinds, size_t count,
                              ett_trace_arg *arg, slice *text) {
  /* The wire type of each kind; a whole number has any but 2. */
  static const uint8_t wires[] = {[DOUBLE] = 1, [SINGLE] = 5, [TEXT] = 2};
  const uint8_t kind = f->number < count ? kinds[f->number] : 0;
  float single;
  if (kind >= DOUBLE ? f->wire != wires[kind] : f->wire == 2)
    return;
  switch (kind) {
  case 0:
    return;
  case TEXT:
    arg->type = ETT_ARG_TEXT;
    *text = f->bytes;
    return;
  case DOUBLE:
    arg->type = ETT_ARG_FLOAT;
    memcpy(&arg->value.number, &f->value, sizeof f->value);
    return;
  case SINGLE:
    arg->type = ETT_ARG_FLOAT;
    memcpy(&single, &f->value, sizeof single);
    arg->value.number = single;
    return;
  case SIGNED32:
    arg->type = ETT_ARG_INTEGER;
    arg->value.integer = (int32_t)f->value;
    return;
  case ZIGZAG:
    arg->type = ETT_ARG_INTEGER;
    arg->value.integer = (int64_t)(f->value >> 1) ^ -(int64_t)(f->value & 1);
    return;
  case UNSIGNED:
    if (f->value > (uint64_t)INT64_MAX) {
      arg->type = ETT_ARG_FLOAT;
      arg->value.number = (double)f->value;
      return;
    } /* fall through */
  default:
    arg->type = ETT_ARG_INTEGER;
    arg->value.integer = (int64_t)f->value;
  }
}

#endif
