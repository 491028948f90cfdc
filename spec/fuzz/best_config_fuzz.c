/* No text makes the reader of Best_config literals crash, leak or run on. */
#include <stdint.h>
#include <stdlib.h>

#include "io/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ett_json_reader reader;
  ett_json_event event;
  ett_err err = {ETT_OK, ""};
  size_t events = 0;
  ett_json_reader_init(&reader, (const char *)data, size, ETT_JSON_PYTHON);
  do {
    if (ett_json_next(&reader, &event, &err) != 0) {
      if (err.code == ETT_OK || !err.message[0])
        abort();
      break;
    }
    if (++events > 2 * size + 2)
      abort();
  } while (event.kind != ETT_JSON_END);
  ett_json_reader_free(&reader);
  return 0;
}
