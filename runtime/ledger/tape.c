#include "ledger/tape.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct ett_tape {
  size_t inputs, constants, operations, outputs;
  double *constant;
  ett_instruction *code;
  uint32_t *output; /* registers */
};

enum { LANES = ETT_TAPE_LANES };

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

/* A copy of `bytes` bytes; NULL when memory is short. */
static void *copy_of(const void *from, size_t bytes) {
  void *copy = malloc(bytes + 1);
  if (copy && bytes > 0)
    memcpy(copy, from, bytes);
  return copy;
}

ett_tape *ett_tape_new(size_t inputs, const double *constants, size_t constant_count,
                       const ett_instruction *code, size_t operations,
                       const uint32_t *outputs, size_t output_count, ett_err *err) {
  size_t registers = inputs + constant_count;
  bool known = true;
  for (size_t i = 0; i < operations; i++, registers++)
    known = known && (unsigned)code[i].op < ETT_OPS && code[i].a < registers &&
            code[i].b < registers && code[i].c < registers;
  for (size_t i = 0; i < output_count; i++)
    known = known && outputs[i] < registers;
  if (!known) {
    ett_err_set(err, ETT_ERR_ARGUMENT, "an operation or register that does not exist");
    return NULL;
  }
  ett_tape *tape = calloc(1, sizeof *tape);
  if (tape)
    *tape = (ett_tape){.inputs = inputs,
                       .constants = constant_count,
                       .operations = operations,
                       .outputs = output_count,
                       .constant = copy_of(constants, constant_count * sizeof *constants),
                       .code = copy_of(code, operations * sizeof *code),
                       .output = copy_of(outputs, output_count * sizeof *outputs)};
  if (tape && tape->constant && tape->code && tape->output)
    return tape;
  ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to compile a ledger");
  ett_tape_free(tape);
  return NULL;
}

void ett_tape_evaluate(const ett_tape *tape, const double *inputs, double *outputs,
                       double *scratch) {
  double *next = scratch + tape->inputs + tape->constants;
  memcpy(scratch, inputs, tape->inputs * sizeof *scratch);
  memcpy(scratch + tape->inputs, tape->constant, tape->constants * sizeof *scratch);
  for (size_t i = 0; i < tape->operations; i++) {
    const ett_instruction *at = &tape->code[i];
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
    const ett_instruction *at = &tape->code[i];
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

static ett_interval bound(const ett_instruction *at, ett_interval a, ett_interval b,
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
    const ett_instruction *at = &tape->code[i];
    ett_interval r = bound(at, scratch[at->a], scratch[at->b], scratch[at->c]);
    /* inf - inf: the result may be any number */
    if (isnan(r.low) || isnan(r.high))
      r = (ett_interval){-INFINITY, INFINITY};
    *next++ = r;
  }
  for (size_t j = 0; j < tape->outputs; j++)
    outputs[j] = scratch[tape->output[j]];
}
