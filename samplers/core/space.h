/* The shapes of a campaign: nested inclusive ranges, and low-discrepancy sequences. */
#ifndef ETT_SAMPLE_SPACE_H
#define ETT_SAMPLE_SPACE_H

#include <stdint.h>

#include "base/err.h"

/* One dimension: start, start + step, ... ('+') or start, start * step, ... ('*') up to
 * end. */
typedef struct {
  int64_t start, step, end;
  char op;
} ett_sample_axis;

/* Number of values of an axis, computed with integers: a quotient of logarithms rounds
 * wrongly. -1 with err set if the range is infinite or starts above its end. */
int64_t ett_sample_axis_count(const ett_sample_axis *axis, ett_err *err);

/* Value number index (from 0) of an axis. */
int64_t ett_sample_axis_value(const ett_sample_axis *axis, int64_t index);

/* The number of shapes of count axes, or -1 with err set. */
int64_t ett_sample_space_count(const ett_sample_axis *axes, int count, ett_err *err);

/* Shape number index (from 0), last dimension fastest. counts: ett_sample_axis_count of
 * each axis. */
void ett_sample_space_shape(const ett_sample_axis *axes, const int64_t *counts, int count,
                            int64_t index, int64_t *out);

/* Point index (from 1) of the Halton sequence in dimension (from 0, below 32), shifted
 * modulo 1 by a seeded offset (Cranley and Patterson 1976): low-discrepancy in [0, 1). */
double ett_sample_halton(uint64_t index, int dimension, uint64_t seed);

#endif
