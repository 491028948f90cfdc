#include "regress/fit/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double ett_fit_share(const ett_work *w, const double *correction) {
  static const double shares[] = {1, 0.75, 0.5, 0.25, 0};
  double best = 1, least = INFINITY;
  for (int s = 0; s < 5; s++) {
    double total = 0;
    for (size_t i = 0; i < w->rows; i++)
      total += ett_work_cost(w, shares[s] * correction[i] - w->held_target[i], i);
    if (total < least * (1 - 1e-9)) {
      least = total;
      best = shares[s];
    }
  }
  return best;
}

/* Computes leave-one-out medians of twins. Returns the weight that lowers the error most.
 */
double ett_fit_twin_weight(ett_work *w, double shrink) {
  size_t n = w->rows, having = 0;
  for (size_t from = 0, to; from < n; from = to) {
    to = ett_work_group_end(w, from);
    ett_work_group_median(w, w->held_target, from, to, w->scratch);
    for (size_t i = from; i < to && to - from > 1; i++) {
      size_t row = w->order[i];
      w->loo[row] = ett_work_median_without(w->scratch, to - from, w->held_target[row]);
      w->has_twin[row] = 1;
      having++;
    }
  }
  if (having < 20)
    return 0;
  double best = 0, least = INFINITY;
  for (int s = 0; s <= 4; s++) {
    double a = s / 4.0, total = 0;
    for (size_t i = 0; i < n; i++)
      if (w->has_twin[i])
        total += ett_work_cost(
            w, (1 - a) * shrink * w->held_out[i] + a * w->loo[i] - w->held_target[i], i);
    if (total < least * (1 - 1e-9)) {
      least = total;
      best = a;
    }
  }
  return best;
}

/* Medians of every size's targets over each fold's base: w->folds times `room`. Returns
 * the number of sizes. */
static size_t fold_medians(ett_work *w, const double *fold_x, double *median,
                           size_t room) {
  size_t n = w->rows, groups = 0;
  double *target = w->loo; /* not in use yet */
  for (int fold = 0; fold < w->folds; fold++, median += room) {
    for (size_t i = 0; i < n; i++)
      target[i] = ett_work_target_of(w, i, fold_x + fold * w->columns);
    groups = 0;
    for (size_t from = 0, to; from < n; from = to) {
      to = ett_work_group_end(w, from);
      median[groups++] = ett_work_group_median(w, target, from, to, w->scratch);
    }
  }
  return groups;
}

/* For kernels on a line: chooses the number of nearest sizes and their weight by
 * leave-one-size-out error. Sizes measured one after another share their drift. */
int ett_fit_neighbours(ett_work *w, const double *fold_x, ett_model_facts *f,
                       ett_err *err) {
  static const size_t counts[] = {2, 3, 4, 6, 10, 20};
  size_t n = w->rows, room = n + 1;
  double *median =
      malloc(room * ((size_t)w->folds + sizeof counts / sizeof *counts) * sizeof *median);
  if (!median)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu neighbours", n);
  size_t groups = fold_medians(w, fold_x, median, room);
  double least = INFINITY;
  const double *best = median;
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    double *near = median + room * ((size_t)w->folds + c), total[5] = {0};
    for (size_t from = 0, to, g = 0; from < n; from = to, g++) {
      to = ett_work_group_end(w, from);
      near[g] = ett_model_neighbours(median + room * w->fold[w->order[from]], groups, g,
                                     counts[c], g);
    }
    for (size_t from = 0, to, g = 0; from < n; from = to, g++) {
      to = ett_work_group_end(w, from);
      for (size_t i = from; i < to; i++) {
        size_t row = w->order[i];
        for (int s = 0; s <= 4; s++)
          total[s] += ett_work_cost(w,
                                    (1 - s / 4.0) * f->shrink * w->held_out[row] +
                                        s / 4.0 * near[g] - w->held_target[row],
                                    row);
      }
    }
    for (int s = 0; s <= 4; s++)
      if (total[s] < least * (1 - 1e-9)) {
        least = total[s];
        f->twin_weight = s / 4.0;
        f->neighbours = (double)counts[c];
        best = near;
      }
  }
  if (f->twin_weight == 0)
    f->neighbours = 0;
  for (size_t from = 0, to, g = 0; f->neighbours > 0 && from < n; from = to, g++) {
    to = ett_work_group_end(w, from);
    for (size_t i = from; i < to; i++) {
      w->loo[w->order[i]] = best[g];
      w->has_twin[w->order[i]] = 1;
    }
  }
  free(median);
  return 0;
}

/* Fills difficulty[]: each row's expected residual, by a small forest that did not see
 * its fold. A forest predicts the residuals that it was trained on too well. Divided by
 * such predictions, they would look smaller than those of new rows. *out serves new rows
 * and is trained on every row. */
static int fit_difficulty(const ett_work *w, const double *residual, double floor,
                          double *difficulty, ett_forest *out, ett_err *err) {
  const ett_boost_config small = {.rounds = w->config->difficulty_rounds,
                                  .parameters = 7,
                                  .parameter = {{"max_depth", "4"},
                                                {"eta", "0.1"},
                                                {"subsample", "0.8"},
                                                {"colsample_bytree", "0.8"},
                                                {"min_child_weight", "20"},
                                                {"lambda", "5"},
                                                {"tree_method", "hist"}}};
  size_t n = w->rows;
  double least = w->config->log_target ? 1e-4 : 0;
  if (least == 0) {
    for (size_t i = 0; i < n; i++)
      least += fabs(residual[i]);
    least = fmax(least / (double)n * 1e-3, 1e-300);
  }
  for (size_t i = 0; i < n; i++)
    w->label[i] = (float)log(fmax(fabs(residual[i]), least));
  ett_fit_task tasks[ETT_FIT_FOLDS + 1] = {0};
  for (int t = 0; t <= w->folds; t++)
    tasks[t] = (ett_fit_task){
        .w = w, .fold = t ? t - 1 : ETT_FIT_WHOLE, .label = w->label, .config = small};
  int status = ett_fit_tasks_run(tasks, w->folds + 1, w->config->threads, err);
  const ett_fit_task *others = tasks + (w->folds > 1); /* one fold holds out every row */
  for (size_t i = 0; i < n && status == 0; i++)
    difficulty[i] =
        floor + exp((double)ett_forest_predict(&others[w->fold[i]].forest,
                                               w->feature + i * (size_t)w->features));
  *out = tasks[0].forest;
  for (int t = 1; t <= w->folds; t++)
    ett_forest_free(&tasks[t].forest);
  return status;
}

/* One half-width for all rows is used if it is below this share of the mean half-width by
 * the forest. */
static const double even_share = 0.75;

/* New rows are in a mode that the gate dropped as often as the rows of the fit. Returns
 * whether the kept rows are a smaller share of all rows than the interval must cover. */
static bool needs_modes(const ett_work *w) {
  return ETT_FIT_LEVEL * (double)(w->rows + w->mode_rows) > (double)w->rows;
}

/* The quantile of n residuals over their sizes that covers new rows. */
static double width_of(const ett_work *w, double *scaled, size_t n) {
  double level = ETT_FIT_LEVEL * (1 + 1 / (double)(n ? n : 1));
  if (!needs_modes(w))
    level *= 1 + (double)w->mode_rows / (double)w->rows;
  return ett_work_quantile(scaled, n, fmin(1, level));
}

static int by_magnitude(const void *a, const void *b) {
  double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
  return (x > y) - (x < y);
}

/* How far the interval reaches below and above into modes that the gate dropped. The gate
 * measured the distances from another base, so they are added to the half-width. Outside
 * the samples' range the half-width grows; the distances do not. On its side, the reach
 * also covers the kept rows outside the half-width: half of the uncovered ones. */
static void reach_modes(ett_work *w, ett_model_facts *f) {
  double kept = 0.5 * (1 + ETT_FIT_LEVEL) * (double)w->rows;
  double needed = ETT_FIT_LEVEL * (double)(w->rows + w->mode_rows) - kept;
  if (!needs_modes(w))
    return;
  qsort(w->mode_distance, w->mode_rows, sizeof *w->mode_distance, by_magnitude);
  for (size_t i = 0; i < w->mode_rows && (double)i < needed; i++) {
    f->mode_below = fmax(f->mode_below, -w->mode_distance[i]);
    f->mode_above = fmax(f->mode_above, w->mode_distance[i]);
  }
}

/* Computes the interval's quantiles: residuals divided by their predicted size. Returns
 * the mean half-width of the rows. */
static double fit_widths(ett_work *w, const double *difficulty, ett_model_facts *f) {
  size_t n = w->rows, twins = 0;
  double *scaled = w->scratch, *scaled_twins = w->scratch + n, total = 0;
  for (size_t i = 0; i < n; i++) {
    scaled[i] = fabs(w->held_out[i]) / difficulty[i];
    total += difficulty[i];
    if (w->has_twin[i])
      scaled_twins[twins++] = fabs(w->loo[i]) / difficulty[i];
  }
  f->width_inside = width_of(w, scaled, n);
  f->width_twin = twins > 50 ? width_of(w, scaled_twins, twins) : f->width_inside;
  return f->width_inside * total / (double)n;
}

/* Computes the interval: a forest of the residuals' sizes, if it is of use, and
 * quantiles. */
int ett_fit_calibrate(ett_work *w, ett_model *m, ett_err *err) {
  size_t n = w->rows;
  ett_model_facts *f = &m->facts;
  double *residual = w->held_out;
  for (size_t i = 0; i < n; i++) { /* held_out becomes the residual */
    double correction = f->shrink * w->held_out[i];
    w->loo[i] = w->has_twin[i] ? (1 - f->twin_weight) * correction +
                                     f->twin_weight * w->loo[i] - w->held_target[i]
                               : 0;
    residual[i] = correction - w->held_target[i];
  }
  double total = 0;
  for (size_t i = 0; i < n; i++)
    total += w->scratch[i] = ett_work_cost(w, residual[i], i);
  f->error_mean = total / (double)n;
  f->error_median = ett_work_quantile(w->scratch, n, 0.5);
  for (size_t i = 0; i < n; i++)
    w->scratch[i] = fabs(residual[i]);
  f->floor = fmax(0.3 * ett_work_quantile(w->scratch, n, 0.5),
                  w->config->log_target ? 1e-5 : 1e-300);
  reach_modes(w, f);
  double *difficulty = w->base; /* the base is no longer needed */
  for (size_t i = 0; i < n; i++)
    difficulty[i] = f->floor;
  const double even = fit_widths(w, difficulty, f);
  if (!w->config->trees || n < 50)
    return 0;
  if (fit_difficulty(w, residual, f->floor, difficulty, &m->difficulty, err) != 0)
    return -1;
  /* Rows may be in one of two modes by chance, such as two states of the clock. A forest
   * then learns the mode of a few rows as if their dimensions caused it. */
  if (even < even_share * fit_widths(w, difficulty, f)) {
    ett_forest_free(&m->difficulty);
    for (size_t i = 0; i < n; i++)
      difficulty[i] = f->floor;
    fit_widths(w, difficulty, f);
  }
  return 0;
}

/* Measures extrapolation: a regressor fitted up to the size `limit` (the 80th percentile)
 * predicts the rows above it. Chooses the share of the trees' correction outside the
 * samples' range, and the width of the interval there. */
int ett_fit_outside(ett_work *w, const ett_fit_task *below, double limit, ett_model *m,
                    ett_err *err) {
  ett_model_facts *f = &m->facts;
  size_t n = w->rows, p = (size_t)w->columns, inside = 0, above = 0;
  double *column = malloc((n * (p + 5) + p) * sizeof *column);
  if (!column)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double *seconds = column + n * p, *plain = seconds + n, *trees = plain + n,
         *difficulty = trees + n, *weight = difficulty + n, *x = weight + n;
  int status = 0;
  for (size_t i = 0; i < n; i++)
    if (w->size[i] <= limit) {
      memcpy(column + inside * p, w->column + i * p, p * sizeof *column);
      weight[inside] = w->weight[i];
      seconds[inside++] = w->seconds[i];
    }
  if (w->config->base)
    status = ett_nnls_fit(column, seconds, weight, inside, w->columns, w->config->loss, x,
                          err);
  for (size_t i = 0; status == 0 && i < n; i++) {
    if (w->size[i] <= limit)
      continue;
    double base = w->config->base ? ett_work_base_of(w, i, x) : 1, correction = 0;
    if (below)
      correction = (double)ett_forest_predict(&below->forest,
                                              w->feature + i * (size_t)w->features);
    plain[above] = w->config->log_target
                       ? (base > 0 ? log(base) : log(w->seconds[i])) - log(w->seconds[i])
                       : (w->config->base ? base : 0) - w->seconds[i];
    trees[above] = correction;
    seconds[above] = w->seconds[i];
    difficulty[above++] = w->base[i];
  }
  /* The full share is used unless a smaller one is clearly better, because the probe's
   * trees were trained on fewer rows than the served trees. */
  double least = INFINITY, best = f->shrink;
  for (int s = 4; s >= 2 && status == 0 && below; s--) {
    double total = 0, share = s / 4.0;
    for (size_t i = 0; i < above; i++) {
      double r = plain[i] + share * trees[i];
      total +=
          w->config->log_target ? fabs(expm1(fmin(r, 50))) : fabs(r) / fabs(seconds[i]);
    }
    if (total < least * 0.9) {
      least = total;
      best = share;
    }
  }
  if (!w->config->base)
    best = 1; /* trees alone predict outside, too */
  for (size_t i = 0; i < above; i++)
    plain[i] = fabs(plain[i] + best * trees[i]) / difficulty[i];
  f->shrink_outside = best;
  f->width_outside =
      fmax(f->width_inside, ett_work_quantile(plain, above, ETT_FIT_LEVEL));
  free(column);
  return status;
}
