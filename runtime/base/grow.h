/* grow.h - capacity of growing arrays and blocks. */
#ifndef ETT_BASE_GROW_H
#define ETT_BASE_GROW_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"

/* Ensures capacity for one more item. `array` is the address of the array's pointer; it
 * holds count items and has *capacity. A full array is doubled, from `least` at first. 0,
 * or -1 if memory runs out (the array is unchanged). */
static inline int ett_grow(void *array, uint32_t count, uint32_t *capacity,
                           uint32_t least, size_t size) {
  if (count < *capacity)
    return 0;
  uint32_t wanted = *capacity ? *capacity * 2 : least;
  void *items, *grown = NULL;
  memcpy(&items, array, sizeof items); /* for any pointer type */
  if (wanted > *capacity && (size_t)wanted * size < ETT_HUGE_PAGE) {
    grown = realloc(items, (size_t)wanted * size);
  } else if (wanted > *capacity) {
    grown = ett_large_alloc((size_t)wanted * size);
    if (grown && items) {
      memcpy(grown, items, (size_t)count * size);
      free(items);
    }
  }
  if (!grown)
    return -1;
  memcpy(array, &grown, sizeof grown);
  *capacity = wanted;
  return 0;
}

/* Ensures that a block, at the address of its pointer, has `wanted` bytes; it has *bytes.
 * 0, or -1 if memory runs out (the block is unchanged). */
static inline int ett_room(void *block, size_t *bytes, size_t wanted) {
  if (wanted <= *bytes)
    return 0;
  void *memory;
  memcpy(&memory, block, sizeof memory); /* for any pointer type */
  void *grown = realloc(memory, wanted);
  if (!grown)
    return -1;
  memcpy(block, &grown, sizeof grown);
  *bytes = wanted;
  return 0; /* cppcheck-suppress memleak ; memcpy stored it */
}

#endif
