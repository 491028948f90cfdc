/* blocks.h - memory for many small objects of a few sizes.
 *
 * Lua frees garbage by the ten thousand and asks for as much again. Small blocks come
 * from lists of free ones by size; their memory is not returned to the system. One thread
 * only. */
#ifndef ETT_HOST_BLOCKS_H
#define ETT_HOST_BLOCKS_H

#include <stddef.h>

/* As realloc of a block that was made here with old_size bytes (NULL with 0); frees it
 * and returns NULL where size is 0. NULL without memory: the block stays. A smaller size
 * never fails. */
void *host_block_resize(void *block, size_t old_size, size_t size);

/* From the start on, every block is one of malloc: for tools that watch it. */
void host_blocks_plain(void);

#endif
