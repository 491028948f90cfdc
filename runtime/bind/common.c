#include "bind/common.h"

#include <stdlib.h>
#include <string.h>

void ett_lua_push_error(lua_State *L, const ett_err *err) {
  lua_createtable(L, 0, 2);
  ett_lua_set_string(L, "kind", ett_err_kind(err->code));
  ett_lua_set_string(L, "message", err->message);
  luaL_getmetatable(L, "ett.error"); /* registered by lua/ett/base/error.lua, else nil */
  lua_setmetatable(L, -2);
}

int ett_lua_fail(lua_State *L, const ett_err *err) {
  lua_pushnil(L);
  ett_lua_push_error(L, err);
  return 2;
}

int ett_lua_fail_named(lua_State *L, const char *name, const ett_err *err) {
  ett_err named;
  ett_err_set(&named, err->code, "%s: %s", name, err->message);
  return ett_lua_fail(L, &named);
}

int ett_lua_result(lua_State *L, int status, const ett_err *err) {
  if (status != 0)
    return ett_lua_fail(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

int ett_lua_raise(lua_State *L, const ett_err *err) {
  ett_lua_push_error(L, err);
  lua_error(L);
}

/* Whether a finaliser runs. From 5.4.4 on, lua_gc refuses with -1 then; before, the
 * collector is stopped. */
static int in_finaliser(lua_State *L) {
  const int running = lua_gc(L, LUA_GCISRUNNING);
  return running < 0 || (LUA_VERSION_RELEASE_NUM < 50404 && running == 0);
}

/* The method `close`; upvalue 1 closes. */
static int close_object(lua_State *L) {
  return in_finaliser(L) ? 0 : lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Whether the collector called the running function, and not a script. Lua reports `hook`
 * if the collection began in a C hook. */
static int is_collected(lua_State *L) {
  lua_Debug call;
  if (!lua_getstack(L, 0, &call) || !lua_getinfo(L, "n", &call))
    return 0;
  return strcmp(call.namewhat, "hook") == 0
             ? in_finaliser(L)
             : strcmp(call.namewhat, "metamethod") == 0 && strcmp(call.name, "__gc") == 0;
}

/* __gc. A script can call it too, by debug.getmetatable: it is then the method `close`.
 */
static int collect_object(lua_State *L) {
  return is_collected(L) ? lua_tocfunction(L, lua_upvalueindex(1))(L) : close_object(L);
}

/* Pops a function; sets it as a metamethod or method of the metatable at -3, whose
 * methods are at -2. */
static void set_method(lua_State *L, const char *name) {
  /* Lua before 5.4.4 does not name finalisers: there __gc always closes. */
  if (LUA_VERSION_RELEASE_NUM >= 50404 && strcmp(name, "__gc") == 0)
    lua_pushcclosure(L, collect_object, 1);
  lua_setfield(L, strncmp(name, "__", 2) == 0 ? -3 : -2, name);
}

void ett_lua_type(lua_State *L, const char *name, const luaL_Reg *methods,
                  lua_CFunction close) {
  static const char *const ends[] = {"close", "__close"};
  luaL_newmetatable(L, name);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__index");
  for (; methods && methods->name; methods++) {
    lua_pushcfunction(L, methods->func);
    set_method(L, methods->name);
  }
  if (close) {
    lua_pushcfunction(L, close);
    set_method(L, "__gc");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
      lua_pushcfunction(L, close);
      lua_pushcclosure(L, close_object, 1);
      set_method(L, ends[i]);
    }
  }
  lua_pop(L, 2);
}

void ett_lua_variants(lua_State *L, const char *type, const ett_lua_variant *list) {
  luaL_getmetatable(L, type);
  lua_getfield(L, -1, "__index");
  for (; list->name; list++) {
    lua_pushinteger(L, list->operand);
    lua_pushcclosure(L, list->function, 1);
    set_method(L, list->name);
  }
  lua_pop(L, 2);
}

void **ett_lua_box_new(lua_State *L, const char *type) {
  void **box = lua_newuserdatauv(L, sizeof *box, 1);
  *box = NULL;
  luaL_setmetatable(L, type);
  return box;
}

void *ett_lua_box_check(lua_State *L, int index, const char *type, const char *what) {
  void **box = luaL_checkudata(L, index, type);
  if (!*box)
    luaL_error(L, "the %s is closed", what);
  return *box;
}

static int push_text(lua_State *L) {
  lua_pushlstring(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

void ett_lua_push_freed(lua_State *L, void *text, size_t length) {
  lua_pushcfunction(L, push_text);
  lua_pushlightuserdata(L, text);
  lua_pushinteger(L, text ? (lua_Integer)length : 0);
  const int status = lua_pcall(L, 2, 1, 0);
  free(text);
  if (status != LUA_OK)
    lua_error(L);
}

void ett_lua_set_number(lua_State *L, const char *name, lua_Number value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

void ett_lua_set_integer(lua_State *L, const char *name, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

void ett_lua_set_boolean(lua_State *L, const char *name, int value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, name);
}

void ett_lua_set_string(lua_State *L, const char *name, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

static void bad_item(lua_State *L, const char *list, lua_Integer i, const char *wanted)
    __attribute__((noreturn));

static void bad_item(lua_State *L, const char *list, lua_Integer i, const char *wanted) {
  const char *got =
      lua_type(L, -1) == LUA_TNUMBER ? lua_tostring(L, -1) : luaL_typename(L, -1);
  luaL_error(L, "'%s[%I]' must be %s, got %s", list, (LUAI_UACINT)i, wanted, got);
}

lua_Integer ett_lua_integer_item(lua_State *L, const char *list, lua_Integer i) {
  int is_integer = 0;
  lua_Integer value =
      lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &is_integer) : 0;
  if (!is_integer)
    bad_item(L, list, i, "an integer");
  return value;
}

lua_Number ett_lua_number_item(lua_State *L, const char *list, lua_Integer i) {
  if (lua_type(L, -1) != LUA_TNUMBER)
    bad_item(L, list, i, "a number");
  return lua_tonumber(L, -1);
}

const char *ett_lua_string_item(lua_State *L, const char *list, lua_Integer i) {
  if (lua_type(L, -1) != LUA_TSTRING)
    bad_item(L, list, i, "a string");
  return lua_tostring(L, -1);
}

double *ett_lua_field_doubles(lua_State *L, const char *name, size_t *count) {
  ett_lua_check_table(L, name);
  return ett_lua_doubles(L, -1, count);
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

void ett_lua_set_doubles(lua_State *L, const char *name, const double *values,
                         size_t count) {
  ett_lua_push_doubles(L, values, count);
  lua_setfield(L, -2, name);
}

void ett_lua_push_integers(lua_State *L, const int64_t *values, size_t count) {
  lua_createtable(L, count < 1 << 20 ? (int)count : 0, 0);
  for (size_t i = 0; i < count; i++) {
    lua_pushinteger(L, values[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

int ett_lua_raw_field(lua_State *L, int index, const char *name) {
  index = lua_absindex(L, index);
  luaL_checktype(L, index, LUA_TTABLE);
  lua_pushstring(L, name);
  return lua_rawget(L, index);
}

void ett_lua_check_table(lua_State *L, const char *name) {
  if (!lua_istable(L, -1))
    luaL_error(L, "field '%s' must be a table, got %s", name, luaL_typename(L, -1));
}

static int field(lua_State *L, int index, const char *name, int type,
                 const char *wanted) {
  if (ett_lua_raw_field(L, index, name) == LUA_TNIL)
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

lua_Integer ett_lua_range_field(lua_State *L, int index, const char *name,
                                lua_Integer fallback, lua_Integer least,
                                lua_Integer most) {
  const lua_Integer value = ett_lua_integer_field(L, index, name, fallback);
  if (value < least || value > most)
    luaL_error(L, "field '%s' must be %I to %I, got %I", name, (LUAI_UACINT)least,
               (LUAI_UACINT)most, (LUAI_UACINT)value);
  return value;
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

int ett_lua_choice_field(lua_State *L, int index, const char *name,
                         const char *const *choices) {
  int choice = 0;
  const char *value =
      field(L, index, name, LUA_TSTRING, "a string") ? lua_tostring(L, -1) : choices[0];
  while (choices[choice] && strcmp(choices[choice], value) != 0)
    choice++;
  if (choices[choice]) {
    lua_pop(L, 1);
    return choice;
  }
  luaL_Buffer list;
  luaL_buffinit(L, &list);
  for (int i = 0; choices[i]; i++) {
    luaL_addstring(&list, i ? ", " : "");
    luaL_addstring(&list, choices[i]);
  }
  luaL_pushresult(&list);
  return luaL_error(L, "field '%s' must be one of %s, got '%s'", name,
                    lua_tostring(L, -1), value);
}
