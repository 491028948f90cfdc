#include "trace/table/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 64 };

/* Bytes of a thread's stack. 64 of the usual 8 MB would take half a GB of addresses,
 * which the sandbox limits. */
#define STACK_BYTES ((size_t)512 << 10)

struct ett_workers {
  pthread_mutex_t lock;
  pthread_cond_t wake, finished;
  ett_piece *work;
  void *context;
  uint32_t count;
  atomic_uint next;
  uint64_t job;  /* number of the last job */
  unsigned room; /* number of threads that may still join the job */
  bool stop;
  unsigned busy; /* threads at work on the job */
  pid_t process; /* a child by fork has no threads */
  unsigned thread_count;
  pthread_t threads[THREADS_MOST];
};

static void work_on(ett_workers *w) {
  for (uint32_t i; (i = atomic_fetch_add(&w->next, 1)) < w->count;)
    w->work(w->context, i);
}

static void *thread_main(void *argument) {
  ett_workers *w = argument;
  uint64_t seen = 0;
  pthread_mutex_lock(&w->lock);
  while (!w->stop) {
    if (w->job == seen || !w->room) {
      pthread_cond_wait(&w->wake, &w->lock);
      continue;
    }
    seen = w->job;
    w->room--;
    w->busy++;
    pthread_mutex_unlock(&w->lock);
    work_on(w);
    pthread_mutex_lock(&w->lock);
    if (--w->busy == 0)
      pthread_cond_signal(&w->finished);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

ett_workers *ett_workers_new(unsigned threads) {
  ett_workers *w = threads ? calloc(1, sizeof *w) : NULL;
  if (!w)
    return NULL;
  w->process = getpid();
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  pthread_cond_init(&w->finished, NULL);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, STACK_BYTES);
  while (w->thread_count < threads && w->thread_count < THREADS_MOST &&
         !pthread_create(&w->threads[w->thread_count], &small, thread_main, w))
    w->thread_count++;
  pthread_attr_destroy(&small);
  return w;
}

static void run_alone(uint32_t count, ett_piece *work, void *context) {
  for (uint32_t i = 0; i < count; i++)
    work(context, i);
}

/* Waits for the end of the job; w->lock is held, but not during a tick. */
static void watch(ett_workers *w, ett_tick *tick) {
  while (w->busy || atomic_load(&w->next) < w->count) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&w->finished, &w->lock, &until) == ETIMEDOUT) {
      pthread_mutex_unlock(&w->lock);
      tick(w->context);
      pthread_mutex_lock(&w->lock);
    }
  }
}

void ett_workers_run(ett_workers *w, uint32_t count, ett_piece *work, void *context,
                     ett_tick *tick) {
  if (!w || (count < 2 && !tick) || w->process != getpid() || !w->thread_count) {
    run_alone(count, work, context);
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->work = work;
  w->context = context;
  w->count = count;
  atomic_store(&w->next, 0);
  w->job++;
  w->room = w->thread_count - !tick;
  pthread_cond_broadcast(&w->wake);
  pthread_mutex_unlock(&w->lock);
  if (!tick)
    work_on(w);
  pthread_mutex_lock(&w->lock);
  if (tick)
    watch(w, tick);
  w->room = 0;
  while (w->busy)
    pthread_cond_wait(&w->finished, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

void ett_workers_free(ett_workers *w) {
  if (!w || w->process != getpid()) {
    free(w);
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  pthread_cond_broadcast(&w->wake);
  pthread_mutex_unlock(&w->lock);
  for (unsigned i = 0; i < w->thread_count; i++)
    pthread_join(w->threads[i], NULL);
  pthread_cond_destroy(&w->finished);
  pthread_cond_destroy(&w->wake);
  pthread_mutex_destroy(&w->lock);
  free(w);
}
