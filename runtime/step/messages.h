/* messages.h - the messages of a step: what a plan asks to have timed, and how buckets of
 * gradients and weights lie behind or beside computing. Inside runtime/step only. */
#ifndef ETT_STEP_MESSAGES_H
#define ETT_STEP_MESSAGES_H

#include "step/step.h"

struct ett_step_workspace {
  ett_pipeline_workspace *pipeline;
  void *memory; /* one block: ett_step_arrays */
  size_t bytes;
  size_t *demands;
  size_t demand_count, demand_capacity;
};

/* Messages of a buffer cut into buckets. */
typedef struct ett_buckets {
  double size, full, rest;     /* bytes of a full one, how many, bytes of the last */
  double full_time, rest_time; /* seconds */
} ett_buckets;

/* The gradients of one slice on their way through the groups that share them. */
typedef struct ett_slice_gradients {
  ett_buckets dense, expert;
} ett_slice_gradients;

typedef struct ett_rank_group {
  int64_t degree, stride; /* ranks, and how far apart they are */
} ett_rank_group;

/* One evaluation of a plan: what it reads, where it notes what it asked for, how it went.
 */
typedef struct ett_evaluation {
  const ett_program *program;
  const ett_step_plan *plan;
  ett_demands *demands;
  ett_step_workspace *w;
  ett_err *err;
  int untimed, failed;
  ett_rank_group dense, expert; /* the ranks that share dense and expert weights */
} ett_evaluation;

/* The arrays of one evaluation, in the workspace's block of memory. */
typedef struct ett_step_arrays {
  ett_step_stage *stage;
  ett_layer_sums *sums; /* per slice */
  ett_slice_gradients *gradients;
  double *forward, *backward, *weight;      /* per slice */
  double *forward_hidden, *backward_hidden; /* in pairs */
  double *send_forward, *send_backward, *in_flight;
  int64_t *split, *layers;
} ett_step_arrays;

/* Whether the message from pipeline rank s to s + 1 leaves a node for any of its ranks.
 */
int ett_messages_cross_node(int64_t s, int64_t stride, int gpus_per_node);

/* Seconds of one demand; 0 while it is untimed, and of an amount of 0. */
double ett_messages_ask(ett_evaluation *e, ett_demand demand);

/* The messages of a buffer over a group: buckets, under ZeRO-3 the layers one by one. */
ett_buckets ett_messages_buckets(ett_evaluation *e, ett_demand_kind kind,
                                 ett_rank_group g, double bytes, int64_t layers,
                                 int32_t element_bytes);

/* Seconds of all of them, one after the other. */
double ett_buckets_seconds(ett_buckets b);

/* When the last bucket is through, when the gradients of [start, end] come evenly and the
 * link is free from `free` on. Bucket i of n waits for its own gradients and for those
 * before it; with equal buckets the longest wait begins at the first or at the last full
 * one, or at the rest. */
double ett_buckets_overlapped_end(ett_buckets b, double start, double end, double free);

/* Gathers the weights of some layers over the groups that shard them. */
double ett_messages_gather(ett_evaluation *e, double parameters, double expert_parameters,
                           int64_t layers);

/* ZeRO-3: weights are gathered before each pass, layer after layer; overlapped gathers
 * hide behind the computing of the layer before, the first one does not. */
double ett_messages_with_gathers(const ett_evaluation *e, double compute, double gather,
                                 int64_t layers);

/* Asks for what follows the pipeline on a stage: reducing gradients, updating, gathering
 * weights. */
void ett_update_ask(ett_evaluation *e, const ett_step_arrays *a, int rank);

/* Lays what was asked for behind the stage's pipeline, and takes what its pairs hid off
 * its passes. */
void ett_update_lay(const ett_evaluation *e, const ett_step_arrays *a, int rank,
                    const ett_pipeline_result *ends);

#endif
