/* interval.h - sets of half-open intervals [from, to) of 64-bit integers.
 *
 * A set is sorted; its intervals are disjoint and not adjacent, so equal sets are equal
 * arrays. Every operation is linear in its inputs, except building from unsorted
 * intervals (n log n). Lengths are exact while they fit in 64 bits. */
#ifndef ETT_TRACE_INTERVAL_H
#define ETT_TRACE_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

typedef struct ett_interval {
  int64_t from, to;
} ett_interval;

typedef struct ett_intervals {
  ett_interval *items;
  size_t count;
} ett_intervals;

void ett_intervals_free(ett_intervals *s);

/* Memory for `most` intervals, with a count of 0. 0, or -1 if memory runs out (also for
 * all functions below). */
int ett_intervals_make(ett_intervals *out, size_t most);

/* Sorts and unites intervals in any order; drops those with from >= to. */
int ett_intervals_unite(ett_intervals *s);

int ett_intervals_union(ett_intervals *out, const ett_intervals *a,
                        const ett_intervals *b);
int ett_intervals_intersect(ett_intervals *out, const ett_intervals *a,
                            const ett_intervals *b);
int ett_intervals_subtract(ett_intervals *out, const ett_intervals *a,
                           const ett_intervals *b);

/* The part inside [from, to); the complement inside it; intervals longer than least. */
int ett_intervals_clip(ett_intervals *out, const ett_intervals *a, int64_t from,
                       int64_t to);
int ett_intervals_gaps(ett_intervals *out, const ett_intervals *a, int64_t from,
                       int64_t to);
int ett_intervals_longer(ett_intervals *out, const ett_intervals *a, int64_t least);

/* Total length; the same inside [from, to), found by bisection. */
int64_t ett_intervals_measure(const ett_intervals *a);
int64_t ett_intervals_measure_in(const ett_intervals *a, int64_t from, int64_t to);

/* Length of the intersection. It is not made: for the many intervals of a busy device its
 * memory takes longer. */
int64_t ett_intervals_measure_both(const ett_intervals *a, const ett_intervals *b);

#endif
