#include "trace/table/words.h"

#include <string.h>

static uint32_t hash_at(const char *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return ((v | 0x20202020u) * 0x9E3779B1u) >> 16; /* 0x20: ignores case */
}

void ett_words_add(ett_words *w, const char *word) {
  const uint32_t h = hash_at(word);
  w->bits[h >> 6] |= UINT64_C(1) << (h & 63);
}

bool ett_words_may_contain(const ett_words *w, const char *text, size_t length) {
  for (size_t i = 0; i + ETT_WORD_LEAST <= length; i++) {
    const uint32_t h = hash_at(text + i);
    if (w->bits[h >> 6] >> (h & 63) & 1)
      return true;
  }
  return false;
}
