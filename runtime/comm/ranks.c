#include "comm/ranks.h"

#include <string.h>

int ett_group_kind_of(const char *name) {
  static const char *const names[ETT_GROUPS] = {
      "tp",     "cp",         "dp",      "ep",   "etp",
      "shares", "cp ulysses", "cp ring", "data", "expert data"};
  for (int kind = 0; kind < ETT_GROUPS; kind++)
    if (strcmp(name, names[kind]) == 0)
      return kind;
  return -1;
}

int64_t ett_degrees_world(const ett_degrees *d) {
  return d->tp * d->cp * d->dp * d->pp;
}

/* Degrees by axis: of dense layers, or of experts. */
static void degrees_of(const ett_degrees *d, int experts, int64_t degree[ETT_AXES]) {
  degree[ETT_AXIS_TP] = experts ? d->etp : d->tp;
  degree[ETT_AXIS_CP] = experts ? 1 : d->cp;
  degree[ETT_AXIS_EP] = experts ? d->ep : 1;
  degree[ETT_AXIS_DP] = experts ? d->tp * d->cp * d->dp / (d->etp * d->ep) : d->dp;
  degree[ETT_AXIS_PP] = d->pp;
}

static ett_axis axis_of(const ett_degrees *d, int experts, ett_rank_axis wanted) {
  int64_t degree[ETT_AXES], stride = 1;
  degrees_of(d, experts, degree);
  for (int i = 0; i < ETT_AXES; i++) {
    int axis = d->order >> 3 * i & 7;
    if (axis == (int)wanted)
      break;
    stride *= degree[axis];
  }
  return (ett_axis){degree[wanted], stride};
}

int ett_degrees_check(const ett_degrees *d, ett_err *err) {
  const struct {
    const char *name;
    int64_t value;
  } fields[] = {{"pp", d->pp}, {"tp", d->tp},   {"cp", d->cp},
                {"ep", d->ep}, {"etp", d->etp}, {"dp", d->dp}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].value < 1 || fields[i].value > ETT_DEGREE_MOST)
      return ett_err_set(err, ETT_ERR_ARGUMENT, "field '%s' must be 1 to %lld, got %lld",
                         fields[i].name, (long long)ETT_DEGREE_MOST,
                         (long long)fields[i].value);
  if (d->tp * d->cp > INT64_MAX / (d->dp * d->pp))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "the plan has more than 2^63 ranks");
  unsigned seen = 0;
  for (int i = 0; i < ETT_AXES; i++)
    seen |= 1u << (d->order >> 3 * i & 7);
  if (seen != (1u << ETT_AXES) - 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a rank order must name tp, cp, ep, dp and pp once each");
  if (d->cp > 1 && d->cp_ulysses > 1 && d->cp % d->cp_ulysses != 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "cp_ulysses = %lld must divide cp = %lld",
                       (long long)d->cp_ulysses, (long long)d->cp);
  int64_t ranks = d->dp * d->cp * d->tp, experts = d->ep * d->etp;
  if (ranks % experts != 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "ep * etp = %lld must divide dp * cp * tp = %lld",
                       (long long)experts, (long long)ranks);
  int64_t dense = axis_of(d, 0, ETT_AXIS_PP).stride;
  int64_t expert = axis_of(d, 1, ETT_AXIS_PP).stride;
  if (d->pp > 1 && dense != expert)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the rank order puts neighbouring stages %lld ranks apart in "
                       "dense layers and %lld in experts; put pp last",
                       (long long)dense, (long long)expert);
  return 0;
}

ett_axis ett_degrees_pipeline(const ett_degrees *d) {
  return axis_of(d, 0, ETT_AXIS_PP);
}

ett_rank_group ett_degrees_group(const ett_degrees *d, ett_group_kind kind) {
  ett_axis tp = axis_of(d, 0, ETT_AXIS_TP), cp = axis_of(d, 0, ETT_AXIS_CP);
  int64_t ulysses = d->cp > 1 && d->cp_ulysses > 1 ? d->cp_ulysses : 1;
  switch (kind) {
  case ETT_GROUP_TP:
    return ett_rank_group_of(tp);
  case ETT_GROUP_CP:
    return ett_rank_group_of(cp);
  case ETT_GROUP_CP_ULYSSES:
    return ett_rank_group_of((ett_axis){ulysses, cp.stride});
  case ETT_GROUP_CP_RING:
    return ett_rank_group_of((ett_axis){cp.degree / ulysses, cp.stride * ulysses});
  case ETT_GROUP_DP:
    return ett_rank_group_of(axis_of(d, 0, ETT_AXIS_DP));
  case ETT_GROUP_EP:
    return ett_rank_group_of(axis_of(d, 1, ETT_AXIS_EP));
  case ETT_GROUP_ETP:
    return ett_rank_group_of(axis_of(d, 1, ETT_AXIS_TP));
  case ETT_GROUP_SHARES: {
    int64_t shares = d->tp > d->etp ? d->tp / d->etp : 1;
    return ett_rank_group_of((ett_axis){shares, tp.stride * d->etp});
  }
  case ETT_GROUP_DATA:
    return ett_rank_group_both(cp, axis_of(d, 0, ETT_AXIS_DP));
  default:
    return ett_rank_group_of(axis_of(d, 1, ETT_AXIS_DP));
  }
}
