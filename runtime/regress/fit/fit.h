/* Fits a regressor: gate, base, trees in folds, twins, interval, range. */
#ifndef ETT_REGRESS_FIT_H
#define ETT_REGRESS_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "regress/fit/boost.h"
#include "regress/fit/nnls.h"
#include "regress/serve/model.h"

typedef enum ett_outlier {
  ETT_OUTLIER_NONE,
  ETT_OUTLIER_UNPHYSICAL, /* faster than the device's peak */
  ETT_OUTLIER_TWINS,      /* far from other measurements of the same kernel */
  ETT_OUTLIER_MODE        /* far from both its neighbours and the base */
} ett_outlier;

#define ETT_FIT_FOLDS 10

typedef struct {
  bool base, trees, log_target, gate;
  bool twins; /* use measurements of the same kernel, or of its neighbours */
  ett_nnls_loss loss;
  int folds; /* 2 .. ETT_FIT_FOLDS; fewer if there are fewer kernels */
  int threads;
  double gate_ratio;     /* least error factor of a dropped row: 3 */
  int difficulty_rounds; /* trees that predict the size of residuals: 40 */
  ett_boost_config boost;
} ett_fit_config;

/* rows by design->dims doubles; seconds > 0 when log_target. least_seconds is NULL or the
 * least time each row can physically take. kinds (rows bytes, may be NULL) receives the
 * gate's result for each row. Returns 0 or -1; after 0 the caller closes the model. */
int ett_fit(const ett_design *design, const double *dims, const double *seconds,
            const double *least_seconds, size_t rows, const ett_fit_config *config,
            unsigned char *kinds, ett_model *model, ett_err *err);

/* The arguments of ett_fit; status, model and err are its results. */
typedef struct {
  ett_design design;
  const double *dims, *seconds, *least_seconds;
  size_t rows;
  ett_fit_config config;
  unsigned char *kinds;
  ett_model *model;
  int status;
  ett_err err;
} ett_fit_job;

#define ETT_FIT_JOBS 8

/* Fits 1 to ETT_FIT_JOBS regressors at the same time, each on a thread of its own. Each
 * has the same digits as alone. While one fits its base on one core, another trains
 * trees. */
void ett_fit_jobs(ett_fit_job *jobs, int count);

#endif
