#include "samplers/core/surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WIDTH = 16 };
static const double length_range[2] = {0.05, 60.0}, noise2_range[2] = {1e-6, 0.5};
static const double rough_range[2] = {1e-4, 0.9}, local_range[2] = {0.05, 5.0};

struct ett_sample_surface {
  size_t count, width;
  double *x;      /* count x width, scaled to unit spread */
  double *y;      /* centred */
  double *doubt;  /* factors of noise2 */
  double *factor; /* lower Cholesky factor of the kernel matrix */
  double *weight; /* inverse kernel matrix times y */
  double centre[MOST_WIDTH], spread[MOST_WIDTH];
  double length[MOST_WIDTH];
  double mean, amplitude2, noise2;
  double rough, local; /* share and length of the rough part; rough is 0 without one */
};

/* Matern 3/2, and with a rough part exp(-distance / local) for its share: steps such as
 * those of tiles and waves, which a smooth kernel can only take for noise. */
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

typedef struct {
  double *value;
  const double *range;
  bool squared; /* of a variance: searched in squares of the step */
} scale;

/* The scales in the order of ett_sample_surface_scales; how many there are. */
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

/* Coordinate search over the logarithms of the scales. It stays within a factor of 4 of
 * where it starts (16 of a variance's), which keeps few points from making noise
 * structure or structure noise. */
static void search(ett_sample_surface *s) {
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
  scale list[MOST_WIDTH + 3];
  const size_t n = scales_of(s, list);
  bool sound = true;
  for (size_t k = 0; k < n; k++) {
    *list[k].value = scales[k];
    sound = sound && within(scales[k], list[k].range);
  }
  if (!sound || factorise(s) == INFINITY) {
    ett_err_set(err, ETT_ERR_ARGUMENT, "no scales of a surface through these points");
    ett_sample_surface_free(s);
    return NULL;
  }
  return s;
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
      row[k] = (kernel(s, x + i * w, s->x + k * w) - dot(l, row, k)) / l[k];
    }
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
      const double v = kernel(s, x + i * w, x + j * w) + (i == j ? noise2 : 0) -
                       dot(l + i * n, l + j * n, j);
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
