/* Compiled trees: the evaluator that serves boosted trees and random forests.
 *
 * A node is 12 bytes; the right child follows the left one. Sums run in float from
 * base_score in the order of the trees, as in XGBoost, so predictions equal the library's
 * to the last bit. Nothing here needs XGBoost.
 */
#ifndef ETT_REGRESS_FOREST_H
#define ETT_REGRESS_FOREST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct {
  float value;     /* threshold (x < value goes left), or the leaf's value */
  int16_t feature; /* -1: a leaf */
  uint16_t flags;  /* 1: NaN goes left */
  uint32_t left;   /* index of the left child, counted from the tree's root */
} ett_tree_node;

/* A node for evaluation without branches: the next node of its tree is left + (0 if
 * features[feature] < threshold, else 1). A leaf leads to itself. */
typedef struct {
  float threshold;
  uint16_t feature, left;
} ett_tree_step;

/* A split of a complete tree, whose leaves have one depth. Split i of a tree, from 1,
 * leads to 2 i + (0 if features[feature] < threshold, else 1). */
typedef struct {
  float threshold;
  uint32_t feature;
} ett_tree_split;

typedef struct {
  uint32_t trees, nodes, features;
  float base_score;
  uint32_t *roots; /* index into node of each tree's root, ascending */
  ett_tree_node *node;
  void *memory; /* freed by ett_forest_free; NULL in a view */
  /* Made by ett_forest_ready. Forests of shallow trees get complete trees: 2^levels
   * splits and leaves of each; others get steps. */
  uint32_t levels;
  ett_tree_split *split; /* or NULL */
  float *leaf;           /* behind the splits */
  ett_tree_step *step;   /* of each node, or NULL */
  uint16_t *depth;       /* of each tree, behind the steps */
} ett_forest;

/* Allocates a forest of this many trees and nodes, its roots 0. Returns 0 or -1. */
int ett_forest_make(uint32_t trees, uint32_t nodes, ett_forest *forest, ett_err *err);
void ett_forest_free(ett_forest *forest);

/* Checks that every index is inside its tree, children follow their parent, and features
 * are in range. Then evaluation is safe for a forest from any source. Returns 0 or -1. */
int ett_forest_check(const ett_forest *forest, ett_err *err);

/* Makes evaluation of a checked forest faster. Returns 0 or -1. */
int ett_forest_ready(ett_forest *forest, ett_err *err);

/* The sum of a row's leaves. features[0 .. forest->features). */
float ett_forest_predict(const ett_forest *forest, const float *features);

#endif
