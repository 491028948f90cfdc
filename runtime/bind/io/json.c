/* ett.json: JSON that is the same text every time, and a reader that keeps integers. */
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#include "bind/common.h"
#include "bind/io/json_encode.h"
#include "bind/value.h"
#include "io/file.h"
#include "io/json_read.h"
#include "io/utf8.h"

#define READER_TYPE "ett.json.reader"
#define MAX_FILE_BYTES ((size_t)1 << 30)

/* json.encode(value [, {indent = 0, nan = "null"}]) -> text */
static int json_encode(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 2);
  ett_lua_json_encode(L, 1, 2);
  return 1;
}

/* json.write(path, value [, options]) -> true | nil, err. The file is replaced whole or
 * not. */
static int json_write(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_checkany(L, 2);
  lua_settop(L, 3);
  ett_lua_json_encode(L, 2, 3);
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  ett_err err = {ETT_OK, ""};
  if (ett_file_write(path, text, length, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

static int reader_gc(lua_State *L) {
  ett_json_reader_free(luaL_checkudata(L, 1, READER_TYPE));
  return 0;
}

/* Stores the value on top of the stack in the container below it, or leaves it as the
 * result. Stack while in a container: ..., container [, key], value. */
static void store(lua_State *L, int depth, const lua_Integer *index, const bool *object) {
  if (depth == 0)
    return;
  if (object[depth - 1])
    lua_rawset(L, -3);
  else
    lua_rawseti(L, -2, index[depth - 1]);
}

/* Pushes a key, unless the object below it has it already. */
static bool push_key(lua_State *L, const ett_json_reader *reader,
                     const ett_json_event *event, ett_err *err) {
  lua_pushlstring(L, event->text, event->length);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, -3) != LUA_TNIL) {
    ett_err_set(err, ETT_ERR_FORMAT, "line %zu (byte %zu): key '%s' appears twice",
                ett_line_of(reader->data, event->offset), event->offset,
                lua_tostring(L, -2));
    return false;
  }
  lua_pop(L, 1);
  return true;
}

static bool pull(lua_State *L, ett_json_reader *reader, ett_err *err) {
  lua_Integer index[ETT_JSON_MAX_DEPTH + 1] = {0};
  bool object[ETT_JSON_MAX_DEPTH + 1] = {false};
  int depth = 0;
  ett_json_event event;
  while (ett_json_next(reader, &event, err) == 0) {
    luaL_checkstack(L, 8, "json");
    const int inner = depth > 0 ? depth - 1 : 0; /* the open container, if any */
    bool inside_array = depth > 0 && !object[inner];
    bool opens =
        event.kind == ETT_JSON_ARRAY_BEGIN || event.kind == ETT_JSON_OBJECT_BEGIN;
    bool closes = event.kind == ETT_JSON_ARRAY_END || event.kind == ETT_JSON_OBJECT_END;
    if (inside_array && !closes)
      index[inner]++;
    switch (event.kind) {
    case ETT_JSON_END:
      return true;
    case ETT_JSON_NULL:
      ett_lua_push_null(L);
      break;
    case ETT_JSON_FALSE:
    case ETT_JSON_TRUE:
      lua_pushboolean(L, event.kind == ETT_JSON_TRUE);
      break;
    case ETT_JSON_INTEGER:
      lua_pushinteger(L, event.integer);
      break;
    case ETT_JSON_FLOAT:
      lua_pushnumber(L, event.number);
      break;
    case ETT_JSON_KEY:
      if (!push_key(L, reader, &event, err))
        return false;
      break;
    case ETT_JSON_STRING:
      lua_pushlstring(L, event.text, event.length);
      break;
    case ETT_JSON_ARRAY_BEGIN:
    case ETT_JSON_OBJECT_BEGIN:
      lua_newtable(L);
      index[depth] = 0;
      object[depth++] = event.kind == ETT_JSON_OBJECT_BEGIN;
      break;
    case ETT_JSON_ARRAY_END:
      if (index[inner] == 0)
        ett_lua_mark_array(L, -1);
      depth = inner;
      break;
    case ETT_JSON_OBJECT_END:
      depth = inner;
      break;
    }
    if (opens || event.kind == ETT_JSON_KEY)
      continue;
    store(L, depth, index, object);
  }
  return false;
}

/* Decodes data, anchored on the stack, and pushes the value, or nil and err with the name
 * put in front. */
static int decode(lua_State *L, const char *data, size_t length, const char *name,
                  ett_json_dialect dialect) {
  ett_json_reader *reader = lua_newuserdatauv(L, sizeof *reader, 0);
  ett_json_reader_init(reader, data, length, dialect);
  luaL_setmetatable(L, READER_TYPE);
  ett_err err = {ETT_OK, ""};
  int top = lua_gettop(L);
  if (pull(L, reader, &err)) {
    ett_json_reader_free(reader);
    return 1;
  }
  lua_settop(L, top);
  ett_json_reader_free(reader);
  ett_err named;
  ett_err_set(&named, err.code, "%s: %s", name, err.message);
  return ett_lua_fail(L, &named);
}

static ett_json_dialect dialect_option(lua_State *L, int options) {
  static const char *const names[] = {"json", "python", NULL};
  static const ett_json_dialect values[] = {ETT_JSON_STRICT, ETT_JSON_PYTHON};
  if (lua_isnoneornil(L, options))
    return ETT_JSON_STRICT;
  luaL_checktype(L, options, LUA_TTABLE);
  lua_getfield(L, options, "dialect");
  ett_json_dialect dialect = values[luaL_checkoption(L, -1, "json", names)];
  lua_pop(L, 1);
  return dialect;
}

/* json.decode(text [, {name = "json", dialect = "json"|"python"}]) -> value | nil, err */
static int json_decode(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  lua_settop(L, 2);
  ett_json_dialect dialect = dialect_option(L, 2);
  const char *name = "json";
  if (lua_istable(L, 2)) {
    lua_getfield(L, 2, "name");
    name = luaL_optstring(L, -1, name);
  }
  return decode(L, text, length, name, dialect);
}

/* json.read(path [, options]) -> value | nil, err */
static int json_read(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  lua_settop(L, 2);
  ett_json_dialect dialect = dialect_option(L, 2);
  ett_err err = {ETT_OK, ""};
  ett_lua_file *file = ett_lua_file_read(L, path, MAX_FILE_BYTES, &err);
  if (!file)
    return ett_lua_fail(L, &err);
  int results = decode(L, file->data, file->length, path, dialect);
  ett_lua_file_free(file);
  return results;
}

/* json.array([t]) -> t, marked so that it is written [] when empty */
static int json_array(lua_State *L) {
  if (lua_isnoneornil(L, 1)) {
    lua_settop(L, 0);
    lua_newtable(L);
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  ett_lua_mark_array(L, 1);
  return 1;
}

static const luaL_Reg functions[] = {
    {"encode", json_encode}, {"decode", json_decode}, {"read", json_read},
    {"write", json_write},   {"array", json_array},   {NULL, NULL},
};

int luaopen_ett_json(lua_State *L);

int luaopen_ett_json(lua_State *L) {
  if (luaL_newmetatable(L, READER_TYPE)) {
    lua_pushcfunction(L, reader_gc);
    lua_setfield(L, -2, "__gc");
  }
  luaL_newlib(L, functions);
  ett_lua_push_null(L);
  lua_setfield(L, -2, "null");
  return 1;
}
