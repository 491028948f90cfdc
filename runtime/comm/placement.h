/* placement.h - where the ranks of a group lie on the tiers of a cluster.
 *
 * Devices are numbered through the cluster. A unit of a tier is a block of `size`
 * neighbouring devices (a node, a rack); each size divides the next. Rank r is on device
 * r, or on map[r]. The ranks of a group differ only in the group's axes. An axis is
 * `degree` ranks `stride` apart; the groups of an axis fill blocks of degree * stride
 * ranks. All groups of a kind communicate at once. If groups do not align with units, the
 * counts are those of the worst group: the slowest unit limits a ring. */
#ifndef ETT_COMM_PLACEMENT_H
#define ETT_COMM_PLACEMENT_H

#include <stdint.h>

#include "base/err.h"

#define ETT_TIERS_MOST 8
#define ETT_TIER_ALL INT64_MAX /* size of a tier that joins every device */
#define ETT_TORUS_MOST 4       /* axes of a torus */
#define ETT_AXIS_MOST 32768    /* devices of an axis */

/* More ranks than these are placed only where their groups align with units. */
#define ETT_RANKS_MOST ((int64_t)1 << 26)

typedef struct ett_tiers {
  int count;
  int node; /* the tier whose units are nodes */
  int64_t size[ETT_TIERS_MOST];
  /* Neighbouring devices that share a card from the unit below into the tier. */
  int64_t card[ETT_TIERS_MOST];
  /* Of each tier, bytes/s of the cards of one device, and of a unit below; the same for
   * sends. 0: unknown, and ett_place_lanes has two lanes. */
  struct ett_tier_rates {
    double card, unit, send, unit_send;
    int through; /* messages to outer tiers pass these links too */
  } rates[ETT_TIERS_MOST];
  /* If the devices of the innermost tier form a torus: the lengths of its axes. Devices
   * are numbered along the first axis first. */
  int axes;
  int64_t axis[ETT_TORUS_MOST];
} ett_tiers;

typedef struct ett_ranks {
  ett_tiers tiers;
  int64_t world;
  const int32_t *map; /* a permutation of 0 to world - 1; NULL: the identity */
} ett_ranks;

typedef struct ett_axis {
  int64_t degree, stride;
} ett_axis;

typedef struct ett_rank_group {
  int64_t degree;   /* product of the axes' degrees */
  ett_axis axis[2]; /* the inner one first; degree 1: unused */
} ett_rank_group;

/* Counts of one tier. A lower unit is a unit of the tier before, or one device. All but
 * units, branches and inside count only groups that span several lower units. */
typedef struct ett_placement_tier {
  int32_t units;    /* the most units of this tier that one group spans */
  int32_t members;  /* the fewest ranks of a group in one lower unit */
  int32_t most;     /* the most ranks of a group in one lower unit */
  int32_t groups;   /* the most such groups in one lower unit; 0: no group */
  int32_t cards;    /* the fewest cards of a group in one lower unit */
  int32_t sharing;  /* the most groups on one card */
  int32_t inside;   /* the most ranks of any group in one lower unit */
  int32_t branches; /* the most lower units of any group in one unit of this tier */
  /* The box of a group on a torus, or of its part in a unit: on each axis the positions,
   * and the steps from one to the next, so that `apart` groups share the links of the
   * axis. 0: no torus. The group has `placed` ranks in the box; if it has fewer than
   * positions, other groups lie between them. */
  int32_t along[ETT_TORUS_MOST], apart[ETT_TORUS_MOST], placed;
  int32_t slice; /* 1: the step uses a part of the torus */
} ett_placement_tier;

typedef struct ett_placement {
  int32_t ranks, tiers, node;
  ett_placement_tier tier[ETT_TIERS_MOST];
} ett_placement;

/* The group of one axis, and of two; adjacent axes are merged into one. */
ett_rank_group ett_rank_group_of(ett_axis axis);
ett_rank_group ett_rank_group_both(ett_axis one, ett_axis other);

/* Fails if sizes do not nest. */
int ett_tiers_check(const ett_tiers *tiers, ett_err *err);

/* Fails if memory runs out or unaligned groups need more than ETT_RANKS_MOST ranks. */
int ett_place_group(const ett_ranks *ranks, ett_rank_group group, ett_placement *place,
                    ett_err *err);

/* The ranks that hold copies of a slice of the model in a schedule of several ways: those
 * of `group` on each of `ways` stages. */
typedef struct ett_copies {
  ett_axis pipeline;
  int ways, sets;
  const int32_t *stage; /* the distinct sets of stages that hold a slice; [sets][ways] */
} ett_copies;

/* Fails as ett_place_group. */
int ett_place_copies(const ett_ranks *ranks, ett_rank_group group,
                     const ett_copies *copies, ett_placement *place, ett_err *err);

/* Number of tiers that separate the most distant pair of ranks at the coordinates `from`
 * and `to` of an axis, from < to. */
int ett_place_level(const ett_ranks *ranks, ett_axis axis, int64_t from, int64_t to);

/* The placement of a pair at this level. groups, sharing: the most ranks of a unit and of
 * a card whose next neighbour on the axis is outside the unit. */
int ett_place_pairs(const ett_ranks *ranks, ett_axis axis, int level,
                    ett_placement *place, ett_err *err);

/* A lane is the share of a tier's links that one rank has: lane k belongs to tier k. A
 * message occupies the lanes that it crosses for a share of its time: 1 on the slowest
 * lane, less on wider ones. In rings and sends, each tier carries the same bytes; in an
 * exchange (all_to_all), those for ranks outside a unit.
 *
 * For a message between nodes, the lanes inside nodes are left out, because it needs
 * little of them. If rates are unknown, there are two lanes: the node's and the
 * network's. */
typedef enum ett_lane_use {
  ETT_LANES_RING,
  ETT_LANES_SEND,
  ETT_LANES_EXCHANGE,
  ETT_LANE_USES
} ett_lane_use;

int ett_tiers_lanes(const ett_tiers *tiers); /* their number */

/* The outermost lane of a message that a tier joins. */
int ett_tiers_lane(const ett_tiers *tiers, int tier);

/* Fills all ETT_TIERS_MOST shares of a placement. Returns the outermost lane in use. */
int ett_place_lanes(const ett_tiers *tiers, const ett_placement *place, ett_lane_use use,
                    double *lanes);

/* Number of nodes, and the fewest ranks per node if a group spans several nodes. */
int32_t ett_place_nodes(const ett_placement *place);
int32_t ett_place_per_node(const ett_placement *place);

#endif
