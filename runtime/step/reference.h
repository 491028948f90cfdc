/* reference.h - the 3-D composition of estimate-train-time, quirks included.
 *
 * Kept so that its users can compare: the same inputs give the same intermediates. What
 * it gets wrong (and ett_step does right) is listed where it happens in reference.c.
 * All sizes are elements, all times are in the unit of the caller (the tool uses
 * microseconds). Formulas follow the tool's observed behaviour (golden.json). */
#ifndef ETT_SCHEDULE_REFERENCE_H
#define ETT_SCHEDULE_REFERENCE_H

#include <stdint.h>

#include "base/err.h"

/* The three stages the tool knows: first, every one between, last. */
enum {
  ETT_REFERENCE_HEAD,
  ETT_REFERENCE_MIDDLE,
  ETT_REFERENCE_TAIL,
  ETT_REFERENCE_STAGES
};

/* Largest value of any size field, so that no product below leaves int64. */
#define ETT_REFERENCE_LIMIT 10000000

typedef struct ett_reference_plan {
  int64_t pp, mp, dp;       /* degrees */
  int64_t b, h, l, dim;     /* micro-batch, heads, sequence, hidden */
  int64_t steps_per_update; /* micro-batches per step */
  int64_t gpus_per_node;
  int64_t comm_bucket; /* elements of one gradient or parameter message, at least 1 */
  int64_t encoders;
  double fwd_syncs, bwd_syncs; /* tensor-parallel all-reduces per encoder and pass */
} ett_reference_plan;

/* `parameters` cut into messages of comm_bucket elements: `full` of them, then one of
 * `rest` elements (0: none at all). */
typedef struct ett_reference_pieces {
  int64_t full, rest;
} ett_reference_pieces;

/* What has to be timed before the composition. */
typedef struct ett_reference_layout {
  int64_t layers[ETT_REFERENCE_STAGES]; /* may be negative, as in the tool */
  int64_t parameters[ETT_REFERENCE_STAGES];
  ett_reference_pieces all_reduce[ETT_REFERENCE_STAGES];
  ett_reference_pieces all_gather[ETT_REFERENCE_STAGES];
  int64_t p2p_elements, p2p_nodes, p2p_gpus;
  int64_t mp_elements, mp_nodes, mp_gpus;
  int64_t dp_nodes, dp_gpus;
} ett_reference_layout;

/* One operator's time in each pass. */
typedef struct ett_reference_time {
  double fwd, bwd;
} ett_reference_time;

typedef struct ett_reference_times {
  const ett_reference_time *encoder; /* in the order of encoder_function_list */
  int64_t encoder_count;
  ett_reference_time embedding, norm, linear_final, cross_entropy;
  double p2p, mp_all_reduce; /* 0 when pp, mp are 1 */
  /* of a full message and of the rest; unused entries are ignored */
  double all_reduce_full, all_reduce_rest[ETT_REFERENCE_STAGES];
  double all_gather_full, all_gather_rest[ETT_REFERENCE_STAGES];
  double optimizer[ETT_REFERENCE_STAGES];
} ett_reference_times;

typedef struct ett_reference_result {
  double encoder_fwd, encoder_bwd;
  double fwd[ETT_REFERENCE_STAGES], bwd[ETT_REFERENCE_STAGES];
  double fwd_with_p2p[ETT_REFERENCE_STAGES], bwd_with_p2p[ETT_REFERENCE_STAGES];
  double all_reduce[ETT_REFERENCE_STAGES], all_gather[ETT_REFERENCE_STAGES];
  double optimizer[ETT_REFERENCE_STAGES], update[ETT_REFERENCE_STAGES];
  double pipeline, head_all_reduce, max_update, total;
} ett_reference_result;

/* Splits layers and parameters and names the messages. Fails (ETT_ERR_ARGUMENT) when a
 * field is below 1 or beyond ETT_REFERENCE_LIMIT (comm_bucket: any positive value). */
int ett_reference_lay_out(const ett_reference_plan *plan, ett_reference_layout *layout,
                          ett_err *err);

/* The composition itself; layout is ett_reference_lay_out's for the same plan. */
void ett_reference_compose(const ett_reference_plan *plan,
                           const ett_reference_layout *layout,
                           const ett_reference_times *times,
                           ett_reference_result *result);

#endif
