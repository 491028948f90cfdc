#include "regress/fit/boost.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "io/number.h"

/* One line of a tree's text: "3:[f2<0.5] yes=7,no=8,missing=7" or "7:leaf=0.25". */
typedef struct {
  float value;
  int feature, left, right, missing; /* feature -1: a leaf */
} line;

static bool pass(const char **text, const char *word) {
  const size_t length = strlen(word);
  const bool same = strncmp(*text, word, length) == 0;
  *text += same ? length : 0;
  return same;
}

static bool read_integer(const char **text, const char *before, int *value) {
  char *end = NULL;
  if (!pass(text, before))
    return false;
  *value = (int)strtol(*text, &end, 10);
  const bool any = end > *text;
  *text = end;
  return any;
}

static bool read_float(const char **text, const char *before, char end, float *value) {
  if (!pass(text, before))
    return false;
  const size_t length = strcspn(*text, (char[]){end, '\n', '\0'});
  const ett_number n = ett_number_parse(*text, length);
  *text += length;
  *value = (float)n.number;
  return n.kind != ETT_NUMBER_NONE;
}

/* Reads the line at *text, advances it, and returns the node's number, or -1. */
static int read_line(const char **text, line *l) {
  int id = -1;
  l->feature = -1;
  l->left = l->right = l->missing = 0;
  *text += strspn(*text, "\t\n");
  const bool known =
      read_integer(text, "", &id) &&
      (read_float(text, ":leaf=", '\n', &l->value) ||
       (read_integer(text, ":[f", &l->feature) && read_float(text, "<", ']', &l->value) &&
        read_integer(text, "] yes=", &l->left) && read_integer(text, ",no=", &l->right) &&
        read_integer(text, ",missing=", &l->missing) && l->feature >= 0));
  *text += strspn(*text, "\n");
  return known ? id : -1;
}

/* Reads a tree to lines by node number, of which there is room for `room`; returns 0 or
 * -1. Removed nodes leave lines that ett_forest_check refuses. */
static int read_tree(const char *text, line *lines, int room) {
  for (int i = 0; i < room; i++)
    lines[i] = (line){.value = NAN, .feature = -1};
  while (*text) {
    line one;
    const int id = read_line(&text, &one);
    if (id < 0 || id >= room || one.feature >= INT16_MAX || one.left < 0 ||
        one.left >= room || one.right < 0 || one.right >= room)
      return -1;
    lines[id] = one;
  }
  return 0;
}

/* Appends a tree to nodes, which has room for `room`; returns their number, 0 on a fault.
 */
static uint32_t add_tree(const line *lines, ett_tree_node *nodes, uint32_t room,
                         int *order) {
  uint32_t queued = room > 0;
  order[0] = 0;
  for (uint32_t i = 0; i < queued; i++) {
    const line *l = &lines[order[i]];
    nodes[i] = (ett_tree_node){l->value, (int16_t)l->feature, 0, 0};
    if (l->feature < 0)
      continue;
    if (queued + 2 > room)
      return 0;
    nodes[i].flags = l->missing == l->left;
    nodes[i].left = queued;
    order[queued++] = l->left;
    order[queued++] = l->right;
  }
  return queued;
}

static int most_nodes(const char *const *trees, size_t count) {
  int most = 1;
  for (size_t t = 0; t < count; t++)
    for (const char *at = trees[t]; *at; at += strcspn(at, "\n"), at += *at == '\n') {
      const int id = atoi(at);
      most = id >= most ? id + 1 : most;
    }
  return most;
}

int ett_forest_from_dump(const char *const *trees, size_t count, uint32_t features,
                         double base_score, ett_forest *forest, ett_err *err) {
  uint32_t lines_of_all = 0, used = 0;
  memset(forest, 0, sizeof *forest);
  for (size_t t = 0; t < count; t++)
    for (const char *c = trees[t]; *c; c++)
      lines_of_all += *c == '\n';
  const int most = most_nodes(trees, count);
  line *lines = malloc((size_t)most * sizeof *lines);
  int *order = malloc((size_t)lines_of_all * sizeof *order + sizeof *order);
  int status = -1;
  if (!lines || !order)
    ett_err_set(err, ETT_ERR_MEMORY, "no memory for a model of %zu trees", count);
  else
    status = ett_forest_make((uint32_t)count, lines_of_all, forest, err);
  forest->features = features;
  forest->base_score = (float)base_score;
  for (size_t t = 0; status == 0 && t < count; t++) {
    const uint32_t nodes =
        read_tree(trees[t], lines, most) == 0
            ? add_tree(lines, forest->node + used, lines_of_all - used, order)
            : 0;
    if (nodes == 0)
      status = ett_err_set(err, ETT_ERR_FORMAT, "tree %zu of XGBoost is not as expected",
                           t + 1);
    else
      forest->roots[t] = used;
    used += nodes;
  }
  free(lines);
  free(order);
  if (status == 0) {
    forest->nodes = used;
    status = ett_forest_check(forest, err);
    if (status == 0)
      status = ett_forest_ready(forest, err);
  }
  if (status != 0)
    ett_forest_free(forest);
  return status;
}
