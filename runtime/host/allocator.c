#include "host/allocator.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host/host.h"

/* Lua frees thousands of blocks in a row and allocates as many. Blocks of up to 32 KiB
 * come from one arena, with a list of free blocks for each class of sizes. A short
 * command then takes 7 % fewer instructions than with malloc. Larger blocks come from
 * malloc. The arena has huge pages; each page of malloc's heap costs a fault. */
enum {
  CLASS_BYTES = 16,
  SMALL_CLASSES = 32, /* 16 bytes apart */
  SMALL_MOST = (SMALL_CLASSES - 1) * CLASS_BYTES + 8,
  OCTAVES = 6, /* above them four classes between a power of two and the next */
  CLASSES = SMALL_CLASSES + 4 * OCTAVES,
  ARENA_BYTES = 32 << 20,
};

#if defined __SANITIZE_ADDRESS__
static size_t arena_most = 0; /* the sanitizer sees every block */
#else
static size_t arena_most = (size_t)512 << OCTAVES;
#endif

/* third: the block that is taken third from here; not in the smallest class. */
typedef struct kept_block {
  struct kept_block *next, *second, *third;
} kept_block;

static kept_block *kept[CLASSES];
static _Alignas(2 << 20) char arena[ARENA_BYTES]; /* a huge page's alignment */
static size_t arena_used;

/* The class of a block of at most arena_most bytes. Small classes c hold 16 c + 8 bytes,
 * as malloc's blocks do; the others 640, 768, 896, 1024, 1280, ... bytes. */
static size_t class_of(size_t size) {
  if (size <= SMALL_MOST)
    return (size + CLASS_BYTES - 9) / CLASS_BYTES;
  if (size <= 512)
    return SMALL_CLASSES;
  const size_t octave = 54 - (size_t)__builtin_clzll(size - 1);
  return SMALL_CLASSES + 4 * octave + (((size - 1) >> (octave + 7)) & 3);
}

static size_t bytes_of(size_t class) {
  if (class < SMALL_CLASSES)
    return class * CLASS_BYTES + 8;
  const size_t above = class - SMALL_CLASSES;
  return (640 + above % 4 * 128) << above / 4;
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
  if (size > arena_most)
    return of_system(NULL, size);
  const size_t class = class_of(size), bytes = bytes_of(class);
  kept_block *block = kept[class];
  if (block) {
    kept[class] = block->next;
    if (class > 0) /* kept blocks are cold */
      __builtin_prefetch(block->third);
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
  const size_t class = class_of(size);
  kept_block *one = block, *next = kept[class];
  one->next = next;
  if (class > 0) {
    one->second = next ? next->next : NULL;
    one->third = next ? next->second : NULL;
  }
  kept[class] = one;
}

static void *resize(void *block, size_t old_size, size_t size) {
  if (!block)
    return take(size);
  if (size <= arena_most && class_of(old_size) == class_of(size))
    return block;
  if (size > arena_most && !in_arena(block))
    return of_system(block, size);
  void *moved = take(size);
  if (moved) {
    memcpy(moved, block, old_size < size ? old_size : size);
    give(block, old_size);
  }
  return moved;
}

void host_keep_no_blocks(void) {
  arena_most = 0;
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
