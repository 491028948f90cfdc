#include "step/messages.h"

#include <math.h>
#include <stdlib.h>

/* Adds a group whose first rank is at place `at` of a node of `gpus`; stride < gpus. */
static void add_group(ett_group_span *span, ett_rank_group g, int64_t at, int64_t gpus) {
  int64_t end = at + (g.degree - 1) * g.stride + 1;
  int64_t nodes = (end + gpus - 1) / gpus;
  if (nodes > span->nodes)
    span->nodes = (int32_t)nodes;
  if (nodes == 1)
    return;
  int64_t before = 0; /* members on the nodes so far */
  for (int64_t node = 1; node <= nodes; node++) {
    int64_t room = node * gpus - at;
    int64_t reached = node == nodes ? g.degree : (room + g.stride - 1) / g.stride;
    if (reached - before < span->gpus_per_node)
      span->gpus_per_node = (int32_t)(reached - before);
    before = reached;
    if (node == g.stride + 1 && node < nodes - 1) { /* the places on a node repeat */
      node = nodes - 1;
      before = ((node * gpus - at) + g.stride - 1) / g.stride;
    }
  }
}

ett_group_span ett_group_topology(ett_rank_group g, int64_t world, int gpus_per_node) {
  int64_t gpus = gpus_per_node, block = g.degree * g.stride;
  if (g.stride >= gpus || g.degree == 1)
    return (ett_group_span){(int32_t)g.degree, 1};
  if (gpus % block == 0)
    return (ett_group_span){1, (int32_t)g.degree};
  if (block % gpus == 0 && gpus % g.stride == 0)
    return (ett_group_span){(int32_t)(block / gpus), (int32_t)(gpus / g.stride)};
  ett_group_span span = {1, (int32_t)g.degree};
  int64_t blocks = world / block < gpus ? world / block : gpus; /* places repeat */
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t j = 0; j < g.stride; j++)
      add_group(&span, g, (b * block + j) % gpus, gpus);
  return span;
}

int ett_messages_cross_node(int64_t s, int64_t stride, int gpus_per_node) {
  int64_t first = s * stride;
  if (stride >= gpus_per_node)
    return 1;
  for (int64_t rank = first; rank < first + stride; rank++)
    if (rank / gpus_per_node != (rank + stride) / gpus_per_node)
      return 1;
  return 0;
}

static void note(ett_evaluation *e, size_t index) {
  ett_step_workspace *w = e->w;
  for (size_t i = 0; i < w->demand_count; i++)
    if (w->demands[i] == index)
      return;
  if (w->demand_count == w->demand_capacity) {
    size_t capacity = w->demand_capacity ? w->demand_capacity * 2 : 32;
    size_t *grown = realloc(w->demands, capacity * sizeof *grown);
    if (!grown) {
      e->failed = ett_err_set(e->err, ETT_ERR_MEMORY, "not enough memory for a plan");
      return;
    }
    w->demands = grown;
    w->demand_capacity = capacity;
  }
  w->demands[w->demand_count++] = index;
}

double ett_messages_ask(ett_evaluation *e, ett_demand demand) {
  if (e->failed || demand.amount <= 0)
    return 0;
  ptrdiff_t index = ett_demands_find(e->demands, &demand, e->err);
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

ett_buckets ett_messages_buckets(ett_evaluation *e, ett_demand_kind kind, int experts,
                                 double bytes, int64_t layers, int32_t element_bytes) {
  ett_rank_group g = experts ? e->expert : e->dense;
  ett_group_span span = experts ? e->expert_span : e->dense_span;
  ett_buckets b = {0, 0, 0, 0, 0};
  if (g.degree <= 1 || bytes <= 0)
    return b;
  if (e->plan->zero == ETT_ZERO_PARAMETERS && layers > 0) {
    b.size = b.rest = bytes / (double)layers;
    b.full = (double)(layers - 1);
  } else {
    b.size = e->plan->bucket_bytes;
    b.full = bytes > b.size ? ceil(bytes / b.size) - 1 : 0;
    b.rest = b.full > 0 ? bytes - b.full * b.size : bytes;
  }
  ett_demand message = {.kind = kind,
                        .amount = b.size,
                        .nodes = span.nodes,
                        .gpus_per_node = span.gpus_per_node,
                        .ranks = (int32_t)g.degree,
                        .element_bytes = element_bytes};
  if (b.full > 0)
    b.full_time = ett_messages_ask(e, message);
  message.amount = b.rest;
  b.rest_time = ett_messages_ask(e, message);
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

double ett_messages_with_gathers(const ett_evaluation *e, double pass, double busy,
                                 double gather, int64_t layers) {
  if (!e->plan->overlap_parameters)
    return pass + gather;
  double first = layers > 0 ? gather / (double)layers : gather;
  double on_link = busy + gather - first;
  return (pass > on_link ? pass : on_link) + first;
}
