/* matches.h - the same collectives on several ranks, and who waited for whom. */
#ifndef ETT_TRACE_MATCHES_H
#define ETT_TRACE_MATCHES_H

#include "trace/query/sequence.h"

/* One collective over its ranks, in the first rank's time. */
typedef struct ett_match {
  int64_t first_start, last_start, first_end, last_end;
  uint32_t late, late_highest; /* rank that started last: lowest, highest on ties */
} ett_match;

/* Match i is item first[r] + i of list r, whose clock is ahead by clocks[r]. */
typedef struct ett_matches {
  const ett_sequence *const *lists;
  const size_t *first;
  const int64_t *clocks;
  size_t ranks, count;
  ett_match *items;
} ett_matches;

/* Fills items, which has room for count. */
void ett_matches_fill(ett_matches *m);

/* What is exposed of a rank's matched collectives: before the last start it is waiting,
 * charged to the late rank, after it transfer. by_rank has ranks entries, the others one
 * for each sort of the rank's list; all are added to. Ticks. */
typedef struct ett_charges {
  int64_t waiting, transfer;
  int64_t *by_rank, *waiting_of, *transfer_of, *count_of;
} ett_charges;
void ett_matches_charge(ett_charges *out, const ett_matches *m, size_t rank,
                        const ett_intervals *exposed);

/* Longest duration of a match over the ranks. */
int64_t ett_matches_longest(const ett_matches *m, size_t i);

#endif
