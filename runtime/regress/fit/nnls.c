#include "regress/fit/nnls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/doubles.h"

/* Solves the passive part of G z = c by Cholesky; 0 when it is not positive definite. */
static int solve(const double *gram, const double *c, int size, const int *set, int count,
                 double *factor, double *z) {
  for (int i = 0; i < count; i++) {
    for (int j = 0; j <= i; j++) {
      double sum = gram[(size_t)set[i] * (size_t)size + (size_t)set[j]];
      for (int k = 0; k < j; k++)
        sum -= factor[i * size + k] * factor[j * size + k];
      if (i == j) {
        if (!(sum > 0))
          return 0;
        factor[i * size + i] = sqrt(sum);
      } else {
        factor[i * size + j] = sum / factor[j * size + j];
      }
    }
  }
  for (int i = 0; i < count; i++) {
    double sum = c[set[i]];
    for (int k = 0; k < i; k++)
      sum -= factor[i * size + k] * z[k];
    z[i] = sum / factor[i * size + i];
  }
  for (int i = count - 1; i >= 0; i--) {
    double sum = z[i];
    for (int k = i + 1; k < count; k++)
      sum -= factor[k * size + i] * z[k];
    z[i] = sum / factor[i * size + i];
  }
  return 1;
}

void ett_nnls_gram(const double *gram, const double *c, int size, double *x, double *work,
                   int *set) {
  double *factor = work, *z = work + (size_t)size * (size_t)size, *gradient = z + size;
  int count = 0;
  double largest = 0;
  for (int i = 0; i < size; i++) {
    x[i] = 0;
    largest = fmax(largest, fabs(c[i]));
  }
  char in[256] = {0};
  for (int round = 0; round < 3 * size; round++) {
    int best = -1;
    double steepest = 1e-11 * largest;
    for (int i = 0; i < size; i++) {
      if (in[i])
        continue;
      gradient[i] = c[i];
      for (int j = 0; j < count; j++)
        gradient[i] -= gram[(size_t)i * (size_t)size + (size_t)set[j]] * x[set[j]];
      if (gradient[i] > steepest) {
        steepest = gradient[i];
        best = i;
      }
    }
    if (best < 0)
      return;
    set[count++] = best;
    in[best] = 1;
    for (;;) {
      if (!solve(gram, c, size, set, count, factor,
                 z)) { /* linearly dependent: exclude it */
        in[set[--count]] = 2;
        break;
      }
      double step = 1;
      int blocked = -1;
      for (int i = 0; i < count; i++) {
        if (z[i] > 0)
          continue;
        double ratio = x[set[i]] / (x[set[i]] - z[i]);
        if (!(ratio >= step)) {
          step = ratio;
          blocked = i;
        }
      }
      if (blocked < 0) {
        for (int i = 0; i < count; i++)
          x[set[i]] = z[i];
        break;
      }
      for (int i = 0; i < count; i++)
        x[set[i]] += step * (z[i] - x[set[i]]);
      int kept = 0, newest = set[count - 1];
      for (int i = 0; i < count; i++) {
        if (i == blocked || !(x[set[i]] > 0)) {
          x[set[i]] = 0;
          in[set[i]] =
              set[i] == newest ? 2 : 0; /* a step of length 0: do not try it again */
        } else {
          set[kept++] = set[i];
        }
      }
      count = kept;
      if (count == 0)
        break;
    }
  }
}

/* Computes the weights of the next round from the residuals of this one. */
static void reweigh(double *weights, double *scratch, const double *residual,
                    const double *given, size_t rows, ett_nnls_loss loss, double e) {
  double scale = 1;
  if (loss == ETT_LOSS_HUBER) {
    for (size_t i = 0; i < rows; i++)
      scratch[i] = fabs(residual[i]);
    qsort(scratch, rows, sizeof *scratch, ett_doubles_order);
    scale = fmax(1.4826 * scratch[rows / 2], 1e-4) * 1.345;
  }
  for (size_t i = 0; i < rows; i++) {
    double w = given ? given[i] : 1, r = fabs(residual[i]);
    if (loss == ETT_LOSS_ABSOLUTE)
      w /= sqrt(r * r + e * e);
    else if (loss == ETT_LOSS_HUBER && r > scale)
      w *= scale / r;
    weights[i] = w;
  }
}

/* Number of rows that a loop adds at once. Each sum still adds its rows in their order.
 */
enum { TOGETHER = 4 };

static void add_rows(const double *restrict row, const double *weights, size_t p,
                     double *restrict gram, double *c, double *total) {
  for (int r = 0; r < TOGETHER; r++)
    *total += weights[r];
  for (size_t j = 0; j < p; j++) {
    double w[TOGETHER], any = 0;
    for (int r = 0; r < TOGETHER; r++) {
      w[r] = weights[r] * row[(size_t)r * p + j];
      c[j] += w[r];
      any += fabs(w[r]);
    }
    for (size_t k = 0; any != 0 && k <= j; k++) {
      double sum = gram[j * p + k];
      for (int r = 0; r < TOGETHER; r++)
        sum += w[r] * row[(size_t)r * p + k];
      gram[j * p + k] = sum;
    }
  }
}

/* residual[i] is the product of row i and x, minus 1. After the last row there may be up
 * to three rows of zeros. */
static void find_residuals(const double *row, const double *x, size_t rows, size_t p,
                           double *residual) {
  for (size_t i = 0; i < rows; i += TOGETHER, row += TOGETHER * p) {
    double sum[TOGETHER] = {-1, -1, -1, -1};
    for (size_t j = 0; j < p; j++)
      for (size_t r = 0; r < TOGETHER; r++)
        sum[r] += row[r * p + j] * x[j];
    memcpy(residual + i, sum, sizeof sum);
  }
}

int ett_nnls_fit(const double *design, const double *seconds, const double *weight,
                 size_t rows, int columns, ett_nnls_loss loss, double *x, ett_err *err) {
  if (columns < 1 || columns > 200 || rows == 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a fit takes rows and 1 to 200 columns");
  size_t p = (size_t)columns;
  const size_t room = rows + TOGETHER; /* rows of zeros behind the last */
  double *store = calloc(room * (p + 3) + 2 * p * p + 5 * p, sizeof *store);
  int *set = malloc(p * sizeof *set);
  if (!store || !set) {
    free(store), free(set);
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", rows);
  }
  double *a = store, *weights = a + room * p, *residual = weights + room,
         *scratch = residual + room, *gram = scratch + room, *work = gram + p * p,
         *c = work + p * p + 3 * p, *scale = c + p;
  for (size_t j = 0; j < p; j++)
    scale[j] = 0;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < p; j++) {
      a[i * p + j] = design[i * p + j] / seconds[i];
      scale[j] += a[i * p + j] * a[i * p + j];
    }
  for (size_t j = 0; j < p; j++)
    scale[j] = scale[j] > 0 ? sqrt(scale[j] / (double)rows) : 0;
  for (size_t i = 0; i < rows; i++) {
    for (size_t j = 0; j < p; j++)
      a[i * p + j] = scale[j] > 0 ? a[i * p + j] / scale[j] : 0;
    weights[i] = weight ? weight[i] : 1;
  }
  double e = 0.3;
  for (int round = 0; round < (loss == ETT_LOSS_SQUARED ? 1 : 12); round++) {
    double total = 0;
    memset(gram, 0, p * p * sizeof *gram);
    memset(c, 0, p * sizeof *c);
    for (size_t i = 0; i < rows; i += TOGETHER)
      add_rows(a + i * p, weights + i, p, gram, c, &total);
    for (size_t j = 0; j < p; j++) {
      for (size_t k = 0; k < j; k++)
        gram[k * p + j] = gram[j * p + k];
      gram[j * p + j] += 1e-8 * total;
    }
    ett_nnls_gram(gram, c, columns, x, work, set);
    find_residuals(a, x, rows, p, residual);
    e = fmax(0.005, 0.6 * e);
    reweigh(weights, scratch, residual, weight, rows, loss, e);
  }
  int finite = 1;
  for (size_t j = 0; j < p; j++) {
    x[j] = scale[j] > 0 ? x[j] / scale[j] : 0;
    finite = finite && isfinite(x[j]);
  }
  free(store);
  free(set);
  return finite ? 0
                : ett_err_set(err, ETT_ERR_INTERNAL, "the fit of the base is not finite");
}
