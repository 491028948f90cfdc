/* program.h - the step program: an architecture lowered for one device.
 *
 * Flat arrays: each distinct operation (operator or collective) with its times, and each
 * kind of layer, in the model's order, with the operations that one layer runs. All
 * values are per device and micro-batch. */
#ifndef ETT_STEP_PROGRAM_H
#define ETT_STEP_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "step/demand.h"

/* The part of the forward pass that runs again in the backward pass. */
typedef enum ett_recompute {
  ETT_RECOMPUTE_NONE,
  ETT_RECOMPUTE_SELECTIVE, /* operations marked so: the core of attention */
  ETT_RECOMPUTE_FULL,      /* the forward pass of every repeated layer */
  ETT_RECOMPUTE_HALF,      /* half of that: every second layer or product */
  ETT_RECOMPUTES
} ett_recompute;

/* The slices that hold the layers of a kind. */
typedef enum ett_place {
  ETT_PLACE_FIRST,  /* on the first slice: the embedding */
  ETT_PLACE_MIDDLE, /* spread over the slices */
  ETT_PLACE_LAST,   /* on the last slice: final norm, head, loss */
} ett_place;

/* An operation's place among the all-to-alls of a mixture of experts. Dispatch sends
 * tokens to the ranks of their experts; combine returns the results. */
typedef enum ett_role {
  ETT_ROLE_OUTSIDE,         /* computing outside the experts: attention, norms, router */
  ETT_ROLE_EXPERT,          /* computing between dispatch and combine */
  ETT_ROLE_EXCHANGE,        /* half of it the dispatch, half the combine */
  ETT_ROLE_BESIDE_DISPATCH, /* of shared experts: up projection and activation */
  ETT_ROLE_BESIDE_COMBINE,  /* of shared experts: down projection */
  ETT_ROLE_ALONE,           /* other communication: neither hides nor is hidden */
  ETT_ROLES,
} ett_role;

/* How all-to-alls are hidden. */
typedef enum ett_exchange_overlap {
  ETT_EXCHANGE_EXPOSED,
  ETT_EXCHANGE_SHARED_EXPERTS, /* behind the shared experts of the same layer */
  ETT_EXCHANGE_BATCH, /* behind the other pass of another micro-batch (ett_pipeline) */
  ETT_EXCHANGE_OVERLAPS,
} ett_exchange_overlap;

/* The links that a collective occupies. */
typedef enum ett_link {
  ETT_LINK_NONE,    /* computing */
  ETT_LINK_NODE,    /* inside nodes */
  ETT_LINK_NETWORK, /* the cards between nodes */
  ETT_LINKS,
} ett_link;

typedef struct ett_operation {
  ett_demand_time forward, backward; /* one run */
  ett_link link;
  double beside_seconds;    /* further seconds on the link, beside computing */
  double dense_parameters;  /* weights on this device that every run uses */
  double expert_parameters; /* weights that differ between expert-parallel ranks */
  double frozen_dense, frozen_expert; /* further weights: without gradient and update */
  double activation_bytes;            /* kept from forward to backward */
  double dropped_bytes;               /* made again where it is run again: not kept */
  double working_bytes;               /* alive only while its backward pass runs */
  double weight_working_bytes;        /* further ones, of its weight gradient */
  double weight_share; /* of the backward pass: what only gradients of weights need */
  double flops;        /* forward + backward, as model FLOPs count them */
  int loss;            /* keeps the logits */
  int selective;       /* run again under ETT_RECOMPUTE_SELECTIVE */
  int never_again;     /* full recomputation stops before it */
  ett_role role;
} ett_operation;

typedef struct ett_layer_kind {
  ett_place place;
  int64_t count;      /* consecutive layers of this kind */
  double input_bytes; /* kept by a layer that is recomputed in full */
  double boundary;    /* what leaves a slice that ends with such a layer, over the
                         program's boundary_bytes; 0: as before the layer */
} ett_layer_kind;

/* Sums over one layer of a kind, or over a slice. */
typedef struct ett_layer_sums {
  double forward, backward,
      recompute[ETT_RECOMPUTES]; /* seconds; one joins the backward */
  double weight;                 /* seconds of weight gradients within backward */
  /* By ett_exchange_overlap: seconds of all-to-alls within forward and backward that hide
   * (of ETT_EXCHANGE_BATCH: in a pair with the other pass of the same layer). */
  double forward_hidden[ETT_EXCHANGE_OVERLAPS], backward_hidden[ETT_EXCHANGE_OVERLAPS];
  double forward_link[ETT_LINKS], backward_link[ETT_LINKS]; /* seconds a link is in use */
  double recompute_link[ETT_LINKS]; /* again, under full recomputation */
  double recompute_hidden;          /* of SHARED_EXPERTS, under full recomputation */
  double dense_parameters, expert_parameters;
  double frozen_dense, frozen_expert;
  double activation_bytes[ETT_RECOMPUTES]; /* by recompute */
  double loss_bytes;                       /* of them, logits */
  double layer_bytes;                      /* all activations of the largest one layer */
  /* By recompute, with and without those of weight gradients: the most that a backward
   * pass holds beyond all activations of the slice. */
  double working_bytes[ETT_RECOMPUTES][2];
  double layer_parameters, layer_trained; /* of the largest one layer: all, not frozen */
  double flops;
  double boundary; /* of the last layer */
  /* What a slice waits for the parts of what it receives; a pass of a micro-batch. */
  double gather_forward, gather_backward;
} ett_layer_sums;

/* Which time of one operation to take: for intervals. */
typedef enum ett_variation { ETT_AT_TIME, ETT_AT_LOW, ETT_AT_HIGH } ett_variation;

/* The caller fills in the arrays and the messages, checks them, and calls
 * ett_program_finish. */
typedef struct ett_program {
  ett_operation *operations;
  ett_layer_kind *kinds;
  int32_t *uses; /* [kind][operation]: runs of the operation in one layer of the kind */
  size_t operation_count, kind_count;
  double boundary_bytes;       /* a micro-batch sends these between neighbouring slices */
  double tied_embedding_bytes; /* of the tied embedding's gradient; 0: not tied */
  int tied_frozen;             /* the tied embedding is frozen: no gradient is reduced */
  int element_bytes;           /* of an element that moves */
  int gather; /* number of the operation that gathers what a slice receives in parts, over
                 the ranks that share a tensor, once a micro-batch; 0: none */
  /* What the software holds on every device: its cached weight gradients; workspaces of
   * libraries; context of the driver; a communicator's buffers. */
  double cached_bytes, workspace_bytes, context_bytes, communicator_bytes;
  double output_bytes;        /* of a slice's output, kept until its gradient arrives */
  double kept_gradient_bytes; /* of a weight, beside wider main gradients */
  double allocator_share;     /* of what comes and goes: lost to rounding and fragments */
  double communication_share; /* of a device, taken by what it sends while it computes */
  /* ett_program_finish and ett_program_vary: */
  ett_layer_sums *sums; /* per kind */
  uint64_t edition;     /* another one after each change of the sums, in any program */
  size_t varied;
  ett_variation variation;
  /* The same model on the devices of the cluster's next part, owned; NULL: the last. */
  struct ett_program *next;
} ett_program;

ett_program *ett_program_new(size_t operations, size_t kinds, ett_err *err);
void ett_program_free(ett_program *program);

/* Check signs, ranges and finiteness: of one operation; of everything else. */
int ett_operation_check(const ett_operation *operation, ett_err *err);
int ett_program_check(const ett_program *program, ett_err *err);

/* Number of layers that are spread over slices. */
int64_t ett_program_middle_layers(const ett_program *program);

/* Adds up the kinds; after the last set call, before ett_program_slices. */
void ett_program_finish(ett_program *program);

/* Middle layers of each slice, spread evenly. The remainder goes to the slices between
 * the first and the last, which hold embedding and head, and then to the first. */
void ett_split_even(int64_t layers, int slices, int64_t *split);

/* What each slice holds under a split of the middle layers (their sum must be right).
 * layers[slice]: layers of every place. */
int ett_program_slices(const ett_program *program, int slices, const int64_t *split,
                       ett_layer_sums *sums, int64_t *layers, ett_err *err);

/* The sums again with one operation at another end of its interval. */
void ett_program_vary(ett_program *program, size_t operation, ett_variation variation);

#endif
