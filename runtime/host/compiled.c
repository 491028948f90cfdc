#include "host/compiled.h"

#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char lua_ident[];

typedef struct {
  const char *data;
  size_t size;
} bytes;

static bytes bundle; /* NULL without a usable file */

/* The content of a regular file, mapped; data is NULL when it cannot be read or is empty.
 */
static bytes map_file(const char *path) {
  bytes file = {0};
  struct stat info;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return file;
  if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data != MAP_FAILED)
      file = (bytes){data, (size_t)info.st_size};
  }
  close(descriptor);
  return file;
}

static const compiled_entry *entries(void) {
  return (const compiled_entry *)(const void *)(bundle.data + sizeof(compiled_header));
}

static uint64_t entry_count(void) {
  return ((const compiled_header *)(const void *)bundle.data)->count;
}

static int is_usable(bytes file) {
  const compiled_header *header = (const void *)file.data;
  return file.size >= sizeof *header &&
         memcmp(header->magic, COMPILED_MAGIC, sizeof header->magic) == 0 &&
         strncmp(header->lua, lua_ident, sizeof header->lua - 1) == 0 &&
         header->count <= (file.size - sizeof *header) / sizeof(compiled_entry);
}

void compiled_open(const char *prefix) {
  char path[PATH_MAX + 32];
  if (bundle.data)
    return;
  snprintf(path, sizeof path, "%s/lib/ett/compiled", prefix);
  const bytes file = map_file(path);
  if (file.data && is_usable(file))
    bundle = file;
  else if (file.data)
    munmap((void *)file.data, file.size);
}

static int compare_hash(const void *hash, const void *entry) {
  return strcmp(hash, ((const compiled_entry *)entry)->hash);
}

static bytes find_chunk(bytes text) {
  char hash[ETT_HASH_SIZE];
  const bytes none = {0};
  ett_hash_pieces(&(ett_hash_piece){text.data, text.size}, 1, hash);
  const compiled_entry *entry =
      bsearch(hash, entries(), entry_count(), sizeof(compiled_entry), compare_hash);
  if (!entry || entry->offset > bundle.size || entry->size > bundle.size - entry->offset)
    return none;
  return (bytes){bundle.data + entry->offset, entry->size};
}

typedef struct {
  bytes pieces[4];
  int next;
} piece_reader;

static const char *next_piece(lua_State *L, void *context, size_t *size) {
  (void)L;
  piece_reader *reader = context;
  const bytes piece = reader->pieces[reader->next];
  if (piece.data)
    reader->next++;
  *size = piece.size;
  return piece.data;
}

/* A size as lua_dump writes it: seven bits a byte, the highest first, the last byte
 * marked. */
static bytes encode_size(size_t size, char buffer[10]) {
  int at = 9;
  buffer[at] = (char)((size & 0x7f) | 0x80);
  while ((size >>= 7) != 0)
    buffer[--at] = (char)(size & 0x7f);
  return (bytes){buffer + at, (size_t)(10 - at)};
}

static int load_chunk(lua_State *L, bytes chunk, const char *path) {
  const size_t named = COMPILED_HEADER + strlen(COMPILED_NAME);
  char buffer[10];
  const char *name = lua_pushfstring(L, "@%s", path);
  piece_reader reader = {.pieces = {{chunk.data, COMPILED_HEADER},
                                    encode_size(strlen(name) + 1, buffer),
                                    {name, strlen(name)},
                                    {chunk.data + named, chunk.size - named}}};
  const int status = lua_load(L, next_piece, &reader, name, "b");
  lua_remove(L, -2);
  return status;
}

int compiled_load(lua_State *L, const char *path, int *is_compiled) {
  const bytes text = bundle.data && path ? map_file(path) : (bytes){0};
  if (is_compiled)
    *is_compiled = 0;
  if (!text.data)
    return luaL_loadfilex(L, path, "t");
  const bytes chunk = find_chunk(text);
  munmap((void *)text.data, text.size);
  if (is_compiled)
    *is_compiled = chunk.data != NULL;
  return chunk.data ? load_chunk(L, chunk, path) : luaL_loadfilex(L, path, "t");
}
