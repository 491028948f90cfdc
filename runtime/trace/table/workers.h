/* workers.h - threads that share independent pieces of work.
 *
 * The threads are kept between jobs. A new thread waits for some milliseconds on the
 * core of its creator. A waiting thread that is woken begins at once on a free core. */
#ifndef ETT_TRACE_WORKERS_H
#define ETT_TRACE_WORKERS_H

#include <stdint.h>

typedef struct ett_workers ett_workers;
typedef void ett_piece(void *context, uint32_t i);
typedef void ett_tick(void *context);

/* Starts threads; NULL if there are none. In a job with a tick all of them work. In other
 * jobs all but one of them work, and the caller works, too. */
ett_workers *ett_workers_new(unsigned threads);

/* Calls work(context, i) once for each i below count, and returns after the last call.
 * Without workers (NULL) the caller does all. One caller at a time. With a tick the
 * caller does no work but calls it several times a second. */
void ett_workers_run(ett_workers *w, uint32_t count, ett_piece *work, void *context,
                     ett_tick *tick);

void ett_workers_free(ett_workers *w);

#endif
