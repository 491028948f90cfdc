/* No bytes make the readers of models crash, leak or hand out a model that misbehaves.
 * First byte: 0 the binary block (its checksum is repaired first), else the text. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "regress/serve/compact.h"
#include "regress/serve/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(ett_model *model) {
  double dims[ETT_DESIGN_DIMS];
  ett_prediction p;
  ett_err err;
  for (int i = 0; i < ETT_DESIGN_DIMS; i++)
    dims[i] = 100 * (i + 1);
  if (ett_model_predict(model, dims, &p, &err) == 0 &&
      !(isfinite(p.value) && isfinite(p.high)))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ett_model model;
  ett_err err = {ETT_OK, ""};
  if (size == 0)
    return 0;
  if (data[0] & 1) {
    if (ett_model_from_text((const char *)data + 1, size - 1, &model, &err) == 0) {
      use(&model);
      ett_model_close(&model);
      return 0;
    }
  } else {
    void *block = malloc(size);
    memcpy(block, data + 1, size - 1);
    if (ett_model_open(block, size - 1, false, &model, &err) == 0) {
      use(&model);
      ett_model_close(&model);
      return 0;
    }
  }
  if (err.code == ETT_OK || !err.message[0] || model.memory)
    abort();
  return 0;
}
