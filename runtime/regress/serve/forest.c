#include "regress/serve/forest.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int ett_forest_make(uint32_t trees, uint32_t nodes, ett_forest *forest, ett_err *err) {
  memset(forest, 0, sizeof *forest);
  size_t roots = ((size_t)trees + 1) / 2 * 2 * sizeof(uint32_t);
  size_t bytes = roots + (size_t)nodes * sizeof(ett_tree_node);
  forest->memory = malloc(bytes ? bytes : 1);
  if (!forest->memory)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %u tree nodes", nodes);
  forest->trees = trees;
  forest->nodes = nodes;
  forest->roots = memset(forest->memory, 0, roots);
  forest->node = (ett_tree_node *)((char *)forest->memory + roots);
  return 0;
}

void ett_forest_free(ett_forest *forest) {
  free(forest->memory);
  free(forest->step);
  free(forest->split);
  memset(forest, 0, sizeof *forest);
}

int ett_forest_check(const ett_forest *f, ett_err *err) {
  if (f->trees > 0 && (f->nodes < f->trees || f->roots[0] != 0))
    return ett_err_set(err, ETT_ERR_FORMAT, "%u trees do not fit in %u nodes", f->trees,
                       f->nodes);
  if (!isfinite(f->base_score))
    return ett_err_set(err, ETT_ERR_FORMAT, "the base score must be finite, got %g",
                       (double)f->base_score);
  for (uint32_t t = 0; t < f->trees; t++) {
    uint32_t from = f->roots[t], to = t + 1 < f->trees ? f->roots[t + 1] : f->nodes;
    if (to <= from || to > f->nodes)
      return ett_err_set(err, ETT_ERR_FORMAT, "tree %u has its nodes out of range", t);
    for (uint32_t i = from; i < to; i++) {
      const ett_tree_node *n = &f->node[i];
      if (n->feature < 0 ? !isfinite(n->value) : isnan(n->value))
        return ett_err_set(err, ETT_ERR_FORMAT, "tree %u has a %s of %g", t,
                           n->feature < 0 ? "leaf" : "threshold", (double)n->value);
      if (n->feature < -1 || (n->feature >= 0 && (uint32_t)n->feature >= f->features))
        return ett_err_set(err, ETT_ERR_FORMAT, "tree %u reads feature %d of %u features",
                           t, n->feature, f->features);
      /* children follow their parent: no cycles */
      if (n->feature >= 0 && (n->left <= i - from || n->left >= to - from - 1))
        return ett_err_set(err, ETT_ERR_FORMAT,
                           "tree %u has child %u at node %u, out of order", t, n->left,
                           i - from);
    }
  }
  return 0;
}

static uint32_t end_of(const ett_forest *f, uint32_t tree) {
  return tree + 1 < f->trees ? f->roots[tree + 1] : f->nodes;
}

/* Fills the steps of a tree; returns its depth. */
static uint16_t fill_steps(const ett_tree_node *node, uint32_t count,
                           ett_tree_step *step) {
  for (uint32_t i = count; i-- > 0;) { /* the height, in place of the feature */
    const ett_tree_node *n = &node[i];
    const ett_tree_step *child = &step[n->feature < 0 ? i : n->left];
    step[i].feature = 0;
    if (n->feature >= 0)
      step[i].feature =
          1 + (child[0].feature > child[1].feature ? child[0] : child[1]).feature;
  }
  const uint16_t depth = step[0].feature;
  for (uint32_t i = 0; i < count; i++) {
    const ett_tree_node *n = &node[i];
    step[i] = n->feature < 0
                  ? (ett_tree_step){-INFINITY, 0, (uint16_t)(i - 1)}
                  : (ett_tree_step){n->value, (uint16_t)n->feature, (uint16_t)n->left};
  }
  return depth;
}

/* Complete trees have these levels. Deeper trees would take more memory than steps. */
enum { LEVELS_LEAST = 4, LEVELS_MOST = 6 };

/* Depth below node i; levels + 1 if it is more than `levels`. */
static uint32_t depth_of(const ett_tree_node *root, uint32_t i, uint32_t levels) {
  if (root[i].feature < 0)
    return 0;
  if (levels == 0)
    return 1;
  uint32_t left = depth_of(root, root[i].left, levels - 1);
  uint32_t right = depth_of(root, root[i].left + 1, levels - 1);
  return 1 + (left > right ? left : right);
}

/* Fills the part of a complete tree below split `at`, which has `levels` levels, from
 * node i; `leaf`: the first of its leaves. Splits below a leaf all lead to its value. */
static void fill_complete(const ett_tree_node *root, uint32_t i, uint32_t at,
                          uint32_t levels, ett_tree_split *split, float *leaf) {
  const ett_tree_node *n = &root[i];
  int ends = n->feature < 0;
  if (levels == 0) {
    *leaf = n->value;
    return;
  }
  split[at] =
      ends ? (ett_tree_split){0, 0} : (ett_tree_split){n->value, (uint32_t)n->feature};
  fill_complete(root, ends ? i : n->left, 2 * at, levels - 1, split, leaf);
  fill_complete(root, ends ? i : n->left + 1, 2 * at + 1, levels - 1, split,
                leaf + (1u << (levels - 1)));
}

/* Makes complete trees unless a tree is too deep. */
static int make_complete(ett_forest *f, ett_err *err) {
  uint32_t levels = LEVELS_LEAST;
  for (uint32_t t = 0; t < f->trees && levels <= LEVELS_MOST; t++) {
    uint32_t depth = depth_of(f->node + f->roots[t], 0, LEVELS_MOST);
    levels = depth > levels ? depth : levels;
  }
  if (levels > LEVELS_MOST || f->trees == 0)
    return 0;
  size_t count = (size_t)f->trees << levels;
  f->split = malloc(count * (sizeof *f->split + sizeof *f->leaf));
  if (!f->split)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %u trees", f->trees);
  f->leaf = (float *)(f->split + count);
  f->levels = levels;
  for (uint32_t t = 0; t < f->trees; t++) {
    size_t first = (size_t)t << levels;
    fill_complete(f->node + f->roots[t], 0, 1, levels, f->split + first, f->leaf + first);
  }
  return 0;
}

int ett_forest_ready(ett_forest *f, ett_err *err) {
  if (make_complete(f, err) != 0)
    return -1;
  if (f->split)
    return 0;
  for (uint32_t t = 0; t < f->trees; t++)
    if (end_of(f, t) - f->roots[t] > UINT16_MAX)
      return 0;
  const size_t bytes = f->nodes * sizeof *f->step + f->trees * sizeof *f->depth;
  f->step = malloc(bytes ? bytes : 1);
  if (!f->step)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %u tree nodes", f->nodes);
  f->depth = (uint16_t *)(f->step + f->nodes);
  for (uint32_t t = 0; t < f->trees; t++)
    f->depth[t] = fill_steps(f->node + f->roots[t], end_of(f, t) - f->roots[t],
                             f->step + f->roots[t]);
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

/* Evaluates `count` trees at once, at most MOST: while one waits for a node, the others
 * proceed. No feature may be NaN. */
enum { MOST = 20, FEWER = 10 };

static inline float add_trees(const ett_forest *f, uint32_t first, const float *features,
                              float sum, const uint32_t count) {
  const ett_tree_step *tree[MOST];
  uint32_t at[MOST] = {0}, depth = 0;
  for (uint32_t k = 0; k < count; k++) {
    tree[k] = f->step + f->roots[first + k];
    depth = depth > f->depth[first + k] ? depth : f->depth[first + k];
  }
  for (; depth > 0; depth--)
#pragma GCC unroll 20
    for (uint32_t k = 0; k < count; k++) {
      const ett_tree_step s = tree[k][at[k]];
      at[k] = (uint16_t)(s.left + !(features[s.feature] < s.threshold));
    }
  for (uint32_t k = 0; k < count; k++) /* in the order of the trees, as in the library */
    sum += f->node[f->roots[first + k] + at[k]].value;
  return sum;
}

/* The same for complete trees. */
static inline __attribute__((always_inline)) float
add_complete(const ett_forest *f, uint32_t first, const float *features, float sum,
             const uint32_t count, const uint32_t levels) {
  const size_t leaves = (size_t)1 << levels;
  const ett_tree_split *split = f->split + ((size_t)first << levels);
  __asm__("" : "+r"(split)); /* else the compiler keeps a pointer for each tree */
  const float *leaf = f->leaf + ((size_t)first << levels);
  size_t at[FEWER];
#pragma GCC unroll 10
  for (uint32_t k = 0; k < count; k++)
    at[k] = 1;
  for (uint32_t level = 0; level < levels; level++)
#pragma GCC unroll 10
    for (uint32_t k = 0; k < count; k++) {
      const ett_tree_split *s = &split[k * leaves + at[k]];
      at[k] = 2 * at[k] + !(features[s->feature] < s->threshold);
    }
#pragma GCC unroll 10
  for (uint32_t k = 0; k < count; k++)
    sum += leaf[k * leaves + at[k] - leaves];
  return sum;
}

static inline __attribute__((always_inline)) float
predict_complete(const ett_forest *f, const float *features, const uint32_t levels) {
  float sum = f->base_score;
  uint32_t t = 0;
  for (; t + FEWER <= f->trees; t += FEWER)
    sum = add_complete(f, t, features, sum, FEWER, levels);
  for (; t < f->trees; t++)
    sum = add_complete(f, t, features, sum, 1, levels);
  return sum;
}

float ett_forest_predict(const ett_forest *forest, const float *features) {
  float sum = forest->base_score;
  uint32_t t = 0;
  bool whole = forest->features > 0 && (forest->step || forest->split);
  for (uint32_t i = 0; i < forest->features; i++)
    whole = whole && !isnan(features[i]);
  if (whole && forest->split)
    return forest->levels == 4   ? predict_complete(forest, features, 4)
           : forest->levels == 5 ? predict_complete(forest, features, 5)
                                 : predict_complete(forest, features, 6);
  for (; whole && t + MOST <= forest->trees; t += MOST)
    sum = add_trees(forest, t, features, sum, MOST);
  for (; whole && t + FEWER <= forest->trees; t += FEWER)
    sum = add_trees(forest, t, features, sum, FEWER);
  for (; t < forest->trees; t++)
    sum += walk(forest->node + forest->roots[t], features)->value;
  return sum;
}
