/* ett.json: JSON documents. lua-cjson reads; ett writes, with the same text for the same
 * value. */
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bind/common.h"
#include "bind/io/json_encode.h"
#include "bind/value.h"
#include "io/file.h"
#include "io/json_prepare.h"
#include "io/number.h"
#include "io/utf8.h"

#define CJSON_DECODE "ett.json.cjson_decode"
#define MAX_DEPTH 256
#define MAX_FILE_BYTES ((size_t)1 << 30)

/* json.encode(value [, {indent = 0, nan = "null"}]) -> text */
static int json_encode(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 2);
  ett_lua_json_encode(L, 1, 2);
  return 1;
}

/* json.write(path, value [, options]) -> true | nil, err. Replaces the whole file or
 * nothing. */
static int json_write(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_checkany(L, 2);
  lua_settop(L, 3);
  ett_lua_json_encode(L, 2, 3);
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(L, ett_file_write(path, text, length, ETT_FILE_NAMED, &err),
                        &err);
}

/* Pushes lua-cjson's decode function, with settings of its own. Returns false, with err
 * filled and nothing pushed, when the library is missing. */
static bool push_cjson_decode(lua_State *L, ett_err *err) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, CJSON_DECODE) == LUA_TFUNCTION)
    return true;
  lua_pop(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "cjson");
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    lua_pop(L, 1);
    ett_err_set(err, ETT_ERR_MISSING, "cannot read JSON: install lua-cjson for Lua 5.4");
    return false;
  }
  lua_getfield(L, -1, "new");
  lua_call(L, 0, 1);
  lua_replace(L, -2);
  lua_getfield(L, -1, "decode_invalid_numbers");
  lua_pushboolean(L, 0);
  lua_call(L, 1, 0);
  lua_getfield(L, -1, "decode_max_depth");
  lua_pushinteger(L, MAX_DEPTH);
  lua_call(L, 1, 0);
  lua_getfield(L, -1, "decode");
  lua_replace(L, -2);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, CJSON_DECODE);
  return true;
}

/* Converts messages of lua-cjson, such as "Expected value but found T_ARR_END at
 * character 4", to "1:4: expected value but found ']'". */
static void explain(const char *text, size_t length, const char *message, ett_err *err) {
  static const char before_position[] = " at character ";
  const char *position = strstr(message, before_position);
  if (!position) {
    ett_err_set(err, ETT_ERR_FORMAT, "%s", message);
    return;
  }
  size_t offset = strtoull(position + sizeof before_position - 1, NULL, 10) - 1;
  if (offset > length)
    offset = length;
  const ett_place place = ett_place_of(text, offset);
  const char *token = strstr(message, "T_");
  const char *end = token ? token : position;
  const char thing[] = {'\'', offset < length ? text[offset] : '\0', '\'', '\0'};
  ett_err_set(err, ETT_ERR_FORMAT, "%zu:%zu: %c%.*s%s", place.line, place.column,
              message[0] | 0x20, (int)(end - message - 1), message + 1,
              !token            ? ""
              : offset < length ? thing
                                : "the end of the text");
}

/* Calls lua-cjson on the text on top of the stack and replaces it by the value, or by the
 * error message when it returns false. Raises when memory runs out. */
static bool call_cjson(lua_State *L, int decode_function) {
  lua_pushvalue(L, decode_function);
  lua_insert(L, -2);
  int status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_ERRMEM)
    lua_error(L);
  return status == LUA_OK;
}

/* Converts the value of lua-cjson on top of the stack: null, integers, and the values
 * encoded by ett_json_prepare. */
static void restore(lua_State *L) {
  size_t length;
  int is_integer;
  luaL_checkstack(L, 8, "json");
  switch (lua_type(L, -1)) {
  case LUA_TLIGHTUSERDATA:
    lua_pop(L, 1);
    ett_lua_push_null(L);
    break;
  case LUA_TNUMBER: {
    lua_Integer integer = lua_tointegerx(L, -1, &is_integer);
    if (is_integer) {
      lua_pop(L, 1);
      lua_pushinteger(L, integer);
    }
    break;
  }
  case LUA_TSTRING: {
    const char *text = lua_tolstring(L, -1, &length);
    if (length < 2 || text[0] != ETT_JSON_KEPT)
      break;
    const ett_number number = ett_number_parse(text + 1, length - 1);
    lua_pop(L, 1);
    if (number.kind == ETT_NUMBER_INTEGER)
      lua_pushinteger(L, number.integer);
    else
      lua_pushnumber(L, number.number);
    break;
  }
  case LUA_TTABLE:
    if (lua_rawgeti(L, -1, 1) == LUA_TSTRING &&
        strcmp(lua_tostring(L, -1), "\xFF") == 0) {
      lua_pushnil(L);
      lua_rawseti(L, -3, 1);
      ett_lua_mark_array(L, -2);
    }
    lua_pop(L, 1);
    for (lua_pushnil(L); lua_next(L, -2);) {
      restore(L);
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    }
    break;
  default:
    break;
  }
}

/* Pushes the value of a text and returns true, or fills err and returns false. */
static bool decode(lua_State *L, const char *text, size_t length, ett_err *err) {
  size_t prepared = 0;
  if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) { /* byte-order mark */
    text += 3;
    length -= 3;
  }
  if (ett_json_prepare(text, length, NULL, &prepared, err) != 0 ||
      !push_cjson_decode(L, err))
    return false;
  const int decode_function = lua_gettop(L);
  luaL_Buffer buffer;
  char *out = luaL_buffinitsize(L, &buffer, prepared);
  ett_json_prepare(text, length, out, &prepared, err);
  luaL_pushresultsize(&buffer, prepared);
  /* lua-cjson aborts the process if it cannot allocate a buffer of the text's length. */
  void *volatile buffer_of_cjson = malloc(prepared + 1);
  if (!buffer_of_cjson) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to read JSON");
    return false;
  }
  free(buffer_of_cjson);
  if (call_cjson(L, decode_function)) {
    restore(L);
    return true;
  }
  /* Position of the error in the original text. */
  lua_pushlstring(L, text, length);
  if (call_cjson(L, decode_function))
    ett_err_set(err, ETT_ERR_INTERNAL, "internal error: %s", lua_tostring(L, -2));
  else
    explain(text, length, lua_tostring(L, -1), err);
  return false;
}

/* Returns what a Lua function returns: the value, or nil and an error that begins with
 * the name of the text. */
static int decode_named(lua_State *L, const char *name, const char *text, size_t length) {
  ett_err err = {ETT_OK, ""};
  if (decode(L, text, length, &err))
    return 1;
  ett_err named;
  ett_err_set(&named, err.code, err.code == ETT_ERR_FORMAT ? "%s:%s" : "%s: %s", name,
              err.message);
  return ett_lua_fail(L, &named);
}

/* json.decode(text [, {name = "json"}]) -> value | nil, err */
static int json_decode(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  lua_settop(L, 2);
  const char *name = "json";
  if (!lua_isnil(L, 2)) {
    luaL_checktype(L, 2, LUA_TTABLE);
    name = ett_lua_string_field(L, 2, "name", name);
  }
  return decode_named(L, name, text, length);
}

/* json.read(path) -> value | nil, err */
static int json_read(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  const lua_Integer most = luaL_optinteger(L, 2, (lua_Integer)MAX_FILE_BYTES);
  luaL_argcheck(L, most >= 0, 2, "must be at least 0");
  ett_err err = {ETT_OK, ""};
  ett_lua_file *file = ett_lua_file_read(L, path, (size_t)most, &err);
  if (!file)
    return ett_lua_fail(L, &err);
  int results = decode_named(L, path, file->data, file->length);
  ett_lua_file_free(file);
  return results;
}

/* json.array([t]) -> t, written [] when empty */
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
  luaL_newlib(L, functions);
  ett_lua_push_null(L);
  lua_setfield(L, -2, "null");
  return 1;
}
