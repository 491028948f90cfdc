#include <stdlib.h>

#include "samplers/core/surface_kernel.h"

/* Points as the surface's own are kept; NULL with err set. */
static double *scaled(const ett_sample_surface *s, const double *points, size_t count,
                      ett_err *err) {
  double *x = malloc((count * s->width + 1) * sizeof *x);
  if (!x) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  for (size_t i = 0; i < count * s->width; i++) {
    const size_t d = i % s->width;
    x[i] = (points[i] - s->centre[d]) / s->spread[d];
  }
  return x;
}

static double dot(const double *a, const double *b, size_t n) {
  double sum[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (size_t k = 0; k < 4; k++)
      sum[k] += a[i + k] * b[i + k];
  for (; i < n; i++)
    sum[0] += a[i] * b[i];
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

int ett_sample_surface_covariance(const ett_sample_surface *s, const double *points,
                                  size_t count, double *covariance, ett_err *err) {
  const size_t n = s->count, w = s->width;
  double *x = scaled(s, points, count, err);
  if (!x)
    return -1;
  double *v = malloc((count * n + 1) * sizeof *v); /* rows: L^-1 k of each point */
  if (!v) {
    free(x);
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  }
  for (size_t i = 0; i < count; i++) {
    double *row = v + i * n;
    for (size_t k = 0; k < n; k++) {
      const double *l = s->factor + k * n;
      row[k] =
          (ett_sample_surface_kernel(s, x + i * w, s->x + k * w) - dot(l, row, k)) / l[k];
    }
  }
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j <= i; j++) {
      const double shared = ett_sample_surface_kernel(s, x + i * w, x + j * w) -
                            dot(v + i * n, v + j * n, n);
      covariance[i * count + j] = covariance[j * count + i] = s->amplitude2 * shared;
    }
  free(x);
  free(v);
  return 0;
}

int ett_sample_surface_grid_deviation(const ett_sample_surface *s, const double *points,
                                      size_t count, double noisier, double *deviation,
                                      ett_err *err) {
  const double noise2 = noisier * s->noise2;
  const size_t n = count, w = s->width;
  double *x = scaled(s, points, count, err);
  if (!x)
    return -1;
  double *l = malloc((n * n + 1) * sizeof *l), *column = malloc((n + 1) * sizeof *column);
  if (!l || !column) {
    free(x);
    free(l);
    free(column);
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  }
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) {
      const double v = ett_sample_surface_kernel(s, x + i * w, x + j * w) +
                       (i == j ? noise2 : 0) - dot(l + i * n, l + j * n, j);
      l[i * n + j] = i == j ? sqrt(v > 1e-12 ? v : 1e-12) : v / l[j * n + j];
    }
  /* (K^-1)_ii is the squared length of column i of L^-1. */
  for (size_t i = 0; i < n; i++) {
    for (size_t k = i; k < n; k++)
      column[k] = ((k == i) - dot(l + k * n + i, column + i, k - i)) / l[k * n + k];
    const double left = 1 / dot(column + i, column + i, n - i) - noise2;
    deviation[i] = sqrt(s->amplitude2 * ((left > 0 ? left : 0) + s->noise2));
  }
  free(x);
  free(l);
  free(column);
  return 0;
}
