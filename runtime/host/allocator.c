#include "host/allocator.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host/host.h"

/* Lua frees thousands of small blocks in a row and allocates as many. They come from one
 * arena, with a list of free blocks for each size: 7 % fewer instructions than malloc in
 * a short command. Other blocks come from malloc. */
enum { CLASSES = 32, CLASS_BYTES = 16, ARENA_BYTES = 32 << 20 };

#if defined __SANITIZE_ADDRESS__
static size_t small_most = 0; /* the sanitizer sees every block */
#else
static size_t small_most = (CLASSES - 1) * CLASS_BYTES + 8;
#endif

typedef struct kept_block {
  struct kept_block *next;
} kept_block;

static kept_block *kept[CLASSES];
static _Alignas(2 << 20) char arena[ARENA_BYTES]; /* a huge page's alignment */
static size_t arena_used;

/* The class of a small block. Blocks of class c hold 16 c + 8 bytes, as malloc's do. */
static size_t class_of(size_t size) {
  return (size + CLASS_BYTES - 9) / CLASS_BYTES;
}

static size_t bytes_of(size_t class) {
  return class * CLASS_BYTES + 8;
}

/* realloc, or free for a size of 0. host_allocating tells the handler of Ctrl-C. */
static void *of_system(void *block, size_t size) {
  void *moved = NULL;
  host_allocating = 1;
  if (size > 0)
    moved = realloc(block, size);
  else
    free(block);
  host_allocating = 0;
  return moved;
}

static void *take(size_t size) {
  if (size > small_most)
    return of_system(NULL, size);
  const size_t class = class_of(size), bytes = bytes_of(class);
  kept_block *block = kept[class];
  if (block) {
    kept[class] = block->next;
    __builtin_prefetch(block->next); /* the next of this size; kept blocks are cold */
    return block;
  }
  if (ARENA_BYTES - arena_used < bytes)
    return of_system(NULL, bytes);
  if (arena_used == 0) /* huge pages: 10 % less CPU time of a short command */
    madvise(arena, ARENA_BYTES, MADV_HUGEPAGE);
  arena_used += bytes;
  return arena + arena_used - bytes;
}

static int in_arena(const void *block) {
  return (uintptr_t)block - (uintptr_t)arena < ARENA_BYTES;
}

static void give(void *block, size_t size) {
  if (!block || !in_arena(block)) {
    of_system(block, 0);
    return;
  }
  kept_block *one = block;
  one->next = kept[class_of(size)];
  kept[class_of(size)] = one;
}

static void *resize(void *block, size_t old_size, size_t size) {
  if (!block)
    return take(size);
  if (size <= small_most && class_of(old_size) == class_of(size))
    return block;
  if (size > small_most && !in_arena(block))
    return of_system(block, size);
  void *moved = take(size);
  if (moved) {
    memcpy(moved, block, old_size < size ? old_size : size);
    give(block, old_size);
  }
  return moved;
}

void host_keep_no_blocks(void) {
  small_most = 0;
}

void *host_allocate(void *context, void *block, size_t old_size, size_t size) {
  host_memory *memory = context;
  host_allocations = (sig_atomic_t)((unsigned)host_allocations + 1);
  if (!block)
    old_size = 0; /* Lua passes the object type here */
  if (size == 0) {
    give(block, old_size);
    memory->used -= old_size;
    return NULL;
  }
  if (size > old_size && size - old_size > memory->limit - memory->used)
    return NULL;
  void *moved = resize(block, old_size, size);
  if (moved)
    memory->used = memory->used - old_size + size;
  return moved;
}
