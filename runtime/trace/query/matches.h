/* matches.h - matching collectives on several ranks, and their waiting times. */
#ifndef ETT_TRACE_MATCHES_H
#define ETT_TRACE_MATCHES_H

#include "trace/query/sequence.h"

/* One collective over its ranks, in the first rank's clock. */
typedef struct ett_match {
  int64_t first_start, last_start, first_end, last_end;
  uint32_t late,
      late_highest; /* rank that started last; ties: the lowest and the highest */
} ett_match;

/* Match i is item first[r] + i of list r, whose clock is ahead by clocks[r]. */
typedef struct ett_matches {
  const ett_sequence *const *lists;
  const size_t *first;
  const int64_t *clocks;
  size_t ranks, count;
  ett_match *items;
} ett_matches;

/* Fills items, which must have capacity for count. */
void ett_matches_fill(ett_matches *m);

/* Exposed time of a rank's matched collectives. Time before the last start is waiting,
 * attributed to the late rank; time after it is transfer. by_rank has one entry per rank,
 * the others one per sort of the rank's list; values are added. In ticks. */
typedef struct ett_charges {
  int64_t waiting, transfer;
  int64_t *by_rank, *waiting_of, *transfer_of, *count_of;
} ett_charges;
void ett_matches_charge(ett_charges *out, const ett_matches *m, size_t rank,
                        const ett_intervals *exposed);

/* Maximum duration of a match over the ranks. */
int64_t ett_matches_longest(const ett_matches *m, size_t i);

#endif
