#include "regress/fit/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "regress/fit/work.h"

/* Runs the steps of a fit: gate, base, trees in folds, twins, interval, extrapolation. */

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
    residual[count++] = ett_work_group_median(w, from, to, w->scratch);
  }
  parts->twins = (uint32_t)count;
  parts->twin_kernel = kernel;
  parts->twin_residual = residual;
  return 0;
}

/* Prepares the trainings of trees: one for each fold, one on every row, and with
 * `probing` one on the rows up to the size `limit`. Returns their number. */
static int make_tasks(const ett_work *w, int folds, bool probing, double limit,
                      ett_fit_task *tasks) {
  int count = 0;
  if (!w->config->trees)
    return 0;
  for (int i = 0; i < folds; i++)
    ett_fit_task_make(&tasks[count++], w, i, 0);
  ett_fit_task_make(&tasks[count++], w, ETT_FIT_WHOLE, 0);
  if (probing) {
    ett_fit_task_make(&tasks[count], w, ETT_FIT_BELOW, limit);
    tasks[count++].config.rounds = (w->config->boost.rounds + 1) / 2;
  }
  return count;
}

/* Computes held-out corrections. They decide the share of the trees and the weight of
 * twins or neighbours. */
static int weigh(ett_work *w, const ett_fit_task *tasks, int folds, ett_model_facts *f,
                 ett_err *err) {
  f->shrink = 1;
  for (size_t i = 0; folds && i < w->rows; i++)
    w->held_out[i] = (double)ett_forest_predict(&tasks[ett_fit_fold_of(w, i)].forest,
                                                w->feature + i * (size_t)w->features);
  if (folds && w->config->base)
    f->shrink = ett_fit_share(w, w->held_out);
  if (w->config->twins && ett_design_ordered(w->design) && w->rows >= 20 &&
      ett_fit_neighbours(w, f, err) != 0)
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
  ett_fit_task tasks[ETT_MODEL_FORESTS + 1];
  int folds = config->trees ? config->folds : 0, status = -1;
  size_t n = w->rows, above = 0;
  memcpy(w->scratch, w->size, n * sizeof *w->scratch);
  double limit = ett_work_quantile(w->scratch, n, 0.8);
  for (size_t i = 0; i < n; i++)
    above += w->size[i] > limit;
  bool probing = n - above > 20 && above > 5;
  if (config->base && probing && ett_fit_hinges(w, limit, err) != 0)
    return -1;
  if (ett_work_base(w, w->weight, err) != 0)
    return -1;
  int count = make_tasks(w, folds, probing, limit, tasks);
  f->log_target = config->log_target;
  f->has_base = config->base;
  f->rows = (double)n;
  f->dropped = (double)dropped;
  if ((count && ett_fit_tasks_run(tasks, count, config->threads, err) != 0) ||
      weigh(w, tasks, folds, f, err) != 0 || collect_twins(w, &parts, err) != 0 ||
      ett_fit_calibrate(w, &parts, err) != 0)
    goto done;
  f->shrink_outside = f->shrink;
  f->width_outside = 1.5 * f->width_inside;
  if (probing &&
      ett_fit_outside(w, folds ? &tasks[folds + 1] : NULL, limit, &parts, err) != 0)
    goto done;
  status = assemble(w, folds ? &tasks[folds] : NULL, &parts, model, err);
done:
  for (int i = 0; i < count; i++)
    ett_forest_free(&tasks[i].forest);
  ett_forest_free(&parts.difficulty);
  free((void *)parts.twin_kernel);
  return status;
}

static int check(const ett_design *design, const double *dims, const double *seconds,
                 size_t rows, const ett_fit_config *config, ett_err *err) {
  if (ett_design_check(design, err) != 0)
    return -1;
  if (rows < 2)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a fit takes at least 2 rows, got %zu",
                       rows);
  if (config->trees && (config->folds < 2 || config->folds > 8))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "folds must be 2 to 8, got %d",
                       config->folds);
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
  size_t dropped = 0, d = (size_t)design->dims;
  unsigned char *marks = kinds ? kinds : malloc(rows);
  if (!marks)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu rows", rows);
  if (ett_work_make(&w, rows, err) != 0)
    goto done;
  ett_work_fill(&w, dims, seconds, NULL, rows);
  if (ett_fit_gate(&w, least_seconds, marks, err) != 0)
    goto done;
  for (size_t i = 0; i < rows; i++)
    dropped += marks[i] != 0;
  if (rows - dropped < 2) {
    ett_err_set(err, ETT_ERR_FORMAT,
                "a fit needs 2 rows; the outlier gate keeps %zu of %zu", rows - dropped,
                rows);
    goto done;
  }
  if (dropped) {
    ett_work_drop(&w);
    w = empty;
    if (ett_work_make(&w, rows - dropped, err) != 0)
      goto done;
    ett_work_fill(&w, dims, seconds, marks, rows);
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
  status = fit_kept(&w, dropped, model, err);
done:
  ett_work_drop(&w);
  if (!kinds)
    free(marks);
  if (status != 0)
    memset(model, 0, sizeof *model);
  return status;
}
