/* evaluation.h - one evaluation of a plan: its types, and the functions that the files of
 * runtime/step share. Inside runtime/step only. step.c calls the functions of finish.c,
 * update.c, shares.c, asked.c, messages.c and parts.c. Each of these files calls only
 * those that follow it in this list. */
#ifndef ETT_STEP_EVALUATION_H
#define ETT_STEP_EVALUATION_H

#include "base/grow.h"
#include "step/step.h"

/* The placement of the groups of a plan; cached between evaluations. */
typedef struct ett_placed {
  uint64_t edition;    /* changes with each placement; unique over all workspaces */
  ett_degrees degrees; /* of the plan placed last; degrees and tiers are checked */
  int64_t shard;
  ett_ranks ranks; /* world 0: the cache is empty */
  ett_axis pipeline;
  int ways;                                 /* ways of the schedule */
  uint64_t slices;                          /* ett_orders_places */
  ett_rank_group dense_group, expert_group; /* ranks that share dense or expert weights */
  ett_placement dense, expert;
  /* Replica groups: one rank of each group above that holds the same shard. */
  ett_rank_group dense_replica_group, expert_replica_group;
  ett_placement dense_replicas, expert_replicas;
  double collective[ETT_LANES]; /* of the messages of all these groups: ett_links */
} ett_placed;

/* Derived data of a plan on a cluster with parts; cached between evaluations. */
typedef struct ett_part_arrays {
  int stages; /* length of of_stage; 0: the cache is empty */
  ett_degrees degrees;
  ett_parts parts;
  int32_t *of_stage;    /* bits of parts */
  ett_layer_sums *sums; /* per part and slice; start of the memory block */
  size_t bytes, slices;
  double *runs;       /* per part and kind of layer: see ett_step_result */
  double *slice_runs; /* per part and slice: micro-batches */
  int64_t *layers;    /* per slice */
} ett_part_arrays;

/* Cached times of a plan's messages and updates, and the key of the cache: asked.c. */
typedef struct ett_asked_key {
  uint64_t weights[2], placed, demands; /* of the program; editions */
  ett_axis pipeline;
  double bucket_bytes, optimizer_bytes, matrix_bytes;
  double offload_gradients, offload_optimizer, host_bandwidth, host_rate;
  int pp, vp, zero, gradient_all_reduce, prediction;
  int32_t gradient_bytes, message_bytes, weight_bytes;
} ett_asked_key;

typedef struct ett_asked {
  ett_asked_key key;
  uint64_t program; /* edition of the program whose sends it has; 0: the entry is empty */
  double tied;      /* seconds of the all-reduce of the tied embedding */
  size_t demand_count, send_count; /* demands; the first are those of sends */
  void *memory;
  size_t bytes;
} ett_asked;

/* Number of cached placements, and of cached times (asked.c). A sweep returns to the same
 * groups of ranks with each other micro-batch. */
enum { ETT_PLACED_MOST = 256, ETT_ASKED_MOST = 1024 };

struct ett_step_workspace {
  ett_placed placed;
  ett_placed *before[ETT_PLACED_MOST]; /* earlier placements, by their hash; NULL: none */
  ett_part_arrays parts;
  ett_pipeline_workspace *pipeline;
  ett_links_workspace *links; /* NULL until first used */
  void *memory;               /* one block: ett_step_arrays */
  size_t bytes;
  uint64_t sliced; /* edition of the program with an even split in the arrays; 0: none */
  int sliced_pp, sliced_vp, sliced_lanes;
  size_t *demands;
  size_t demand_count, demand_bytes;
  ett_asked *asked[ETT_ASKED_MOST]; /* by the hash of their keys; NULL: none */
};

/* One evaluation of a plan: its inputs, its demands and its state. */
typedef struct ett_evaluation {
  const ett_program *program;
  const ett_step_plan *plan;
  ett_demands *demands;
  ett_step_workspace *w;
  ett_err *err;
  int untimed, failed;
  int passes_only;   /* omit all demands after the passes */
  size_t send_count; /* demands of sends, which precede the others */
  int tied; /* stages that reduce the gradient of the embedding's table together; 0: one
               stage has all uses of it */
  ett_rank_group dense, expert; /* ranks that share dense or expert weights */
  int lanes;                    /* of the cluster */
  const double *collective; /* per lane: share of it that weights and gradients occupy */
  const int32_t *stage_parts; /* bits per stage; NULL: all devices are identical */
  int32_t asking;             /* bits of the parts of the current demand */
  int shares;                 /* transfers share links: ett_links_run, no closed forms */
  ett_links links;            /* if shares: the links of the pipeline */
  ett_links_result result;    /* if shares: result of the links */
} ett_evaluation;

/* The arrays of one evaluation, in the workspace's block of memory. */
typedef struct ett_step_arrays {
  ett_step_stage *stage;
  ett_step_stage *stage_before; /* post_validation: the stage before the pipeline runs */
  double *start;                /* per stage: start of its step */
  int32_t *
      alike; /* per stage: it and its predecessor are middle stages with equal contents */
  int32_t *tied;       /* per stage: it takes part in that reduction */
  int32_t *tied_stage; /* the stages that do */
  int slots;           /* pp * vp, over all ways */
  ett_layer_sums
      *slice_sums;      /* per slice; equal to sums if each slot has its own slice */
  ett_layer_sums *sums; /* the other arrays are per slot (pipeline.h) */
  ett_slice_gradients *gradients;
  double *runs; /* micro-batches */
  double *forward, *backward, *weight, *joined;
  /* Per lane: seconds per pass in which it is occupied. Lanes that carry no weights or
   * gradients are filled for the engine of links alone. */
  double *forward_busy[ETT_LANES], *backward_busy[ETT_LANES];
  double *gather;     /* weights of a slot, after the forward pass */
  int32_t *send_lane; /* outermost lane of the message to the next slot */
  double *forward_hidden, *backward_hidden; /* seconds that can hide in pairs */
  double *send_forward, *send_backward, *in_flight, *late;
  int64_t *split, *layers;             /* middle layers; layers of all places */
  int64_t *slice_split, *slice_layers; /* per slice */
} ett_step_arrays;

/* The slot before or after a slot in the model; -1: none. */
static inline int ett_slot_neighbour(const ett_step_plan *p, const ett_step_arrays *a,
                                     int slot, int behind) {
  if (p->orders)
    return (behind ? p->orders->next : p->orders->prev)[slot];
  int other = behind ? slot + 1 : slot - 1;
  return other < a->slots ? other : -1;
}

/* Seconds to gather a slot's input that arrives in parts: activations of the previous
 * slot, gradients of the next. */
static inline double ett_slot_gather(const ett_evaluation *e, const ett_step_arrays *a,
                                     int slot, int backward) {
  const ett_step_plan *p = e->plan;
  if (e->program->gather == 0)
    return 0;
  int other = ett_slot_neighbour(p, a, slot, backward);
  if (other < 0 || other % p->pp == slot % p->pp)
    return 0;
  double seconds =
      backward ? a->sums[slot].gather_backward : a->sums[slot].gather_forward;
  return seconds * a->sums[backward ? slot : other].boundary;
}

/* Seconds of one demand. 0 without a time yet, and for an amount of 0. Sets the parts of
 * the demand. */
double ett_messages_ask(ett_evaluation *e, ett_demand *demand);

/* Adds demands to those of an evaluation, which has none of them. */
int ett_messages_noted(ett_evaluation *e, const size_t *demands, size_t count);

/* The cached times of a plan, or NULL. */
const ett_asked *ett_asked_find(const ett_evaluation *e);

/* ett_asked_sends reads the sends of `ranks` stages, if they are those of the same
 * program (`program`); ett_asked_load reads gradients, updates, gathers and demands. */
void ett_asked_sends(const ett_asked *known, const ett_step_arrays *a, int ranks);
int ett_asked_load(const ett_asked *known, ett_evaluation *e, const ett_step_arrays *a);

/* Stores the times of a plan if all are known. */
void ett_asked_keep(const ett_evaluation *e, const ett_step_arrays *a, double tied);

/* The messages of a buffer over the ranks that share it: buckets, or single layers under
 * ZeRO-3. If ranks own whole tensors, each owner sends one message after the update;
 * `layers` is then the number of middle layers. A ring passes such a broadcast in as many
 * steps as a gather. So it takes as long as a gather whose links carry the owner's bytes.
 */
ett_buckets ett_messages_buckets(ett_evaluation *e, ett_demand_kind kind, int experts,
                                 double bytes, int64_t layers, int32_t element_bytes);

/* Whether the weights and gradients of a stage stay whole between its micro-batches
 * (whole_stages of the program). Gradients are then reduced after the last one. */
int ett_messages_whole(const ett_evaluation *e);

/* Whether only the gradients stay whole (defers_gradients), or both. */
int ett_messages_whole_gradients(const ett_evaluation *e);

/* Whether reduce-scatters overlap nothing (blocking_reductions of the program), and only
 * the messages between replicas overlap the last backward pass. */
int ett_messages_overlaps_replicas(const ett_evaluation *e);

/* Whether buckets of gradients are reduced while the last backward pass runs. */
int ett_messages_overlaps_gradients(const ett_evaluation *e);

/* Whether gradients are reduced after each micro-batch: ZeRO-2 and 3, unless whole. */
int ett_messages_reduces_every(const ett_evaluation *e);

/* The part of some weights that is gathered once a step; frozen weights are gathered only
 * if they are sharded. */
double ett_messages_gathered(const ett_evaluation *e, double trained, double frozen);

/* The same for all weights of a slot, and of a stage, without spared weights. */
double ett_slot_gathered(const ett_evaluation *e, const ett_layer_sums *s);
double ett_stage_gathered(const ett_evaluation *e, const ett_step_stage *s);

/* Whether weights are gathered for each forward or each backward pass: ZeRO-3. */
int ett_messages_gathers_every(const ett_evaluation *e, int backward);

/* Seconds of a pass of a stage while its data move to or from the host. */
double ett_messages_beside_host(const ett_evaluation *e, int rank, double pass,
                                double bytes);

/* Seconds per pass in which a slot occupies a lane, without gathers of weights. */
double ett_messages_busy(const ett_evaluation *e, const ett_step_arrays *a, int slot,
                         int backward, int lane);

/* Seconds of messages of weights or gradients that their lanes can carry during a pass
 * that has these busy seconds by lane. */
double ett_messages_room(const ett_evaluation *e, double pass, const double *busy);

/* Finds the parts of each stage: e->stage_parts. */
int ett_parts_place(ett_evaluation *e);
void ett_parts_free(ett_part_arrays *known);

/* Chooses the slowest part of each stage. Call it after the slices are split. */
int ett_parts_choose(ett_evaluation *e, const ett_step_arrays *a);

/* The sums of a slot's slice on the part of its stage. */
const ett_layer_sums *ett_parts_sums(const ett_evaluation *e, const ett_step_arrays *a,
                                     int slot);

/* The program of the devices whose times a stage takes. */
const ett_program *ett_parts_program(const ett_evaluation *e, const ett_step_arrays *a,
                                     int rank);

/* Runs of layers by part; see ett_step_result. */
const double *ett_parts_runs(const ett_evaluation *e, const ett_step_arrays *a);

/* Bytes/s between the devices of a stage and their hosts, and bytes/s that a device's
 * share of its host moves in an update; the minimum over devices. */
double ett_parts_host_bandwidth(const ett_evaluation *e, int rank);
double ett_parts_host_rate(const ett_evaluation *e, int rank);

/* Restricts the next demands to the devices of these two stages. */
void ett_parts_ask(ett_evaluation *e, int from, int to);

/* Seconds of all buckets one after the other. */
double ett_buckets_seconds(ett_buckets b);

/* The messages between replicas alone. */
ett_buckets ett_buckets_between(ett_buckets b);

/* End of the last bucket. Gradients are produced evenly over [start, end]; the link is
 * free from `free` on. A bucket waits for its gradients and for earlier buckets. The
 * critical bucket is the first full one, the last full one or the remainder. */
double ett_buckets_overlapped_end(ett_buckets b, double start, double end, double free);

/* Gathers the weights of some layers over the groups that shard them. */
double ett_messages_gather(ett_evaluation *e, double parameters, double expert_parameters,
                           int64_t layers);

/* ZeRO-3: seconds of a slot's pass that gathers its weights layer by layer. dense,
 * expert: seconds of all its gathers. The pass is divided among its layers in proportion
 * to their seconds, and the gathers in proportion to their weights. With overlap, when a
 * layer starts, the gather of the layer `prefetch` ahead may start, after earlier
 * gathers. It overlaps layers while their own communication leaves its lanes free
 * (PyTorch, notes/fsdp, implicit prefetching;
 * FSDPModule.set_modules_to_forward_prefetch), and slows them by communication_share. The
 * first gather and the last layer overlap nothing. Adds the gathers to the busy seconds
 * of the slot. */
double ett_messages_with_gathers(const ett_evaluation *e, const ett_step_arrays *a,
                                 int slot, int backward, double dense, double expert);

/* The time of an update, divided by its time with Adam's usual states (12 bytes per
 * parameter, 8 in fp32). It is the ratio of the bytes that the two updates move. */
double ett_update_share(const ett_step_plan *p, double optimizer_bytes);

/* Weights that a rank updates by Muon: its share of the matrices of its stage. */
double ett_update_matrices(const ett_evaluation *e, const ett_step_stage *s);

/* Demands the times after the pipeline of a stage: gradients, update, weights. */
void ett_update_ask(ett_evaluation *e, const ett_step_arrays *a, int rank);

/* Adds those times to the stage after its pipeline, and subtracts the time hidden by
 * pairs. */
void ett_update_lay(const ett_evaluation *e, const ett_step_arrays *a, int rank,
                    const ett_pipeline_result *ends);

/* A lower bound of the step from a lower bound of its pipeline: adds gradients, update
 * and weights of the first rank, without waits for other ranks. */
double ett_update_least(const ett_evaluation *e, const ett_step_arrays *a,
                        double pipeline);

/* Fills the links of a plan, and decides whether transfers share links. Closed forms are
 * not exact in that case (shares.c). Call it after ett_update_ask of every stage. */
void ett_shares_prepare(ett_evaluation *e, const ett_step_arrays *a);

/* Runs the pipeline of a plan; simulates its links if transfers share them. */
int ett_shares_run(ett_evaluation *e, const ett_step_arrays *a,
                   const ett_pipeline *pipeline, int keep_units,
                   ett_pipeline_result *result);

/* The end of a step. Stages synchronise if gradients are clipped or an embedding is tied.
 * Changes the stages. */
void ett_finish_step(const ett_evaluation *e, const ett_step_arrays *a, double tied,
                     const ett_pipeline_result *ends, ett_step_result *r);

/* Under post_validation: the seconds of a step in a sequence of steps, in
 * r->step_seconds. Each stage begins a step at the end of its previous one (Qi et al.
 * 2023, section 4). */
int ett_finish_steady(ett_evaluation *e, const ett_step_arrays *a, double tied,
                      const ett_pipeline *pipeline, int keep_units, ett_step_result *r);

#endif
