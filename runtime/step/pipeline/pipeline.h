/* pipeline.h - one training step through a pipeline: orders, event engine, closed forms.
 *
 * A pipeline has `stages` ranks; each holds `chunks` slots, and a slot holds one slice of
 * the model. Slot chunk * stages + rank is that rank's. `next` says where the slice
 * behind a slot's slice is; without it slot v + 1 follows slot v. A schedule may hold a
 * slice in several slots: each chain of slots from a first slice to a last one is a way,
 * and a micro-batch takes one way. Each slot runs a forward and a backward unit for each
 * of its micro-batches, and a weight-gradient unit where the backward is split. A rank
 * runs its units in the order of its schedule. A unit starts when its rank is free and
 * its input has arrived. Times are seconds of at least 0. */
#ifndef ETT_STEP_PIPELINE_H
#define ETT_STEP_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum ett_unit_kind {
  ETT_UNIT_FORWARD,
  ETT_UNIT_BACKWARD, /* with weight units: the input gradient alone */
  ETT_UNIT_WEIGHT,
  ETT_UNIT_WHOLE, /* a backward in one piece, where others are split */
  ETT_UNIT_KINDS
} ett_unit_kind;

typedef struct ett_unit {
  uint8_t kind;   /* ett_unit_kind */
  uint8_t paired; /* a forward that runs together with the next unit, a backward */
  uint16_t chunk;
  uint32_t micro_batch;
} ett_unit;

typedef enum ett_schedule_kind {
  ETT_SCHEDULE_GPIPE,       /* all forward, then all backward */
  ETT_SCHEDULE_1F1B,        /* Narayanan et al. 2021, section 2.2.1 */
  ETT_SCHEDULE_INTERLEAVED, /* the same, section 2.2.2: Megatron-LM's order */
  ETT_SCHEDULE_CUSTOM,      /* the caller's units */
} ett_schedule_kind;

/* Bounds that keep every product below in int64 and every table in memory. */
#define ETT_PIPELINE_MAX_STAGES 4096
#define ETT_PIPELINE_MAX_CHUNKS 1024
#define ETT_PIPELINE_MAX_UNITS (1 << 26)

/* Units of an ETT_SCHEDULE_CUSTOM, and where they run. */
typedef struct ett_orders {
  int stages, chunks; /* slots of a stage, of all ways */
  int ways;
  int has_weight, has_pairs;
  const int32_t *slice;       /* per slot: the slice that it holds */
  const int32_t *next, *prev; /* per slot: of the slices after and before; -1: none */
  /* Units of rank r are units[first_unit[r] .. first_unit[r+1]). */
  const ett_unit *units;
  const size_t *first_unit;
  const double *runs;  /* per slot: its forwards */
  const int64_t *most; /* per rank: forwards kept at most, declared; NULL: no limit */
  uint64_t identity;   /* the same for the same orders */
  /* Without units: ett_pipeline_plan makes them. One chunk, one way, weight units, and
   * `most`, which stands for what they keep whatever the times. */
  int planned;
} ett_orders;

typedef struct ett_pipeline {
  ett_schedule_kind schedule;
  int stages, chunks;
  int64_t micro_batches;
  int64_t group; /* interleaved: micro-batches that pass a chunk before the next chunk */
  /* Per slot (stages * chunks of them), seconds of one unit. weight: NULL when the
   * backward unit does the whole backward pass. */
  const double *forward, *backward, *weight;
  /* Seconds of the message from a slot to the next one (activations) and back
   * (gradients). Unused where both are on one rank, and after the last slice. */
  const double *send_forward, *send_backward;
  /* Whether a rank is busy while it sends. Otherwise messages of one rank and direction
   * queue on its link and the rank computes on. */
  int blocking_sends;
  /* Whether a rank is busy while it receives, too; needs blocking_sends. DeepSpeed's
   * pipelines do so. Megatron-LM's exchange messages, which costs each side one transfer.
   */
  int blocking_receives;
  /* Pairs: a rank runs the forward of one micro-batch together with the backward of
   * another. Both inputs must have arrived; both outputs leave at the end. Per slot:
   * seconds of its forward (backward) unit that a pair can hide; slots a and b hide the
   * smaller value. NULL: a pair hides nothing, and 1f1b and interleaved form none.
   * Under these two, ranks warm up longer, so that the two are independent: by one
   * forward under the interleaved order (Megatron-LM, overlap_moe_expert_parallel_comm),
   * by 1F1B's own warm-up and one with a single chunk. */
  const double *forward_hidden, *backward_hidden;
  const double *start;      /* per rank: when it may begin; NULL: 0 */
  const ett_orders *orders; /* ETT_SCHEDULE_CUSTOM */
} ett_pipeline;

/* The arrays belong to the workspace and are valid until its next use. */
typedef struct ett_pipeline_result {
  double makespan;    /* last finish, sends included */
  const double *busy; /* per rank: seconds of computing */
  const double *end;  /* per rank: when its last unit is finished (and sent) */
  const double *last_backward_start; /* per slot: its last backward (or weight) unit */
  const double *last_backward_end;
  const double *unit_start; /* per rank and unit in order, when asked for; else NULL */
  const double *hidden_forward; /* per rank: seconds of forward units hidden in pairs */
  const double *hidden_backward;
} ett_pipeline_result;

/* Scratch memory, grown as needed and reused; one per thread. It keeps the tapes of the
 * last schedules (walk.h). */
typedef struct ett_pipeline_workspace ett_pipeline_workspace;
ett_pipeline_workspace *ett_pipeline_workspace_new(void);
void ett_pipeline_workspace_free(ett_pipeline_workspace *workspace);

/* Checks the fields that do not depend on times. */
int ett_pipeline_check(const ett_pipeline *pipeline, ett_err *err);

/* Fills next and prev of each slot from the slice that it holds: way w has the chunks
 * from w * chunks / ways on. Fails when a way lacks or repeats a slice. */
int ett_orders_link(const int32_t *slice, int stages, int chunks, int ways, int32_t *next,
                    int32_t *prev, ett_err *err);

/* Checks that every micro-batch takes one way and runs each of its units once, and that
 * no rank keeps more forwards than it declares. */
int ett_orders_check(const ett_orders *orders, int64_t micro_batches, ett_err *err);

/* A number that differs for different orders, but for one chance in 2^64. */
uint64_t ett_orders_identity(const ett_orders *orders);

/* How stages go from one step to the next. */
typedef enum ett_plan_ends {
  ETT_PLAN_ENDS_TOGETHER, /* all begin when the last one has ended */
  ETT_PLAN_ENDS_APART,    /* each when it has ended */
  ETT_PLAN_ENDS_MEET,     /* so, but the first and the last wait for one another */
} ett_plan_ends;

/* Where the orders are planned: makes their units by the times of p, so that steps take
 * least, and points p->orders at them. They belong to the workspace until its next plan.
 */
int ett_pipeline_plan(ett_pipeline *p, ett_pipeline_workspace *workspace,
                      ett_plan_ends ends, ett_err *err);

/* Whether further plans are the last one, whatever their times. */
void ett_pipeline_hold_plan(ett_pipeline_workspace *workspace, int held);

/* Units of one rank: 2 per micro-batch and chunk (3 with weight units, custom only). */
size_t ett_pipeline_unit_count(const ett_pipeline *pipeline, int rank);

/* The k-th unit of a rank, k from 0. */
ett_unit ett_pipeline_unit(const ett_pipeline *pipeline, int rank, size_t k);

/* Seconds from start to end of the k-th unit of a rank: of the pair, when it is in one.
 */
double ett_pipeline_unit_seconds(const ett_pipeline *pipeline, int rank, size_t k);

/* Runs every unit as early as the order allows; exact for any times (to rounding: what a
 * steady state repeats is multiplied). ETT_ERR_ARGUMENT when an order lacks or repeats a
 * unit, or waits for itself. keep_units: also fill unit_start (rank after rank). */
int ett_pipeline_run(const ett_pipeline *pipeline, ett_pipeline_workspace *workspace,
                     int keep_units, ett_pipeline_result *result, ett_err *err);

/* gpipe without events, exactly. Each half is a flow shop of identical jobs: one job on
 * all machines and m - 1 times the slowest machine. Sends are machines, or part of the
 * sender when they block it. Needs schedule gpipe and one chunk, and no start times;
 * fills the result as ett_pipeline_run does, without unit_start. */
int ett_pipeline_gpipe_closed(const ett_pipeline *pipeline,
                              ett_pipeline_workspace *workspace,
                              ett_pipeline_result *result, ett_err *err);

/* Makespan between two closed forms; equal ones are the answer.
 *   lower: a rank's own work plus the shortest way to it and from it (custom schedules:
 *          its own work, or one micro-batch through the pipeline);
 *   upper: one micro-batch through the whole pipeline and m - 1 cycles of the slowest
 *          rank with its sends (1F1B); for uniform stages without sends both are
 *          (m + stages - 1)(f + b), and (m + (stages - 1) / chunks)(f + b) interleaved.
 * upper is infinite for schedules without a closed upper form, and for pairs; their
 * lower one takes everything that can hide as hidden. */
typedef struct ett_pipeline_bounds {
  double lower, upper;
} ett_pipeline_bounds;
ett_pipeline_bounds ett_pipeline_closed(const ett_pipeline *pipeline);

/* The most micro-batches of a rank's slots whose forward is done and whose backward is
 * not, weighted: weight[slot] per micro-batch in flight. Independent of times. */
double ett_pipeline_peak_in_flight(const ett_pipeline *pipeline, int rank,
                                   const double *weight);

#endif
