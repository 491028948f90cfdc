/* step.h - a step program under a plan: the time and memory of one training step.
 *
 * Every layer is on exactly one slice: the embedding on the first, the head on the last,
 * unless an architecture has its embedding among the middle layers.
 * Any degree may be 1. A stage holds vp slices per way of its schedule. With several
 * ways, a stage holds several copies of weights, and ranks with equal copies reduce
 * gradients together. Ranks are placed on devices in the order of comm/ranks.h. A step
 * ends when the slowest stage has updated its weights.
 *
 * A cluster may have parts. Each part has its own kind of device and its own program. A
 * stage with replicas on several parts is as slow as the slowest of them. */
#ifndef ETT_STEP_H
#define ETT_STEP_H

#include "comm/ranks.h"
#include "step/demand.h"
#include "step/links.h"
#include "step/pipeline/pipeline.h"
#include "step/program.h"

typedef enum ett_zero {
  ETT_ZERO_NONE,       /* gradients are all-reduced; every rank updates all weights */
  ETT_ZERO_OPTIMIZER,  /* ZeRO-1: reduce-scatter, update a shard, all-gather weights */
  ETT_ZERO_GRADIENTS,  /* ZeRO-2: gradients also reduced per micro-batch */
  ETT_ZERO_PARAMETERS, /* ZeRO-3, FSDP: weights are also gathered for every pass */
} ett_zero;

/* Device d belongs to the first part with d < end. */
enum { ETT_PARTS_MOST = 8 };
typedef struct ett_parts {
  int count; /* 0 or 1: all devices are identical */
  int64_t end[ETT_PARTS_MOST];
  double memory_bytes[ETT_PARTS_MOST];   /* of a device */
  double host_bandwidth[ETT_PARTS_MOST]; /* bytes/s between a device and its host */
  double host_rate[ETT_PARTS_MOST];      /* see ett_step_plan */
} ett_parts;

typedef struct ett_step_plan {
  ett_schedule_kind schedule;
  int pp, vp, tp, cp, ep, dp; /* vp: model chunks per stage */
  int etp;            /* tensor ranks of an expert; ep * etp ranks hold all experts */
  int cp_ulysses;     /* of ett_degrees */
  int32_t rank_order; /* an order of ett_degrees */
  const int32_t *rank_map; /* device of each rank; NULL: the identity */
  int64_t rank_map_count;
  ett_tiers tiers;
  ett_parts parts;
  int64_t micro_batches;
  ett_recompute recompute;
  ett_zero zero;
  int gradient_all_reduce; /* under ZeRO, gradients are all-reduced (DeepSpeed) */
  int overlap_gradients;   /* buckets are reduced while the last backward runs */
  int overlap_parameters;  /* weights are gathered during the next forward */
  int overlap_sends;       /* stages compute while they send */
  ett_exchange_overlap overlap_all_to_all;
  int serial_sends;   /* receivers also block for the time of a message */
  int clip_gradients; /* the gradient norm over all stages precedes the update */
  int64_t shard;      /* ranks of a group over which ZeRO shards; 0: all */
  int64_t prefetch;   /* layers gathered ahead, with overlap_parameters */
  int reshard;        /* ZeRO-3: weights are gathered again for the backward pass */
  /* Offload: shares of activations, gradients, optimizer states and weights in host
   * memory. The host updates the weights whose states it holds. */
  double offload_activations, offload_gradients, offload_optimizer, offload_weights;
  double host_bandwidth; /* bytes/s between a device and its host in one direction */
  double host_rate;    /* bytes/s that a device's share of its host moves in an update */
  int post_validation; /* gradient norm is checked after the update, without a wait */
  int32_t gradient_bytes; /* per gradient, in memory */
  int32_t message_bytes;  /* per gradient, in the messages of the replicas */
  int32_t weight_bytes;   /* per weight, in computing and in gathers */
  double optimizer_bytes; /* per parameter: master weight and moments */
  double matrix_bytes;    /* the same for matrices that Muon updates (ett_matrices) */
  double data_seconds;    /* data loaders make one batch while the devices compute */
  double stall_seconds;   /* all devices wait for their hosts, in each step */
  double bucket_bytes; /* size of a gradient or weight message; infinite: one message */
  int64_t interleave_group; /* `group` of ett_pipeline */
  int prediction;       /* the slice of ETT_PLACE_PREDICTION, from 0; below 0: the last */
  const int64_t *split; /* middle layers per slice; NULL: even split */
  const ett_orders *orders; /* for ETT_SCHEDULE_CUSTOM, as in ett_pipeline */
  const double *slowdown;   /* per stage: factor of its operators' times; NULL: 1 */
} ett_step_plan;

/* One pipeline rank. Times are seconds per step unless stated otherwise. */
typedef struct ett_step_stage {
  int64_t layers;
  double dense_parameters, expert_parameters;
  double frozen_dense, frozen_expert; /* weights that are not trained */
  ett_weights spared;                 /* weights that gathers need not move */
  double quantised_bytes;             /* of unsharded weights beyond their 16 bits */
  /* All micro-batches, without the hidden part of their all-to-alls. */
  double forward_seconds, backward_seconds, recompute_seconds;
  double all_to_all_overlapped_seconds; /* all-to-alls hidden behind computing */
  double micro_batch_forward_seconds,
      micro_batch_backward_seconds; /* one micro-batch, all chunks */
  double send_seconds; /* messages to neighbours; serial sends: also from neighbours */
  double boundary_seconds; /* gathers of inputs in parts, within its passes */
  double pipeline_seconds; /* end of its last backward */
  double gradient_seconds, gradient_exposed_seconds;
  double tied_embedding_seconds; /* all-reduce of the tied embedding's gradient */
  double wait_seconds;           /* wait for the other stages' gradients */
  double optimizer_seconds;
  double optimizer_kernel_seconds; /* the same without the wait for the host */
  ett_matrices matrices[2];        /* dense, of experts */
  /* Of optimizer_seconds: Newton-Schulz iterations of Muon; messages of whole momenta. */
  double newton_seconds, newton_message_seconds;
  double gather_seconds, gather_exposed_seconds;
  /* Shares of gradient_seconds and gather_seconds that move experts. */
  double expert_gradient_share, expert_gather_share;
  /* Of the gradient seconds of dense weights, and of those of experts: the share in which
   * shards are summed over their replicas. */
  double replica_share, expert_replica_share;
  double offload_seconds; /* wait of its passes for the host */
  double end_seconds;
  double weight_bytes, gradient_bytes, optimizer_bytes, activation_bytes;
  double loss_bytes;      /* share of activations: logits of the loss and kept logits */
  double temporary_bytes; /* ZeRO-2 and 3: whole weights and gradients of layers, and with
                             whole_ends of embedding and head */
  double working_bytes;   /* of the operator with the highest backward peak */
  double
      update_bytes; /* fp32 copies of 16-bit gradients, beyond the peak of the passes */
  double cached_bytes;       /* weight gradients that the software does not free */
  double workspace_bytes;    /* of libraries */
  double allocated_bytes;    /* sum of all above: allocated by the allocator */
  double fragment_bytes;     /* rounding and fragmentation; with it: reserved */
  double communicator_bytes; /* buffers of the groups of the rank */
  double context_bytes;      /* driver context and modules */
  double host_bytes;         /* in host memory */
  double memory_bytes;       /* total: used memory as the device reports it */
  double memory_limit_bytes; /* memory of its smallest device; 0 without parts */
  int32_t parts;             /* bits of the parts of its devices */
  int32_t part; /* the slowest part; the times of the stage are those of this part */
} ett_step_stage;

typedef struct ett_step_result {
  double step_seconds;
  double device_seconds;   /* step_seconds without waits for data and stalls */
  double pipeline_seconds; /* the pipeline alone */
  double update_share;     /* ett_update_share */
  double split_share;      /* share of `split` (ett_operation) that the step has */
  double bubble_fraction;  /* share of the pipeline that is idle (no computing, no sends),
                              averaged over stages */
  double flops;            /* model FLOPs of one rank's pipeline, all micro-batches */
  double memory_bytes;     /* of the fullest stage; parts: the one that fills its devices
                              most */
  double memory_limit_bytes; /* of the devices of that stage; 0 without parts */
  int fits;                  /* whether every stage fits; 1 without parts */
  /* Per part and kind of layer: runs of layers in a step, one per micro-batch, on stages
   * of the part. NULL without parts. */
  const double *part_runs;
  int stages;
  const ett_step_stage *stage;
  const size_t *demands; /* indexes of the plan's distinct demands */
  size_t demand_count;
  ett_pipeline_result pipeline;
  ett_pipeline run;       /* the pipeline of this result */
  ett_links_result links; /* with ETT_KEEP_UNITS: units, and transfers on the links */
} ett_step_result;

typedef struct ett_step_workspace ett_step_workspace;
ett_step_workspace *ett_step_workspace_new(void);
void ett_step_workspace_free(ett_step_workspace *workspace);

/* The pipeline workspace inside a step workspace. */
ett_pipeline_workspace *ett_step_workspace_pipeline(ett_step_workspace *workspace);

/* The links workspace inside a step workspace; NULL if memory runs out. */
ett_links_workspace *ett_step_workspace_links(ett_step_workspace *workspace);

/* What an evaluation fills in: the totals alone (the memory of some stages is missing),
 * all stages, or the units of the pipeline, too (ett_links_run). */
typedef enum ett_step_keep {
  ETT_KEEP_TOTALS,
  ETT_KEEP_STAGES,
  ETT_KEEP_UNITS
} ett_step_keep;

/* 0: done. 1: some demands have no time; supply them and call again. -1: error. The
 * result's arrays belong to the workspace. */
int ett_step_evaluate(const ett_program *program, const ett_step_plan *plan,
                      ett_demands *demands, ett_step_workspace *workspace,
                      ett_step_keep keep, ett_step_result *result, ett_err *err);

/* The memory of a plan and bounds of its times, computed without running its pipeline. */
typedef struct ett_step_outline_result {
  double memory_bytes;     /* as in ett_step_evaluate */
  double pipeline_seconds; /* lower bound */
  double step_seconds;     /* lower bound */
  int untimed; /* whether demands have no time: these add nothing to the bounds */
} ett_step_outline_result;

/* The memory of a plan and lower bounds of its times, valid up to rounding. The bound of
 * the pipeline is that of ett_pipeline_closed; under custom orders it is the work of the
 * busiest rank. The bound of the step adds gradients, update and weights of the first
 * rank. passes_only: nothing after the pipeline is added or demanded. */
int ett_step_outline(const ett_program *program, const ett_step_plan *plan,
                     ett_demands *demands, ett_step_workspace *workspace, int passes_only,
                     ett_step_outline_result *result, ett_err *err);

/* The 90 % interval of step_seconds. All runs of an operation or message share one error.
 * Each time is moved to both ends of its interval. The changes d_i combine as sqrt((1 -
 * r) sum d_i^2 + r (sum d_i)^2) with the correlation r (README.md). Changes program and
 * demands during the call and restores them. */
int ett_step_interval(ett_program *program, const ett_step_plan *plan,
                      ett_demands *demands, ett_step_workspace *workspace,
                      double correlation, double *low, double *high, ett_err *err);

/* The seconds of steps whose stages compute more slowly. factors: `count` lists with one
 * factor per stage, for the times of its operators. Messages, updates and planned orders
 * are those of the plan. Returns 0, 1 or -1 as ett_step_evaluate. */
int ett_step_slowed(const ett_program *program, const ett_step_plan *plan,
                    ett_demands *demands, ett_step_workspace *workspace,
                    const double *factors, size_t count, double *seconds, ett_err *err);

/* The parts of each stage's devices, as bits. Fails if a tensor, context or expert group
 * spans two parts. */
int ett_step_parts(const ett_step_plan *plan, int32_t *parts, ett_err *err);

/* The seconds of a step whose devices alone take `seconds`. */
static inline double ett_step_with_host(const ett_step_plan *p, double seconds) {
  return (seconds < p->data_seconds ? p->data_seconds : seconds) + p->stall_seconds;
}

/* The slice of ETT_PLACE_PREDICTION. */
static inline int ett_step_prediction(const ett_step_plan *p) {
  return p->prediction < 0 ? p->pp * p->vp - 1 : p->prediction;
}

/* Whether fields of a plan exclude each other, whatever the program, the degrees and the
 * micro-batches. */
int ett_step_conflicts(const ett_step_plan *p);

/* Degrees and rank order of a plan, and the placement of its ranks on the tiers. */
static inline ett_degrees ett_step_degrees(const ett_step_plan *p) {
  return (ett_degrees){p->tp, p->cp,  p->ep,         p->dp,
                       p->pp, p->etp, p->rank_order, p->cp_ulysses};
}

static inline ett_ranks ett_step_ranks(const ett_step_plan *p) {
  ett_degrees degrees = ett_step_degrees(p);
  return (ett_ranks){p->tiers, ett_degrees_world(&degrees), p->rank_map};
}

#endif
