#include "samplers/core/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What no object can have: refused here, as AddressSanitizer's allocator ends the process
 * where the system's says no. */
static int beyond_memory(size_t bytes) {
  return bytes > PTRDIFF_MAX;
}

#ifdef __SANITIZE_ADDRESS__ /* of the allocator it watches, so that a step outside is    \
                               seen */

void *ett_sample_pages_new(size_t bytes) {
  void *at = NULL;
  if (beyond_memory(bytes) || posix_memalign(&at, 64, bytes ? bytes : 1) != 0)
    return NULL;
  return memset(at, 0, bytes);
}

void ett_sample_pages_free(void *at, size_t bytes) {
  (void)bytes;
  free(at);
}

#else

static const size_t huge = (size_t)2 << 20;

static size_t rounded(size_t bytes) {
  return (bytes + huge - 1) / huge * huge;
}

void *ett_sample_pages_new(size_t bytes) {
  if (beyond_memory(bytes))
    return NULL;
  const size_t size = rounded(bytes ? bytes : 1);
  char *at =
      mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return NULL;
  const size_t before = (huge - (uintptr_t)at % huge) % huge;
  if (before > 0)
    munmap(at, before);
  munmap(at + before + size, huge - before);
#ifdef MADV_HUGEPAGE
  madvise(at + before, size, MADV_HUGEPAGE); /* advice: small pages serve too */
#endif
  return at + before;
}

void ett_sample_pages_free(void *at, size_t bytes) {
  if (at)
    munmap(at, rounded(bytes ? bytes : 1));
}

#endif
