/* strings.h - distinct strings, numbered from 0 in the order of insertion.
 *
 * Texts are kept once, zero-terminated, in an arena that lives as long as the table. 32
 * bytes behind a text may be read. Not
 * thread-safe: each reader thread has its own table; they are merged at the end. */
#ifndef ETT_TRACE_STRINGS_H
#define ETT_TRACE_STRINGS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ett_string {
  const char *text;
  uint32_t length;
  uint32_t hash;
  uint64_t first; /* where it was first seen; orders a merge */
} ett_string;

typedef struct ett_strings {
  ett_string *items;
  uint32_t count, capacity;
  uint32_t *slots; /* item + 1, open addressing */
  uint32_t mask;
  void *arena; /* newest chunk first */
  size_t used, size, bytes;
} ett_strings;

#define ETT_STRING_NONE UINT32_MAX

/* Zero-initialised tables are valid and empty. */
void ett_strings_free(ett_strings *t);

/* Number of the text (length bytes, any bytes); ETT_STRING_NONE when memory ran out or
 * 2^32-2 strings are held. *fresh (may be NULL): whether it is new. */
uint32_t ett_strings_put(ett_strings *t, const char *text, size_t length, uint64_t first,
                         int *fresh);

/* Number of a text, or ETT_STRING_NONE when the table does not have it. */
uint32_t ett_strings_find(const ett_strings *t, const char *text, size_t length);

/* Bytes held by table and arena. */
size_t ett_strings_bytes(const ett_strings *t);

#endif
