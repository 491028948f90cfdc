#include "regress/fit/boost.h"

#include <stdlib.h>
#include <string.h>

/* The arrays of a tree in a model as XGBoost saves it in UBJSON, in their order: the name
 * of a field, its type ($U: a byte, $l: 4 bytes, $d: a float), and the type of its length
 * (#L: 8 bytes). Numbers begin with their highest byte. Leaves have the left child -1 and
 * their value in split_conditions. */
enum { DEFAULT_LEFT, LEFT, RIGHT, VALUE, FEATURE, PARTS };
static const char *const part_names[PARTS] = {
    "default_left[$U#L", "left_children[$l#L", "right_children[$l#L",
    "split_conditions[$d#L", "split_indices[$l#L"};

typedef struct {
  const unsigned char *part[PARTS];
  uint64_t nodes;
} tree;

static uint64_t number(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++)
    value = value << 8 | at[i];
  return value;
}

static int32_t integer(const unsigned char *part, size_t i) {
  return (int32_t)(uint32_t)number(part + 4 * i, 4);
}

/* Finds the next tree at *at and advances *at. 0: no more trees, or not as expected. */
static int next_tree(const unsigned char **at, const unsigned char *end, tree *t) {
  for (int k = 0; k < PARTS; k++) {
    const size_t length = strlen(part_names[k]);
    const unsigned char *found = memmem(*at, (size_t)(end - *at), part_names[k], length);
    if (!found || end - found < (ptrdiff_t)length + 8)
      return 0;
    const uint64_t count = number(found + length, 8);
    *at = t->part[k] = found + length + 8;
    if (count < 1 || count > (uint64_t)(end - *at) / (k == DEFAULT_LEFT ? 1 : 4) ||
        (k > 0 && count != t->nodes))
      return 0;
    t->nodes = count;
  }
  return 1;
}

/* Appends a tree to nodes, which has room for all of them; returns their number, 0 on a
 * fault. Removed nodes are left out. */
static uint32_t add_tree(const tree *t, ett_tree_node *nodes, int32_t *order) {
  const int32_t count = (int32_t)t->nodes;
  int32_t queued = 1;
  order[0] = 0;
  for (int32_t i = 0; i < queued; i++) {
    const size_t id = (size_t)order[i];
    const int32_t left = integer(t->part[LEFT], id), right = integer(t->part[RIGHT], id),
                  feature = integer(t->part[FEATURE], id);
    const uint32_t bits = (uint32_t)integer(t->part[VALUE], id);
    nodes[i] = (ett_tree_node){0, -1, 0, 0};
    memcpy(&nodes[i].value, &bits, sizeof bits);
    if (left == -1)
      continue;
    if (left < 0 || left >= count || right < 0 || right >= count || feature < 0 ||
        feature >= INT16_MAX || queued + 2 > count)
      return 0;
    nodes[i].feature = (int16_t)feature;
    nodes[i].flags = t->part[DEFAULT_LEFT][id] != 0;
    nodes[i].left = (uint32_t)queued;
    order[queued++] = left;
    order[queued++] = right;
  }
  return (uint32_t)queued;
}

int ett_forest_from_ubj(const char *model, size_t length, uint32_t features,
                        double base_score, ett_forest *forest, ett_err *err) {
  const unsigned char *at = (const unsigned char *)model, *end = at + length;
  uint64_t trees = 0, nodes = 0, most = 0;
  tree t;
  memset(forest, 0, sizeof *forest);
  for (; next_tree(&at, end, &t); trees++, nodes += t.nodes)
    most = t.nodes > most ? t.nodes : most;
  if (trees == 0 || nodes > INT32_MAX)
    return ett_err_set(err, ETT_ERR_FORMAT, "the model of XGBoost is not as expected");
  int32_t *order = malloc(most * sizeof *order);
  int status =
      order ? ett_forest_make((uint32_t)trees, (uint32_t)nodes, forest, err)
            : ett_err_set(err, ETT_ERR_MEMORY, "no memory for %d tree nodes", (int)most);
  forest->features = features;
  forest->base_score = (float)base_score;
  forest->nodes = 0;
  at = (const unsigned char *)model;
  for (uint32_t i = 0; status == 0 && next_tree(&at, end, &t); i++) {
    forest->roots[i] = forest->nodes;
    const uint32_t used = add_tree(&t, forest->node + forest->nodes, order);
    forest->nodes += used;
    if (used == 0)
      status = ett_err_set(err, ETT_ERR_FORMAT, "tree %u of XGBoost is not as expected",
                           i + 1);
  }
  free(order);
  if (status == 0)
    status = ett_forest_check(forest, err);
  if (status == 0)
    status = ett_forest_ready(forest, err);
  if (status != 0)
    ett_forest_free(forest);
  return status;
}
