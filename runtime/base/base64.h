/* base64.h - bytes as base64 (RFC 4648). */
#ifndef ETT_BASE_BASE64_H
#define ETT_BASE_BASE64_H

#include <stdint.h>
#include <stdlib.h>

static const char ett_base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* NUL-terminated text of *length characters, for free(); NULL if memory runs out. */
static inline char *ett_base64(const uint8_t *bytes, size_t size, size_t *length) {
  char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;
  if (!text)
    return NULL;
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = size - i;
    uint32_t word = (uint32_t)bytes[i] << 16;
    word |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
    word |= left > 2 ? bytes[i + 2] : 0;
    *to++ = ett_base64_digits[word >> 18];
    *to++ = ett_base64_digits[word >> 12 & 63];
    *to++ = left > 1 ? ett_base64_digits[word >> 6 & 63] : '=';
    *to++ = left > 2 ? ett_base64_digits[word & 63] : '=';
  }
  *to = '\0';
  *length = (size_t)(to - text);
  return text;
}

#endif
