#include "io/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static void begin(XXH3_state_t *state) {
  XXH3_INITSTATE(state);
  XXH3_128bits_reset(state);
}

static void add_length(XXH3_state_t *state, size_t length) {
  unsigned char bytes[8];
  for (int byte = 0; byte < 8; byte++)
    bytes[byte] = (unsigned char)((uint64_t)length >> (8 * byte));
  XXH3_128bits_update(state, bytes, sizeof bytes);
}

static void print(const XXH3_state_t *state, char out[ETT_HASH_SIZE]) {
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  snprintf(out, ETT_HASH_SIZE, "%016llx%016llx", (unsigned long long)hash.high64,
           (unsigned long long)hash.low64);
}

void ett_hash_pieces(const ett_hash_piece *pieces, size_t count,
                     char out[ETT_HASH_SIZE]) {
  XXH3_state_t state;
  begin(&state);
  for (size_t i = 0; i < count; i++) {
    add_length(&state, pieces[i].length);
    XXH3_128bits_update(&state, pieces[i].data, pieces[i].length);
  }
  print(&state, out);
}

/* Adds a regular file in parts, because mapping memory for the whole file takes longer
 * than reading it. Returns 0 if it is no regular file, if it becomes shorter, or if its
 * size is 0. Files of the kernel also have the size 0. */
static int add_file(XXH3_state_t *state, int descriptor) {
  char part[1 << 16];
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0)
    return 0;
  size_t left = (size_t)status.st_size;
  add_length(state, left);
  while (left > 0) {
    const ssize_t got = read(descriptor, part, left < sizeof part ? left : sizeof part);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return 0;
    XXH3_128bits_update(state, part, (size_t)got);
    left -= (size_t)got;
  }
  return 1;
}

int ett_hash_file(const char *path, char out[ETT_HASH_SIZE], ett_err *err) {
  XXH3_state_t state;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  int added = 0;
  begin(&state);
  if (descriptor >= 0) {
    added = add_file(&state, descriptor);
    close(descriptor);
  }
  if (added) {
    print(&state, out);
    return 0;
  }
  ett_hash_piece piece;
  char *data;
  if (ett_file_read(path, (size_t)1 << 32, &data, &piece.length, err) != 0)
    return -1;
  piece.data = data;
  ett_hash_pieces(&piece, 1, out);
  free(data);
  return 0;
}
