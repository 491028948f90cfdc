/* ett.selection: rows of a trace. Made by ett.trace; see runtime/trace/README.md. */
#include "bind/trace/trace.h"

#include <stdlib.h>
#include <string.h>

ett_lua_selection *ett_lua_new_selection(lua_State *L, int trace_index) {
  trace_index = lua_absindex(L, trace_index);
  ett_lua_selection *x = lua_newuserdatauv(L, sizeof *x, 1);
  x->s = (ett_selection){0};
  luaL_setmetatable(L, ETT_LUA_SELECTION);
  lua_pushvalue(L, trace_index);
  lua_setiuservalue(L, -2, 1);
  return x;
}

ett_lua_selection *ett_lua_check_selection(lua_State *L, int index, ett_trace **t) {
  ett_lua_selection *x = luaL_checkudata(L, index, ETT_LUA_SELECTION);
  lua_getiuservalue(L, index, 1);
  ett_lua_trace_box *box = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!box || !box->trace)
    luaL_argerror(L, index, "its trace is closed");
  *t = box->trace;
  return x;
}

/* Pushes a selection of the same trace as the one at index. */
ett_lua_selection *ett_lua_sibling(lua_State *L, int index) {
  lua_getiuservalue(L, index, 1);
  ett_lua_selection *x = ett_lua_new_selection(L, -1);
  lua_remove(L, -2);
  return x;
}

void ett_lua_take_rows(lua_State *L, ett_lua_selection *x, const uint32_t *rows,
                       size_t count) {
  x->s.rows = malloc((count ? count : 1) * sizeof *rows);
  ett_lua_check_memory(L, x->s.rows ? 0 : -1);
  if (count)
    memcpy(x->s.rows, rows, count * sizeof *rows);
  x->s.count = count;
}

static int selection_gc(lua_State *L) {
  ett_lua_selection *x = luaL_checkudata(L, 1, ETT_LUA_SELECTION);
  ett_selection_free(&x->s);
  return 0;
}

static int selection_len(lua_State *L) {
  ett_lua_selection *x = luaL_checkudata(L, 1, ETT_LUA_SELECTION);
  lua_pushinteger(L, (lua_Integer)x->s.count);
  return 1;
}

void ett_lua_push_selected(lua_State *L, int trace_index, const ett_selection *from,
                           int filter_index) {
  ett_trace *t = ett_lua_check_trace(L, trace_index);
  trace_index = lua_absindex(L, trace_index);
  int top = lua_gettop(L);
  ett_lua_filter filter;
  ett_lua_read_filter(L, filter_index, t, &filter);
  ett_lua_selection *x = ett_lua_new_selection(L, trace_index);
  ett_lua_check_memory(L, ett_select(&x->s, t, from, &filter.f));
  if (lua_gettop(L) > top + 1)
    lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

static int selection_where(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  lua_settop(L, 2);
  lua_getiuservalue(L, 1, 1);
  ett_lua_push_selected(L, 3, &x->s, 2);
  return 1;
}

static int combine(lua_State *L, ett_rows_op op) {
  ett_trace *t, *u;
  ett_lua_selection *a = ett_lua_check_selection(L, 1, &t);
  ett_lua_selection *b = ett_lua_check_selection(L, 2, &u);
  luaL_argcheck(L, t == u, 2, "a selection of the same trace expected");
  ett_lua_selection *x = ett_lua_sibling(L, 1);
  ett_lua_check_memory(L, ett_selection_combine(&x->s, &a->s, &b->s, op));
  return 1;
}

static int selection_add(lua_State *L) {
  return combine(L, ETT_ROWS_OR);
}

static int selection_sub(lua_State *L) {
  return combine(L, ETT_ROWS_WITHOUT);
}

static int selection_and(lua_State *L) {
  return combine(L, ETT_ROWS_AND);
}

static int selection_sort(lua_State *L) {
  static const char *const names[] = {"ts", "end", "dur", "row", NULL};
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  int key = luaL_checkoption(L, 2, "ts", names);
  ett_lua_selection *y = ett_lua_sibling(L, 1);
  ett_lua_take_rows(L, y, x->s.rows, x->s.count);
  ett_lua_check_memory(L, ett_selection_sort(&y->s, t, (ett_sort_key)key));
  return 1;
}

static int selection_total(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  lua_pushinteger(L, ett_selection_total(&x->s, t));
  return 1;
}

static int selection_span(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  int64_t from, to;
  if (!ett_selection_span(&x->s, t, &from, &to))
    return 0;
  lua_pushinteger(L, from);
  lua_pushinteger(L, to);
  return 2;
}

static int selection_intervals(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  ett_lua_check_memory(L, ett_selection_intervals(ett_lua_new_intervals(L), &x->s, t));
  return 1;
}

static int selection_slice(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  lua_Integer i = luaL_checkinteger(L, 2), k = luaL_optinteger(L, 3, i);
  if (i < 1)
    i = 1;
  if (k > (lua_Integer)x->s.count)
    k = (lua_Integer)x->s.count;
  ett_lua_selection *y = ett_lua_sibling(L, 1);
  ett_lua_take_rows(L, y, x->s.rows + (i <= k ? i - 1 : 0),
                    i <= k ? (size_t)(k - i + 1) : 0);
  return 1;
}

static int selection_at(lua_State *L) {
  lua_settop(L, 2);
  return selection_slice(L);
}

static int selection_present(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  ett_lua_selection *y = ett_lua_sibling(L, 1);
  ett_lua_take_rows(L, y, x->s.rows, x->s.count);
  size_t n = 0;
  for (size_t i = 0; i < y->s.count; i++)
    if (y->s.rows[i] != ETT_TRACE_NONE)
      y->s.rows[n++] = y->s.rows[i];
  y->s.count = n;
  return 1;
}

/* ---- links ---- */

static ett_lua_selection *two(lua_State *L, ett_trace **t, ett_lua_selection **r) {
  ett_trace *u;
  ett_lua_selection *s = ett_lua_check_selection(L, 1, t);
  *r = ett_lua_check_selection(L, 2, &u);
  luaL_argcheck(L, u == *t, 2, "a selection of the same trace expected");
  return s;
}

static int selection_match(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *r, *s = two(L, &t, &r);
  ett_key key = ett_lua_key_named(L, t, luaL_optstring(L, 3, "correlation"));
  ett_lua_selection *x = ett_lua_sibling(L, 1);
  ett_lua_check_memory(L, ett_link_match(&x->s, t, &s->s, &r->s, key));
  return 1;
}

static int selection_enclosing(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *r, *s = two(L, &t, &r);
  ett_lua_selection *x = ett_lua_sibling(L, 1);
  ett_lua_check_memory(L, ett_link_enclosing(&x->s, t, &s->s, &r->s));
  return 1;
}

static int selection_preceding(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *r, *s = two(L, &t, &r);
  ett_lua_selection *x = ett_lua_sibling(L, 1);
  ett_lua_check_memory(L, ett_link_preceding(&x->s, t, &s->s, &r->s));
  return 1;
}

static int selection_tostring(lua_State *L) {
  ett_lua_selection *x = luaL_checkudata(L, 1, ETT_LUA_SELECTION);
  lua_pushfstring(L, "selection of %I rows", (LUAI_UACINT)x->s.count);
  return 1;
}

static const luaL_Reg methods[] = {
    {"where", selection_where},           {"sort", selection_sort},
    {"total", selection_total},           {"span", selection_span},
    {"intervals", selection_intervals},   {"group", ett_lua_selection_group},
    {"stats", ett_lua_selection_stats},   {"sum", ett_lua_selection_sum},
    {"values", ett_lua_selection_values}, {"get", ett_lua_selection_get},
    {"event", ett_lua_selection_event},   {"columns", ett_lua_selection_columns},
    {"iter", ett_lua_selection_iter},     {"at", selection_at},
    {"slice", selection_slice},           {"present", selection_present},
    {"match", selection_match},           {"enclosing", selection_enclosing},
    {"preceding", selection_preceding},   {NULL, NULL},
};

static const luaL_Reg metamethods[] = {
    {"__len", selection_len},
    {"__add", selection_add},
    {"__sub", selection_sub},
    {"__band", selection_and},
    {"__gc", selection_gc},
    {"__tostring", selection_tostring},
    {NULL, NULL},
};

int luaopen_ett_selection(lua_State *L) {
  ett_lua_groups_type(L);
  if (luaL_newmetatable(L, ETT_LUA_SELECTION)) {
    luaL_setfuncs(L, metamethods, 0);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
  luaL_newlib(L, methods);
  return 1;
}
