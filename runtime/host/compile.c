/* Writes lib/ett/compiled (host/compiled.h) when ett is built: compile OUT FILE... */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/compiled.h"

extern const char lua_ident[];

typedef struct {
  compiled_entry entry;
  char *chunk;
} compiled_file;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "compile: %s: %s\n", what, why);
  exit(1);
}

static void *resize(void *block, size_t size) {
  void *moved = realloc(block, size ? size : 1);
  if (!moved)
    fail("memory", strerror(ENOMEM));
  return moved;
}

static char *read_text(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  if (!file)
    fail(path, strerror(errno));
  *size = 0;
  for (size_t read = 1; read > 0; *size += read) {
    text = resize(text, *size + 65536);
    read = fread(text + *size, 1, 65536, file);
  }
  if (ferror(file))
    fail(path, "cannot be read");
  fclose(file);
  return text;
}

static int append(lua_State *L, const void *data, size_t size, void *context) {
  (void)L;
  compiled_file *file = context;
  file->chunk = resize(file->chunk, file->entry.size + size);
  memcpy(file->chunk + file->entry.size, data, size);
  file->entry.size += size;
  return 0;
}

static compiled_file compile(lua_State *L, const char *path) {
  compiled_file file = {0};
  size_t size;
  char *text = read_text(path, &size);
  if (luaL_loadbufferx(L, text, size, "@", "t") != LUA_OK)
    fail(path, lua_tostring(L, -1));
  ett_hash_pieces(&(ett_hash_piece){text, size}, 1, file.entry.hash);
  lua_dump(L, append, &file, 0);
  lua_pop(L, 1);
  free(text);
  const size_t name = strlen(COMPILED_NAME);
  if (file.entry.size < COMPILED_HEADER + name ||
      memcmp(file.chunk + COMPILED_HEADER, COMPILED_NAME, name) != 0)
    fail(path, "this Lua writes its chunks in another form");
  return file;
}

static int compare_hashes(const void *a, const void *b) {
  return strcmp(((const compiled_file *)a)->entry.hash,
                ((const compiled_file *)b)->entry.hash);
}

static void write_all(FILE *out, const compiled_file *files, size_t count) {
  compiled_header header = {.magic = COMPILED_MAGIC, .count = count};
  strncpy(header.lua, lua_ident, sizeof header.lua - 1);
  uint64_t offset = sizeof header + count * sizeof(compiled_entry);
  fwrite(&header, sizeof header, 1, out);
  for (size_t i = 0; i < count; i++) {
    compiled_entry entry = files[i].entry;
    entry.offset = offset;
    offset += entry.size;
    fwrite(&entry, sizeof entry, 1, out);
  }
  for (size_t i = 0; i < count; i++)
    fwrite(files[i].chunk, 1, files[i].entry.size, out);
}

int main(int argc, char **argv) {
  if (argc < 3)
    fail("usage", "compile OUT FILE...");
  const size_t count = (size_t)argc - 2;
  compiled_file *files = resize(NULL, count * sizeof *files);
  lua_State *L = luaL_newstate();
  if (!L)
    fail("memory", strerror(ENOMEM));
  for (size_t i = 0; i < count; i++)
    files[i] = compile(L, argv[i + 2]);
  qsort(files, count, sizeof *files, compare_hashes);
  FILE *out = fopen(argv[1], "wb");
  if (!out)
    fail(argv[1], strerror(errno));
  write_all(out, files, count);
  if (fclose(out) != 0)
    fail(argv[1], strerror(errno));
  for (size_t i = 0; i < count; i++)
    free(files[i].chunk);
  free(files);
  lua_close(L);
  return 0;
}
