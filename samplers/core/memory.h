/* Host memory: how much is free, buffers on huge pages, and limits of a campaign on the
 * host. */
#ifndef ETT_SAMPLE_MEMORY_H
#define ETT_SAMPLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum { ETT_SAMPLE_MOST_THREADS = 1024 }; /* per rank */

/* Maximum size of the rotating operands; larger than any cache. */
#define ETT_SAMPLE_MOST_COLD_BYTES ((int64_t)64 << 30)

/* Bytes that this process may still take: available memory of the machine, bounded by its
 * control groups (v1 and v2). Beyond a group's limit the kernel kills the process. Cached
 * pages of files count as free. root: prefix of /proc and /sys; empty except in
 * tests. */
double ett_sample_memory_free(const char *root);

/* Gap in bytes between two tensors in a block, in addition to rounding to cache lines.
 * Without a gap, operands with power-of-two sizes start at nearly the same page offset,
 * where loads wait for stores to another operand. Additions and Adam then took 1.2 to 3.6
 * times as long, a gelu up to 2.6 times. */
enum { ETT_SAMPLE_GAP = 5 * 64 };

/* Zeroed memory, on huge pages if the system grants them; NULL if memory runs out. bytes
 * are rounded up to whole huge pages. Pages are allocated at the first write. With 4 kB
 * pages the time of a streaming kernel depends on the physical pages: two processes
 * differed by 7 % in the median and 14 % at most, and a third of the time was address
 * translation. Both samples and training steps use this memory. */
void *ett_sample_pages_new(size_t bytes);

/* bytes as given to ett_sample_pages_new; NULL is ignored. */
void ett_sample_pages_free(void *at, size_t bytes);

#endif
