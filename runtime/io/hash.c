#include "io/hash.h"

#include <stdint.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void ett_hash_pieces(const ett_hash_piece *pieces, size_t count,
                     char out[ETT_HASH_SIZE]) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  for (size_t i = 0; i < count; i++) {
    unsigned char length[8];
    for (int byte = 0; byte < 8; byte++)
      length[byte] = (unsigned char)((uint64_t)pieces[i].length >> (8 * byte));
    XXH3_128bits_update(&state, length, sizeof length);
    XXH3_128bits_update(&state, pieces[i].data, pieces[i].length);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  snprintf(out, ETT_HASH_SIZE, "%016llx%016llx", (unsigned long long)hash.high64,
           (unsigned long long)hash.low64);
}
