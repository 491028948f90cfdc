#include "regress/serve/forest.h"

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
      /* children follow their parent: no cycles */
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

/* Evaluates eight trees at once: while one waits for a node, the others proceed. A tree
 * that has reached its leaf stays there. No feature may be NaN. */
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
    for (int k = 0; k < TOGETHER; k++) /* in the order of the trees, as in the library */
      sum += leaf[k]->value;
  }
  for (; t < forest->trees; t++)
    sum += walk(forest->node + forest->roots[t], features)->value;
  return sum;
}
