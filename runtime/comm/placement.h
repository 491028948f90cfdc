/* placement.h - where the ranks of a group lie on the tiers of a cluster.
 *
 * Devices are numbered through the cluster. A unit of a tier is a block of `size`
 * neighbouring devices (a node, a rack); each size divides the next. Rank r is on device
 * r, or on map[r]. A group holds the ranks that differ in its axes alone: an axis is
 * `degree` ranks `stride` apart, and the groups of an axis fill blocks of degree * stride
 * ranks. All groups of a kind work at once, so that those which do not align with units
 * count by their worst: a ring is as slow as its poorest unit. */
#ifndef ETT_COMM_PLACEMENT_H
#define ETT_COMM_PLACEMENT_H

#include <stdint.h>

#include "base/err.h"

#define ETT_TIERS_MOST 8
#define ETT_TIER_ALL INT64_MAX /* size of a tier that joins every device */

/* More ranks than these are placed only where their groups align with units. */
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
  int64_t degree;   /* product of its axes' */
  ett_axis axis[2]; /* the inner one first; degree 1: unused */
} ett_rank_group;

/* Counts of one tier. The unit below is that of the tier before, or one device. */
typedef struct ett_placement_tier {
  int32_t units;   /* of this tier: the most that one group touches */
  int32_t members; /* the fewest ranks of a group in a unit below that its group leaves */
  int32_t most;    /* the most of them */
  int32_t groups;  /* the most groups that leave one unit below; 0: none does */
  int32_t cards;   /* the fewest cards that such a group has in a unit below */
  int32_t sharing; /* the most groups on one of these cards */
} ett_placement_tier;

typedef struct ett_placement {
  int32_t ranks, tiers, node;
  ett_placement_tier tier[ETT_TIERS_MOST];
} ett_placement;

/* The group of one axis; of two, joined where they touch. */
ett_rank_group ett_rank_group_of(ett_axis axis);
ett_rank_group ett_rank_group_both(ett_axis one, ett_axis other);

/* Fails on sizes that do not nest. */
int ett_tiers_check(const ett_tiers *tiers, ett_err *err);

/* Fails without memory, and beyond ETT_RANKS_MOST ranks. */
int ett_place_group(const ett_ranks *ranks, ett_rank_group group, ett_placement *place,
                    ett_err *err);

/* The place of groups of which `ways` join, each on stages of its own, as a schedule that
 * runs several ways has them. */
void ett_place_ways(const ett_ranks *ranks, int ways, ett_placement *place);

/* Pairs of a rank at place `from` of an axis and its partner at `to`, from < to: how many
 * tiers have the most distant pair in two units. */
int ett_place_level(const ett_ranks *ranks, ett_axis axis, int64_t from, int64_t to);

/* The place of such a pair. groups and sharing: ranks of a unit, of a card, whose next
 * neighbour on the axis is outside the unit. */
int ett_place_pairs(const ett_ranks *ranks, ett_axis axis, int level,
                    ett_placement *place, ett_err *err);

/* Units of the node tier, and the fewest ranks on one of several nodes. */
int32_t ett_place_nodes(const ett_placement *place);
int32_t ett_place_per_node(const ett_placement *place);

#endif
