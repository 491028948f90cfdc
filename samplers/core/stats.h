/* Statistics of repeated timings, where noise only adds time. */
#ifndef ETT_SAMPLE_STATS_H
#define ETT_SAMPLE_STATS_H

#include <stddef.h>

typedef struct {
  size_t count;
  double min, median, mean;
  double low_mean;       /* mean of the lowest tenth and one more */
  double half_width;     /* 95 % half width of low_mean, from the spread of those */
  double low;            /* mean of the repeats from the 5th to the 15th percentile */
  double low_half_width; /* 95 % half width of the 10th percentile, by order statistics */
} ett_sample_stats;

/* Any unit; x is not changed. count 0 gives zeros. */
void ett_sample_stats_compute(const double *x, size_t count, ett_sample_stats *out);

#endif
