/* No text makes the JSON and Python-literal reader crash, leak or run away, and what
 * opens closes. */
#include <stdlib.h>

#include "io/json_read.h"
#include "io/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const char *text, size_t length, ett_json_dialect dialect) {
  ett_json_reader reader;
  ett_json_event event;
  ett_err err = {ETT_OK, ""};
  size_t events = 0;
  int depth = 0, status;
  ett_json_reader_init(&reader, text, length, dialect);
  while ((status = ett_json_next(&reader, &event, &err)) == 0 &&
         event.kind != ETT_JSON_END) {
    depth += event.kind == ETT_JSON_ARRAY_BEGIN || event.kind == ETT_JSON_OBJECT_BEGIN;
    depth -= event.kind == ETT_JSON_ARRAY_END || event.kind == ETT_JSON_OBJECT_END;
    if (++events > length || depth < 0 || depth > ETT_JSON_MAX_DEPTH)
      abort();
    if ((event.kind == ETT_JSON_STRING || event.kind == ETT_JSON_KEY) &&
        ett_utf8_valid_prefix(event.text, event.length) != event.length)
      abort();
  }
  if (status == 0 ? depth != 0 : !err.message[0])
    abort();
  ett_json_reader_free(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  read_all((const char *)data, size, ETT_JSON_STRICT);
  read_all((const char *)data, size, ETT_JSON_PYTHON);
  return 0;
}
