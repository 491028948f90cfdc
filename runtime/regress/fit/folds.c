#include "regress/fit/work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ett_fit_fold_of(const ett_work *w, size_t row) {
  return (int)(ett_mix64(w->kernel[row]) % (uint64_t)w->config->folds);
}

static bool held(const ett_fit_task *t, size_t row) {
  if (t->fold == ETT_FIT_WHOLE)
    return false;
  if (t->fold == ETT_FIT_BELOW)
    return t->w->size[row] > t->size_limit;
  return ett_fit_fold_of(t->w, row) == t->fold;
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
    labels[n++] = (float)w->target[i];
  }
  if (n == 0) {
    t->status = 0; /* without rows: an empty forest, no correction */
    free(features);
    return;
  }
  double mean = 0; /* the logarithm of time / base is near 0 */
  if (!w->config->log_target || !w->config->base) {
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

void ett_fit_task_make(ett_fit_task *t, const ett_work *w, int fold, double size_limit) {
  memset(t, 0, sizeof *t);
  t->w = w;
  t->fold = fold;
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
