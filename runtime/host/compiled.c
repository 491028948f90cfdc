#include "host/compiled.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a chunk up to the end of its name. */
enum { COMPILED_NAMED = COMPILED_HEADER + sizeof COMPILED_NAME - 1 };

typedef struct {
  char *data;
  size_t size;
} bytes;

typedef struct {
  const char *data;
  size_t size;
} piece;

/* The open file of chunks. Its chunks are read, not mapped. The kernel also maps the
 * neighbours of a touched page: mapping took 4 of the 11 MB of a short command. */
static struct {
  int descriptor; /* with entries only */
  uint64_t count;
  compiled_entry *entries; /* NULL without a usable file */
} bundle;

/* Opens a regular file; returns its descriptor, or -1. */
static int open_file(const char *path, size_t *size) {
  struct stat info;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return -1;
  if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) {
    *size = (size_t)info.st_size;
    return descriptor;
  }
  close(descriptor);
  return -1;
}

/* Part of a file, which the caller frees; data is NULL when it cannot be read whole. */
static bytes read_part(int descriptor, size_t size, uint64_t offset) {
  bytes part = {malloc(size ? size : 1), 0};
  while (part.data && part.size < size) {
    const ssize_t got = pread(descriptor, part.data + part.size, size - part.size,
                              (off_t)(offset + part.size));
    if (got > 0) {
      part.size += (size_t)got;
    } else if (got == 0 || errno != EINTR) {
      free(part.data);
      part.data = NULL;
    }
  }
  return part;
}

static bytes read_file(const char *path) {
  size_t size = 0;
  const int descriptor = open_file(path, &size);
  if (descriptor < 0)
    return (bytes){0};
  const bytes text = read_part(descriptor, size, 0);
  close(descriptor);
  return text;
}

static int is_usable(const compiled_header *header, size_t size) {
  return memcmp(header->magic, COMPILED_MAGIC, sizeof header->magic) == 0 &&
         strncmp(header->lua, lua_ident, sizeof header->lua - 1) == 0 &&
         header->count <= (size - sizeof *header) / sizeof(compiled_entry);
}

/* Reads the entries of the file; leaves the bundle empty when it is not usable. */
static void read_entries(int descriptor, size_t size) {
  compiled_header header;
  if (size < sizeof header)
    return;
  const bytes head = read_part(descriptor, sizeof header, 0);
  if (!head.data)
    return;
  memcpy(&header, head.data, sizeof header);
  free(head.data);
  if (!is_usable(&header, size))
    return;
  const bytes entries =
      read_part(descriptor, header.count * sizeof(compiled_entry), sizeof header);
  bundle.entries = (compiled_entry *)(void *)entries.data;
  bundle.count = header.count;
  bundle.descriptor = descriptor;
}

void compiled_open(const char *prefix) {
  char path[PATH_MAX + 32];
  size_t size = 0;
  if (bundle.entries)
    return;
  snprintf(path, sizeof path, "%s/lib/ett/compiled", prefix);
  const int descriptor = open_file(path, &size);
  if (descriptor >= 0)
    read_entries(descriptor, size);
  if (descriptor >= 0 && !bundle.entries)
    close(descriptor);
}

int compiled_descriptor(void) {
  return bundle.entries ? bundle.descriptor : -1;
}

static int compare_hash(const void *hash, const void *entry) {
  return strcmp(hash, ((const compiled_entry *)entry)->hash);
}

/* The chunk of a text, as read_part leaves it; data is NULL where there is none. */
static bytes find_chunk(bytes text) {
  char hash[ETT_HASH_SIZE];
  ett_hash_pieces(&(ett_hash_piece){text.data, text.size}, 1, hash);
  const compiled_entry *entry =
      bsearch(hash, bundle.entries, bundle.count, sizeof(compiled_entry), compare_hash);
  if (!entry || entry->size < COMPILED_NAMED)
    return (bytes){0};
  return read_part(bundle.descriptor, entry->size, entry->offset);
}

typedef struct {
  piece pieces[4];
  int next;
} piece_reader;

static const char *next_piece(lua_State *L, void *context, size_t *size) {
  (void)L;
  piece_reader *reader = context;
  const piece next = reader->pieces[reader->next];
  if (next.data)
    reader->next++;
  *size = next.size;
  return next.data;
}

/* A size as lua_dump writes it: seven bits a byte, the highest first, the last byte
 * marked. */
static piece encode_size(size_t size, char buffer[10]) {
  int at = 9;
  buffer[at] = (char)((size & 0x7f) | 0x80);
  while ((size >>= 7) != 0)
    buffer[--at] = (char)(size & 0x7f);
  return (piece){buffer + at, (size_t)(10 - at)};
}

static int load_chunk(lua_State *L, bytes chunk, const char *name) {
  char buffer[10];
  piece_reader reader = {
      .pieces = {{chunk.data, COMPILED_HEADER},
                 encode_size(strlen(name) + 1, buffer),
                 {name, strlen(name)},
                 {chunk.data + COMPILED_NAMED, chunk.size - COMPILED_NAMED}}};
  return lua_load(L, next_piece, &reader, name, "b");
}

int compiled_load(lua_State *L, const char *path, int *is_compiled) {
  bytes text = {0}, chunk = {0};
  const char *name = NULL;
  if (bundle.entries && path) {
    name = lua_pushfstring(L, "@%s", path); /* raises, if at all, before text is read */
    text = read_file(path);
  }
  if (text.data)
    chunk = find_chunk(text);
  free(text.data);
  if (is_compiled)
    *is_compiled = chunk.data != NULL;
  const int status =
      chunk.data ? load_chunk(L, chunk, name) : luaL_loadfilex(L, path, "t");
  free(chunk.data);
  if (name)
    lua_remove(L, -2);
  return status;
}
