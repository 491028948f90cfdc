#include "ledger/graph.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct node {
  ett_op op;
  ett_node a, b, c; /* for a parameter, a is its index */
  double value;
} node;

typedef struct parameter {
  char *name;
  ett_node node;
} parameter;

struct ett_graph {
  node *nodes;
  size_t size, capacity;
  parameter *parameters;
  size_t parameter_count, parameter_capacity;
  ett_node *buckets; /* open addressing: node or -1 */
  size_t bucket_count;
};

int ett_op_arity(ett_op op) {
  switch (op) {
  case ETT_OP_CONSTANT:
  case ETT_OP_PARAMETER:
    return 0;
  case ETT_OP_FLOOR:
  case ETT_OP_CEIL:
  case ETT_OP_ROUND:
  case ETT_OP_SQRT:
  case ETT_OP_LOG2:
    return 1;
  case ETT_OP_SELECT:
    return 3;
  default:
    return 2;
  }
}

double ett_op_value(ett_op op, double a, double b, double c) {
  switch (op) {
  case ETT_OP_ADD:
    return a + b;
  case ETT_OP_SUB:
    return a - b;
  case ETT_OP_MUL:
    return a * b;
  case ETT_OP_DIV:
    return a / b;
  case ETT_OP_FLOOR_DIV:
    return floor(a / b);
  case ETT_OP_MOD:
    return a - b * floor(a / b);
  case ETT_OP_MIN:
    return b < a ? b : a;
  case ETT_OP_MAX:
    return b > a ? b : a;
  case ETT_OP_POW:
    return pow(a, b);
  case ETT_OP_LE:
    return a <= b;
  case ETT_OP_LT:
    return a < b;
  case ETT_OP_EQ:
    return a == b;
  case ETT_OP_FLOOR:
    return floor(a);
  case ETT_OP_CEIL:
    return ceil(a);
  case ETT_OP_ROUND:
    return rint(a);
  case ETT_OP_SQRT:
    return sqrt(a);
  case ETT_OP_LOG2:
    return log2(a);
  case ETT_OP_SELECT:
    return a != 0 ? b : c;
  default:
    return NAN;
  }
}

ett_graph *ett_graph_new(void) {
  return calloc(1, sizeof(ett_graph));
}

void ett_graph_free(ett_graph *graph) {
  if (!graph)
    return;
  for (size_t i = 0; i < graph->parameter_count; i++)
    free(graph->parameters[i].name);
  free(graph->parameters);
  free(graph->nodes);
  free(graph->buckets);
  free(graph);
}

static uint64_t hash_of(ett_op op, ett_node a, ett_node b, ett_node c, double value) {
  uint64_t bits = 0;
  if (op == ETT_OP_CONSTANT)
    memcpy(&bits, &value, sizeof bits);
  uint64_t h = bits ^ ((uint64_t)op << 58) ^ ((uint64_t)(uint32_t)a << 40) ^
               ((uint64_t)(uint32_t)b << 20) ^ (uint64_t)(uint32_t)c;
  h ^= h >> 31;
  h *= 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static bool same(const node *n, ett_op op, ett_node a, ett_node b, ett_node c,
                 double value) {
  if (n->op != op || n->a != a || n->b != b || n->c != c)
    return false;
  return op != ETT_OP_CONSTANT || memcmp(&n->value, &value, sizeof value) == 0;
}

static int grow_buckets(ett_graph *g, ett_err *err) {
  size_t count = g->bucket_count ? g->bucket_count * 2 : 256;
  ett_node *buckets = malloc(count * sizeof *buckets);
  if (!buckets)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a ledger's graph");
  for (size_t i = 0; i < count; i++)
    buckets[i] = -1;
  for (size_t i = 0; i < g->size; i++) {
    const node *n = &g->nodes[i];
    size_t at = hash_of(n->op, n->a, n->b, n->c, n->value) & (count - 1);
    while (buckets[at] >= 0)
      at = (at + 1) & (count - 1);
    buckets[at] = (ett_node)i;
  }
  free(g->buckets);
  g->buckets = buckets;
  g->bucket_count = count;
  return 0;
}

/* The unique node of this operation and operands. */
static ett_node intern(ett_graph *g, ett_op op, ett_node a, ett_node b, ett_node c,
                       double value, ett_err *err) {
  if (2 * (g->size + 1) > g->bucket_count && grow_buckets(g, err) != 0)
    return -1;
  size_t at = hash_of(op, a, b, c, value) & (g->bucket_count - 1);
  for (; g->buckets[at] >= 0; at = (at + 1) & (g->bucket_count - 1))
    if (same(&g->nodes[g->buckets[at]], op, a, b, c, value))
      return g->buckets[at];
  if (g->size == g->capacity) {
    size_t capacity = g->capacity ? g->capacity * 2 : 128;
    node *nodes =
        capacity > (1u << 24) ? NULL : realloc(g->nodes, capacity * sizeof *nodes);
    if (!nodes)
      return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a ledger's graph");
    g->nodes = nodes;
    g->capacity = capacity;
  }
  g->nodes[g->size] = (node){op, a, b, c, value};
  g->buckets[at] = (ett_node)g->size;
  return (ett_node)g->size++;
}

ett_node ett_graph_constant(ett_graph *graph, double value, ett_err *err) {
  return intern(graph, ETT_OP_CONSTANT, -1, -1, -1, value, err);
}

ett_node ett_graph_parameter(ett_graph *g, const char *name, double value, ett_err *err) {
  for (size_t i = 0; i < g->parameter_count; i++)
    if (strcmp(g->parameters[i].name, name) == 0) {
      double has = g->nodes[g->parameters[i].node].value;
      if (has == value || (isnan(has) && isnan(value)))
        return g->parameters[i].node;
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "parameter '%s' has the value %.17g, cannot also be %.17g", name,
                         has, value);
    }
  if (g->parameter_count == g->parameter_capacity) {
    size_t capacity = g->parameter_capacity ? g->parameter_capacity * 2 : 16;
    parameter *parameters = realloc(g->parameters, capacity * sizeof *parameters);
    if (!parameters)
      return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a parameter");
    g->parameters = parameters;
    g->parameter_capacity = capacity;
  }
  char *copy = strdup(name);
  if (!copy)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a parameter");
  ett_node made =
      intern(g, ETT_OP_PARAMETER, (ett_node)g->parameter_count, -1, -1, value, err);
  if (made < 0) {
    free(copy);
    return -1;
  }
  g->parameters[g->parameter_count++] = (parameter){copy, made};
  return made;
}

static bool is_constant(const ett_graph *g, ett_node n, double value) {
  return g->nodes[n].op == ETT_OP_CONSTANT && g->nodes[n].value == value;
}

ett_node ett_graph_apply(ett_graph *g, ett_op op, ett_node a, ett_node b, ett_node c,
                         ett_err *err) {
  int arity = ett_op_arity(op);
  if (arity == 0)
    return ett_err_set(err, ETT_ERR_INTERNAL, "not an operation");
  if (arity < 2)
    b = -1;
  if (arity < 3)
    c = -1;
  ett_node limit = (ett_node)g->size;
  if (a < 0 || (arity > 1 && b < 0) || (arity > 2 && c < 0))
    return -1;
  if (a >= limit || b >= limit || c >= limit)
    return ett_err_set(err, ETT_ERR_INTERNAL, "an expression of another ledger");
  /* Exact identities only: x 1 = x, x / 1 = x, x + 0 = x, x - 0 = x. */
  if (op == ETT_OP_MUL && is_constant(g, a, 1))
    return b;
  if ((op == ETT_OP_MUL || op == ETT_OP_DIV) && is_constant(g, b, 1))
    return a;
  if (op == ETT_OP_ADD && is_constant(g, a, 0))
    return b;
  if ((op == ETT_OP_ADD || op == ETT_OP_SUB) && is_constant(g, b, 0))
    return a;
  if ((op == ETT_OP_MIN || op == ETT_OP_MAX) && a == b)
    return a;
  double value = ett_op_value(op, g->nodes[a].value, b < 0 ? 0 : g->nodes[b].value,
                              c < 0 ? 0 : g->nodes[c].value);
  if (g->nodes[a].op == ETT_OP_CONSTANT && (b < 0 || g->nodes[b].op == ETT_OP_CONSTANT) &&
      (c < 0 || g->nodes[c].op == ETT_OP_CONSTANT))
    return ett_graph_constant(g, value, err);
  if (op == ETT_OP_SELECT && g->nodes[a].op == ETT_OP_CONSTANT)
    return g->nodes[a].value != 0 ? b : c;
  return intern(g, op, a, b, c, value, err);
}

double ett_graph_value(const ett_graph *graph, ett_node n) {
  return n >= 0 && (size_t)n < graph->size ? graph->nodes[n].value : NAN;
}

ett_op ett_graph_op(const ett_graph *graph, ett_node n) {
  return graph->nodes[n].op;
}

ett_node ett_graph_operand(const ett_graph *graph, ett_node n, int which) {
  const node *at = &graph->nodes[n];
  return which == 0 ? at->a : which == 1 ? at->b : at->c;
}

size_t ett_graph_size(const ett_graph *graph) {
  return graph->size;
}

size_t ett_graph_parameters(const ett_graph *graph) {
  return graph->parameter_count;
}

const char *ett_graph_parameter_name(const ett_graph *graph, size_t index) {
  return graph->parameters[index].name;
}

ett_node ett_graph_parameter_node(const ett_graph *graph, size_t index) {
  return graph->parameters[index].node;
}
