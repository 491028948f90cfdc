#include "io/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
  unsigned char *bytes;
  ptrdiff_t length; /* 0: the end, -1: error */
} slot;

struct ett_readahead {
  ett_byte_source source;
  size_t size;
  unsigned count, head, tail; /* free-running; tail is written, head is read */
  size_t used;                /* of the slot at head */
  bool stop;
  ett_err err;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  slot slots[];
};

static void *produce(void *argument) {
  ett_readahead *a = argument;
  for (ptrdiff_t n = 1; n > 0;) {
    pthread_mutex_lock(&a->lock);
    while (!a->stop && a->tail - a->head == a->count)
      pthread_cond_wait(&a->changed, &a->lock);
    bool stop = a->stop;
    slot *s = &a->slots[a->tail % a->count];
    pthread_mutex_unlock(&a->lock);
    if (stop)
      break;
    size_t length = 0;
    do { /* fill whole buffers to reduce synchronisation */
      n = a->source.read(a->source.context, s->bytes + length, a->size - length, &a->err);
      if (n > 0)
        length += (size_t)n;
    } while (n > 0 && length < a->size);
    pthread_mutex_lock(&a->lock);
    if (length) {
      s->length = (ptrdiff_t)length;
      a->tail++;
    }
    if (n <= 0) { /* a separate slot, so that earlier data is consumed first */
      while (!a->stop && a->tail - a->head == a->count)
        pthread_cond_wait(&a->changed, &a->lock);
      a->slots[a->tail % a->count].length = n;
      a->tail++;
    }
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
  }
  return NULL;
}

ett_readahead *ett_readahead_new(ett_byte_source source, size_t buffer_bytes,
                                 unsigned buffers, ett_err *err) {
  ett_readahead *a = calloc(1, sizeof *a + buffers * sizeof(slot));
  if (!a)
    goto memory;
  a->source = source;
  a->size = buffer_bytes;
  a->count = buffers;
  for (unsigned i = 0; i < buffers; i++)
    if (!(a->slots[i].bytes = malloc(buffer_bytes)))
      goto memory;
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->changed, NULL);
  int code = pthread_create(&a->thread, NULL, produce, a);
  if (code == 0)
    return a;
  ett_err_set(err, ETT_ERR_IO, "cannot start a thread: %s", strerror(code));
  goto fail;
memory:
  ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
fail:
  if (a)
    for (unsigned i = 0; i < buffers; i++)
      free(a->slots[i].bytes);
  free(a);
  return NULL;
}

ptrdiff_t ett_readahead_read(void *readahead, void *buffer, size_t size, ett_err *err) {
  ett_readahead *a = readahead;
  pthread_mutex_lock(&a->lock);
  while (a->head == a->tail)
    pthread_cond_wait(&a->changed, &a->lock);
  slot *s = &a->slots[a->head % a->count];
  pthread_mutex_unlock(&a->lock);
  if (s->length <= 0) { /* further reads return the end again */
    if (s->length < 0 && err)
      *err = a->err;
    return s->length;
  }
  size_t n = (size_t)s->length - a->used;
  if (n > size)
    n = size;
  memcpy(buffer, s->bytes + a->used, n);
  a->used += n;
  if (a->used == (size_t)s->length) {
    pthread_mutex_lock(&a->lock);
    a->used = 0;
    a->head++;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
  }
  return (ptrdiff_t)n;
}

void ett_readahead_free(ett_readahead *a) {
  if (!a)
    return;
  pthread_mutex_lock(&a->lock);
  a->stop = true;
  pthread_cond_signal(&a->changed);
  pthread_mutex_unlock(&a->lock);
  pthread_join(a->thread, NULL);
  pthread_cond_destroy(&a->changed);
  pthread_mutex_destroy(&a->lock);
  for (unsigned i = 0; i < a->count; i++)
    free(a->slots[i].bytes);
  free(a);
}
