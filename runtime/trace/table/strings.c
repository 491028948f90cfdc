#include "trace/table/strings.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 10)
#define SLACK 32 /* readable behind the last text */

typedef struct arena {
  struct arena *next;
  char bytes[];
} arena;

void ett_strings_free(ett_strings *t) {
  for (arena *a = t->arena; a;) {
    arena *next = a->next;
    free(a);
    a = next;
  }
  free(t->items);
  free(t->slots);
  memset(t, 0, sizeof *t);
}

static uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t m = (__uint128_t)a * b;
  return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint64_t load64(const char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

/* memcmp costs a call; most texts are some tens of bytes. */
static inline int same(const char *a, const char *b, size_t n) {
  if (n < 8 || n > 256)
    return memcmp(a, b, n) == 0;
  size_t i = 0;
  for (; i + 8 < n; i += 8)
    if (load64(a + i) != load64(b + i))
      return 0;
  return load64(a + n - 8) == load64(b + n - 8);
}

/* 64-bit multiply hash of the bytes, folded to 32; the same on every machine with the
 * same byte order. */
static uint32_t hash_of(const char *text, size_t length) {
  const uint64_t k0 = 0x9E3779B97F4A7C15u, k1 = 0xD6E8FEB86659FD93u;
  uint64_t h = k0 ^ length;
  const char *p = text;
  size_t n = length;
  for (; n > 16; n -= 16, p += 16)
    h = mix(load64(p) ^ k0, load64(p + 8) ^ h);
  if (n >= 8) {
    h = mix(load64(p) ^ k0, load64(p + n - 8) ^ h);
  } else if (n > 0) {
    uint64_t v = 0;
    memcpy(&v, p, n);
    h = mix(v ^ k0, k1 ^ h);
  }
  h = mix(h, k1);
  return (uint32_t)(h ^ (h >> 32));
}

static char *arena_take(ett_strings *t, size_t n) {
  if (!t->arena || t->size - t->used < n) {
    size_t size = n > ARENA_BYTES / 4 ? n : ARENA_BYTES;
    arena *a = malloc(sizeof *a + size + SLACK);
    if (!a)
      return NULL;
    t->bytes += sizeof *a + size + SLACK;
    if (size == n && t->arena) { /* a text of its own chunk: keep filling the newest */
      a->next = ((arena *)t->arena)->next;
      ((arena *)t->arena)->next = a;
      return a->bytes;
    }
    a->next = t->arena;
    t->arena = a;
    t->size = size;
    t->used = 0;
  }
  char *p = ((arena *)t->arena)->bytes + t->used;
  t->used += n;
  return p;
}

static int grow(ett_strings *t) {
  uint32_t size = t->slots ? (t->mask + 1) * 2 : 1024;
  if (size == 0)
    return -1;
  uint32_t *slots = calloc(size, sizeof *slots);
  if (!slots)
    return -1;
  ett_string *items = realloc(t->items, (size_t)(size / 2) * sizeof *items);
  if (!items) {
    free(slots);
    return -1;
  }
  t->items = items;
  t->capacity = size / 2;
  free(t->slots);
  t->slots = slots;
  t->mask = size - 1;
  for (uint32_t i = 0; i < t->count; i++) {
    uint32_t s = items[i].hash & t->mask;
    while (slots[s])
      s = (s + 1) & t->mask;
    slots[s] = i + 1;
  }
  return 0;
}

uint32_t ett_strings_find(const ett_strings *t, const char *text, size_t length) {
  if (!t->slots)
    return ETT_STRING_NONE;
  uint32_t hash = hash_of(text, length);
  for (uint32_t s = hash & t->mask; t->slots[s]; s = (s + 1) & t->mask) {
    const ett_string *item = &t->items[t->slots[s] - 1];
    if (item->hash == hash && item->length == length && same(item->text, text, length))
      return t->slots[s] - 1;
  }
  return ETT_STRING_NONE;
}

uint32_t ett_strings_put(ett_strings *t, const char *text, size_t length, uint64_t first,
                         int *fresh) {
  if (fresh)
    *fresh = 0;
  uint32_t hash = hash_of(text, length), s = 0;
  if (t->slots) {
    for (s = hash & t->mask; t->slots[s]; s = (s + 1) & t->mask) {
      ett_string *item = &t->items[t->slots[s] - 1];
      if (item->hash == hash && item->length == length &&
          same(item->text, text, length)) {
        if (first < item->first)
          item->first = first;
        return t->slots[s] - 1;
      }
    }
  }
  if (length > UINT32_MAX - 1)
    return ETT_STRING_NONE;
  if (t->count == t->capacity) {
    if (grow(t))
      return ETT_STRING_NONE;
    for (s = hash & t->mask; t->slots[s];)
      s = (s + 1) & t->mask;
  }
  char *copy = arena_take(t, length + 1);
  if (!copy)
    return ETT_STRING_NONE;
  memcpy(copy, text, length);
  copy[length] = 0;
  t->items[t->count] = (ett_string){copy, (uint32_t)length, hash, first};
  t->slots[s] = ++t->count;
  if (fresh)
    *fresh = 1;
  return t->count - 1;
}

size_t ett_strings_bytes(const ett_strings *t) {
  return t->bytes + (size_t)t->capacity * sizeof *t->items +
         (t->slots ? ((size_t)t->mask + 1) * sizeof *t->slots : 0);
}
