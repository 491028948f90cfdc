/* walk.h - the best plans of a part of a search: one program with fixed degrees, chunks
 * and schedule. Recomputation, ZeRO and overlaps vary.
 *
 * Branch and bound. The outline of a plan (ett_step_outline) gives its memory and a lower
 * bound of its time. If the bound of a partial choice exceeds the threshold, all plans of
 * that choice are excluded without evaluation. */
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
  int reshard[2], overlap_parameters[2], overlap_gradients[2], overlap_sends[2];
  int recomputes, zeros, reshards, parameters, gradients, sends; /* numbers of values */
} ett_search_axes;

/* A plan is wanted if its step is not longer than a limit that depends on its memory.
 * The limit is step_seconds of the last of these entries with at most the plan's memory.
 * They are sorted by memory. */
typedef struct ett_search_step {
  double memory_bytes, step_seconds;
} ett_search_step;

typedef struct ett_search_limits {
  double memory_bytes; /* plans with more are excluded */
  const ett_search_step *steps;
  size_t step_count;
  int exhaustive;    /* bounds of the time exclude no plan */
  unsigned excluded; /* kinds of recomputation known to be excluded: bits by index on
                        the axis */
} ett_search_limits;

/* A leaf: one choice of recompute, zero, reshard and overlap_parameters, as indexes into
 * the axes. Evaluated: its fastest plan. */
typedef struct ett_search_row {
  int recompute, zero, reshard, overlap_parameters, overlap_gradients, overlap_sends;
  double step_seconds, memory_bytes;
  double shard_parameters; /* most on one device; replicas share them out */
} ett_search_row;

/* Number of plans by outcome. */
typedef struct ett_search_counts {
  int64_t plans;     /* their sum */
  int64_t forbidden; /* by the caller's mask */
  int64_t too_large; /* more memory than the limit */
  int64_t bounded;   /* excluded by a lower bound */
  int64_t evaluated;
  int64_t refused;   /* a fault of the plan */
  char refusal[200]; /* of the first refused one; "" for none */
  int64_t untimed;   /* some demands have no time yet: call again later */
} ett_search_counts;

/* Most leaves of a part. */
#define ETT_SEARCH_LEAVES (ETT_SEARCH_MOST * ETT_SEARCH_MOST * 2 * 2)

/* The variants of `plan`; its own recompute, zero, reshard and overlaps are ignored.
 * allowed: one byte per plan over all values of the axes, in the order recompute, zero,
 * reshard, overlap_parameters, overlap_gradients, overlap_sends (fastest); NULL: all. */
typedef struct ett_search_part {
  const ett_program *program;
  const ett_step_plan *plan;
  const ett_search_axes *axes;
  const uint8_t *allowed;
  ett_demands *demands;
  ett_step_workspace *workspace;
} ett_search_part;

/* Lower bound, in seconds, of the passes of a micro-batch over all layers, with all
 * hideable time hidden. */
double ett_search_passes(const ett_program *program, ett_exchange_overlap overlap,
                         ett_recompute recompute);

/* Lower bound of the step times of a part, from one bound per kind of recomputation.
 * INFINITY: bounds exclude all plans; then they are added to counts. counts.untimed grows
 * if a bound needs times that are still missing. *excluded: bits of the kinds of
 * recomputation of which all plans need too much memory, or conflict
 * (ett_step_conflicts). */
double ett_search_survey(const ett_search_part *part, const ett_search_limits *limits,
                         ett_search_counts *counts, unsigned *excluded);

/* The leaves of a part that bounds do not exclude; step_seconds is the bound of each. The
 * plans of excluded leaves are added to counts. Capacity: ETT_SEARCH_LEAVES. */
void ett_search_expand(const ett_search_part *part, const ett_search_limits *limits,
                       ett_search_row *leaves, size_t *count, ett_search_counts *counts);

/* Evaluates the plans of a leaf that bounds do not exclude, and adds all its plans to
 * counts. Returns 1: row holds the fastest plan, which is wanted; 0: no plan is wanted;
 * -1: an error that does not come from a plan. */
int ett_search_evaluate(const ett_search_part *part, const ett_search_limits *limits,
                        ett_search_row *row, ett_search_counts *counts, ett_err *err);

/* The time up to which a plan with that memory is wanted. */
double ett_search_threshold(const ett_search_limits *limits, double memory_bytes);

#endif
