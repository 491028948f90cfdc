/* The laws of collectives over links: factors, monotonicity, sharing, faults. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/comm.h"

static const ett_comm_links links = {.intra_bandwidth = 200e9,
                                     .intra_latency = 3e-6,
                                     .inter_per_gpu = 25e9,
                                     .inter_per_node = 100e9,
                                     .inter_latency = 1e-5,
                                     .base_latency = 5e-6};

static double seconds(ett_comm_kind kind, double bytes, int64_t nodes, int64_t ranks,
                      int64_t groups) {
  ett_comm_group group = {nodes, ranks, groups};
  ett_comm_time time;
  ett_err err;
  assert_int_equal(ett_comm_estimate(&links, kind, bytes, &group, &time, &err), 0);
  return time.seconds;
}

static void factors_are_those_of_nccl_tests(void **state) {
  (void)state;
  for (int64_t n = 2; n <= 4096; n *= 2) {
    double share = (double)(n - 1) / (double)n;
    assert_true(fabs(ett_comm_factor(ETT_COMM_ALL_REDUCE, n) - 2 * share) < 1e-15);
    assert_true(fabs(ett_comm_factor(ETT_COMM_ALL_GATHER, n) - share) < 1e-15);
    assert_true(fabs(ett_comm_factor(ETT_COMM_ALL_TO_ALL, n) - share) < 1e-15);
    assert_true(ett_comm_factor(ETT_COMM_BROADCAST, n) == 1);
  }
  assert_true(ett_comm_factor(ETT_COMM_ALL_REDUCE, 1) == 0);
}

static void all_reduce_is_reduce_scatter_and_all_gather(void **state) {
  (void)state;
  double bytes = 1e11; /* a ring, far above latency */
  double both = seconds(ETT_COMM_REDUCE_SCATTER, bytes, 4, 8, 1) +
                seconds(ETT_COMM_ALL_GATHER, bytes, 4, 8, 1);
  double one = seconds(ETT_COMM_ALL_REDUCE, bytes, 4, 8, 1);
  assert_true(fabs(both - one) < 1e-3 * one);
}

static void more_bytes_take_longer(void **state) {
  (void)state;
  for (int kind = 0; kind < ETT_COMM_KINDS; kind++)
    for (int64_t nodes = 1; nodes <= 64; nodes *= 4) {
      double last = 0;
      for (double bytes = 1; bytes < 1e12; bytes *= 7) {
        double now = seconds((ett_comm_kind)kind, bytes, nodes, 8, 1);
        assert_true(now > last && isfinite(now));
        last = now;
      }
    }
}

/* A ring of 4 x 8 ranks has 31 steps, 4 of them over the network; all_reduce goes round
 * twice, and its tree takes 7 steps inside and 2 across, up and down. */
static void small_messages_take_the_steps(void **state) {
  (void)state;
  double gather = seconds(ETT_COMM_ALL_GATHER, 1e-6, 4, 8, 1);
  assert_true(fabs(gather - (5e-6 + 27 * 3e-6 + 4 * 1e-5)) < 1e-12);
  double reduce = seconds(ETT_COMM_ALL_REDUCE, 1e-6, 4, 8, 1);
  assert_true(fabs(reduce - (5e-6 + 2 * (7 * 3e-6 + 2 * 1e-5))) < 1e-12);
  double inside = seconds(ETT_COMM_ALL_GATHER, 1e-6, 1, 8, 1);
  assert_true(fabs(inside - (5e-6 + 7 * 3e-6)) < 1e-12);
}

static void groups_share_the_node(void **state) {
  (void)state;
  double alone = seconds(ETT_COMM_ALL_REDUCE, 1e12, 8, 1, 1);
  double crowded = seconds(ETT_COMM_ALL_REDUCE, 1e12, 8, 1, 8);
  assert_true(fabs(crowded / alone - 2) < 1e-3); /* 25 against 100 / 8 GB/s */
}

static void a_curve_is_read_between_its_points(void **state) {
  (void)state;
  ett_comm_curve curve = {2, {1e6, 1e8}, {10e9, 90e9}};
  assert_true(fabs(ett_comm_curve_at(&curve, 1e7, 0) - 30e9) < 1);
  assert_true(fabs(ett_comm_curve_at(&curve, 1e9, 0) - 90e9) < 1);
  /* below: the line through (1 MB, 100 us) and (100 MB, 1111.1 us) */
  double slope = (1e8 / 90e9 - 1e-4) / 99e6;
  assert_true(fabs(1e5 / ett_comm_curve_at(&curve, 1e5, 0) - (1e-4 - slope * 9e5)) <
              1e-12);
  /* a curve whose bandwidth falls has no negative latency */
  ett_comm_curve falling = {2, {1e6, 2e6}, {10e9, 5e9}};
  assert_true(fabs(ett_comm_curve_at(&falling, 1e5, 0) - 10e9) < 1);
}

static void faults_are_said(void **state) {
  (void)state;
  ett_comm_group group = {2, 8, 1};
  ett_comm_time time;
  ett_err err;
  assert_int_equal(
      ett_comm_estimate(&links, ETT_COMM_ALL_REDUCE, NAN, &group, &time, &err), -1);
  assert_int_equal(err.code, ETT_ERR_ARGUMENT);
  ett_comm_links none = {0};
  assert_int_equal(ett_comm_estimate(&none, ETT_COMM_ALL_REDUCE, 1, &group, &time, &err),
                   -1);
  assert_int_equal(err.code, ETT_ERR_MISSING);
  group.nodes = 0;
  assert_int_equal(ett_comm_estimate(&links, ETT_COMM_ALL_REDUCE, 1, &group, &time, &err),
                   -1);
  assert_int_equal(ett_comm_kind_of("all_reduse"), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(factors_are_those_of_nccl_tests),
      cmocka_unit_test(all_reduce_is_reduce_scatter_and_all_gather),
      cmocka_unit_test(more_bytes_take_longer),
      cmocka_unit_test(small_messages_take_the_steps),
      cmocka_unit_test(groups_share_the_node),
      cmocka_unit_test(a_curve_is_read_between_its_points),
      cmocka_unit_test(faults_are_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
