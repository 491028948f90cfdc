/* index.h - items by a key of a few bytes, numbered from 0 in the order of insertion. */
#ifndef ETT_TRACE_INDEX_H
#define ETT_TRACE_INDEX_H

#include "base/grow.h"
#include "trace/table/strings.h"

typedef struct ett_index {
  ett_strings keys;
  void *items;
  uint32_t capacity;
} ett_index;

/* The item of a key (zeroed if *fresh), or NULL if memory runs out. */
static inline void *ett_index_put(ett_index *x, const void *key, size_t key_bytes,
                                  size_t item_bytes, int *fresh) {
  if (ett_grow(&x->items, x->keys.count, &x->capacity, 64, item_bytes))
    return NULL;
  uint32_t id = ett_strings_put(&x->keys, key, key_bytes, 0, fresh);
  char *item = id == ETT_STRING_NONE ? NULL : (char *)x->items + id * item_bytes;
  return item && *fresh ? memset(item, 0, item_bytes) : item;
}

/* The item of a key, or NULL if there is none. */
static inline void *ett_index_find(const ett_index *x, const void *key, size_t key_bytes,
                                   size_t item_bytes) {
  uint32_t id = ett_strings_find(&x->keys, key, key_bytes);
  return id == ETT_STRING_NONE ? NULL : (char *)x->items + id * item_bytes;
}

static inline void ett_index_free(ett_index *x) {
  ett_strings_free(&x->keys);
  free(x->items);
  *x = (ett_index){0};
}

#endif
