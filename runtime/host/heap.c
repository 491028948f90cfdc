#include "host/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  HUGE_PAGE = 2 << 20,
  FIRST = 896 << 10,      /* what a short command uses, mapped at once */
  NEXT = 15 * HUGE_PAGE,  /* reserved behind it, in huge pages; used as needed */
  MOST_IN_HEAP = 32 << 20 /* larger blocks are mapped and unmapped; malloc's own limit */
};

void heap_prepare(void) {
#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && defined MADV_POPULATE_WRITE
  const uintptr_t end = (uintptr_t)sbrk(0);
  const uintptr_t boundary = (end + FIRST + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  const uintptr_t first = boundary - FIRST;
  if (sbrk((intptr_t)(first - end)) == (void *)-1)
    return;
  mallopt(M_MMAP_THRESHOLD, MOST_IN_HEAP);
  mallopt(M_TRIM_THRESHOLD, 2 * MOST_IN_HEAP);
  mallopt(M_TOP_PAD, FIRST + NEXT);
  void *volatile block = malloc(1 << 18); /* more than is left of a heap before `first` */
  free(block);
  mallopt(M_TOP_PAD, 1 << 17);
  if ((uintptr_t)sbrk(0) < boundary + NEXT)
    return; /* a limit on memory */
  madvise((void *)first, FIRST, MADV_POPULATE_WRITE);
  madvise((void *)boundary, NEXT, MADV_HUGEPAGE);
#endif
}
