/* grow.h - room in arrays that grow. */
#ifndef ETT_BASE_GROW_H
#define ETT_BASE_GROW_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more item of the given size in the array whose pointer is at
 * `array`: count items are in use, *capacity fit, `least` is the first capacity. Doubles
 * it when full. 0, or -1 when memory ran out (the array stays as it was). */
static inline int ett_grow(void *array, uint32_t count, uint32_t *capacity,
                           uint32_t least, size_t size) {
  if (count < *capacity)
    return 0;
  uint32_t wanted = *capacity ? *capacity * 2 : least;
  void *items;
  memcpy(&items, array, sizeof items); /* whatever type it points to */
  items = wanted > *capacity ? realloc(items, (size_t)wanted * size) : NULL;
  if (!items)
    return -1;
  memcpy(array, &items, sizeof items);
  *capacity = wanted;
  return 0;
}

#endif
