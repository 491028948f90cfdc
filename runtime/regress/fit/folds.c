#include "regress/fit/work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ett_fit_fold_bases(ett_work *w, double *x, ett_err *err) {
  size_t n = w->rows, p = (size_t)w->columns;
  double *column = malloc(n * (p + 2) * sizeof *column);
  int status = 0;
  if (!column)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a fit of %zu rows", n);
  double *seconds = column + n * p, *weight = seconds + n;
  for (int fold = 0; fold < w->folds && status == 0; fold++, x += p) {
    size_t kept = 0;
    for (size_t i = 0; i < n && w->config->base; i++) {
      if (w->fold[i] == fold)
        continue;
      memcpy(column + kept * p, w->column + i * p, p * sizeof *column);
      weight[kept] = w->weight[i];
      seconds[kept++] = w->seconds[i];
    }
    memcpy(x, w->x, p * sizeof *x); /* the only fold holds out every row */
    if (kept)
      status = ett_nnls_fit(column, seconds, weight, kept, w->columns, w->config->loss, x,
                            err);
    for (size_t i = 0; i < n && status == 0; i++)
      if (w->fold[i] == fold)
        w->held_target[i] = ett_work_target_of(w, i, x);
  }
  free(column);
  return status;
}

static bool held(const ett_fit_task *t, size_t row) {
  if (t->fold == ETT_FIT_WHOLE)
    return false;
  if (t->fold == ETT_FIT_BELOW)
    return t->w->size[row] > t->size_limit;
  return t->w->fold[row] == t->fold;
}

static void train(ett_fit_task *t) {
  const ett_work *w = t->w;
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
    labels[n++] = t->label
                      ? t->label[i]
                      : (float)(t->x ? ett_work_target_of(w, i, t->x) : w->target[i]);
  }
  if (n == 0) {
    t->status = 0; /* without rows: an empty forest, no correction */
    free(features);
    return;
  }
  double mean = 0; /* the logarithm of time / base is near 0 */
  if (t->label || !w->config->log_target || !w->config->base) {
    for (size_t i = 0; i < n; i++)
      mean += (double)labels[i];
    mean /= (double)n;
  }
  t->status = ett_boost_train(features, labels, n, w->features, mean, &t->config,
                              &t->forest, &t->err);
  free(features);
}

typedef struct {
  ett_fit_task *tasks;
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

int ett_fit_tasks_run(ett_fit_task *tasks, int count, int threads, ett_err *err) {
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

void ett_fit_task_make(ett_fit_task *t, const ett_work *w, int fold, const double *x,
                       double size_limit) {
  memset(t, 0, sizeof *t);
  t->w = w;
  t->fold = fold;
  t->x = x;
  t->size_limit = size_limit;
  t->config = w->config->boost;
  int n = t->config.parameters;
  bool seeded = false; /* by the caller */
  for (int i = 0; i < n; i++)
    seeded = seeded || strcmp(t->config.parameter[i].name, "seed") == 0;
  if (n < ETT_BOOST_PARAMETERS && !seeded) {
    snprintf(t->seed, sizeof t->seed, "%d", 3 + fold);
    t->config.parameter[n] = (ett_boost_parameter){"seed", t->seed};
    t->config.parameters = n + 1;
  }
}
