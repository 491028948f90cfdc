#include "io/utf8.h"

#include <string.h>

/* Length of the valid sequence at p, or 0. The bounds on the second byte are Table 3-7 of
 * the Unicode standard; they exclude overlong forms, surrogates and codes above
 * U+10FFFF. */
static size_t sequence_length(const unsigned char *p, size_t left) {
  unsigned char low = 0x80, high = 0xBF;
  size_t length;
  if (p[0] < 0x80)
    return 1;
  if (p[0] >= 0xC2 && p[0] <= 0xDF) {
    length = 2;
  } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
    length = 3;
    if (p[0] == 0xE0)
      low = 0xA0;
    if (p[0] == 0xED)
      high = 0x9F;
  } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
    length = 4;
    if (p[0] == 0xF0)
      low = 0x90;
    if (p[0] == 0xF4)
      high = 0x8F;
  } else {
    return 0;
  }
  if (left < length || p[1] < low || p[1] > high)
    return 0;
  for (size_t i = 2; i < length; i++) {
    if (p[i] < 0x80 || p[i] > 0xBF)
      return 0;
  }
  return length;
}

size_t ett_utf8_valid_prefix(const char *data, size_t length) {
  const unsigned char *bytes = (const unsigned char *)data;
  size_t i = 0;
  while (i < length) {
    uint64_t word;
    if (length - i >= sizeof word) {
      memcpy(&word, bytes + i, sizeof word);
      if ((word & UINT64_C(0x8080808080808080)) == 0) {
        i += sizeof word;
        continue;
      }
    }
    size_t step = sequence_length(bytes + i, length - i);
    if (step == 0)
      return i;
    i += step;
  }
  return length;
}

size_t ett_utf8_encode(uint32_t code, char out[4]) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xC0 | (code >> 6));
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (char)(0xE0 | (code >> 12));
    out[1] = (char)(0x80 | ((code >> 6) & 0x3F));
    out[2] = (char)(0x80 | (code & 0x3F));
    return 3;
  }
  out[0] = (char)(0xF0 | (code >> 18));
  out[1] = (char)(0x80 | ((code >> 12) & 0x3F));
  out[2] = (char)(0x80 | ((code >> 6) & 0x3F));
  out[3] = (char)(0x80 | (code & 0x3F));
  return 4;
}

size_t ett_utf8_plain(const char *text, size_t length, char *out, size_t *written) {
  static const char digits[] = "0123456789abcdef";
  const unsigned char *p = (const unsigned char *)text;
  const size_t valid = sequence_length(p, length);
  const int c1 = valid == 2 && p[0] == 0xC2 && p[1] < 0xA0;
  if (valid > 0 && !c1 && (*p >= 0x20 || *p == '\n' || *p == '\t') && *p != 0x7F) {
    memcpy(out, text, valid);
    *written += valid;
    return valid;
  }
  memcpy(out, (char[]){'\\', 'x', digits[p[c1] >> 4], digits[p[c1] & 15]}, 4);
  *written += 4;
  return c1 ? 2 : 1;
}

ett_place ett_place_of(const char *data, size_t offset) {
  ett_place place = {1, 1};
  const char *start = data, *end = data + offset, *newline;
  while (start < end && (newline = memchr(start, '\n', (size_t)(end - start))) != NULL) {
    place.line++;
    start = newline + 1;
  }
  place.column = (size_t)(end - start) + 1;
  return place;
}
