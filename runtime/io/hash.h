/* A hash of content, for the names of cached results: XXH3, 128 bits, by xxHash. It is
 * the same on every machine and in every version, but not safe against an adversary. */
#ifndef ETT_IO_HASH_H
#define ETT_IO_HASH_H

#include <stddef.h>

#include "base/err.h"

/* 32 hexadecimal digits and a NUL. */
#define ETT_HASH_SIZE 33

/* Hash of several pieces; {"ab", "c"} differs from {"a", "bc"}. */
typedef struct {
  const void *data;
  size_t length;
} ett_hash_piece;
void ett_hash_pieces(const ett_hash_piece *pieces, size_t count, char out[ETT_HASH_SIZE]);

/* Hash of a file: that of its content as one piece. Returns 0 or -1. */
int ett_hash_file(const char *path, char out[ETT_HASH_SIZE], ett_err *err);

#endif
