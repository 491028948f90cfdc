#include "ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "ledger/internal.h"

void *ett_list_add(list *l, size_t item_size, ett_err *err) {
  if (l->size == l->capacity) {
    size_t capacity = l->capacity ? l->capacity * 2 : 16;
    void *items = realloc(l->items, capacity * item_size);
    if (!items) {
      ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a ledger");
      return NULL;
    }
    l->items = items;
    l->capacity = capacity;
  }
  void *item = (char *)l->items + l->size++ * item_size;
  memset(item, 0, item_size);
  return item;
}

static char *copy_of(const char *text, ett_err *err) {
  char *copy = strdup(text);
  if (!copy)
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a ledger");
  return copy;
}

ett_ledger *ett_ledger_new(void) {
  ett_ledger *ledger = calloc(1, sizeof *ledger);
  if (!ledger)
    return NULL;
  ledger->label = "";
  ledger->graph = ett_graph_new();
  meter *root = ledger->graph ? ett_list_add(&ledger->meters, sizeof *root, NULL) : NULL;
  ett_node one = root ? ett_graph_constant(ledger->graph, 1, NULL) : -1;
  ett_node zero = root ? ett_graph_constant(ledger->graph, 0, NULL) : -1;
  if (one < 0 || zero < 0 || !(root->name = strdup("total"))) {
    ett_ledger_free(ledger);
    return NULL;
  }
  root->parent = -1;
  root->multiplier = root->factor = one;
  for (int i = 0; i < ETT_COUNTS; i++)
    root->counts[i] = zero;
  return ledger;
}

void ett_ledger_free(ett_ledger *ledger) {
  if (!ledger)
    return;
  for (int i = 0; i < ledger->axis_count; i++)
    free(ledger->axes[i].name);
  for (int i = 0; i < ledger->dimension_count; i++)
    free(ledger->dimensions[i].name);
  for (size_t i = 0; i < ledger->tensors.size; i++)
    free(((tensor *)ledger->tensors.items)[i].name);
  for (size_t i = 0; i < ledger->meters.size; i++)
    free(((meter *)ledger->meters.items)[i].name);
  for (size_t i = 0; i < ledger->labels.size; i++)
    free(((char **)ledger->labels.items)[i]);
  free(ledger->tensors.items);
  free(ledger->meters.items);
  free(ledger->entries.items);
  free(ledger->shares.items);
  free(ledger->checks.items);
  free(ledger->labels.items);
  ett_graph_free(ledger->graph);
  free(ledger);
}

ett_graph *ett_ledger_graph(ett_ledger *ledger) {
  return ledger->graph;
}

/* A copy of text owned by the ledger; equal texts share a copy. */
static const char *keep(ett_ledger *ledger, const char *text, ett_err *err) {
  char **labels = ledger->labels.items;
  for (size_t i = ledger->labels.size; i-- > 0;)
    if (strcmp(labels[i], text) == 0)
      return labels[i];
  char **slot = ett_list_add(&ledger->labels, sizeof *slot, err);
  if (!slot)
    return NULL;
  *slot = copy_of(text, err);
  if (!*slot)
    ledger->labels.size--;
  return *slot;
}

int ett_ledger_label(ett_ledger *ledger, const char *label, ett_err *err) {
  const char *kept = keep(ledger, label, err);
  if (!kept)
    return -1;
  ledger->label = kept;
  return 0;
}

int ett_ledger_check(ett_ledger *ledger, ett_relation relation, const char *subject,
                     ett_node left, const char *object, ett_node right, ett_err *err) {
  ett_graph *g = ledger->graph;
  ett_node ok = -1;
  switch (relation) {
  case ETT_DIVIDES:
    ok = ett_graph_apply(g, ETT_OP_EQ,
                         ett_graph_apply(g, ETT_OP_MOD, left, right, -1, err),
                         ett_graph_constant(g, 0, err), -1, err);
    break;
  case ETT_AT_MOST:
    ok = ett_graph_apply(g, ETT_OP_LE, left, right, -1, err);
    break;
  case ETT_AT_LEAST:
    ok = ett_graph_apply(g, ETT_OP_LE, right, left, -1, err);
    break;
  case ETT_EQUAL:
    ok = ett_graph_apply(g, ETT_OP_EQ, left, right, -1, err);
    break;
  case ETT_DISJOINT:
    left = right = ok = ett_graph_constant(g, 0, err);
    break;
  }
  if (ok < 0)
    return -1;
  const char *subject_kept = keep(ledger, subject, err);
  const char *object_kept = keep(ledger, object, err);
  if (!subject_kept || !object_kept)
    return -1;
  ett_check *check = ett_list_add(&ledger->checks, sizeof *check, err);
  if (!check)
    return -1;
  *check =
      (ett_check){relation, subject_kept, object_kept, ledger->label, left, right, ok};
  return (int)ledger->checks.size - 1;
}

int ett_ledger_find_axis(const ett_ledger *ledger, const char *name) {
  for (int i = 0; i < ledger->axis_count; i++)
    if (strcmp(ledger->axes[i].name, name) == 0)
      return i;
  return -1;
}

int ett_ledger_find_dimension(const ett_ledger *ledger, const char *name) {
  for (int i = 0; i < ledger->dimension_count; i++)
    if (strcmp(ledger->dimensions[i].name, name) == 0)
      return i;
  return -1;
}

int ett_ledger_axis(ett_ledger *ledger, const char *name, ett_node degree,
                    bool rotational, ett_err *err) {
  if (degree < 0)
    return -1;
  if (ledger->axis_count == ETT_LEDGER_MAX)
    return ett_err_set(err, ETT_ERR_LIMIT, "axis '%s': a ledger holds at most %d axes",
                       name, ETT_LEDGER_MAX);
  if (ett_ledger_find_axis(ledger, name) >= 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "axis '%s' exists already", name);
  if (ledger->tensors.size > 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "axis '%s': axes must be made before the first tensor", name);
  if (ett_ledger_check(ledger, ETT_AT_LEAST, name, degree, "1",
                       ett_graph_constant(ledger->graph, 1, err), err) < 0)
    return -1;
  char *copy = copy_of(name, err);
  if (!copy)
    return -1;
  ledger->axes[ledger->axis_count] = (axis){copy, degree, rotational};
  return ledger->axis_count++;
}

int ett_ledger_dimension(ett_ledger *ledger, const char *name, ett_node size, int on,
                         ett_node virtual_size, bool autoreduce, ett_err *err) {
  if (size < 0)
    return -1;
  if (ledger->dimension_count == ETT_LEDGER_MAX)
    return ett_err_set(err, ETT_ERR_LIMIT,
                       "dimension '%s': a ledger holds at most %d dimensions", name,
                       ETT_LEDGER_MAX);
  if (ett_ledger_find_dimension(ledger, name) >= 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "dimension '%s' exists already", name);
  if (on >= ledger->axis_count)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "dimension '%s': unknown axis", name);
  ett_node local = size;
  if (on >= 0 && ledger->axes[on].rotational) {
    const axis *a = &ledger->axes[on];
    if (virtual_size < 0)
      return ett_err_set(
          err, ETT_ERR_ARGUMENT,
          "dimension '%s' is on the rotational axis '%s' and needs a virtual "
          "size",
          name, a->name);
    if (ett_ledger_check(ledger, ETT_EQUAL, name, size, a->name, a->degree, err) < 0 ||
        ett_ledger_check(ledger, ETT_DIVIDES, name, virtual_size, a->name, a->degree,
                         err) < 0)
      return -1;
    local = ett_graph_constant(ledger->graph, 1, err);
  } else if (on >= 0) {
    const axis *a = &ledger->axes[on];
    if (ett_ledger_check(ledger, ETT_DIVIDES, name, size, a->name, a->degree, err) < 0)
      return -1;
    local = ett_graph_apply(ledger->graph, ETT_OP_DIV, size, a->degree, -1, err);
  }
  if (local < 0)
    return -1;
  char *copy = copy_of(name, err);
  if (!copy)
    return -1;
  ledger->dimensions[ledger->dimension_count] =
      (dimension){copy, size, local, virtual_size, on < 0 ? -1 : on, autoreduce};
  return ledger->dimension_count++;
}

int ett_ledger_open(ett_ledger *ledger, const char *name, ett_node multiplier,
                    ett_err *err) {
  if (multiplier < 0)
    return -1;
  ett_node outer = ((meter *)ledger->meters.items)[ledger->meter].factor;
  ett_node factor =
      ett_graph_apply(ledger->graph, ETT_OP_MUL, outer, multiplier, -1, err);
  ett_node zero = ett_graph_constant(ledger->graph, 0, err);
  char *copy = copy_of(name, err);
  meter *m = copy && factor >= 0 && zero >= 0
                 ? ett_list_add(&ledger->meters, sizeof *m, err)
                 : NULL;
  if (!m) {
    free(copy);
    return -1;
  }
  *m = (meter){copy, ledger->meter, multiplier, factor, {0}};
  for (int i = 0; i < ETT_COUNTS; i++)
    m->counts[i] = zero;
  ledger->meter = (int)ledger->meters.size - 1;
  return ledger->meter;
}

int ett_ledger_close(ett_ledger *ledger, ett_err *err) {
  meter *meters = ledger->meters.items;
  meter *m = &meters[ledger->meter];
  if (m->parent < 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "no meter is open");
  ett_node sums[ETT_COUNTS];
  for (int i = 0; i < ETT_COUNTS; i++) {
    ett_node scaled =
        ett_graph_apply(ledger->graph, ETT_OP_MUL, m->counts[i], m->multiplier, -1, err);
    sums[i] = ett_graph_apply(ledger->graph, ETT_OP_ADD, meters[m->parent].counts[i],
                              scaled, -1, err);
    if (sums[i] < 0)
      return -1;
  }
  memcpy(meters[m->parent].counts, sums, sizeof sums);
  ledger->meter = m->parent;
  return 0;
}

size_t ett_ledger_axes(const ett_ledger *ledger) {
  return (size_t)ledger->axis_count;
}

const char *ett_ledger_axis_name(const ett_ledger *ledger, int index) {
  return ledger->axes[index].name;
}

ett_node ett_ledger_axis_degree(const ett_ledger *ledger, int index) {
  return ledger->axes[index].degree;
}

ett_node ett_ledger_constant(ett_ledger *l, double value, ett_err *err) {
  return ett_graph_constant(l->graph, value, err);
}

ett_node ett_ledger_apply(ett_ledger *l, ett_op op, ett_node a, ett_node b,
                          ett_err *err) {
  return ett_graph_apply(l->graph, op, a, b, -1, err);
}

ett_node ett_ledger_sizes(ett_ledger *l, ett_set dimensions, ett_err *err) {
  ett_node product = ett_ledger_constant(l, 1, err);
  for (int i = 0; i < l->dimension_count; i++)
    if (ETT_IN(dimensions, i))
      product = ett_ledger_apply(l, ETT_OP_MUL, product, l->dimensions[i].size, err);
  return product;
}

ett_node ett_ledger_degrees(ett_ledger *l, ett_set axes, ett_err *err) {
  ett_node product = ett_ledger_constant(l, 1, err);
  for (int i = 0; i < l->axis_count; i++)
    if (ETT_IN(axes, i))
      product = ett_ledger_apply(l, ETT_OP_MUL, product, l->axes[i].degree, err);
  return product;
}

ett_node ett_ledger_clusters(ett_ledger *ledger, ett_err *err) {
  return ett_ledger_degrees(ledger, ETT_ALL(ledger->axis_count), err);
}

const char *ett_ledger_dimension_name(const ett_ledger *ledger, int index) {
  return ledger->dimensions[index].name;
}

ett_node ett_ledger_dimension_size(const ett_ledger *ledger, int index) {
  return ledger->dimensions[index].size;
}

const ett_entry *ett_ledger_entries(const ett_ledger *ledger, size_t *count) {
  *count = ledger->entries.size;
  return ledger->entries.items;
}

const ett_share *ett_ledger_shares(const ett_ledger *ledger, size_t *count) {
  *count = ledger->shares.size;
  return ledger->shares.items;
}

const ett_check *ett_ledger_checks(const ett_ledger *ledger, size_t *count) {
  *count = ledger->checks.size;
  return ledger->checks.items;
}

const char *ett_ledger_meter_name(const ett_ledger *ledger, int index) {
  return ((meter *)ledger->meters.items)[index].name;
}

ett_node ett_ledger_meter_factor(const ett_ledger *ledger, int index) {
  return ((meter *)ledger->meters.items)[index].factor;
}

ett_node ett_ledger_meter_count(const ett_ledger *ledger, int index, int count) {
  return ((meter *)ledger->meters.items)[index].counts[count];
}
