/* placement.h - places the ranks of a group on the tiers of a cluster.
 *
 * Devices are numbered through the cluster. A unit of a tier is a block of `size`
 * neighbouring devices (a node, a rack); each size divides the next. Rank r is on device
 * r, or on map[r]. A group holds the ranks that differ in its axes only: an axis is
 * `degree` ranks `stride` apart, and the groups of an axis fill blocks of degree * stride
 * ranks. All groups of a kind communicate at once. Groups that do not align with units
 * are described by the worst unit: a ring is as slow as its slowest unit. */
#ifndef ETT_COMM_PLACEMENT_H
#define ETT_COMM_PLACEMENT_H

#include <stdint.h>

#include "base/err.h"

#define ETT_TIERS_MOST 8
#define ETT_TIER_ALL INT64_MAX /* size of a tier that joins every device */

/* More ranks than this are placed only if their groups align with units. */
#define ETT_RANKS_MOST ((int64_t)1 << 26)

typedef struct ett_tiers {
  int count;
  int node; /* the tier whose units are nodes */
  int64_t size[ETT_TIERS_MOST];
  /* Neighbouring devices that share a card from the unit below into the tier. */
  int64_t card[ETT_TIERS_MOST];
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
  int64_t degree;   /* product of the degrees of the axes */
  ett_axis axis[2]; /* the inner one first; degree 1: unused */
} ett_rank_group;

/* Counts of one tier. The unit below is a unit of the previous tier, or one device. */
typedef struct ett_placement_tier {
  int32_t units;   /* largest number of units of this tier that one group spans */
  int32_t members; /* fewest ranks of a group in a unit below, for groups that leave it */
  int32_t most;    /* largest number of such ranks */
  int32_t groups;  /* largest number of groups that leave one unit below; 0: none */
  int32_t cards;   /* fewest cards of such a group in a unit below */
  int32_t sharing; /* largest number of groups on one of these cards */
} ett_placement_tier;

typedef struct ett_placement {
  int32_t ranks, tiers, node;
  ett_placement_tier tier[ETT_TIERS_MOST];
} ett_placement;

/* The group of one axis, or of two axes; two contiguous axes are merged. */
ett_rank_group ett_rank_group_of(ett_axis axis);
ett_rank_group ett_rank_group_both(ett_axis one, ett_axis other);

/* Fails if sizes do not nest. */
int ett_tiers_check(const ett_tiers *tiers, ett_err *err);

/* Fails if memory is short, or with more than ETT_RANKS_MOST unaligned ranks. */
int ett_place_group(const ett_ranks *ranks, ett_rank_group group, ett_placement *place,
                    ett_err *err);

/* Changes the place for schedules that run several ways: `ways` groups on different
 * stages join. */
void ett_place_ways(const ett_ranks *ranks, int ways, ett_placement *place);

/* For pairs of a rank at position `from` of an axis and its partner at `to`, from < to:
 * the number of tiers in which the most distant pair spans two units. */
int ett_place_level(const ett_ranks *ranks, ett_axis axis, int64_t from, int64_t to);

/* The place of such a pair. groups and sharing: ranks per unit and per card whose next
 * neighbour on the axis is outside the unit. */
int ett_place_pairs(const ett_ranks *ranks, ett_axis axis, int level,
                    ett_placement *place, ett_err *err);

/* Units of the node tier, and the fewest ranks of the group on a node if it spans
 * several. */
int32_t ett_place_nodes(const ett_placement *place);
int32_t ett_place_per_node(const ett_placement *place);

#endif
