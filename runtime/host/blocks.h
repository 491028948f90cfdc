/* blocks.h - memory for many small objects of a few sizes.
 *
 * Lua frees garbage by the ten thousand and asks for as much again. Small blocks come
 * from lists of free ones by size; their memory is returned to the system when all are
 * closed. */
#ifndef ETT_HOST_BLOCKS_H
#define ETT_HOST_BLOCKS_H

#include <stddef.h>

enum { HOST_BLOCK_UNIT = 16, HOST_BLOCK_CLASSES = 16 };

/* The blocks of one Lua state; all zero at first. */
typedef struct host_blocks {
  int plain;    /* every block is one of malloc, for tools that watch it */
  void *chunks; /* linked by their first word */
  char *fresh;  /* the rest of the last chunk */
  size_t fresh_units;
  struct host_spare_block *spare[HOST_BLOCK_CLASSES + 1]; /* by size in units */
} host_blocks;

/* As realloc of a block that was made here with old_size bytes (NULL with 0); frees it
 * and returns NULL where size is 0. NULL without memory: the block stays. A smaller size
 * never fails. */
void *host_block_resize(host_blocks *blocks, void *block, size_t old_size, size_t size);

/* Returns the memory of the small blocks; none of them may be used any more. */
void host_blocks_close(host_blocks *blocks);

#endif
