/* Experimental design: the shapes to measure next. A design holds the covariance of
 * surfaces over a list of shapes and reduces it shape by shape. The gain of a measurement
 * does not depend on its value (Cohn 1996), so several shapes can be chosen before the
 * first is measured. */
#ifndef ETT_SAMPLE_DESIGN_H
#define ETT_SAMPLE_DESIGN_H

#include <stddef.h>

#include "base/err.h"
#include "samplers/core/surface.h"

typedef struct ett_sample_design ett_sample_design;

/* A design over 1 to 4000 shapes, each with a weight (NULL: all 1). It stores count^2
 * numbers per surface. NULL with err set. */
ett_sample_design *ett_sample_design_new(size_t count, const double *weight,
                                         ett_err *err);

/* Adds the surface of one pass. points: the features of each shape, as rows. Measuring a
 * shape lowers the covariance of every surface. Returns 0, or -1 with err set. */
int ett_sample_design_add(ett_sample_design *design, const ett_sample_surface *surface,
                          const double *points, ett_err *err);

/* The open shape with the largest reduction of weighted variance, summed over shapes and
 * surfaces. Ties go to the first; `count` if no shape is open. */
size_t ett_sample_design_best(const ett_sample_design *design, const unsigned char *open);

/* Treats a shape as measured. */
void ett_sample_design_take(ett_sample_design *design, size_t shape);

/* Standard deviation of the noise-free value at a shape, in units of y. surface: its
 * index in order of adding, from 0. */
double ett_sample_design_deviation(const ett_sample_design *design, size_t surface,
                                   size_t shape);

void ett_sample_design_free(ett_sample_design *design);

#endif
