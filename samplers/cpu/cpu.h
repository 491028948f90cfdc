/* Kernels of the CPU back end, forward and backward, in single precision on row-major
 * host buffers.
 *
 * A kind is one kernel: it names its dimensions, lists its operands for a pass, and runs.
 * The sampler times kinds on a rotating pool of operands; `ett validate` runs them on its
 * own tensors. Dense products go through OpenBLAS. The rest is compiled for baseline,
 * x86-64-v3 and x86-64-v4; the processor decides which is used. */
#ifndef ETT_CPU_CPU_H
#define ETT_CPU_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ETT_CPU_MAX_DIMS = 9, ETT_CPU_MAX_OPERANDS = 12 };

typedef enum {
  ETT_CPU_FORWARD = 0,
  ETT_CPU_BACKWARD = 1,
} ett_cpu_pass;

/* How a kernel uses an operand. Samplers fill the operand accordingly. */
typedef enum {
  ETT_CPU_INPUT = 'i',    /* read only; finite random floats */
  ETT_CPU_OUTPUT = 'o',   /* written only; any content */
  ETT_CPU_UPDATED = 'u',  /* read and written; initially zeros */
  ETT_CPU_INDEX = 'x',    /* read only; int32 in [0, limit) */
  ETT_CPU_POSITIVE = 'p', /* read only; floats in [0.5, 1.5) */
  ETT_CPU_SCRATCH = 's',  /* written before it is read; shared by all calls */
} ett_cpu_role;

typedef struct {
  const char *name;
  ett_cpu_role role;
  int64_t count;   /* 4-byte elements */
  int64_t limit;   /* exclusive upper limit of an index */
  int64_t touched; /* number of elements that one run accesses; 0: all */
} ett_cpu_operand;

/* An operand whose size is a product of dimensions. size: a letter for each dimension,
 * 'a' for d[0], and digits for factors: "2ab" is 2 * d[0] * d[1]. */
typedef struct {
  const char *name;
  ett_cpu_role role;
  const char *size;
} ett_cpu_shape;

typedef struct ett_cpu_kind {
  const char *name;
  const char *dims[ETT_CPU_MAX_DIMS + 1]; /* names in order, NULL at the end */
  /* Fills out[] with the operands of a pass in the order of run(); returns their number.
   * NULL: they are listed in forward and backward, up to a NULL name. */
  int (*operands)(const int64_t *d, ett_cpu_pass pass, ett_cpu_operand *out);
  const ett_cpu_shape *forward, *backward;
  /* Executes one pass. scalar: the kind's real parameters, NULL for defaults. */
  void (*run)(const int64_t *d, ett_cpu_pass pass, void *const *x, const double *scalar);
  int waits; /* uses wall time but no processor time (sleep) */
} ett_cpu_kind;

/* The kind of that name, or NULL. */
const ett_cpu_kind *ett_cpu_find(const char *name);

/* The kinds by index, for listing; NULL past the end. */
const ett_cpu_kind *ett_cpu_kind_at(size_t index);

/* "x86-64-v4", "x86-64-v3" or "baseline". */
const char *ett_cpu_isa(void);

/* Checks dimensions and sizes of a call and returns its operands. Returns their number,
 * or -1 with err set. */
int ett_cpu_operands(const ett_cpu_kind *kind, const int64_t *d, ett_cpu_pass pass,
                     ett_cpu_operand *out, ett_err *err);

/* Checks that every element of an index operand is in range; other operands pass. Returns
 * 0, or -1 with err set. */
int ett_cpu_check_index(const ett_cpu_kind *kind, const ett_cpu_operand *operand,
                        const void *data, ett_err *err);

#endif
