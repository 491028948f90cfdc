/* Zeroed host memory on huge pages where the system grants them. With 4 kB pages the time
 * of a kernel that streams memory depends on which physical pages it was given: the same
 * shape in two processes differed by 7 % in the median and by 14 % at most; and its
 * address translation costs a third of its time. Operands of samples and tensors of a
 * training step come from here alike, so that one tells of the other. */
#ifndef ETT_SAMPLE_PAGES_H
#define ETT_SAMPLE_PAGES_H

#include <stddef.h>

/* bytes, rounded up to whole huge pages, aligned to one; NULL when there is no memory.
 * Pages are backed when they are first written. */
void *ett_sample_pages_new(size_t bytes);

/* bytes as given to ett_sample_pages_new; NULL is ignored. */
void ett_sample_pages_free(void *at, size_t bytes);

#endif
