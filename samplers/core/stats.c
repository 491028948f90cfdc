#include "samplers/core/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/doubles.h"

void ett_sample_stats_compute(const double *x, size_t count, double *sorted,
                              ett_sample_stats *out) {
  memset(out, 0, sizeof *out);
  if (count == 0)
    return;
  const size_t n = count;
  memmove(sorted, x, n * sizeof *x);
  qsort(sorted, n, sizeof *sorted, ett_doubles_order);
  out->count = n;
  out->min = sorted[0];
  out->median = ett_doubles_median(sorted, n);
  double sum = 0, low = 0, square = 0;
  for (size_t i = 0; i < n; i++)
    sum += sorted[i];
  out->mean = sum / (double)n;
  const size_t few = n < 3 ? 1 : (n + 9) / 10 + 1;
  for (size_t i = 0; i < few; i++)
    low += sorted[i];
  out->low_mean = low / (double)few;
  for (size_t i = 0; i < few; i++)
    square += (sorted[i] - out->low_mean) * (sorted[i] - out->low_mean);
  /* Two values give no estimate of spread; uses their distance to the median. */
  if (few < 3)
    out->half_width = out->median - out->min;
  else
    out->half_width = 2.0 * sqrt(square / (double)(few - 1)) / sqrt((double)few);
  size_t first = n / 20, end = (3 * n + 19) / 20;
  if (end < first + 2)
    end = first + 2 < n ? first + 2 : n;
  for (size_t i = first; i < end; i++)
    out->low += sorted[i];
  out->low /= (double)(end - first);
  const double centre = 0.1 * (double)n, reach = 1.96 * sqrt(0.09 * (double)n);
  const size_t below = centre > reach ? (size_t)(centre - reach) : 0;
  const size_t above = (size_t)ceil(centre + reach);
  out->low_half_width = 0.5 * (sorted[above < n ? above : n - 1] - sorted[below]);
}
