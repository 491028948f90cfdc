/* graph.h - expression graphs.
 *
 * A graph holds constants, parameters and operations on them. Every node has a value at
 * the parameters' current values. A description therefore gives the same counts on plain
 * numbers and on parameters. Outputs can be compiled into a tape (tape.h) and evaluated
 * for other values. Equal operations on equal operands share one node; operations on
 * constants are folded.
 *
 * All arithmetic is in doubles, in the caller's order: a tape gives the same bits as its
 * graph. One thread at a time may use a graph; graphs are independent of each other. */
#ifndef ETT_LEDGER_GRAPH_H
#define ETT_LEDGER_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef int32_t ett_node; /* index into its graph; negative: none */

typedef enum ett_op {
  ETT_OP_CONSTANT,
  ETT_OP_PARAMETER,
  ETT_OP_ADD,
  ETT_OP_SUB,
  ETT_OP_MUL,
  ETT_OP_DIV,
  ETT_OP_FLOOR_DIV, /* floor(a / b) */
  ETT_OP_MOD,       /* a - b floor(a / b); 0 <= result < b for b > 0 */
  ETT_OP_MIN,
  ETT_OP_MAX,
  ETT_OP_POW,
  ETT_OP_LE, /* 1 or 0 */
  ETT_OP_LT,
  ETT_OP_EQ,
  ETT_OP_FLOOR,
  ETT_OP_CEIL,
  ETT_OP_ROUND, /* half to even */
  ETT_OP_SQRT,
  ETT_OP_LOG2,
  ETT_OP_SELECT, /* a != 0 ? b : c */
} ett_op;

typedef struct ett_graph ett_graph;

/* NULL if memory runs out. */
ett_graph *ett_graph_new(void);
void ett_graph_free(ett_graph *graph);

/* Adds a parameter with its current value; the name is copied. Equal names share a node;
 * a different value for an existing name fails with ETT_ERR_ARGUMENT. Returns -1 on
 * failure. */
ett_node ett_graph_parameter(ett_graph *graph, const char *name, double value,
                             ett_err *err);
ett_node ett_graph_constant(ett_graph *graph, double value, ett_err *err);

/* Applies op to a, b, c (unused operands -1). A negative operand gives -1 and leaves *err
 * unchanged, so a chain of operations needs one check at its end. */
ett_node ett_graph_apply(ett_graph *graph, ett_op op, ett_node a, ett_node b, ett_node c,
                         ett_err *err);

/* Number of operands of op: 0 to 3. */
int ett_op_arity(ett_op op);
/* Value of op on plain numbers; graph and tape use it. */
double ett_op_value(ett_op op, double a, double b, double c);

double ett_graph_value(const ett_graph *graph, ett_node node);
ett_op ett_graph_op(const ett_graph *graph, ett_node node);
/* Operand 0, 1 or 2 of a node; -1 if the operation has fewer operands. */
ett_node ett_graph_operand(const ett_graph *graph, ett_node node, int which);
size_t ett_graph_size(const ett_graph *graph);
size_t ett_graph_parameters(const ett_graph *graph);
/* Name and node of the index-th parameter, in order of creation. The name lives with the
 * graph. */
const char *ett_graph_parameter_name(const ett_graph *graph, size_t index);
ett_node ett_graph_parameter_node(const ett_graph *graph, size_t index);

#endif
