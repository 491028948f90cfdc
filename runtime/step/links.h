/* links.h - the event engine of resources: a pipeline together with the messages on its
 * links.
 *
 * The resources of a stage are its compute, and one lane per tier for its messages on the
 * links of that tier (comm/placement.h). A transfer occupies a share of each lane that it
 * crosses. Flows:
 *   units         of the pipeline run on compute, in the order of their rank. Their own
 *                 messages are spread evenly over them.
 *   sends         to other stages run one after the other. A blocking send occupies its
 *                 rank. Other sends wait in two queues: one for the stage's outermost
 *                 lane, one for all other lanes.
 *   gathers       of the weights of a slot start with the step. The first forward of a
 *                 slot ends after its gather.
 *   reductions    of gradient buckets. A backward or weight unit produces its buckets at
 *                 even intervals.
 *
 * The slowest lane of a transfer sets its rate. A send that runs during a unit gets its
 * own share of a lane: at most the part that the unit leaves free, but at least half. The
 * same is true for two concurrent sends. Gathers and reductions run one after the other
 * on the rest of the lanes. A message counts only at the stage that sends it. Computing
 * is slower by `share` during gathers and reductions. */
#ifndef ETT_STEP_LINKS_H
#define ETT_STEP_LINKS_H

#include "step/pipeline/pipeline.h"
#include "step/program.h"

/* The messages of a buffer that is divided into buckets. */
typedef struct ett_buckets {
  double size, full,
      rest; /* bytes of a full bucket, number of full buckets, bytes of the last */
  double full_time, rest_time;       /* seconds */
  double full_between, rest_between; /* the part between replicas */
} ett_buckets;

typedef struct ett_slice_gradients {
  ett_buckets dense, expert;
} ett_slice_gradients;

typedef struct ett_links {
  int lanes;
  double collective[ETT_LANES]; /* shares that reductions and gathers occupy */
  double send[ETT_LANES]
             [ETT_LANES]; /* shares that sends occupy, by their outermost lane */
  /* Per slot: seconds of a unit's own messages on each lane. NULL: none. */
  const double *forward_busy[ETT_LANES], *backward_busy[ETT_LANES];
  const int32_t
      *send_lane; /* per slot: outermost lane of the messages to and from the next slot */
  const ett_slice_gradients *gradients; /* per slot; NULL: no reductions beside units */
  int reduces_every; /* reduces after each micro-batch of a slot, not only after the last
                      */
  const double *gather; /* per slot: seconds; NULL: none */
  double share;         /* share of compute that concurrent reductions and gathers take */
} ett_links;

typedef enum ett_transfer_kind {
  ETT_TRANSFER_FORWARD,  /* activations, to the stage of the next slice */
  ETT_TRANSFER_BACKWARD, /* their gradients */
  ETT_TRANSFER_REDUCE,   /* consecutive buckets without a pause */
  ETT_TRANSFER_GATHER,
} ett_transfer_kind;

typedef struct ett_transfer {
  ett_transfer_kind kind;
  int lane;            /* the outermost lane */
  int stage, slot, to; /* to: stage that receives a send */
  uint32_t micro_batch;
  double start, end;
} ett_transfer;

/* The arrays belong to the workspace and are valid until its next use. */
typedef struct ett_links_result {
  ett_pipeline_result pipeline;
  const double *reduced;     /* per stage: end of its last reduction; 0: none */
  const double *gather_wait; /* per stage: seconds that forwards waited for weights */
  const double *unit_start, *unit_end; /* when units are kept: of all ranks, in order */
  const ett_transfer *transfers;       /* when units are kept */
  size_t transfer_count;
} ett_links_result;

typedef struct ett_links_workspace ett_links_workspace;
ett_links_workspace *ett_links_workspace_new(void);
void ett_links_workspace_free(ett_links_workspace *workspace);

/* A block of at least `bytes` bytes, valid until the next call; NULL: no memory. */
void *ett_links_memory(ett_links_workspace *workspace, size_t bytes);

/* Runs a pipeline on its links, event by event. keep_units: also fills the arrays per
 * unit and per transfer. A unit with very many buckets produces them in groups. */
int ett_links_run(const ett_pipeline *pipeline, const ett_links *links,
                  ett_links_workspace *workspace, int keep_units,
                  ett_links_result *result, ett_err *err);

/* Whether the sends of a stage depend only on its own earlier units and sends. */
int ett_links_in_order(const ett_pipeline *pipeline, const ett_links *links);

/* In that case, the same result as ett_links_run, in one pass over the pipeline's tape.
 */
int ett_links_run_in_order(const ett_pipeline *pipeline, const ett_links *links,
                           ett_pipeline_workspace *workspace,
                           ett_links_workspace *links_workspace, ett_links_result *result,
                           ett_err *err);

/* The outermost lane of the sends of a stage, at least 1; its sends have their own queue.
 */
int ett_links_outermost(const ett_pipeline *pipeline, const ett_links *links, int stage);

/* Rate of reductions or gathers during a unit. busy: for each lane, the share of the
 * unit's time at full rate in which the unit occupies the lane. */
static inline double ett_links_beside(const ett_links *l, double rate,
                                      const double *busy) {
  double most = 1;
  for (int i = 0; i < l->lanes; i++)
    if (l->collective[i] > 0 && 1 - rate * busy[i] < most * l->collective[i])
      most = (1 - rate * busy[i]) / l->collective[i];
  return most > 0 ? most : 0;
}

/* Number of full buckets after the next group is complete. */
double ett_buckets_next(const ett_buckets *buckets, double made);

#endif
