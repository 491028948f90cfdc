/* Zeroed host memory on huge pages where the system grants them. With 4 kB pages the time
 * of a kernel that streams memory depends on which physical pages it was given: the same
 * shape in two processes differed by 7 % in the median and by 14 % at most; and its
 * address translation costs a third of its time. Operands of samples and tensors of a
 * training step come from here alike, so that one tells of the other. */
#ifndef ETT_SAMPLE_PAGES_H
#define ETT_SAMPLE_PAGES_H

#include <stddef.h>

/* Bytes left free between two neighbours in such memory, behind whole cache lines.
 * Operands whose sizes are powers of two would else begin at nearly the same offset of
 * their pages, where a load waits for a store to another of them: additions and Adam
 * took 1.2 to 3.6 times as long, a gelu up to 2.6 times. */
enum { ETT_SAMPLE_GAP = 5 * 64 };

/* bytes, rounded up to whole huge pages, aligned to one; NULL when there is no memory.
 * Pages are backed when they are first written. */
void *ett_sample_pages_new(size_t bytes);

/* bytes as given to ett_sample_pages_new; NULL is ignored. */
void ett_sample_pages_free(void *at, size_t bytes);

#endif
