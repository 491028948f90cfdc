/* The project's Lua files, compiled at build time. Compiling their text took two thirds
 * of a short command's time. A file is found by the hash of its text. An edited file is
 * therefore compiled from its text, and a user's file never gets the code of another. */
#ifndef ETT_HOST_COMPILED_H
#define ETT_HOST_COMPILED_H

#include <lua.h>
#include <stdint.h>

#include "io/hash.h"

extern const char lua_ident[]; /* the release of the Lua library */

/* The file lib/ett/compiled: this header, `count` entries by ascending hash, then the
 * chunks. */
#define COMPILED_MAGIC "ettlua1"
typedef struct {
  char magic[8];
  char lua[128]; /* lua_ident of the library that compiled */
  uint64_t count;
} compiled_header;

typedef struct {
  char hash[ETT_HASH_SIZE + 7]; /* of the text, hexadecimal, zeros after it */
  uint64_t offset, size;        /* of the chunk, in bytes from the file's start */
} compiled_entry;

/* A chunk is the output of lua_dump for a file loaded under the name "@", without the
 * names of local variables: COMPILED_HEADER bytes, the name's size and text
 * (COMPILED_NAME), the rest. Loading inserts the path of the file. */
enum { COMPILED_HEADER = 32 };
#define COMPILED_NAME "\x82@"

/* Opens the compiled file of the tree `prefix`. If it is missing, or made by another Lua,
 * every file is compiled from its text. */
void compiled_open(const char *prefix);

/* Descriptor of the opened file, or -1. */
int compiled_descriptor(void);

/* Pushes the function of a Lua file, as luaL_loadfilex does in mode "t"; returns its
 * status. `is_compiled` (or NULL): set to whether the function comes from the opened
 * file. */
int compiled_load(lua_State *L, const char *path, int *is_compiled);

#endif
