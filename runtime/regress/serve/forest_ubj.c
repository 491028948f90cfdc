#include "regress/serve/forest.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "regress/serve/ubj.h"

typedef struct {
  ett_ubj_numbers left, right, feature, threshold, missing;
} one_tree;

typedef struct {
  ett_tree_node *node;
  uint32_t *roots;
  size_t nodes, node_room, trees, tree_room;
  double base_score;
  bool have_base, memory;
  uint32_t features;
  const char *fault;
} builder;

static void tree_member(ett_ubj *u, const unsigned char *key, size_t n, unsigned type,
                        void *context) {
  one_tree *t = context;
  ett_ubj_numbers *list = ett_ubj_same(key, n, "left_children")      ? &t->left
                          : ett_ubj_same(key, n, "right_children")   ? &t->right
                          : ett_ubj_same(key, n, "split_indices")    ? &t->feature
                          : ett_ubj_same(key, n, "split_conditions") ? &t->threshold
                          : ett_ubj_same(key, n, "default_left")     ? &t->missing
                                                                     : NULL;
  if (list && type == '[')
    ett_ubj_array(u, list);
  else
    ett_ubj_skip(u, type);
}

static bool grow(void **items, size_t *room, size_t wanted, size_t each) {
  if (wanted <= *room)
    return true;
  size_t larger = *room ? *room : 256;
  while (larger < wanted)
    larger *= 2;
  void *memory = realloc(*items, larger * each);
  if (!memory)
    return false;
  *items = memory;
  *room = larger;
  return true;
}

/* Stores one tree in breadth-first order, so that siblings are adjacent. */
static void add_tree(ett_ubj *u, builder *b, const one_tree *t) {
  size_t count = t->left.count;
  if (count == 0 || t->right.count != count || t->feature.count != count ||
      t->threshold.count != count || count > UINT32_MAX / 4) {
    b->fault = "a tree's arrays differ in length";
    u->bad = true;
    return;
  }
  if (!grow((void **)&b->roots, &b->tree_room, b->trees + 1, sizeof *b->roots) ||
      !grow((void **)&b->node, &b->node_room, b->nodes + count, sizeof *b->node)) {
    b->memory = true;
    u->bad = true;
    return;
  }
  uint32_t *order = malloc(count * sizeof *order);
  if (!order) {
    b->memory = true;
    u->bad = true;
    return;
  }
  ett_tree_node *out = b->node + b->nodes;
  size_t queued = 1;
  order[0] = 0;
  for (size_t i = 0; i < queued && !u->bad; i++) {
    uint32_t at = order[i];
    double left = t->left.items[at], right = t->right.items[at];
    out[i] = (ett_tree_node){(float)t->threshold.items[at], -1, 0, 0};
    if (left < 0)
      continue;
    double feature = t->feature.items[at];
    if (!(left < (double)count) || !(right >= 0 && right < (double)count) ||
        !(feature >= 0 && feature < 32767) || queued + 2 > count) {
      b->fault = "a tree's children or features are out of range";
      u->bad = true;
      break;
    }
    out[i].feature = (int16_t)feature;
    out[i].flags = at < t->missing.count && t->missing.items[at] != 0 ? 1 : 0;
    out[i].left = (uint32_t)queued;
    order[queued++] = (uint32_t)left;
    order[queued++] = (uint32_t)right;
  }
  free(order);
  if (u->bad)
    return;
  b->roots[b->trees++] = (uint32_t)b->nodes;
  b->nodes += queued;
}

static void trees(ett_ubj *u, builder *b) {
  one_tree t = {0};
  unsigned kind;
  size_t count;
  bool counted = ett_ubj_head(u, &kind, &count);
  for (size_t i = 0; !u->bad && (!counted || i < count); i++) {
    unsigned type = kind ? kind : ett_ubj_byte(u);
    if (!counted && type == ']')
      break;
    if (type != '{') {
      u->bad = true;
      break;
    }
    t.left.count = t.right.count = t.feature.count = t.threshold.count = 0;
    t.missing.count = 0;
    ett_ubj_object(u, tree_member, &t);
    if (!u->bad)
      add_tree(u, b, &t);
  }
  free(t.left.items), free(t.right.items), free(t.feature.items);
  free(t.threshold.items), free(t.missing.items);
}

/* Finds learner / gradient_booster / model and learner_model_param by name only: no other
 * object of the format has keys with these names. */
static void any_member(ett_ubj *u, const unsigned char *key, size_t n, unsigned type,
                       void *context) {
  builder *b = context;
  const unsigned char *start;
  size_t count;
  if (ett_ubj_same(key, n, "trees") && type == '[') {
    trees(u, b);
  } else if ((ett_ubj_same(key, n, "base_score") ||
              ett_ubj_same(key, n, "num_feature")) &&
             type == 'S') {
    char copy[64];
    ett_ubj_text(u, &start, &count);
    if (u->bad || count >= sizeof copy) {
      u->bad = true;
      return;
    }
    memcpy(copy, start, count);
    copy[count] = 0;
    /* 3.1 and later write "[5E-1]" */
    char *end, *from = copy[0] == '[' ? copy + 1 : copy;
    double value = strtod(from, &end);
    if (end == from || (*end != 0 && *end != ']')) {
      b->fault = "base_score or num_feature is not a number";
      u->bad = true;
    } else if (n == 10) {
      b->base_score = value;
      b->have_base = true;
    } else if (value >= 0 && value <= 32767 && b->features == 0) {
      b->features = (uint32_t)value;
    }
  } else if (type == '{') {
    ett_ubj_object(u, any_member, b);
  } else {
    ett_ubj_skip(u, type);
  }
}

int ett_forest_from_ubj(const unsigned char *data, size_t size, ett_forest *forest,
                        ett_err *err) {
  ett_ubj u = {data, size, 0, false, 0};
  builder b = {0};
  memset(forest, 0, sizeof *forest);
  int status = -1;
  if (ett_ubj_byte(&u) != '{')
    u.bad = true;
  else
    ett_ubj_object(&u, any_member, &b);
  if (b.memory)
    ett_err_set(err, ETT_ERR_MEMORY, "no memory for a model of %zu bytes", size);
  else if (u.bad || !b.have_base || b.nodes > UINT32_MAX || b.trees > UINT32_MAX)
    ett_err_set(err, ETT_ERR_FORMAT, "not an XGBoost model in UBJSON: %s at byte %zu",
                b.fault       ? b.fault
                : b.have_base ? "malformed or truncated"
                              : "no base_score",
                u.at);
  else if (ett_forest_make((uint32_t)b.trees, (uint32_t)b.nodes, forest, err) == 0) {
    if (b.trees)
      memcpy(forest->roots, b.roots, b.trees * sizeof *b.roots);
    if (b.nodes)
      memcpy(forest->node, b.node, b.nodes * sizeof *b.node);
    forest->base_score = (float)b.base_score;
    forest->features = b.features;
    status = ett_forest_check(forest, err);
    if (status != 0)
      ett_forest_free(forest);
  }
  free(b.node);
  free(b.roots);
  return status;
}
