#include "regress/fit/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/doubles.h"
#include "base/random.h"

double ett_work_quantile(double *values, size_t n, double q) {
  if (n == 0)
    return 0;
  qsort(values, n, sizeof *values, ett_doubles_order);
  double at = q * (double)(n - 1);
  size_t low = (size_t)at;
  double high = low + 1 < n ? values[low + 1] : values[low];
  return values[low] + (at - (double)low) * (high - values[low]);
}

int ett_work_make(ett_work *w, size_t rows, ett_err *err) {
  size_t n = rows, p = (size_t)w->columns, f = (size_t)w->features;
  w->rows = rows;
  w->store = calloc(n * (p + 11) + p + (n * (f + 1) + 1) / 2 + 2, sizeof(double));
  w->has_twin = calloc(n + 1, 1);
  w->fold = calloc(n + 1, 1);
  w->order = malloc((n + 1) * sizeof *w->order);
  if (!w->store || !w->has_twin || !w->fold || !w->order)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double *at = w->store;
  w->column = at, at += n * p;
  w->seconds = at, at += n;
  w->target = at, at += n;
  w->base = at, at += n;
  w->held_out = at, at += n;
  w->held_target = at, at += n;
  w->scratch = at, at += 2 * n;
  w->size = at, at += n;
  w->loo = at, at += n;
  w->kernel = (uint64_t *)(void *)at, at += n;
  w->x = at, at += p;
  w->weight = at, at += n;
  for (size_t i = 0; i < n; i++)
    w->weight[i] = 1;
  w->feature = (float *)(void *)at;
  w->label = w->feature + n * f;
  return 0;
}

void ett_work_drop(ett_work *w) {
  free(w->store);
  free(w->has_twin);
  free(w->fold);
  free(w->order);
  memset(w, 0, sizeof *w);
}

double ett_work_base_of(const ett_work *w, size_t i, const double *x) {
  double base = 0;
  for (size_t j = 0, p = (size_t)w->columns; j < p; j++)
    base += w->column[i * p + j] * x[j];
  return base;
}

double ett_work_target_of(const ett_work *w, size_t i, const double *x) {
  double base = w->config->base ? ett_work_base_of(w, i, x) : 1;
  if (w->config->log_target)
    return log(w->seconds[i]) - log(base > 0 ? base : w->base[i]);
  return w->seconds[i] - (w->config->base ? base : 0);
}

int ett_work_base(ett_work *w, const double *weight, ett_err *err) {
  if (w->config->base && ett_nnls_fit(w->column, w->seconds, weight, w->rows, w->columns,
                                      w->config->loss, w->x, err) != 0)
    return -1;
  for (size_t i = 0; i < w->rows; i++) {
    double sum = w->config->base ? ett_work_base_of(w, i, w->x) : 1;
    w->base[i] = sum > 0 ? sum : w->seconds[i];
    if (w->config->log_target)
      w->target[i] = log(w->seconds[i]) - log(w->base[i]);
    else
      w->target[i] = w->seconds[i] - (w->config->base ? w->base[i] : 0);
  }
  return 0;
}

static int by_kernel(const void *a, const void *b, void *work) {
  const ett_work *w = work;
  size_t i = *(const size_t *)a, j = *(const size_t *)b;
  uint64_t x = w->kernel[i], y = w->kernel[j];
  return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

static void sort_by_kernel(ett_work *w) {
  for (size_t i = 0; i < w->rows; i++)
    w->order[i] = i;
  qsort_r(w->order, w->rows, sizeof *w->order, by_kernel, w);
}

double ett_work_group_median(const ett_work *w, const double *target, size_t from,
                             size_t to, double *sorted) {
  for (size_t i = from; i < to; i++)
    sorted[i - from] = target[w->order[i]];
  return ett_work_quantile(sorted, to - from, 0.5);
}

typedef struct {
  uint64_t key;
  size_t from, to; /* in w->order */
} group;

static int by_key(const void *a, const void *b) {
  uint64_t x = ((const group *)a)->key, y = ((const group *)b)->key;
  return (x > y) - (x < y);
}

/* Deals the kernels to the folds in turn, in an order that their hashes decide. */
static int deal_folds(ett_work *w, ett_err *err) {
  group *groups = malloc((w->rows + 1) * sizeof *groups);
  size_t count = 0;
  if (!groups)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", w->rows);
  for (size_t from = 0, to; from < w->rows; from = to, count++) {
    to = ett_work_group_end(w, from);
    groups[count] = (group){ett_mix64(w->kernel[w->order[from]]), from, to};
  }
  qsort(groups, count, sizeof *groups, by_key);
  size_t most = (size_t)(w->config->folds > 1 ? w->config->folds : 1);
  size_t folds = count < most ? count : most;
  w->folds = (int)(folds ? folds : 1);
  for (size_t g = 0; g < count; g++)
    for (size_t i = groups[g].from; i < groups[g].to; i++)
      w->fold[w->order[i]] = (unsigned char)(g % folds);
  free(groups);
  return 0;
}

double ett_work_median_without(const double *sorted, size_t n, double value) {
  size_t low = (n - 2) / 2, high = (n - 1) / 2;
  double a = sorted[low + (sorted[low] >= value)];
  double b = sorted[high + (sorted[high] >= value)];
  return a + 0.5 * (b - a);
}

size_t ett_work_group_end(const ett_work *w, size_t from) {
  size_t to = from + 1;
  while (to < w->rows && w->kernel[w->order[to]] == w->kernel[w->order[from]])
    to++;
  return to;
}

double ett_work_cost(const ett_work *w, double residual, size_t i) {
  return w->config->log_target ? fabs(expm1(fmin(residual, 50)))
                               : fabs(residual) / fmax(fabs(w->seconds[i]), 1e-30);
}

int ett_work_fill(ett_work *w, const double *dims, const double *seconds,
                  const unsigned char *kinds, size_t rows, ett_err *err) {
  size_t d = (size_t)w->design->dims, at = 0;
  for (size_t i = 0; i < rows; i++) {
    if (kinds && kinds[i])
      continue;
    const double *x = dims + i * d;
    ett_design_row(w->design, x, w->column + at * (size_t)w->columns,
                   w->feature + at * (size_t)w->features);
    w->seconds[at] = seconds[i];
    w->size[at] = ett_design_size(w->design, x);
    w->kernel[at++] = ett_design_kernel(w->design, x);
  }
  sort_by_kernel(w);
  return deal_folds(w, err);
}
