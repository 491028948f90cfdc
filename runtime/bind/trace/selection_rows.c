/* selection_rows.c - single rows of a selection, and columns of them, as Lua values. */
#include "bind/trace/trace.h"

#include <string.h>

enum { FIELD_TS, FIELD_DUR, FIELD_END, FIELD_ROW, FIELD_KEY };

typedef struct field {
  int what;
  ett_key key;
} field;

static int find_field(const ett_trace *t, const char *name, field *f) {
  static const char *const fixed[] = {"ts", "dur", "end", "row"};
  for (int i = 0; i < 4; i++)
    if (strcmp(fixed[i], name) == 0) {
      f->what = i;
      return 1;
    }
  f->what = FIELD_KEY;
  int kind = ett_key_find(name);
  if (kind >= 0) {
    f->key = (ett_key){(ett_key_kind)kind, 0};
    return 1;
  }
  int arg = ett_trace_arg_find(t, strncmp(name, "arg:", 4) == 0 ? name + 4 : name);
  if (arg < 0)
    return 0;
  f->key = (ett_key){ETT_KEY_ARG, (uint32_t)arg};
  return 1;
}

static field check_field(lua_State *L, const ett_trace *t, const char *name) {
  field f;
  if (!find_field(t, name, &f))
    luaL_error(L,
               "unknown field '%s': neither a column (ts, dur, end, row, name, category, "
               "class, rank, file, device, stream, track, pid, tid, process, thread, ph, "
               "correlation) nor an arg asked for when the trace was opened",
               name);
  return f;
}

static void push_field(lua_State *L, const ett_trace *t, const field *f, uint32_t row) {
  if (row == ETT_TRACE_NONE) {
    lua_pushnil(L);
    return;
  }
  switch (f->what) {
  case FIELD_TS:
    lua_pushinteger(L, ETT_ROW(t, ts, row));
    break;
  case FIELD_DUR:
    lua_pushinteger(L, ETT_ROW(t, dur, row));
    break;
  case FIELD_END:
    lua_pushinteger(L, ETT_ROW(t, ts, row) + ETT_ROW(t, dur, row));
    break;
  case FIELD_ROW:
    lua_pushinteger(L, row);
    break;
  default: {
    ett_key_value v = ett_key_of(t, f->key, row);
    ett_lua_push_key(L, t, f->key, &v);
  }
  }
}

static uint32_t row_at(lua_State *L, const ett_lua_selection *x, int index) {
  lua_Integer i = luaL_checkinteger(L, index);
  luaL_argcheck(L, i >= 1 && (size_t)i <= x->s.count, index, "no such row");
  return x->s.rows[i - 1];
}

int ett_lua_selection_get(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  uint32_t row = row_at(L, x, 2);
  field f = check_field(L, t, luaL_checkstring(L, 3));
  push_field(L, t, &f, row);
  return 1;
}

static void push_event(lua_State *L, const ett_trace *t, uint32_t row) {
  static const char *const names[] = {
      "ts",    "dur",  "end",     "row",    "name",   "category",
      "class", "rank", "file",    "device", "stream", "track",
      "pid",   "tid",  "process", "thread", "ph",     "correlation"};
  if (row == ETT_TRACE_NONE) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 20);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    field f;
    if (!find_field(t, names[i], &f))
      continue;
    push_field(L, t, &f, row);
    lua_setfield(L, -2, names[i]);
  }
  lua_newtable(L);
  for (uint32_t a = 0; a < t->arg_count; a++) {
    field f = {FIELD_KEY, {ETT_KEY_ARG, a}};
    push_field(L, t, &f, row);
    lua_setfield(L, -2, t->arg_names[a]);
  }
  lua_setfield(L, -2, "args");
}

int ett_lua_selection_event(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  push_event(L, t, row_at(L, x, 2));
  return 1;
}

static int next(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  lua_Integer i = luaL_checkinteger(L, 2);
  while (i >= 0 && (size_t)i < x->s.count && x->s.rows[i] == ETT_TRACE_NONE)
    i++;
  if (i < 0 || (size_t)i >= x->s.count)
    return 0;
  lua_pushinteger(L, i + 1);
  push_event(L, t, x->s.rows[i]);
  return 2;
}

int ett_lua_selection_iter(lua_State *L) {
  luaL_checkudata(L, 1, ETT_LUA_SELECTION);
  lua_pushcfunction(L, next);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

static void push_column(lua_State *L, const ett_trace *t, const ett_lua_selection *x,
                        const field *f) {
  lua_createtable(L, x->s.count < 1 << 24 ? (int)x->s.count : 0, 0);
  for (size_t i = 0; i < x->s.count; i++) {
    push_field(L, t, f, x->s.rows[i]);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

int ett_lua_selection_columns(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer n = luaL_len(L, 2);
  luaL_argcheck(L, n <= 64, 2, "at most 64 fields");
  luaL_checkstack(L, (int)n + 8, NULL);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, 2, i);
    field f = check_field(L, t, luaL_checkstring(L, -1));
    lua_pop(L, 1);
    push_column(L, t, x, &f);
  }
  return (int)n;
}

int ett_lua_selection_values(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  field f = {FIELD_KEY, {ETT_KEY_ARG, ett_lua_arg_column(L, t, luaL_checkstring(L, 2))}};
  push_column(L, t, x, &f);
  return 1;
}

int ett_lua_selection_sum(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  uint32_t arg = ett_lua_arg_column(L, t, luaL_checkstring(L, 2));
  double sum = 0, v;
  lua_Integer count = 0;
  for (size_t i = 0; i < x->s.count; i++) {
    if (x->s.rows[i] == ETT_TRACE_NONE)
      continue;
    const ett_trace_arg *a = ett_trace_arg_at(t, arg, x->s.rows[i]);
    if (!a || !ett_arg_number(t, a, &v))
      continue;
    sum += v;
    count++;
  }
  lua_pushnumber(L, sum);
  lua_pushinteger(L, count);
  return 2;
}
