/* A fitted regressor for predictions: base, trees, twins and interval in one block of
 * memory. The block is also the model file.
 */
#ifndef ETT_REGRESS_MODEL_H
#define ETT_REGRESS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "regress/serve/design.h"
#include "regress/serve/forest.h"

#define ETT_MODEL_VERSION 5
#define ETT_MODEL_FORESTS 16
#define ETT_MODEL_NEIGHBOURS 32

typedef enum ett_provenance {
  ETT_MEASURED,     /* this kernel was sampled, and its samples weigh half or more */
  ETT_INTERPOLATED, /* inside the range of the samples in every dimension */
  ETT_EXTRAPOLATED
} ett_provenance;

/* Results of the fit. Residuals are of the logarithm of seconds with log_target, else of
 * the target itself. */
typedef struct {
  uint32_t log_target; /* trees correct log(seconds / base) */
  uint32_t has_base;   /* otherwise the base is 1 */
  double shrink;       /* share of the trees' correction that is used inside the range */
  double shrink_outside; /* the same outside the range */
  double neighbours;     /* ordered families: number of nearest sizes used as twins */
  double twin_weight;    /* share of the twins' median residual for a measured kernel */
  double floor;          /* added to the predicted difficulty */
  double width_inside, width_twin,
      width_outside;             /* 90 % quantiles of residuals divided by difficulty */
  double mode_below, mode_above; /* added to the half-width with log_target, for modes
                                    that the fit dropped */
  double size_least, size_most;
  double least[ETT_DESIGN_DIMS], most[ETT_DESIGN_DIMS];
  double error_mean, error_median; /* relative error of held-out folds */
  double rows, dropped;
} ett_model_facts;

typedef struct {
  ett_design design;
  ett_model_facts facts;
  int columns, features, forests;
  const double *x;                      /* coefficients of the columns */
  ett_forest forest[ETT_MODEL_FORESTS]; /* their mean is the correction */
  ett_forest difficulty;                /* log of the expected residual */
  uint32_t predicted;                   /* rows, until the forests are ready */
  uint32_t twins;
  const uint64_t *twin_kernel; /* ascending */
  const double *twin_residual; /* median of target - base */
  void *memory;  /* the block that the pointers above point into, or only x */
  size_t length; /* of the block; 0 without one */
} ett_model;

typedef struct {
  double value, low, high; /* seconds, or the target's unit */
  double base;
  ett_provenance provenance;
  double outside; /* log2 of how far outside the range, 0 inside */
} ett_prediction;

/* Copies the parts into one block. Returns 0 or -1. The caller frees *block. */
int ett_model_pack(const ett_model *parts, void **block, size_t *length, ett_err *err);

/* Checks a block completely, then reads it. The model owns the block and frees it. The
 * checksum, tested if is_signed, only detects accidental damage early. Returns 0, or -1
 * with the block freed. */
int ett_model_open(void *block, size_t length, bool is_signed, ett_model *model,
                   ett_err *err);
/* Opens a model of parts that its caller read and checked: the design and values
 * derived from it, facts, x, which model->memory owns, and forests. Checks facts and x.
 * Returns 0, or -1 with all of it freed. */
int ett_model_adopt(ett_model *model, ett_err *err);
void ett_model_close(ett_model *model);

/* dims[0 .. model->design.dims), checked here. Returns 0 or -1. Not for two threads at
 * once: the row after ETT_MODEL_FEW makes the forests faster (ett_forest_ready). */
enum { ETT_MODEL_FEW = 16 };
int ett_model_predict(ett_model *model, const double *dims, ett_prediction *out,
                      ett_err *err);
/* The same without the interval, in half the time: low and high are the value. */
int ett_model_value(ett_model *model, const double *dims, ett_prediction *out,
                    ett_err *err);

/* Median of the residuals of the `count` sizes nearest to position `at` in a sorted list
 * of `total`. The size at `without` is left out; total: none. */
double ett_model_neighbours(const double *residual, size_t total, size_t at, size_t count,
                            size_t without);

#endif
