/* tape.h - expressions, compiled: one flat list of operations on numbered registers.
 *
 * Registers: the inputs, then the constants, then one per operation. A tape is immutable.
 * Threads may share a tape; each thread needs a scratch array of ett_tape_registers()
 * numbers (ETT_TAPE_LANES times as many for columns, twice as many for bounds).
 *
 * Evaluation uses double arithmetic in the order of the operations. Bounds (interval
 * arithmetic, 0 times infinity = 0) contain every evaluated value for inputs inside the
 * input intervals. This holds in floating point because each rounded operation is
 * monotone in each operand. */
#ifndef ETT_LEDGER_TAPE_H
#define ETT_LEDGER_TAPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum ett_op {
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
  ETT_OP_FLOOR, /* up to log2: one operand; select: three; all others two */
  ETT_OP_CEIL,
  ETT_OP_ROUND, /* half to even */
  ETT_OP_SQRT,
  ETT_OP_LOG2,
  ETT_OP_SELECT, /* a != 0 ? b : c */
  ETT_OPS
} ett_op;

/* op on plain numbers, as a tape computes it. */
double ett_op_value(ett_op op, double a, double b, double c);

typedef struct ett_instruction {
  ett_op op;
  uint32_t a, b, c; /* registers; those that op does not use are 0 */
} ett_instruction;

enum { ETT_TAPE_LANES = 16 };

typedef struct ett_interval {
  double low, high;
} ett_interval;

typedef struct ett_tape ett_tape;

/* Copies its arguments. NULL and *err where a register does not precede its use. */
ett_tape *ett_tape_new(size_t inputs, const double *constants, size_t constant_count,
                       const ett_instruction *code, size_t operations,
                       const uint32_t *outputs, size_t output_count, ett_err *err);
void ett_tape_free(ett_tape *tape);

size_t ett_tape_inputs(const ett_tape *tape);
size_t ett_tape_outputs(const ett_tape *tape);
size_t ett_tape_registers(const ett_tape *tape);

/* Computes outputs[j] from inputs[i]. */
void ett_tape_evaluate(const ett_tape *tape, const double *inputs, double *outputs,
                       double *scratch);

/* Evaluates `rows` points. columns[i]: `rows` values of input i, or NULL: defaults[i] in
 * every row. results[j]: receives `rows` values of output j; NULL: not stored. */
void ett_tape_evaluate_columns(const ett_tape *tape, size_t rows,
                               const double *const *columns, const double *defaults,
                               double *const *results, double *scratch);

/* Intervals of the outputs over a box of inputs. */
void ett_tape_bound(const ett_tape *tape, const ett_interval *inputs,
                    ett_interval *outputs, ett_interval *scratch);

#endif
