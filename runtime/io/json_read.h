/* Strict JSON (RFC 8259) as a stream of events, and Python literals by the same rules.
 *
 * The reader holds no document: the caller pulls events and builds what it likes.
 * Integers stay integers. Every fault names its byte and line.
 *
 *     ett_json_reader reader;
 *     ett_json_reader_init(&reader, text, length, ETT_JSON_STRICT);
 *     while (ett_json_next(&reader, &event, &err) == 0 && event.kind != ETT_JSON_END) ...
 *     ett_json_reader_free(&reader);
 */
#ifndef ETT_IO_JSON_READ_H
#define ETT_IO_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Deepest nesting read; deeper is a fault. */
#define ETT_JSON_MAX_DEPTH 256

typedef enum {
  ETT_JSON_STRICT, /* RFC 8259 and nothing more */
  ETT_JSON_PYTHON, /* Python's repr of plain data: 'text', None, True, False, (1, 2,), nan
                    */
} ett_json_dialect;

typedef enum {
  ETT_JSON_END, /* the document is complete and nothing but space follows */
  ETT_JSON_NULL,
  ETT_JSON_FALSE,
  ETT_JSON_TRUE,
  ETT_JSON_INTEGER,
  ETT_JSON_FLOAT,
  ETT_JSON_STRING,
  ETT_JSON_KEY, /* the value's event comes next */
  ETT_JSON_ARRAY_BEGIN,
  ETT_JSON_ARRAY_END,
  ETT_JSON_OBJECT_BEGIN,
  ETT_JSON_OBJECT_END,
} ett_json_kind;

typedef struct {
  ett_json_kind kind;
  size_t offset;    /* byte of the input where it begins */
  int64_t integer;  /* ETT_JSON_INTEGER */
  double number;    /* ETT_JSON_INTEGER and ETT_JSON_FLOAT */
  const char *text; /* ETT_JSON_STRING and ETT_JSON_KEY: UTF-8, not NUL-terminated, */
  size_t length;    /* valid until the next event */
} ett_json_event;

/* Public so that it may live in the caller's frame or userdata; its fields are its own.
 */
typedef struct {
  const char *data;
  size_t length, position;
  ett_json_dialect dialect;
  int depth;
  bool in_object[ETT_JSON_MAX_DEPTH];
  char close_with[ETT_JSON_MAX_DEPTH];
  unsigned char state;
  char *scratch; /* unescaped text */
  size_t scratch_size;
} ett_json_reader;

/* data stays the caller's and must outlive the reader. A byte-order mark is skipped. */
void ett_json_reader_init(ett_json_reader *reader, const char *data, size_t length,
                          ett_json_dialect dialect);

/* Reads the next event. Returns 0, or -1 on a fault; the reader is then finished. */
int ett_json_next(ett_json_reader *reader, ett_json_event *event, ett_err *err);

/* Frees what the reader holds; may be called twice. */
void ett_json_reader_free(ett_json_reader *reader);

#endif
