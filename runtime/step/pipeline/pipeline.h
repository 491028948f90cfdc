/* pipeline.h - one training step through a pipeline: orders, event engine, closed forms.
 *
 * A pipeline has `stages` ranks. Each rank has `chunks` slots, and a slot holds one slice
 * of the model. Slot chunk * stages + rank belongs to that rank. `next` gives the slot of
 * the next slice; without `next`, slot v + 1 follows slot v. A schedule may hold a slice
 * in several slots. Each chain of slots from the first slice to the last is a way, and a
 * micro-batch takes one way. Each slot runs a forward and a backward unit for each of its
 * micro-batches. If the backward is split, it also runs a weight-gradient unit. A rank
 * runs its units in the order of its schedule. A unit starts when its rank is free and
 * its input has arrived. Times are non-negative seconds. */
#ifndef ETT_STEP_PIPELINE_H
#define ETT_STEP_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum ett_unit_kind {
  ETT_UNIT_FORWARD,
  ETT_UNIT_BACKWARD, /* with weight units: only the input gradient */
  ETT_UNIT_WEIGHT,
  ETT_UNIT_WHOLE, /* an unsplit backward in a schedule with weight units */
  ETT_UNIT_KINDS
} ett_unit_kind;

typedef struct ett_unit {
  uint8_t kind;   /* ett_unit_kind */
  uint8_t paired; /* a forward that runs in a pair with the next unit, a backward */
  uint16_t chunk;
  uint32_t micro_batch;
} ett_unit;

typedef enum ett_schedule_kind {
  ETT_SCHEDULE_GPIPE,       /* all forwards, then all backwards */
  ETT_SCHEDULE_1F1B,        /* Narayanan et al. 2021, section 2.2.1 */
  ETT_SCHEDULE_INTERLEAVED, /* the same, section 2.2.2, in Megatron-LM's order */
  ETT_SCHEDULE_CUSTOM,      /* units given by the caller */
} ett_schedule_kind;

/* Limits that keep every product below in int64 and bound the size of tables. */
#define ETT_PIPELINE_MAX_STAGES 4096
#define ETT_PIPELINE_MAX_CHUNKS 1024
#define ETT_PIPELINE_MAX_UNITS (1 << 26)

/* Units of an ETT_SCHEDULE_CUSTOM and their slots. */
typedef struct ett_orders {
  int stages, chunks; /* slots of a stage, over all ways */
  int ways;
  int has_weight, has_pairs;
  const int32_t *slice; /* per slot: its slice */
  const int32_t *next,
      *prev; /* per slot: slots of the next and previous slice; -1: none */
  /* Units of rank r are units[first_unit[r] .. first_unit[r+1]). */
  const ett_unit *units;
  const size_t *first_unit;
  const double *runs;  /* per slot: number of forwards */
  const double *whole; /* per slot: number of whole backwards (has_weight) */
  const int64_t *most; /* per rank: declared maximum of forwards held; NULL: no limit */
  uint64_t identity;   /* hash of the orders */
  /* Orders without units: ett_pipeline_plan computes the units. Needs one chunk, one way,
   * weight units and `most`. `most` bounds the held forwards for any times. */
  int planned;
} ett_orders;

typedef struct ett_pipeline {
  ett_schedule_kind schedule;
  int stages, chunks;
  int64_t micro_batches;
  int64_t group; /* interleaved: micro-batches of a group that passes one chunk before the
                    next */
  /* Seconds of one unit per slot (stages * chunks slots). weight: NULL if the backward
   * unit is the whole backward pass. */
  const double *forward, *backward, *weight;
  /* Seconds by which an ETT_UNIT_WHOLE is shorter than its two parts, at most those of
   * the weight unit; NULL: 0. */
  const double *joined;
  /* Seconds of the message from a slot to the next one (activations) and back
   * (gradients). Not used if both slots are on one rank, nor after the last slice. */
  const double *send_forward, *send_backward;
  /* Whether sends block the sender. Otherwise the messages of one rank and direction
   * queue on its link while the rank computes. */
  int blocking_sends;
  /* Whether receives block the receiver, too; needs blocking_sends. They do in
   * DeepSpeed's pipelines. Megatron-LM sends and receives together, so each side waits
   * for one transfer.
   */
  int blocking_receives;
  /* Pairs: a rank runs the forward of one micro-batch together with the backward of
   * another. A pair starts when both inputs have arrived and sends both outputs at its
   * end. Per slot: seconds of its forward (backward) unit that a pair can hide. Slots a
   * and b hide the smaller of their values. NULL: a pair hides nothing, and 1f1b and
   * interleaved form no pairs. With pairs, these two schedules have longer warm-ups, so
   * that both units are independent. The interleaved order adds one forward (Megatron-LM,
   * overlap_moe_expert_parallel_comm). With a single chunk, 1F1B adds its own warm-up and
   * one forward. */
  const double *forward_hidden, *backward_hidden;
  const double *start;      /* per rank: earliest start; NULL: 0 */
  const ett_orders *orders; /* for ETT_SCHEDULE_CUSTOM */
} ett_pipeline;

/* The arrays belong to the workspace and are valid until its next use. */
typedef struct ett_pipeline_result {
  double makespan;                   /* end of the last unit or send */
  const double *busy;                /* per rank: seconds of computing */
  const double *end;                 /* per rank: end of its last unit and of its send */
  const double *last_backward_start; /* per slot: its last backward (or weight) unit */
  const double *last_backward_end;
  const double *hidden_forward; /* per rank: seconds of forward units hidden in pairs */
  const double *hidden_backward;
} ett_pipeline_result;

/* Scratch memory, grown as needed and reused; one per thread. Caches the tapes of recent
 * schedules (walk.h). */
typedef struct ett_pipeline_workspace ett_pipeline_workspace;
ett_pipeline_workspace *ett_pipeline_workspace_new(void);
void ett_pipeline_workspace_free(ett_pipeline_workspace *workspace);

/* Checks the fields that do not depend on times. */
int ett_pipeline_check(const ett_pipeline *pipeline, ett_err *err);

/* Fills next and prev of each slot from its slice. Way w has chunks w * chunks / ways and
 * following. Fails if a way lacks or repeats a slice. */
int ett_orders_link(const int32_t *slice, int stages, int chunks, int ways, int32_t *next,
                    int32_t *prev, ett_err *err);

/* Checks that every micro-batch takes one way and runs each of its units once, and that
 * no rank holds more forwards than declared. */
int ett_orders_check(const ett_orders *orders, int64_t micro_batches, ett_err *err);

/* A 64-bit hash of the orders. */
uint64_t ett_orders_identity(const ett_orders *orders);
/* A hash of the slices of each stage; 0 without orders or with one way. */
uint64_t ett_orders_places(const ett_orders *orders);

/* When stages begin the next step. */
typedef enum ett_plan_ends {
  ETT_PLAN_ENDS_TOGETHER, /* all stages begin after the last stage has ended */
  ETT_PLAN_ENDS_APART,    /* each stage begins after its own end */
  ETT_PLAN_ENDS_MEET, /* as APART, but the first and the last stage wait for each other */
} ett_plan_ends;

/* For planned orders: computes the units that minimise the step for the times of p, and
 * sets p->orders. The units belong to the workspace until its next plan. */
int ett_pipeline_plan(ett_pipeline *p, ett_pipeline_workspace *workspace,
                      ett_plan_ends ends, ett_err *err);

/* While held, ett_pipeline_plan keeps the last order for all times. */
void ett_pipeline_hold_plan(ett_pipeline_workspace *workspace, int held);

/* Units of one rank: 2 per micro-batch and chunk (3 with weight units, custom only). */
size_t ett_pipeline_unit_count(const ett_pipeline *pipeline, int rank);

/* Those units, in order. */
void ett_pipeline_units(const ett_pipeline *pipeline, int rank, ett_unit *units);

/* Runs every unit as early as the order allows. Exact for any times, up to rounding:
 * repeated periods are multiplied. ETT_ERR_ARGUMENT if an order lacks or repeats a unit,
 * or deadlocks. */
int ett_pipeline_run(const ett_pipeline *pipeline, ett_pipeline_workspace *workspace,
                     ett_pipeline_result *result, ett_err *err);

/* Exact gpipe without events. Each half is a flow shop of identical jobs: one job on all
 * machines plus m - 1 times the slowest machine. A send is a machine of its own, or part
 * of the sender if it blocks. Needs schedule gpipe, one chunk and no start times. Fills
 * the result as ett_pipeline_run does. */
int ett_pipeline_gpipe_closed(const ett_pipeline *pipeline,
                              ett_pipeline_workspace *workspace,
                              ett_pipeline_result *result, ett_err *err);

/* Bounds of the makespan from two closed forms; equal bounds are exact.
 *   lower: work of a rank plus the shortest path to it and from it (custom schedules:
 *          its work, or one micro-batch through the pipeline);
 *   upper: one micro-batch through the whole pipeline and m - 1 cycles of the slowest
 *          rank with its sends (1F1B).
 * For uniform stages without sends, both are (m + stages - 1)(f + b) for 1F1B and (m +
 * (stages - 1) / chunks)(f + b) for interleaved. upper is infinite for pairs and for
 * schedules without a closed upper form. With pairs, lower assumes that all hideable time
 * is hidden. */
typedef struct ett_pipeline_bounds {
  double lower, upper;
} ett_pipeline_bounds;
ett_pipeline_bounds ett_pipeline_closed(const ett_pipeline *pipeline);

/* Peak of the bytes of micro-batches in flight on a rank. Independent of times. Per slot
 * and micro-batch: held[slot] from its forward to its backward. If the backward is split,
 * late[slot] from its input gradient to its weight gradient. Else late is not read.
 * again: further bytes during a backward. A split one turns them into late bytes. Planned
 * orders have an upper bound: any forward that is held may wait for its weight gradient.
 *
 * A pair of 1f1b or interleaved runs layer by layer: the forward's first layer runs with
 * the backward's last layer, and each backward layer frees its memory (Megatron-Core,
 * TransformerModelChunkSchedulePlan). So the forward replaces the backward in memory,
 * plus one layer, which the caller adds. In a custom schedule, all of the forward of a
 * pair is held before its backward ends. */
double ett_pipeline_peak_in_flight(const ett_pipeline *pipeline, int rank,
                                   const double *held, const double *late, double again);

#endif
