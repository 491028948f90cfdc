#include "io/json_prepare.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "io/number.h"
#include "io/utf8.h"

typedef struct {
  const char *text;
  size_t length, position;
  char *out; /* NULL if the text is only measured */
  size_t written;
} preparer;

static void put(preparer *p, const char *bytes, size_t count) {
  if (p->out)
    memcpy(p->out + p->written, bytes, count);
  p->written += count;
}

static void put_kept(preparer *p, const char *bytes, size_t count) {
  put(p, "\"\xFF", 2);
  put(p, bytes, count);
  put(p, "\"", 1);
}

static int fault(const preparer *p, size_t offset, const char *what, ett_err *err) {
  ett_place place = ett_place_of(p->text, offset);
  return ett_err_set(err, ETT_ERR_FORMAT, "%zu:%zu: %s", place.line, place.column, what);
}

static int take_string(preparer *p, ett_err *err) {
  const size_t start = p->position++;
  for (; p->position < p->length && p->text[p->position] != '"'; p->position++) {
    if ((unsigned char)p->text[p->position] < 0x20)
      return fault(p, p->position, "control character in a string", err);
    if (p->text[p->position] == '\\' && p->position + 1 < p->length)
      p->position++;
  }
  if (p->position < p->length)
    p->position++;
  put(p, p->text + start, p->position - start);
  return 0;
}

/* Whether a double keeps the value and its kind: not for long integers and integral
 * floats. */
static bool survives(const ett_number *number) {
  const double exact = 9007199254740992.0; /* 2^53 */
  if (number->kind == ETT_NUMBER_INTEGER)
    return number->number > -exact && number->number < exact;
  return number->number != floor(number->number);
}

static int take_number(preparer *p, ett_err *err) {
  const size_t start = p->position;
  while (p->position < p->length && memchr("+-.eE0123456789", p->text[p->position], 15))
    p->position++;
  const char *text = p->text + start;
  const size_t length = p->position - start;
  if (length > ETT_NUMBER_MAX_LENGTH) /* strtod would read it, as infinite perhaps */
    return fault(p, start, "number of more than 1000 characters", err);
  const ett_number number = ett_number_parse(text, length);
  if (number.kind != ETT_NUMBER_NONE && isinf(number.number))
    return fault(p, start, "number too large for a double", err);
  /* lua-cjson refuses malformed numbers; they pass unchanged. */
  const char *digits = text + (*text == '-'), *end = text + length;
  const bool leading_zero =
      digits + 1 < end && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
  if (number.kind == ETT_NUMBER_NONE || leading_zero || survives(&number))
    put(p, text, length);
  else
    put_kept(p, text, length);
  return 0;
}

static void take_bracket(preparer *p) {
  put(p, p->text + p->position++, 1);
  size_t end = p->position;
  while (end < p->length && memchr(" \t\r\n", p->text[end], 4))
    end++;
  if (end < p->length && p->text[end] == ']')
    put_kept(p, "", 0);
}

int ett_json_prepare(const char *text, size_t length, char *out, size_t *written,
                     ett_err *err) {
  preparer p = {.text = text, .length = length, .out = out};
  const size_t valid = ett_utf8_valid_prefix(text, length);
  if (valid < length)
    return fault(&p, valid, "not UTF-8", err);
  while (p.position < length) {
    const char c = text[p.position];
    int status = 0;
    if (c == '"')
      status = take_string(&p, err);
    else if (c == '-' || (c >= '0' && c <= '9'))
      status = take_number(&p, err);
    else if (c == '[')
      take_bracket(&p);
    else if (c == '\0')
      status = fault(&p, p.position, "NUL byte: is this text?",
                     err); /* would end the text for lua-cjson */
    else
      put(&p, text + p.position++, 1);
    if (status != 0)
      return -1;
  }
  *written = p.written;
  return 0;
}
