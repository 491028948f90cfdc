/* Statistics of repeated timings, where noise only adds time. */
#ifndef ETT_SAMPLE_STATS_H
#define ETT_SAMPLE_STATS_H

#include <stddef.h>

typedef struct {
  size_t count;
  double min, median, mean;
  double low_mean;   /* mean of the fastest tenth of the repeats, plus one */
  double half_width; /* 95 % half-width of low_mean, from the spread of these repeats */
  double low;        /* mean of repeats between the 5th and 15th percentile */
  double
      low_half_width; /* 95 % half-width of the 10th percentile, from order statistics */
} ett_sample_stats;

/* x may have any unit. sorted receives its values in ascending order; it may be x. count
 * 0 gives zeros. */
void ett_sample_stats_compute(const double *x, size_t count, double *sorted,
                              ett_sample_stats *out);

#endif
