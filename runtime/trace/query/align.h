/* align.h - where one rank's sequence of collectives lies on another's.
 *
 * A collective ends on all ranks within microseconds. So the sequences fit at the offset
 * with the smallest differences of ends, or, with clocks that differ by a constant, at
 * the one where the differences are most equal. */
#ifndef ETT_TRACE_ALIGN_H
#define ETT_TRACE_ALIGN_H

#include "trace/query/sequence.h"

/* Item i of the first sequence is item i + offset of the second. */
typedef struct ett_alignment {
  bool found, has_second;
  int64_t offset;
  /* Median |difference|; by spread the median distance of the differences from their
   * median, which is clock. second: the same at the next best offset, of a sample. */
  double median, second, clock;
} ett_alignment;

/* The best offset: it leaves half of the shorter sequence, and 9 of 10 kernels are of one
 * type. Offsets up to 32, and by how much the lengths differ, are tried on a sample. 0,
 * or -1 when memory ran out. */
int ett_align(ett_alignment *out, const ett_sequence *a, const ett_sequence *b,
              bool by_spread);
/* The same figures of a given offset over all pairs. */
int ett_align_at(ett_alignment *out, const ett_sequence *a, const ett_sequence *b,
                 int64_t offset, bool by_spread);

#endif
