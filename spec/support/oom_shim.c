/* Preloaded into a spec's process: makes allocations fail from a chosen one on, and
 * counts the blocks that are held, so that a leak on a failing way shows.
 *
 * glibc offers the real functions under other names (__libc_malloc, ...), so nothing has
 * to be looked up, which would itself allocate. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

/* The interface testing.c looks up. */
void ett_oom_arm(long first);
long ett_oom_disarm(void);
long ett_oom_blocks(void);

static atomic_long blocks;
static atomic_long counted;
static atomic_long failing_from; /* 0: never */

void ett_oom_arm(long first) {
  atomic_store(&counted, 0);
  atomic_store(&failing_from, first);
}

/* Returns how many allocations were asked for since ett_oom_arm. */
long ett_oom_disarm(void) {
  atomic_store(&failing_from, 0);
  return atomic_load(&counted);
}

long ett_oom_blocks(void) {
  return atomic_load(&blocks);
}

/* lua-cjson ends the process when malloc fails, and leaks its buffer when Lua's allocator
 * does. Its calls neither fail nor count. */
static int by_cjson(void *caller) {
  Dl_info info;
  return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "cjson");
}
#define BY_CJSON by_cjson(__builtin_return_address(0))

static int fails(void) {
  const long first = atomic_load(&failing_from);
  if (first == 0 || atomic_fetch_add(&counted, 1) + 1 < first)
    return 0;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) {
  if (BY_CJSON)
    return __libc_malloc(size);
  void *block = fails() ? NULL : __libc_malloc(size);
  atomic_fetch_add(&blocks, block != NULL);
  return block;
}

void *calloc(size_t count, size_t size) {
  if (BY_CJSON)
    return __libc_calloc(count, size);
  void *block = fails() ? NULL : __libc_calloc(count, size);
  atomic_fetch_add(&blocks, block != NULL);
  return block;
}

void *realloc(void *block, size_t size) {
  if (BY_CJSON)
    return __libc_realloc(block, size);
  if (block && size == 0) { /* frees */
    atomic_fetch_sub(&blocks, 1);
    return __libc_realloc(block, size);
  }
  if (fails())
    return NULL;
  void *moved = __libc_realloc(block, size);
  atomic_fetch_add(&blocks, moved != NULL && block == NULL);
  return moved;
}

void free(void *block) {
  if (!BY_CJSON)
    atomic_fetch_sub(&blocks, block != NULL);
  __libc_free(block);
}
