/* step.h - a step program under a plan: the time and memory of one training step.
 *
 * Every layer is on exactly one slice, embedding on the first and head on the last; any
 * degree may be 1. A stage holds vp slices, or as many for each way of a schedule that
 * runs several ways; then it holds weights as often, and the ranks that hold the same
 * ones reduce gradients together. Ranks lie on devices in the order of comm/ranks.h. A
 * step ends when the slowest stage has updated its weights.
 *
 * A cluster may have parts, each with devices of its own kind and a program of its own.
 * A stage whose replicas are on several parts is as slow as the slowest of them. */
#ifndef ETT_STEP_H
#define ETT_STEP_H

#include "comm/ranks.h"
#include "step/demand.h"
#include "step/links.h"
#include "step/pipeline/pipeline.h"
#include "step/program.h"

typedef enum ett_zero {
  ETT_ZERO_NONE,       /* gradients are all-reduced, every rank updates all */
  ETT_ZERO_OPTIMIZER,  /* ZeRO-1: reduce-scatter, update a shard, all-gather weights */
  ETT_ZERO_GRADIENTS,  /* ZeRO-2: as 1, gradients reduced after every micro-batch */
  ETT_ZERO_PARAMETERS, /* ZeRO-3, FSDP: weights gathered for every pass too */
} ett_zero;

/* The part of a cluster that holds device d is the first one with d < end. */
enum { ETT_PARTS_MOST = 8 };
typedef struct ett_parts {
  int count; /* 0 or 1: all devices are alike */
  int64_t end[ETT_PARTS_MOST];
  double memory_bytes[ETT_PARTS_MOST];   /* of a device */
  double host_bandwidth[ETT_PARTS_MOST]; /* bytes/s between a device and its host */
} ett_parts;

typedef struct ett_step_plan {
  ett_schedule_kind schedule;
  int pp, vp, tp, cp, ep, dp; /* vp: model chunks a stage */
  int etp;            /* tensor ranks of an expert; ep * etp ranks hold all experts */
  int32_t rank_order; /* of ett_degrees */
  const int32_t *rank_map; /* device of each rank; NULL: the identity */
  int64_t rank_map_count;
  ett_tiers tiers;
  ett_parts parts;
  int64_t micro_batches;
  ett_recompute recompute;
  ett_zero zero;
  int gradient_all_reduce; /* ZeRO-1/2 that reduces by all-reduce, as DeepSpeed may */
  int overlap_gradients;   /* buckets are reduced while the last backward runs */
  int overlap_parameters;  /* weights are gathered behind the next forward */
  int overlap_sends;       /* stages compute while they send */
  ett_exchange_overlap overlap_all_to_all;
  int serial_sends;   /* receivers spend a message's time as well */
  int clip_gradients; /* a gradient norm is taken over all stages first */
  int64_t shard;      /* ranks of a group that ZeRO shards over; 0: all */
  int64_t prefetch;   /* layers gathered ahead, with overlap_parameters */
  int reshard;        /* ZeRO-3: weights are gathered again for the backward pass */
  /* Shares of activations, optimizer states and weights in the host's memory, and bytes/s
   * between a device and its host in one direction. */
  double offload_activations, offload_optimizer, offload_weights, host_bandwidth;
  int late_validation;      /* or after the update, so that no stage waits for it */
  int32_t gradient_bytes;   /* of one gradient as it is kept and reduced */
  int32_t weight_bytes;     /* of one weight as it is used and gathered */
  double optimizer_bytes;   /* state of one parameter: master weight, moments */
  double bucket_bytes;      /* of one gradient or weight message; infinite: one */
  int64_t interleave_group; /* as ett_pipeline's group */
  const int64_t *split;     /* middle layers per slice; NULL: as even as can be */
  const ett_orders *orders; /* ETT_SCHEDULE_CUSTOM, as in ett_pipeline */
} ett_step_plan;

/* One pipeline rank. Seconds of a whole step unless said otherwise. */
typedef struct ett_step_stage {
  int64_t layers;
  double dense_parameters, expert_parameters;
  double frozen_dense, frozen_expert; /* further weights, which are not trained */
  /* All micro-batches, without the hidden part of their all-to-alls. */
  double forward_seconds, backward_seconds, recompute_seconds;
  double all_to_all_overlapped_seconds; /* of all-to-alls, behind computing */
  double micro_batch_forward_seconds,
      micro_batch_backward_seconds; /* one by itself, all chunks */
  double send_seconds;     /* messages to neighbours; serial: from them as well */
  double boundary_seconds; /* of its passes: gathers of what came in parts */
  double pipeline_seconds; /* when its last backward is finished */
  double gradient_seconds, gradient_exposed_seconds;
  double tied_embedding_seconds; /* all-reduce of the tied embedding's gradient */
  double wait_seconds;           /* for the other stages' gradients */
  double optimizer_seconds;
  double gather_seconds, gather_exposed_seconds;
  double offload_seconds; /* that its passes wait for the host */
  double end_seconds;
  double weight_bytes, gradient_bytes, optimizer_bytes, activation_bytes;
  double loss_bytes;      /* of the activations, logits that the loss keeps */
  double temporary_bytes; /* ZeRO-2 and 3: a layer whole, its weights and gradient */
  double working_bytes;   /* of the operator whose backward pass holds the most */
  double
      update_bytes; /* fp32 copies of 16-bit gradients, beyond what passes held before */
  double cached_bytes;       /* weight gradients that the software keeps allocated */
  double workspace_bytes;    /* of libraries */
  double allocated_bytes;    /* sum of all above: what the allocator gave */
  double fragment_bytes;     /* lost to rounding and fragments; with it: reserved */
  double communicator_bytes; /* buffers of the groups that the rank is in */
  double context_bytes;      /* of the driver and its modules */
  double host_bytes;         /* in the host's memory */
  double memory_bytes;       /* all: what the device reports as used */
  double memory_limit_bytes; /* of its smallest device; 0 without parts */
  int32_t parts;             /* bits of the parts that its devices are on */
  int32_t part;              /* the slowest of them: its times are the stage's */
} ett_step_stage;

typedef struct ett_step_result {
  double step_seconds;
  double pipeline_seconds; /* the pipeline alone */
  double bubble_fraction; /* of it, averaged over stages: neither computing nor sending */
  double flops;           /* model FLOPs of one rank's pipeline, all micro-batches */
  double memory_bytes;    /* of the fullest stage */
  int fits;               /* whether every stage does; 1 without parts */
  /* Per part and kind of layer: layers of it that the stages of the part run in a step,
   * a micro-batch each. NULL without parts. */
  const double *part_runs;
  int stages;
  const ett_step_stage *stage;
  const size_t *demands; /* indexes of the plan's demands, distinct */
  size_t demand_count;
  ett_pipeline_result pipeline;
  ett_pipeline run;           /* the pipeline of that result */
  const double *unit_end;     /* NULL: units take the seconds of the pipeline */
  ett_links_result transfers; /* with keep_units: what the links carried */
} ett_step_result;

typedef struct ett_step_workspace ett_step_workspace;
ett_step_workspace *ett_step_workspace_new(void);
void ett_step_workspace_free(ett_step_workspace *workspace);

/* The part of it that runs pipelines. */
ett_pipeline_workspace *ett_step_workspace_pipeline(ett_step_workspace *workspace);

/* The part of it that runs links; NULL: no memory. */
ett_links_workspace *ett_step_workspace_links(ett_step_workspace *workspace);

/* 0: done; 1: demands are untimed, answer them and call again; -1: a fault.
 * The result's arrays belong to the workspace. keep_units: see ett_pipeline_run. */
int ett_step_evaluate(const ett_program *program, const ett_step_plan *plan,
                      ett_demands *demands, ett_step_workspace *workspace, int keep_units,
                      ett_step_result *result, ett_err *err);

/* A plan without a run of its pipeline. */
typedef struct ett_step_outline_result {
  double memory_bytes;     /* as ett_step_evaluate has it */
  double pipeline_seconds; /* the pipeline takes at least as long */
  double step_seconds;     /* the step takes at least as long */
  int untimed; /* whether demands are untimed: these count as nothing in the bounds */
} ett_step_outline_result;

/* The memory of a plan, and lower bounds of its times: every rank's own work with the
 * shortest way to it and from it (ett_pipeline_closed), then the first rank's gradients,
 * update and weights; under orders of a schedule file the busiest rank's work. They hold
 * up to rounding. passes_only: what follows the pipeline is left out, and none of its
 * messages and updates are demanded. */
int ett_step_outline(const ett_program *program, const ett_step_plan *plan,
                     ett_demands *demands, ett_step_workspace *workspace, int passes_only,
                     ett_step_outline_result *result, ett_err *err);

/* The ends of a 90 % interval of step_seconds. All runs of an operation or message share
 * one error: each is moved to either end of its interval, and the moves d_i combine as
 * sqrt((1 - r) sum d_i^2 + r (sum d_i)^2) with the correlation r (README.md). Changes
 * program and demands meanwhile and restores them. */
int ett_step_interval(ett_program *program, const ett_step_plan *plan,
                      ett_demands *demands, ett_step_workspace *workspace,
                      double correlation, double *low, double *high, ett_err *err);

/* The parts that the devices of each stage are on, as bits. Fails where a tensor, context
 * or expert group has ranks on two parts. */
int ett_step_parts(const ett_step_plan *plan, int32_t *parts, ett_err *err);

/* Degrees and order of a plan; its ranks on the tiers. */
ett_degrees ett_step_degrees(const ett_step_plan *plan);
ett_ranks ett_step_ranks(const ett_step_plan *plan);

#endif
