/* operations.c - the ledger's primitives on tensors and their costs. */
#include <string.h>

#include "ledger/internal.h"

static ett_set broadcast_axes(const ett_ledger *l, const tensor *t) {
  return ETT_ALL(l->axis_count) & ~t->carried & ~t->scattered;
}

ett_node ett_ledger_entry_touched(ett_ledger *l, size_t index, ett_err *err) {
  size_t count;
  const ett_entry *entries = ett_ledger_entries(l, &count), e = entries[index];
  if (e.operation != ETT_MULTIPLY) {
    bool passed_on = false, multiplied = false;
    for (size_t i = index + 1; i < count; i++) {
      const ett_entry *later = &entries[i];
      bool takes = later->left == e.result || later->right == e.result;
      passed_on |= takes && later->operation != ETT_MULTIPLY;
      multiplied |= takes && later->operation == ETT_MULTIPLY;
    }
    return passed_on && !multiplied ? ett_ledger_constant(l, 0, err)
                                    : ett_ledger_tensor_local(l, e.result, err);
  }
  return ett_ledger_apply(l, ETT_OP_ADD, ett_ledger_tensor_local(l, e.left, err),
                          ett_ledger_tensor_local(l, e.right, err), err);
}

/* Adds the entry to the ledger and its counts to the open meter. */
static int record(ett_ledger *l, ett_entry entry, ett_err *err) {
  meter *m = &((meter *)l->meters.items)[l->meter];
  ett_node sums[ETT_COUNTS];
  for (int i = 0; i < ETT_COUNTS; i++) {
    sums[i] = ett_ledger_apply(l, ETT_OP_ADD, m->counts[i], entry.counts[i], err);
    if (sums[i] < 0)
      return -1;
  }
  ett_entry *slot = ett_list_add(&l->entries, sizeof *slot, err);
  if (!slot)
    return -1;
  memcpy(m->counts, sums, sizeof sums);
  entry.label = l->label;
  entry.meter = l->meter;
  *slot = entry;
  return (int)l->entries.size - 1;
}

static int share(ett_ledger *l, int entry, int axis_index, ett_node tx_forward,
                 ett_node rx_forward, ett_node tx_backward, ett_node rx_backward,
                 ett_err *err) {
  if (entry < 0 || tx_forward < 0 || rx_forward < 0 || tx_backward < 0 || rx_backward < 0)
    return -1;
  ett_share *slot = ett_list_add(&l->shares, sizeof *slot, err);
  if (!slot)
    return -1;
  *slot = (ett_share){
      entry, axis_index, {-1, tx_forward, rx_forward, -1, tx_backward, rx_backward}};
  return 0;
}

int ett_ledger_multiply(ett_ledger *l, int a, int b, ett_err *err) {
  if (ett_ledger_known(l, a, err) != 0 || ett_ledger_known(l, b, err) != 0)
    return -1;
  const tensor x = *ett_ledger_tensor_at(l, a), y = *ett_ledger_tensor_at(l, b);
  if (x.scattered || y.scattered)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "%s: cannot multiply a scattered tensor; broadcast it first",
                       l->label);
  ett_set dimensions = x.dimensions | y.dimensions;
  int result = ett_ledger_add_tensor(l, NULL, dimensions, 0, err);
  if (result < 0)
    return -1;
  ett_set idle = ETT_ALL(l->axis_count) & ~ett_ledger_carried(l, dimensions);
  ett_node zero = ett_ledger_constant(l, 0, err);
  ett_node flop = ett_ledger_apply(l, ETT_OP_MUL, ett_ledger_sizes(l, dimensions, err),
                                   ett_ledger_degrees(l, idle, err), err);
  ett_node back =
      ett_ledger_apply(l, ETT_OP_MUL, ett_ledger_constant(l, 4, err), flop, err);
  ett_entry entry = {.operation = ETT_MULTIPLY,
                     .left = a,
                     .right = b,
                     .result = result,
                     .reduced = -1,
                     .counts = {flop, zero, zero, back, zero, zero}};
  return record(l, entry, err) < 0 ? -1 : result;
}

/* Fraction of steps in which the data stays on its rank when it moves along a dimension's
 * axis. */
static ett_node staying(ett_ledger *l, const dimension *d, ett_err *err) {
  ett_node one = ett_ledger_constant(l, 1, err), degree = l->axes[d->axis].degree;
  if (!l->axes[d->axis].rotational)
    return ett_ledger_apply(l, ETT_OP_DIV, one, degree, err);
  ett_node crossings =
      ett_ledger_apply(l, ETT_OP_DIV, ett_ledger_apply(l, ETT_OP_SUB, degree, one, err),
                       d->virtual_size, err);
  return ett_ledger_apply(l, ETT_OP_SUB, one, crossings, err);
}

/* Splits a broadcast's traffic among its axes. Of the K - 1 copies, the first axis causes
 * (K1 - 1), the next K1 (K2 - 1), and so on. Of the crossings 1 - s1 s2, the first causes
 * 1 - s1, the next s1 (1 - s2). */
static int share_broadcast(ett_ledger *l, int entry, const tensor *t, ett_set rotate,
                           ett_node each, ett_node units, const ett_node *counts,
                           ett_err *err) {
  ett_node one = ett_ledger_constant(l, 1, err), zero = ett_ledger_constant(l, 0, err);
  ett_node copies = one, stay = one;
  ett_node none = ett_ledger_apply(l, ETT_OP_EQ, units, zero, err);
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < (pass == 0 ? l->axis_count : l->dimension_count); i++) {
      ett_node part;
      int on = i;
      if (pass == 0) {
        if (!ETT_IN(t->scattered, i))
          continue;
        ett_node degree = l->axes[i].degree;
        part = ett_ledger_apply(l, ETT_OP_MUL, copies,
                                ett_ledger_apply(l, ETT_OP_SUB, degree, one, err), err);
        copies = ett_ledger_apply(l, ETT_OP_MUL, copies, degree, err);
      } else {
        on = l->dimensions[i].axis;
        if (!ETT_IN(rotate, i) || on < 0)
          continue;
        ett_node s = staying(l, &l->dimensions[i], err);
        part = ett_ledger_apply(l, ETT_OP_MUL, stay,
                                ett_ledger_apply(l, ETT_OP_SUB, one, s, err), err);
        stay = ett_ledger_apply(l, ETT_OP_MUL, stay, s, err);
      }
      ett_node received = ett_ledger_apply(l, ETT_OP_MUL, each, part, err);
      ett_node fraction =
          ett_graph_apply(l->graph, ETT_OP_SELECT, none, zero,
                          ett_ledger_apply(l, ETT_OP_DIV, part, units, err), err);
      ett_node sent =
          ett_ledger_apply(l, ETT_OP_MUL, counts[ETT_TX_FORWARD], fraction, err);
      if (share(l, entry, on, sent, received, received, received, err) != 0)
        return -1;
    }
  return 0;
}

int ett_ledger_broadcast(ett_ledger *l, int index, ett_set rotate, ett_err *err) {
  if (ett_ledger_known(l, index, err) != 0)
    return -1;
  const tensor t = *ett_ledger_tensor_at(l, index);
  if (rotate & ~t.dimensions)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "%s: can rotate only along dimensions of the tensor", l->label);
  int result = ett_ledger_add_tensor(l, t.name, t.dimensions, 0, err);
  if (result < 0)
    return -1;
  ett_node one = ett_ledger_constant(l, 1, err), zero = ett_ledger_constant(l, 0, err),
           stay = one;
  for (int i = 0; i < l->dimension_count; i++)
    if (ETT_IN(rotate, i) && l->dimensions[i].axis >= 0)
      stay =
          ett_ledger_apply(l, ETT_OP_MUL, stay, staying(l, &l->dimensions[i], err), err);
  ett_node nu = ett_ledger_apply(l, ETT_OP_SUB, one, stay, err);
  ett_node size = ett_ledger_sizes(l, t.dimensions, err);
  ett_node copies = ett_ledger_degrees(l, t.scattered, err);
  ett_node each = ett_ledger_apply(
      l, ETT_OP_MUL, size, ett_ledger_degrees(l, broadcast_axes(l, &t), err), err);
  ett_node units = ett_ledger_apply(
      l, ETT_OP_SUB, ett_ledger_apply(l, ETT_OP_ADD, copies, nu, err), one, err);
  ett_node received = ett_ledger_apply(l, ETT_OP_MUL, each, units, err);
  ett_node sends = ett_ledger_apply(
      l, ETT_OP_MAX, ett_ledger_apply(l, ETT_OP_LT, one, copies, err), nu, err);
  ett_node sent = ett_ledger_apply(l, ETT_OP_MUL, size, sends, err);
  ett_entry entry = {.operation = ETT_BROADCAST,
                     .left = index,
                     .right = -1,
                     .result = result,
                     .reduced = -1,
                     .counts = {zero, sent, received, received, received, received}};
  int recorded = record(l, entry, err);
  if (recorded < 0 ||
      share_broadcast(l, recorded, &t, rotate, each, units, entry.counts, err) != 0)
    return -1;
  return result;
}

int ett_ledger_reduce(ett_ledger *l, int index, int r, int from, int to, ett_err *err) {
  if (ett_ledger_known(l, index, err) != 0 || ett_ledger_known_dimension(l, r, err) != 0)
    return -1;
  const tensor t = *ett_ledger_tensor_at(l, index);
  const dimension *d = &l->dimensions[r];
  if (!ETT_IN(t.dimensions, r))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "%s: the tensor has no dimension '%s'",
                       l->label, d->name);
  ett_set kept = t.dimensions & ~ETT_BIT(r), dimensions = kept;
  ett_set scattered = t.scattered | (d->axis >= 0 ? ETT_BIT(d->axis) : 0);
  if (from >= 0 || to >= 0) {
    if (ett_ledger_known_dimension(l, from, err) != 0 ||
        ett_ledger_known_dimension(l, to, err) != 0)
      return -1;
    const dimension *old = &l->dimensions[from], *new = &l->dimensions[to];
    if (!ETT_IN(kept, from) || ETT_IN(kept, to) || new->axis < 0 || new->axis != d->axis)
      return ett_err_set(
          err, ETT_ERR_ARGUMENT,
          "%s: cannot transpose '%s' to '%s' while reducing '%s': the first "
          "must be in the tensor, the second not, and on the reduced axis",
          l->label, old->name, new->name, d->name);
    if (ett_ledger_check(l, ETT_EQUAL, old->name, old->size, new->name, new->size, err) <
        0)
      return -1;
    dimensions = (kept & ~ETT_BIT(from)) | ETT_BIT(to);
    scattered &= ~ETT_BIT(new->axis);
    if (old->axis >= 0)
      scattered |= ETT_BIT(old->axis);
  }
  int result = ett_ledger_add_tensor(l, NULL, dimensions, scattered, err);
  if (result < 0)
    return -1;
  ett_node one = ett_ledger_constant(l, 1, err), zero = ett_ledger_constant(l, 0, err);
  ett_node degree = d->axis >= 0 ? l->axes[d->axis].degree : one;
  ett_node each =
      ett_ledger_apply(l, ETT_OP_MUL, ett_ledger_sizes(l, kept, err),
                       ett_ledger_degrees(l, broadcast_axes(l, &t), err), err);
  ett_node flop = ett_ledger_apply(
      l, ETT_OP_MUL, each, ett_ledger_apply(l, ETT_OP_SUB, d->size, one, err), err);
  ett_node words = ett_ledger_apply(
      l, ETT_OP_MUL, each, ett_ledger_apply(l, ETT_OP_SUB, degree, one, err), err);
  ett_node back = ett_ledger_apply(l, ETT_OP_MUL, each,
                                   ett_ledger_apply(l, ETT_OP_LT, one, degree, err), err);
  ett_entry entry = {.operation = ETT_REDUCE,
                     .left = index,
                     .right = -1,
                     .result = result,
                     .reduced = r,
                     .counts = {flop, words, words, zero, back, words}};
  int recorded = record(l, entry, err);
  if (recorded < 0 ||
      (d->axis >= 0 && share(l, recorded, d->axis, words, words, back, words, err) != 0))
    return -1;
  return result;
}

int ett_ledger_scatter_transpose(ett_ledger *l, int index, int from, int to,
                                 ett_err *err) {
  if (ett_ledger_known(l, index, err) != 0 ||
      ett_ledger_known_dimension(l, from, err) != 0 ||
      ett_ledger_known_dimension(l, to, err) != 0)
    return -1;
  const tensor t = *ett_ledger_tensor_at(l, index);
  const dimension *old = &l->dimensions[from], *new = &l->dimensions[to];
  if (!ETT_IN(t.dimensions, from) || ETT_IN(t.dimensions, to) || new->axis >= 0)
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "%s: cannot scatter '%s' to '%s': the first must be in the tensor, "
        "the second not, and without an axis",
        l->label, old->name, new->name);
  if (ett_ledger_check(l, ETT_EQUAL, old->name, old->size, new->name, new->size, err) < 0)
    return -1;
  return ett_ledger_add_tensor(l, NULL, (t.dimensions & ~ETT_BIT(from)) | ETT_BIT(to),
                               t.scattered | (old->axis >= 0 ? ETT_BIT(old->axis) : 0),
                               err);
}

static int lowest(ett_set set) {
  int i = 0;
  while (!ETT_IN(set, i))
    i++;
  return i;
}

int ett_ledger_concatenate(ett_ledger *l, int a, int b, int *joint, ett_err *err) {
  if (ett_ledger_known(l, a, err) != 0 || ett_ledger_known(l, b, err) != 0)
    return -1;
  const tensor x = *ett_ledger_tensor_at(l, a), y = *ett_ledger_tensor_at(l, b);
  ett_set only_x = x.dimensions & ~y.dimensions, only_y = y.dimensions & ~x.dimensions;
  if (x.scattered || y.scattered || !only_x || !only_y || (only_x & (only_x - 1)) ||
      (only_y & (only_y - 1)))
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "%s: can join only unscattered tensors that differ in one dimension "
        "each",
        l->label);
  const dimension *p = &l->dimensions[lowest(only_x)],
                  *q = &l->dimensions[lowest(only_y)];
  if (p->axis != q->axis || (p->axis >= 0 && l->axes[p->axis].rotational))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "%s: '%s' and '%s' must be on the same axis to be joined",
                       l->label, p->name, q->name);
  char name[256];
  size_t length = strlen(p->name), other = strlen(q->name);
  if (length + other + 2 > sizeof name)
    return ett_err_set(err, ETT_ERR_LIMIT, "%s: names too long to join", l->label);
  memcpy(name, p->name, length);
  name[length] = '+';
  memcpy(name + length + 1, q->name, other + 1);
  ett_node size = ett_ledger_apply(l, ETT_OP_ADD, p->size, q->size, err);
  *joint = ett_ledger_find_dimension(l, name);
  if (*joint < 0)
    *joint = ett_ledger_dimension(l, name, size, p->axis, -1, true, err);
  else if (l->dimensions[*joint].size != size || l->dimensions[*joint].axis != p->axis)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "%s: the joint dimension '%s' is there already, with another size "
                       "or axis",
                       l->label, name);
  if (*joint < 0)
    return -1;
  return ett_ledger_add_tensor(l, NULL, (x.dimensions & y.dimensions) | ETT_BIT(*joint),
                               0, err);
}

int ett_ledger_dot(ett_ledger *l, int a, int b, ett_err *err) {
  if (ett_ledger_known(l, a, err) != 0 || ett_ledger_known(l, b, err) != 0)
    return -1;
  ett_set common =
      ett_ledger_tensor_at(l, a)->dimensions & ett_ledger_tensor_at(l, b)->dimensions;
  int result = ett_ledger_multiply(l, a, b, err);
  for (int with_axis = 0; with_axis < 2; with_axis++)
    for (int i = 0; i < l->dimension_count && result >= 0; i++)
      if (ETT_IN(common, i) && l->dimensions[i].autoreduce &&
          (l->dimensions[i].axis >= 0) == with_axis) {
        result = ett_ledger_reduce(l, result, i, -1, -1, err);
        if (result >= 0)
          result = ett_ledger_broadcast(l, result, 0, err);
      }
  return result;
}
