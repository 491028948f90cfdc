/* The memory of the CPU back end's pool, on a machine whose memory this test decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs these before it */
#include <cmocka.h>
#include <string.h>

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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_shape_may_be_visited_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
