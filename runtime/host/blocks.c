#include "host/blocks.h"

#include <stdlib.h>
#include <string.h>

/* Sizes are multiples of UNIT, the alignment of malloc. */
enum { UNIT = HOST_BLOCK_UNIT, SMALL_MOST = UNIT * HOST_BLOCK_CLASSES, CHUNK = 1 << 15 };

typedef struct host_spare_block {
  struct host_spare_block *next;
} spare_block;

static size_t units_of(size_t size) {
  return (size + UNIT - 1) / UNIT;
}

static int is_small(const host_blocks *blocks, size_t size) {
  return size <= SMALL_MOST && !blocks->plain;
}

static void give(host_blocks *blocks, void *block, size_t units) {
  spare_block *b = block;
  b->next = blocks->spare[units];
  blocks->spare[units] = b;
}

static void *take(host_blocks *blocks, size_t units) {
  spare_block *b = blocks->spare[units];
  if (b) {
    blocks->spare[units] = b->next;
    return b;
  }
  if (blocks->fresh_units < units) {
    char *chunk = malloc(CHUNK);
    if (!chunk)
      return NULL;
    if (blocks->fresh_units > 0)
      give(blocks, blocks->fresh, blocks->fresh_units);
    memcpy(chunk, &blocks->chunks, sizeof blocks->chunks);
    blocks->chunks = chunk;
    blocks->fresh = chunk + UNIT;
    blocks->fresh_units = CHUNK / UNIT - 1;
  }
  char *block = blocks->fresh;
  blocks->fresh += units * UNIT;
  blocks->fresh_units -= units;
  return block;
}

static void drop(host_blocks *blocks, void *block, size_t size) {
  if (!is_small(blocks, size))
    free(block);
  else if (size > 0)
    give(blocks, block, units_of(size));
}

void *host_block_resize(host_blocks *blocks, void *block, size_t old_size, size_t size) {
  if (size == 0) {
    drop(blocks, block, old_size);
    return NULL;
  }
  int small = is_small(blocks, size), was_small = is_small(blocks, old_size);
  if (!small && (!block || !was_small))
    return realloc(block, size);
  if (block && small && was_small && units_of(size) == units_of(old_size))
    return block;
  void *moved = small ? take(blocks, units_of(size)) : malloc(size);
  if (!moved) { /* a larger block serves a smaller size, too */
    return size < old_size ? block : NULL;
  }
  if (block) {
    memcpy(moved, block, size < old_size ? size : old_size);
    drop(blocks, block, old_size);
  }
  return moved;
}

void host_blocks_close(host_blocks *blocks) {
  while (blocks->chunks) {
    void *chunk = blocks->chunks;
    memcpy(&blocks->chunks, chunk, sizeof blocks->chunks);
    free(chunk);
  }
  memset(blocks, 0, sizeof *blocks);
}
