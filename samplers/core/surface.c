#include "samplers/core/surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WIDTH = 16 };
static const double length_range[2] = {0.05, 60.0}, noise2_range[2] = {1e-6, 0.5};
static const double rough_range[2] = {1e-4, 0.9}, local_range[2] = {0.05, 5.0};

struct ett_sample_surface {
  size_t count, width;
  double *x;      /* count x width, scaled to unit spread; begins the memory of all six */
  double *y;      /* centred */
  double *doubt;  /* factors of the noise variance */
  double *factor; /* lower Cholesky factor of the kernel matrix */
  double *weight; /* inverse kernel matrix times y */
  double *one;    /* count values: room for one point's covariances */
  double centre[MOST_WIDTH], spread[MOST_WIDTH];
  double length[MOST_WIDTH];
  double mean, amplitude2, noise2;
  double rough, local; /* variance share and length of the short-range kernel; rough is 0
                          without it */
};

/* Matern 3/2, plus a share of exp(-distance / local) if rough. The second term models the
 * steps of tiles and waves, which a smooth kernel would treat as noise. */
static double kernel(const ett_sample_surface *s, const double *a, const double *b) {
  double sum = 0, plain = 0;
  for (size_t d = 0; d < s->width; d++) {
    const double v = a[d] - b[d], u = v / s->length[d];
    sum += u * u;
    plain += v * v;
  }
  const double r = sqrt(3 * sum), smooth = (1 + r) * exp(-r);
  if (s->rough <= 0)
    return smooth;
  return (1 - s->rough) * smooth + s->rough * exp(-sqrt(plain) / s->local);
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

/* Replaces the lower triangle of a positive definite matrix by its Cholesky factor.
 * Returns the logarithm of the determinant. A pivot below 1e-12 becomes 1e-12, and the
 * result INFINITY. */
static double cholesky(double *l, size_t n) {
  double logdet = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) {
      const double v = l[i * n + j] - dot(l + i * n, l + j * n, j);
      if (i == j && !(v > 1e-12))
        logdet = INFINITY;
      l[i * n + j] = i == j ? sqrt(v > 1e-12 ? v : 1e-12) : v / l[j * n + j];
      if (i == j)
        logdet += 2 * log(l[i * n + i]);
    }
  return logdet;
}

/* v := L^-1 v, where v is zero before `first`. */
static void solve_lower(const double *l, size_t n, size_t first, double *v) {
  for (size_t k = first; k < n; k++)
    v[k] = (v[k] - dot(l + k * n + first, v + first, k - first)) / l[k * n + k];
}

/* The squared length of column i of L^-1, which is (K^-1)_ii. v: scratch of n. */
static double inverse_diagonal(const double *l, size_t n, size_t i, double *v) {
  memset(v, 0, n * sizeof *v);
  v[i] = 1;
  solve_lower(l, n, i, v);
  return dot(v + i, v + i, n - i);
}

/* The lower triangle of the kernel matrix of n points, with noise on the diagonal. doubt
 * NULL: all 1. */
static void fill_lower(const ett_sample_surface *s, const double *x, size_t n,
                       double noise2, const double *doubt, double *l) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++)
      l[i * n + j] = kernel(s, x + i * s->width, x + j * s->width) +
                     (i == j ? noise2 * (doubt ? doubt[i] : 1) : 0);
}

/* Factors K + noise2 diag(doubt) and solves for the weights. Returns minus the log
 * marginal likelihood at the maximum-likelihood amplitude, up to a constant; INFINITY
 * when the matrix is not positive definite. */
static double factorise(ett_sample_surface *s) {
  const size_t n = s->count;
  double *l = s->factor, *weight = s->weight;
  fill_lower(s, s->x, n, s->noise2, s->doubt, l);
  const double logdet = cholesky(l, n);
  if (isinf(logdet))
    return INFINITY;
  memcpy(weight, s->y, n * sizeof *weight);
  solve_lower(l, n, 0, weight);
  const double quadratic = dot(weight, weight, n);
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; k++)
      weight[i] -= l[k * n + i] * weight[k];
    weight[i] /= l[i * n + i];
  }
  s->amplitude2 = quadratic / (double)n + 1e-12;
  return 0.5 * logdet + 0.5 * (double)n * log(s->amplitude2);
}

typedef struct {
  double *value;
  const double *range;
  bool squared; /* a variance: searched with squared steps */
} scale;

/* Collects the scales in the order of ett_sample_surface_scales; returns their number. */
static size_t scales_of(ett_sample_surface *s, scale list[MOST_WIDTH + 3]) {
  size_t n = 0;
  for (size_t d = 0; d < s->width; d++)
    list[n++] = (scale){&s->length[d], length_range, false};
  list[n++] = (scale){&s->noise2, noise2_range, true};
  if (s->rough > 0) {
    list[n++] = (scale){&s->rough, rough_range, true};
    list[n++] = (scale){&s->local, local_range, false};
  }
  return n;
}

static bool within(double value, const double range[2]) {
  return value >= range[0] && value <= range[1];
}

/* Coordinate search over the logarithms of the scales, limited to a factor of 4 around
 * the start (16 for a variance): few points do not separate structure from noise. Returns
 * as factorise() does. */
static double search(ett_sample_surface *s) {
  scale list[MOST_WIDTH + 3];
  const size_t scales = scales_of(s, list);
  double best = factorise(s), step = 2.0;
  for (int round = 0; round < 6; round++, step = sqrt(step)) {
    for (size_t k = 0; k < scales; k++) {
      double *value = list[k].value;
      const double power = list[k].squared ? step * step : step;
      for (int direction = 0; direction < 2; direction++) {
        const double before = *value;
        *value = direction ? before * power : before / power;
        double now = within(*value, list[k].range) ? factorise(s) : INFINITY;
        if (now < best) {
          best = now;
          break;
        }
        *value = before;
      }
    }
  }
  return factorise(s);
}

/* Creates a surface of scaled points with the initial scales of the search. */
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
                  "point %zu of a surface: its noise factor must be positive, got %g",
                  i + 1, points->doubt[i]);
      return NULL;
    }
  ett_sample_surface *s = calloc(1, sizeof *s);
  if (s)
    s->x = malloc(count * (width + 4 + count) * sizeof *x);
  if (!s || !s->x) {
    ett_sample_surface_free(s);
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  s->y = s->x + count * width;
  s->doubt = s->y + count;
  s->weight = s->doubt + count;
  s->one = s->weight + count;
  s->factor = s->one + count;
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
  s->rough = points->rough ? 0.1 : 0;
  s->local = 0.5;
  for (size_t i = 0; i < count; i++) {
    s->y[i] = y[i] - s->mean;
    s->doubt[i] = points->doubt ? points->doubt[i] : 1;
    for (size_t d = 0; d < width; d++)
      s->x[i * width + d] = (x[i * width + d] - s->centre[d]) / s->spread[d];
  }
  return s;
}

ett_sample_surface *ett_sample_surface_fit(const ett_sample_points *points,
                                           const double *scales, ett_err *err) {
  ett_sample_surface *s = place(points, err);
  if (!s)
    return NULL;
  scale list[MOST_WIDTH + 3];
  const size_t n = scales_of(s, list);
  bool sound = true;
  for (size_t k = 0; scales && k < n; k++) {
    *list[k].value = scales[k];
    sound = sound && within(scales[k], list[k].range);
  }
  if (sound && isfinite(scales ? factorise(s) : search(s)))
    return s;
  ett_err_set(err, ETT_ERR_ARGUMENT, "cannot fit a surface to these points");
  ett_sample_surface_free(s);
  return NULL;
}

size_t ett_sample_surface_scale_count(size_t width, bool rough) {
  return width + (rough ? 3 : 1);
}

double ett_sample_surface_scales(const ett_sample_surface *s, double *scales) {
  memcpy(scales, s->length, s->width * sizeof *scales);
  scales[s->width] = s->noise2;
  if (s->rough > 0) {
    scales[s->width + 1] = s->rough;
    scales[s->width + 2] = s->local;
  }
  return ett_sample_surface_noise(s);
}

double ett_sample_surface_noise(const ett_sample_surface *s) {
  return sqrt(s->amplitude2 * s->noise2);
}

double ett_sample_surface_predict(const ett_sample_surface *s, const double *x,
                                  double *deviation) {
  const size_t n = s->count;
  double point[MOST_WIDTH], *v = s->one;
  for (size_t d = 0; d < s->width; d++)
    point[d] = (x[d] - s->centre[d]) / s->spread[d];
  for (size_t i = 0; i < n; i++)
    v[i] = kernel(s, point, s->x + i * s->width);
  const double mean = s->mean + dot(v, s->weight, n);
  solve_lower(s->factor, n, 0, v);
  const double variance = 1 - dot(v, v, n);
  *deviation = sqrt(s->amplitude2 * (variance > 0 ? variance : 0));
  return mean;
}

/* y_i - weight_i / (K^-1)_ii (Rasmussen and Williams, equation 5.12). */
double ett_sample_surface_leave_one_out(const ett_sample_surface *s, size_t i) {
  return s->mean + s->y[i] -
         s->weight[i] / inverse_diagonal(s->factor, s->count, i, s->one);
}

/* Scales points like those of the surface; NULL with err set on failure. */
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
    for (size_t k = 0; k < n; k++)
      row[k] = kernel(s, x + i * w, s->x + k * w);
    solve_lower(s->factor, n, 0, row);
  }
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j <= i; j++) {
      const double shared =
          kernel(s, x + i * w, x + j * w) - dot(v + i * n, v + j * n, n);
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
  const size_t n = count;
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
  fill_lower(s, x, n, noise2, NULL, l);
  cholesky(l, n);
  for (size_t i = 0; i < n; i++) {
    const double left = 1 / inverse_diagonal(l, n, i, column) - noise2;
    deviation[i] = sqrt(s->amplitude2 * ((left > 0 ? left : 0) + s->noise2));
  }
  free(x);
  free(l);
  free(column);
  return 0;
}

void ett_sample_surface_free(ett_sample_surface *s) {
  if (!s)
    return;
  free(s->x);
  free(s);
}
