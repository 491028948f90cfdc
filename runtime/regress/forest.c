#include "regress/forest.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int ett_forest_make(uint32_t trees, uint32_t nodes, ett_forest *forest, ett_err *err) {
  memset(forest, 0, sizeof *forest);
  size_t roots = ((size_t)trees + 1) / 2 * 2 * sizeof(uint32_t);
  size_t bytes = roots + (size_t)nodes * sizeof(ett_tree_node);
  forest->memory = calloc(1, bytes ? bytes : 1);
  if (!forest->memory)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %u tree nodes", nodes);
  forest->trees = trees;
  forest->nodes = nodes;
  forest->roots = forest->memory;
  forest->node = (ett_tree_node *)((char *)forest->memory + roots);
  return 0;
}

void ett_forest_free(ett_forest *forest) {
  free(forest->memory);
  memset(forest, 0, sizeof *forest);
}

int ett_forest_check(const ett_forest *f, ett_err *err) {
  if (f->trees > 0 && (f->nodes < f->trees || f->roots[0] != 0))
    return ett_err_set(err, ETT_ERR_FORMAT, "%u trees do not fit in %u nodes", f->trees,
                       f->nodes);
  if (!isfinite(f->base_score))
    return ett_err_set(err, ETT_ERR_FORMAT, "base score %g", (double)f->base_score);
  for (uint32_t t = 0; t < f->trees; t++) {
    uint32_t from = f->roots[t], to = t + 1 < f->trees ? f->roots[t + 1] : f->nodes;
    if (to <= from || to > f->nodes)
      return ett_err_set(err, ETT_ERR_FORMAT, "tree %u has its nodes out of range", t);
    for (uint32_t i = from; i < to; i++) {
      const ett_tree_node *n = &f->node[i];
      if (!isfinite(n->value) && n->feature < 0)
        return ett_err_set(err, ETT_ERR_FORMAT, "tree %u: a leaf of %g", t,
                           (double)n->value);
      if (n->feature < -1 || (n->feature >= 0 && (uint32_t)n->feature >= f->features))
        return ett_err_set(err, ETT_ERR_FORMAT, "tree %u: feature %d of %u", t,
                           n->feature, f->features);
      /* children behind their parent: no cycles */
      if (n->feature >= 0 && (n->left <= i - from || n->left >= to - from - 1))
        return ett_err_set(err, ETT_ERR_FORMAT, "tree %u: child %u of node %u", t,
                           n->left, i - from);
    }
  }
  return 0;
}

static const ett_tree_node *walk(const ett_tree_node *root, const float *features) {
  const ett_tree_node *n = root;
  while (n->feature >= 0) {
    float x = features[n->feature];
    bool left = isnan(x) ? (n->flags & 1) != 0 : x < n->value;
    n = root + n->left + (left ? 0 : 1);
  }
  return n;
}

/* Eight trees at once hide each other's loads: a step of one waits for its node, the
 * other seven go on. Trees that are through stay on their leaf. No feature may be NaN. */
enum { TOGETHER = 8 };

static void walk_together(const ett_forest *forest, uint32_t first, const float *features,
                          const ett_tree_node *leaf[TOGETHER]) {
  const ett_tree_node *root[TOGETHER];
  for (int k = 0; k < TOGETHER; k++)
    root[k] = leaf[k] = forest->node + forest->roots[first + (uint32_t)k];
  for (int active = 1; active;) {
    active = 0;
    for (int k = 0; k < TOGETHER; k++) {
      const ett_tree_node *n = leaf[k];
      int inner = n->feature >= 0;
      float x = features[inner ? n->feature : 0];
      const ett_tree_node *next = root[k] + n->left + (x < n->value ? 0 : 1);
      leaf[k] = inner ? next : n;
      active |= inner;
    }
  }
}

float ett_forest_predict(const ett_forest *forest, const float *features) {
  float sum = forest->base_score;
  uint32_t t = 0;
  bool whole = forest->features > 0;
  for (uint32_t i = 0; i < forest->features; i++)
    whole = whole && !isnan(features[i]);
  for (; whole && t + TOGETHER <= forest->trees; t += TOGETHER) {
    const ett_tree_node *leaf[TOGETHER];
    walk_together(forest, t, features, leaf);
    for (int k = 0; k < TOGETHER;
         k++) /* in the order of the trees, as the library adds */
      sum += leaf[k]->value;
  }
  for (; t < forest->trees; t++)
    sum += walk(forest->node + forest->roots[t], features)->value;
  return sum;
}

/* --- UBJSON ------------------------------------------------------------------------ */

typedef struct {
  const unsigned char *data;
  size_t length, at;
  bool bad;
  int depth;
} ubj;

typedef struct {
  double *items; /* of one array; the caller's, grown as needed */
  size_t count, room;
} numbers;

typedef struct {
  numbers left, right, feature, threshold, missing;
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

static unsigned byte(ubj *u) {
  if (u->at >= u->length) {
    u->bad = true;
    return 0;
  }
  return u->data[u->at++];
}

static uint64_t big_endian(ubj *u, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++)
    value = value << 8 | byte(u);
  return value;
}

/* A number of the given type; types that are not numbers set bad. */
static double number(ubj *u, unsigned type) {
  switch (type) {
  case 'i':
    return (int8_t)byte(u);
  case 'U':
    return (double)byte(u);
  case 'I':
    return (int16_t)big_endian(u, 2);
  case 'l':
    return (int32_t)big_endian(u, 4);
  case 'L':
    return (double)(int64_t)big_endian(u, 8);
  case 'd': {
    uint32_t bits = (uint32_t)big_endian(u, 4);
    float value;
    memcpy(&value, &bits, 4);
    return (double)value;
  }
  case 'D': {
    uint64_t bits = big_endian(u, 8);
    double value;
    memcpy(&value, &bits, 8);
    return value;
  }
  case 'T':
    return 1;
  case 'F':
    return 0;
  default:
    u->bad = true;
    return 0;
  }
}

static size_t size_of(unsigned type) {
  return type == 'i' || type == 'U'   ? 1
         : type == 'I'                ? 2
         : type == 'l' || type == 'd' ? 4
         : type == 'L' || type == 'D' ? 8
                                      : 0;
}

/* A length: never more than the bytes that are left. */
static size_t length(ubj *u) {
  unsigned type = byte(u);
  if (size_of(type) == 0 || type == 'd' || type == 'D')
    u->bad = true;
  double value = u->bad ? 0 : number(u, type);
  if (!(value >= 0) || value > (double)(u->length - u->at)) {
    u->bad = true;
    return 0;
  }
  return (size_t)value;
}

static void text(ubj *u, const unsigned char **start, size_t *count) {
  *count = length(u);
  *start = u->data + u->at;
  u->at += *count;
}

static bool same(const unsigned char *start, size_t count, const char *name) {
  return strlen(name) == count && memcmp(start, name, count) == 0;
}

static void push(ubj *u, numbers *list, double value) {
  if (list->count == list->room) {
    size_t room = list->room ? list->room * 2 : 64;
    double *items = realloc(list->items, room * sizeof *items);
    if (!items) {
      u->bad = true;
      return;
    }
    list->items = items;
    list->room = room;
  }
  list->items[list->count++] = value;
}

static void skip(ubj *u, unsigned type);

/* An array of numbers, typed or not; list may be NULL to skip it. */
static void array(ubj *u, numbers *list) {
  unsigned type = 0;
  size_t count = 0;
  bool counted = false;
  if (list)
    list->count = 0;
  if (u->at < u->length && u->data[u->at] == '$') {
    u->at++;
    type = byte(u);
  }
  if (u->at < u->length && u->data[u->at] == '#') {
    u->at++;
    count = length(u);
    counted = true;
  }
  if (type && !counted)
    u->bad = true;
  for (size_t i = 0; !u->bad && (!counted || i < count); i++) {
    unsigned item = type;
    if (!item) {
      item = byte(u);
      if (!counted && item == ']')
        return;
    }
    if (list)
      push(u, list, number(u, item));
    else
      skip(u, item);
  }
}

typedef void (*member_function)(ubj *u, const unsigned char *key, size_t key_length,
                                unsigned type, void *context);

static void object(ubj *u, member_function member, void *context) {
  size_t count = 0;
  bool counted = false;
  if (++u->depth > 32)
    u->bad = true;
  if (!u->bad && u->at < u->length && u->data[u->at] == '#') {
    u->at++;
    count = length(u);
    counted = true;
  }
  for (size_t i = 0; !u->bad && (!counted || i < count); i++) {
    if (!counted && u->at < u->length && u->data[u->at] == '}') {
      u->at++;
      break;
    }
    const unsigned char *key;
    size_t key_length;
    text(u, &key, &key_length);
    unsigned type = byte(u);
    if (!u->bad)
      member(u, key, key_length, type, context);
  }
  u->depth--;
}

static void skip_member(ubj *u, const unsigned char *key, size_t n, unsigned type,
                        void *context) {
  (void)key, (void)n, (void)context;
  skip(u, type);
}

static void skip(ubj *u, unsigned type) {
  const unsigned char *start;
  size_t count;
  switch (type) {
  case '{':
    object(u, skip_member, NULL);
    break;
  case '[':
    if (++u->depth > 32)
      u->bad = true;
    else
      array(u, NULL);
    u->depth--;
    break;
  case 'S':
    text(u, &start, &count);
    break;
  case 'Z':
  case 'N':
    break;
  case 'C':
    byte(u);
    break;
  default:
    number(u, type);
  }
}

static void tree_member(ubj *u, const unsigned char *key, size_t n, unsigned type,
                        void *context) {
  one_tree *t = context;
  numbers *list = same(key, n, "left_children")      ? &t->left
                  : same(key, n, "right_children")   ? &t->right
                  : same(key, n, "split_indices")    ? &t->feature
                  : same(key, n, "split_conditions") ? &t->threshold
                  : same(key, n, "default_left")     ? &t->missing
                                                     : NULL;
  if (list && type == '[')
    array(u, list);
  else
    skip(u, type);
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

/* Lays one tree out breadth first, so that siblings are neighbours. */
static void add_tree(ubj *u, builder *b, const one_tree *t) {
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

static void trees(ubj *u, builder *b) {
  size_t count = 0;
  bool counted = false;
  one_tree t = {0};
  unsigned kind = 0;
  if (u->at < u->length && u->data[u->at] == '$') {
    u->at++;
    kind = byte(u);
  }
  if (u->at < u->length && u->data[u->at] == '#') {
    u->at++;
    count = length(u);
    counted = true;
  }
  for (size_t i = 0; !u->bad && (!counted || i < count); i++) {
    unsigned type = kind ? kind : byte(u);
    if (!counted && type == ']')
      break;
    if (type != '{') {
      u->bad = true;
      break;
    }
    t.left.count = t.right.count = t.feature.count = t.threshold.count = 0;
    t.missing.count = 0;
    object(u, tree_member, &t);
    if (!u->bad)
      add_tree(u, b, &t);
  }
  free(t.left.items), free(t.right.items), free(t.feature.items);
  free(t.threshold.items), free(t.missing.items);
}

/* Walks learner / gradient_booster / model, and learner_model_param, by their names
 * alone: no other object of the format has keys called so. */
static void any_member(ubj *u, const unsigned char *key, size_t n, unsigned type,
                       void *context) {
  builder *b = context;
  const unsigned char *start;
  size_t count;
  if (same(key, n, "trees") && type == '[') {
    trees(u, b);
  } else if ((same(key, n, "base_score") || same(key, n, "num_feature")) && type == 'S') {
    char copy[64];
    text(u, &start, &count);
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
    object(u, any_member, b);
  } else {
    skip(u, type);
  }
}

int ett_forest_from_ubj(const unsigned char *data, size_t size, ett_forest *forest,
                        ett_err *err) {
  ubj u = {data, size, 0, false, 0};
  builder b = {0};
  memset(forest, 0, sizeof *forest);
  int status = -1;
  if (byte(&u) != '{')
    u.bad = true;
  else
    object(&u, any_member, &b);
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
