/* What a campaign may ask of a back end on the host. It stands here and not with the CPU
 * back end, because a campaign is checked before OpenBLAS is loaded: that reads its
 * environment as it is loaded. */
#ifndef ETT_SAMPLE_BOUNDS_H
#define ETT_SAMPLE_BOUNDS_H

#include <stdint.h>

enum { ETT_SAMPLE_MOST_THREADS = 1024 }; /* of one rank */

/* Operands through which measurements rotate: more than any cache. */
#define ETT_SAMPLE_MOST_COLD_BYTES ((int64_t)64 << 30)

#endif
