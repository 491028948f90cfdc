/* ett_json_prepare neither crashes nor writes past the length that it measured, and what
 * it keeps is found again when its text is prepared. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/json_prepare.h"
#include "io/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  ett_err err = {ETT_OK, ""};
  size_t measured = 0, written = 0;
  if (ett_json_prepare(text, size, NULL, &measured, &err) != 0) {
    if (!err.message[0])
      abort();
    return 0;
  }
  char *out = malloc(measured + 1);
  if (!out)
    return 0;
  if (ett_json_prepare(text, size, out, &written, &err) != 0 || written != measured)
    abort();
  if (written == size ? memcmp(out, text, size) != 0 : written < size)
    abort();
  if (written > size && ett_utf8_valid_prefix(out, written) == written)
    abort(); /* kept values are marked by a byte that no text holds */
  free(out);
  return 0;
}
