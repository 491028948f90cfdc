/* ledger_fuzz.c - random tapes: four bytes are one operation on any register. They are
 * evaluated at a point and in columns, bounded and searched. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/search.h"
#include "ledger/tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUTS = 4, CONSTANTS = 3, OPERATIONS = 100, OUTPUTS = 3 };

static int same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const double inputs[INPUTS] = {1, 2, 12, 0.5}, constants[CONSTANTS] = {0, 1, 3};
  ett_instruction code[OPERATIONS];
  size_t count = 0;
  for (; count < OPERATIONS && 4 * count + 3 < size; count++) {
    const uint8_t *at = data + 4 * count;
    uint32_t known = (uint32_t)(INPUTS + CONSTANTS + count);
    code[count] = (ett_instruction){(ett_op)(at[0] % ETT_OPS), at[1] % known,
                                    at[2] % known, at[3] % known};
  }
  uint32_t outputs[OUTPUTS];
  for (uint32_t i = 0; i < OUTPUTS; i++)
    outputs[i] = (uint32_t)(INPUTS + CONSTANTS + count) - 1 - i;
  ett_tape *tape =
      ett_tape_new(INPUTS, constants, CONSTANTS, code, count, outputs, OUTPUTS, NULL);
  if (!tape)
    return 0;
  double *scratch = malloc(ett_tape_registers(tape) * ETT_TAPE_LANES * sizeof *scratch);
  double out[OUTPUTS], cells[OUTPUTS];
  const double *columns[INPUTS] = {NULL};
  double *results[OUTPUTS] = {cells, cells + 1, cells + 2};
  ett_interval box[INPUTS], bounds[OUTPUTS];
  for (int i = 0; i < INPUTS; i++)
    box[i] = (ett_interval){inputs[i] / 2, inputs[i] * 2};
  ett_tape_evaluate(tape, inputs, out, scratch);
  ett_tape_evaluate_columns(tape, 1, columns, inputs, results, scratch);
  ett_tape_bound(tape, box, bounds, (ett_interval *)(void *)scratch);
  for (int i = 0; i < OUTPUTS; i++) {
    if (!same(out[i], cells[i]))
      abort();
    if (bounds[i].low > bounds[i].high)
      abort();
  }
  ett_variable v = {.domain = ETT_DOMAIN_INTEGER, .input = 1, .low = 1, .high = 9};
  ett_search_options options = {.boxes = 50};
  ett_search_result result;
  double at[INPUTS];
  memcpy(at, inputs, sizeof at);
  ett_search_run(tape, at, &v, 1, &options, &result, NULL);
  free(scratch);
  ett_tape_free(tape);
  return 0;
}
