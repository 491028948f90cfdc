/* align.h - aligns the collective sequences of two ranks.
 *
 * A collective ends on all ranks within microseconds. The best offset has the smallest
 * differences of ends. For clocks with a constant difference, the best offset has the
 * most equal differences. */
#ifndef ETT_TRACE_ALIGN_H
#define ETT_TRACE_ALIGN_H

#include "trace/query/sequence.h"

/* Item i of the first sequence is item i + offset of the second. */
typedef struct ett_alignment {
  bool found, has_second;
  int64_t offset;
  /* Median |difference|; by spread, the median distance of the differences from their
   * median, which is `clock`. second: the same for the next best offset, on a sample. */
  double median, second, clock;
} ett_alignment;

/* Finds the best offset: it keeps at least half of the shorter sequence, and 9 of 10
 * kernel pairs have the same type. Tries offsets up to 32, and up to the difference of
 * lengths, on a sample. 0, or -1 if memory runs out. */
int ett_align(ett_alignment *out, const ett_sequence *a, const ett_sequence *b,
              bool by_spread);
/* The same values for a given offset, over all pairs. */
int ett_align_at(ett_alignment *out, const ett_sequence *a, const ett_sequence *b,
                 int64_t offset, bool by_spread);

#endif
