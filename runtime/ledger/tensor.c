/* tensor.c - tensors: sets of dimensions, scattered axes, the elements of a rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/internal.h"

tensor *ett_ledger_tensor_at(const ett_ledger *ledger, int index) {
  return &((tensor *)ledger->tensors.items)[index];
}

const char *ett_ledger_tensor_name(const ett_ledger *ledger, int index) {
  return ett_ledger_tensor_at(ledger, index)->name;
}

ett_set ett_ledger_tensor_dimensions(const ett_ledger *ledger, int index) {
  return ett_ledger_tensor_at(ledger, index)->dimensions;
}

ett_set ett_ledger_carried(const ett_ledger *l, ett_set dimensions) {
  ett_set carried = 0;
  for (int i = 0; i < l->dimension_count; i++)
    if (ETT_IN(dimensions, i) && l->dimensions[i].axis >= 0)
      carried |= ETT_BIT(l->dimensions[i].axis);
  return carried;
}

int ett_ledger_known(const ett_ledger *l, int index, ett_err *err) {
  if (index < 0 || (size_t)index >= l->tensors.size)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "no such tensor");
  return 0;
}

int ett_ledger_known_dimension(const ett_ledger *l, int index, ett_err *err) {
  if (index < 0 || index >= l->dimension_count)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "no such dimension");
  return 0;
}

/* Records a check for two dimensions on one axis, and for scattered axes that a dimension
 * carries. */
static int check_overlap(ett_ledger *l, ett_set dimensions, ett_set scattered,
                         ett_err *err) {
  int owner[ETT_LEDGER_MAX];
  memset(owner, -1, sizeof owner);
  for (int i = 0; i < l->dimension_count; i++) {
    int on = l->dimensions[i].axis;
    if (!ETT_IN(dimensions, i) || on < 0)
      continue;
    const char *other = owner[on] >= 0          ? l->dimensions[owner[on]].name
                        : ETT_IN(scattered, on) ? l->axes[on].name
                                                : NULL;
    if (other &&
        ett_ledger_check(l, ETT_DISJOINT, l->dimensions[i].name, -1, other, -1, err) < 0)
      return -1;
    owner[on] = i;
  }
  return 0;
}

static ett_node local_of(ett_ledger *l, ett_set dimensions, ett_err *err) {
  ett_node local = ett_ledger_constant(l, 1, err);
  for (int i = 0; i < l->dimension_count; i++)
    if (ETT_IN(dimensions, i))
      local = ett_ledger_apply(l, ETT_OP_MUL, local, l->dimensions[i].local, err);
  return local;
}

static void dimension_list(const ett_ledger *l, ett_set set, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (int i = 0; i < l->dimension_count; i++)
    if (ETT_IN(set, i)) {
      const char *name = l->dimensions[i].name;
      size_t need = strlen(name) + (at > 0);
      if (at + need + 1 > size)
        return;
      if (at > 0)
        text[at++] = ' ';
      memcpy(text + at, name, need);
      at += strlen(name);
      text[at] = '\0';
    }
}

static void axis_list(const ett_ledger *l, ett_set set, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (int i = 0; i < l->axis_count; i++)
    if (ETT_IN(set, i)) {
      const char *name = l->axes[i].name;
      size_t length = strlen(name);
      if (at + length + 2 > size)
        return;
      if (at > 0)
        text[at++] = ' ';
      memcpy(text + at, name, length + 1);
      at += length;
    }
}

int ett_ledger_add_tensor(ett_ledger *l, const char *name, ett_set dimensions,
                          ett_set scattered, ett_err *err) {
  if (check_overlap(l, dimensions, scattered, err) != 0)
    return -1;
  if (scattered) {
    char names[256], held[320], over[256];
    if (name)
      snprintf(names, sizeof names, "%s", name);
    else
      dimension_list(l, dimensions, names, sizeof names);
    snprintf(held, sizeof held, "%s: elements a rank holds of %s", l->label, names);
    axis_list(l, scattered, over, sizeof over);
    ett_node local = local_of(l, dimensions, err);
    ett_node degrees = ett_ledger_degrees(l, scattered, err);
    if (ett_ledger_check(l, ETT_DIVIDES, held, local, over, degrees, err) < 0)
      return -1;
  }
  char *copy = strdup(name ? name : l->label); /* a result is named by its label */
  if (!copy)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a tensor");
  tensor *t = ett_list_add(&l->tensors, sizeof *t, err);
  if (!t) {
    free(copy);
    return -1;
  }
  *t = (tensor){copy, dimensions, scattered, ett_ledger_carried(l, dimensions)};
  return (int)l->tensors.size - 1;
}

int ett_ledger_tensor(ett_ledger *l, const char *name, ett_set dimensions,
                      ett_set scattered, ett_err *err) {
  if ((dimensions & ~ETT_ALL(l->dimension_count)) ||
      (scattered & ~ETT_ALL(l->axis_count)))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a tensor of an unknown dimension or axis");
  return ett_ledger_add_tensor(l, name, dimensions, scattered, err);
}

ett_node ett_ledger_tensor_local(ett_ledger *l, int index, ett_err *err) {
  if (ett_ledger_known(l, index, err) != 0)
    return -1;
  const tensor t = *ett_ledger_tensor_at(l, index);
  return ett_ledger_apply(l, ETT_OP_DIV, local_of(l, t.dimensions, err),
                          ett_ledger_degrees(l, t.scattered, err), err);
}
