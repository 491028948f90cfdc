/* sequence.h - collectives of one device in order of start, as columns.
 *
 * A collective has its own times. Its other properties (kind, bytes, group, …) are given
 * by its sort, a number from 0 that the caller describes. */
#ifndef ETT_TRACE_SEQUENCE_H
#define ETT_TRACE_SEQUENCE_H

#include "trace/query/select.h"

typedef struct ett_sequence {
  int64_t *starts, *ends; /* ticks */
  double *own;            /* ticks stated by the device; NULL: end - start */
  uint32_t *sorts;
  size_t count;
  uint32_t sort_count;
  const uint32_t *types; /* per sort: number of the kernel type; NULL: all equal */
} ett_sequence;

static inline uint32_t ett_sequence_type(const ett_sequence *s, size_t i) {
  return s->types ? s->types[s->sorts[i]] : 0;
}

static inline double ett_sequence_own(const ett_sequence *s, size_t i) {
  return s->own ? s->own[i] : (double)(s->ends[i] - s->starts[i]);
}

/* Bytes of the columns, and the columns in that memory; with_own: including own. */
size_t ett_sequence_bytes(size_t count, bool with_own);
void ett_sequence_place(ett_sequence *s, void *memory, size_t count, bool with_own);

/* Fills starts and ends, and own if present: the numeric arg times scale, or the
 * duration. Rows have no holes. */
void ett_sequence_fill(ett_sequence *s, const ett_trace *t, const ett_selection *rows,
                       uint32_t arg, double scale);

/* Splits a sequence: collectives of sort n go to parts[homes[n] - 1]; those with home 0
 * are dropped. The parts' columns have the sizes of ett_sequence_sizes. */
void ett_sequence_sizes(const ett_sequence *s, const uint32_t *homes, size_t *sizes);
void ett_sequence_split(const ett_sequence *s, const uint32_t *homes,
                        ett_sequence *parts);

/* In the functions below, keep has one byte per sort; NULL keeps all. */

/* Sum of own ticks in order, and their number; positive: only durations above 0. */
double ett_sequence_sum(const ett_sequence *s, const uint8_t *keep, bool positive,
                        size_t *count);
/* The intervals, merged. 0, or -1 if memory runs out. */
int ett_sequence_intervals(ett_intervals *out, const ett_sequence *s,
                           const uint8_t *keep);

/* Own ticks of all collectives of one group. Percentile p is the value at position
 * floor(p n) from 0. */
typedef struct ett_spread {
  size_t count;
  double total, min, p50, p95, max;
} ett_spread;

/* Spreads over several sequences: collectives of sort n of sequence i belong to group
 * homes[i][n] - 1, or to none where that is 0. 0, or -1 when memory ran out. */
int ett_sequence_spreads(ett_spread *out, size_t groups, const ett_sequence *const *lists,
                         const uint32_t *const *homes, size_t count);

#endif
