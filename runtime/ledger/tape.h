/* tape.h - a graph's outputs, compiled: one flat list of operations on numbered
 * registers.
 *
 * Registers: the graph's parameters, then the constants used, then one per operation. A
 * tape is immutable and independent of its graph. Threads may share a tape; each thread
 * needs a scratch array of ett_tape_registers() numbers (ETT_TAPE_LANES times as many for
 * columns, twice as many for bounds).
 *
 * Evaluation uses double arithmetic in the order of the graph; results are bit-identical.
 * Bounds (interval arithmetic, 0 times infinity = 0) contain every evaluated value for
 * parameters inside the input intervals. This holds in floating point because each
 * rounded operation is monotone in each operand. */
#ifndef ETT_LEDGER_TAPE_H
#define ETT_LEDGER_TAPE_H

#include "ledger/graph.h"

enum { ETT_TAPE_LANES = 16 };

typedef struct ett_interval {
  double low, high;
} ett_interval;

typedef struct ett_tape ett_tape;

/* NULL on failure. Every output is a node of the graph. */
ett_tape *ett_tape_new(const ett_graph *graph, const ett_node *outputs, size_t count,
                       ett_err *err);
void ett_tape_free(ett_tape *tape);

size_t ett_tape_inputs(const ett_tape *tape);
size_t ett_tape_outputs(const ett_tape *tape);
size_t ett_tape_registers(const ett_tape *tape);
size_t ett_tape_operations(const ett_tape *tape);

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
