/* Cache of the times of a plan's messages and updates. Neighbouring plans of a sweep
 * often differ only in recomputation or schedule and need the same times. */
#include <stdlib.h>
#include <string.h>

#include "step/messages.h"

/* The inputs that determine the cached times. */
static ett_asked_key key_of(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  ett_asked_key key;
  memset(&key, 0, sizeof key); /* keys are compared as bytes */
  key.program = e->program->edition;
  key.placed = e->w->placed.edition;
  key.demands = ett_demands_edition(e->demands);
  key.pipeline = e->w->placed.pipeline;
  key.bucket_bytes = p->bucket_bytes;
  key.optimizer_bytes = p->optimizer_bytes;
  key.offload_gradients = p->offload_gradients;
  key.offload_optimizer = p->offload_optimizer;
  key.host_bandwidth = p->host_bandwidth;
  key.host_rate = p->host_rate;
  key.pp = p->pp;
  key.vp = p->vp;
  key.zero = (int)p->zero;
  key.gradient_all_reduce = p->gradient_all_reduce;
  key.gradient_bytes = p->gradient_bytes;
  key.message_bytes = p->message_bytes;
  key.weight_bytes = p->weight_bytes;
  return key;
}

/* The cache entry of a plan. NULL if the key does not determine its slices (orders,
 * split, parts), or if its passes send messages of weights, too (ZeRO-3). */
static ett_asked *entry_of(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  if (p->orders || p->split || p->rank_map || e->stage_parts || e->passes_only ||
      p->zero == ETT_ZERO_PARAMETERS)
    return NULL;
  return &e->w->asked[p->zero];
}

const ett_asked *ett_asked_find(const ett_evaluation *e) {
  const ett_asked *known = entry_of(e);
  if (!known || known->key.program == 0)
    return NULL;
  ett_asked_key key = key_of(e);
  return memcmp(&key, &known->key, sizeof key) == 0 ? known : NULL;
}

/* The arrays of an entry in its memory block: gradients; seconds of sends by slot;
 * seconds of updates, their kernels and gathers, and shares of experts in gathers, by
 * rank; demands; lanes of sends. */
typedef struct arrays {
  ett_slice_gradients *gradients;
  double *send, *optimizer, *kernel, *gather, *expert;
  size_t *demands;
  int32_t *lane;
} arrays;

static arrays arrays_of(const ett_asked *known, size_t slots, size_t ranks) {
  arrays at = {.gradients = known->memory};
  at.send = (double *)(at.gradients + slots);
  at.optimizer = at.send + slots;
  at.kernel = at.optimizer + ranks;
  at.gather = at.kernel + ranks;
  at.expert = at.gather + ranks;
  at.demands = (size_t *)(at.expert + ranks);
  at.lane = (int32_t *)(at.demands + known->demand_count);
  return at;
}

void ett_asked_sends(const ett_asked *known, const ett_step_arrays *a, int ranks) {
  size_t slots = (size_t)a->slots;
  arrays at = arrays_of(known, slots, (size_t)ranks);
  memcpy(a->send_forward, at.send, slots * sizeof *at.send);
  memcpy(a->send_backward, at.send, slots * sizeof *at.send);
  memcpy(a->send_lane, at.lane, slots * sizeof *at.lane);
}

int ett_asked_load(const ett_asked *known, ett_evaluation *e, const ett_step_arrays *a) {
  size_t slots = (size_t)a->slots, ranks = (size_t)e->plan->pp;
  arrays at = arrays_of(known, slots, ranks);
  memcpy(a->gradients, at.gradients, slots * sizeof *at.gradients);
  for (size_t rank = 0; rank < ranks; rank++) {
    a->stage[rank].optimizer_seconds = at.optimizer[rank];
    a->stage[rank].optimizer_kernel_seconds = at.kernel[rank];
    a->stage[rank].gather_seconds = at.gather[rank];
    a->stage[rank].expert_gather_share = at.expert[rank];
  }
  return ett_messages_noted(e, at.demands, known->demand_count);
}

void ett_asked_keep(const ett_evaluation *e, const ett_step_arrays *a, double tied) {
  ett_asked *known = entry_of(e);
  size_t slots = (size_t)a->slots, ranks = (size_t)e->plan->pp;
  if (!known || e->untimed || e->failed)
    return;
  known->key.program = 0; /* the entry stays invalid if memory runs out */
  size_t bytes =
      slots * (sizeof(ett_slice_gradients) + sizeof(double) + sizeof(int32_t)) +
      4 * ranks * sizeof(double) + e->w->demand_count * sizeof(size_t);
  if (ett_room(&known->memory, &known->bytes, bytes) != 0)
    return;
  known->demand_count = e->w->demand_count;
  known->tied = tied;
  arrays at = arrays_of(known, slots, ranks);
  memcpy(at.gradients, a->gradients, slots * sizeof *at.gradients);
  memcpy(at.send, a->send_forward, slots * sizeof *at.send);
  memcpy(at.lane, a->send_lane, slots * sizeof *at.lane);
  if (known->demand_count > 0)
    memcpy(at.demands, e->w->demands, known->demand_count * sizeof *at.demands);
  for (size_t rank = 0; rank < ranks; rank++) {
    at.optimizer[rank] = a->stage[rank].optimizer_seconds;
    at.kernel[rank] = a->stage[rank].optimizer_kernel_seconds;
    at.gather[rank] = a->stage[rank].gather_seconds;
    at.expert[rank] = a->stage[rank].expert_gather_share;
  }
  known->key = key_of(e);
}
