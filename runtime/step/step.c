#include "step/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/evaluation.h"

ett_step_workspace *ett_step_workspace_new(void) {
  ett_step_workspace *w = calloc(1, sizeof *w);
  if (!w)
    return NULL;
  w->pipeline = ett_pipeline_workspace_new();
  if (!w->pipeline) {
    free(w);
    return NULL;
  }
  return w;
}

void ett_step_workspace_free(ett_step_workspace *w) {
  if (!w)
    return;
  ett_pipeline_workspace_free(w->pipeline);
  ett_parts_free(&w->parts);
  ett_links_workspace_free(w->links);
  for (size_t i = 0; i < ETT_PLACED_MOST; i++)
    free(w->before[i]);
  for (size_t i = 0; i < ETT_ASKED_MOST; i++)
    if (w->asked[i]) {
      free(w->asked[i]->memory);
      free(w->asked[i]);
    }
  free(w->memory);
  free(w->demands);
  free(w);
}

ett_pipeline_workspace *ett_step_workspace_pipeline(ett_step_workspace *w) {
  return w->pipeline;
}

static int layout(const ett_evaluation *e, ett_step_workspace *w, ett_step_arrays *a) {
  const ett_orders *orders = e->plan->orders;
  size_t ranks = (size_t)e->plan->pp, slices = ranks * (size_t)e->plan->vp;
  size_t slots = orders ? ranks * (size_t)orders->chunks : slices;
  size_t own = orders ? slices : 0; /* separate arrays for slices and slots */
  size_t bytes = 2 * ranks * sizeof *a->stage + ranks * sizeof *a->start +
                 (slots + own) * sizeof *a->sums +
                 slots * (sizeof *a->gradients + sizeof(int64_t) +
                          (12 + 2 * (size_t)e->lanes) * sizeof(double)) +
                 2 * (slots + own) * sizeof(int64_t) +
                 ranks * (sizeof *a->alike + 2 * sizeof *a->tied);
  if (ett_room(&w->memory, &w->bytes, bytes) != 0)
    return ett_err_set(e->err, ETT_ERR_MEMORY, "not enough memory for %zu slices", slots);
  a->slots = (int)slots;
  a->stage = w->memory;
  a->stage_before = a->stage + ranks;
  a->sums = (ett_layer_sums *)(a->stage_before + ranks);
  a->slice_sums = a->sums + (own ? slots : 0);
  a->gradients = (ett_slice_gradients *)(a->sums + slots + own);
  double *at = (double *)(a->gradients + slots);
  double **arrays[] = {&a->runs,
                       &a->forward,
                       &a->backward,
                       &a->weight,
                       &a->joined,
                       &a->forward_hidden,
                       &a->backward_hidden,
                       &a->send_forward,
                       &a->send_backward,
                       &a->in_flight,
                       &a->late,
                       &a->gather};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, at += slots)
    *arrays[i] = at;
  for (int l = 0; l < e->lanes; l++) {
    a->forward_busy[l] = at, at += slots;
    a->backward_busy[l] = at, at += slots;
  }
  a->start = at, at += ranks;
  a->split = (int64_t *)at;
  a->layers = a->split + slots;
  a->slice_split = own ? a->layers + slots : a->split;
  a->slice_layers = own ? a->slice_split + slices : a->layers;
  a->send_lane = (int32_t *)(a->layers + slots + 2 * own);
  a->alike = a->send_lane + slots;
  a->tied = a->alike + ranks;
  a->tied_stage = a->tied + ranks;
  return 0;
}

/* Removes the copies of the embedding's table that a stage does not need: all if the
 * embedding is there, and all but the first. */
static void share_table(const ett_evaluation *e, const ett_step_arrays *a, int rank) {
  double copy = e->program->tied_embedding_bytes / e->plan->gradient_bytes, owned = 0;
  for (int v = rank; v < a->slots; v += e->plan->pp)
    owned += a->sums[v].owns_table;
  for (int v = rank; v < a->slots; v += e->plan->pp) {
    ett_layer_sums *s = &a->sums[v];
    double kept = owned == 0 && s->table_copies > 0 ? 1 : 0;
    *(e->program->tied_frozen ? &s->frozen_dense : &s->dense_parameters) -=
        (s->table_copies - kept) * copy;
    s->table_copies = kept; /* the sums may be used again */
    owned += kept;
  }
}

/* Finds the stages that reduce the gradient of the embedding's table together, and their
 * number: those of one way of the schedule, if the stage of the embedding is not the only
 * one with the table. */
static void find_tied(ett_evaluation *e, const ett_step_arrays *a) {
  int pp = e->plan->pp, way = e->plan->orders ? pp * e->plan->vp : a->slots;
  int owners = 0;
  memset(a->tied, 0, (size_t)pp * sizeof *a->tied);
  e->tied = 0;
  if (e->program->tied_embedding_bytes == 0 || pp == 1)
    return;
  for (int rank = 0; rank < pp; rank++)
    share_table(e, a, rank);
  for (int v = 0; v < way; v++) {
    int owner = a->sums[v].owns_table > 0 && owners++ == 0;
    a->tied[v % pp] |= owner || a->sums[v].table_copies > 0;
  }
  for (int rank = 0; rank < pp; rank++)
    if (a->tied[rank])
      a->tied_stage[e->tied++] = rank;
  if (owners == 0 || e->tied == 1) {
    memset(a->tied, 0, (size_t)pp * sizeof *a->tied);
    e->tied = 0;
  }
}

/* Replaces the sums of the slots of slow stages (slowdown of the plan). */
static int slow_slots(const ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  size_t slices = (size_t)p->pp * (size_t)p->vp, kinds = e->program->kind_count;
  const ett_program *known = NULL;
  double factor = 1;
  ett_layer_sums *of_kinds =
      malloc((kinds + slices) * sizeof *of_kinds + slices * sizeof(int64_t));
  if (!of_kinds)
    return ett_err_set(e->err, ETT_ERR_MEMORY, "not enough memory for %zu slices",
                       slices);
  ett_layer_sums *sums = of_kinds + kinds;
  int status = 0;
  for (int rank = 0; rank < p->pp && status == 0; rank++) {
    const ett_program *program = ett_parts_program(e, a, rank);
    if (p->slowdown[rank] == 1)
      continue;
    if (program != known || p->slowdown[rank] != factor)
      status = ett_program_slowed(program, p->slowdown[rank], (int)slices, a->slice_split,
                                  ett_step_prediction(p), of_kinds, sums,
                                  (int64_t *)(sums + slices), e->err);
    known = program;
    factor = p->slowdown[rank];
    for (int v = rank; v < a->slots && status == 0; v += p->pp)
      a->sums[v] = sums[p->orders ? p->orders->slice[v] : v];
  }
  free(of_kinds);
  return status;
}

/* Copies the sums of each slice to its slots. */
static int fill_slots(const ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  const ett_orders *orders = p->orders;
  for (int v = 0; v < a->slots; v++) {
    a->runs[v] = orders ? orders->runs[v] : (double)p->micro_batches;
    if (e->stage_parts)
      a->sums[v] = *ett_parts_sums(e, a, v);
    if (!orders)
      continue;
    int slice = orders->slice[v];
    if (!e->stage_parts)
      a->sums[v] = a->slice_sums[slice];
    a->split[v] = a->slice_split[slice];
    a->layers[v] = a->slice_layers[slice];
  }
  return p->slowdown ? slow_slots(e, a) : 0;
}

/* Whether the evaluation before placed the same groups. */
static int is_placed(const ett_step_plan *p, const ett_placed *placed) {
  const ett_degrees *d = &placed->degrees;
  return placed->ranks.world != 0 && !p->rank_map && !placed->ranks.map &&
         p->tp == d->tp && p->cp == d->cp && p->ep == d->ep && p->dp == d->dp &&
         p->pp == d->pp && p->etp == d->etp && p->rank_order == d->order &&
         p->shard == placed->shard && (p->orders ? p->orders->ways : 1) == placed->ways &&
         ett_orders_places(p->orders) == placed->slices &&
         memcmp(&p->tiers, &placed->ranks.tiers, sizeof p->tiers) == 0;
}

static int check_degrees(const ett_step_plan *p, ett_err *err) {
  if (p->vp < 1 || p->vp > ETT_DEGREE_MOST)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "field 'vp' must be 1 to %lld, got %d",
                       (long long)ETT_DEGREE_MOST, p->vp);
  ett_degrees degrees = ett_step_degrees(p);
  if (ett_degrees_check(&degrees, err) != 0 || ett_tiers_check(&p->tiers, err) != 0)
    return -1;
  int64_t world = ett_degrees_world(&degrees);
  if (p->rank_map && p->rank_map_count != world)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'rank_map' must place all %lld ranks, got %lld",
                       (long long)world, (long long)p->rank_map_count);
  return 0;
}

int ett_step_conflicts(const ett_step_plan *p) {
  return p->overlap_all_to_all == ETT_EXCHANGE_BATCH &&
         (p->recompute >= ETT_RECOMPUTE_FULL || p->zero == ETT_ZERO_PARAMETERS);
}

static int check_plan(const ett_step_plan *p, ett_err *err) {
  if (!(p->bucket_bytes >= 1))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'bucket_bytes' must be at least 1, got %g",
                       p->bucket_bytes);
  if ((int)p->zero < 0 || p->zero > ETT_ZERO_PARAMETERS)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "field 'zero' must be 0 to %d, got %d",
                       ETT_ZERO_PARAMETERS, (int)p->zero);
  if (ett_step_conflicts(p))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "overlap_all_to_all = batch cannot be combined with full "
                       "recompute or ZeRO-3");
  const double shares[] = {p->offload_activations, p->offload_weights,
                           p->offload_gradients, p->offload_optimizer};
  int linked = p->parts.count > 1 || (p->host_bandwidth > 0 && p->host_rate > 0);
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
    if (!(shares[i] >= 0 && shares[i] <= 1) || (shares[i] > 0 && !linked))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "shares that are offloaded must be 0 to 1, and need a link to "
                         "the host");
  if (p->shard < 0 || p->prefetch < 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "shard and prefetch must be at least 0");
  if (!(p->data_seconds >= 0 && p->stall_seconds >= 0))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "data_seconds and stall_seconds must be at least 0");
  if (p->gradient_bytes < 1 || p->message_bytes < 1 || p->weight_bytes < 1 ||
      !(p->optimizer_bytes >= 0 && p->matrix_bytes >= 0))
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "weights and gradients need at least 1 byte, optimizer states at least 0");
  return 0;
}

/* Highest tier between stages `from` and `to`. */
static int level_of(const ett_evaluation *e, int from, int to) {
  const ett_placed *placed = &e->w->placed;
  return ett_place_level(&placed->ranks, placed->pipeline, from < to ? from : to,
                         from < to ? to : from);
}

/* Seconds of a message between two stages. Across nodes, all ranks of one node that send
 * to the same other node send at once. */
static double ask_pair(ett_evaluation *e, ett_demand_kind kind, double bytes, int level,
                       int32_t element_bytes) {
  const ett_placed *placed = &e->w->placed;
  ett_placement place;
  ett_demand demand = {
      .kind = kind, .amount = bytes, .place = &place, .element_bytes = element_bytes};
  if (e->failed ||
      ett_place_pairs(&placed->ranks, placed->pipeline, level, &place, e->err) != 0) {
    e->failed = -1;
    return 0;
  }
  return ett_messages_ask(e, &demand);
}

/* The last message of a level. */
typedef struct known_send {
  double bytes, seconds; /* bytes < 0: none yet */
} known_send;

/* Seconds of the message from a slot to the next. send: cache by level. */
static double send_seconds(ett_evaluation *e, const ett_step_arrays *a, int slot,
                           known_send *send) {
  const ett_step_plan *p = e->plan;
  int next = ett_slot_neighbour(p, a, slot, 1);
  int from = slot % p->pp, to = next % p->pp;
  a->send_lane[slot] = 0;
  if (next < 0 || from == to)
    return 0;
  int level = level_of(e, from, to);
  known_send *s = &send[level];
  ett_parts_ask(e, from, to);
  double bytes = a->sums[slot].boundary * e->program->boundary_bytes;
  if (s->bytes != bytes || e->stage_parts) {
    s->bytes = bytes;
    s->seconds =
        ask_pair(e, ETT_DEMAND_SEND_RECV, bytes, level, e->program->element_bytes);
  }
  a->send_lane[slot] = ett_tiers_lane(&p->tiers, level);
  return s->seconds;
}

/* Seconds of all-to-alls that hide behind shared experts in the repeated forward pass. */
static double hidden_again(const ett_layer_sums *s, ett_recompute recompute) {
  return s->repeated[recompute].hidden;
}

/* Weights of a slot that a pass reads. PyTorch FSDP gathers again only for layers whose
 * outputs need gradients (_fsdp_state.py, _register_pre_backward_hook). */
static double dense_read(const ett_layer_sums *s, int backward) {
  return s->dense_parameters + s->frozen_dense - (backward ? s->idle_dense : 0);
}

static double expert_read(const ett_layer_sums *s, int backward) {
  return s->expert_parameters + s->frozen_expert - (backward ? s->idle_expert : 0);
}

/* Weights of a slot that arrive from the host for a pass: under ZeRO-3 the rank's shard.
 * Frozen weights of fewer bits count in proportion. */
static double arriving_weights(const ett_evaluation *e, const ett_layer_sums *s,
                               int backward) {
  const ett_weights *w = &s->spared;
  double dense =
      dense_read(s, backward) - w->frozen_dense + (backward ? w->idle_dense : 0);
  double expert =
      expert_read(s, backward) - w->frozen_expert + (backward ? w->idle_expert : 0);
  if (e->plan->zero < ETT_ZERO_PARAMETERS)
    return dense + expert;
  return dense / (double)e->dense.degree + expert / (double)e->expert.degree;
}

/* Gradients of a slot that leave for the host in a backward pass: reduced ones under
 * ZeRO-2 and 3. */
static double leaving_gradients(const ett_evaluation *e, const ett_layer_sums *s) {
  if (e->plan->zero < ETT_ZERO_GRADIENTS)
    return s->dense_parameters + s->expert_parameters;
  return s->dense_parameters / (double)e->dense.degree +
         s->expert_parameters / (double)e->expert.degree;
}

static int offloads(const ett_step_plan *p) {
  return p->offload_activations > 0 || p->offload_weights > 0 ||
         p->offload_gradients > 0 || p->offload_optimizer > 0;
}

/* Lengthens the passes of a slot by waits for the host. Activations go to the host in the
 * forward pass and return in the backward pass. Weights arrive for both; gradients go to
 * the host in the backward pass, or during the weight gradients of a split pass. */
static void wait_for_host(const ett_evaluation *e, const ett_step_arrays *a, int v,
                          int split) {
  const ett_step_plan *p = e->plan;
  const ett_layer_sums *s = &a->sums[v];
  int rank = v % p->pp;
  if (!offloads(p) && a->forward[v] >= 0 && a->backward[v] >= 0 && a->weight[v] >= 0)
    return;
  double share = p->offload_weights * p->weight_bytes;
  double leaving = ett_messages_whole_gradients(e) ? 0 : leaving_gradients(e, s);
  double out = p->offload_activations * s->activation_bytes[p->recompute];
  double in = share * arriving_weights(e, s, 0);
  double back = out + share * arriving_weights(e, s, 1);
  double gradients = p->offload_gradients * p->gradient_bytes * leaving;
  const struct {
    double *pass, bytes;
  } waits[] = {{&a->forward[v], out > in ? out : in},
               {&a->backward[v], split || back > gradients ? back : gradients},
               {&a->weight[v], split ? gradients : 0}};
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
    double seconds = ett_messages_beside_host(e, rank, *waits[i].pass, waits[i].bytes);
    a->stage[rank].offload_seconds += a->runs[v] * (seconds - *waits[i].pass);
    *waits[i].pass = seconds;
  }
}

/* Copies the times of the previous slot, except for the destination of its sends. */
static void repeat_slot(const ett_evaluation *e, const ett_step_arrays *a, int v) {
  double *const arrays[] = {a->forward, a->backward,       a->weight,
                            a->joined,  a->forward_hidden, a->backward_hidden};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    arrays[i][v] = arrays[i][v - 1];
  for (int l = 0; l < e->lanes; l++)
    if (e->collective[l] > 0) {
      a->forward_busy[l][v] = a->forward_busy[l][v - 1];
      a->backward_busy[l][v] = a->backward_busy[l][v - 1];
    }
}

/* Seconds of the messages between slots. */
static void time_sends(ett_evaluation *e, const ett_step_arrays *a,
                       const ett_asked *known) {
  known_send send[ETT_TIERS_MOST + 1];
  if (known && known->program == e->program->edition) {
    e->send_count = known->send_count;
    ett_asked_sends(known, a, e->plan->pp);
    return;
  }
  for (int level = 0; level <= ETT_TIERS_MOST; level++)
    send[level] = (known_send){-1, 0};
  for (int v = 0; v < a->slots; v++)
    a->send_forward[v] = a->send_backward[v] = send_seconds(e, a, v, send);
  e->send_count = e->w->demand_count;
}

static int is_split(const ett_step_plan *p) {
  return p->orders && p->orders->has_weight;
}

/* Number of split backward passes of a slot. */
static double splits_of(const ett_evaluation *e, const ett_step_arrays *a, int v) {
  return is_split(e->plan) ? a->runs[v] - e->plan->orders->whole[v] : 0;
}

/* Share of the backward passes of a step that are split, weighted with `split` seconds.
 */
static double split_share(const ett_evaluation *e, const ett_step_arrays *a) {
  double splits = 0, all = 0;
  int mixed = 0;
  if (!is_split(e->plan))
    return 0;
  for (int v = 0; v < a->slots; v++) {
    splits += a->sums[v].split * splits_of(e, a, v);
    all += a->sums[v].split * a->runs[v];
    mixed |= splits_of(e, a, v) != a->runs[v];
  }
  return !mixed ? 1 : all > 0 ? splits / all : 0;
}

/* Times of every slot. */
static void time_slices(ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  int split = is_split(p);
  for (int v = 0; v < a->slots; v++) {
    const ett_layer_sums *s = &a->sums[v];
    if (a->alike[v % p->pp]) {
      repeat_slot(e, a, v);
      continue;
    }
    int shared = p->overlap_all_to_all == ETT_EXCHANGE_SHARED_EXPERTS;
    double backward = s->backward + s->recompute[p->recompute];
    if (shared)
      backward -=
          s->backward_hidden[ETT_EXCHANGE_SHARED_EXPERTS] + hidden_again(s, p->recompute);
    a->forward[v] = s->forward -
                    (shared ? s->forward_hidden[ETT_EXCHANGE_SHARED_EXPERTS] : 0) +
                    ett_slot_gather(e, a, v, 0);
    a->forward_hidden[v] = s->forward_hidden[ETT_EXCHANGE_BATCH];
    a->backward_hidden[v] = s->backward_hidden[ETT_EXCHANGE_BATCH];
    a->weight[v] = split ? s->weight : 0;
    double exposed = split ? s->split + (shared ? s->split_exchange : 0) : 0;
    exposed = exposed > 0 ? exposed : 0; /* below 0 by rounding, where waits offset it */
    a->joined[v] = exposed < a->weight[v] ? exposed : a->weight[v];
    a->backward[v] = backward - a->weight[v] + exposed + ett_slot_gather(e, a, v, 1);
    for (int l = 0; l < e->lanes; l++)
      if (e->collective[l] > 0) {
        a->forward_busy[l][v] = ett_messages_busy(e, a, v, 0, l);
        a->backward_busy[l][v] = ett_messages_busy(e, a, v, 1, l);
      }
    for (int again = 0; again < 2; again++) {
      if (!ett_messages_gathers_every(e, again))
        continue;
      double *pass = again ? a->backward : a->forward;
      int64_t layers = a->layers[v] - (again ? (int64_t)s->idle_layers : 0);
      ett_parts_ask(e, v % p->pp, v % p->pp);
      const ett_weights *w = &s->spared;
      double spared_dense = w->dense + w->frozen_dense - (again ? w->idle_dense : 0);
      double spared_expert = w->expert + w->frozen_expert - (again ? w->idle_expert : 0);
      double dense =
          ett_messages_gather(e, dense_read(s, again) - spared_dense, 0, layers);
      double expert =
          ett_messages_gather(e, 0, expert_read(s, again) - spared_expert, layers);
      pass[v] = ett_messages_with_gathers(e, a, v, again, dense, expert);
    }
    wait_for_host(e, a, v, split);
  }
}

static int has_experts(const ett_program *p) {
  for (size_t k = 0; k < p->kind_count; k++)
    if (p->sums[k].expert_parameters + p->sums[k].frozen_expert > 0)
      return 1;
  return 0;
}

/* Groups with more than one rank that a rank belongs to. Each group has buffers. */
static int communicators_of(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  int etp = p->etp > 1 && p->etp != p->tp && has_experts(e->program);
  int parts = p->cp_ulysses > 1 && p->cp_ulysses < p->cp; /* exchange and ring */
  return (p->tp > 1) + (p->cp > 1) + parts + (p->pp > 1) + (e->dense.degree > 1) +
         (p->ep > 1) + (p->ep > 1 && e->expert.degree > 1) + etp +
         (p->clip_gradients && p->tp > 1 &&
          p->pp > 1) + /* for the gradient norm, over tensor and pipeline ranks */
         ((p->tp > 1) + (p->pp > 1) + (e->dense.degree > 1) > 1); /* the world group */
}

/* Whether the update is in fp32. States of at most 4 bytes are two moments of 8 or 16
 * bits: the optimizer updates 16-bit weights with 16-bit gradients. */
static int updates_in_fp32(const ett_step_plan *p) {
  return p->optimizer_bytes > (double)sizeof(float);
}

/* Whether the states hold fp32 weights: next to weights of fewer bits. */
static int has_master(const ett_step_plan *p) {
  return updates_in_fp32(p) && p->weight_bytes < (int32_t)sizeof(float);
}

/* Whether the only shards of dense weights are the fp32 ones of the states. Experts may
 * have a single rank. */
static int shards_master(const ett_evaluation *e) {
  return e->program->master_shards && e->dense.degree > 1 && has_master(e->plan);
}

/* Bytes of a slot's quantised weights beyond their 16 bits. Under ZeRO-3, gathered: all
 * bytes of the sharded weights; otherwise those of the rank's shard. If only fp32 weights
 * are sharded, trained weights are quantised after each gather, so the shard has only
 * frozen quantised weights. */
static double quantised_of(const ett_evaluation *e, const ett_layer_sums *s,
                           int gathered) {
  double bytes = 0;
  for (int experts = 0; experts < 2; experts++) {
    const struct ett_quantised *q = &s->quantised[experts];
    double degree = (double)(experts ? e->expert.degree : e->dense.degree);
    if (e->plan->zero < ETT_ZERO_PARAMETERS || (degree == 1 && !shards_master(e)))
      bytes += q->whole;
    else if (gathered || !shards_master(e))
      bytes += (gathered ? q->sharded : q->sharded / degree) + q->scales;
    else
      bytes += q->frozen_sharded / degree + q->frozen_scales;
  }
  return bytes;
}

/* Whether reduced gradients have the type of the sharded weights, whatever they have in
 * messages: PyTorch FSDP (foreach_reduce; _cast_grad_to_param_dtype). */
static int casts_gradients(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  return e->program->master_shards && p->zero >= ETT_ZERO_GRADIENTS &&
         e->dense.degree > 1 && updates_in_fp32(p);
}

/* Bytes of a reduced gradient. States of 6 bytes are a weight and two moments of 16 bits.
 */
static double reduced_gradient(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  if (!casts_gradients(e))
    return p->gradient_bytes;
  return has_master(p) && p->optimizer_bytes <= 6 ? 2 : sizeof(float);
}

/* Fills in the memory of the software, and the total. copied: bytes of
 * update_tensors. cached: bytes of weight gradients that stay allocated. */
static void fill_software(const ett_evaluation *e, ett_step_stage *s, double working,
                          double copied, double cached, int communicators) {
  const ett_program *program = e->program;
  s->working_bytes = working;
  double passing = s->activation_bytes + s->temporary_bytes + working;
  if (copied > passing)
    s->update_bytes = copied - passing;
  s->cached_bytes = cached;
  /* Software that keeps both kinds of gradients supports no sharded ones (DeepSpeed,
   * pipe/engine.py: "only bf16 + z1 are supported"). */
  if (e->plan->gradient_bytes > e->plan->weight_bytes && e->plan->zero < 2)
    s->cached_bytes +=
        (s->dense_parameters + s->expert_parameters) * program->kept_gradient_bytes;
  if (program->copies_gradients && e->plan->zero == 0 && e->dense.degree > 1)
    s->cached_bytes += s->gradient_bytes;
  s->workspace_bytes = program->workspace_bytes;
  s->allocated_bytes = s->weight_bytes + s->gradient_bytes + s->optimizer_bytes +
                       passing + s->update_bytes + s->cached_bytes + s->workspace_bytes;
  s->fragment_bytes = program->allocator_share * (passing + s->update_bytes);
  s->communicator_bytes = communicators * program->communicator_bytes;
  s->context_bytes = program->context_bytes;
  s->memory_bytes =
      s->allocated_bytes + s->fragment_bytes + s->communicator_bytes + s->context_bytes;
}

/* Memory of a stage that is independent of the micro-batches in flight. Equal for stages
 * with equal contents. */
typedef struct stage_memory {
  double weight, gradient, optimizer, temporary; /* bytes */
  double reduced;        /* bytes of gradients after their reduction */
  double largest[2];     /* activations of one micro-batch in the two largest layers */
  double working[2];     /* of the operator with the highest peak, with and without weight
                            gradients */
  double again;          /* of the recomputed layer, or of the layer of a pair */
  double layer;          /* the rank's weights of the largest layer */
  double scales;         /* of frozen weights of few bits: tensors beside the parameters,
                            which stay on the device (bitsandbytes' QuantState) */
  double one;            /* all activations of the largest layer between the ends */
  double fp32_gradients; /* of the weights that the rank updates */
  double copied;         /* of update_tensors */
  double cached;         /* weight gradients that stay allocated */
  int communicators;     /* communicators of a rank */
  int separate_gradients; /* new gradients of a layer have memory besides the stored ones
                           */
  int whole_gradients;    /* gradients stay whole until the last backward pass */
  int has_loss;           /* the loss is on this stage */
  int recomputes;         /* `again` is recomputed */
} stage_memory;

static double smaller(double a, double b) {
  return a < b ? a : b;
}

/* Moves bytes to host memory. Two layers of one micro-batch stay on the device: the layer
 * that computes and the layer in transfer. The host keeps fp32 gradients of the weights
 * that it updates. saved: bytes of activations that autograd saves, without those of the
 * recomputed layer. The share of them that moves is not in activation_bytes. */
static void move_to_host(const ett_step_plan *p, ett_step_stage *s, const stage_memory *m,
                         double saved) {
  double layers = s->layers > 0 ? (double)s->layers : 1;
  const struct {
    double *bytes, whole, share, kept;
  } moves[] = {
      {&s->weight_bytes, s->weight_bytes - m->scales, p->offload_weights, 2 * m->layer},
      {&s->gradient_bytes, m->reduced, p->offload_gradients,
       m->whole_gradients ? m->reduced : 2 * m->reduced / layers},
      {&s->optimizer_bytes, s->optimizer_bytes, p->offload_optimizer, 0}};
  double gradients = p->offload_gradients * m->reduced;
  double updated = p->offload_optimizer * m->fp32_gradients;
  s->host_bytes += p->offload_activations * saved;
  s->activation_bytes +=
      p->offload_activations * smaller(m->largest[0] + m->largest[1], saved);
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
    double moved = moves[i].share * moves[i].whole;
    double kept = moves[i].kept < moves[i].whole ? moves[i].kept : moves[i].whole;
    s->host_bytes += moved;
    *moves[i].bytes -= moved - moves[i].share * kept;
  }
  s->host_bytes += updated > gradients ? updated - gradients : 0;
}

/* Weights of the layer that computes and of those gathered ahead of it. This is exact for
 * one layer ahead, and an upper limit for others. */
static double gathered_ahead(const ett_step_plan *p, const ett_layer_sums *s) {
  int64_t layers = p->overlap_parameters ? 1 + p->prefetch : 1;
  return (double)(layers / 2) * s->pair_gathered +
         (double)(layers % 2) * s->layer_gathered;
}

/* Recomputed layers store no casts, but autocast holds them during the forward pass. */
static void hold_casts(const ett_evaluation *e, stage_memory *m) {
  const ett_step_plan *p = e->plan;
  double casts = p->recompute >= ETT_RECOMPUTE_FULL ? e->program->cast_bytes / p->pp : 0;
  for (int w = 0; w < 2; w++)
    if (casts > m->working[w])
      m->working[w] = casts;
}

/* Bytes of tensors that the update makes: fp32 copies of gradients of fewer bits. With
 * foreach also the roots of the second moments, in the type of the states. */
static double update_tensors(const ett_evaluation *e, const stage_memory *m) {
  const ett_step_plan *p = e->plan;
  double copies = p->gradient_bytes < (int32_t)sizeof(float) && updates_in_fp32(p) &&
                  !casts_gradients(e);
  double roots = e->program->foreach_update ? (updates_in_fp32(p) ? 1 : 0.5) : 0;
  return (1 - p->offload_optimizer) * (copies + roots) * m->fp32_gradients;
}

/* Trained weights of a slot whose whole gradients exist at the same time. Those of the
 * head stay beside those of each layer. The backward pass of an embedding in another slot
 * is the last of that slot, so its gradients are not beside those of a layer. */
static double trained_together(const ett_step_plan *p, const ett_step_arrays *a, int v) {
  const ett_layer_sums *s = &a->sums[v];
  int has_head = ett_slot_neighbour(p, a, v, 1) < 0;
  return has_head ? s->layer_trained + s->ends_trained
                  : fmax(s->layer_trained, s->ends_trained);
}

static stage_memory stage_memory_of(const ett_evaluation *e, const ett_step_arrays *a,
                                    int rank) {
  const ett_step_plan *p = e->plan;
  const ett_step_stage *s = &a->stage[rank];
  stage_memory m = {.communicators = communicators_of(e),
                    .whole_gradients = ett_messages_whole_gradients(e)};
  double data = (double)e->dense.degree, expert_data = (double)e->expert.degree;
  double whole = s->dense_parameters + s->expert_parameters;
  double shard = s->dense_parameters / data + s->expert_parameters / expert_data;
  double weights = whole + s->frozen_dense + s->frozen_expert, layer = 0, trained = 0;
  double gathered = 0, copies = 0, quantised = 0, ends = 0;
  int pairs =
      p->overlap_all_to_all == ETT_EXCHANGE_BATCH && !p->orders && p->micro_batches > 1;
  uint64_t shapes = 0;
  int in_states = shards_master(e);
  m.weight =
      (p->zero >= ETT_ZERO_PARAMETERS ? (in_states ? 0 : shard) + s->frozen_dense / data +
                                            s->frozen_expert / expert_data
                                      : weights - (e->program->autocast ? whole : 0)) *
          p->weight_bytes +
      s->quantised_bytes;
  m.reduced = (p->zero >= ETT_ZERO_GRADIENTS ? shard : whole) * reduced_gradient(e);
  m.gradient = m.reduced;
  if (m.whole_gradients && whole * p->gradient_bytes > m.reduced)
    m.gradient = whole * p->gradient_bytes;
  m.separate_gradients = (data > 1 || expert_data > 1) &&
                         (m.whole_gradients ? p->gradient_bytes > p->weight_bytes
                                            : p->zero >= ETT_ZERO_GRADIENTS);
  m.optimizer = (p->zero >= ETT_ZERO_OPTIMIZER ? shard : whole) * p->optimizer_bytes;
  m.optimizer += (p->matrix_bytes - p->optimizer_bytes) * ett_update_matrices(e, s);
  m.fp32_gradients = (p->zero >= ETT_ZERO_OPTIMIZER ? shard : whole) * sizeof(float);
  for (int v = rank; v < a->slots; v += p->pp) {
    const ett_layer_sums *sums = &a->sums[v];
    for (int i = 0; i < 2; i++)
      ett_keep_two(m.largest, sums->largest_bytes[p->recompute][i]);
    shapes |= sums->cached_shapes;
    layer = sums->layer_parameters > layer ? sums->layer_parameters : layer;
    double most = gathered_ahead(p, sums);
    gathered = most > gathered ? most : gathered;
    copies = sums->layer_copies > copies ? sums->layer_copies : copies;
    quantised += quantised_of(e, sums, 1);
    m.scales += sums->quantised[0].frozen_scales + sums->quantised[1].frozen_scales;
    ends += sums->ends_gathered;
    trained = fmax(trained, trained_together(p, a, v));
    double beside = p->recompute >= ETT_RECOMPUTE_FULL || pairs
                        ? sums->layer_bytes[p->recompute]
                    : p->recompute == ETT_RECOMPUTE_SELECTIVE ? sums->remade_bytes
                                                              : 0;
    m.again = fmax(m.again, beside);
    for (int w = 0; w < 2; w++)
      if (sums->working_bytes[p->recompute][w] > m.working[w])
        m.working[w] = sums->working_bytes[p->recompute][w];
    m.one = fmax(m.one, sums->layer_bytes[ETT_RECOMPUTE_NONE]);
    m.has_loss |= sums->loss_bytes > 0;
  }
  m.recomputes = p->recompute >= ETT_RECOMPUTE_FULL ||
                 (p->recompute == ETT_RECOMPUTE_SELECTIVE && !pairs);
  hold_casts(e, &m);
  m.cached = ett_program_cached(e->program, shapes);
  /* Layers are gathered whole; with overlap, the next ones are prefetched. Of the layer
   * whose backward pass runs, the other copy of 8-bit weights is made (Megatron FSDP,
   * fp8_create_transpose_cache). A layer's
   * gradient is whole until it is reduced, or in 16 bits until it is added to the whole
   * stored ones (PyTorch FSDP, to_accumulated_grad_if_needed). */
  if (p->zero >= ETT_ZERO_GRADIENTS && (data > 1 || expert_data > 1))
    m.temporary = m.whole_gradients ? m.separate_gradients * trained * p->weight_bytes
                                    : smaller(trained * p->gradient_bytes,
                                              (whole - shard) * p->gradient_bytes);
  if (p->zero >= ETT_ZERO_PARAMETERS && (data > 1 || expert_data > 1)) {
    double others =
        weights * p->weight_bytes + quantised - m.weight; /* shards of the other ranks */
    m.temporary += p->reshard && !ett_messages_whole(e)
                       ? smaller((gathered + ends) * p->weight_bytes, others)
                       : others;
    m.temporary += copies;
  }
  m.layer = weights > 0 ? (m.weight - m.scales) * layer / weights : 0;
  m.copied = update_tensors(e, &m);
  return m;
}

/* The gradients of the only micro-batch grow while its activations are freed. They have
 * their full size at the end of the backward pass, beside the activations of one layer,
 * and at the update, beside the tensors that it makes. Of their bytes, those count that
 * exceed the peak of the passes, or that of the tensors if it is higher. */
static double beyond_passes(const ett_evaluation *e, const ett_step_stage *s,
                            const stage_memory *m, double working) {
  int replicas = e->dense.degree > 1 || e->expert.degree > 1;
  if (!e->program->frees_gradients || e->plan->micro_batches > 1 || replicas)
    return s->gradient_bytes;
  double passing = s->activation_bytes + s->temporary_bytes + working;
  double made = m->copied > m->one ? m->copied : m->one;
  double beyond = s->gradient_bytes + made - passing;
  return smaller(s->gradient_bytes, beyond > 0 ? beyond : 0);
}

/* Fills what a micro-batch holds on the device in each slot of a rank. Outputs of stages
 * and kept logits are variables of the program, which hooks on saved tensors do not move
 * (PyTorch, save_on_cpu). Returns the peak of the saved activations with offload. */
static double fill_in_flight(const ett_evaluation *e, const ett_step_arrays *a,
                             const ett_pipeline *pipeline, int rank) {
  const ett_step_plan *p = e->plan;
  double stays = 1 - p->offload_activations, saved = 0;
  for (int v = rank; v < a->slots; v += p->pp) {
    a->in_flight[v] = a->sums[v].activation_bytes[p->recompute];
    a->late[v] = a->sums[v].late_bytes;
  }
  if (p->offload_activations > 0)
    saved = ett_pipeline_peak_in_flight(pipeline, rank, a->in_flight, a->late, 0);
  for (int v = rank; v < a->slots; v += p->pp) {
    a->in_flight[v] *= stays;
    a->late[v] *= stays;
    if (ett_slot_neighbour(p, a, v, 1) >= 0)
      a->in_flight[v] += a->sums[v].boundary * e->program->output_bytes;
    a->in_flight[v] += a->sums[v].loss_bytes * e->program->kept_logits;
  }
  return saved;
}

static void fill_memory(const ett_evaluation *e, const ett_step_arrays *a,
                        const ett_pipeline *pipeline, int rank, const stage_memory *m) {
  const ett_step_plan *p = e->plan;
  ett_step_stage *s = &a->stage[rank];
  s->weight_bytes = m->weight;
  s->gradient_bytes = m->gradient;
  s->optimizer_bytes = m->optimizer;
  s->temporary_bytes = m->temporary;
  double saved = fill_in_flight(e, a, pipeline, rank);
  double working = m->working[m->separate_gradients];
  double again = m->again;
  if (m->recomputes) { /* part of the peak of the backward pass */
    again = smaller(again, working);
    working -= again;
  }
  s->activation_bytes =
      ett_pipeline_peak_in_flight(pipeline, rank, a->in_flight, a->late, again);
  s->loss_bytes = 0;
  if (m->has_loss) {
    for (int v = rank; v < a->slots; v += p->pp)
      a->in_flight[v] = a->sums[v].loss_bytes * (1 + e->program->kept_logits);
    s->loss_bytes =
        ett_pipeline_peak_in_flight(pipeline, rank, a->in_flight, a->in_flight, 0);
  }
  if (offloads(p))
    move_to_host(p, s, m, saved);
  s->gradient_bytes = beyond_passes(e, s, m, working);
  fill_software(e, s, working, m->copied, m->cached, m->communicators);
}

/* Seconds of the messages that a stage sends; with serial sends also of those that it
 * receives. */
static void fill_sends(const ett_evaluation *e, const ett_step_arrays *a, int rank) {
  const ett_step_plan *p = e->plan;
  double seconds = 0;
  for (int v = rank; v < a->slots; v += p->pp) {
    int before = ett_slot_neighbour(p, a, v, 0);
    double m = a->runs[v];
    seconds += m * (a->send_forward[v] + (before >= 0 ? a->send_backward[before] : 0));
    if (p->serial_sends)
      seconds += m * (a->send_backward[v] + (before >= 0 ? a->send_forward[before] : 0));
  }
  a->stage[rank].send_seconds = seconds;
}

static void fill_stages(const ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  for (int rank = 0; rank < p->pp; rank++) {
    ett_step_stage *s = &a->stage[rank];
    if (a->alike[rank])
      *s = s[-1];
    for (int v = a->alike[rank] ? a->slots : rank; v < a->slots; v += p->pp) {
      const ett_layer_sums *sums = &a->sums[v];
      double m = a->runs[v], share = m / (double)p->micro_batches;
      s->layers += a->layers[v];
      s->dense_parameters += sums->dense_parameters;
      s->expert_parameters += sums->expert_parameters;
      s->frozen_dense += sums->frozen_dense;
      s->frozen_expert += sums->frozen_expert;
      ett_weights_add(&s->spared, &sums->spared, 1);
      for (int i = 0; i < 2; i++)
        ett_matrices_add(&s->matrices[i], &sums->matrices[i], 1);
      s->quantised_bytes += quantised_of(e, sums, 0);
      double gather = ett_slot_gather(e, a, v, 0), again = ett_slot_gather(e, a, v, 1);
      s->boundary_seconds += m * (gather + again);
      s->forward_seconds += m * (sums->forward + gather);
      double splits = splits_of(e, a, v);
      s->backward_seconds += m * (sums->backward + again) + splits * sums->split;
      s->recompute_seconds += m * sums->recompute[p->recompute];
      if (p->overlap_all_to_all == ETT_EXCHANGE_SHARED_EXPERTS) {
        double forward = m * sums->forward_hidden[ETT_EXCHANGE_SHARED_EXPERTS];
        double backward = m * sums->backward_hidden[ETT_EXCHANGE_SHARED_EXPERTS] -
                          splits * sums->split_exchange;
        double recompute = m * hidden_again(sums, p->recompute);
        s->forward_seconds -= forward;
        s->backward_seconds -= backward;
        s->recompute_seconds -= recompute;
        s->all_to_all_overlapped_seconds += forward + backward + recompute;
      }
      s->micro_batch_forward_seconds += share * a->forward[v];
      s->micro_batch_backward_seconds +=
          share * (a->backward[v] + a->weight[v]) -
          (m - splits) * a->joined[v] / (double)p->micro_batches;
    }
    fill_sends(e, a, rank);
  }
}

/* Splits a group into shards of its first `shard` ranks, and replica groups of each. */
static int split_group(ett_rank_group *group, ett_rank_group *replicas, int64_t shard,
                       ett_err *err) {
  ett_axis inner = group->axis[0], outer = group->axis[1];
  *replicas = (ett_rank_group){1, {{1, 1}, {1, 1}}};
  if (shard == 0 || shard == group->degree)
    return 0;
  int64_t first = shard < inner.degree ? shard : inner.degree;
  int64_t second = shard / first;
  if (inner.degree % first != 0 || shard % first != 0 || outer.degree % second != 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "shard: the %lld ranks that share weights cannot be divided into "
                       "equal groups of %lld",
                       (long long)group->degree, (long long)shard);
  *group = ett_rank_group_both((ett_axis){first, inner.stride},
                               (ett_axis){second, outer.stride});
  *replicas =
      ett_rank_group_both((ett_axis){inner.degree / first, inner.stride * first},
                          (ett_axis){outer.degree / second, outer.stride * second});
  return 0;
}

static int split_groups(const ett_step_plan *plan, ett_placed *p, ett_err *err) {
  int64_t dense = p->dense_group.degree, shard = plan->shard;
  int64_t replicas = shard > 0 ? dense / shard : 1;
  if (shard > 0 && (dense % shard != 0 || p->expert_group.degree % replicas != 0))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "shard = %lld must divide the %lld ranks that share weights, and "
                       "its number of replicas the %lld ranks that share experts",
                       (long long)shard, (long long)dense,
                       (long long)p->expert_group.degree);
  if (split_group(&p->dense_group, &p->dense_replica_group, shard, err) != 0)
    return -1;
  return split_group(&p->expert_group, &p->expert_replica_group,
                     shard > 0 ? p->expert_group.degree / replicas : 0, err);
}

/* The lanes of weights and gradients: for each lane, the largest share that a message of
 * one of the groups occupies. If a message leaves the nodes, lanes inside nodes are left
 * out. */
static void fill_collective(ett_placed *p) {
  const ett_tiers *tiers = &p->ranks.tiers;
  const ett_placement *const places[] = {&p->dense, &p->expert, &p->dense_replicas,
                                         &p->expert_replicas};
  double lanes[ETT_LANES];
  int network = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (places[i]->ranks == 1)
      continue;
    network |= ett_place_nodes(places[i]) > 1;
    ett_place_lanes(tiers, places[i], ETT_LANES_RING, lanes);
    for (int l = 0; l < ETT_LANES; l++)
      if (lanes[l] > p->collective[l])
        p->collective[l] = lanes[l];
  }
  for (int l = 0; network && l <= ett_tiers_lane(tiers, tiers->node); l++)
    p->collective[l] = 0;
}

/* Fills stage [slots / ways][ways] with the distinct sets of stages that hold a slice.
 * Returns their number. `held`: [slots / ways]. */
static int sets_of_stages(const ett_orders *o, int32_t *stage, int32_t *held) {
  int slots = o->stages * o->chunks, slices = slots / o->ways, sets = 0;
  size_t ways = (size_t)o->ways;
  memset(held, 0, (size_t)slices * sizeof *held);
  for (int s = 0; s < o->stages; s++)
    for (int v = s; v < slots; v += o->stages)
      stage[(size_t)o->slice[v] * ways + (size_t)held[o->slice[v]]++] = s;
  for (int i = 0; i < slices; i++) {
    const int32_t *set = &stage[(size_t)i * ways];
    int known = 0;
    for (int j = 0; j < sets && !known; j++)
      known = memcmp(set, &stage[(size_t)j * ways], ways * sizeof *set) == 0;
    if (!known)
      memmove(&stage[(size_t)sets++ * ways], set, ways * sizeof *set);
  }
  return sets;
}

/* Places the groups of ranks that share dense and expert weights. */
static int place_shared(const ett_step_plan *plan, ett_placed *now, ett_err *err) {
  const ett_orders *o = plan->orders;
  if (now->ways == 1)
    return ett_place_group(&now->ranks, now->dense_group, &now->dense, err) != 0 ||
                   ett_place_group(&now->ranks, now->expert_group, &now->expert, err) != 0
               ? -1
               : 0;
  if (o->stages != plan->pp)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the orders are for %d stages, the plan has %d", o->stages,
                       plan->pp);
  size_t slots = (size_t)o->stages * (size_t)o->chunks;
  int32_t *memory = malloc(2 * slots * sizeof *memory);
  if (!memory)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to place %zu stages",
                       slots);
  ett_copies copies = {.pipeline = now->pipeline,
                       .ways = now->ways,
                       .sets = sets_of_stages(o, memory, memory + slots),
                       .stage = memory};
  int status =
      ett_place_copies(&now->ranks, now->dense_group, &copies, &now->dense, err) != 0 ||
      ett_place_copies(&now->ranks, now->expert_group, &copies, &now->expert, err) != 0;
  free(memory);
  return -status;
}

/* The place of a plan's groups among the earlier placements. */
static size_t place_of(const ett_step_plan *p) {
  const uint64_t values[] = {(uint64_t)p->tp << 32 | (uint32_t)p->cp,
                             (uint64_t)p->ep << 32 | (uint32_t)p->dp,
                             (uint64_t)p->pp << 32 | (uint32_t)p->etp, (uint64_t)p->shard,
                             (uint64_t)p->rank_order};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    hash = (hash ^ values[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash % ETT_PLACED_MOST;
}

/* Places the groups that share weights. Reuses an earlier placement if it is the same. */
static int place(const ett_step_plan *plan, ett_step_workspace *w, ett_err *err) {
  ett_placed *placed = &w->placed, **before = &w->before[place_of(plan)];
  if (is_placed(plan, placed))
    return 0;
  if (*before && is_placed(plan, *before)) {
    *placed = **before;
    return 0;
  }
  if (check_degrees(plan, err) != 0)
    return -1;
  static _Atomic uint64_t editions;
  ett_degrees degrees = ett_step_degrees(plan);
  ett_placed now = {.edition = ++editions,
                    .degrees = degrees,
                    .shard = plan->shard,
                    .ranks = ett_step_ranks(plan),
                    .ways = plan->orders ? plan->orders->ways : 1,
                    .slices = ett_orders_places(plan->orders),
                    .pipeline = ett_degrees_pipeline(&degrees),
                    .dense_group = ett_degrees_group(&degrees, ETT_GROUP_DATA),
                    .expert_group = ett_degrees_group(&degrees, ETT_GROUP_EXPERT_DATA)};
  if (split_groups(plan, &now, err) != 0)
    return -1;
  placed->ranks.world = 0; /* the cache is empty if placement fails */
  if (place_shared(plan, &now, err) != 0 ||
      ett_place_group(&now.ranks, now.dense_replica_group, &now.dense_replicas, err) !=
          0 ||
      ett_place_group(&now.ranks, now.expert_replica_group, &now.expert_replicas, err) !=
          0)
    return -1;
  fill_collective(&now);
  *placed = now;
  if (*before || (*before = malloc(sizeof **before)))
    **before = now;
  return 0;
}

/* Begins an evaluation of a plan that is placed. */
static void begin(ett_evaluation *e, const ett_program *program,
                  const ett_step_plan *plan, ett_demands *demands, ett_step_workspace *w,
                  ett_err *err) {
  const ett_placed *placed = &w->placed;
  *e = (ett_evaluation){.program = program,
                        .plan = plan,
                        .demands = demands,
                        .w = w,
                        .err = err,
                        .dense = placed->dense_group,
                        .expert = placed->expert_group,
                        .lanes = ett_tiers_lanes(&plan->tiers),
                        .collective = placed->collective};
  e->dense.degree *= placed->ways;
  e->expert.degree *= placed->ways;
}

/* The pipeline of a plan, on the arrays of its slices. */
static ett_pipeline pipeline_of(const ett_step_plan *plan, const ett_step_arrays *a) {
  const ett_orders *orders = plan->orders;
  int pairs = plan->overlap_all_to_all == ETT_EXCHANGE_BATCH;
  return (ett_pipeline){.schedule = plan->schedule,
                        .stages = plan->pp,
                        .chunks = orders ? orders->chunks : plan->vp,
                        .micro_batches = plan->micro_batches,
                        .group = plan->interleave_group,
                        .forward = a->forward,
                        .backward = a->backward,
                        .weight = is_split(plan) ? a->weight : NULL,
                        .joined = is_split(plan) ? a->joined : NULL,
                        .send_forward = a->send_forward,
                        .send_backward = a->send_backward,
                        .blocking_sends = !plan->overlap_sends,
                        .blocking_receives = plan->serial_sends,
                        .forward_hidden = pairs ? a->forward_hidden : NULL,
                        .backward_hidden = pairs ? a->backward_hidden : NULL,
                        .orders = orders};
}

/* Seconds of the all-reduce of the embedding's gradient by all stages with its table. */
static double ask_tied(ett_evaluation *e, const ett_step_arrays *a) {
  const int32_t *stage = a->tied_stage;
  int32_t parts = 0;
  double bytes = e->program->tied_embedding_bytes;
  for (int i = 0; i < e->tied; i++) {
    ett_parts_ask(e, stage[i], stage[i]);
    parts |= e->asking;
  }
  e->asking = parts;
  if (e->tied == 2)
    return ask_pair(e, ETT_DEMAND_ALL_REDUCE, bytes, level_of(e, stage[0], stage[1]),
                    e->plan->gradient_bytes);
  const ett_placed *placed = &e->w->placed;
  ett_copies copies = {
      .pipeline = placed->pipeline, .ways = e->tied, .sets = 1, .stage = stage};
  ett_placement place;
  ett_demand demand = {.kind = ETT_DEMAND_ALL_REDUCE,
                       .amount = bytes,
                       .place = &place,
                       .element_bytes = e->plan->gradient_bytes};
  ett_rank_group one = ett_rank_group_of((ett_axis){1, 1});
  if (e->failed || ett_place_copies(&placed->ranks, one, &copies, &place, e->err) != 0) {
    e->failed = -1;
    return 0;
  }
  return ett_messages_ask(e, &demand);
}

/* Fills the times of all slots and demands every message. Returns the seconds of the tied
 * embedding's all-reduce. */
static double ask_all(ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *plan = e->plan;
  double tied = 0;
  const ett_asked *known = ett_asked_find(e);
  time_slices(e, a);
  time_sends(e, a, known);
  fill_stages(e, a);
  if (e->passes_only)
    return 0;
  if (known) {
    tied = known->tied;
    if (ett_asked_load(known, e, a) == 0)
      ett_shares_prepare(e, a);
    if (known->program != e->program->edition)
      ett_asked_keep(e, a, tied);
    return tied;
  }
  if (e->tied > 0 && !e->program->tied_frozen)
    tied = ask_tied(e, a);
  for (int rank = 0; rank < plan->pp; rank++)
    ett_update_ask(e, a, rank);
  ett_shares_prepare(e, a);
  ett_asked_keep(e, a, tied);
  return tied;
}

/* Finds the middle stages with the contents and inputs of the previous stage. */
static void find_alike(const ett_evaluation *e, const ett_step_arrays *a) {
  int pp = e->plan->pp;
  for (int rank = 0; rank < pp; rank++)
    a->alike[rank] = rank >= 2 && rank < pp - 1 && !e->plan->orders && !e->stage_parts &&
                     !e->plan->slowdown;
  for (int v = 0; v < a->slots; v++)
    if (a->alike[v % pp])
      a->alike[v % pp] = a->split[v] == a->split[v - 1] &&
                         a->sums[v - 1].boundary == a->sums[v - 2].boundary &&
                         memcmp(&a->sums[v], &a->sums[v - 1], sizeof *a->sums) == 0;
}

/* Distributes the layers over the slices. Reuses the previous even split. */
static int slice(const ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *plan = e->plan;
  ett_step_workspace *w = e->w;
  int slices = plan->pp * plan->vp;
  int even = !plan->split && !plan->orders && !plan->slowdown;
  if (even && w->sliced == e->program->edition && w->sliced_pp == plan->pp &&
      w->sliced_vp == plan->vp && w->sliced_lanes == e->lanes)
    return 0;
  w->sliced = 0;
  if (plan->split)
    memcpy(a->slice_split, plan->split, (size_t)slices * sizeof *a->split);
  else
    ett_split_even(ett_program_middle_layers(e->program), slices, a->slice_split);
  if (ett_program_slices(e->program, slices, a->slice_split, ett_step_prediction(plan),
                         a->slice_sums, a->slice_layers, e->err) != 0)
    return -1;
  find_alike(e, a);
  if (even && !e->stage_parts) {
    w->sliced = e->program->edition;
    w->sliced_pp = plan->pp;
    w->sliced_vp = plan->vp;
    w->sliced_lanes = e->lanes;
  }
  return 0;
}

/* Lays out a plan's slices, times them and demands every message. tied: seconds of the
 * tied embedding's all-reduce. */
static int prepare(ett_evaluation *e, ett_step_arrays *a, double *tied) {
  const ett_step_plan *plan = e->plan;
  ett_pipeline pipeline = pipeline_of(plan, a); /* its times are not filled yet */
  if (ett_pipeline_check(&pipeline, e->err) != 0 || layout(e, e->w, a) != 0 ||
      ett_parts_place(e) != 0)
    return -1;
  e->w->demand_count = 0;
  if (slice(e, a) != 0)
    return -1;
  for (int rank = 0; rank < plan->pp; rank++)
    if (!a->alike[rank]) /* others become copies of the stage before them */
      a->stage[rank] = (ett_step_stage){0};
  if (ett_parts_choose(e, a) != 0)
    return -1;
  if (fill_slots(e, a) != 0)
    return -1;
  find_tied(e, a);
  *tied = ask_all(e, a);
  return e->failed ? -1 : 0;
}

/* Whether a stage like the one before certainly needs no more memory. Later stages hold
 * no more micro-batches in flight, and the rest of its memory is the same. The tensors of
 * the update and gradients that are freed count by what exceeds the passes, so plans in
 * which they may count are left out. */
static int needs_no_more(const ett_evaluation *e, const ett_step_arrays *a,
                         const ett_pipeline *pipeline, int rank, const stage_memory *m) {
  const ett_step_plan *p = e->plan;
  int in_turn = p->schedule == ETT_SCHEDULE_GPIPE || p->schedule == ETT_SCHEDULE_1F1B;
  if (!in_turn || m->has_loss || e->program->frees_gradients || offloads(p))
    return 0;
  a->in_flight[rank] = a->in_flight[rank - 1];
  double working = m->working[m->separate_gradients];
  double again = m->recomputes ? smaller(m->again, working) : m->again;
  double held = ett_pipeline_peak_in_flight(pipeline, rank, a->in_flight, a->late, again);
  working -= m->recomputes ? again : 0;
  return held + m->temporary + working >= m->copied;
}

/* Memory of the fullest stage in bytes: on parts, the one with the largest share of its
 * limit. totals_only: the memory of some other stages is not filled in. */
static double fill_memories(const ett_evaluation *e, const ett_step_arrays *a,
                            const ett_pipeline *pipeline, int totals_only,
                            double *limit) {
  double most = 0, bytes = 0;
  *limit = 0;
  stage_memory m = {0};
  for (int rank = 0; rank < e->plan->pp; rank++) {
    if (!a->alike[rank])
      m = stage_memory_of(e, a, rank);
    else if (totals_only && needs_no_more(e, a, pipeline, rank, &m))
      continue;
    fill_memory(e, a, pipeline, rank, &m);
    const ett_step_stage *s = &a->stage[rank];
    double share = s->memory_limit_bytes > 0 ? s->memory_bytes / s->memory_limit_bytes
                                             : s->memory_bytes;
    if (share > most) {
      most = share;
      bytes = s->memory_bytes;
      *limit = s->memory_limit_bytes;
    }
  }
  return bytes;
}

/* Work of the busiest rank, less all hideable time. */
static double busiest(const ett_evaluation *e, const ett_step_arrays *a) {
  double most = 0;
  for (int rank = 0; rank < e->plan->pp; rank++) {
    const ett_step_stage *s = &a->stage[rank];
    double work = (s->micro_batch_forward_seconds + s->micro_batch_backward_seconds) *
                  (double)e->plan->micro_batches;
    for (int v = rank; v < a->slots; v += e->plan->pp)
      if (e->plan->overlap_all_to_all == ETT_EXCHANGE_BATCH)
        work -= a->runs[v] * (a->forward_hidden[v] + a->backward_hidden[v]);
    most = work > most ? work : most;
  }
  return most;
}

int ett_step_outline(const ett_program *program, const ett_step_plan *plan,
                     ett_demands *demands, ett_step_workspace *w, int passes_only,
                     ett_step_outline_result *result, ett_err *err) {
  if (check_plan(plan, err) != 0 || place(plan, w, err) != 0)
    return -1;
  ett_evaluation e;
  begin(&e, program, plan, demands, w, err);
  e.passes_only = passes_only;
  ett_step_arrays a = {0};
  double tied = 0;
  if (prepare(&e, &a, &tied) != 0)
    return -1;
  ett_pipeline pipeline = pipeline_of(plan, &a);
  double limit;
  result->memory_bytes = fill_memories(&e, &a, &pipeline, 1, &limit);
  if (plan->orders || plan->post_validation) /* any rank and any unit may be the last */
    result->pipeline_seconds = result->step_seconds = busiest(&e, &a);
  else {
    result->pipeline_seconds = ett_pipeline_closed(&pipeline).lower;
    result->step_seconds =
        passes_only ? result->pipeline_seconds
                    : ett_update_least(&e, &a, result->pipeline_seconds) + tied;
  }
  result->step_seconds = ett_step_with_host(plan, result->step_seconds);
  result->untimed = e.untimed;
  return 0;
}

int ett_step_evaluate(const ett_program *program, const ett_step_plan *plan,
                      ett_demands *demands, ett_step_workspace *w, ett_step_keep keep,
                      ett_step_result *result, ett_err *err) {
  const int keep_units = keep == ETT_KEEP_UNITS;
  if (check_plan(plan, err) != 0 || place(plan, w, err) != 0)
    return -1;
  ett_evaluation e;
  begin(&e, program, plan, demands, w, err);
  ett_step_arrays a = {0};
  double tied = 0;
  if (prepare(&e, &a, &tied) != 0)
    return -1;
  if (e.untimed)
    return 1;

  ett_pipeline pipeline = pipeline_of(plan, &a);
  ett_plan_ends ends = !plan->post_validation ? ETT_PLAN_ENDS_TOGETHER
                       : tied > 0             ? ETT_PLAN_ENDS_MEET
                                              : ETT_PLAN_ENDS_APART;
  if (ett_pipeline_plan(&pipeline, w->pipeline, ends, err) != 0)
    return -1;
  memset(result, 0, sizeof *result);
  if (ett_shares_run(&e, &a, &pipeline, keep_units, &result->pipeline) != 0)
    return -1;
  if (plan->post_validation)
    memcpy(a.stage_before, a.stage, (size_t)plan->pp * sizeof *a.stage);
  ett_finish_step(&e, &a, tied, &result->pipeline, result);
  if (plan->post_validation &&
      ett_finish_steady(&e, &a, tied, &pipeline, keep_units, result) != 0)
    return -1;
  result->device_seconds = result->step_seconds;
  result->step_seconds = ett_step_with_host(plan, result->device_seconds);
  result->memory_bytes = fill_memories(&e, &a, &pipeline, keep == ETT_KEEP_TOTALS,
                                       &result->memory_limit_bytes);
  result->fits = 1;
  for (int rank = 0; rank < plan->pp; rank++)
    if (e.stage_parts && a.stage[rank].memory_bytes > a.stage[rank].memory_limit_bytes)
      result->fits = 0;
  result->part_runs = ett_parts_runs(&e, &a);
  for (int v = 0; v < a.slots; v++)
    result->flops += a.sums[v].flops * a.runs[v];
  result->split_share = split_share(&e, &a);
  result->run = pipeline;
  result->links = e.result;
  result->stages = plan->pp;
  result->stage = a.stage;
  result->demands = w->demands;
  result->demand_count = w->demand_count;
  return e.failed ? -1 : 0;
}
