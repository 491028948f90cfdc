/* A smooth surface through scattered measurements, with how sure it is anywhere: Gaussian
 * process regression (Rasmussen and Williams 2006, chapters 2 and 5) with a constant mean
 * and a Matern 3/2 kernel of one length per dimension; a rough surface adds a part that
 * only near points share. For hundreds of points: fitting costs count^3. */
#ifndef ETT_SAMPLE_SURFACE_H
#define ETT_SAMPLE_SURFACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct ett_sample_surface ett_sample_surface;

/* Points with a value each; copied by what takes them. */
typedef struct {
  const double *x;     /* count rows of width features */
  const double *y;     /* count values */
  const double *doubt; /* count factors of the noise's variance, positive; NULL: 1 each */
  size_t count, width;
  bool rough; /* whether the surface has a part that only near points share */
} ett_sample_points;

/* Lengths and noise are those of greatest marginal likelihood found by a fixed search:
 * the same input gives the same digits. NULL with err set. */
ett_sample_surface *ett_sample_surface_fit(const ett_sample_points *points, ett_err *err);

/* The same surface without the search: scales as ett_sample_surface_scales gave
 * them. NULL with err set, also where they are out of the search's range. */
ett_sample_surface *ett_sample_surface_restore(const ett_sample_points *points,
                                               const double *scales, ett_err *err);

/* How many scales a surface has. */
size_t ett_sample_surface_scale_count(size_t width, bool rough);

/* What the search chose: width lengths in units of each feature's spread, then the
 * noise's variance over the amplitude's; of a rough surface also the rough part's share
 * of the amplitude's variance and its length. Returns the noise's own deviation, in units
 * of y. */
double ett_sample_surface_scales(const ett_sample_surface *surface, double *scales);

/* Mean and standard deviation (of a new noise-free value) at one point. */
double ett_sample_surface_predict(const ett_sample_surface *surface, const double *x,
                                  double *deviation);

/* Prediction of point i by the surface without it (its closed form): the held-out
 * residual of every point at the price of one fit. */
double ett_sample_surface_leave_one_out(const ett_sample_surface *surface, size_t i);

/* The noise's own deviation, in units of y. */
double ett_sample_surface_noise(const ett_sample_surface *surface);

/* Covariance of the noise-free values at `count` points (rows of features), given the
 * surface's own: count x count, in units of y squared. Returns 0, or -1 with err set. */
int ett_sample_surface_covariance(const ett_sample_surface *surface, const double *points,
                                  size_t count, double *covariance, ett_err *err);

/* Deviation of a new measurement, noise and all, at each of `count` points if every other
 * of them had been measured, and nothing else: what a whole grid can reach at best. The
 * grid's measurements have `noisier` times the variance of the surface's noise (1:
 * alike), the new one has the surface's. Returns 0, or -1 with err set. */
int ett_sample_surface_grid_deviation(const ett_sample_surface *surface,
                                      const double *points, size_t count, double noisier,
                                      double *deviation, ett_err *err);

void ett_sample_surface_free(ett_sample_surface *surface);

#endif
