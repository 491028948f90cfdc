/* spread.h - runs independent pieces of work in several threads. */
#ifndef ETT_TRACE_SPREAD_H
#define ETT_TRACE_SPREAD_H

#include <stdint.h>

typedef void ett_piece(void *context, uint32_t i);

/* Calls work(context, i) once for each i below count, and returns after the last call.
 * The calling thread takes part; if a thread cannot start, the others do its work. */
void ett_spread(unsigned threads, uint32_t count, ett_piece *work, void *context);

#endif
