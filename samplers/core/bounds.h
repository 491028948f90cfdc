/* Limits of a campaign on the host. They are here, not in the CPU back end, because a
 * campaign is checked before OpenBLAS is loaded. */
#ifndef ETT_SAMPLE_BOUNDS_H
#define ETT_SAMPLE_BOUNDS_H

#include <stdint.h>

enum { ETT_SAMPLE_MOST_THREADS = 1024 }; /* of one rank */

/* Operands through which measurements rotate: more than any cache. */
#define ETT_SAMPLE_MOST_COLD_BYTES ((int64_t)64 << 30)

#endif
