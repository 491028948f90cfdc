/* walk.h - the best plans of a part of a search: one program on given degrees, chunks
 * and schedule, over recomputation, ZeRO and overlaps.
 *
 * Branch and bound. The outline of a plan (ett_step_outline) gives its memory and a lower
 * bound of its time. Where the bound of a partial choice is above the threshold, all
 * plans under it are settled without being evaluated. */
#ifndef ETT_SEARCH_WALK_H
#define ETT_SEARCH_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "step/step.h"

#define ETT_SEARCH_MOST 4

/* Values of the fields that are searched, in the caller's order. A field without effect
 * takes its first value. */
typedef struct ett_search_axes {
  int recompute[ETT_SEARCH_MOST], zero[ETT_SEARCH_MOST];
  int overlap_parameters[2], overlap_gradients[2], overlap_sends[2];
  int recomputes, zeros, parameters, gradients, sends; /* how many of each */
} ett_search_axes;

/* A plan of at most memory_bytes is of interest up to a time: that of the last step whose
 * memory_bytes are no more than its own. Steps have rising memory. */
typedef struct ett_search_step {
  double memory_bytes, step_seconds;
} ett_search_step;

typedef struct ett_search_limits {
  double memory_bytes; /* plans with more are cut */
  const ett_search_step *steps;
  size_t step_count;
  int exhaustive; /* no plan is cut by a bound of its time */
} ett_search_limits;

/* The fastest plan of one choice of recompute, zero and overlap_parameters: indexes into
 * the axes. */
typedef struct ett_search_row {
  int recompute, zero, overlap_parameters, overlap_gradients, overlap_sends;
  double step_seconds, memory_bytes;
  double shard_parameters; /* of the device with most, each once among its replicas */
} ett_search_row;

/* How every plan of the part was settled. */
typedef struct ett_search_counts {
  int64_t plans;     /* their sum */
  int64_t forbidden; /* by the caller's mask */
  int64_t too_large; /* more memory than the limit */
  int64_t bounded;   /* cut by a lower bound */
  int64_t evaluated;
  int64_t refused; /* a fault of the plan */
  int64_t untimed; /* of the evaluated ones: to be walked again after the answers */
} ett_search_counts;

/* Room for the rows of a walk. */
#define ETT_SEARCH_ROWS (ETT_SEARCH_MOST * ETT_SEARCH_MOST * 2)

/* Walks the plans of `plan`, whose recompute, zero and overlaps are ignored. allowed: a
 * byte a plan in the order recompute, zero, overlap_parameters, overlap_gradients,
 * overlap_sends, the last fastest, over all values of the axes; NULL: all.
 * Writes the rows within the limits; adds to counts. Returns 0, or -1 on a fault that is
 * not a plan's own. */
int ett_search_walk(const ett_program *program, const ett_step_plan *plan,
                    const ett_search_axes *axes, const uint8_t *allowed,
                    const ett_search_limits *limits, ett_demands *demands,
                    ett_step_workspace *workspace, ett_search_row *rows,
                    size_t *row_count, ett_search_counts *counts, ett_err *err);

/* The time up to which a plan of that memory is of interest. */
double ett_search_threshold(const ett_search_limits *limits, double memory_bytes);

#endif
