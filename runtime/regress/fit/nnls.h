/* Robust nonnegative least squares on relative error: the analytic base of a hybrid. */
#ifndef ETT_REGRESS_NNLS_H
#define ETT_REGRESS_NNLS_H

#include <stddef.h>

#include "base/err.h"

/* Loss of a relative residual r = predicted / measured - 1. */
typedef enum ett_nnls_loss {
  ETT_LOSS_ABSOLUTE, /* sqrt(r^2 + e^2), e shrinking to 0.005: the mean relative error */
  ETT_LOSS_HUBER,    /* Huber (1964) at 1.345 robust standard deviations */
  ETT_LOSS_SQUARED,
} ett_nnls_loss;

/* Finds x >= 0, x[0 .. columns), that makes columns x match seconds, by iteratively
 * reweighted least squares over Lawson and Hanson's active sets (Solving Least Squares
 * Problems, 1974, ch. 23) on the normal equations.
 * design is rows by columns, row-major; weight may be NULL. rows > 0, seconds > 0.
 * Returns 0 or -1 (memory, or a fit that is not finite). */
int ett_nnls_fit(const double *design, const double *seconds, const double *weight,
                 size_t rows, int columns, ett_nnls_loss loss, double *x, ett_err *err);

/* min 1/2 x'Gx - c'x over x >= 0 for a positive definite G (size by size, row-major).
 * work: size*size + 3*size doubles, set: size ints. */
void ett_nnls_gram(const double *gram, const double *c, int size, double *x, double *work,
                   int *set);

#endif
