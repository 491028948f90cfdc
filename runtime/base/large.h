/* large.h - memory of large arrays. It is on huge pages if the system has them, because
 * page faults on small pages would be most of its cost. */
#ifndef ETT_BASE_LARGE_H
#define ETT_BASE_LARGE_H

#include <stdlib.h>
#include <sys/mman.h>

#define ETT_HUGE_PAGE ((size_t)2 << 20)

/* At least `size` bytes, not zeroed, for free(); NULL if memory runs out. The part after
 * the last whole huge page is on small pages. */
static inline void *ett_large_alloc(size_t size) {
  if (size < ETT_HUGE_PAGE)
    return malloc(size);
  void *memory = NULL;
  if (posix_memalign(&memory, ETT_HUGE_PAGE, size))
    return NULL;
  madvise(memory, size - size % ETT_HUGE_PAGE, MADV_HUGEPAGE);
  return memory;
}

#endif
