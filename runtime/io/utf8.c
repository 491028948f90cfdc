#include "io/utf8.h"

#include <stdio.h>
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

/* Default_Ignorable_Code_Point of Unicode 15 (DerivedCoreProperties.txt), U+2028, U+2029
 * and U+FFF9 to U+FFFB. Some of them change the order of the characters around them. */
static const struct {
  uint32_t first, last;
} invisible[] = {
    {0x00AD, 0x00AD},   {0x034F, 0x034F}, {0x061C, 0x061C},   {0x115F, 0x1160},
    {0x17B4, 0x17B5},   {0x180B, 0x180F}, {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F},   {0x3164, 0x3164}, {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
    {0xE0000, 0xE0FFF},
};

static uint32_t decode(const unsigned char *p, size_t length) {
  uint32_t code = length == 1 ? p[0] : p[0] & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++)
    code = code << 6 | (p[i] & 0x3F);
  return code;
}

size_t ett_utf8_hidden(const char *text, size_t length, uint32_t *code) {
  const unsigned char *p = (const unsigned char *)text;
  if (p[0] >= 0x20 && p[0] < 0x7F)
    return 0;
  const size_t valid = sequence_length(p, length);
  if (valid == 0)
    return 0;
  *code = decode(p, valid);
  if (*code < 0x20 || (*code >= 0x7F && *code < 0xA0))
    return valid;
  for (size_t i = 0; i < sizeof invisible / sizeof *invisible; i++)
    if (*code >= invisible[i].first && *code <= invisible[i].last)
      return valid;
  return 0;
}

size_t ett_utf8_plain(const char *text, size_t length, char *out, size_t *written) {
  const size_t valid = sequence_length((const unsigned char *)text, length);
  uint32_t code = (unsigned char)*text;
  if (valid > 0 &&
      (*text == '\n' || *text == '\t' || !ett_utf8_hidden(text, length, &code))) {
    memcpy(out, text, valid);
    *written += valid;
    return valid;
  }
  char shown[ETT_UTF8_PLAIN_SIZE + 1];
  const int size =
      snprintf(shown, sizeof shown, valid > 0 && code >= 0xA0 ? "\\u{%x}" : "\\x%02x",
               (unsigned)code);
  memcpy(out, shown, (size_t)size);
  *written += (size_t)size;
  return valid > 0 ? valid : 1;
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
