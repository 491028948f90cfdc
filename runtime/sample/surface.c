#include "sample/surface.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WIDTH = 16 };
static const double length_range[2] = {0.05, 60.0}, noise2_range[2] = {1e-6, 0.5};

struct ett_sample_surface {
  size_t count, width;
  double *x;      /* count x width, scaled to unit spread */
  double *y;      /* centred */
  double *doubt;  /* factors of noise2 */
  double *factor; /* lower Cholesky factor of the kernel matrix */
  double *weight; /* inverse kernel matrix times y */
  double centre[MOST_WIDTH], spread[MOST_WIDTH], length[MOST_WIDTH];
  double mean, amplitude2, noise2;
};

static double kernel(const ett_sample_surface *s, const double *a, const double *b) {
  double sum = 0;
  for (size_t d = 0; d < s->width; d++) {
    const double u = (a[d] - b[d]) / s->length[d];
    sum += u * u;
  }
  const double r = sqrt(3 * sum);
  return (1 + r) * exp(-r);
}

/* Factors K + noise2 diag(doubt) and solves for the weights. Returns minus the log
 * marginal likelihood up to a constant, the amplitude being its best value; INFINITY when
 * the matrix is not positive definite. */
static double factorise(ett_sample_surface *s) {
  const size_t n = s->count;
  double *l = s->factor, logdet = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) {
      double v = kernel(s, s->x + i * s->width, s->x + j * s->width);
      v += i == j ? s->noise2 * s->doubt[i] : 0;
      for (size_t k = 0; k < j; k++)
        v -= l[i * n + k] * l[j * n + k];
      if (i == j) {
        if (!(v > 1e-12))
          return INFINITY;
        l[i * n + i] = sqrt(v);
        logdet += 2 * log(l[i * n + i]);
      } else {
        l[i * n + j] = v / l[j * n + j];
      }
    }
  memcpy(s->weight, s->y, n * sizeof *s->y);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < i; k++)
      s->weight[i] -= l[i * n + k] * s->weight[k];
    s->weight[i] /= l[i * n + i];
  }
  double quadratic = 0;
  for (size_t i = 0; i < n; i++)
    quadratic += s->weight[i] * s->weight[i];
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; k++)
      s->weight[i] -= l[k * n + i] * s->weight[k];
    s->weight[i] /= l[i * n + i];
  }
  s->amplitude2 = quadratic / (double)n + 1e-12;
  return 0.5 * logdet + 0.5 * (double)n * log(s->amplitude2);
}

/* Coordinate search over the logarithms of the lengths and of the noise. */
static void search(ett_sample_surface *s) {
  double best = factorise(s), step = 2.0;
  for (int round = 0; round < 6; round++, step = sqrt(step)) {
    for (size_t d = 0; d <= s->width; d++) {
      double *value = d < s->width ? &s->length[d] : &s->noise2;
      const double power = d < s->width ? step : step * step;
      for (int direction = 0; direction < 2; direction++) {
        const double before = *value;
        *value = direction ? before * power : before / power;
        const double *range = d < s->width ? length_range : noise2_range;
        double now = *value >= range[0] && *value <= range[1] ? factorise(s) : INFINITY;
        if (now < best) {
          best = now;
          break;
        }
        *value = before;
      }
    }
  }
  factorise(s);
}

/* The points, scaled, with the scales that the search starts from. */
static ett_sample_surface *place(const ett_sample_points *points, ett_err *err) {
  const size_t count = points->count, width = points->width;
  const double *x = points->x, *y = points->y;
  if (count < 2 || width < 1 || width > MOST_WIDTH || count > 5000) {
    ett_err_set(err, ETT_ERR_ARGUMENT,
                "a surface needs 2 to 5000 points of 1 to %d features, got %zu of %zu",
                MOST_WIDTH, count, width);
    return NULL;
  }
  for (size_t i = 0; points->doubt && i < count; i++)
    if (!(points->doubt[i] > 0) || isinf(points->doubt[i])) {
      ett_err_set(err, ETT_ERR_ARGUMENT,
                  "point %zu of a surface: its doubt must be positive, got %g", i + 1,
                  points->doubt[i]);
      return NULL;
    }
  ett_sample_surface *s = calloc(1, sizeof *s);
  if (s) {
    s->x = malloc(count * width * sizeof *x);
    s->y = malloc(count * sizeof *y);
    s->doubt = malloc(count * sizeof *y);
    s->factor = malloc(count * count * sizeof *y);
    s->weight = malloc(count * sizeof *y);
  }
  if (!s || !s->x || !s->y || !s->doubt || !s->factor || !s->weight) {
    ett_sample_surface_free(s);
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  s->count = count;
  s->width = width;
  for (size_t i = 0; i < count; i++)
    s->mean += y[i] / (double)count;
  for (size_t d = 0; d < width; d++) {
    double square = 0;
    for (size_t i = 0; i < count; i++)
      s->centre[d] += x[i * width + d] / (double)count;
    for (size_t i = 0; i < count; i++)
      square += pow(x[i * width + d] - s->centre[d], 2) / (double)count;
    s->spread[d] = square > 1e-18 ? sqrt(square) : 1;
    s->length[d] = 2.0 * sqrt((double)width);
  }
  s->noise2 = 1e-2;
  for (size_t i = 0; i < count; i++) {
    s->y[i] = y[i] - s->mean;
    s->doubt[i] = points->doubt ? points->doubt[i] : 1;
    for (size_t d = 0; d < width; d++)
      s->x[i * width + d] = (x[i * width + d] - s->centre[d]) / s->spread[d];
  }
  return s;
}

ett_sample_surface *ett_sample_surface_fit(const ett_sample_points *points,
                                           ett_err *err) {
  ett_sample_surface *s = place(points, err);
  if (s)
    search(s);
  return s;
}

ett_sample_surface *ett_sample_surface_restore(const ett_sample_points *points,
                                               const double *scales, ett_err *err) {
  ett_sample_surface *s = place(points, err);
  if (!s)
    return NULL;
  const size_t width = points->width;
  bool sound = scales[width] >= noise2_range[0] && scales[width] <= noise2_range[1];
  for (size_t d = 0; d < width; d++) {
    s->length[d] = scales[d];
    sound = sound && scales[d] >= length_range[0] && scales[d] <= length_range[1];
  }
  s->noise2 = scales[width];
  if (!sound || factorise(s) == INFINITY) {
    ett_err_set(err, ETT_ERR_ARGUMENT, "no scales of a surface through these points");
    ett_sample_surface_free(s);
    return NULL;
  }
  return s;
}

double ett_sample_surface_scales(const ett_sample_surface *s, double *scales) {
  memcpy(scales, s->length, s->width * sizeof *scales);
  scales[s->width] = s->noise2;
  return sqrt(s->amplitude2 * s->noise2);
}

double ett_sample_surface_predict(const ett_sample_surface *s, const double *x,
                                  double *deviation) {
  double point[MOST_WIDTH], mean = s->mean;
  const size_t n = s->count;
  for (size_t d = 0; d < s->width; d++)
    point[d] = (x[d] - s->centre[d]) / s->spread[d];
  for (size_t i = 0; i < n; i++)
    mean += s->weight[i] * kernel(s, point, s->x + i * s->width);
  if (deviation) {
    double *v = malloc(n * sizeof *v), variance = 1;
    for (size_t i = 0; v && i < n; i++) {
      v[i] = kernel(s, point, s->x + i * s->width);
      for (size_t k = 0; k < i; k++)
        v[i] -= s->factor[i * n + k] * v[k];
      v[i] /= s->factor[i * n + i];
      variance -= v[i] * v[i];
    }
    free(v);
    *deviation = sqrt(s->amplitude2 * (variance > 0 ? variance : 0));
  }
  return mean;
}

double ett_sample_surface_leave_one_out(const ett_sample_surface *s, size_t i) {
  /* y_i - weight_i / (K^-1)_ii (Rasmussen and Williams, equation 5.12). */
  const size_t n = s->count;
  double *v = calloc(n, sizeof *v), diagonal = 0;
  if (!v)
    return NAN;
  for (size_t k = i; k < n; k++) {
    double sum = k == i ? 1 : 0;
    for (size_t m = i; m < k; m++)
      sum -= s->factor[k * n + m] * v[m];
    v[k] = sum / s->factor[k * n + k];
    diagonal += v[k] * v[k];
  }
  free(v);
  return s->mean + s->y[i] - s->weight[i] / diagonal;
}

int ett_sample_surface_gain(const ett_sample_surface *s, const double *points,
                            size_t count, double *gain, ett_err *err) {
  const size_t n = s->count, w = s->width;
  double *scaled = malloc((count * w + 1) * sizeof *scaled);
  double *v = malloc((count * n + 1) * sizeof *v); /* rows: L^-1 k of each point */
  if (!scaled || !v) {
    free(scaled);
    free(v);
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  }
  for (size_t i = 0; i < count; i++) {
    double *point = scaled + i * w, *row = v + i * n;
    for (size_t d = 0; d < w; d++)
      point[d] = (points[i * w + d] - s->centre[d]) / s->spread[d];
    for (size_t k = 0; k < n; k++) {
      row[k] = kernel(s, point, s->x + k * w);
      for (size_t j = 0; j < k; j++)
        row[k] -= s->factor[k * n + j] * row[j];
      row[k] /= s->factor[k * n + k];
    }
  }
  for (size_t i = 0; i < count; i++) {
    double own = 1 + s->noise2, sum = 0;
    for (size_t k = 0; k < n; k++)
      own -= v[i * n + k] * v[i * n + k];
    for (size_t j = 0; j < count; j++) {
      double shared = kernel(s, scaled + i * w, scaled + j * w);
      for (size_t k = 0; k < n; k++)
        shared -= v[i * n + k] * v[j * n + k];
      sum += shared * shared;
    }
    gain[i] = s->amplitude2 * sum / (own > 1e-12 ? own : 1e-12);
  }
  free(scaled);
  free(v);
  return 0;
}

void ett_sample_surface_free(ett_sample_surface *s) {
  if (!s)
    return;
  free(s->x);
  free(s->y);
  free(s->doubt);
  free(s->factor);
  free(s->weight);
  free(s);
}
