/* words.h - a quick test whether a text may contain one of some words. */
#ifndef ETT_TRACE_WORDS_H
#define ETT_TRACE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETT_WORD_LEAST 4

/* Hashes of the first ETT_WORD_LEAST bytes of the words, without case. All zero: no
 * words. */
typedef struct ett_words {
  uint64_t bits[1024];
} ett_words;

/* Adds a word of at least ETT_WORD_LEAST bytes. */
void ett_words_add(ett_words *w, const char *word);

/* False if the text contains none of the words, ignoring ASCII case. */
bool ett_words_may_contain(const ett_words *w, const char *text, size_t length);

#endif
