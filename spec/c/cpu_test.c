/* The CPU back end's pool and its timing, on a machine whose memory and clocks this test
 * decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs these before it */
#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "samplers/core/memory.h"
#include "samplers/cpu/measure.h"

static const double machine_bytes = 130e6;
static double taken;

double __wrap_ett_sample_memory_free(const char *root);
void *__real_ett_sample_pages_new(size_t bytes);
void *__wrap_ett_sample_pages_new(size_t bytes);
void __real_ett_sample_pages_free(void *at, size_t bytes);
void __wrap_ett_sample_pages_free(void *at, size_t bytes);

double __wrap_ett_sample_memory_free(const char *root) {
  (void)root;
  return machine_bytes - taken;
}

void *__wrap_ett_sample_pages_new(size_t bytes) {
  taken += (double)bytes;
  assert_true(taken <= machine_bytes);
  return __real_ett_sample_pages_new(bytes);
}

void __wrap_ett_sample_pages_free(void *at, size_t bytes) {
  taken -= (double)bytes;
  __real_ett_sample_pages_free(at, bytes);
}

static int measure(ett_cpu_pool *pool, const char *kind, int64_t rows, ett_err *err) {
  ett_cpu_call call = {.kind = ett_cpu_find(kind), .d = {rows, 1000}};
  ett_cpu_options options = ett_cpu_default_options;
  ett_cpu_result result;
  options.max_repeats = 1;
  double raw;
  return ett_cpu_measure(pool, &call, 1, &options, &raw, 1, &result, err);
}

static void a_shape_may_be_visited_again(void **state) {
  (void)state;
  ett_err err = {0};
  ett_cpu_pool *pool = ett_cpu_pool_new(0, 1, &err);
  assert_non_null(pool);
  for (int visit = 0; visit < 3; visit++) /* 2 x 32 MB; the probe has 16 */
    assert_int_equal(measure(pool, "scale", 8000, &err), 0);
  assert_int_equal(measure(pool, "add", 6000, &err),
                   0); /* 48 MB of inputs, 24 of outputs */
  assert_int_equal(measure(pool, "scale", 12000, &err), -1);
  assert_int_equal(err.code, ETT_ERR_MEMORY);
  ett_cpu_pool_free(pool);
  assert_true(taken == 0);
}

/* Simulated clocks, in nanoseconds. Reading the wall clock takes 30, reading the thread
 * clock 1300, which is also time of the thread. Time passes on both within a call. */
static int simulated;
static int64_t wall_ns, thread_ns;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

static void pass_ns(int64_t count) {
  wall_ns += count;
  thread_ns += count;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
  if (!simulated)
    return __real_clock_gettime(id, t);
  const int64_t half = id == CLOCK_THREAD_CPUTIME_ID ? 650 : 15;
  pass_ns(half);
  const int64_t now = id == CLOCK_THREAD_CPUTIME_ID ? thread_ns : wall_ns;
  pass_ns(half);
  *t = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
  return 0;
}

static int runs, lost; /* of the kernel; the runs that lost the processor */

/* 10 us; every fourth run of the second hundred loses the processor for 2 us. */
static void run_simulated(const int64_t *d, ett_cpu_pass pass, void *const *x,
                          const double *scalar) {
  (void)d, (void)pass, (void)x, (void)scalar;
  pass_ns(10000);
  if (runs >= 100 && runs < 200 && runs % 4 == 0) {
    wall_ns += 2000;
    lost++;
  }
  runs++;
}

static void reading_the_clocks_is_no_time_of_the_kernel(void **state) {
  (void)state;
  static const ett_cpu_shape operands[] = {{"y", ETT_CPU_OUTPUT, "a"}, {NULL, 0, NULL}};
  static const ett_cpu_kind kind = {.name = "simulated",
                                    .dims = {"rows", NULL},
                                    .forward = operands,
                                    .run = run_simulated};
  const ett_cpu_call call = {.kind = &kind, .d = {64}};
  ett_cpu_options options = ett_cpu_default_options;
  options.target = -1; /* equal times do not end the repeats */
  ett_err err = {0};
  ett_cpu_pool *pool = ett_cpu_pool_new(0, 1, &err);
  assert_non_null(pool);
  simulated = 1;
  ett_cpu_result result;
  double raw[400];
  const int status = ett_cpu_measure(pool, &call, 1, &options, raw, 400, &result, &err);
  simulated = 0;
  assert_int_equal(status, 0);
  assert_int_equal(lost, 25);
  assert_int_equal(result.dropped, lost); /* groups of 3: at most one loss in each */
  assert_true(result.repeats > 60);
  assert_int_equal(result.stats.count, result.repeats - result.dropped);
  for (size_t i = 0; i < result.stats.count; i++)
    assert_true(raw[i] > 9.99e-6 && raw[i] < 10.02e-6);
  assert_int_equal(result.disturbed, 0);
  ett_cpu_pool_free(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shape_may_be_visited_again),
      cmocka_unit_test(reading_the_clocks_is_no_time_of_the_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
