#include "bind/value.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "io/file.h"

#define NULL_KEY "ett.null"
#define ARRAY_TYPE "ett.array"
#define FILE_TYPE "ett.file"

static int null_tostring(lua_State *L) {
  lua_pushliteral(L, "null");
  return 1;
}

void ett_lua_push_null(lua_State *L) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, NULL_KEY) == LUA_TUSERDATA)
    return;
  lua_pop(L, 1);
  lua_newuserdatauv(L, 0, 0);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, null_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pushliteral(L, "null");
  lua_setfield(L, -2, "__name");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, NULL_KEY);
}

int ett_lua_is_null(lua_State *L, int index) {
  if (lua_islightuserdata(L, index))
    return lua_touserdata(L, index) == NULL;
  if (!lua_isuserdata(L, index))
    return 0;
  index = lua_absindex(L, index);
  ett_lua_push_null(L);
  int same = lua_rawequal(L, index, -1);
  lua_pop(L, 1);
  return same;
}

void ett_lua_mark_array(lua_State *L, int index) {
  index = lua_absindex(L, index);
  if (lua_getmetatable(L, index)) {
    lua_pop(L, 1);
    return;
  }
  luaL_newmetatable(L, ARRAY_TYPE);
  lua_setmetatable(L, index);
}

int ett_lua_is_array(lua_State *L, int index) {
  if (!lua_getmetatable(L, index))
    return 0;
  luaL_getmetatable(L, ARRAY_TYPE);
  int same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

void ett_lua_file_free(ett_lua_file *file) {
  free(file->data);
  file->data = NULL;
  file->length = 0;
}

static int file_gc(lua_State *L) {
  ett_lua_file_free(luaL_checkudata(L, 1, FILE_TYPE));
  return 0;
}

ett_lua_file *ett_lua_file_read(lua_State *L, const char *path, size_t max_bytes,
                                ett_err *err) {
  ett_lua_file *file = lua_newuserdatauv(L, sizeof *file, 0);
  file->data = NULL;
  file->length = 0;
  if (luaL_newmetatable(L, FILE_TYPE)) {
    lua_pushcfunction(L, file_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  if (ett_file_read(path, max_bytes, &file->data, &file->length, err) == 0)
    return file;
  lua_pop(L, 1);
  return NULL;
}
