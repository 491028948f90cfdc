/* Limits of a campaign on the host. Separate from the CPU back end, because campaigns are
 * checked before OpenBLAS is loaded. */
#ifndef ETT_SAMPLE_BOUNDS_H
#define ETT_SAMPLE_BOUNDS_H

#include <stdint.h>

enum { ETT_SAMPLE_MOST_THREADS = 1024 }; /* per rank */

/* Maximum size of the rotating operands; larger than any cache. */
#define ETT_SAMPLE_MOST_COLD_BYTES ((int64_t)64 << 30)

#endif
