/* selection_groups.c - rows by keys: groups and their statistics. */
#include "bind/trace/trace.h"

#include <stdlib.h>
#include <string.h>

ett_key ett_lua_key_named(lua_State *L, const ett_trace *t, const char *name) {
  ett_key key = {0};
  if (strncmp(name, "arg:", 4) == 0) {
    key.kind = ETT_KEY_ARG;
    key.arg = ett_lua_arg_column(L, t, name + 4);
    return key;
  }
  int kind = ett_key_find(name);
  if (kind < 0)
    luaL_error(L,
               "unknown key '%s' (file, rank, device, stream, track, pid, tid, process, "
               "thread, name, category, class, ph, correlation, arg:NAME)",
               name);
  key.kind = (ett_key_kind)kind;
  return key;
}

/* Keys of the string or list at index, as a userdata left on the stack. */
static ett_key *keys_at(lua_State *L, int index, const ett_trace *t, uint32_t *count) {
  if (lua_isnoneornil(L, index)) {
    *count = 0;
    return lua_newuserdatauv(L, sizeof(ett_key), 0);
  }
  if (lua_type(L, index) == LUA_TSTRING) {
    ett_key *keys = lua_newuserdatauv(L, sizeof *keys, 0);
    *keys = ett_lua_key_named(L, t, lua_tostring(L, index));
    *count = 1;
    return keys;
  }
  luaL_checktype(L, index, LUA_TTABLE);
  lua_Integer n = luaL_len(L, index);
  ett_key *keys = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *keys, 0);
  for (lua_Integer i = 0; i < n; i++) {
    lua_geti(L, index, i + 1);
    keys[i] = ett_lua_key_named(L, t, luaL_checkstring(L, -1));
    lua_pop(L, 1);
  }
  *count = (uint32_t)n;
  return keys;
}

static const char *key_label(ett_key key, const ett_trace *t) {
  static const char *const labels[] = {
      "file",    "rank",   "device", "stream",   "track", "pid", "tid",
      "process", "thread", "name",   "category", "class", "ph",  "correlation"};
  return key.kind == ETT_KEY_ARG ? t->arg_names[key.arg] : labels[key.kind];
}

void ett_lua_push_key(lua_State *L, const ett_trace *t, ett_key key,
                      const ett_key_value *v) {
  char ph;
  switch (v->type) {
  case ETT_ARG_INTEGER:
    if (key.kind == ETT_KEY_CLASS) {
      lua_pushstring(L, ett_trace_class_name((ett_trace_class)v->value.integer));
    } else if (key.kind == ETT_KEY_PH) {
      ph = (char)v->value.integer;
      lua_pushlstring(L, &ph, 1);
    } else {
      lua_pushinteger(L, v->value.integer);
    }
    break;
  case ETT_ARG_FLOAT:
    lua_pushnumber(L, v->value.number);
    break;
  case ETT_ARG_TEXT: {
    const ett_string *s = &t->strings->items[v->value.text];
    lua_pushlstring(L, s->text, s->length);
    break;
  }
  default:
    lua_pushnil(L);
  }
}

/* Groups that survive a raise: freed by their metatable. */
static int groups_gc(lua_State *L) {
  ett_groups_free(luaL_checkudata(L, 1, "ett.groups"));
  return 0;
}

static ett_groups *new_groups(lua_State *L) {
  ett_groups *g = lua_newuserdatauv(L, sizeof *g, 0);
  memset(g, 0, sizeof *g);
  luaL_setmetatable(L, "ett.groups");
  return g;
}

static void push_labels(lua_State *L, const ett_trace *t, const ett_groups *g,
                        const ett_key *keys, uint32_t i) {
  for (uint32_t k = 0; k < g->key_count; k++) {
    ett_lua_push_key(L, t, keys[k], &g->values[(size_t)i * g->key_count + k]);
    lua_setfield(L, -2, key_label(keys[k], t));
  }
}

int ett_lua_selection_group(lua_State *L) {
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  uint32_t n;
  ett_key *keys = keys_at(L, 2, t, &n);
  ett_groups *g = new_groups(L);
  ett_lua_check_memory(L, ett_group(g, t, &x->s, keys, n));
  lua_createtable(L, (int)g->count, 0);
  for (uint32_t i = 0; i < g->count; i++) {
    lua_createtable(L, 0, (int)n + 1);
    push_labels(L, t, g, keys, i);
    ett_lua_selection *y = ett_lua_sibling(L, 1);
    ett_lua_take_rows(L, y, g->rows + g->begin[i], g->begin[i + 1] - g->begin[i]);
    lua_setfield(L, -2, "events");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  ett_groups_free(g);
  return 1;
}

typedef struct line {
  uint32_t group;
  ett_stats stats;
} line;

static int by_total(const void *a, const void *b) {
  const line *x = a, *y = b;
  if (x->stats.total != y->stats.total)
    return x->stats.total > y->stats.total ? -1 : 1;
  return x->group < y->group ? -1 : x->group > y->group;
}

static int by_count(const void *a, const void *b) {
  const line *x = a, *y = b;
  if (x->stats.count != y->stats.count)
    return x->stats.count > y->stats.count ? -1 : 1;
  return x->group < y->group ? -1 : x->group > y->group;
}

static void set_integer(lua_State *L, const char *name, int64_t v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, name);
}

static void set_number(lua_State *L, const char *name, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, name);
}

int ett_lua_selection_stats(lua_State *L) {
  static const char *const orders[] = {"key", "total", "count", NULL};
  ett_trace *t;
  ett_lua_selection *x = ett_lua_check_selection(L, 1, &t);
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_newtable(L);
    lua_replace(L, 2);
  }
  luaL_checktype(L, 2, LUA_TTABLE);
  uint32_t n;
  lua_getfield(L, 2, "by"); /* 3 */
  ett_key *keys = keys_at(L, 3, t, &n);
  lua_getfield(L, 2, "order");
  int order = luaL_checkoption(L, -1, "key", orders);
  double percents[32];
  size_t percent_count = 0;
  if (lua_getfield(L, 2, "percentiles") != LUA_TNIL) {
    luaL_checktype(L, -1, LUA_TTABLE);
    percent_count = (size_t)luaL_len(L, -1);
    if (percent_count > 32)
      return luaL_error(L, "at most 32 percentiles");
    for (size_t i = 0; i < percent_count; i++) {
      lua_geti(L, -1, (lua_Integer)i + 1);
      percents[i] = luaL_checknumber(L, -1);
      lua_pop(L, 1);
    }
  }
  ett_groups *g = new_groups(L);
  ett_lua_check_memory(L, ett_group(g, t, &x->s, keys, n));
  line *lines = lua_newuserdatauv(L, ((size_t)g->count + 1) * sizeof *lines, 0);
  int64_t *scratch = lua_newuserdatauv(L, (x->s.count + 1) * sizeof *scratch, 0);
  for (uint32_t i = 0; i < g->count; i++) { /* each group sorts its own stretch */
    lines[i].group = i;
    ett_stats_of(&lines[i].stats, t, g->rows + g->begin[i], g->begin[i + 1] - g->begin[i],
                 scratch + g->begin[i], percent_count > 0);
  }
  if (order && g->count)
    qsort(lines, g->count, sizeof *lines, order == 1 ? by_total : by_count);
  lua_createtable(L, (int)g->count, 0);
  for (uint32_t i = 0; i < g->count; i++) {
    const ett_stats *s = &lines[i].stats;
    uint32_t from = lines[i].group;
    lua_createtable(L, 0, 8 + (int)n + (int)percent_count);
    push_labels(L, t, g, keys, from);
    set_integer(L, "count", s->count);
    set_integer(L, "total", s->total);
    set_integer(L, "min", s->min);
    set_integer(L, "max", s->max);
    set_number(L, "mean", s->mean);
    set_number(L, "std", s->std);
    for (size_t k = 0; k < percent_count; k++) {
      if (percents[k] == (double)(lua_Integer)percents[k])
        lua_pushfstring(L, "p%I", (LUAI_UACINT)percents[k]);
      else
        lua_pushfstring(L, "p%f", percents[k]);
      lua_pushinteger(
          L, ett_percentile(scratch + g->begin[from], (size_t)s->count, percents[k]));
      lua_settable(L, -3);
    }
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  ett_groups_free(g);
  return 1;
}

void ett_lua_groups_type(lua_State *L) {
  if (luaL_newmetatable(L, "ett.groups")) {
    lua_pushcfunction(L, groups_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
}
