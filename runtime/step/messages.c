#include "step/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int make_room(ett_evaluation *e, size_t count) {
  ett_step_workspace *w = e->w;
  size_t wanted = count * sizeof *w->demands;
  if (wanted <= w->demand_bytes ||
      ett_room(&w->demands, &w->demand_bytes, 2 * wanted) == 0)
    return 0;
  return e->failed = ett_err_set(e->err, ETT_ERR_MEMORY, "not enough memory for a plan");
}

static void note(ett_evaluation *e, size_t index) {
  ett_step_workspace *w = e->w;
  for (size_t i = 0; i < w->demand_count; i++)
    if (w->demands[i] == index)
      return;
  if (make_room(e, w->demand_count + 1) == 0)
    w->demands[w->demand_count++] = index;
}

int ett_messages_noted(ett_evaluation *e, const size_t *demands, size_t count) {
  size_t before = e->w->demand_count;
  if (make_room(e, before + count) != 0)
    return -1;
  if (count > 0)
    memcpy(&e->w->demands[before], demands, count * sizeof *demands);
  e->w->demand_count = before + count;
  return 0;
}

double ett_messages_ask(ett_evaluation *e, ett_demand *demand) {
  if (e->failed || demand->amount <= 0)
    return 0;
  demand->parts = e->asking;
  ptrdiff_t index = ett_demands_find(e->demands, demand, e->err);
  if (index < 0) {
    e->failed = -1;
    return 0;
  }
  note(e, (size_t)index);
  const ett_demand_time *time = ett_demands_time(e->demands, (size_t)index);
  if (!time)
    e->untimed = 1;
  return time ? time->seconds : 0;
}

/* Whether a message of shards is one of gradients, which replicas sum. */
static int reduces(ett_demand_kind kind) {
  return kind == ETT_DEMAND_ALL_REDUCE || kind == ETT_DEMAND_REDUCE_SCATTER;
}

/* Seconds of one message over the ranks that share a shard. For gradients, adds the
 * message of the shard over its replicas, whose seconds are *between. */
static double ask_group(ett_evaluation *e, ett_demand_kind kind, int experts,
                        double bytes, int32_t element_bytes, double *between) {
  const ett_placed *placed = &e->w->placed;
  ett_rank_group g = experts ? e->expert : e->dense;
  ett_rank_group r = experts ? placed->expert_replica_group : placed->dense_replica_group;
  ett_demand message = {.kind = kind,
                        .amount = g.degree > 1 ? bytes : 0,
                        .place = experts ? &placed->expert : &placed->dense,
                        .element_bytes = element_bytes};
  double seconds = ett_messages_ask(e, &message);
  *between = 0;
  if (!reduces(kind) || r.degree <= 1)
    return seconds;
  message.kind = ETT_DEMAND_ALL_REDUCE;
  message.amount = kind == ETT_DEMAND_REDUCE_SCATTER ? bytes / (double)g.degree : bytes;
  message.place = experts ? &placed->expert_replicas : &placed->dense_replicas;
  *between = ett_messages_ask(e, &message);
  return seconds + *between;
}

int ett_messages_whole(const ett_evaluation *e) {
  return e->program->whole_stages && e->plan->pp > 1 &&
         e->plan->zero >= ETT_ZERO_GRADIENTS;
}

int ett_messages_whole_gradients(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  return ett_messages_whole(e) || (e->program->defers_gradients && p->micro_batches > 1 &&
                                   p->zero >= ETT_ZERO_GRADIENTS);
}

int ett_messages_overlaps_replicas(const ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  return e->program->blocking_reductions && p->overlap_gradients &&
         p->zero >= ETT_ZERO_OPTIMIZER && !p->gradient_all_reduce &&
         !ett_messages_whole(e);
}

int ett_messages_overlaps_gradients(const ett_evaluation *e) {
  return e->plan->overlap_gradients && !ett_messages_whole(e) &&
         !ett_messages_overlaps_replicas(e);
}

int ett_messages_reduces_every(const ett_evaluation *e) {
  return e->plan->zero >= ETT_ZERO_GRADIENTS && !ett_messages_whole_gradients(e);
}

double ett_messages_gathered(const ett_evaluation *e, double trained, double frozen) {
  return e->plan->zero == ETT_ZERO_PARAMETERS ? trained + frozen : trained;
}

double ett_slot_gathered(const ett_evaluation *e, const ett_layer_sums *s) {
  const ett_weights *w = &s->spared;
  return ett_messages_gathered(
      e, s->dense_parameters + s->expert_parameters - w->dense - w->expert,
      s->frozen_dense + s->frozen_expert - w->frozen_dense - w->frozen_expert);
}

double ett_stage_gathered(const ett_evaluation *e, const ett_step_stage *s) {
  const ett_weights *w = &s->spared;
  return ett_messages_gathered(
      e, s->dense_parameters + s->expert_parameters - w->dense - w->expert,
      s->frozen_dense + s->frozen_expert - w->frozen_dense - w->frozen_expert);
}

int ett_messages_gathers_every(const ett_evaluation *e, int backward) {
  int whole = ett_messages_whole(e);
  if (e->plan->zero < ETT_ZERO_PARAMETERS)
    return 0;
  /* Whole weights stay from a backward pass to the end of the next forward pass, so only
   * one of the two passes gathers them. */
  return backward ? e->plan->reshard && !whole : e->plan->reshard || !whole;
}

double ett_messages_busy(const ett_evaluation *e, const ett_step_arrays *a, int slot,
                         int backward, int lane) {
  const ett_program *program = e->program;
  const ett_layer_sums *s = &a->sums[slot];
  double seconds = backward ? s->backward_lane[lane] : s->forward_lane[lane];
  if (program->gather > 0)
    seconds += program->operations[program->gather - 1].lanes[lane] *
               ett_slot_gather(e, a, slot, backward);
  if (backward)
    seconds += s->repeated[e->plan->recompute].lane[lane];
  return seconds;
}

double ett_messages_beside_host(const ett_evaluation *e, int rank, double pass,
                                double bytes) {
  double host = bytes > 0 ? bytes / ett_parts_host_bandwidth(e, rank) : 0;
  return host > pass ? host : pass;
}

ett_buckets ett_messages_buckets(ett_evaluation *e, ett_demand_kind kind, int experts,
                                 double bytes, int64_t layers, int32_t element_bytes) {
  ett_rank_group g = experts ? e->expert : e->dense;
  ett_buckets b = {0};
  ett_rank_group r =
      experts ? e->w->placed.expert_replica_group : e->w->placed.dense_replica_group;
  int replicas = reduces(kind) && r.degree > 1;
  if ((g.degree <= 1 && !replicas) || bytes <= 0)
    return b;
  if (e->plan->zero == ETT_ZERO_PARAMETERS && layers > 0) {
    b.size = b.rest = bytes / (double)layers;
    b.full = (double)(layers - 1);
  } else if (kind == ETT_DEMAND_ALL_GATHER && e->program->owned_tensors > 0) {
    double tensors = e->program->owned_tensors * (double)layers;
    double owners = tensors < 1 ? 1 : floor(tensors);
    owners = owners < (double)g.degree ? owners : (double)g.degree;
    double n = (double)g.degree; /* a gather moves (n - 1) / n of its bytes */
    b.size = b.rest = bytes / owners * n / (n - 1);
    b.full = owners - 1;
  } else {
    b.size = e->plan->bucket_bytes;
    b.full = bytes > b.size ? ceil(bytes / b.size) - 1 : 0;
    b.rest = b.full > 0 ? bytes - b.full * b.size : bytes;
  }
  if (b.full > 0)
    b.full_time = ask_group(e, kind, experts, b.size, element_bytes, &b.full_between);
  b.rest_time = ask_group(e, kind, experts, b.rest, element_bytes, &b.rest_between);
  return b;
}

double ett_buckets_seconds(ett_buckets b) {
  return b.full * b.full_time + b.rest_time;
}

ett_buckets ett_buckets_between(ett_buckets b) {
  b.full_time = b.full_between;
  b.rest_time = b.rest_between;
  return b;
}

double ett_buckets_overlapped_end(ett_buckets b, double start, double end, double free) {
  if (b.rest <= 0)
    return free;
  double span = end - start, bytes = b.full * b.size + b.rest;
  double last = free + ett_buckets_seconds(b), then;
  if (b.full > 0) {
    then = start + span * b.size / bytes + b.full * b.full_time + b.rest_time;
    last = then > last ? then : last;
    then = start + span * b.size * b.full / bytes + b.full_time + b.rest_time;
    last = then > last ? then : last;
  }
  then = end + b.rest_time;
  return then > last ? then : last;
}

double ett_messages_gather(ett_evaluation *e, double parameters, double expert_parameters,
                           int64_t layers) {
  int32_t bytes = e->plan->weight_bytes;
  return ett_buckets_seconds(ett_messages_buckets(e, ETT_DEMAND_ALL_GATHER, 0,
                                                  parameters * bytes, layers, bytes)) +
         ett_buckets_seconds(ett_messages_buckets(
             e, ETT_DEMAND_ALL_GATHER, 1, expert_parameters * bytes, layers, bytes));
}

double ett_messages_room(const ett_evaluation *e, double pass, const double *busy) {
  double room = pass;
  for (int l = 0; l < e->lanes; l++)
    if (e->collective[l] > 0 && pass - busy[l] < room * e->collective[l])
      room = (pass - busy[l]) / e->collective[l];
  return room;
}

/* Seconds and weights of one layer in a pass. */
typedef struct layer_pass {
  double seconds, dense, expert, gather, lane[ETT_LANES];
} layer_pass;

static layer_pass layer_of(const ett_evaluation *e, const ett_layer_sums *s,
                           int backward) {
  const ett_step_plan *p = e->plan;
  layer_pass l = {.seconds = s->forward,
                  .dense = s->dense_parameters + s->frozen_dense - s->spared.dense -
                           s->spared.frozen_dense,
                  .expert = s->expert_parameters + s->frozen_expert - s->spared.expert -
                            s->spared.frozen_expert};
  if (backward)
    l.seconds = s->backward + s->recompute[p->recompute] -
                (p->orders && p->orders->has_weight ? s->weight : 0);
  memcpy(l.lane, backward ? s->backward_lane : s->forward_lane, sizeof l.lane);
  return l;
}

static double part(double whole, double value, double sum) {
  return sum > 0 ? whole * value / sum : 0;
}

/* Seconds of a layer beside the gather of the next one. */
static double beside(const ett_evaluation *e, const layer_pass *layer, double gather) {
  double longest = layer->seconds + e->program->communication_share * gather;
  for (int l = 0; l < e->lanes; l++) {
    double on_lane =
        e->collective[l] > 0 ? layer->lane[l] + e->collective[l] * gather : 0;
    longest = on_lane > longest ? on_lane : longest;
  }
  return longest;
}

/* The layers of a slot in a pass. whole: seconds and lanes of the pass without gathers,
 * and seconds of the gathers. Each layer has the same share of them as of `sum`, the sum
 * over all layers. */
typedef struct slot_pass {
  const ett_program *program;
  int slice, backward;
  int64_t from, to; /* its middle layers */
  layer_pass sum, whole;
} slot_pass;

/* Layers of kind k in a pass, one without a backward pass included. at: middle layers
 * before this kind; advanced. */
static int64_t layers_on(const ett_evaluation *e, const slot_pass *pass, size_t k,
                         int64_t *at) {
  const ett_layer_kind *kind = &pass->program->kinds[k];
  int slices = e->plan->pp * e->plan->vp;
  if (kind->place != ETT_PLACE_MIDDLE)
    return ett_program_slice_of(kind, slices, ett_step_prediction(e->plan)) == pass->slice
               ? kind->count
               : 0;
  int64_t begin = *at > pass->from ? *at : pass->from;
  *at += kind->count;
  int64_t end = *at < pass->to ? *at : pass->to;
  return end > begin ? end - begin : 0;
}

/* Number of layers of kind k in a pass, and one of them. at: as in layers_on. */
static int64_t layers_of(const ett_evaluation *e, const slot_pass *pass, size_t k,
                         int64_t *at, layer_pass *one) {
  int64_t layers = layers_on(e, pass, k, at);
  if (layers == 0 || (pass->backward && pass->program->kinds[k].forward_only))
    return 0;
  *one = layer_of(e, &pass->program->sums[k], pass->backward);
  return layers;
}

/* Gives a layer its part of the whole pass. */
static void share_pass(const ett_evaluation *e, const slot_pass *pass, layer_pass *one) {
  const layer_pass *whole = &pass->whole, *sum = &pass->sum;
  one->gather = part(whole->dense, one->dense, sum->dense) +
                part(whole->expert, one->expert, sum->expert);
  one->seconds = part(whole->seconds, one->seconds, sum->seconds);
  for (int l = 0; l < e->lanes; l++)
    one->lane[l] = part(whole->lane[l], one->lane[l], sum->lane[l]);
}

static void sum_layers(const ett_evaluation *e, slot_pass *pass) {
  layer_pass one, *sum = &pass->sum;
  int64_t at = 0;
  for (size_t k = 0; k < pass->program->kind_count; k++) {
    double n = (double)layers_of(e, pass, k, &at, &one);
    if (n == 0)
      continue;
    sum->seconds += n * one.seconds;
    sum->dense += n * one.dense;
    sum->expert += n * one.expert;
    for (int l = 0; l < e->lanes; l++)
      sum->lane[l] += n * one.lane[l];
  }
}

/* Seconds of a pass whose gathers are one layer ahead. */
static double one_ahead(const ett_evaluation *e, const slot_pass *pass) {
  double seconds = 0;
  layer_pass one, before = {0};
  int64_t at = 0;
  int some = 0;
  for (size_t k = 0; k < pass->program->kind_count; k++) {
    int64_t layers = layers_of(e, pass, k, &at, &one);
    if (layers == 0)
      continue;
    share_pass(e, pass, &one);
    if (some)
      seconds += pass->backward ? beside(e, &one, before.gather)
                                : beside(e, &before, one.gather);
    else
      seconds += pass->backward ? one.seconds : one.gather;
    seconds += ((double)layers - 1) * beside(e, &one, one.gather);
    before = one;
    some = 1;
  }
  return seconds + (pass->backward ? before.gather : before.seconds);
}

/* A layer in the order of a pass. */
typedef struct cursor {
  size_t kinds; /* number of kinds that precede the layer's kind in the pass */
  int64_t left; /* number of layers of its kind that remain, itself included; 0: after the
                   last layer */
  layer_pass one;
} cursor;

/* Moves a cursor to the next layer; {0} to the first. */
static void next_layer(const ett_evaluation *e, const slot_pass *pass, cursor *c) {
  size_t count = pass->program->kind_count;
  if (c->left > 0 && --c->left > 0)
    return;
  while (c->left == 0 && c->kinds < count) {
    size_t kind = pass->backward ? count - 1 - c->kinds : c->kinds;
    int64_t at = 0;
    for (size_t k = 0; k < kind; k++)
      if (pass->program->kinds[k].place == ETT_PLACE_MIDDLE)
        at += pass->program->kinds[k].count;
    c->kinds++;
    c->left = layers_of(e, pass, kind, &at, &c->one);
    if (c->left > 0)
      share_pass(e, pass, &c->one);
  }
}

/* Rate of a gather during a layer. The layer runs at 1 - communication_share of its speed
 * then, and its own communication leaves the gather the rest of the lanes. */
static double gather_rate(const ett_evaluation *e, const layer_pass *layer) {
  double rate = 1, share = e->program->communication_share;
  for (int l = 0; l < e->lanes && layer->seconds > 0; l++) {
    double own = layer->lane[l] / layer->seconds, more = e->collective[l] - share * own;
    if (e->collective[l] > 0 && more > 0 && 1 - own < rate * more)
      rate = own < 1 ? (1 - own) / more : 0;
  }
  return rate;
}

/* Seconds of a pass whose gathers are `depth` layers ahead: the gather of a layer starts
 * after the gather before it, when the layer `depth` before it has started. */
static double ahead(const ett_evaluation *e, const slot_pass *pass, int64_t depth) {
  cursor layer = {0}, next = {0};
  next_layer(e, pass, &layer);
  next_layer(e, pass, &next);
  int64_t started = 0, gathered = 0; /* layers; the running one is the last started */
  double at = 0, work = 0, gather = next.one.gather;
  int running = 0;
  while (layer.left > 0) {
    if (!running && gathered > started) {
      running = 1;
      started++;
      work = layer.one.seconds;
    }
    int gathers = next.left > 0 && gathered < started + depth;
    double rate = !gathers ? 0 : running ? gather_rate(e, &layer.one) : 1;
    double speed = running ? 1 - e->program->communication_share * rate : 0;
    double until_gathered = rate > 0 ? gather / rate : INFINITY;
    double until_done = running ? work / speed : INFINITY;
    double step = until_gathered < until_done ? until_gathered : until_done;
    at += step;
    work -= step * speed;
    gather -= step * rate;
    if (until_done <= step) {
      running = 0;
      next_layer(e, pass, &layer);
    }
    if (until_gathered <= step) {
      gathered++;
      next_layer(e, pass, &next);
      gather = next.one.gather;
    }
  }
  return at;
}

double ett_messages_with_gathers(const ett_evaluation *e, const ett_step_arrays *a,
                                 int slot, int backward, double dense, double expert) {
  const ett_step_plan *p = e->plan;
  double *const *busy = backward ? a->backward_busy : a->forward_busy;
  double seconds = (backward ? a->backward : a->forward)[slot];
  int slice = p->orders ? p->orders->slice[slot] : slot;
  slot_pass pass = {.program = ett_parts_program(e, a, slot % p->pp),
                    .slice = slice,
                    .backward = backward,
                    .whole = {.seconds = seconds, .dense = dense, .expert = expert}};
  for (int l = 0; l < e->lanes; l++)
    if (e->collective[l] > 0) {
      pass.whole.lane[l] = busy[l][slot];
      busy[l][slot] += e->collective[l] * (dense + expert);
    }
  if (!p->overlap_parameters || p->prefetch < 1 || dense + expert <= 0)
    return seconds + dense + expert;
  for (int i = 0; i < slice; i++)
    pass.from += a->slice_split[i];
  pass.to = pass.from + a->slice_split[slice];
  sum_layers(e, &pass);
  double with = p->prefetch > 1 ? ahead(e, &pass, p->prefetch) : one_ahead(e, &pass);
  return pass.sum.seconds > 0 ? with : with + seconds;
}
