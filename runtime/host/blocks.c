#include "host/blocks.h"

#include <stdlib.h>
#include <string.h>

/* Sizes are multiples of UNIT, the alignment of malloc. */
enum { UNIT = 16, CLASSES = 16, CHUNK = 1 << 15 };

#ifdef ETT_SANITIZED
static size_t small_most = 0; /* every block shows its bounds */
#else
static size_t small_most = UNIT * CLASSES;
#endif

typedef struct spare_block {
  struct spare_block *next;
} spare_block;

static spare_block *spare[CLASSES + 1]; /* by size in units */
static char *fresh;                     /* the rest of the last chunk */
static size_t fresh_units;

static size_t units_of(size_t size) {
  return (size + UNIT - 1) / UNIT;
}

static void give(void *block, size_t units) {
  spare_block *b = block;
  b->next = spare[units];
  spare[units] = b;
}

static void *take(size_t units) {
  spare_block *b = spare[units];
  if (b) {
    spare[units] = b->next;
    return b;
  }
  if (fresh_units < units) {
    char *chunk = malloc(CHUNK);
    if (!chunk)
      return NULL;
    if (fresh_units > 0)
      give(fresh, fresh_units);
    fresh = chunk;
    fresh_units = CHUNK / UNIT;
  }
  char *block = fresh;
  fresh += units * UNIT;
  fresh_units -= units;
  return block;
}

void host_blocks_plain(void) {
  small_most = 0;
}

static void drop(void *block, size_t size) {
  if (size > small_most)
    free(block);
  else if (size > 0)
    give(block, units_of(size));
}

void *host_block_resize(void *block, size_t old_size, size_t size) {
  if (size == 0) {
    drop(block, old_size);
    return NULL;
  }
  if (size > small_most && (!block || old_size > small_most))
    return realloc(block, size);
  if (block && size <= small_most && old_size <= small_most &&
      units_of(size) == units_of(old_size))
    return block;
  void *moved = size > small_most ? malloc(size) : take(units_of(size));
  if (!moved) /* a larger block serves a smaller size, too */
    return size < old_size ? block : NULL;
  if (block) {
    memcpy(moved, block, size < old_size ? size : old_size);
    drop(block, old_size);
  }
  return moved;
}
