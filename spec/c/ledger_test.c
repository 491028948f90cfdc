/* ledger_test.c - the ledger's C core without Lua: graph, tape, primitives, search. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ledger/ledger.h"
#include "ledger/search.h"
#include "ledger/tape.h"

static ett_node number(ett_graph *g, double value) {
  return ett_graph_constant(g, value, NULL);
}

static void graph_folds_and_shares(void **state) {
  (void)state;
  ett_graph *g = ett_graph_new();
  ett_err err = {0};
  ett_node x = ett_graph_parameter(g, "x", 3, &err);
  assert_int_equal(x, ett_graph_parameter(g, "x", 3, &err));
  assert_int_equal(ett_graph_parameter(g, "x", 4, &err), -1);
  assert_int_equal(err.code, ETT_ERR_ARGUMENT);
  ett_node sum = ett_graph_apply(g, ETT_OP_ADD, x, number(g, 2), -1, NULL);
  assert_int_equal(sum, ett_graph_apply(g, ETT_OP_ADD, x, number(g, 2), -1, NULL));
  assert_true(ett_graph_value(g, sum) == 5);
  assert_int_equal(x, ett_graph_apply(g, ETT_OP_MUL, x, number(g, 1), -1, NULL));
  assert_int_equal(x, ett_graph_apply(g, ETT_OP_ADD, number(g, 0), x, -1, NULL));
  ett_node folded = ett_graph_apply(g, ETT_OP_POW, number(g, 2), number(g, 10), -1, NULL);
  assert_int_equal(ett_graph_op(g, folded), ETT_OP_CONSTANT);
  assert_true(ett_graph_value(g, folded) == 1024);
  assert_int_equal(ett_graph_apply(g, ETT_OP_ADD, x, -1, -1, NULL), -1);
  /* Many nodes: tables grow, and every one is still found. */
  ett_node chain = x;
  for (int i = 0; i < 5000; i++)
    chain = ett_graph_apply(g, ETT_OP_ADD, chain, number(g, i + 2), -1, NULL);
  size_t size = ett_graph_size(g);
  ett_node again = x;
  for (int i = 0; i < 5000; i++)
    again = ett_graph_apply(g, ETT_OP_ADD, again, number(g, i + 2), -1, NULL);
  assert_int_equal(chain, again);
  assert_int_equal(size, ett_graph_size(g));
  ett_graph_free(g);
}

static void tape_gives_the_graphs_bits(void **state) {
  (void)state;
  static const double points[][2] = {{3, 7}, {0.1, 1e9}, {1e-9, 3}, {12, 12}, {5, 0.3}};
  ett_graph *g = ett_graph_new();
  ett_node x = ett_graph_parameter(g, "x", 3, NULL),
           y = ett_graph_parameter(g, "y", 7, NULL);
  ett_node outputs[ETT_OP_SELECT + 1];
  size_t count = 0;
  for (int op = ETT_OP_ADD; op <= ETT_OP_SELECT; op++)
    outputs[count++] = ett_graph_apply(g, (ett_op)op, x, y, x, NULL);
  ett_tape *tape = ett_tape_new(g, outputs, count, NULL);
  assert_non_null(tape);
  assert_int_equal(ett_tape_inputs(tape), 2);
  double *scratch = calloc(ett_tape_registers(tape) * ETT_TAPE_LANES, sizeof *scratch);
  double results[ETT_OP_SELECT + 1];
  double column[2][37], out[ETT_OP_SELECT + 1][37];
  for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
    ett_tape_evaluate(tape, points[p], results, scratch);
    const double *columns[2] = {column[0], column[1]};
    double *wanted[ETT_OP_SELECT + 1];
    for (int i = 0; i < 37; i++) {
      column[0][i] = points[p][0];
      column[1][i] = points[p][1];
    }
    for (size_t j = 0; j < count; j++)
      wanted[j] = out[j];
    ett_tape_evaluate_columns(tape, 37, columns, points[p], wanted, scratch);
    for (size_t j = 0; j < count; j++) {
      double value = ett_op_value((ett_op)(ETT_OP_ADD + j), points[p][0], points[p][1],
                                  points[p][0]);
      assert_memory_equal(&value, &results[j], sizeof value);
      assert_memory_equal(&value, &out[j][0], sizeof value);
      assert_memory_equal(&value, &out[j][36], sizeof value);
    }
  }
  free(scratch);
  ett_tape_free(tape);
  ett_graph_free(g);
}

static void primitives_cost_what_their_rules_say(void **state) {
  (void)state;
  ett_ledger *l = ett_ledger_new();
  ett_graph *g = ett_ledger_graph(l);
  int data = ett_ledger_axis(l, "data", number(g, 4), false, NULL);
  int tensor = ett_ledger_axis(l, "tensor", number(g, 8), false, NULL);
  int sample = ett_ledger_dimension(l, "sample", number(g, 100), data, -1, false, NULL);
  int width = ett_ledger_dimension(l, "width", number(g, 16), tensor, -1, true, NULL);
  int inner = ett_ledger_dimension(l, "inner", number(g, 3), -1, -1, false, NULL);
  int w = ett_ledger_tensor(l, "w", 1u << width | 1u << inner, 1u << data, NULL);
  int x = ett_ledger_tensor(l, "x", 1u << sample | 1u << width, 0, NULL);
  ett_err err = {0};
  assert_int_equal(ett_ledger_multiply(l, x, w, &err), -1); /* w is scattered */
  assert_int_equal(err.code, ETT_ERR_ARGUMENT);
  int copy = ett_ledger_broadcast(l, w, 0, NULL);      /* I = 48, J = 1, K = 4 */
  int product = ett_ledger_multiply(l, x, copy, NULL); /* 100 x 16 x 3 */
  int sum =
      ett_ledger_reduce(l, product, width, -1, -1, NULL); /* I = 300, J = 16, K = 8 */
  assert_true(sum >= 0);
  static const double counts[3][ETT_COUNTS] = {
      {0, 48, 144, 144, 144, 144},
      {4800, 0, 0, 19200, 0, 0},
      {4500, 2100, 2100, 0, 300, 2100},
  };
  size_t count;
  const ett_entry *entries = ett_ledger_entries(l, &count);
  assert_int_equal(count, 3);
  for (int e = 0; e < 3; e++)
    for (int i = 0; i < ETT_COUNTS; i++)
      assert_true(ett_graph_value(g, entries[e].counts[i]) == counts[e][i]);
  assert_true(ett_graph_value(g, ett_ledger_tensor_local(l, sum, NULL)) == 75 / 8.0);
  /* 75 elements do not divide by 8: told, not fatal. */
  bool told = false;
  const ett_check *checks = ett_ledger_checks(l, &count);
  for (size_t i = 0; i < count; i++)
    told |= ett_graph_value(g, checks[i].ok) == 0;
  assert_true(told);
  assert_int_equal(ett_ledger_reduce(l, sum, width, -1, -1, &err), -1);
  assert_int_equal(ett_ledger_reduce(l, 99, width, -1, -1, &err), -1);
  assert_int_equal(ett_ledger_close(l, &err), -1);
  ett_ledger_free(l);
}

static void a_ledger_says_when_it_is_full(void **state) {
  (void)state;
  ett_ledger *l = ett_ledger_new();
  ett_graph *g = ett_ledger_graph(l);
  char name[16];
  ett_err err = {0};
  for (int i = 0; i <= ETT_LEDGER_MAX; i++) {
    snprintf(name, sizeof name, "d%d", i);
    int made = ett_ledger_dimension(l, name, number(g, 2), -1, -1, false, &err);
    assert_int_equal(made, i < ETT_LEDGER_MAX ? i : -1);
  }
  assert_int_equal(err.code, ETT_ERR_LIMIT);
  ett_ledger_free(l);
}

/* (x - 37)^2 + (y - 5)^2 over whole numbers with x y <= 100: the nearest to (37, 5) is
 * (20, 5) or (25, 4) or ...; compared with all of them. */
static void search_equals_brute_force(void **state) {
  (void)state;
  ett_graph *g = ett_graph_new();
  ett_node x = ett_graph_parameter(g, "x", 1, NULL),
           y = ett_graph_parameter(g, "y", 1, NULL);
  ett_node dx = ett_graph_apply(g, ETT_OP_SUB, x, number(g, 37), -1, NULL);
  ett_node dy = ett_graph_apply(g, ETT_OP_SUB, y, number(g, 5), -1, NULL);
  ett_node two = number(g, 2);
  ett_node distance =
      ett_graph_apply(g, ETT_OP_ADD, ett_graph_apply(g, ETT_OP_MUL, dx, dx, -1, NULL),
                      ett_graph_apply(g, ETT_OP_MUL, dy, dy, -1, NULL), -1, NULL);
  /* x must be even */
  ett_node even =
      ett_graph_apply(g, ETT_OP_EQ, ett_graph_apply(g, ETT_OP_MOD, x, two, -1, NULL),
                      number(g, 0), -1, NULL);
  ett_node outputs[2] = {distance, even};
  ett_tape *tape = ett_tape_new(g, outputs, 2, NULL);
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
  ett_graph_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(graph_folds_and_shares),
      cmocka_unit_test(tape_gives_the_graphs_bits),
      cmocka_unit_test(primitives_cost_what_their_rules_say),
      cmocka_unit_test(a_ledger_says_when_it_is_full),
      cmocka_unit_test(search_equals_brute_force),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
