#include "regress/fit/fit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "regress/fit/work.h"

/* Runs the steps of a fit: gate, base, trees in folds, twins, interval, extrapolation. */

/* Marks rows in kinds[]. Thresholds come from these rows alone. distance[] receives the
 * logarithmic distances of rows in other modes, from the gate's base or from their twins;
 * *mode_rows receives their number. */
static int gate(ett_work *w, const double *least, unsigned char *kinds, double *distance,
                size_t *mode_rows, ett_err *err) {
  size_t n = w->rows;
  memset(kinds, ETT_OUTLIER_NONE, n);
  for (size_t i = 0; least && i < n; i++)
    if (w->seconds[i] < least[i])
      kinds[i] = ETT_OUTLIER_UNPHYSICAL;
  if (!w->config->gate || !w->config->log_target || n < 8)
    return 0;
  size_t kept = 0; /* exclude impossible rows before computing the median */
  for (size_t i = 0; i < n; i++)
    w->loo[i] = kinds[i] ? 0 : 1;
  if (ett_work_base(w, w->loo, err) != 0)
    return -1;
  for (size_t i = 0; i < n; i++)
    if (!kinds[i])
      w->scratch[kept++] = w->target[i];
  double middle = ett_work_quantile(w->scratch, kept, 0.5);
  for (size_t i = 0; i < kept; i++)
    w->scratch[i] = fabs(w->scratch[i] - middle);
  double spread = 1.4826 * ett_work_quantile(w->scratch, kept, 0.5);
  double limit = fmax(log(w->config->gate_ratio), 8 * spread);
  for (size_t from = 0, to; from < n; from = to) {
    to = ett_work_group_end(w, from);
    double twins = ett_work_group_median(w, w->target, from, to, w->scratch);
    for (size_t i = from; i < to && to - from >= 3; i++) {
      size_t row = w->order[i];
      double off = w->target[row] - twins;
      if (fabs(off) > log(w->config->gate_ratio) && !kinds[row]) {
        kinds[row] = ETT_OUTLIER_TWINS;
        distance[(*mode_rows)++] = off;
      }
    }
  }
  for (size_t i = 0; i < n; i++)
    if (fabs(w->target[i] - middle) > limit && !kinds[i]) {
      kinds[i] = ETT_OUTLIER_MODE;
      distance[(*mode_rows)++] = w->target[i] - middle;
    }
  return 0;
}

/* Zeroes columns that are nonzero in fewer than `share` of the rows. These are hinges
 * close to the largest sizes: few rows determine their slope, and the slope determines
 * every prediction above them. Returns the number of columns zeroed. */
static int mask_rare(double *column, size_t rows, size_t columns, double share) {
  int masked = 0;
  for (size_t j = 0; j < columns; j++) {
    size_t filled = 0;
    for (size_t i = 0; i < rows; i++)
      filled += column[i * columns + j] != 0;
    if (filled == 0 || (double)filled >= share * (double)rows)
      continue;
    for (size_t i = 0; i < rows; i++)
      column[i * columns + j] = 0;
    masked++;
  }
  return masked;
}

/* Fits a base to the rows up to the size `limit`. Columns that are nonzero in fewer than
 * `share` of them are excluded; rows below the size `from` get the weight ETT_FIT_FAINT.
 * *out is the mean relative error above `limit`, or negative if this share excludes no
 * more columns than the last one. */
static int probe_base(const ett_work *w, double limit, double share, double from,
                      double *column, double *seconds, double *x, int *masked,
                      double *out, ett_err *err) {
  size_t n = w->rows, p = (size_t)w->columns, inside = 0, above = 0;
  double *weight = seconds + n;
  for (size_t i = 0; i < n; i++)
    if (w->size[i] <= limit) {
      memcpy(column + inside * p, w->column + i * p, p * sizeof *column);
      weight[inside] = w->size[i] < from ? ETT_FIT_FAINT : 1;
      seconds[inside++] = w->seconds[i];
    }
  int count = mask_rare(column, inside, p, share);
  *out = -1;
  if (share > 0 && count == *masked)
    return 0;
  *masked = count;
  if (ett_nnls_fit(column, seconds, weight, inside, w->columns, w->config->loss, x,
                   err) != 0)
    return -1;
  double total = 0;
  for (size_t i = 0; i < n; i++) {
    if (w->size[i] <= limit)
      continue;
    total += fabs(ett_work_base_of(w, i, x) / w->seconds[i] - 1);
    above++;
  }
  *out = total / (double)above;
  return 0;
}

/* Drops hinges, and lowers the weight of small sizes, if that clearly lowers the error
 * above the size `limit`. */
static int drop_hinges(ett_work *w, double limit, ett_err *err) {
  static const double shares[] = {0, 0.2, 0.5, 0.8}, quantiles[] = {0.25, 0.5};
  size_t n = w->rows, p = (size_t)w->columns;
  double *column = malloc((n * (p + 2) + p) * sizeof *column);
  if (!column)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double *seconds = column + n * p, *x = seconds + 2 * n;
  double least = INFINITY, best = 0;
  int status = 0, masked = 0;
  for (size_t s = 0; s < sizeof shares / sizeof *shares && status == 0; s++) {
    double found = -1;
    status = probe_base(w, limit, shares[s], 0, column, seconds, x, &masked, &found, err);
    if (status == 0 && found >= 0 && found < (s ? 0.9 : 1) * least) {
      least = found;
      best = shares[s];
    }
  }
  double from = 0;
  for (size_t q = 0; q < sizeof quantiles / sizeof *quantiles && status == 0; q++) {
    memcpy(w->scratch, w->size, n * sizeof *w->scratch);
    double size = ett_work_quantile(w->scratch, n, quantiles[q]), found = -1;
    masked = -1;
    status = probe_base(w, limit, best, size, column, seconds, x, &masked, &found, err);
    if (status == 0 && found >= 0 && found < 0.8 * least) {
      least = found;
      from = size;
    }
  }
  free(column);
  if (best > 0)
    mask_rare(w->column, n, p, best);
  for (size_t i = 0; i < n; i++)
    w->weight[i] = w->size[i] < from ? ETT_FIT_FAINT : 1;
  return status;
}

/* Medians of the twins' residuals, for the model file. */
static int collect_twins(const ett_work *w, ett_model *parts, ett_err *err) {
  size_t n = w->rows, count = 0;
  uint64_t *kernel = malloc((n + 1) * 2 * sizeof *kernel);
  if (!kernel)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu twins", n);
  double *residual = (double *)(void *)(kernel + n);
  for (size_t from = 0, to; from < n; from = to) {
    to = ett_work_group_end(w, from);
    kernel[count] = w->kernel[w->order[from]];
    residual[count++] = ett_work_group_median(w, w->target, from, to, w->scratch);
  }
  parts->twins = (uint32_t)count;
  parts->twin_kernel = kernel;
  parts->twin_residual = residual;
  return 0;
}

/* Prepares the trainings of trees: one on every row, which takes longest, one for each
 * fold, and with `probing` one on the rows up to the size `limit`. Returns their number.
 */
static int make_tasks(const ett_work *w, const double *fold_x, bool probing, double limit,
                      ett_fit_task *tasks) {
  int count = 0;
  if (!w->config->trees)
    return 0;
  ett_fit_task_make(&tasks[count++], w, ETT_FIT_WHOLE, NULL, 0);
  for (int i = 0; i < w->folds; i++)
    ett_fit_task_make(&tasks[count++], w, i, fold_x + i * w->columns, 0);
  if (probing) {
    ett_fit_task_make(&tasks[count], w, ETT_FIT_BELOW, NULL, limit);
    tasks[count++].config.rounds = (w->config->boost.rounds + 1) / 2;
  }
  return count;
}

/* Computes held-out corrections. They decide the share of the trees and the weight of
 * twins or neighbours. */
static int weigh(ett_work *w, const ett_fit_task *tasks, const double *fold_x,
                 ett_model_facts *f, ett_err *err) {
  bool trees = w->config->trees;
  f->shrink = 1;
  for (size_t i = 0; trees && i < w->rows; i++)
    w->held_out[i] = (double)ett_forest_predict(&tasks[w->fold[i]].forest,
                                                w->feature + i * (size_t)w->features);
  if (trees && w->config->base)
    f->shrink = ett_fit_share(w, w->held_out);
  if (w->config->twins && ett_design_ordered(w->design) && w->rows >= 20 &&
      ett_fit_neighbours(w, fold_x, f, err) != 0)
    return -1;
  if (w->config->twins && f->neighbours == 0)
    f->twin_weight = ett_fit_twin_weight(w, f->shrink);
  return 0;
}

/* Sets the ranges, packs the parts into one block and opens it as the model. */
static int assemble(const ett_work *w, const ett_fit_task *whole, ett_model *parts,
                    ett_model *model, ett_err *err) {
  ett_model_facts *f = &parts->facts;
  void *block = NULL;
  size_t length;
  parts->design = *w->design;
  parts->columns = w->columns;
  parts->features = w->features;
  parts->x = w->x;
  parts->forests = whole ? 1 : 0;
  if (whole)
    parts->forest[0] = whole->forest;
  f->size_least = f->size_most = w->size[0];
  for (size_t i = 0; i < w->rows; i++) {
    f->size_least = fmin(f->size_least, w->size[i]);
    f->size_most = fmax(f->size_most, w->size[i]);
  }
  memcpy(f->least, model->facts.least, sizeof f->least);
  memcpy(f->most, model->facts.most, sizeof f->most);
  if (ett_model_pack(parts, &block, &length, err) != 0)
    return -1;
  return ett_model_open(block, length, true, model, err);
}

static int fit_kept(ett_work *w, size_t dropped, ett_model *model, ett_err *err) {
  const ett_fit_config *config = w->config;
  ett_model parts = {0};
  ett_model_facts *f = &parts.facts;
  ett_fit_task tasks[ETT_FIT_FOLDS + 2];
  int status = -1, count = 0;
  size_t n = w->rows, above = 0;
  memcpy(w->scratch, w->size, n * sizeof *w->scratch);
  double limit = ett_work_quantile(w->scratch, n, 0.8);
  for (size_t i = 0; i < n; i++)
    above += w->size[i] > limit;
  bool probing = n - above > 20 && above > 5;
  if (config->base && probing && drop_hinges(w, limit, err) != 0)
    return -1;
  if (ett_work_base(w, w->weight, err) != 0)
    return -1;
  double *fold_x = malloc((size_t)(w->folds * w->columns) * sizeof *fold_x);
  if (!fold_x)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  if (ett_fit_fold_bases(w, fold_x, err) != 0)
    goto done;
  count = make_tasks(w, fold_x, probing, limit, tasks);
  f->log_target = config->log_target;
  f->has_base = config->base;
  f->rows = (double)n;
  f->dropped = (double)dropped;
  if ((count && ett_fit_tasks_run(tasks, count, config->threads, err) != 0) ||
      weigh(w, tasks + 1, fold_x, f, err) != 0 || collect_twins(w, &parts, err) != 0 ||
      ett_fit_calibrate(w, &parts, err) != 0)
    goto done;
  f->shrink_outside = f->shrink;
  f->width_outside = 1.5 * f->width_inside;
  if (probing &&
      ett_fit_outside(w, count ? &tasks[count - 1] : NULL, limit, &parts, err) != 0)
    goto done;
  status = assemble(w, count ? tasks : NULL, &parts, model, err);
done:
  for (int i = 0; i < count; i++)
    ett_forest_free(&tasks[i].forest);
  ett_forest_free(&parts.difficulty);
  free((void *)parts.twin_kernel);
  free(fold_x);
  return status;
}

static int check(const ett_design *design, const double *dims, const double *seconds,
                 size_t rows, const ett_fit_config *config, ett_err *err) {
  if (ett_design_check(design, err) != 0)
    return -1;
  if (rows < 2)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a fit takes at least 2 rows, got %zu",
                       rows);
  if (config->folds < 2 || config->folds > ETT_FIT_FOLDS)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "folds must be 2 to %d, got %d",
                       ETT_FIT_FOLDS, config->folds);
  if (!config->trees && !config->base)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a fit takes a base, trees or both");
  for (size_t i = 0; i < rows; i++) {
    if (ett_design_row_check(design, dims + i * (size_t)design->dims, err) != 0)
      return -1;
    if (!isfinite(seconds[i]) ||
        ((config->log_target || config->base) && !(seconds[i] > 0)))
      return ett_err_set(err, ETT_ERR_ARGUMENT, "row %zu: time must be positive, got %g",
                         i + 1, seconds[i]);
  }
  return 0;
}

int ett_fit(const ett_design *design, const double *dims, const double *seconds,
            const double *least_seconds, size_t rows, const ett_fit_config *config,
            unsigned char *kinds, ett_model *model, ett_err *err) {
  memset(model, 0, sizeof *model);
  if (check(design, dims, seconds, rows, config, err) != 0)
    return -1;
  const ett_work empty = {.design = design,
                          .config = config,
                          .columns = ett_design_columns(design),
                          .features = ett_design_features(design)};
  ett_work w = empty;
  int status = -1;
  size_t dropped = 0, mode_rows = 0, d = (size_t)design->dims;
  unsigned char *marks = kinds ? kinds : malloc(rows);
  double *distance = malloc(rows * sizeof *distance);
  if (!marks || !distance) {
    ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu rows", rows);
    goto done;
  }
  if (ett_work_make(&w, rows, err) != 0)
    goto done;
  if (ett_work_fill(&w, dims, seconds, NULL, rows, err) != 0)
    goto done;
  if (gate(&w, least_seconds, marks, distance, &mode_rows, err) != 0)
    goto done;
  for (size_t i = 0; i < rows; i++)
    dropped += marks[i] != 0;
  if (rows - dropped < 2) {
    ett_err_set(err, ETT_ERR_FORMAT,
                "a fit needs 2 rows; the outlier filter keeps %zu of %zu", rows - dropped,
                rows);
    goto done;
  }
  if (dropped) {
    ett_work_drop(&w);
    w = empty;
    if (ett_work_make(&w, rows - dropped, err) != 0 ||
        ett_work_fill(&w, dims, seconds, marks, rows, err) != 0)
      goto done;
  }
  bool first = true;
  for (size_t i = 0; i < rows; i++) {
    if (marks[i])
      continue;
    for (size_t j = 0; j < d; j++) {
      double value = dims[i * d + j];
      model->facts.least[j] = first ? value : fmin(model->facts.least[j], value);
      model->facts.most[j] = first ? value : fmax(model->facts.most[j], value);
    }
    first = false;
  }
  w.mode_distance = distance;
  w.mode_rows = mode_rows;
  status = fit_kept(&w, dropped, model, err);
done:
  ett_work_drop(&w);
  free(distance);
  if (!kinds)
    free(marks);
  if (status != 0)
    memset(model, 0, sizeof *model);
  return status;
}

static void *run_job(void *context) {
  ett_fit_job *j = context;
  j->status = ett_fit(&j->design, j->dims, j->seconds, j->least_seconds, j->rows,
                      &j->config, j->kinds, j->model, &j->err);
  return NULL;
}

void ett_fit_jobs(ett_fit_job *jobs, int count) {
  pthread_t thread[ETT_FIT_JOBS];
  int started = 0;
  while (started < count - 1 &&
         pthread_create(&thread[started], NULL, run_job, &jobs[started]) == 0)
    started++;
  for (int i = started; i < count; i++)
    run_job(&jobs[i]);
  for (int i = 0; i < started; i++)
    pthread_join(thread[i], NULL);
}
