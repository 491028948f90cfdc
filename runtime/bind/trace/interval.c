/* ett.interval: sets of half-open intervals of integers. */
#include "bind/trace/trace.h"

#include <stdlib.h>

void ett_lua_check_memory(lua_State *L, int status) {
  if (status == 0)
    return;
  ett_err err;
  ett_err_set(&err, ETT_ERR_MEMORY, "out of memory");
  ett_lua_raise(L, &err);
}

int64_t ett_lua_integer_at(lua_State *L, int list, lua_Integer i) {
  lua_rawgeti(L, list, i);
  if (!lua_isinteger(L, -1))
    luaL_argerror(L, list,
                  lua_pushfstring(L, "must be a list of integers, got %s at %I",
                                  luaL_typename(L, -1), (LUAI_UACINT)i));
  const int64_t value = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

static ett_interval closed; /* the items of a closed set */

static ett_intervals *check(lua_State *L, int index) {
  ett_intervals *s = luaL_checkudata(L, index, ETT_LUA_INTERVAL);
  if (s->items == &closed)
    luaL_error(L, "the interval set is closed");
  return s;
}

ett_intervals *ett_lua_new_intervals(lua_State *L) {
  ett_intervals *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (ett_intervals){0};
  luaL_setmetatable(L, ETT_LUA_INTERVAL);
  return s;
}

static int set_gc(lua_State *L) {
  ett_intervals *s = luaL_checkudata(L, 1, ETT_LUA_INTERVAL);
  if (s->items != &closed)
    ett_intervals_free(s);
  s->items = &closed;
  return 0;
}

/* Interval number i of the list at index: { from, to }. */
static ett_interval pair(lua_State *L, int index, lua_Integer i) {
  int ok_from, ok_to;
  ett_interval x;
  if (lua_rawgeti(L, index, i) != LUA_TTABLE)
    luaL_error(L, "interval %d must be { from, to }, got %s", (int)i,
               luaL_typename(L, -1));
  lua_rawgeti(L, -1, 1);
  lua_rawgeti(L, -2, 2);
  x.from = lua_tointegerx(L, -2, &ok_from);
  x.to = lua_tointegerx(L, -1, &ok_to);
  if (!ok_from || !ok_to)
    luaL_error(L, "interval %d must hold two integers, got %s and %s", (int)i,
               luaL_tolstring(L, -2, NULL), luaL_tolstring(L, -2, NULL));
  lua_pop(L, 3);
  return x;
}

static int set_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  ett_intervals *s = ett_lua_new_intervals(L);
  ett_lua_check_memory(L, ett_intervals_make(s, (size_t)n));
  for (lua_Integer i = 0; i < n; i++) {
    s->items[i] = pair(L, 1, i + 1);
    s->count++;
  }
  ett_lua_check_memory(L, ett_intervals_unite(s));
  return 1;
}

enum { UNION, INTERSECT, SUBTRACT };

/* Upvalue 1 is one of the above. */
static int set_combine(lua_State *L) {
  const lua_Integer how = lua_tointeger(L, lua_upvalueindex(1));
  const ett_intervals *a = check(L, 1), *b = check(L, 2);
  ett_intervals *out = ett_lua_new_intervals(L);
  ett_lua_check_memory(L, how == UNION       ? ett_intervals_union(out, a, b)
                          : how == INTERSECT ? ett_intervals_intersect(out, a, b)
                                             : ett_intervals_subtract(out, a, b));
  return 1;
}

/* set:measure([other]): with another set, of the intersection */
static int set_measure(lua_State *L) {
  const ett_intervals *s = check(L, 1);
  lua_pushinteger(L, lua_isnoneornil(L, 2) ? ett_intervals_measure(s)
                                           : ett_intervals_measure_both(s, check(L, 2)));
  return 1;
}

/* set:measure_in({ {from, to}, … }) or set:measure_in({ from, … }, { to, … }) */
static int set_measure_in(lua_State *L) {
  const ett_intervals *s = check(L, 1);
  const bool flat = !lua_isnoneornil(L, 3);
  luaL_checktype(L, 2, LUA_TTABLE);
  if (flat)
    luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  lua_createtable(L, n < 1 << 20 ? (int)n : 0, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    ett_interval w =
        flat ? (ett_interval){ett_lua_integer_at(L, 2, i), ett_lua_integer_at(L, 3, i)}
             : pair(L, 2, i);
    lua_pushinteger(L, ett_intervals_measure_in(s, w.from, w.to));
    lua_rawseti(L, 4, i);
  }
  return 1;
}

static int set_clip(lua_State *L) {
  ett_intervals *a = check(L, 1);
  int64_t from = luaL_checkinteger(L, 2), to = luaL_checkinteger(L, 3);
  ett_lua_check_memory(L, ett_intervals_clip(ett_lua_new_intervals(L), a, from, to));
  return 1;
}

static int set_gaps(lua_State *L) {
  ett_intervals *a = check(L, 1);
  int64_t from = luaL_optinteger(L, 2, a->count ? a->items[0].from : 0);
  int64_t to = luaL_optinteger(L, 3, a->count ? a->items[a->count - 1].to : 0);
  ett_lua_check_memory(L, ett_intervals_gaps(ett_lua_new_intervals(L), a, from, to));
  return 1;
}

static int set_longer(lua_State *L) {
  ett_intervals *a = check(L, 1);
  int64_t least = luaL_checkinteger(L, 2);
  ett_lua_check_memory(L, ett_intervals_longer(ett_lua_new_intervals(L), a, least));
  return 1;
}

static int set_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check(L, 1)->count);
  return 1;
}

static int set_at(lua_State *L) {
  const ett_intervals *s = check(L, 1);
  lua_Integer i = luaL_checkinteger(L, 2);
  if (i < 1 || (size_t)i > s->count)
    return 0;
  lua_pushinteger(L, s->items[i - 1].from);
  lua_pushinteger(L, s->items[i - 1].to);
  return 2;
}

static int set_span(lua_State *L) {
  const ett_intervals *s = check(L, 1);
  if (!s->count)
    return 0;
  lua_pushinteger(L, s->items[0].from);
  lua_pushinteger(L, s->items[s->count - 1].to);
  return 2;
}

static int next(lua_State *L) {
  const ett_intervals *s = check(L, 1);
  lua_Integer i = luaL_checkinteger(L, 2);
  if (i < 0 || (size_t)i >= s->count)
    return 0;
  lua_pushinteger(L, i + 1);
  lua_pushinteger(L, s->items[i].from);
  lua_pushinteger(L, s->items[i].to);
  return 3;
}

static int set_iter(lua_State *L) {
  check(L, 1);
  lua_pushcfunction(L, next);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

static int set_equal(lua_State *L) {
  const ett_intervals *a = check(L, 1), *b = check(L, 2);
  int same = a->count == b->count;
  for (size_t i = 0; same && i < a->count; i++)
    same = a->items[i].from == b->items[i].from && a->items[i].to == b->items[i].to;
  lua_pushboolean(L, same);
  return 1;
}

static int set_tostring(lua_State *L) {
  const ett_intervals *s = check(L, 1);
  lua_pushfstring(L, "%d intervals, %I in all", (int)s->count,
                  (LUAI_UACINT)ett_intervals_measure(s));
  return 1;
}

static const luaL_Reg methods[] = {
    {"measure", set_measure},
    {"measure_in", set_measure_in},
    {"clip", set_clip},
    {"gaps", set_gaps},
    {"longer", set_longer},
    {"at", set_at},
    {"span", set_span},
    {"iter", set_iter},
    {"__len", set_len},
    {"__eq", set_equal},
    {"__tostring", set_tostring},
    {"__gc", set_gc},
    {NULL, NULL},
};

static const ett_lua_variant variants[] = {
    {"__bor", set_combine, UNION},
    {"__band", set_combine, INTERSECT},
    {"__sub", set_combine, SUBTRACT},
    {NULL, NULL, 0},
};

static const luaL_Reg functions[] = {{"new", set_new}, {NULL, NULL}};

int luaopen_ett_interval(lua_State *L) {
  ett_lua_type(L, ETT_LUA_INTERVAL, methods, NULL);
  ett_lua_variants(L, ETT_LUA_INTERVAL, variants);
  luaL_newlib(L, functions);
  return 1;
}
