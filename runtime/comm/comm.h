/* comm.h - how long a collective takes over a cluster's links: hierarchical alpha-beta.
 *
 * A group of nodes * ranks_per_node ranks works on a buffer of `bytes`. Conventions are
 * those of nccl-tests (its doc/PERFORMANCE.md derives them): bytes is the whole buffer,
 * that is the result of all_gather, the input of reduce_scatter and what one rank of
 * all_to_all sends. Then
 *     seconds = alpha + bytes * factor / bus_bandwidth
 *     factor: all_reduce 2 (n-1)/n; all_gather, reduce_scatter, all_to_all (n-1)/n;
 *             broadcast, send_recv 1
 * so that bus_bandwidth is a property of the links and does not depend on n.
 *
 * Two levels. Inside a node the bus bandwidth is that of the intra link, measured (a
 * curve over message size) or stated. Between nodes a ring leaves each node once per
 * channel, so its bus bandwidth is what the group may use of its node's network cards:
 *     min(ranks_per_node * per_gpu, per_node / groups_per_node)
 * where groups_per_node equal groups run side by side (every data-parallel group of a
 * node, say). The slower of both levels binds. Latencies count steps as NCCL's own tuner
 * does (src/graph/tuning.cc): a ring all_reduce takes 2 (n-1) steps of which 2 nodes
 * cross the network; a tree 2 (log2(nodes) network steps + ranks_per_node - 1); the
 * faster is taken. all_to_all sends each rank's share pairwise: the part for other nodes
 * over its share of the network, the rest inside, at the same time.
 *
 * Trees that reduce inside the node before they leave it (links.hierarchical: NCCL's
 * NVLSTree on NVSwitch with in-switch reduction) make a node count as one rank on the
 * network: on two nodes of eight H100 the bus bandwidth is 338 GB/s over 200 GB/s of
 * network cards. Older nodes measure the ring's: 85 of 100 GB/s on three nodes of eight
 * A100 (NVIDIA/nccl-tests issue 119).
 *
 * Not modelled: congestion between different kinds of groups, topology above the node
 * (fat-tree levels are taken as non-blocking), switch reduction (give its bus bandwidth
 * as the measured curve). */
#ifndef ETT_COMM_COMM_H
#define ETT_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum ett_comm_kind {
  ETT_COMM_ALL_REDUCE,
  ETT_COMM_ALL_GATHER,
  ETT_COMM_REDUCE_SCATTER,
  ETT_COMM_ALL_TO_ALL,
  ETT_COMM_SEND_RECV,
  ETT_COMM_BROADCAST,
  ETT_COMM_KINDS
} ett_comm_kind;

typedef enum ett_comm_algorithm {
  ETT_COMM_RING,
  ETT_COMM_TREE,
  ETT_COMM_PAIRWISE
} ett_comm_algorithm;

#define ETT_COMM_MAX_POINTS 64

/* Bus bandwidth over message size: ascending bytes, log-log interpolated. Below the first
 * point the time follows the line through the first two (latency and bandwidth); above
 * the last the bandwidth stays. points 0: the stated bandwidth holds at every size. */
typedef struct ett_comm_curve {
  size_t points;
  double bytes[ETT_COMM_MAX_POINTS], bandwidth[ETT_COMM_MAX_POINTS]; /* bytes/s */
} ett_comm_curve;

typedef struct ett_comm_links {
  double intra_bandwidth; /* bus bandwidth a rank sees inside a node, bytes/s */
  double intra_latency;   /* seconds of one step */
  double intra_send;      /* bandwidth of one send inside a node; 0: intra_bandwidth */
  ett_comm_curve intra;   /* includes its latency */
  double inter_per_gpu;   /* network bandwidth one rank can use, bytes/s */
  double inter_per_node;  /* of a whole node, one direction; 0: no network */
  double inter_send;      /* of one send between nodes; 0: as collectives have it */
  double inter_send_node; /* of all sends of a node at once; 0: inter_per_node */
  double inter_latency;   /* seconds of one step */
  int hierarchical;       /* trees reduce inside the node first (NVLSTree) */
  double base_latency;    /* seconds of starting any collective */
} ett_comm_links;

typedef struct ett_comm_group {
  int64_t nodes, ranks_per_node;
  int64_t groups_per_node; /* equal groups at work on each node, at least 1 */
} ett_comm_group;

typedef struct ett_comm_time {
  double seconds;
  double bus_bandwidth; /* bytes/s that bound it; 0 for one rank */
  ett_comm_algorithm algorithm;
} ett_comm_time;

/* The standard name of a kind ("all_reduce", ...), and the kind of a name, or -1. */
const char *ett_comm_kind_name(ett_comm_kind kind);
int ett_comm_kind_of(const char *name);
const char *ett_comm_algorithm_name(ett_comm_algorithm algorithm);

/* factor of `kind` for n ranks. */
double ett_comm_factor(ett_comm_kind kind, int64_t ranks);

/* Bus bandwidth of a curve at a size; fallback when it has no points. */
double ett_comm_curve_at(const ett_comm_curve *curve, double bytes, double fallback);

/* Fails on sizes or links that are not positive and finite where the group needs them. */
int ett_comm_estimate(const ett_comm_links *links, ett_comm_kind kind, double bytes,
                      const ett_comm_group *group, ett_comm_time *time, ett_err *err);

#endif
