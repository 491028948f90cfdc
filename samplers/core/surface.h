/* A smooth surface through scattered measurements, with its uncertainty: Gaussian process
 * regression (Rasmussen and Williams 2006, chapters 2 and 5). The mean is constant; the
 * kernel is Matern 3/2 with one length per dimension. A rough surface adds a short-range
 * kernel. For hundreds of points: a fit costs O(count^3). */
#ifndef ETT_SAMPLE_SURFACE_H
#define ETT_SAMPLE_SURFACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct ett_sample_surface ett_sample_surface;

/* Points and values; the functions below copy them. */
typedef struct {
  const double *x;     /* count rows of width features */
  const double *y;     /* count values */
  const double *doubt; /* count positive factors of the noise variance; NULL: all 1 */
  size_t count, width;
  bool rough; /* adds the short-range kernel */
} ett_sample_points;

/* A deterministic search maximises the marginal likelihood over lengths and noise: equal
 * inputs give equal results. The scales of ett_sample_surface_scales (NULL: none) give
 * the same surface without the search. NULL with err set on failure, also for scales
 * outside the search's range. */
ett_sample_surface *ett_sample_surface_fit(const ett_sample_points *points,
                                           const double *scales, ett_err *err);

/* The number of scales of a surface. */
size_t ett_sample_surface_scale_count(size_t width, bool rough);

/* The result of the search: one length per feature, in units of the feature's spread;
 * noise variance / amplitude variance; for a rough surface also the variance share and
 * length of the short-range kernel. Returns ett_sample_surface_noise. */
double ett_sample_surface_scales(const ett_sample_surface *surface, double *scales);

/* Mean of the noise-free value at one point, and its standard deviation. Like
 * ett_sample_surface_leave_one_out, not for two threads at once. */
double ett_sample_surface_predict(const ett_sample_surface *surface, const double *x,
                                  double *deviation);

/* Leave-one-out prediction of point i, in closed form. */
double ett_sample_surface_leave_one_out(const ett_sample_surface *surface, size_t i);

/* Standard deviation of the noise, in units of y. */
double ett_sample_surface_noise(const ett_sample_surface *surface);

/* Covariance of the noise-free values at `count` points (rows of features): count x
 * count, in units of y squared. Returns 0, or -1 with err set. */
int ett_sample_surface_covariance(const ett_sample_surface *surface, const double *points,
                                  size_t count, double *covariance, ett_err *err);

/* The best standard deviation that measuring a whole grid can reach: that of a new, noisy
 * measurement at each of `count` points after all other points were measured. The
 * variance of their noise is `noisier` times the surface's. Returns 0 or -1. */
int ett_sample_surface_grid_deviation(const ett_sample_surface *surface,
                                      const double *points, size_t count, double noisier,
                                      double *deviation, ett_err *err);

void ett_sample_surface_free(ett_sample_surface *surface);

#endif
