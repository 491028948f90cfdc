#include "trace/table/spread.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS_MOST 64

typedef struct spread {
  ett_piece *work;
  void *context;
  uint32_t count;
  atomic_uint next;
} spread;

static void *run(void *argument) {
  spread *s = argument;
  for (uint32_t i; (i = atomic_fetch_add(&s->next, 1)) < s->count;)
    s->work(s->context, i);
  return NULL;
}

void ett_spread(unsigned threads, uint32_t count, ett_piece *work, void *context) {
  spread s = {.work = work, .context = context, .count = count};
  pthread_t thread[THREADS_MOST];
  unsigned started = 0;
  while (started + 1 < threads && started + 1 < count && started < THREADS_MOST &&
         pthread_create(&thread[started], NULL, run, &s) == 0)
    started++;
  run(&s);
  for (unsigned i = 0; i < started; i++)
    pthread_join(thread[i], NULL);
}
