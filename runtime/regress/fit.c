#include "regress/fit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LEVEL 0.9 /* of the interval */

/* Everything of one fit; arrays live in `store`. */
typedef struct {
  const ett_design *design;
  const ett_fit_config *config;
  size_t rows;
  int columns, features;
  double *column, *seconds, *target, *base, *held_out, *scratch, *size, *x, *loo;
  float *feature, *label;
  uint64_t *kernel;
  unsigned char *has_twin;
  size_t *order;
  double *store;
} work;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Quantile q of values[0 .. n), which are reordered. */
static double quantile(double *values, size_t n, double q) {
  if (n == 0)
    return 0;
  qsort(values, n, sizeof *values, compare);
  double at = q * (double)(n - 1);
  size_t low = (size_t)at;
  double high = low + 1 < n ? values[low + 1] : values[low];
  return values[low] + (at - (double)low) * (high - values[low]);
}

static int make(work *w, size_t rows, ett_err *err) {
  size_t n = rows, p = (size_t)w->columns, f = (size_t)w->features;
  w->rows = rows;
  w->store = calloc(n * (p + 9) + p + (n * (f + 1) + 1) / 2 + 2, sizeof(double));
  w->has_twin = calloc(n + 1, 1);
  w->order = malloc((n + 1) * sizeof *w->order);
  if (!w->store || !w->has_twin || !w->order)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double *at = w->store;
  w->column = at, at += n * p;
  w->seconds = at, at += n;
  w->target = at, at += n;
  w->base = at, at += n;
  w->held_out = at, at += n;
  w->scratch = at, at += 2 * n;
  w->size = at, at += n;
  w->loo = at, at += n;
  w->kernel = (uint64_t *)(void *)at, at += n;
  w->x = at, at += p;
  w->feature = (float *)(void *)at;
  w->label = w->feature + n * f;
  return 0;
}

static void drop(work *w) {
  free(w->store);
  free(w->has_twin);
  free(w->order);
  memset(w, 0, sizeof *w);
}

/* Fits the base and fills base[]; without one it is 1. */
static int fit_base(work *w, const double *weight, ett_err *err) {
  if (w->config->base && ett_nnls_fit(w->column, w->seconds, weight, w->rows, w->columns,
                                      w->config->loss, w->x, err) != 0)
    return -1;
  for (size_t i = 0; i < w->rows; i++) {
    double sum = w->config->base ? 0 : 1;
    if (w->config->base)
      for (int j = 0; j < w->columns; j++)
        sum += w->column[i * (size_t)w->columns + (size_t)j] * w->x[j];
    w->base[i] = sum > 0 ? sum : w->seconds[i];
    if (w->config->log_target)
      w->target[i] = log(w->seconds[i]) - log(w->base[i]);
    else
      w->target[i] = w->seconds[i] - (w->config->base ? w->base[i] : 0);
  }
  return 0;
}

static const work *sorting; /* qsort has no context; guarded by sort_lock */
static pthread_mutex_t sort_lock = PTHREAD_MUTEX_INITIALIZER;

static int by_kernel(const void *a, const void *b) {
  size_t i = *(const size_t *)a, j = *(const size_t *)b;
  uint64_t x = sorting->kernel[i], y = sorting->kernel[j];
  return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

static void sort_by_kernel(work *w) {
  for (size_t i = 0; i < w->rows; i++)
    w->order[i] = i;
  pthread_mutex_lock(&sort_lock);
  sorting = w;
  qsort(w->order, w->rows, sizeof *w->order, by_kernel);
  sorting = NULL;
  pthread_mutex_unlock(&sort_lock);
}

/* Median of the targets of order[from .. to) but for row `without`. */
static double group_median(const work *w, size_t from, size_t to, size_t without,
                           double *scratch) {
  size_t n = 0;
  for (size_t i = from; i < to; i++)
    if (w->order[i] != without)
      scratch[n++] = w->target[w->order[i]];
  return quantile(scratch, n, 0.5);
}

static size_t group_end(const work *w, size_t from) {
  size_t to = from + 1;
  while (to < w->rows && w->kernel[w->order[to]] == w->kernel[w->order[from]])
    to++;
  return to;
}

/* --- the gate ------------------------------------------------------------------------
 */

/* Marks rows in kinds[]. Thresholds come from these rows alone. */
static int gate(work *w, const double *least, unsigned char *kinds, ett_err *err) {
  size_t n = w->rows;
  memset(kinds, ETT_OUTLIER_NONE, n);
  for (size_t i = 0; least && i < n; i++)
    if (w->seconds[i] < least[i])
      kinds[i] = ETT_OUTLIER_UNPHYSICAL;
  if (!w->config->gate || !w->config->log_target || n < 8)
    return 0;
  size_t kept = 0; /* what is unphysical has no say in what is usual */
  for (size_t i = 0; i < n; i++)
    w->loo[i] = kinds[i] ? 0 : 1;
  if (fit_base(w, w->loo, err) != 0)
    return -1;
  for (size_t i = 0; i < n; i++)
    if (!kinds[i])
      w->scratch[kept++] = w->target[i];
  double middle = quantile(w->scratch, kept, 0.5);
  for (size_t i = 0; i < kept; i++)
    w->scratch[i] = fabs(w->scratch[i] - middle);
  double spread = 1.4826 * quantile(w->scratch, kept, 0.5);
  double limit = fmax(log(w->config->gate_ratio), 8 * spread);
  for (size_t from = 0, to; from < n; from = to) {
    to = group_end(w, from);
    for (size_t i = from; i < to && to - from >= 3; i++) {
      size_t row = w->order[i];
      double off = fabs(w->target[row] - group_median(w, from, to, n, w->scratch));
      if (off > log(w->config->gate_ratio) && !kinds[row])
        kinds[row] = ETT_OUTLIER_TWINS;
    }
  }
  for (size_t i = 0; i < n; i++)
    if (fabs(w->target[i] - middle) > limit && !kinds[i])
      kinds[i] = ETT_OUTLIER_MODE;
  return 0;
}

/* --- trees in folds ------------------------------------------------------------------
 */

typedef struct {
  const work *w;
  int fold; /* rows of it are held out; -1: rows above a size are */
  double size_limit;
  ett_boost_config config;
  char seed[16];
  ett_forest forest;
  ett_err err;
  int status;
} task;

static int fold_of(const work *w, size_t row) {
  return (int)(ett_mix64(w->kernel[row]) % (uint64_t)w->config->folds);
}

#define BELOW -1 /* a task that holds out rows above a size */
#define WHOLE -2 /* a task that holds out none */

static bool held(const task *t, size_t row) {
  if (t->fold == WHOLE)
    return false;
  if (t->fold == BELOW)
    return t->w->size[row] > t->size_limit;
  return fold_of(t->w, row) == t->fold;
}

static void train(task *t) {
  const work *w = t->w;
  size_t f = (size_t)w->features, n = 0;
  t->status = -1;
  float *features = malloc(w->rows * (f + 1) * sizeof *features);
  if (!features) {
    ett_err_set(&t->err, ETT_ERR_MEMORY, "no memory for a fold");
    return;
  }
  float *labels = features + w->rows * f;
  for (size_t i = 0; i < w->rows; i++) {
    if (held(t, i))
      continue;
    memcpy(features + n * f, w->feature + i * f, f * sizeof *features);
    labels[n++] = (float)w->target[i];
  }
  if (n == 0) {
    t->status = 0; /* an empty forest corrects nothing */
    free(features);
    return;
  }
  double mean = 0;
  if (!w->config->log_target) {
    for (size_t i = 0; i < n; i++)
      mean += (double)labels[i];
    mean /= (double)n;
  }
  t->status = ett_boost_train(features, labels, n, w->features, mean, &t->config,
                              &t->forest, &t->err);
  free(features);
}

typedef struct {
  task *tasks;
  int count, next;
  pthread_mutex_t lock;
} queue;

static void *worker(void *context) {
  queue *q = context;
  for (;;) {
    pthread_mutex_lock(&q->lock);
    int mine = q->next++;
    pthread_mutex_unlock(&q->lock);
    if (mine >= q->count)
      return NULL;
    train(&q->tasks[mine]);
  }
}

static int run_tasks(task *tasks, int count, int threads, ett_err *err) {
  queue q = {tasks, count, 0, PTHREAD_MUTEX_INITIALIZER};
  pthread_t thread[8];
  int started = 0;
  while (started < threads - 1 && started < 8 && started < count - 1 &&
         pthread_create(&thread[started], NULL, worker, &q) == 0)
    started++;
  worker(&q);
  for (int i = 0; i < started; i++)
    pthread_join(thread[i], NULL);
  for (int i = 0; i < count; i++)
    if (tasks[i].status != 0) {
      if (err)
        *err = tasks[i].err;
      return -1;
    }
  return 0;
}

static void make_task(task *t, const work *w, int fold, double size_limit) {
  memset(t, 0, sizeof *t);
  t->w = w;
  t->fold = fold;
  t->size_limit = size_limit;
  t->config = w->config->boost;
  int n = t->config.parameters;
  if (n < ETT_BOOST_PARAMETERS) {
    t->seed[0] = (char)('3' + fold);
    t->config.parameter[n] = (ett_boost_parameter){"seed", t->seed};
    t->config.parameters = n + 1;
  }
}

/* --- choices and quantiles on held-out residuals --------------------------------------
 */

/* Relative error of a residual (prediction - truth) of row i. */
static double cost(const work *w, double residual, size_t i) {
  return w->config->log_target ? fabs(expm1(fmin(residual, 50)))
                               : fabs(residual) / fmax(fabs(w->seconds[i]), 1e-30);
}

static double best_share(const work *w, const double *correction) {
  static const double shares[] = {1, 0.75, 0.5, 0.25, 0};
  double best = 1, least = INFINITY;
  for (int s = 0; s < 5; s++) {
    double total = 0;
    for (size_t i = 0; i < w->rows; i++)
      total += cost(w, shares[s] * correction[i] - w->target[i], i);
    if (total < least * (1 - 1e-9)) {
      least = total;
      best = shares[s];
    }
  }
  return best;
}

/* Leave-one-out medians of twins, and how much to trust them. */
static double twin_weight(work *w, double shrink) {
  size_t n = w->rows, having = 0;
  for (size_t from = 0, to; from < n; from = to) {
    to = group_end(w, from);
    for (size_t i = from; i < to && to - from > 1; i++) {
      size_t row = w->order[i];
      w->loo[row] = group_median(w, from, to, row, w->scratch);
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
        total +=
            cost(w, (1 - a) * shrink * w->held_out[i] + a * w->loo[i] - w->target[i], i);
    if (total < least * (1 - 1e-9)) {
      least = total;
      best = a;
    }
  }
  return best;
}

/* For kernels on a line: how many nearest sizes to listen to and how much, by what
 * leaving each size out would have cost. Sizes measured one after another share their
 * drift. */
static int choose_neighbours(work *w, ett_model_facts *f, ett_err *err) {
  static const size_t counts[] = {2, 3, 4, 6, 10, 20};
  size_t n = w->rows, groups = 0;
  double *median =
      malloc((n + 1) * (1 + sizeof counts / sizeof *counts) * sizeof *median);
  if (!median)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu neighbours", n);
  for (size_t from = 0, to; from < n; from = to) {
    to = group_end(w, from);
    median[groups++] = group_median(w, from, to, n, w->scratch);
  }
  double least = INFINITY;
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    double *near = median + (n + 1) * (c + 1), total[5] = {0};
    for (size_t g = 0; g < groups; g++)
      near[g] = ett_model_neighbours(median, groups, g, counts[c], g);
    size_t g = 0;
    for (size_t from = 0, to; from < n; from = to, g++) {
      to = group_end(w, from);
      for (size_t i = from; i < to; i++) {
        size_t row = w->order[i];
        for (int s = 0; s <= 4; s++)
          total[s] += cost(w,
                           (1 - s / 4.0) * f->shrink * w->held_out[row] +
                               s / 4.0 * near[g] - w->target[row],
                           row);
      }
    }
    for (int s = 0; s <= 4; s++)
      if (total[s] < least * (1 - 1e-9)) {
        least = total[s];
        f->twin_weight = s / 4.0;
        f->neighbours = (double)counts[c];
      }
  }
  if (f->twin_weight == 0)
    f->neighbours = 0;
  for (size_t c = 0; c < sizeof counts / sizeof *counts && f->neighbours > 0; c++) {
    if (counts[c] != (size_t)f->neighbours)
      continue;
    const double *near = median + (n + 1) * (c + 1);
    size_t g = 0;
    for (size_t from = 0, to; from < n; from = to, g++) {
      to = group_end(w, from);
      for (size_t i = from; i < to; i++) {
        w->loo[w->order[i]] = near[g];
        w->has_twin[w->order[i]] = 1;
      }
    }
  }
  free(median);
  return 0;
}

/* A small forest for log |residual|: where the regressor is usually wrong. */
static int fit_difficulty(const work *w, const double *residual, ett_forest *out,
                          ett_err *err) {
  ett_boost_config small = {.rounds = w->config->difficulty_rounds,
                            .parameters = 7,
                            .parameter = {{"max_depth", "4"},
                                          {"eta", "0.1"},
                                          {"subsample", "0.8"},
                                          {"colsample_bytree", "0.8"},
                                          {"min_child_weight", "20"},
                                          {"lambda", "5"},
                                          {"tree_method", "hist"}}};
  double mean = 0, least = w->config->log_target ? 1e-4 : 0;
  if (least == 0) {
    for (size_t i = 0; i < w->rows; i++)
      least += fabs(residual[i]);
    least = fmax(least / (double)w->rows * 1e-3, 1e-300);
  }
  for (size_t i = 0; i < w->rows; i++) {
    w->label[i] = (float)log(fmax(fabs(residual[i]), least));
    mean += (double)w->label[i];
  }
  return ett_boost_train(w->feature, w->label, w->rows, w->features,
                         mean / (double)w->rows, &small, out, err);
}

static double level_of(size_t n) {
  return fmin(1, LEVEL * (1 + 1 / (double)(n ? n : 1)));
}

/* Fills the interval's quantiles: residuals over predicted difficulty. */
static int calibrate(work *w, ett_model *m, ett_err *err) {
  size_t n = w->rows, twins = 0;
  ett_model_facts *f = &m->facts;
  double *residual = w->held_out;
  for (size_t i = 0; i < n; i++) { /* held_out becomes the residual */
    double correction = f->shrink * w->held_out[i];
    w->loo[i] = w->has_twin[i] ? (1 - f->twin_weight) * correction +
                                     f->twin_weight * w->loo[i] - w->target[i]
                               : 0;
    residual[i] = correction - w->target[i];
  }
  double total = 0;
  for (size_t i = 0; i < n; i++)
    total += w->scratch[i] = cost(w, residual[i], i);
  f->error_mean = total / (double)n;
  f->error_median = quantile(w->scratch, n, 0.5);
  for (size_t i = 0; i < n; i++)
    w->scratch[i] = fabs(residual[i]);
  f->floor =
      fmax(0.3 * quantile(w->scratch, n, 0.5), w->config->log_target ? 1e-5 : 1e-300);
  if (w->config->trees && n >= 50 &&
      fit_difficulty(w, residual, &m->difficulty, err) != 0)
    return -1;
  double *scaled = w->scratch, *scaled_twins = w->scratch + n;
  for (size_t i = 0; i < n; i++) {
    double difficulty = f->floor;
    if (m->difficulty.trees)
      difficulty += exp((double)ett_forest_predict(&m->difficulty,
                                                   w->feature + i * (size_t)w->features));
    w->base[i] = difficulty; /* the base is done with */
    scaled[i] = fabs(residual[i]) / difficulty;
    if (w->has_twin[i])
      scaled_twins[twins++] = fabs(w->loo[i]) / difficulty;
  }
  f->width_inside = quantile(scaled, n, level_of(n));
  f->width_twin =
      twins > 50 ? quantile(scaled_twins, twins, level_of(twins)) : f->width_inside;
  return 0;
}

/* What happens above the largest sizes: the same regressor fitted below the 80th
 * percentile of size, asked above it. Chooses how much of the trees' correction to carry
 * outside and how wide the interval is there. */
static int probe_outside(work *w, const task *below, double limit, ett_model *m,
                         ett_err *err) {
  ett_model_facts *f = &m->facts;
  size_t n = w->rows, p = (size_t)w->columns, inside = 0, above = 0;
  double *column = malloc((n * (p + 4) + p) * sizeof *column);
  if (!column)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double *seconds = column + n * p, *plain = seconds + n, *trees = plain + n,
         *difficulty = trees + n, *x = difficulty + n;
  int status = 0;
  for (size_t i = 0; i < n; i++)
    if (w->size[i] <= limit) {
      memcpy(column + inside * p, w->column + i * p, p * sizeof *column);
      seconds[inside++] = w->seconds[i];
    }
  if (w->config->base)
    status =
        ett_nnls_fit(column, seconds, NULL, inside, w->columns, w->config->loss, x, err);
  for (size_t i = 0; status == 0 && i < n; i++) {
    if (w->size[i] <= limit)
      continue;
    double base = w->config->base ? 0 : 1, correction = 0;
    if (w->config->base)
      for (size_t j = 0; j < p; j++)
        base += w->column[i * p + j] * x[j];
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
  /* All of it unless less is clearly better: the probe's trees know less than these. */
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
    best = 1; /* trees alone: there is nothing else outside */
  for (size_t i = 0; i < above; i++)
    plain[i] = fabs(plain[i] + best * trees[i]) / difficulty[i];
  f->shrink_outside = best;
  f->width_outside = fmax(f->width_inside, quantile(plain, above, LEVEL));
  free(column);
  return status;
}

/* Medians of the twins' residuals, for the model file. */
static int collect_twins(const work *w, ett_model *parts, void **memory, ett_err *err) {
  size_t n = w->rows, count = 0;
  uint64_t *kernel = malloc((n + 1) * 2 * sizeof *kernel);
  if (!kernel)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu twins", n);
  double *residual = (double *)(void *)(kernel + n);
  for (size_t from = 0, to; from < n; from = to) {
    to = group_end(w, from);
    kernel[count] = w->kernel[w->order[from]];
    residual[count++] = group_median(w, from, to, n, w->scratch);
  }
  parts->twins = (uint32_t)count;
  parts->twin_kernel = kernel;
  parts->twin_residual = residual;
  *memory = kernel;
  return 0;
}

/* --- the whole ------------------------------------------------------------------------
 */

static int fit_kept(work *w, size_t dropped, ett_model *model, ett_err *err) {
  const ett_fit_config *config = w->config;
  ett_model parts = {0};
  ett_model_facts *f = &parts.facts;
  task tasks[ETT_MODEL_FORESTS + 1];
  int folds = config->trees ? config->folds : 0, count = 0, status = -1;
  size_t n = w->rows;
  void *twins = NULL, *block = NULL;
  size_t length;
  memcpy(w->scratch, w->size, n * sizeof *w->scratch);
  double limit = quantile(w->scratch, n, 0.8);
  size_t above = 0;
  for (size_t i = 0; i < n; i++)
    above += w->size[i] > limit;
  bool probing = n - above > 20 && above > 5;
  if (fit_base(w, NULL, err) != 0)
    return -1;
  for (int i = 0; i < folds; i++)
    make_task(&tasks[count++], w, i, 0);
  if (config->trees)
    make_task(&tasks[count++], w, WHOLE, 0);
  if (config->trees && probing) {
    make_task(&tasks[count], w, BELOW, limit);
    tasks[count].config.rounds = (config->boost.rounds + 1) / 2;
    count++;
  }
  if (count && run_tasks(tasks, count, config->threads, err) != 0)
    goto done;
  f->log_target = config->log_target;
  f->has_base = config->base;
  f->rows = (double)n;
  f->dropped = (double)dropped;
  f->shrink = 1;
  for (size_t i = 0; i < n; i++)
    if (folds)
      w->held_out[i] = (double)ett_forest_predict(&tasks[fold_of(w, i)].forest,
                                                  w->feature + i * (size_t)w->features);
  if (folds && config->base)
    f->shrink = best_share(w, w->held_out);
  if (config->twins && ett_design_ordered(w->design) && n >= 20)
    status = choose_neighbours(w, f, err);
  else
    status = 0;
  if (status != 0)
    goto done;
  status = -1;
  if (config->twins && f->neighbours == 0)
    f->twin_weight = twin_weight(w, f->shrink);
  f->size_least = f->size_most = w->size[0];
  if (collect_twins(w, &parts, &twins, err) != 0 || calibrate(w, &parts, err) != 0)
    goto done;
  f->shrink_outside = f->shrink;
  f->width_outside = 1.5 * f->width_inside;
  if (probing &&
      probe_outside(w, folds ? &tasks[folds + 1] : NULL, limit, &parts, err) != 0)
    goto done;
  parts.design = *w->design;
  parts.columns = w->columns;
  parts.features = w->features;
  parts.x = w->x;
  parts.forests = folds ? 1 : 0; /* the folds have served: this one saw every row */
  if (folds)
    parts.forest[0] = tasks[folds].forest;
  for (size_t i = 0; i < n; i++) {
    f->size_least = fmin(f->size_least, w->size[i]);
    f->size_most = fmax(f->size_most, w->size[i]);
  }
  memcpy(f->least, model->facts.least, sizeof f->least);
  memcpy(f->most, model->facts.most, sizeof f->most);
  if (ett_model_pack(&parts, &block, &length, err) == 0)
    status = ett_model_open(block, length, model, err);
done:
  for (int i = 0; i < count; i++)
    ett_forest_free(&tasks[i].forest);
  ett_forest_free(&parts.difficulty);
  free(twins);
  return status;
}

static void fill(work *w, const double *dims, const double *seconds,
                 const unsigned char *kinds, size_t rows) {
  size_t d = (size_t)w->design->dims, at = 0;
  for (size_t i = 0; i < rows; i++) {
    if (kinds && kinds[i])
      continue;
    const double *x = dims + i * d;
    ett_design_row(w->design, x, w->column + at * (size_t)w->columns,
                   w->feature + at * (size_t)w->features);
    w->seconds[at] = seconds[i];
    w->size[at] = ett_design_size(w->design, x);
    w->kernel[at++] = ett_design_kernel(w->design, x);
  }
  sort_by_kernel(w);
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
  work w = {.design = design,
            .config = config,
            .columns = ett_design_columns(design),
            .features = ett_design_features(design)};
  int status = -1;
  size_t dropped = 0, d = (size_t)design->dims;
  unsigned char *marks = kinds ? kinds : malloc(rows);
  if (!marks)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu rows", rows);
  if (make(&w, rows, err) != 0)
    goto done;
  fill(&w, dims, seconds, NULL, rows);
  if (gate(&w, least_seconds, marks, err) != 0)
    goto done;
  for (size_t i = 0; i < rows; i++)
    dropped += marks[i] != 0;
  if (rows - dropped < 2) {
    ett_err_set(err, ETT_ERR_FORMAT, "the gate keeps %zu of %zu rows", rows - dropped,
                rows);
    goto done;
  }
  if (dropped) {
    drop(&w);
    w = (work){.design = design,
               .config = config,
               .columns = ett_design_columns(design),
               .features = ett_design_features(design)};
    if (make(&w, rows - dropped, err) != 0)
      goto done;
    fill(&w, dims, seconds, marks, rows);
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
  drop(&w);
  if (!kinds)
    free(marks);
  if (status != 0)
    memset(model, 0, sizeof *model);
  return status;
}
