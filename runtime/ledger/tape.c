#include "ledger/tape.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct instruction {
  ett_op op;
  uint32_t a, b, c; /* registers; the result is in the next one */
} instruction;

struct ett_tape {
  size_t inputs, constants, operations, outputs;
  double *constant;
  instruction *code;
  uint32_t *output; /* registers */
};

enum { LANES = ETT_TAPE_LANES };

void ett_tape_free(ett_tape *tape) {
  if (!tape)
    return;
  free(tape->constant);
  free(tape->code);
  free(tape->output);
  free(tape);
}

size_t ett_tape_inputs(const ett_tape *tape) {
  return tape->inputs;
}

size_t ett_tape_outputs(const ett_tape *tape) {
  return tape->outputs;
}

size_t ett_tape_registers(const ett_tape *tape) {
  return tape->inputs + tape->constants + tape->operations;
}

size_t ett_tape_operations(const ett_tape *tape) {
  return tape->operations;
}

/* Marks the nodes that the outputs need. Operands precede their operation in a graph. */
static void mark(const ett_graph *graph, const ett_node *outputs, size_t count,
                 bool *needed) {
  for (size_t i = 0; i < count; i++)
    needed[outputs[i]] = true;
  for (size_t i = ett_graph_size(graph); i-- > 0;) {
    if (!needed[i])
      continue;
    int arity = ett_op_arity(ett_graph_op(graph, (ett_node)i));
    for (int k = 0; k < arity; k++)
      needed[ett_graph_operand(graph, (ett_node)i, k)] = true;
  }
}

static void emit(ett_tape *tape, const ett_graph *graph, const bool *needed,
                 uint32_t *reg) {
  size_t size = ett_graph_size(graph), constants = 0, operations = 0;
  for (size_t i = 0; i < ett_graph_parameters(graph); i++)
    reg[ett_graph_parameter_node(graph, i)] = (uint32_t)i;
  for (size_t i = 0; i < size; i++)
    if (needed[i] && ett_graph_op(graph, (ett_node)i) == ETT_OP_CONSTANT) {
      reg[i] = (uint32_t)(tape->inputs + constants);
      tape->constant[constants++] = ett_graph_value(graph, (ett_node)i);
    }
  for (size_t i = 0; i < size; i++) {
    ett_op op = ett_graph_op(graph, (ett_node)i);
    int arity = ett_op_arity(op);
    if (!needed[i] || arity == 0)
      continue;
    uint32_t operand[3] = {0, 0, 0};
    for (int k = 0; k < arity; k++)
      operand[k] = reg[ett_graph_operand(graph, (ett_node)i, k)];
    reg[i] = (uint32_t)(tape->inputs + tape->constants + operations);
    tape->code[operations++] = (instruction){op, operand[0], operand[1], operand[2]};
  }
}

ett_tape *ett_tape_new(const ett_graph *graph, const ett_node *outputs, size_t count,
                       ett_err *err) {
  size_t size = ett_graph_size(graph);
  for (size_t i = 0; i < count; i++)
    if (outputs[i] < 0 || (size_t)outputs[i] >= size) {
      ett_err_set(err, ETT_ERR_INTERNAL, "output %zu is not in the graph", i + 1);
      return NULL;
    }
  ett_tape *tape = calloc(1, sizeof *tape);
  bool *needed = calloc(size + 1, sizeof *needed);
  uint32_t *reg = calloc(size + 1, sizeof *reg);
  if (!tape || !needed || !reg)
    goto short_of_memory;
  mark(graph, outputs, count, needed);
  tape->inputs = ett_graph_parameters(graph);
  tape->outputs = count;
  for (size_t i = 0; i < size; i++) {
    ett_op op = ett_graph_op(graph, (ett_node)i);
    tape->constants += needed[i] && op == ETT_OP_CONSTANT;
    tape->operations += needed[i] && ett_op_arity(op) > 0;
  }
  tape->constant = malloc((tape->constants + 1) * sizeof *tape->constant);
  tape->code = malloc((tape->operations + 1) * sizeof *tape->code);
  tape->output = malloc((count + 1) * sizeof *tape->output);
  if (!tape->constant || !tape->code || !tape->output)
    goto short_of_memory;
  emit(tape, graph, needed, reg);
  for (size_t i = 0; i < count; i++)
    tape->output[i] = reg[outputs[i]];
  free(needed);
  free(reg);
  return tape;

short_of_memory:
  ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to compile a ledger");
  ett_tape_free(tape);
  free(needed);
  free(reg);
  return NULL;
}

void ett_tape_evaluate(const ett_tape *tape, const double *inputs, double *outputs,
                       double *scratch) {
  double *next = scratch + tape->inputs + tape->constants;
  memcpy(scratch, inputs, tape->inputs * sizeof *scratch);
  memcpy(scratch + tape->inputs, tape->constant, tape->constants * sizeof *scratch);
  for (size_t i = 0; i < tape->operations; i++) {
    const instruction *at = &tape->code[i];
    *next++ = ett_op_value(at->op, scratch[at->a], scratch[at->b], scratch[at->c]);
  }
  for (size_t j = 0; j < tape->outputs; j++)
    outputs[j] = scratch[tape->output[j]];
}

#define EACH(expression)                                                                 \
  for (int k = 0; k < LANES; k++)                                                        \
    r[k] = (expression);                                                                 \
  break

static void run_lanes(const ett_tape *tape, double *restrict registers) {
  double *restrict r = registers + (tape->inputs + tape->constants) * LANES;
  for (size_t i = 0; i < tape->operations; i++, r += LANES) {
    const instruction *at = &tape->code[i];
    const double *a = registers + (size_t)at->a * LANES;
    const double *b = registers + (size_t)at->b * LANES;
    const double *c = registers + (size_t)at->c * LANES;
    switch (at->op) {
    case ETT_OP_ADD:
      EACH(a[k] + b[k]);
    case ETT_OP_SUB:
      EACH(a[k] - b[k]);
    case ETT_OP_MUL:
      EACH(a[k] * b[k]);
    case ETT_OP_DIV:
      EACH(a[k] / b[k]);
    case ETT_OP_MIN:
      EACH(b[k] < a[k] ? b[k] : a[k]);
    case ETT_OP_MAX:
      EACH(b[k] > a[k] ? b[k] : a[k]);
    case ETT_OP_LE:
      EACH(a[k] <= b[k]);
    case ETT_OP_LT:
      EACH(a[k] < b[k]);
    case ETT_OP_EQ:
      EACH(a[k] == b[k]);
    case ETT_OP_SELECT:
      EACH(a[k] != 0 ? b[k] : c[k]);
    default:
      EACH(ett_op_value(at->op, a[k], b[k], c[k]));
    }
  }
}

void ett_tape_evaluate_columns(const ett_tape *tape, size_t rows,
                               const double *const *columns, const double *defaults,
                               double *const *results, double *scratch) {
  for (size_t i = 0; i < tape->inputs; i++)
    for (int k = 0; k < LANES; k++)
      scratch[i * LANES + k] = defaults[i];
  for (size_t i = 0; i < tape->constants; i++)
    for (int k = 0; k < LANES; k++)
      scratch[(tape->inputs + i) * LANES + k] = tape->constant[i];
  for (size_t row = 0; row < rows; row += LANES) {
    size_t lanes = rows - row < LANES ? rows - row : LANES;
    for (size_t i = 0; i < tape->inputs; i++)
      if (columns[i])
        for (size_t k = 0; k < LANES; k++)
          scratch[i * LANES + k] = columns[i][row + (k < lanes ? k : 0)];
    run_lanes(tape, scratch);
    for (size_t j = 0; j < tape->outputs; j++)
      if (results[j])
        memcpy(results[j] + row, scratch + (size_t)tape->output[j] * LANES,
               lanes * sizeof(double));
  }
}

static double times(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

static ett_interval multiply(ett_interval a, ett_interval b) {
  if (a.low >= 0 && b.low >= 0)
    return (ett_interval){times(a.low, b.low), times(a.high, b.high)};
  double p = times(a.low, b.low), q = times(a.low, b.high);
  double r = times(a.high, b.low), s = times(a.high, b.high);
  return (ett_interval){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

static double over(double a, double b) {
  return a == 0 || isinf(b) ? (isinf(a) ? a : 0) : a / b;
}

static ett_interval divide(ett_interval a, ett_interval b) {
  if (b.low <= 0 && b.high >= 0) {
    if (a.low >= 0 && b.low == 0 && b.high > 0)
      return (ett_interval){over(a.low, b.high), INFINITY};
    return (ett_interval){-INFINITY, INFINITY};
  }
  double p = over(a.low, b.low), q = over(a.low, b.high);
  double r = over(a.high, b.low), s = over(a.high, b.high);
  return (ett_interval){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

static ett_interval raise_to(ett_interval a, ett_interval b) {
  if (a.low < 0)
    return a.low == a.high && b.low == b.high
               ? (ett_interval){pow(a.low, b.low), pow(a.low, b.low)}
               : (ett_interval){-INFINITY, INFINITY};
  double p = pow(a.low, b.low), q = pow(a.low, b.high);
  double r = pow(a.high, b.low), s = pow(a.high, b.high);
  return (ett_interval){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

static ett_interval modulo(ett_interval a, ett_interval b) {
  if (a.low == a.high && b.low == b.high) {
    double value = ett_op_value(ETT_OP_MOD, a.low, b.low, 0);
    return (ett_interval){value, value};
  }
  return b.low > 0 ? (ett_interval){0, b.high} : (ett_interval){-INFINITY, INFINITY};
}

static ett_interval bound(const instruction *at, ett_interval a, ett_interval b,
                          ett_interval c) {
  switch (at->op) {
  case ETT_OP_ADD:
    return (ett_interval){a.low + b.low, a.high + b.high};
  case ETT_OP_SUB: /* the same register minus itself is 0 */
    return at->a == at->b ? (ett_interval){0, 0}
                          : (ett_interval){a.low - b.high, a.high - b.low};
  case ETT_OP_MUL:
    return multiply(a, b);
  case ETT_OP_DIV:
    return divide(a, b);
  case ETT_OP_FLOOR_DIV: {
    ett_interval q = divide(a, b);
    return (ett_interval){floor(q.low), floor(q.high)};
  }
  case ETT_OP_MOD:
    return modulo(a, b);
  case ETT_OP_MIN:
    return (ett_interval){fmin(a.low, b.low), fmin(a.high, b.high)};
  case ETT_OP_MAX:
    return (ett_interval){fmax(a.low, b.low), fmax(a.high, b.high)};
  case ETT_OP_POW:
    return raise_to(a, b);
  case ETT_OP_LE:
    return (ett_interval){a.high <= b.low, a.low <= b.high};
  case ETT_OP_LT:
    return (ett_interval){a.high < b.low, a.low < b.high};
  case ETT_OP_EQ:
    return (ett_interval){a.low == a.high && b.low == b.high && a.low == b.low,
                          a.low <= b.high && b.low <= a.high};
  case ETT_OP_FLOOR:
  case ETT_OP_CEIL:
  case ETT_OP_ROUND:
  case ETT_OP_SQRT:
  case ETT_OP_LOG2:
    return (ett_interval){ett_op_value(at->op, a.low, 0, 0),
                          ett_op_value(at->op, a.high, 0, 0)};
  case ETT_OP_SELECT:
    if (a.low > 0 || a.high < 0)
      return b;
    if (a.low == 0 && a.high == 0)
      return c;
    return (ett_interval){fmin(b.low, c.low), fmax(b.high, c.high)};
  default:
    return (ett_interval){-INFINITY, INFINITY};
  }
}

void ett_tape_bound(const ett_tape *tape, const ett_interval *inputs,
                    ett_interval *outputs, ett_interval *scratch) {
  ett_interval *next = scratch + tape->inputs + tape->constants;
  memcpy(scratch, inputs, tape->inputs * sizeof *scratch);
  for (size_t i = 0; i < tape->constants; i++)
    scratch[tape->inputs + i] = (ett_interval){tape->constant[i], tape->constant[i]};
  for (size_t i = 0; i < tape->operations; i++) {
    const instruction *at = &tape->code[i];
    ett_interval r = bound(at, scratch[at->a], scratch[at->b], scratch[at->c]);
    /* inf - inf: the result may be any number */
    if (isnan(r.low) || isnan(r.high))
      r = (ett_interval){-INFINITY, INFINITY};
    *next++ = r;
  }
  for (size_t j = 0; j < tape->outputs; j++)
    outputs[j] = scratch[tape->output[j]];
}
