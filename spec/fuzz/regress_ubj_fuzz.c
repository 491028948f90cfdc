/* No bytes make the reader of XGBoost's UBJSON crash, leak or hand out unsafe trees. */
#include <stdint.h>
#include <stdlib.h>

#include "regress/serve/forest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ett_forest forest;
  ett_err err = {ETT_OK, ""};
  if (ett_forest_from_ubj(data, size, &forest, &err) != 0) {
    if (err.code == ETT_OK || !err.message[0] || forest.memory)
      abort();
    return 0;
  }
  if (forest.features <= 32767) {
    float *features = calloc(forest.features + 1, sizeof *features);
    (void)ett_forest_predict(&forest, features);
    free(features);
  }
  ett_forest_free(&forest);
  return 0;
}
