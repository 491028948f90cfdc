/* ranks.h - the ranks of a parallel layout, numbered in an order of axes.
 *
 * As in Megatron-Core's RankGenerator (megatron/core/parallel_state.py): ranks of dense
 * layers are numbered by tp, cp, dp and pp. Ranks of experts are numbered by etp, ep, the
 * remaining data ranks, and pp. Both have one order. Megatron's default is
 * tp-cp-ep-dp-pp. */
#ifndef ETT_COMM_RANKS_H
#define ETT_COMM_RANKS_H

#include "comm/placement.h"

typedef enum ett_rank_axis {
  ETT_AXIS_TP,
  ETT_AXIS_CP,
  ETT_AXIS_EP,
  ETT_AXIS_DP,
  ETT_AXIS_PP,
  ETT_AXES
} ett_rank_axis;

typedef struct ett_degrees {
  int64_t tp, cp, ep, dp, pp;
  int64_t etp; /* tensor ranks of an expert; ep * etp divides dp * cp * tp */
  /* An ett_rank_axis in each octal digit; the last digit is the innermost. */
  int32_t order;
  /* Neighbouring context ranks that exchange tokens for heads; divides cp unless that
   * is 1. 0 is 1. */
  int64_t cp_ulysses;
} ett_degrees;

typedef enum ett_group_kind {
  ETT_GROUP_TP,
  ETT_GROUP_CP,
  ETT_GROUP_DP,
  ETT_GROUP_EP,
  ETT_GROUP_ETP,
  ETT_GROUP_SHARES,      /* tp / etp ranks that hold shares of the same tokens */
  ETT_GROUP_CP_ULYSSES,  /* context ranks that exchange tokens for heads */
  ETT_GROUP_CP_RING,     /* cp / cp_ulysses context ranks with the same heads */
  ETT_GROUP_DATA,        /* cp and dp: the ranks that share dense weights */
  ETT_GROUP_EXPERT_DATA, /* the ranks that share weights of experts */
  ETT_GROUPS
} ett_group_kind;

/* "tp", "cp", "dp", "ep", "etp", "shares", "cp ulysses", "cp ring", "data",
 * "expert data". */
int ett_group_kind_of(const char *name); /* -1: none */

int64_t ett_degrees_world(const ett_degrees *degrees);

#define ETT_DEGREE_MOST ((int64_t)1 << 20)

/* Fails if a degree is not 1 to ETT_DEGREE_MOST, an order repeats an axis, or experts do
 * not divide the ranks. Dense layers and experts must be on the same pipeline ranks. */
int ett_degrees_check(const ett_degrees *degrees, ett_err *err);

ett_rank_group ett_degrees_group(const ett_degrees *degrees, ett_group_kind kind);
ett_axis ett_degrees_pipeline(const ett_degrees *degrees);

#endif
