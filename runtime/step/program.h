/* program.h - the step program: an architecture lowered for one device.
 *
 * Flat arrays: each distinct operation (operator or collective) with its times, and each
 * kind of layer, in the model's order, with its operations. All values are per device and
 * micro-batch. */
#ifndef ETT_STEP_PROGRAM_H
#define ETT_STEP_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "step/demand.h"

/* The part of the forward pass that the backward pass recomputes. */
typedef enum ett_recompute {
  ETT_RECOMPUTE_NONE,
  ETT_RECOMPUTE_SELECTIVE, /* operations marked `selective` */
  ETT_RECOMPUTE_FULL,      /* the forward pass of every repeated layer */
  ETT_RECOMPUTE_POLICY,    /* every second layer, or the runs of policy_uses */
  ETT_RECOMPUTES
} ett_recompute;

/* The layers of a slice that ETT_RECOMPUTE_FULL recomputes, by a number N. */
typedef enum ett_recompute_method {
  ETT_RECOMPUTE_BLOCK,   /* the first N */
  ETT_RECOMPUTE_EVERY,   /* each N-th */
  ETT_RECOMPUTE_UNIFORM, /* all; N consecutive ones hold one input */
  ETT_RECOMPUTE_METHODS
} ett_recompute_method;

/* The slices that hold a kind of layer. */
typedef enum ett_place {
  ETT_PLACE_FIRST,      /* first slice: the embedding */
  ETT_PLACE_MIDDLE,     /* distributed over the slices */
  ETT_PLACE_PREDICTION, /* one slice behind all middle layers: multi-token prediction */
  ETT_PLACE_LAST,       /* last slice: final norm, head, loss */
} ett_place;

/* The role of an operation relative to the all-to-alls of a mixture of experts. Dispatch
 * sends tokens to the ranks of their experts; combine returns the results. */
typedef enum ett_role {
  ETT_ROLE_OUTSIDE,         /* computing outside the experts: attention, norms, router */
  ETT_ROLE_EXPERT,          /* computing between dispatch and combine */
  ETT_ROLE_EXCHANGE,        /* half of the seconds dispatch, half combine */
  ETT_ROLE_BESIDE_DISPATCH, /* of shared experts: up projection and activation */
  ETT_ROLE_BESIDE_COMBINE,  /* of shared experts: down projection */
  ETT_ROLE_ALONE,           /* other communication: hides nothing and is never hidden */
  ETT_ROLES,
} ett_role;

/* The work that overlaps all-to-alls. */
typedef enum ett_exchange_overlap {
  ETT_EXCHANGE_EXPOSED,
  ETT_EXCHANGE_SHARED_EXPERTS, /* the shared experts of the same layer */
  ETT_EXCHANGE_BATCH,          /* the other pass of another micro-batch (ett_pipeline) */
  ETT_EXCHANGE_OVERLAPS,
} ett_exchange_overlap;

/* A slow device computes more slowly; its links have the usual speed. */
typedef enum ett_operation_kind { ETT_OPERATOR, ETT_COLLECTIVE } ett_operation_kind;

/* A wait for the host to launch a layer's kernels; it is the layer's last operation.
 * Either the host launches ahead of the device, so that longer operators shorten the
 * wait, or it waits for each kernel. */
typedef enum ett_host_wait {
  ETT_HOST_NONE, /* other operations */
  ETT_HOST_AHEAD,
  ETT_HOST_BLOCKING,
} ett_host_wait;

/* A point of a forward pass at which the device waits for the host: seconds of the wait,
 * and seconds of the operators and of the all-to-alls of experts before it. If operators
 * take longer, the wait is shorter, but by less if they hide more of the all-to-alls. */
typedef struct ett_host_point {
  double seconds, operators, exchanges;
} ett_host_point;

/* Lanes: the links of each tier (comm/placement.h). */
enum { ETT_LANES = ETT_TIERS_MOST };

/* Largest number of shapes of cached weight gradients. All further shapes share the last
 * number. */
enum { ETT_CACHED_SHAPES = 64 };

typedef struct ett_operation {
  ett_operation_kind kind;
  ett_demand_time forward, backward; /* of one run */
  double lanes[ETT_LANES];  /* share of its seconds in which it occupies each lane */
  double beside_seconds;    /* further seconds on the lanes, during computing */
  double dense_parameters;  /* weights on this device, shared by all runs */
  double expert_parameters; /* weights that differ between expert-parallel ranks */
  double frozen_dense, frozen_expert; /* weights without gradient and update */
  /* Of its trained weights those in matrices that Muon updates; seconds of Newton-Schulz
   * iterations on all of them, and on the largest matrix. */
  double matrix_parameters, newton_seconds, largest_newton_seconds;
  double spared_share;    /* share of its weights' bytes that gathers need not move */
  double quantised_bytes; /* of its weights beyond their 16 bits; negative if they take
                             fewer */
  /* The same for its shards under ZeRO-3: the sharded part, and the scales of blocks,
   * which each rank holds whole. */
  double sharded_bytes, scale_bytes;
  double activation_bytes; /* held from forward to backward */
  double dropped_bytes;    /* not held if the operation is recomputed */
  double late_bytes; /* held from a split backward to the weight gradients, recomputed or
                        not */
  double working_bytes;        /* allocated only during its backward pass */
  double weight_working_bytes; /* further bytes of its weight gradient */
  /* The software keeps one weight gradient allocated for all weights of a shape: the
   * number of the shape (0: none), and the bytes, which only one operation of the shape
   * has. */
  int cached_shape;
  double cached_bytes;
  double weight_share; /* share of the backward pass that only weight gradients need */
  /* Further seconds of the backward pass if it is split. Positive: communication that
   * overlaps weight gradients in a whole pass. Negative: waits that splitting shortens.
   */
  ett_demand_time split;
  ett_demand_time split_weight; /* seconds of a split pass in the unit of weight
                                   gradients, beyond its weight_share */
  /* Seconds in the pass that ETT_RECOMPUTE_SELECTIVE repeats, for an operation without
   * `selective`: the wait for the host. */
  ett_demand_time repeated;
  double flops;    /* model FLOPs, forward and backward */
  int loss;        /* holds the logits */
  int selective;   /* recomputed under ETT_RECOMPUTE_SELECTIVE */
  int waits_again; /* the wait `repeated` counts the launches of its repeated run */
  int never_again; /* outside the recomputed part of its layer. If it is behind that part,
                      it runs again if a later layer of the same group
                      (ETT_RECOMPUTE_UNIFORM) needs the layer's output */
  ett_role role;
  ett_host_wait host;
  int hides_exchanges; /* its pass lacks the all-to-alls that hide behind shared experts
                        */
  /* If the host reads from the device within the pass: its waits, of which the longest
   * counts. Owned. Without points, all operators of the pass shorten the wait. */
  ett_host_point *points;
  size_t point_count;
} ett_operation;

typedef struct ett_layer_kind {
  ett_place place;
  int64_t count;       /* consecutive layers of this kind */
  double input_bytes;  /* held by a fully recomputed layer */
  double boundary;     /* output of a slice that ends with this layer, as a multiple of
                          boundary_bytes; 0: as before the layer */
  double policy_bytes; /* held under ETT_RECOMPUTE_POLICY; 0: the mean of none and full */
  double remade_bytes; /* repeated and held together under ETT_RECOMPUTE_SELECTIVE */
  double shared_bytes; /* held once by a slice with layers of this kind */
  int forward_only;    /* no backward pass, so nothing is recomputed or gathered again */
  int stored;          /* not among the layers that ETT_RECOMPUTE_FULL recomputes */
  int owns_table;      /* the lookup that owns the embedding's table */
  int copies_table;    /* its weights contain a copy of that table (tied head, multi-token
                          prediction), which a stage with another one does not need */
} ett_layer_kind;

/* Weights by kind. idle: weights of layers without a backward pass, trained and frozen.
 */
typedef struct ett_weights {
  double dense, expert, frozen_dense, frozen_expert, idle_dense, idle_expert;
} ett_weights;

/* Matrices that Muon updates: weights, and the seconds of their Newton-Schulz iterations,
 * of all and of the largest matrix. */
typedef struct ett_matrices {
  double parameters, seconds, largest;
} ett_matrices;

/* Sums over one layer of a kind, or over a slice. */
typedef struct ett_layer_sums {
  double forward, backward,
      recompute[ETT_RECOMPUTES]; /* seconds; the selected one is part of backward */
  double weight;                 /* seconds of weight gradients within a split backward */
  /* By ett_exchange_overlap: seconds of all-to-alls within forward and backward that hide
   * (ETT_EXCHANGE_BATCH: in a pair with the other pass of the same layer). */
  double forward_hidden[ETT_EXCHANGE_OVERLAPS], backward_hidden[ETT_EXCHANGE_OVERLAPS];
  /* Further seconds of a split backward pass: `split` of its operations, and all-to-alls
   * that overlap the weight gradients of shared experts if the pass is not split. */
  double split, split_exchange;
  double forward_lane[ETT_LANES],
      backward_lane[ETT_LANES]; /* seconds in which a lane is occupied */
  /* The repeated forward pass: seconds on the lanes; seconds of all-to-alls hidden by
   * shared experts. */
  struct ett_repeated {
    double lane[ETT_LANES], hidden;
  } repeated[ETT_RECOMPUTES];
  /* Seconds of one layer's operations with never_again, of all and on the lanes. */
  double left_out, left_out_lane[ETT_LANES];
  double dense_parameters, expert_parameters;
  double frozen_dense, frozen_expert;
  /* Layers without a backward pass: their number and their weights. */
  double idle_layers, idle_dense, idle_expert;
  /* Of the embedding: lookups that own its table (at most 1); counted copies of the
   * table. */
  double owns_table, table_copies;
  ett_weights spared; /* weights that gathers need not move, and the saved part of weights
                         that they move in fewer bits */
  struct ett_quantised {
    double whole, sharded, scales; /* quantised_bytes, sharded_bytes, scale_bytes */
    double frozen_sharded, frozen_scales;  /* the part of frozen weights */
  } quantised[2];                          /* of dense weights, of experts */
  ett_matrices matrices[2];                /* dense, of experts */
  uint64_t cached_shapes;                  /* bit of each cached_shape */
  double activation_bytes[ETT_RECOMPUTES]; /* by ett_recompute */
  double late_bytes;   /* held from a split backward pass to its weight gradients */
  double loss_bytes;   /* share of the logits */
  double shared_bytes; /* of a slice: part of activation_bytes and late_bytes */
  /* By ett_recompute: all activations of the largest single layer, less the bytes that it
   * holds if it is recomputed. */
  double layer_bytes[ETT_RECOMPUTES];
  double remade_bytes; /* of the layer kind with the most */
  /* By ett_recompute: held by the two layers that hold most. */
  double largest_bytes[ETT_RECOMPUTES][2];
  /* By ett_recompute, with and without the bytes of weight gradients: peak of a backward
   * pass beyond all activations of the slice, recomputed ones included. */
  double working_bytes[ETT_RECOMPUTES][2];
  /* Of the largest single layer: all weights; trained weights; weights that a gather
   * moves (without `spared`); bytes of the second copy that is made of gathered 8-bit
   * weights. */
  double layer_parameters, layer_trained, layer_gathered, layer_copies;
  /* Gathered weights of the largest two neighbours (one layer if it is alone), of the
   * first and of the last layer. With gathers_tensors these, layer_gathered and
   * layer_trained are of single operations instead of layers. */
  double pair_gathered, first_gathered, last_gathered;
  /* With whole_ends: gathered weights of embedding and head, which no amount above has;
   * trained weights of the larger of both. The table of a tied head is the embedding's.
   */
  double ends_gathered, ends_trained;
  double flops;
  double boundary; /* of the last layer */
  /* Seconds that a slice waits for the gather of its input; per pass of a micro-batch. */
  double gather_forward, gather_backward;
} ett_layer_sums;

/* Which end of an operation's interval to use. */
typedef enum ett_variation { ETT_AT_TIME, ETT_AT_LOW, ETT_AT_HIGH } ett_variation;

/* The caller fills in the arrays and the messages, checks them, and calls
 * ett_program_finish. */
typedef struct ett_program {
  ett_operation *operations;
  ett_layer_kind *kinds;
  int32_t *uses; /* [kind][operation]: runs of the operation in one layer of the kind */
  double *policy_uses; /* [kind][operation]: runs repeated under ETT_RECOMPUTE_POLICY */
  size_t operation_count, kind_count;
  int lanes;                   /* of the cluster */
  double boundary_bytes;       /* message of a micro-batch between neighbouring slices */
  double tied_embedding_bytes; /* gradient of the embedding, of which `copies_table`
                                  layers hold a copy; 0: no copies */
  int tied_frozen;   /* the tied embedding is frozen: its gradient is not reduced */
  int element_bytes; /* size of an element in messages */
  int64_t recompute_layers; /* of ett_recompute_method; 0: all layers, one by one */
  ett_recompute_method recompute_method;
  int gather; /* index + 1 of the operation that gathers a slice's input over the tensor
                 group, once per micro-batch; 0: none */
  /* Memory of the software on every device: workspaces of libraries; context of the
   * driver; buffers of one communicator. */
  double workspace_bytes, context_bytes, communicator_bytes;
  double output_bytes; /* output of a slice with boundary 1, held until its gradient
                          arrives */
  double kept_logits;  /* logits that the program holds until the backward pass ends, over
                          loss_bytes */
  int gathers_tensors; /* each weight is gathered and reduced by itself, not a layer; only
                          memory depends on it */
  int whole_ends; /* weights of embedding and head stay gathered from the forward pass to
                     the end of the backward pass; only memory depends on it */
  int master_shards; /* ZeRO-3 shards only the optimizer's fp32 weights; the weights of
                        the passes have no shards */
  int blocking_reductions; /* devices compute nothing while they reduce-scatter gradients,
                              also with overlap_gradients */
  int whole_stages; /* with several stages, ZeRO-2 and 3 keep whole weights and gradients
                       until the last backward pass, and reduce once a step */
  int defers_gradients; /* with several micro-batches, ZeRO-2 and 3 add up whole gradients
                           and reduce them in the last backward pass */
  int frees_gradients; /* no gradient has memory before the first backward pass writes it;
                          without replicas it may take that of activations */
  int autocast; /* weights that are trained are in fp32, in the optimizer's states alone
                 */
  double cast_bytes;  /* 16-bit copies of all weights, which autocast holds until the end
                         of  a forward pass */
  int foreach_update; /* an update runs single operators on all weights: a temporary
                         tensor as large as each weight (PyTorch's foreach) */
  double owned_tensors; /* of a layer, if ranks of ZeRO-1 and 2 own whole tensors and send
                           them after the update, one rank after the other; else 0 */
  int copies_gradients; /* without ZeRO, several replicas hold the gradients once more, in
                           buckets */
  double
      kept_gradient_bytes; /* gradient of one weight, held beside wider main gradients */
  double
      allocator_share; /* share of transient memory lost to rounding and fragmentation */
  double communication_share; /* share of a device's rate taken by communication beside
                                 computing */
  double exchange_communication_share; /* the same for experts' all-to-alls */
  /* Set by ett_program_finish and ett_program_vary: */
  ett_layer_sums *sums;                   /* per kind */
  double cached_bytes[ETT_CACHED_SHAPES]; /* by cached_shape - 1 */
  uint64_t edition; /* changes with the sums; unique over all programs */
  /* Equal for programs with equal weights in equal layers, and equal rules of their
   * messages. */
  uint64_t weights[2];
  size_t varied;
  ett_variation variation;
  double slowdown; /* factor of the times of operators in the sums, except host waits */
  /* The same model on the devices of the cluster's next part, owned; NULL for the last
   * part. */
  struct ett_program *next;
} ett_program;

/* Adds n times the matrices of a layer or operation. */
static inline void ett_matrices_add(ett_matrices *to, const ett_matrices *of, double n) {
  to->parameters += n * of->parameters;
  to->seconds += n * of->seconds;
  if (of->largest > to->largest)
    to->largest = of->largest;
}

ett_program *ett_program_new(size_t operations, size_t kinds, ett_err *err);
void ett_program_free(ett_program *program);

/* Check signs, ranges and finiteness of one operation, and of the rest of the program. */
int ett_operation_check(const ett_operation *operation, ett_err *err);
int ett_program_check(const ett_program *program, ett_err *err);

/* Number of layers that are distributed over slices. */
int64_t ett_program_middle_layers(const ett_program *program);

/* Computes the sums of the kinds. Call it after the last set call and before
 * ett_program_slices. */
void ett_program_finish(ett_program *program);

/* Middle layers of each slice, split evenly. The remainder goes to the slices between the
 * first and the last, which hold embedding and head, and then to the first. */
void ett_split_even(int64_t layers, int slices, int64_t *split);

/* The slice of a kind of layers that is not in the middle. prediction: the slice of
 * ETT_PLACE_PREDICTION. */
int ett_program_slice_of(const ett_layer_kind *kind, int slices, int prediction);

/* Sums of each slice under a split of the middle layers (the split must sum to their
 * number). prediction: the slice of ETT_PLACE_PREDICTION, with no middle layers behind
 * it. layers[slice]: layers of all places. */
int ett_program_slices(const ett_program *program, int slices, const int64_t *split,
                       int prediction, ett_layer_sums *sums, int64_t *layers,
                       ett_err *err);

/* As ett_program_slices, for devices whose operators take `factor` times as long. Leaves
 * the program as it is. kinds: scratch sums, one per kind. */
int ett_program_slowed(const ett_program *program, double factor, int slices,
                       const int64_t *split, int prediction, ett_layer_sums *kinds,
                       ett_layer_sums *sums, int64_t *layers, ett_err *err);

/* Bytes of the cached weight gradients of these shapes. */
double ett_program_cached(const ett_program *program, uint64_t shapes);

/* Keeps the two largest of these values and another one, the largest first. */
void ett_keep_two(double most[2], double value);

/* Adds n times `of` to `to`. */
void ett_weights_add(ett_weights *to, const ett_weights *of, double n);

/* Recomputes the sums with one operation at another end of its interval. */
void ett_program_vary(ett_program *program, size_t operation, ett_variation variation);

#endif
