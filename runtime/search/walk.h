/* walk.h - the best plans of a part of a search: one program on given degrees, chunks
 * and schedule, over recomputation, ZeRO and overlaps.
 *
 * Branch and bound. The outline of a plan (ett_step_outline) gives its memory and a lower
 * bound of its time. If the bound of a partial choice is above the threshold, all plans
 * under it are settled without evaluation. */
#ifndef ETT_SEARCH_WALK_H
#define ETT_SEARCH_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "step/step.h"

#define ETT_SEARCH_MOST 4

/* Values of the searched fields, in the caller's order. A field without effect takes its
 * first value. */
typedef struct ett_search_axes {
  int recompute[ETT_SEARCH_MOST], zero[ETT_SEARCH_MOST];
  int overlap_parameters[2], overlap_gradients[2], overlap_sends[2];
  int recomputes, zeros, parameters, gradients, sends; /* number of values of each */
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

/* A leaf: one choice of recompute, zero and overlap_parameters, as indexes into the axes.
 * Evaluated: its fastest plan. */
typedef struct ett_search_row {
  int recompute, zero, overlap_parameters, overlap_gradients, overlap_sends;
  double step_seconds, memory_bytes;
  double shard_parameters; /* of the device with most, each once among its replicas */
} ett_search_row;

/* How plans were settled. */
typedef struct ett_search_counts {
  int64_t plans;     /* their sum */
  int64_t forbidden; /* by the caller's mask */
  int64_t too_large; /* more memory than the limit */
  int64_t bounded;   /* cut by a lower bound */
  int64_t evaluated;
  int64_t refused; /* a fault of the plan */
  int64_t untimed; /* to be asked about again after the answers */
} ett_search_counts;

/* Most leaves of a part. */
#define ETT_SEARCH_LEAVES (ETT_SEARCH_MOST * ETT_SEARCH_MOST * 2)

/* The plans under `plan`, whose recompute, zero and overlaps are ignored. allowed: a byte
 * a plan in the order recompute, zero, overlap_parameters, overlap_gradients,
 * overlap_sends, the last fastest, over all values of the axes; NULL: all. */
typedef struct ett_search_part {
  const ett_program *program;
  const ett_step_plan *plan;
  const ett_search_axes *axes;
  const uint8_t *allowed;
  ett_demands *demands;
  ett_step_workspace *workspace;
} ett_search_part;

/* Seconds that the passes of a micro-batch take at least in all layers: without
 * recomputation, and with all of what may hide. */
double ett_search_passes(const ett_program *program, ett_exchange_overlap overlap);

/* What the plans of a part take at least, by a look at each recomputation. INFINITY:
 * bounds settle all, and they are added to counts. counts.untimed grows where a bound
 * lacks times that are not answered yet. */
double ett_search_survey(const ett_search_part *part, const ett_search_limits *limits,
                         ett_search_counts *counts);

/* The leaves of a part that bounds leave, with the step_seconds that each takes at least;
 * the plans of the others are added to counts. Room: ETT_SEARCH_LEAVES. */
void ett_search_expand(const ett_search_part *part, const ett_search_limits *limits,
                       ett_search_row *leaves, size_t *count, ett_search_counts *counts);

/* Evaluates the plans of a leaf that bounds leave, and adds all of its plans to counts.
 * Returns 1: row holds the fastest, which is of interest; 0: none is; -1: a fault that is
 * not a plan's own. */
int ett_search_evaluate(const ett_search_part *part, const ett_search_limits *limits,
                        ett_search_row *row, ett_search_counts *counts, ett_err *err);

/* The time up to which a plan of that memory is of interest. */
double ett_search_threshold(const ett_search_limits *limits, double memory_bytes);

#endif
