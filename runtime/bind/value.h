/* Null, arrays and files in memory, shared by readers and writers of data. */
#ifndef ETT_BIND_VALUE_H
#define ETT_BIND_VALUE_H

#include <lua.h>
#include <stddef.h>

#include "base/err.h"

/* Pushes the null value (`ett.json.null`): a userdata that prints "null". It marks a
 * present field whose value is null. */
void ett_lua_push_null(lua_State *L);

/* Whether the value at index is null: ett's, or lua-cjson's. */
int ett_lua_is_null(lua_State *L, int index);

/* Marks the table at index as an array, which distinguishes empty arrays. A table with
 * another metatable stays unmarked. */
void ett_lua_mark_array(lua_State *L, int index);
int ett_lua_is_array(lua_State *L, int index);

/* The content of a file; freed by ett_lua_file_free or the collector. */
typedef struct {
  char *data;
  size_t length;
} ett_lua_file;

/* Pushes a userdata with the content of path. On an error pushes nothing, returns NULL
 * and fills err. */
ett_lua_file *ett_lua_file_read(lua_State *L, const char *path, size_t max_bytes,
                                ett_err *err);
void ett_lua_file_free(ett_lua_file *file);

#endif
