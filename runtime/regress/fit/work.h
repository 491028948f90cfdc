/* Data that the steps of a fit share: rows with their columns, features and results.
 * Private to fit.c, folds.c and residuals.c. */
#ifndef ETT_REGRESS_WORK_H
#define ETT_REGRESS_WORK_H

#include "regress/fit/fit.h"

#define ETT_FIT_LEVEL 0.9  /* of the interval */
#define ETT_FIT_FAINT 0.05 /* weight of down-weighted rows in the base fit */

/* Everything of one fit; arrays live in `store`. */
typedef struct {
  const ett_design *design;
  const ett_fit_config *config;
  size_t rows;
  int columns, features;
  int folds; /* at most as many as kernels; 1 if no row can be held out */
  /* The fold that holds a row out; all rows of a kernel have the same fold. */
  unsigned char *fold;
  double *column, *seconds, *target, *base, *held_out, *scratch, *size, *x, *loo,
      *weight;         /* of the base's rows */
  double *held_target; /* target over the base that is fitted without the row's fold */
  float *feature, *label;
  uint64_t *kernel;
  unsigned char *has_twin;
  size_t *order; /* rows sorted by kernel; in ordered families that is by size */
  double *store;
  double *mode_distance; /* for each row that the gate dropped as another mode: the
                            logarithm of its time divided by the expected time */
  size_t mode_rows;
} ett_work;

/* Memory for `rows` rows, zeroed. Set design, config, columns and features first. */
int ett_work_make(ett_work *w, size_t rows, ett_err *err);
void ett_work_drop(ett_work *w);

/* Columns, features, seconds, size and kernel of the rows whose kinds[] is 0 (kinds may
 * be NULL), their order and folds. Returns 0 or -1. */
int ett_work_fill(ett_work *w, const double *dims, const double *seconds,
                  const unsigned char *kinds, size_t rows, ett_err *err);

/* Fits the base and fills base[] and target[]. Without columns the base is 1. */
int ett_work_base(ett_work *w, const double *weight, ett_err *err);

/* The base of row i with coefficients x. */
double ett_work_base_of(const ett_work *w, size_t i, const double *x);

/* The target of row i over the base with coefficients x. */
double ett_work_target_of(const ett_work *w, size_t i, const double *x);

/* Quantile q of values[0 .. n), which are reordered. */
double ett_work_quantile(double *values, size_t n, double q);

/* Rows order[from .. end) are of one kernel. */
size_t ett_work_group_end(const ett_work *w, size_t from);

/* Median of target[] over order[from .. to), whose values are sorted into sorted[]. */
double ett_work_group_median(const ett_work *w, const double *target, size_t from,
                             size_t to, double *sorted);

/* Median of sorted[0 .. n), n >= 2, without one of the elements that equal `value`. */
double ett_work_median_without(const double *sorted, size_t n, double value);

/* Relative error of a residual (prediction - truth) of row i. */
double ett_work_cost(const ett_work *w, double residual, size_t i);

/* folds.c: one training of trees. */
#define ETT_FIT_BELOW -1 /* holds out rows above a size */
#define ETT_FIT_WHOLE -2 /* holds out no rows */

typedef struct {
  const ett_work *w;
  int fold; /* the fold whose rows are held out, or one of the above */
  double size_limit;
  const float *label; /* of all rows; NULL: the trees learn targets over the base */
  const double *x;    /* of that base; NULL: w->x */
  ett_boost_config config;
  char seed[16];
  ett_forest forest;
  ett_err err;
  int status;
} ett_fit_task;

/* Fits a base without each fold: w->folds times w->columns coefficients in x. Fills
 * w->held_target. Returns 0 or -1. */
int ett_fit_fold_bases(ett_work *w, double *x, ett_err *err);
void ett_fit_task_make(ett_fit_task *t, const ett_work *w, int fold, const double *x,
                       double size_limit);
int ett_fit_tasks_run(ett_fit_task *tasks, int count, int threads, ett_err *err);

/* residuals.c: choices and quantiles on held-out residuals. */
double ett_fit_share(const ett_work *w, const double *correction);
double ett_fit_twin_weight(ett_work *w, double shrink);
int ett_fit_neighbours(ett_work *w, const double *fold_x, ett_model_facts *f,
                       ett_err *err);
int ett_fit_calibrate(ett_work *w, ett_model *m, ett_err *err);
int ett_fit_outside(ett_work *w, const ett_fit_task *below, double limit, ett_model *m,
                    ett_err *err);

#endif
