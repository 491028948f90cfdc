/* doubles.h - order and median of doubles. */
#ifndef ETT_BASE_DOUBLES_H
#define ETT_BASE_DOUBLES_H

#include <stddef.h>

/* Ascending order, for qsort; without NaN. */
static inline int ett_doubles_order(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The middle value of n >= 1 sorted values, or the mean of the middle two. */
static inline double ett_doubles_median(const double *sorted, size_t n) {
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

#endif
