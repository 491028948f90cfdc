#include "regress/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Zeroes columns that are zero on all but `share` of the rows: hinges close to the
 * largest sizes, whose slope rests on few rows and decides all that is answered above
 * them. */
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

/* Mean relative error, above the size `limit`, of a base fitted below it without the
 * columns that fewer than `share` of those rows fill. Negative where
 * that leaves out no more than the share before it did. */
static int probe_base(const ett_work *w, double limit, double share, double *column,
                      double *seconds, double *x, int *masked, double *out,
                      ett_err *err) {
  size_t n = w->rows, p = (size_t)w->columns, inside = 0, above = 0;
  for (size_t i = 0; i < n; i++)
    if (w->size[i] <= limit) {
      memcpy(column + inside * p, w->column + i * p, p * sizeof *column);
      seconds[inside++] = w->seconds[i];
    }
  int count = mask_rare(column, inside, p, share);
  *out = -1;
  if (share > 0 && count == *masked)
    return 0;
  *masked = count;
  if (ett_nnls_fit(column, seconds, NULL, inside, w->columns, w->config->loss, x, err) !=
      0)
    return -1;
  double total = 0;
  for (size_t i = 0; i < n; i++) {
    if (w->size[i] <= limit)
      continue;
    double base = 0;
    for (size_t j = 0; j < p; j++)
      base += w->column[i * p + j] * x[j];
    total += fabs(base / w->seconds[i] - 1);
    above++;
  }
  *out = total / (double)above;
  return 0;
}

/* Drops hinges where that would have been clearly better above the 80th percentile. */
int ett_fit_hinges(ett_work *w, double limit, ett_err *err) {
  static const double shares[] = {0, 0.2, 0.5, 0.8};
  size_t n = w->rows, p = (size_t)w->columns;
  double *column = malloc((n * (p + 1) + p) * sizeof *column);
  if (!column)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double least = INFINITY, best = 0;
  int status = 0, masked = 0;
  for (size_t s = 0; s < sizeof shares / sizeof *shares && status == 0; s++) {
    double found = -1;
    status = probe_base(w, limit, shares[s], column, column + n * p, column + n * (p + 1),
                        &masked, &found, err);
    if (status == 0 && found >= 0 && found < (s ? 0.9 : 1) * least) {
      least = found;
      best = shares[s];
    }
  }
  free(column);
  if (best > 0)
    mask_rare(w->column, n, p, best);
  return status;
}
