/* Which shapes to measure next: the covariance that surfaces leave over a list of shapes,
 * lowered shape by shape. What a measurement would teach does not depend on what it says
 * (Cohn 1996), so that many can be chosen before the first is made. */
#ifndef ETT_SAMPLE_DESIGN_H
#define ETT_SAMPLE_DESIGN_H

#include <stddef.h>

#include "base/err.h"
#include "samplers/core/surface.h"

typedef struct ett_sample_design ett_sample_design;

/* A design over `count` shapes, 1 to 4000; weight: how much each counts, NULL for all
 * alike. It holds count^2 numbers a surface. NULL with err set. */
ett_sample_design *ett_sample_design_new(size_t count, const double *weight,
                                         ett_err *err);

/* Adds a surface, such as that of one pass, with the same shapes as its points (rows of
 * features): a measurement of a shape teaches every surface. Returns 0, or -1 with err
 * set. */
int ett_sample_design_add(ett_sample_design *design, const ett_sample_surface *surface,
                          const double *points, ett_err *err);

/* The shape that lowers the weighted variance over all shapes most, summed over the
 * surfaces, of those whose `open` is not 0; `count` when none is. The first of equals. */
size_t ett_sample_design_best(const ett_sample_design *design, const unsigned char *open);

/* Takes a shape as measured: its covariance is lowered everywhere. */
void ett_sample_design_take(ett_sample_design *design, size_t shape);

/* Variance of a noise-free value at a shape by a surface (in order of adding), in units
 * of y squared, after what was taken. */
double ett_sample_design_variance(const ett_sample_design *design, size_t surface,
                                  size_t shape);

void ett_sample_design_free(ett_sample_design *design);

#endif
