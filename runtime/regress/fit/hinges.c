#include "regress/fit/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Zeroes columns that are nonzero in fewer than `share` of the rows. These are hinges
 * close to the largest sizes: few rows determine their slope, and the slope determines
 * every prediction above them. Returns the number of columns zeroed. */
static int mask_rare(double *column, size_t rows, size_t columns, double share) {
  int masked = 0;
  for (size_t j = 0; j < columns; j++) {
    size_t filled = 0;
    for (size_t i = 0; i < rows; i++)
      filled += column[i * columns + j] != 0;
    if (filled == 0 || (double)filled >= share * (double)rows)
      continue;
    for (size_t i = 0; i < rows; i++)
      column[i * columns + j] = 0;
    masked++;
  }
  return masked;
}

/* Fits a base to the rows up to the size `limit`. Columns that are nonzero in fewer than
 * `share` of them are excluded; rows below the size `from` get the weight ETT_FIT_FAINT.
 * *out is the mean relative error above `limit`, or negative if this share excludes no
 * more columns than the last one. */
static int probe_base(const ett_work *w, double limit, double share, double from,
                      double *column, double *seconds, double *x, int *masked,
                      double *out, ett_err *err) {
  size_t n = w->rows, p = (size_t)w->columns, inside = 0, above = 0;
  double *weight = seconds + n;
  for (size_t i = 0; i < n; i++)
    if (w->size[i] <= limit) {
      memcpy(column + inside * p, w->column + i * p, p * sizeof *column);
      weight[inside] = w->size[i] < from ? ETT_FIT_FAINT : 1;
      seconds[inside++] = w->seconds[i];
    }
  int count = mask_rare(column, inside, p, share);
  *out = -1;
  if (share > 0 && count == *masked)
    return 0;
  *masked = count;
  if (ett_nnls_fit(column, seconds, weight, inside, w->columns, w->config->loss, x,
                   err) != 0)
    return -1;
  double total = 0;
  for (size_t i = 0; i < n; i++) {
    if (w->size[i] <= limit)
      continue;
    total += fabs(ett_work_base_of(w, i, x) / w->seconds[i] - 1);
    above++;
  }
  *out = total / (double)above;
  return 0;
}

/* Drops hinges, and lowers the weight of small sizes, if that clearly lowers the error
 * above the size `limit`. */
int ett_fit_hinges(ett_work *w, double limit, ett_err *err) {
  static const double shares[] = {0, 0.2, 0.5, 0.8}, quantiles[] = {0.25, 0.5};
  size_t n = w->rows, p = (size_t)w->columns;
  double *column = malloc((n * (p + 2) + p) * sizeof *column);
  if (!column)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double *seconds = column + n * p, *x = seconds + 2 * n;
  double least = INFINITY, best = 0;
  int status = 0, masked = 0;
  for (size_t s = 0; s < sizeof shares / sizeof *shares && status == 0; s++) {
    double found = -1;
    status = probe_base(w, limit, shares[s], 0, column, seconds, x, &masked, &found, err);
    if (status == 0 && found >= 0 && found < (s ? 0.9 : 1) * least) {
      least = found;
      best = shares[s];
    }
  }
  double from = 0;
  for (size_t q = 0; q < sizeof quantiles / sizeof *quantiles && status == 0; q++) {
    memcpy(w->scratch, w->size, n * sizeof *w->scratch);
    double size = ett_work_quantile(w->scratch, n, quantiles[q]), found = -1;
    masked = -1;
    status = probe_base(w, limit, best, size, column, seconds, x, &masked, &found, err);
    if (status == 0 && found >= 0 && found < 0.8 * least) {
      least = found;
      from = size;
    }
  }
  free(column);
  if (best > 0)
    mask_rare(w->column, n, p, best);
  for (size_t i = 0; i < n; i++)
    w->weight[i] = w->size[i] < from ? ETT_FIT_FAINT : 1;
  return status;
}
