/* Parts of runtime/step that no binding calls directly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "step/demand.h"
#include "step/pipeline/order.h"
#include "step/pipeline/pipeline.h"
#include "step/program.h"
#include "step/step.h"

static void finds_each_demand_once(void **state) {
  (void)state;
  ett_err err;
  ett_demands *d = ett_demands_new();
  assert_non_null(d);
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 5000; i++) {
      const ett_placement place = {.ranks = i % 7 + 1, .tiers = 2};
      ett_demand demand = {.kind = (ett_demand_kind)(i % 4),
                           .amount = i / 4 * 0.5 + 1,
                           .place = &place,
                           .element_bytes = 2};
      assert_int_equal(ett_demands_find(d, &demand, &err), i);
    }
  for (size_t i = 0; i < 5000; i++) { /* entries have copies of their placements */
    assert_int_equal(ett_demands_at(d, i)->place->ranks, i % 7 + 1);
    assert_int_equal(ett_demands_place(d, i), i % 7);
  }
  assert_int_equal(ett_demands_count(d), 5000);
  assert_int_equal(ett_demands_untimed(d, 0), 0);
  assert_int_equal(ett_demands_set(d, 0, (ett_demand_time){1, 0.5, 2}, &err), 0);
  assert_int_equal(ett_demands_untimed(d, 0), 1);
  assert_null(ett_demands_time(d, 1));
  assert_float_equal(ett_demands_time(d, 0)->high, 2, 0);
  ett_demands_free(d);
}

static void refuses_times_that_are_none(void **state) {
  (void)state;
  const ett_demand_time bad[] = {
      {-1, -1, -1}, {NAN, 0, 1}, {INFINITY, 0, INFINITY},
      {1, 2, 3},    {1, 0, 0.5}, {1, 0, INFINITY},
      {1, NAN, 2},  {1, -1, 2},
  };
  ett_err err;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(ett_time_check(bad[i], "x", &err), -1);
    assert_int_equal(err.code, ETT_ERR_ARGUMENT);
  }
  assert_int_equal(ett_time_check((ett_demand_time){0, 0, 0}, "x", &err), 0);
}

/* What a rank keeps at most, by a walk over its units, beside the sums of one turn. */
static void finds_the_peak_of_uneven_chunks(void **state) {
  (void)state;
  unsigned seed = 7;
  for (int round = 0; round < 2000; round++) {
    double weight[64];
    for (int v = 0; v < 64; v++)
      weight[v] = (double)((seed = seed * 1103515245u + 12345u) >> 16 & 7);
    ett_pipeline p = {.schedule = ETT_SCHEDULE_INTERLEAVED,
                      .stages = 2 + round % 4,
                      .chunks = 2 + round / 4 % 5};
    p.group = p.stages + round / 20 % 4;
    p.micro_batches = p.group * (1 + round / 80 % 6);
    double pairs[64] = {0};
    p.forward_hidden = p.backward_hidden = round % 3 == 0 ? pairs : NULL;
    for (int rank = 0; rank < p.stages; rank++) {
      double held = 0, most = 0;
      ett_unit units[2 * 6 * 9 * 6];
      ett_pipeline_units(&p, rank, units);
      size_t count = ett_pipeline_unit_count(&p, rank);
      size_t warm = (size_t)ett_order_warm_up(&p, rank);
      for (size_t k = 0; k < count; k++) {
        double own = weight[units[k].chunk * p.stages + rank];
        int forward = units[k].kind == ETT_UNIT_FORWARD;
        held += forward ? own : -own;
        /* The forward of a pair replaces its backward, layer by layer. */
        if (held > most && !(forward && k >= warm && p.forward_hidden))
          most = held;
      }
      assert_float_equal(ett_pipeline_peak_in_flight(&p, rank, weight, NULL, 0), most, 0);
    }
  }
}

/* Interleaved layers of two kinds: every layer on one slice, in order. */
static void lays_kinds_on_slices(void **state) {
  (void)state;
  ett_err err;
  ett_program *p = ett_program_new(2, 4, &err);
  assert_non_null(p);
  p->operations[0] = (ett_operation){.forward = {1, 1, 1}, .dense_parameters = 1};
  p->operations[1] = (ett_operation){.forward = {10, 10, 10}, .dense_parameters = 100};
  const ett_layer_kind kinds[] = {{ETT_PLACE_FIRST, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0},
                                  {ETT_PLACE_MIDDLE, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0},
                                  {ETT_PLACE_MIDDLE, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0},
                                  {ETT_PLACE_LAST, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0}};
  for (size_t k = 0; k < 4; k++) {
    p->kinds[k] = kinds[k];
    p->uses[k * 2 + (k == 2)] = 1;
  }
  ett_program_finish(p);
  assert_int_equal(ett_program_middle_layers(p), 7);
  ett_layer_sums sums[3];
  int64_t layers[3];
  const int64_t split[] = {2, 3, 2};
  assert_int_equal(ett_program_slices(p, 3, split, 2, sums, layers, &err), 0);
  assert_float_equal(sums[0].forward, 1 + 2, 0);      /* first, two of kind 1 */
  assert_float_equal(sums[1].forward, 1 + 2 * 10, 0); /* one of kind 1, two of 2 */
  assert_float_equal(sums[2].forward, 2 * 10 + 2, 0); /* two of kind 2, two last */
  assert_float_equal(sums[1].dense_parameters, 1 + 2 * 100, 0);
  assert_int_equal(layers[0] + layers[1] + layers[2], 10);
  const int64_t empty_stage[] = {7, 0, 0};
  assert_int_equal(ett_program_slices(p, 3, empty_stage, 2, sums, layers, &err), 0);
  assert_float_equal(sums[1].forward, 0, 0);
  assert_float_equal(sums[2].forward, 2, 0);
  ett_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_each_demand_once),
      cmocka_unit_test(refuses_times_that_are_none),
      cmocka_unit_test(lays_kinds_on_slices),
      cmocka_unit_test(finds_the_peak_of_uneven_chunks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
