/* ledger_test.c - tapes of operations and their search, without Lua. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ledger/search.h"
#include "ledger/tape.h"

static void tape_gives_the_operations_bits(void **state) {
  (void)state;
  static const double points[][2] = {{3, 7}, {0.1, 1e9}, {1e-9, 3}, {12, 12}, {5, 0.3}};
  ett_instruction code[ETT_OPS];
  uint32_t outputs[ETT_OPS];
  for (uint32_t op = 0; op < ETT_OPS; op++) {
    code[op] = (ett_instruction){(ett_op)op, 0, 1, 0};
    outputs[op] = 2 + op;
  }
  ett_tape *tape = ett_tape_new(2, NULL, 0, code, ETT_OPS, outputs, ETT_OPS, NULL);
  assert_non_null(tape);
  assert_int_equal(ett_tape_inputs(tape), 2);
  double *scratch = calloc(ett_tape_registers(tape) * ETT_TAPE_LANES, sizeof *scratch);
  double results[ETT_OPS], column[2][37], out[ETT_OPS][37];
  for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
    ett_tape_evaluate(tape, points[p], results, scratch);
    const double *columns[2] = {column[0], column[1]};
    double *wanted[ETT_OPS];
    for (int i = 0; i < 37; i++) {
      column[0][i] = points[p][0];
      column[1][i] = points[p][1];
    }
    for (size_t j = 0; j < ETT_OPS; j++)
      wanted[j] = out[j];
    ett_tape_evaluate_columns(tape, 37, columns, points[p], wanted, scratch);
    for (size_t j = 0; j < ETT_OPS; j++) {
      double value = ett_op_value((ett_op)j, points[p][0], points[p][1], points[p][0]);
      assert_memory_equal(&value, &results[j], sizeof value);
      assert_memory_equal(&value, &out[j][0], sizeof value);
      assert_memory_equal(&value, &out[j][36], sizeof value);
    }
  }
  free(scratch);
  ett_tape_free(tape);
}

static void a_register_that_comes_later_is_refused(void **state) {
  (void)state;
  ett_instruction code = {ETT_OP_ADD, 0, 1, 0};
  uint32_t output = 1;
  ett_err err = {0};
  assert_null(ett_tape_new(1, NULL, 0, &code, 1, &output, 1, &err));
  assert_int_equal(err.code, ETT_ERR_ARGUMENT);
  code.b = 0;
  output = 2;
  assert_null(ett_tape_new(1, NULL, 0, &code, 1, &output, 1, &err));
  output = 1;
  code.op = ETT_OPS;
  assert_null(ett_tape_new(1, NULL, 0, &code, 1, &output, 1, &err));
}

/* (x - 37)^2 + (y - 5)^2 over whole numbers with x y <= 100: the nearest to (37, 5) is
 * (20, 5) or (25, 4) or ...; compared with all of them. x must be even. */
static void search_equals_brute_force(void **state) {
  (void)state;
  static const double constants[] = {37, 5, 2, 0};               /* registers 2 to 5 */
  static const ett_instruction code[] = {{ETT_OP_SUB, 0, 2, 0},  /* 6: x - 37 */
                                         {ETT_OP_SUB, 1, 3, 0},  /* 7: y - 5 */
                                         {ETT_OP_MUL, 6, 6, 0},  /* 8 */
                                         {ETT_OP_MUL, 7, 7, 0},  /* 9 */
                                         {ETT_OP_ADD, 8, 9, 0},  /* 10: the distance */
                                         {ETT_OP_MOD, 0, 4, 0},  /* 11: x modulo 2 */
                                         {ETT_OP_EQ, 11, 5, 0}}; /* 12 */
  static const uint32_t outputs[] = {10, 12};
  ett_tape *tape =
      ett_tape_new(2, constants, 4, code, sizeof code / sizeof *code, outputs, 2, NULL);
  double best = INFINITY, inputs[2] = {1, 1}, scratch[64], out[2];
  for (int i = 1; i <= 100; i++)
    for (int j = 1; i * j <= 100; j++) {
      double at[2] = {i, j};
      ett_tape_evaluate(tape, at, out, scratch);
      if (out[1] != 0 && out[0] < best)
        best = out[0];
    }
  ett_variable variables[2] = {
      {.domain = ETT_DOMAIN_INTEGER, .input = 0, .low = 1, .high = 100, .factor = true},
      {.domain = ETT_DOMAIN_INTEGER, .input = 1, .low = 1, .high = 100, .factor = true}};
  ett_search_options options = {.boxes = 100000, .product_limit = 100};
  ett_search_result result;
  assert_int_equal(ett_search_run(tape, inputs, variables, 2, &options, &result, NULL),
                   0);
  assert_true(result.found && result.proven);
  assert_true(result.best == best && result.bound == best);
  options.boxes = 1; /* given up: says so, and its bound still holds */
  assert_int_equal(ett_search_run(tape, inputs, variables, 2, &options, &result, NULL),
                   0);
  assert_false(result.proven);
  assert_true(result.bound <= best);
  ett_err err = {0};
  variables[0].low = -3;
  assert_int_equal(ett_search_run(tape, inputs, variables, 2, &options, &result, &err),
                   -1);
  assert_int_equal(err.code, ETT_ERR_ARGUMENT);
  ett_tape_free(tape);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tape_gives_the_operations_bits),
      cmocka_unit_test(a_register_that_comes_later_is_refused),
      cmocka_unit_test(search_equals_brute_force),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
