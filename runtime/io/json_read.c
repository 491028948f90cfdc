#include "io/json_read.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/number.h"
#include "io/utf8.h"

enum {
  WANT_VALUE,
  WANT_VALUE_OR_END,
  WANT_KEY,
  WANT_KEY_OR_END,
  WANT_COMMA_OR_END,
  DONE,
  FAILED
};

void ett_json_reader_init(ett_json_reader *reader, const char *data, size_t length,
                          ett_json_dialect dialect) {
  memset(reader, 0, sizeof *reader);
  reader->data = data;
  reader->length = length;
  reader->dialect = dialect;
  reader->state = WANT_VALUE;
  if (length >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0)
    reader->position = 3;
}

void ett_json_reader_free(ett_json_reader *reader) {
  free(reader->scratch);
  reader->scratch = NULL;
  reader->scratch_size = 0;
}

static int fault(ett_json_reader *r, size_t offset, ett_err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int fault(ett_json_reader *r, size_t offset, ett_err *err, const char *format,
                 ...) {
  char what[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  r->state = FAILED;
  return ett_err_set(err, ETT_ERR_FORMAT, "line %zu (byte %zu): %s",
                     ett_line_of(r->data, offset), offset, what);
}

/* Names the thing at offset for "wanted ..., got ..." sentences. */
static const char *thing_at(const ett_json_reader *r, size_t offset, char out[32]) {
  if (offset >= r->length)
    return "the end of the text";
  unsigned char c = (unsigned char)r->data[offset];
  if (c < 0x20 || c >= 0x7F) {
    snprintf(out, 32, "byte 0x%02x", c);
  } else {
    snprintf(out, 32, "'%c'", c);
  }
  return out;
}

static int unexpected(ett_json_reader *r, size_t offset, const char *wanted,
                      ett_err *err) {
  char thing[32];
  return fault(r, offset, err, "wanted %s, got %s", wanted, thing_at(r, offset, thing));
}

static void skip_space(ett_json_reader *r) {
  while (r->position < r->length) {
    char c = r->data[r->position];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
      break;
    r->position++;
  }
}

/* Reads count hexadecimal digits at the position; -1 when they are not there. */
static int64_t hex_code(ett_json_reader *r, int count) {
  int64_t code = 0;
  if (r->length - r->position < (size_t)count)
    return -1;
  for (int i = 0; i < count; i++) {
    int digit = ett_hex_digit(r->data[r->position + (size_t)i]);
    if (digit < 0)
      return -1;
    code = code * 16 + digit;
  }
  r->position += (size_t)count;
  return code;
}

/* Reads what follows "\u": one unit, or two that make a pair. */
static int unicode_escape(ett_json_reader *r, char **out, ett_err *err) {
  size_t start = r->position - 2;
  int64_t code = hex_code(r, 4);
  if (code < 0)
    return fault(r, start, err, "\\u wants four hexadecimal digits");
  if (code >= 0xDC00 && code <= 0xDFFF)
    return fault(r, start, err, "lone low surrogate");
  if (code >= 0xD800 && code <= 0xDBFF) {
    int64_t low = -1;
    if (r->length - r->position >= 2 && memcmp(r->data + r->position, "\\u", 2) == 0) {
      r->position += 2;
      low = hex_code(r, 4);
    }
    if (low < 0xDC00 || low > 0xDFFF)
      return fault(r, start, err, "lone high surrogate");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  *out += ett_utf8_encode((uint32_t)code, *out);
  return 0;
}

static int escape(ett_json_reader *r, char **out, ett_err *err) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  size_t start = r->position++;
  if (r->position >= r->length)
    return fault(r, start, err, "text ends inside an escape");
  char c = r->data[r->position++];
  const char *name = memchr(names, c, sizeof names - 1);
  if (name) {
    *(*out)++ = values[name - names];
    return 0;
  }
  if (c == 'u')
    return unicode_escape(r, out, err);
  if (r->dialect == ETT_JSON_PYTHON && c == '\'') {
    *(*out)++ = c;
    return 0;
  }
  if (r->dialect == ETT_JSON_PYTHON && c == 'x') {
    int64_t code = hex_code(r, 2);
    if (code < 0)
      return fault(r, start, err, "\\x wants two hexadecimal digits");
    *out += ett_utf8_encode((uint32_t)code, *out);
    return 0;
  }
  return fault(r, start, err, "unknown escape");
}

/* Reads the string whose quote is at the position. Without escapes the event points into
 * the input; else into scratch, which no escape can make longer than the input. */
static int read_string(ett_json_reader *r, ett_json_event *event, ett_err *err) {
  const size_t start = r->position++;
  const char quote = r->data[start];
  bool escaped = false;
  size_t end = r->position;
  for (; end < r->length && r->data[end] != quote; end++) {
    unsigned char c = (unsigned char)r->data[end];
    if (c < 0x20)
      return fault(r, end, err, "control character 0x%02x in a string", c);
    if (c == '\\') {
      escaped = true;
      end++;
    }
  }
  if (end >= r->length)
    return fault(r, start, err, "string without an end");
  const size_t length = end - r->position;
  const size_t valid = ett_utf8_valid_prefix(r->data + r->position, length);
  if (valid < length)
    return fault(r, r->position + valid, err, "not UTF-8");
  event->text = r->data + r->position;
  event->length = length;
  if (escaped) {
    if (r->scratch_size < length) {
      char *grown = realloc(r->scratch, length);
      if (!grown) {
        r->state = FAILED;
        return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory");
      }
      r->scratch = grown;
      r->scratch_size = length;
    }
    char *out = r->scratch;
    while (r->position < end) {
      if (r->data[r->position] != '\\') {
        *out++ = r->data[r->position++];
      } else if (escape(r, &out, err) != 0) {
        return -1;
      }
    }
    event->text = r->scratch;
    event->length = (size_t)(out - r->scratch);
  }
  r->position = end + 1;
  return 0;
}

/* RFC 8259 is narrower than ett_number_parse: no '+', no leading zero, digits on both
 * sides. */
static bool strict_number(const char *text, size_t length) {
  const char *p = text, *end = text + length;
  if (p < end && *p == '-')
    p++;
  if (p == end || *p < '0' || *p > '9')
    return false;
  if (*p == '0' && p + 1 < end && p[1] >= '0' && p[1] <= '9')
    return false;
  const char *point = memchr(p, '.', (size_t)(end - p));
  return !point || (point + 1 < end && point[1] >= '0' && point[1] <= '9');
}

static int read_number(ett_json_reader *r, ett_json_event *event, ett_err *err) {
  size_t start = r->position, end = start;
  while (end < r->length && (memchr("+-.eE", r->data[end], 5) ||
                             (r->data[end] >= '0' && r->data[end] <= '9'))) {
    end++;
  }
  ett_number number = ett_number_parse(r->data + start, end - start);
  if (number.kind == ETT_NUMBER_NONE ||
      (r->dialect == ETT_JSON_STRICT && !strict_number(r->data + start, end - start))) {
    return fault(r, start, err, "malformed number '%.*s'",
                 (int)(end - start < 40 ? end - start : 40), r->data + start);
  }
  if (isinf(number.number))
    return fault(r, start, err, "number too large for a double");
  event->kind = number.kind == ETT_NUMBER_INTEGER ? ETT_JSON_INTEGER : ETT_JSON_FLOAT;
  event->integer = number.integer;
  event->number = number.number;
  r->position = end;
  return 0;
}

typedef struct {
  const char *word;
  ett_json_kind kind;
  double number;
} word_value;

static const word_value strict_words[] = {{"null", ETT_JSON_NULL, 0},
                                          {"true", ETT_JSON_TRUE, 0},
                                          {"false", ETT_JSON_FALSE, 0},
                                          {NULL, ETT_JSON_END, 0}};
static const word_value python_words[] = {
    {"None", ETT_JSON_NULL, 0},        {"True", ETT_JSON_TRUE, 0},
    {"False", ETT_JSON_FALSE, 0},      {"nan", ETT_JSON_FLOAT, NAN},
    {"inf", ETT_JSON_FLOAT, INFINITY}, {NULL, ETT_JSON_END, 0}};

static int read_word(ett_json_reader *r, ett_json_event *event, ett_err *err) {
  const size_t start = r->position;
  size_t end = start;
  while (end < r->length && ((r->data[end] >= 'a' && r->data[end] <= 'z') ||
                             (r->data[end] >= 'A' && r->data[end] <= 'Z'))) {
    end++;
  }
  if (end == start)
    return unexpected(r, start, "a value", err);
  const word_value *words = r->dialect == ETT_JSON_PYTHON ? python_words : strict_words;
  for (; words->word; words++) {
    if (strlen(words->word) == end - start &&
        memcmp(words->word, r->data + start, end - start) == 0) {
      event->kind = words->kind;
      event->number = words->number;
      r->position = end;
      return 0;
    }
  }
  return fault(r, start, err, "wanted a value, got '%.*s'",
               (int)(end - start < 40 ? end - start : 40), r->data + start);
}

static int open_container(ett_json_reader *r, ett_json_event *event, ett_err *err) {
  const char c = r->data[r->position];
  if (r->depth == ETT_JSON_MAX_DEPTH) {
    return fault(r, r->position, err, "nested deeper than %d levels", ETT_JSON_MAX_DEPTH);
  }
  r->in_object[r->depth] = c == '{';
  r->close_with[r->depth] = c == '{' ? '}' : c == '[' ? ']' : ')';
  r->depth++;
  r->position++;
  r->state = c == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
  event->kind = c == '{' ? ETT_JSON_OBJECT_BEGIN : ETT_JSON_ARRAY_BEGIN;
  return 0;
}

static void close_container(ett_json_reader *r, ett_json_event *event) {
  r->position++;
  r->depth--;
  event->kind = r->in_object[r->depth] ? ETT_JSON_OBJECT_END : ETT_JSON_ARRAY_END;
  r->state = r->depth > 0 ? WANT_COMMA_OR_END : DONE;
}

static bool is_quote(const ett_json_reader *r, char c) {
  return c == '"' || (r->dialect == ETT_JSON_PYTHON && c == '\'');
}

static int read_key(ett_json_reader *r, ett_json_event *event, ett_err *err) {
  if (r->position >= r->length || !is_quote(r, r->data[r->position])) {
    return unexpected(r, r->position, "a quoted key", err);
  }
  if (read_string(r, event, err) != 0)
    return -1;
  event->kind = ETT_JSON_KEY;
  skip_space(r);
  if (r->position >= r->length || r->data[r->position] != ':') {
    return unexpected(r, r->position, "':' after the key", err);
  }
  r->position++;
  r->state = WANT_VALUE;
  return 0;
}

static int read_value(ett_json_reader *r, ett_json_event *event, ett_err *err) {
  if (r->position >= r->length)
    return unexpected(r, r->position, "a value", err);
  const char c = r->data[r->position];
  if (c == '{' || c == '[' || (c == '(' && r->dialect == ETT_JSON_PYTHON)) {
    return open_container(r, event, err);
  }
  r->state = r->depth > 0 ? WANT_COMMA_OR_END : DONE;
  if (is_quote(r, c)) {
    event->kind = ETT_JSON_STRING;
    return read_string(r, event, err);
  }
  bool number = c == '-' || (c >= '0' && c <= '9') ||
                (r->dialect == ETT_JSON_PYTHON && (c == '.' || c == '+'));
  return number ? read_number(r, event, err) : read_word(r, event, err);
}

int ett_json_next(ett_json_reader *r, ett_json_event *event, ett_err *err) {
  memset(event, 0, sizeof *event);
  skip_space(r);
  const bool python = r->dialect == ETT_JSON_PYTHON;
  const bool more = r->position < r->length;
  const bool closing =
      r->depth > 0 && more && r->data[r->position] == r->close_with[r->depth - 1];
  event->offset = r->position;
  switch (r->state) {
  case WANT_COMMA_OR_END:
    if (closing) {
      close_container(r, event);
      return 0;
    }
    if (!more || r->data[r->position] != ',') {
      char wanted[16];
      snprintf(wanted, sizeof wanted, "',' or '%c'", r->close_with[r->depth - 1]);
      return unexpected(r, r->position, wanted, err);
    }
    r->position++;
    r->state = r->in_object[r->depth - 1] ? (python ? WANT_KEY_OR_END : WANT_KEY)
                                          : (python ? WANT_VALUE_OR_END : WANT_VALUE);
    return ett_json_next(r, event, err);
  case WANT_VALUE_OR_END:
  case WANT_KEY_OR_END:
    if (closing) {
      close_container(r, event);
      return 0;
    }
    return r->state == WANT_KEY_OR_END ? read_key(r, event, err)
                                       : read_value(r, event, err);
  case WANT_KEY:
    return read_key(r, event, err);
  case WANT_VALUE:
    return read_value(r, event, err);
  case DONE:
    if (more)
      return unexpected(r, r->position, "nothing after the document", err);
    event->kind = ETT_JSON_END;
    return 0;
  default:
    return ett_err_set(err, ETT_ERR_FORMAT, "reader already failed");
  }
}
