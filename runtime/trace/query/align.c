#include "trace/query/align.h"

#include <math.h>
#include <stdlib.h>

#include "base/doubles.h"
#include "trace/query/bulk.h"

#define SEARCH 32
#define SAMPLE 512
#define ALIKE 0.9

/* The pairs of two sequences at an offset; they start at item `first` of the first
 * sequence. */
typedef struct pairs {
  const ett_sequence *a, *b;
  int64_t offset, first, count;
} pairs;

static pairs pairs_at(const ett_sequence *a, const ett_sequence *b, int64_t offset) {
  const int64_t first = offset < 0 ? -offset : 0;
  const int64_t n = (int64_t)a->count, m = (int64_t)b->count - offset;
  return (pairs){a, b, offset, first, (n < m ? n : m) - first};
}

/* Differences of ends of every stride-th pair; returns their number. */
static size_t differences(const pairs *p, int64_t stride, double *values) {
  size_t n = 0;
  for (int64_t i = p->first; i < p->first + p->count; i += stride)
    values[n++] =
        (double)(int64_t)((uint64_t)p->b->ends[i + p->offset] - (uint64_t)p->a->ends[i]);
  return n;
}

static bool alike(const pairs *p, int64_t stride) {
  size_t like = 0, looked = 0;
  for (int64_t i = p->first; i < p->first + p->count; i += stride, looked++)
    like += ett_sequence_type(p->a, (size_t)i) ==
            ett_sequence_type(p->b, (size_t)(i + p->offset));
  return (double)like >= ALIKE * (double)looked;
}

static double median(double *values, double *spare, size_t n) {
  if (n > 4096)
    ett_sort_numbers(values, spare, n);
  else
    qsort(values, n, sizeof *values, ett_doubles_order);
  return ett_doubles_median(values, n);
}

/* Median distance of n values from 0, or by spread from their own median, which is
 * *clock. */
static double distance(double *values, double *spare, size_t n, bool by_spread,
                       double *clock) {
  *clock = by_spread ? median(values, spare, n) : 0;
  for (size_t i = 0; i < n; i++)
    values[i] = fabs(values[i] - *clock);
  return median(values, spare, n);
}

/* Whether the median |value| reaches the limit. */
static bool beyond(const double *values, size_t n, double limit) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++)
    count += fabs(values[i]) >= limit;
  return count > n / 2 + 1;
}

/* Evaluates an offset as a candidate. */
static void look(ett_alignment *out, const ett_sequence *a, const ett_sequence *b,
                 int64_t offset, bool by_spread, double *values) {
  const pairs p = pairs_at(a, b, offset);
  const size_t shorter = a->count < b->count ? a->count : b->count;
  if (p.count < 1 || 2 * p.count < (int64_t)shorter)
    return;
  const int64_t stride = p.count >= SAMPLE ? p.count / SAMPLE : 1;
  const size_t n = differences(&p, stride, values);
  if ((!by_spread && out->has_second && beyond(values, n, out->second)) ||
      !alike(&p, stride))
    return;
  double clock;
  const double value = distance(values, values + 2 * SAMPLE, n, by_spread, &clock);
  if (!out->found || value < out->median) {
    out->has_second = out->found;
    out->second = out->median;
    out->found = true;
    out->offset = offset;
    out->median = value;
  } else if (!out->has_second || value < out->second) {
    out->has_second = true;
    out->second = value;
  }
}

int ett_align_at(ett_alignment *out, const ett_sequence *a, const ett_sequence *b,
                 int64_t offset, bool by_spread) {
  const pairs p = pairs_at(a, b, offset);
  out->median = INFINITY;
  if (p.count < 1)
    return 0;
  double *values = malloc(2 * (size_t)p.count * sizeof *values);
  if (!values)
    return -1;
  const size_t n = differences(&p, 1, values);
  out->median = distance(values, values + n, n, by_spread, &out->clock);
  free(values);
  return 0;
}

int ett_align(ett_alignment *out, const ett_sequence *a, const ett_sequence *b,
              bool by_spread) {
  *out = (ett_alignment){0};
  const int64_t n = (int64_t)a->count, m = (int64_t)b->count;
  const int64_t shorter = n < m ? n : m, apart = n < m ? m - n : n - m;
  const int64_t reach = (shorter > SEARCH ? SEARCH : shorter ? shorter - 1 : 0) + apart;
  double *values = malloc(4 * SAMPLE * sizeof *values);
  if (!values)
    return -1;
  for (int64_t away = 0; away <= reach; away++) {
    if (away)
      look(out, a, b, -away, by_spread, values);
    look(out, a, b, away, by_spread, values);
  }
  free(values);
  return out->found ? ett_align_at(out, a, b, out->offset, by_spread) : 0;
}
