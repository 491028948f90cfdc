/* links.h - the event engine of resources: a pipeline together with what its links carry.
 *
 * Each stage has its compute, and a lane for what it sends on the links of each tier
 * (comm/placement.h). A transfer occupies a share of each lane that it crosses. On them
 * run
 *   units         of the pipeline, on compute, in the order of their rank. Their own
 *                 messages are spread evenly over them;
 *   sends         to other stages, one after the other as they are made. Blocking sends
 *                 hold their rank, others queue: those of the stage's outermost lane, and
 *                 all others;
 *   gathers       of the weights of a slot, from the start of the step on. The first
 *                 forward of a slot ends after its gather;
 *   reductions    of gradient buckets, made evenly over the backward or weight unit.
 *
 * A transfer is as slow as its slowest lane makes it. A send beside a unit gets its share
 * of a lane, or what the unit leaves of it, and at least half; so do two sends beside one
 * another. Gathers and reductions follow one another and get what these leave. A message
 * is counted at the stage that sends it. Computing beside gathers and reductions is
 * slower by `share`. */
#ifndef ETT_STEP_LINKS_H
#define ETT_STEP_LINKS_H

#include "step/pipeline/pipeline.h"
#include "step/program.h"

/* Messages of a buffer cut into buckets. */
typedef struct ett_buckets {
  double size, full, rest;     /* bytes of a full one, how many, bytes of the last */
  double full_time, rest_time; /* seconds */
} ett_buckets;

/* The gradient messages of one slice. */
typedef struct ett_slice_gradients {
  ett_buckets dense, expert;
} ett_slice_gradients;

typedef struct ett_links {
  int lanes;
  double collective[ETT_LANES]; /* shares that reductions and gathers occupy */
  double send[ETT_LANES]
             [ETT_LANES]; /* shares that sends occupy, by their outermost one */
  /* Per slot: of a unit's own messages, seconds on each lane. NULL: none. */
  const double *forward_busy[ETT_LANES], *backward_busy[ETT_LANES];
  const int32_t *send_lane; /* per slot: outermost of the message to the next, and back */
  const ett_slice_gradients *gradients; /* per slot; NULL: no reductions beside units */
  int reduces_every;    /* after every micro-batch of a slot, not only after its last */
  const double *gather; /* per slot: seconds; NULL: none */
  double share;         /* of compute, taken by reductions and gathers beside it */
} ett_links;

typedef enum ett_transfer_kind {
  ETT_TRANSFER_FORWARD,  /* activations, to the stage of the next slice */
  ETT_TRANSFER_BACKWARD, /* their gradients */
  ETT_TRANSFER_REDUCE,   /* buckets that followed one another without a pause */
  ETT_TRANSFER_GATHER,
} ett_transfer_kind;

typedef struct ett_transfer {
  ett_transfer_kind kind;
  int lane;            /* the outermost one */
  int stage, slot, to; /* to: stage that receives a send */
  uint32_t micro_batch;
  double start, end;
} ett_transfer;

/* The arrays belong to the workspace and are valid until its next use. */
typedef struct ett_links_result {
  ett_pipeline_result pipeline;
  const double *reduced;         /* per stage: end of its last reduction; 0: none */
  const double *gather_wait;     /* per stage: seconds that forwards waited for weights */
  const double *unit_end;        /* as pipeline.unit_start */
  const ett_transfer *transfers; /* when units are kept */
  size_t transfer_count;
} ett_links_result;

typedef struct ett_links_workspace ett_links_workspace;
ett_links_workspace *ett_links_workspace_new(void);
void ett_links_workspace_free(ett_links_workspace *workspace);

/* A block of at least that many bytes, until the next call; NULL: no memory. */
void *ett_links_memory(ett_links_workspace *workspace, size_t bytes);

/* Runs a pipeline on its links, event by event; keep_units: also fill what is per unit
 * or transfer. A unit with more buckets than a limit makes them in groups. */
int ett_links_run(const ett_pipeline *pipeline, const ett_links *links,
                  ett_links_workspace *workspace, int keep_units,
                  ett_links_result *result, ett_err *err);

/* Whether what a stage sends depends on its own units and sends before alone. */
int ett_links_in_order(const ett_pipeline *pipeline, const ett_links *links);

/* Then the same, by the tape of the pipeline: one pass over its units. */
int ett_links_run_in_order(const ett_pipeline *pipeline, const ett_links *links,
                           ett_pipeline_workspace *workspace,
                           ett_links_workspace *links_workspace, ett_links_result *result,
                           ett_err *err);

/* The outermost lane of all sends of a stage, but at least 1: they queue apart. */
int ett_links_outermost(const ett_pipeline *pipeline, const ett_links *links, int stage);

/* Seconds of reductions or gathers in a second beside a unit: busy by lane, as shares of
 * its time at full rate. */
static inline double ett_links_beside(const ett_links *l, double rate,
                                      const double *busy) {
  double most = 1;
  for (int i = 0; i < l->lanes; i++)
    if (l->collective[i] > 0 && 1 - rate * busy[i] < most * l->collective[i])
      most = (1 - rate * busy[i]) / l->collective[i];
  return most > 0 ? most : 0;
}

/* Full buckets that are made when the next ones are. */
double ett_buckets_next(const ett_buckets *buckets, double made);

#endif
