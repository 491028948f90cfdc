#include "step/messages.h"

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
  if (make_room(e, count) != 0)
    return -1;
  if (count > 0)
    memcpy(e->w->demands, demands, count * sizeof *demands);
  e->w->demand_count = count;
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

/* Seconds of one message over the ranks that share a shard. For gradients, adds the
 * message of the shard over its replicas. */
static double ask_group(ett_evaluation *e, ett_demand_kind kind, int experts,
                        double bytes, int32_t element_bytes) {
  const ett_placed *placed = &e->w->placed;
  ett_rank_group g = experts ? e->expert : e->dense;
  ett_rank_group r = experts ? placed->expert_replica_group : placed->dense_replica_group;
  ett_demand message = {.kind = kind,
                        .amount = g.degree > 1 ? bytes : 0,
                        .place = experts ? placed->expert : placed->dense,
                        .element_bytes = element_bytes};
  double seconds = ett_messages_ask(e, &message);
  if (kind == ETT_DEMAND_ALL_GATHER || r.degree <= 1)
    return seconds;
  message.kind = ETT_DEMAND_ALL_REDUCE;
  message.amount = kind == ETT_DEMAND_REDUCE_SCATTER ? bytes / (double)g.degree : bytes;
  message.place = experts ? placed->expert_replicas : placed->dense_replicas;
  return seconds + ett_messages_ask(e, &message);
}

int ett_messages_whole(const ett_evaluation *e) {
  return e->program->whole_stages && e->plan->pp > 1 &&
         e->plan->zero >= ETT_ZERO_GRADIENTS;
}

int ett_messages_overlaps_gradients(const ett_evaluation *e) {
  return e->plan->overlap_gradients && !ett_messages_whole(e);
}

int ett_messages_reduces_every(const ett_evaluation *e) {
  return e->plan->zero >= ETT_ZERO_GRADIENTS && !ett_messages_whole(e);
}

double ett_messages_gathered(const ett_evaluation *e, double trained, double frozen) {
  return e->plan->zero == ETT_ZERO_PARAMETERS ? trained + frozen : trained;
}

int ett_messages_gathers_every(const ett_evaluation *e, int backward) {
  int whole = ett_messages_whole(e);
  if (e->plan->zero < ETT_ZERO_PARAMETERS)
    return 0;
  /* Whole weights stay from a backward pass to the end of the next forward pass: of the
   * two, only one gathers. */
  return backward ? e->plan->reshard && !whole : e->plan->reshard || !whole;
}

double ett_messages_beside_host(const ett_evaluation *e, int rank, double pass,
                                double bytes) {
  double host = bytes > 0 ? bytes / ett_parts_host_bandwidth(e, rank) : 0;
  return host > pass ? host : pass;
}

ett_buckets ett_messages_buckets(ett_evaluation *e, ett_demand_kind kind, int experts,
                                 double bytes, int64_t layers, int32_t element_bytes) {
  ett_rank_group g = experts ? e->expert : e->dense;
  ett_buckets b = {0, 0, 0, 0, 0};
  ett_rank_group r =
      experts ? e->w->placed.expert_replica_group : e->w->placed.dense_replica_group;
  int replicas = kind != ETT_DEMAND_ALL_GATHER && r.degree > 1;
  if ((g.degree <= 1 && !replicas) || bytes <= 0)
    return b;
  if (e->plan->zero == ETT_ZERO_PARAMETERS && layers > 0) {
    b.size = b.rest = bytes / (double)layers;
    b.full = (double)(layers - 1);
  } else {
    b.size = e->plan->bucket_bytes;
    b.full = bytes > b.size ? ceil(bytes / b.size) - 1 : 0;
    b.rest = b.full > 0 ? bytes - b.full * b.size : bytes;
  }
  if (b.full > 0)
    b.full_time = ask_group(e, kind, experts, b.size, element_bytes);
  b.rest_time = ask_group(e, kind, experts, b.rest, element_bytes);
  return b;
}

double ett_buckets_seconds(ett_buckets b) {
  return b.full * b.full_time + b.rest_time;
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

double ett_messages_with_gathers(const ett_evaluation *e, double pass,
                                 double *const busy[ETT_LANES], int slot, double gather,
                                 int64_t layers) {
  int overlaps = e->plan->overlap_parameters && e->plan->prefetch >= 1;
  double first = layers > 0 ? gather / (double)layers : gather, longest = 0;
  for (int l = 0; l < e->lanes; l++) {
    double share = e->collective[l];
    if (share <= 0)
      continue;
    busy[l][slot] += share * gather;
    double on_lane = busy[l][slot] - share * first;
    longest = on_lane > longest ? on_lane : longest;
  }
  if (!overlaps)
    return pass + gather;
  pass += e->program->communication_share * (gather - first);
  return (pass > longest ? pass : longest) + first;
}
