#include "comm/comm.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[ETT_COMM_KINDS] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast"};

const char *ett_comm_kind_name(ett_comm_kind kind) {
  return kind_names[kind];
}

int ett_comm_kind_of(const char *name) {
  for (int kind = 0; kind < ETT_COMM_KINDS; kind++)
    if (strcmp(name, kind_names[kind]) == 0)
      return kind;
  return -1;
}

const char *ett_comm_algorithm_name(ett_comm_algorithm algorithm) {
  return algorithm == ETT_COMM_RING   ? "ring"
         : algorithm == ETT_COMM_TREE ? "tree"
                                      : "pairwise";
}

double ett_comm_factor(ett_comm_kind kind, int64_t ranks) {
  double n = (double)ranks;
  switch (kind) {
  case ETT_COMM_ALL_REDUCE:
    return 2 * (n - 1) / n;
  case ETT_COMM_ALL_GATHER:
  case ETT_COMM_REDUCE_SCATTER:
  case ETT_COMM_ALL_TO_ALL:
    return (n - 1) / n;
  default:
    return ranks > 1 ? 1 : 0;
  }
}

/* Latency and bandwidth of the line through the first two points: where the curve begins
 * at small messages nearly all is latency, where it begins at large ones nearly none. */
static double seconds_below(const ett_comm_curve *curve, double bytes) {
  double first = curve->bytes[0] / curve->bandwidth[0];
  if (curve->points < 2)
    return first;
  double slope = (curve->bytes[1] / curve->bandwidth[1] - first) /
                 (curve->bytes[1] - curve->bytes[0]);
  slope = fmin(fmax(slope, 0), 1 / curve->bandwidth[0]); /* no negative latency */
  return first - slope * (curve->bytes[0] - bytes);
}

double ett_comm_curve_at(const ett_comm_curve *curve, double bytes, double fallback) {
  size_t n = curve->points;
  if (n == 0)
    return fallback;
  if (bytes <= curve->bytes[0])
    return bytes / seconds_below(curve, bytes);
  if (bytes >= curve->bytes[n - 1])
    return curve->bandwidth[n - 1];
  size_t i = 1;
  while (curve->bytes[i] < bytes)
    i++;
  double t =
      log(bytes / curve->bytes[i - 1]) / log(curve->bytes[i] / curve->bytes[i - 1]);
  return curve->bandwidth[i - 1] * pow(curve->bandwidth[i] / curve->bandwidth[i - 1], t);
}

/* What a group may use of its node's network. */
static double network_bandwidth(const ett_comm_links *l, const ett_comm_group *g,
                                double ranks) {
  double own = ranks * l->inter_per_gpu;
  double share = l->inter_per_node / (double)g->groups_per_node;
  return own < share ? own : share;
}

static double ceil_log2(int64_t n) {
  double steps = 0;
  while (n > 1) {
    n = (n + 1) / 2;
    steps++;
  }
  return steps;
}

/* Steps of a ring: all_reduce goes round twice. */
static double ring_latency(const ett_comm_links *l, ett_comm_kind kind,
                           const ett_comm_group *g, int has_curve) {
  double rounds = kind == ETT_COMM_ALL_REDUCE ? 2 : 1;
  double ranks = (double)g->nodes * (double)g->ranks_per_node;
  double across = g->nodes > 1 ? rounds * (double)g->nodes : 0;
  double steps = rounds * (ranks - 1);
  double inside = steps > across ? steps - across : 0;
  if (has_curve && g->nodes == 1)
    inside = 0; /* the curve holds it */
  return inside * l->intra_latency + across * l->inter_latency;
}

static void ring_or_tree(const ett_comm_links *l, ett_comm_kind kind, double bytes,
                         const ett_comm_group *g, ett_comm_time *time) {
  int64_t ranks = g->nodes * g->ranks_per_node;
  double bus = INFINITY;
  if (g->ranks_per_node > 1)
    bus = ett_comm_curve_at(&l->intra, bytes, l->intra_bandwidth);
  if (g->nodes > 1) {
    double network = network_bandwidth(l, g, (double)g->ranks_per_node);
    bus = network < bus ? network : bus;
  }
  int has_curve = l->intra.points > 0;
  double base = has_curve && g->nodes == 1 ? 0 : l->base_latency;
  double stream = bytes * ett_comm_factor(kind, ranks) / bus;
  time->bus_bandwidth = bus;
  time->algorithm = ETT_COMM_RING;
  time->seconds = base + ring_latency(l, kind, g, has_curve) + stream;
  if (kind != ETT_COMM_ALL_REDUCE && kind != ETT_COMM_BROADCAST)
    return;
  if (has_curve && g->nodes == 1)
    return;
  /* A tree streams 0.92 of a ring's bandwidth (NCCL's tuner). Inside the node each byte
   * is passed once each way; over the network the node counts as one rank. */
  double rounds = kind == ETT_COMM_ALL_REDUCE ? 2 : 1;
  double inside_stream = 0, across_stream = 0;
  if (g->ranks_per_node > 1)
    inside_stream =
        rounds * bytes / (0.92 * ett_comm_curve_at(&l->intra, bytes, l->intra_bandwidth));
  if (g->nodes > 1)
    across_stream = bytes * ett_comm_factor(kind, l->hierarchical ? g->nodes : ranks) /
                    (0.92 * network_bandwidth(l, g, (double)g->ranks_per_node));
  double tree = base +
                rounds * ((double)(g->ranks_per_node - 1) * l->intra_latency +
                          ceil_log2(g->nodes) * l->inter_latency) +
                (inside_stream > across_stream ? inside_stream : across_stream);
  if (tree < time->seconds) {
    time->seconds = tree;
    time->algorithm = ETT_COMM_TREE;
  }
}

static void pairwise(const ett_comm_links *l, double bytes, const ett_comm_group *g,
                     ett_comm_time *time) {
  double ranks = (double)g->nodes * (double)g->ranks_per_node;
  double inside = bytes * (double)(g->ranks_per_node - 1) / ranks;
  double across = bytes * (ranks - (double)g->ranks_per_node) / ranks;
  double inside_seconds = inside > 0 ? inside / l->intra_bandwidth : 0;
  /* Every rank of the node sends its part at once. */
  double network = g->nodes > 1 ? network_bandwidth(l, g, (double)g->ranks_per_node) /
                                      (double)g->ranks_per_node
                                : INFINITY;
  double across_seconds = across > 0 ? across / network : 0;
  double latency = g->nodes > 1 ? l->inter_latency : l->intra_latency;
  double slower = inside_seconds > across_seconds ? inside_seconds : across_seconds;
  time->seconds = l->base_latency + latency + slower;
  time->bus_bandwidth = across_seconds > inside_seconds ? network : l->intra_bandwidth;
  time->algorithm = ETT_COMM_PAIRWISE;
}

static void send(const ett_comm_links *l, double bytes, const ett_comm_group *g,
                 ett_comm_time *time) {
  double bandwidth = l->intra_send > 0 ? l->intra_send : l->intra_bandwidth;
  if (g->nodes > 1) {
    double node = l->inter_send_node > 0 ? l->inter_send_node : l->inter_per_node;
    bandwidth = fmin(l->inter_send > 0 ? l->inter_send : l->inter_per_gpu,
                     node / (double)g->groups_per_node);
  }
  time->bus_bandwidth = bandwidth;
  time->seconds = l->base_latency + (g->nodes > 1 ? l->inter_latency : l->intra_latency) +
                  bytes / bandwidth;
  time->algorithm = ETT_COMM_PAIRWISE;
}

static int positive(double value) {
  return isfinite(value) && value > 0;
}

static int check(const ett_comm_links *l, double bytes, const ett_comm_group *g,
                 ett_err *err) {
  if (!(isfinite(bytes) && bytes >= 0))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "bytes of a collective must be at least 0, got %g", bytes);
  if (g->nodes < 1 || g->ranks_per_node < 1 || g->groups_per_node < 1 ||
      g->nodes > 10000000 || g->ranks_per_node > 100000)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a group needs at least one node, rank and group per node, got "
                       "%lld nodes of %lld ranks in %lld groups",
                       (long long)g->nodes, (long long)g->ranks_per_node,
                       (long long)g->groups_per_node);
  if (g->ranks_per_node > 1 && !positive(l->intra_bandwidth))
    return ett_err_set(err, ETT_ERR_MISSING,
                       "%lld ranks in a node need the cluster's links.intra.bandwidth",
                       (long long)g->ranks_per_node);
  if (g->nodes > 1 && !(positive(l->inter_per_gpu) && positive(l->inter_per_node)))
    return ett_err_set(
        err, ETT_ERR_MISSING,
        "%lld nodes need the cluster's links.inter, with 'bandwidth_per_gpu' and "
        "'bandwidth_per_node'",
        (long long)g->nodes);
  if (!(l->intra_latency >= 0 && l->inter_latency >= 0 && l->base_latency >= 0))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "latencies must be at least 0");
  for (size_t i = 0; i < l->intra.points; i++)
    if (!positive(l->intra.bytes[i]) || !positive(l->intra.bandwidth[i]) ||
        (i > 0 && l->intra.bytes[i] <= l->intra.bytes[i - 1]))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "a curve needs ascending sizes and positive bandwidths, point "
                         "%zu is %g bytes at %g bytes/s",
                         i + 1, l->intra.bytes[i], l->intra.bandwidth[i]);
  return 0;
}

int ett_comm_estimate(const ett_comm_links *links, ett_comm_kind kind, double bytes,
                      const ett_comm_group *group, ett_comm_time *time, ett_err *err) {
  if (check(links, bytes, group, err) != 0)
    return -1;
  *time = (ett_comm_time){0, 0, ETT_COMM_RING};
  if (group->nodes * group->ranks_per_node == 1 || bytes == 0)
    return 0;
  if (kind == ETT_COMM_SEND_RECV)
    send(links, bytes, group, time);
  else if (kind == ETT_COMM_ALL_TO_ALL)
    pairwise(links, bytes, group, time);
  else
    ring_or_tree(links, kind, bytes, group, time);
  return 0;
}
