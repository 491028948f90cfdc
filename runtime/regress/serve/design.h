/* Turns a kernel's shape into the inputs of a regressor: columns of the analytic base and
 * features of the trees.
 *
 * A family is a group of kernels whose times follow the same physics. Its dimensions
 * (dims) are doubles that hold whole numbers:
 *   raw         any count: features are the dims themselves, no base but a constant
 *   gemm        batch, m, n, k
 *   attention   batch, heads, kv_heads, seq_q, seq_k, head_dim, mask: 0 without one, else
 *               the pairs that it leaves over half of seq_q * seq_k (1: causal, square)
 *   rowwise     rows, cols, aux (a length inside rows, or 1)
 *   embedding   rows, cols, vocabulary of this rank, of all ranks together
 *   optimizer   params, tensors, layers, hidden
 *   collective  elements
 *   alpha_beta  elements; base columns 1 and elements alone
 *   wave        flops, bytes (either may be 0), then any features: for operators of
 *               unknown physics
 *
 * Columns are nonnegative, and a time is a nonnegative combination of them: a launch
 * constant, FLOPs, FLOPs quantised to whole tiles and whole waves of tiles over the
 * device's multiprocessors (NVIDIA, "Matrix multiplication background user's guide",
 * tile and wave quantisation), bytes of each operand, and hinges max(x - 2^p, 0) for the
 * change of slope where a cache stops helping.
 */
#ifndef ETT_REGRESS_DESIGN_H
#define ETT_REGRESS_DESIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define ETT_DESIGN_DIMS 24
#define ETT_DESIGN_COLUMNS 96
#define ETT_DESIGN_FEATURES 64

typedef enum ett_family {
  ETT_FAMILY_RAW,
  ETT_FAMILY_GEMM,
  ETT_FAMILY_ATTENTION,
  ETT_FAMILY_ROWWISE,
  ETT_FAMILY_EMBEDDING,
  ETT_FAMILY_OPTIMIZER,
  ETT_FAMILY_COLLECTIVE,
  ETT_FAMILY_ALPHA_BETA,
  ETT_FAMILY_WAVE,
  ETT_FAMILY_COUNT
} ett_family;

typedef struct ett_design {
  ett_family family;
  bool backward; /* a GEMM's backward pass is two GEMMs */
  double multiprocessors;
  int dims;
} ett_design;

/* Names as in the list above; -1 when unknown. */
int ett_family_find(const char *name);
const char *ett_family_name(ett_family family);

/* Checks the family, its number of dims (1 to 24) and multiprocessors > 0. Returns 0 or
 * -1. */
int ett_design_check(const ett_design *design, ett_err *err);

/* Counts of columns and features of a checked design. */
int ett_design_columns(const ett_design *design);
int ett_design_features(const ett_design *design);

/* Checks that dims are finite and positive, or 0 where the list above says so. Returns 0
 * or -1. */
int ett_design_row_check(const ett_design *design, const double *dims, ett_err *err);

/* Fills columns[0 .. ett_design_columns) and features[0 .. ett_design_features). */
void ett_design_row(const ett_design *design, const double *dims, double *columns,
                    float *features);

/* For embeddings: sets the columns that depend on the table's size only to those of dims.
 */
void ett_design_table(const ett_design *design, const double *dims, double *columns);

/* Size of the kernel: the product of dimensions that its time grows with. */
double ett_design_size(const ett_design *design, const double *dims);

/* Whether kernels of the family are ordered by size alone, so that they have neighbours.
 * Their ett_design_kernel then grows with the size. */
bool ett_design_ordered(const ett_design *design);

/* Hash of dims rounded to whole numbers, equal on every machine. It excludes the
 * vocabulary of all ranks: kernels that differ only in it share a fold. */
uint64_t ett_design_kernel(const ett_design *design, const double *dims);

#endif
