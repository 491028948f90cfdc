/* messages.h - the messages of a step, and how buckets of gradients and weights overlap
 * with computing. Inside runtime/step only. */
#ifndef ETT_STEP_MESSAGES_H
#define ETT_STEP_MESSAGES_H

#include "step/step.h"

/* Where the groups of a plan lie: kept from one evaluation to the next. */
typedef struct ett_placed {
  uint64_t edition;    /* another one after each change, in any workspace */
  ett_degrees degrees; /* of the plan that was placed last; checked, like its tiers */
  int64_t shard;
  ett_ranks ranks; /* of no ranks: nothing is known */
  ett_axis pipeline;
  int ways;                                 /* of the schedule */
  ett_rank_group dense_group, expert_group; /* that share dense and expert weights */
  ett_placement dense, expert;
  /* Groups of the same shard, one rank of each of the groups above. */
  ett_rank_group dense_replica_group, expert_replica_group;
  ett_placement dense_replicas, expert_replicas;
} ett_placed;

/* What the parts of a cluster make of a plan: kept from one evaluation to the next. */
typedef struct ett_part_arrays {
  int stages; /* of of_stage; 0: nothing is known */
  ett_degrees degrees;
  ett_parts parts;
  int32_t *of_stage;    /* bits */
  ett_layer_sums *sums; /* per part and slice; the start of one block of memory */
  size_t bytes, slices;
  double *runs;       /* per part and kind: see ett_step_result */
  double *slice_runs; /* per part and slice: micro-batches */
  int64_t *layers;    /* per slice */
} ett_part_arrays;

/* The answers to a plan's messages and updates, and what they depend on: asked.c. */
typedef struct ett_asked_key {
  uint64_t program, placed, demands; /* editions; program 0: nothing is known */
  ett_axis pipeline;
  double bucket_bytes, optimizer_bytes, offload_optimizer, host_bandwidth;
  int pp, vp, zero, gradient_all_reduce;
  int32_t gradient_bytes, weight_bytes;
} ett_asked_key;

typedef struct ett_asked {
  ett_asked_key key;
  double tied; /* seconds of the tied embedding's all-reduce */
  size_t demand_count;
  void *memory;
  size_t bytes;
} ett_asked;

struct ett_step_workspace {
  ett_placed placed;
  ett_part_arrays parts;
  ett_pipeline_workspace *pipeline;
  ett_links_workspace *links; /* NULL: not used yet */
  void *memory;               /* one block: ett_step_arrays */
  size_t bytes;
  uint64_t sliced; /* edition of the program whose even slices it holds; 0: none */
  int sliced_pp, sliced_vp;
  size_t *demands;
  size_t demand_count, demand_capacity;
  ett_asked asked[ETT_ZERO_PARAMETERS]; /* by ZeRO stage */
};

/* One evaluation of a plan: its inputs, its demands and its state. */
typedef struct ett_evaluation {
  const ett_program *program;
  const ett_step_plan *plan;
  ett_demands *demands;
  ett_step_workspace *w;
  ett_err *err;
  int untimed, failed;
  int passes_only;           /* the demands of what follows the passes are left out */
  int tied_first, tied_last; /* stages with copies of a tied embedding; one: no copies */
  ett_rank_group dense, expert; /* the ranks that share dense and expert weights */
  ett_link link;                /* the slower of those that carry weights and gradients */
  const int32_t *stage_parts;   /* bits per stage; NULL: all devices are alike */
  int32_t asking;               /* bits of the parts that a demand concerns */
  int shares;              /* transfers share links: ett_links_run, no closed forms */
  ett_links links;         /* then: what the pipeline runs on */
  ett_links_result result; /* and what it left */
} ett_evaluation;

/* The arrays of one evaluation, in the workspace's block of memory. */
typedef struct ett_step_arrays {
  ett_step_stage *stage;
  ett_step_stage *stage_before; /* late_validation: the same before the pipeline runs */
  double *start;                /* per stage: when it begins a step */
  int32_t
      *alike; /* per stage: it and the one before are middle stages that hold the same */
  int slots;  /* pp * vp of every way */
  ett_layer_sums *slice_sums; /* per slice; sums, where each slot has its own slice */
  ett_layer_sums *sums;       /* all others are per slot (pipeline.h) */
  ett_slice_gradients *gradients;
  double *runs; /* micro-batches */
  double *forward, *backward, *weight;
  /* Seconds that the links of weights and gradients are in use in a pass. */
  double *forward_busy, *backward_busy;
  double *forward_other, *backward_other;   /* the same of the other links */
  double *gather;                           /* of a slot's weights, behind the forward */
  int32_t *send_link;                       /* ett_link of the message to the next slot */
  double *forward_hidden, *backward_hidden; /* in pairs */
  double *send_forward, *send_backward, *in_flight;
  int64_t *split, *layers;             /* middle layers; of every place */
  int64_t *slice_split, *slice_layers; /* per slice */
} ett_step_arrays;

/* Seconds of one demand; 0 while it is untimed, and of an amount of 0. Sets its parts. */
double ett_messages_ask(ett_evaluation *e, ett_demand *demand);

/* Makes the demands of an evaluation those. */
int ett_messages_noted(ett_evaluation *e, const size_t *demands, size_t count);

/* The kept answers to all that a plan asks, or NULL. */
const ett_asked *ett_asked_find(const ett_evaluation *e);

/* Takes the sends of `ranks` stages from them; gradients, updates, gathers and demands.
 */
void ett_asked_sends(const ett_asked *known, const ett_step_arrays *a, int ranks);
int ett_asked_load(const ett_asked *known, ett_evaluation *e, const ett_step_arrays *a);

/* Keeps the answers of a plan, if all are known. */
void ett_asked_keep(const ett_evaluation *e, const ett_step_arrays *a, double tied);

/* The messages of a buffer over the ranks that share it: buckets, or single layers under
 * ZeRO-3. */
ett_buckets ett_messages_buckets(ett_evaluation *e, ett_demand_kind kind, int experts,
                                 double bytes, int64_t layers, int32_t element_bytes);

/* What a pass of a stage takes whose data move to or from the host meanwhile. */
double ett_messages_beside_host(const ett_evaluation *e, int rank, double pass,
                                double bytes);

/* Seconds that a pass of a slot is on a link to gather what it received in parts. */
double ett_step_boundary(const ett_evaluation *e, const ett_step_arrays *a, int slot,
                         int backward, ett_link link);

/* Finds the parts that stages are on: e->stage_parts. */
int ett_parts_place(ett_evaluation *e);
void ett_parts_free(ett_part_arrays *known);

/* Takes the slowest part of each stage; after the slices are split. */
int ett_parts_choose(ett_evaluation *e, const ett_step_arrays *a);

/* What a slot's slice holds on the part of its stage. */
const ett_layer_sums *ett_parts_sums(const ett_evaluation *e, const ett_step_arrays *a,
                                     int slot);

/* Runs of layers by part; see ett_step_result. */
const double *ett_parts_runs(const ett_evaluation *e, const ett_step_arrays *a);

/* Bytes/s between the devices of a stage and their hosts: the least. */
double ett_parts_host_bandwidth(const ett_evaluation *e, int rank);

/* The demands that follow concern the devices of these two stages. */
void ett_parts_ask(ett_evaluation *e, int from, int to);

/* Seconds of all buckets in sequence. */
double ett_buckets_seconds(ett_buckets b);

/* When the last bucket has been sent. Gradients come evenly over [start, end] and the
 * link is free from `free` on. A bucket waits for its gradients and for the buckets
 * before it; the critical one is the first full bucket, the last full bucket, or the
 * rest. */
double ett_buckets_overlapped_end(ett_buckets b, double start, double end, double free);

/* Gathers the weights of some layers over the groups that shard them. */
double ett_messages_gather(ett_evaluation *e, double parameters, double expert_parameters,
                           int64_t layers);

/* ZeRO-3: seconds of a pass that gathers its weights layer by layer. Overlapped gathers
 * hide behind the layer before, where its own communication (busy seconds) leaves their
 * link free, and slow it (communication_share); the first one does not. */
double ett_messages_with_gathers(const ett_evaluation *e, double pass, double busy,
                                 double gather, int64_t layers);

/* Asks for the times of what follows the pipeline on a stage: gradients, update, weights.
 */
void ett_update_ask(ett_evaluation *e, const ett_step_arrays *a, int rank);

/* Adds those times to the stage after its pipeline, and subtracts what its pairs hid. */
void ett_update_lay(const ett_evaluation *e, const ett_step_arrays *a, int rank,
                    const ett_pipeline_result *ends);

/* A lower bound of the step, from one of its pipeline: with the gradients, the update and
 * the weights of the first rank where nothing waits for others. */
double ett_update_least(const ett_evaluation *e, const ett_step_arrays *a,
                        double pipeline);

/* Fills in the links of a plan, and whether its transfers share them: then closed forms
 * are not exact (shares.c). After ett_update_ask of every stage. */
void ett_shares_prepare(ett_evaluation *e, const ett_step_arrays *a);

/* Runs the pipeline of a plan, on its links where transfers share them. */
int ett_shares_run(ett_evaluation *e, const ett_step_arrays *a,
                   const ett_pipeline *pipeline, int keep_units,
                   ett_pipeline_result *result);

/* The end of a step: stages meet where gradients are clipped or an embedding is tied.
 * Changes the stages. */
void ett_finish_step(const ett_evaluation *e, const ett_step_arrays *a, double tied,
                     const ett_pipeline_result *ends, ett_step_result *r);

/* Under late_validation: the seconds of a step between others, in r->step_seconds. Each
 * stage begins a step when it has ended the one before (Qi et al. 2023, section 4). */
int ett_finish_steady(ett_evaluation *e, const ett_step_arrays *a, double tied,
                      const ett_pipeline *pipeline, int keep_units, ett_step_result *r);

#endif
