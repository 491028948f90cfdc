/* A smooth surface through scattered measurements, with how sure it is anywhere: Gaussian
 * process regression (Rasmussen and Williams 2006, chapters 2 and 5) with a constant mean
 * and a Matern 3/2 kernel of one length per dimension. Active sampling measures next
 * where its deviation is largest. For hundreds of points: fitting costs count^3. */
#ifndef ETT_SAMPLE_SURFACE_H
#define ETT_SAMPLE_SURFACE_H

#include <stddef.h>

#include "base/err.h"

typedef struct ett_sample_surface ett_sample_surface;

/* Points with a value each; copied by what takes them. */
typedef struct {
  const double *x;     /* count rows of width features */
  const double *y;     /* count values */
  const double *doubt; /* count factors of the noise's variance, positive; NULL: 1 each */
  size_t count, width;
} ett_sample_points;

/* Lengths and noise are those of greatest marginal likelihood found by a fixed search:
 * the same input gives the same digits. NULL with err set. */
ett_sample_surface *ett_sample_surface_fit(const ett_sample_points *points, ett_err *err);

/* The same surface without the search: scales are width lengths and the noise, as
 * ett_sample_surface_scales gave them. NULL with err set, also where they are out of the
 * search's range. */
ett_sample_surface *ett_sample_surface_restore(const ett_sample_points *points,
                                               const double *scales, ett_err *err);

/* What the search chose: width lengths in units of each feature's spread, then the
 * noise's variance over the amplitude's. Returns the noise's own deviation, in units of
 * y. */
double ett_sample_surface_scales(const ett_sample_surface *surface, double *scales);

/* Mean and standard deviation (of a new noise-free value) at one point. */
double ett_sample_surface_predict(const ett_sample_surface *surface, const double *x,
                                  double *deviation);

/* Prediction of point i by the surface without it (its closed form): the held-out
 * residual of every point at the price of one fit. */
double ett_sample_surface_leave_one_out(const ett_sample_surface *surface, size_t i);

/* How much a measurement at each of `count` points (rows of features) would lower the
 * summed variance over all of them (Cohn 1996): gain[i], in units of y squared. Returns
 * 0, or -1 with err set. */
int ett_sample_surface_gain(const ett_sample_surface *surface, const double *points,
                            size_t count, double *gain, ett_err *err);

void ett_sample_surface_free(ett_sample_surface *surface);

#endif
