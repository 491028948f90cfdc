/* The base's solver against laws of nonnegative least squares. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "regress/fit/nnls.h"

static double uniform(uint64_t *state) {
  return (double)(ett_random(state) >> 11) / 9007199254740992.0;
}

/* Karush-Kuhn-Tucker: x >= 0, gradient >= 0 where x = 0 and 0 where x > 0. */
static void gram_meets_kkt(void **state) {
  (void)state;
  uint64_t seed = 7;
  for (int trial = 0; trial < 200; trial++) {
    enum { P = 9, N = 30 };
    double a[N][P], y[N], gram[P * P] = {0}, c[P] = {0}, x[P], work[P * P + 3 * P];
    int set[P];
    for (int i = 0; i < N; i++) {
      y[i] = uniform(&seed) - 0.3;
      for (int j = 0; j < P; j++)
        a[i][j] = uniform(&seed) - 0.2;
    }
    for (int i = 0; i < N; i++)
      for (int j = 0; j < P; j++) {
        c[j] += a[i][j] * y[i];
        for (int k = 0; k < P; k++)
          gram[j * P + k] += a[i][j] * a[i][k];
      }
    ett_nnls_gram(gram, c, P, x, work, set);
    for (int j = 0; j < P; j++) {
      double gradient = -c[j];
      for (int k = 0; k < P; k++)
        gradient += gram[j * P + k] * x[k];
      assert_true(x[j] >= 0);
      if (x[j] > 0)
        assert_true(fabs(gradient) < 1e-6);
      else
        assert_true(gradient > -1e-6);
    }
  }
}

/* An exact nonnegative combination is found again, with a tenth of the rows far off. */
static void robust_fit_ignores_outliers(void **state) {
  (void)state;
  enum { N = 400 };
  static double design[N * 3], seconds[N];
  uint64_t seed = 3;
  for (int i = 0; i < N; i++) {
    double flops = 1e9 * (1 + 99 * uniform(&seed)),
           bytes = 1e6 * (1 + 99 * uniform(&seed));
    design[i * 3] = 1, design[i * 3 + 1] = flops, design[i * 3 + 2] = bytes;
    seconds[i] = 5e-6 + flops / 2e14 + bytes / 1.5e12;
    if (i % 10 == 0)
      seconds[i] *= 3 + uniform(&seed);
  }
  for (ett_nnls_loss loss = ETT_LOSS_ABSOLUTE; loss <= ETT_LOSS_HUBER; loss++) {
    double x[3];
    ett_err err;
    assert_int_equal(ett_nnls_fit(design, seconds, NULL, N, 3, loss, x, &err), 0);
    assert_true(fabs(x[0] / 5e-6 - 1) < 0.05);
    assert_true(fabs(x[1] * 2e14 - 1) < 0.02);
    assert_true(fabs(x[2] * 1.5e12 - 1) < 0.05);
  }
}

static void impossible_fits_are_refused(void **state) {
  (void)state;
  double design[2] = {1, 1}, seconds[2] = {1, 1}, x[1];
  ett_err err;
  assert_int_equal(ett_nnls_fit(design, seconds, NULL, 0, 1, ETT_LOSS_HUBER, x, &err),
                   -1);
  assert_int_equal(ett_nnls_fit(design, seconds, NULL, 2, 0, ETT_LOSS_HUBER, x, &err),
                   -1);
  assert_int_equal(err.code, ETT_ERR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gram_meets_kkt),
      cmocka_unit_test(robust_fit_ignores_outliers),
      cmocka_unit_test(impossible_fits_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
