#include "bind/common.h"

#include <stdint.h>

static void push_error_object(lua_State *L, const ett_err *err) {
  lua_createtable(L, 0, 2);
  lua_pushstring(L, ett_err_kind(err->code));
  lua_setfield(L, -2, "kind");
  lua_pushstring(L, err->message);
  lua_setfield(L, -2, "message");
  luaL_getmetatable(L, "ett.error"); /* registered by lua/ett/base/error.lua, else nil */
  lua_setmetatable(L, -2);
}

int ett_lua_fail(lua_State *L, const ett_err *err) {
  lua_pushnil(L);
  push_error_object(L, err);
  return 2;
}

int ett_lua_raise(lua_State *L, const ett_err *err) {
  push_error_object(L, err);
  lua_error(L);
}

double *ett_lua_doubles(lua_State *L, int index, size_t *count) {
  index = lua_absindex(L, index);
  luaL_checktype(L, index, LUA_TTABLE);
  size_t n = lua_rawlen(L, index);
  if (n > SIZE_MAX / sizeof(double) - 1)
    luaL_error(L, "too many elements");
  double *values = lua_newuserdatauv(L, (n + 1) * sizeof *values, 0);
  for (size_t i = 0; i < n; i++) {
    int is_number;
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    values[i] = lua_tonumberx(L, -1, &is_number);
    if (!is_number)
      luaL_error(L, "element %d must be a number, got %s", (int)i + 1,
                 luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  *count = n;
  return values;
}

void ett_lua_push_doubles(lua_State *L, const double *values, size_t count) {
  lua_createtable(L, count < 1 << 20 ? (int)count : 0, 0);
  for (size_t i = 0; i < count; i++) {
    lua_pushnumber(L, values[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static int field(lua_State *L, int index, const char *name, int type,
                 const char *wanted) {
  if (lua_getfield(L, index, name) == LUA_TNIL)
    return 0;
  if (lua_type(L, -1) != type)
    luaL_error(L, "field '%s' must be %s, got %s", name, wanted, luaL_typename(L, -1));
  return 1;
}

lua_Number ett_lua_number_field(lua_State *L, int index, const char *name,
                                lua_Number fallback) {
  if (field(L, index, name, LUA_TNUMBER, "a number"))
    fallback = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return fallback;
}

lua_Integer ett_lua_integer_field(lua_State *L, int index, const char *name,
                                  lua_Integer fallback) {
  if (field(L, index, name, LUA_TNUMBER, "an integer")) {
    int is_integer;
    fallback = lua_tointegerx(L, -1, &is_integer);
    if (!is_integer)
      luaL_error(L, "field '%s' must be an integer, got %f", name, lua_tonumber(L, -1));
  }
  lua_pop(L, 1);
  return fallback;
}

int ett_lua_boolean_field(lua_State *L, int index, const char *name, int fallback) {
  if (field(L, index, name, LUA_TBOOLEAN, "true or false"))
    fallback = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return fallback;
}

const char *ett_lua_string_field(lua_State *L, int index, const char *name,
                                 const char *fallback) {
  if (field(L, index, name, LUA_TSTRING, "a string"))
    fallback = lua_tostring(L, -1);
  lua_pop(L, 1);
  return fallback;
}
