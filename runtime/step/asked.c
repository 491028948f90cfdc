/* Cache of the times of a plan's messages and updates. Plans of a sweep that differ in
 * recomputation, schedule or micro-batch need the same times, except those of sends. */
#include <stdlib.h>
#include <string.h>

#include "step/evaluation.h"

/* The inputs that determine the cached times. */
static ett_asked_key key_of(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  ett_asked_key key;
  memset(&key, 0, sizeof key); /* keys are compared as bytes */
  memcpy(key.weights, e->program->weights, sizeof key.weights);
  key.placed = e->w->placed.edition;
  key.demands = ett_demands_edition(e->demands);
  key.pipeline = e->w->placed.pipeline;
  key.bucket_bytes = p->bucket_bytes;
  key.optimizer_bytes = p->optimizer_bytes;
  key.matrix_bytes = p->matrix_bytes;
  key.offload_gradients = ett_messages_whole_gradients(e) ? 0 : p->offload_gradients;
  key.offload_optimizer = p->offload_optimizer;
  key.host_bandwidth = p->host_bandwidth;
  key.host_rate = p->host_rate;
  key.pp = p->pp;
  key.vp = p->vp;
  key.zero = (int)p->zero;
  key.gradient_all_reduce = p->gradient_all_reduce;
  key.prediction = ett_step_prediction(p);
  key.gradient_bytes = p->gradient_bytes;
  key.message_bytes = p->message_bytes;
  key.weight_bytes = p->weight_bytes;
  return key;
}

/* Whether a plan's times are cached. Not if the key does not determine its slices
 * (orders, split, parts), or if its passes send messages of weights, too (ZeRO-3). */
static int is_cached(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  return !(p->orders || p->split || p->rank_map || e->stage_parts || e->passes_only ||
           p->zero == ETT_ZERO_PARAMETERS);
}

/* The place of a key in the cache. Entries of more slots, which are large, share one. */
static size_t entry_of(const ett_asked_key *key) {
  enum { SLOTS_MOST = 64, WORDS = sizeof *key / sizeof(uint64_t) };
  uint64_t words[WORDS], hash = 0;
  memcpy(words, key, sizeof words);
  for (size_t i = 0; i < WORDS; i++) {
    hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return key->pp > SLOTS_MOST / key->vp ? 0 : hash % ETT_ASKED_MOST;
}

const ett_asked *ett_asked_find(const ett_evaluation *e) {
  if (!is_cached(e))
    return NULL;
  ett_asked_key key = key_of(e);
  const ett_asked *known = e->w->asked[entry_of(&key)];
  return known && known->program != 0 && memcmp(&key, &known->key, sizeof key) == 0
             ? known
             : NULL;
}

/* The arrays of an entry in its memory block: gradients; seconds of sends by slot;
 * seconds of updates, their kernels, Newton-Schulz iterations, momenta and gathers, and
 * shares of experts in gathers, by rank; demands; lanes of sends. */
typedef struct arrays {
  ett_slice_gradients *gradients;
  double *send, *optimizer, *kernel, *newton, *momenta, *gather, *expert;
  size_t *demands;
  int32_t *lane;
} arrays;

static arrays arrays_of(const ett_asked *known, size_t slots, size_t ranks) {
  arrays at = {.gradients = known->memory};
  at.send = (double *)(at.gradients + slots);
  at.optimizer = at.send + slots;
  at.kernel = at.optimizer + ranks;
  at.newton = at.kernel + ranks;
  at.momenta = at.newton + ranks;
  at.gather = at.momenta + ranks;
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
    a->stage[rank].newton_seconds = at.newton[rank];
    a->stage[rank].newton_message_seconds = at.momenta[rank];
    a->stage[rank].gather_seconds = at.gather[rank];
    a->stage[rank].expert_gather_share = at.expert[rank];
  }
  size_t sends = known->program == e->program->edition ? 0 : known->send_count;
  return ett_messages_noted(e, at.demands + sends, known->demand_count - sends);
}

void ett_asked_keep(const ett_evaluation *e, const ett_step_arrays *a, double tied) {
  size_t slots = (size_t)a->slots, ranks = (size_t)e->plan->pp;
  if (!is_cached(e) || e->untimed || e->failed)
    return;
  ett_asked_key key = key_of(e);
  ett_asked **entry = &e->w->asked[entry_of(&key)], *known = *entry;
  if (!known && !(known = *entry = calloc(1, sizeof *known)))
    return;
  known->program = 0; /* the entry stays empty if memory runs out */
  size_t bytes =
      slots * (sizeof(ett_slice_gradients) + sizeof(double) + sizeof(int32_t)) +
      6 * ranks * sizeof(double) + e->w->demand_count * sizeof(size_t);
  if (ett_room(&known->memory, &known->bytes, bytes) != 0)
    return;
  known->demand_count = e->w->demand_count;
  known->send_count = e->send_count;
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
    at.newton[rank] = a->stage[rank].newton_seconds;
    at.momenta[rank] = a->stage[rank].newton_message_seconds;
    at.gather[rank] = a->stage[rank].gather_seconds;
    at.expert[rank] = a->stage[rank].expert_gather_share;
  }
  known->key = key;
  known->program = e->program->edition;
}
