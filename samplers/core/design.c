#include "samplers/core/design.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHAPES = 4000, MOST_SURFACES = 4 };

struct ett_sample_design {
  size_t count, surfaces;
  double *weight;
  double *covariance[MOST_SURFACES]; /* count x count */
  double noise2[MOST_SURFACES];      /* noise variance of a measurement */
  double *column;                    /* scratch of take() */
};

ett_sample_design *ett_sample_design_new(size_t count, const double *weight,
                                         ett_err *err) {
  if (count < 1 || count > MOST_SHAPES) {
    ett_err_set(err, ETT_ERR_ARGUMENT, "a design needs 1 to %d shapes, got %zu",
                MOST_SHAPES, count);
    return NULL;
  }
  ett_sample_design *d = calloc(1, sizeof *d);
  if (d) {
    d->weight = malloc(count * sizeof *d->weight);
    d->column = malloc(count * sizeof *d->column);
  }
  if (!d || !d->weight || !d->column) {
    ett_sample_design_free(d);
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  d->count = count;
  for (size_t i = 0; i < count; i++)
    d->weight[i] = weight ? weight[i] : 1;
  return d;
}

int ett_sample_design_add(ett_sample_design *d, const ett_sample_surface *surface,
                          const double *points, ett_err *err) {
  if (d->surfaces == MOST_SURFACES)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a design takes at most %d surfaces",
                       MOST_SURFACES);
  double *covariance = malloc(d->count * d->count * sizeof *covariance);
  if (!covariance)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  if (ett_sample_surface_covariance(surface, points, d->count, covariance, err) != 0) {
    free(covariance);
    return -1;
  }
  const double noise = ett_sample_surface_noise(surface);
  d->noise2[d->surfaces] = noise * noise;
  d->covariance[d->surfaces++] = covariance;
  return 0;
}

/* Variance of a measurement at a shape; never zero, so that it can divide. */
static double measured_variance(const ett_sample_design *d, size_t s, size_t i) {
  const double variance = d->covariance[s][i * d->count + i] + d->noise2[s];
  return variance > 1e-18 ? variance : 1e-18;
}

size_t ett_sample_design_best(const ett_sample_design *d, const unsigned char *open) {
  const size_t n = d->count;
  size_t best = n;
  double most = -1;
  for (size_t i = 0; i < n; i++) {
    if (!open[i])
      continue;
    double gain = 0;
    for (size_t s = 0; s < d->surfaces; s++) {
      const double *row = d->covariance[s] + i * n;
      double sum = 0;
      for (size_t j = 0; j < n; j++)
        sum += d->weight[j] * row[j] * row[j];
      gain += sum / measured_variance(d, s, i);
    }
    if (gain > most) {
      most = gain;
      best = i;
    }
  }
  return best;
}

void ett_sample_design_take(ett_sample_design *d, size_t shape) {
  const size_t n = d->count;
  for (size_t s = 0; s < d->surfaces; s++) {
    double *covariance = d->covariance[s];
    const double scale = 1 / measured_variance(d, s, shape);
    memcpy(d->column, covariance + shape * n, n * sizeof *d->column);
    for (size_t i = 0; i < n; i++) {
      const double factor = scale * d->column[i];
      double *row = covariance + i * n;
      for (size_t j = 0; j < n; j++)
        row[j] -= factor * d->column[j];
    }
  }
}

double ett_sample_design_deviation(const ett_sample_design *d, size_t surface,
                                   size_t shape) {
  const double variance = d->covariance[surface][shape * d->count + shape];
  return variance > 0 ? sqrt(variance) : 0;
}

void ett_sample_design_free(ett_sample_design *d) {
  if (!d)
    return;
  for (size_t s = 0; s < d->surfaces; s++)
    free(d->covariance[s]);
  free(d->weight);
  free(d->column);
  free(d);
}
