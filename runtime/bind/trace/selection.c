/* ett.selection: rows of a trace. Made by ett.trace; see runtime/trace/README.md. */
#include "bind/trace/trace.h"

#include <stdlib.h>
#include <string.h>

/* Pushes an empty selection of the trace at trace_index; the caller fills its rows. */
static ett_lua_selection *new_selection(lua_State *L, int trace_index) {
  trace_index = lua_absindex(L, trace_index);
  ett_lua_selection *x = lua_newuserdatauv(L, sizeof *x, 1);
  *x = (ett_lua_selection){0};
  luaL_setmetatable(L, ETT_LUA_SELECTION);
  lua_pushvalue(L, trace_index);
  lua_setiuservalue(L, -2, 1);
  return x;
}

ett_lua_selection *ett_lua_check_selection(lua_State *L, int index) {
  ett_lua_selection *x = luaL_checkudata(L, index, ETT_LUA_SELECTION);
  if (x->closed)
    luaL_error(L, "the selection is closed");
  lua_getiuservalue(L, index, 1);
  ett_trace **box = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!box || !*box)
    luaL_argerror(L, index, "its trace is closed");
  x->t = *box;
  return x;
}

/* Pushes a selection of the same trace as the one at index. */
static ett_lua_selection *sibling(lua_State *L, int index) {
  lua_getiuservalue(L, index, 1);
  ett_lua_selection *x = new_selection(L, -1);
  lua_remove(L, -2);
  return x;
}

static void take_rows(lua_State *L, ett_lua_selection *x, const uint32_t *rows,
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
  x->closed = true;
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
  ett_lua_selection *x = new_selection(L, trace_index);
  ett_lua_check_memory(L, ett_select(&x->s, t, from, &filter.f));
  if (lua_gettop(L) > top + 1)
    lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

static int selection_where(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  lua_settop(L, 2);
  lua_getiuservalue(L, 1, 1);
  ett_lua_push_selected(L, 3, &x->s, 2);
  return 1;
}

/* Two selections of the same trace: returns the first. */
static ett_lua_selection *two(lua_State *L, ett_lua_selection **r) {
  ett_lua_selection *s = ett_lua_check_selection(L, 1);
  *r = ett_lua_check_selection(L, 2);
  luaL_argcheck(L, s->t == (*r)->t, 2, "a selection of the same trace expected");
  return s;
}

/* Upvalue 1 is an ett_rows_op. */
static int selection_combine(lua_State *L) {
  ett_lua_selection *b, *a = two(L, &b);
  ett_lua_selection *x = sibling(L, 1);
  const lua_Integer op = lua_tointeger(L, lua_upvalueindex(1));
  ett_lua_check_memory(L, ett_selection_combine(&x->s, &a->s, &b->s, (ett_rows_op)op));
  return 1;
}

static int selection_sort(lua_State *L) {
  static const char *const names[] = {"ts", "end", "dur", NULL};
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  int key = luaL_checkoption(L, 2, "ts", names);
  ett_lua_selection *y = sibling(L, 1);
  take_rows(L, y, x->s.rows, x->s.count);
  ett_lua_check_memory(L, ett_selection_sort(&y->s, x->t, (ett_sort_key)key));
  return 1;
}

static int selection_total(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  lua_pushinteger(L, ett_selection_total(&x->s, x->t));
  return 1;
}

static int selection_span(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  int64_t from, to;
  if (!ett_selection_span(&x->s, x->t, &from, &to))
    return 0;
  lua_pushinteger(L, from);
  lua_pushinteger(L, to);
  return 2;
}

static int selection_intervals(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  ett_lua_check_memory(L, ett_selection_intervals(ett_lua_new_intervals(L), &x->s, x->t));
  return 1;
}

static int selection_slice(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  lua_Integer i = luaL_checkinteger(L, 2), k = luaL_optinteger(L, 3, i);
  if (i < 1)
    i = 1;
  if (k > (lua_Integer)x->s.count)
    k = (lua_Integer)x->s.count;
  ett_lua_selection *y = sibling(L, 1);
  take_rows(L, y, x->s.rows + (i <= k ? i - 1 : 0), i <= k ? (size_t)(k - i + 1) : 0);
  return 1;
}

static int selection_at(lua_State *L) {
  lua_settop(L, 2);
  return selection_slice(L);
}

/* pick(places): the rows at these places; false is a hole. */
static int selection_pick(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  const size_t n = lua_rawlen(L, 2);
  ett_lua_selection *y = sibling(L, 1);
  y->s.rows = malloc((n + 1) * sizeof *y->s.rows);
  ett_lua_check_memory(L, y->s.rows ? 0 : -1);
  for (; y->s.count < n; y->s.count++) {
    lua_rawgeti(L, 2, (lua_Integer)y->s.count + 1);
    const bool hole = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    const lua_Integer place = hole ? 0 : lua_tointeger(L, -1);
    luaL_argcheck(L, hole || (place >= 1 && (size_t)place <= x->s.count), 2,
                  "must hold places of rows, or false");
    y->s.rows[y->s.count] = hole ? ETT_TRACE_NONE : x->s.rows[place - 1];
    lua_pop(L, 1);
  }
  return 1;
}

static int selection_present(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  ett_lua_selection *y = sibling(L, 1);
  take_rows(L, y, x->s.rows, x->s.count);
  size_t n = 0;
  for (size_t i = 0; i < y->s.count; i++)
    if (y->s.rows[i] != ETT_TRACE_NONE)
      y->s.rows[n++] = y->s.rows[i];
  y->s.count = n;
  return 1;
}

/* ---- groups ---- */

static ett_key key_named(lua_State *L, const ett_trace *t, const char *name) {
  if (strncmp(name, "arg:", 4) == 0)
    return (ett_key){ETT_KEY_ARG, ett_lua_arg_column(L, t, name + 4)};
  int kind = ett_key_find(name);
  if (kind < 0)
    luaL_error(
        L,
        "unknown key '%s' (file, rank, device, stream, track, pid, tid, process, "
        "thread, name, category, class, ph, correlation, ts, dur, end, row, arg:NAME)",
        name);
  return (ett_key){(ett_key_kind)kind, 0};
}

ett_key *ett_lua_keys(lua_State *L, int index, const ett_trace *t, uint32_t *count) {
  int single = lua_type(L, index) == LUA_TSTRING;
  lua_Integer n = single ? 1 : 0;
  if (!single && !lua_isnoneornil(L, index)) {
    if (!lua_istable(L, index))
      luaL_error(L, "keys must be a name or a list of names, got %s",
                 luaL_typename(L, index));
    n = (lua_Integer)lua_rawlen(L, index);
  }
  ett_key *keys = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *keys, 0);
  for (lua_Integer i = 0; i < n; i++) {
    if (single)
      lua_pushvalue(L, index);
    else
      lua_rawgeti(L, index, i + 1);
    keys[i] = key_named(L, t, ett_lua_string_item(L, "keys", i + 1));
    lua_pop(L, 1);
  }
  *count = (uint32_t)n;
  return keys;
}

static void push_key(lua_State *L, const ett_trace *t, ett_key key,
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

/* Groups in a userdata, so that an error does not leak them. */
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
    push_key(L, t, keys[k], &g->values[(size_t)i * g->key_count + k]);
    lua_setfield(L, -2,
                 keys[k].kind == ETT_KEY_ARG ? t->arg_names[keys[k].arg]
                                             : ett_key_name(keys[k].kind));
  }
}

static int selection_group(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  uint32_t n;
  ett_key *keys = ett_lua_keys(L, 2, x->t, &n);
  ett_groups *g = new_groups(L);
  ett_lua_check_memory(L, ett_group(g, x->t, &x->s, keys, n));
  lua_createtable(L, (int)g->count, 0);
  for (uint32_t i = 0; i < g->count; i++) {
    lua_createtable(L, 0, (int)n + 1);
    push_labels(L, x->t, g, keys, i);
    ett_lua_selection *y = sibling(L, 1);
    take_rows(L, y, g->rows + g->begin[i], g->begin[i + 1] - g->begin[i]);
    lua_setfield(L, -2, "events");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  ett_groups_free(g);
  return 1;
}

/* numbered(keys): the group of each row, from 1 on, and the first row of each group. */
static int selection_numbered(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  uint32_t n;
  ett_key *keys = ett_lua_keys(L, 2, x->t, &n);
  size_t count = x->s.count;
  uint32_t *group = (uint32_t *)(void *)ett_lua_zeroes(L, (count + 1) * sizeof *group);
  int64_t groups = ett_group_numbers(group, x->t, &x->s, keys, n, true);
  ett_lua_check_memory(L, groups < 0 ? -1 : 0);
  lua_createtable(L, count < 1 << 24 ? (int)count : 0, 0);
  lua_createtable(L, (int)groups, 0);
  uint32_t seen = 0;
  for (size_t i = 0; i < count; i++) {
    if (group[i] >= seen) {
      lua_pushinteger(L, (lua_Integer)i + 1);
      lua_rawseti(L, -2, ++seen);
    }
    lua_pushinteger(L, (lua_Integer)group[i] + 1);
    lua_rawseti(L, -3, (lua_Integer)i + 1);
  }
  return 2;
}

typedef struct line {
  int64_t key; /* the largest first */
  uint32_t group;
  ett_stats stats;
} line;

static int by_key(const void *a, const void *b) {
  const line *x = a, *y = b;
  if (x->key != y->key)
    return x->key > y->key ? -1 : 1;
  return x->group < y->group ? -1 : x->group > y->group;
}

enum { PERCENTS_MOST = 32 };

/* Reads the option `percentiles`; returns their number. */
static size_t get_percents(lua_State *L, double *percents) {
  if (ett_lua_raw_field(L, 2, "percentiles") == LUA_TNIL)
    return 0;
  ett_lua_check_table(L, "percentiles");
  const size_t count = lua_rawlen(L, -1);
  luaL_argcheck(L, count <= PERCENTS_MOST, 2, "at most 32 percentiles");
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, -1, (lua_Integer)i + 1);
    if (!lua_isnumber(L, -1))
      luaL_error(L, "field 'percentiles' must hold numbers, got %s",
                 luaL_typename(L, -1));
    percents[i] = lua_tonumber(L, -1);
    if (!(percents[i] >= 0 && percents[i] <= 100))
      luaL_error(L, "percentiles must be 0 to 100, got %f", percents[i]);
    lua_pop(L, 1);
  }
  return count;
}

static int selection_stats(lua_State *L) {
  static const char *const orders[] = {"key", "total", "count", NULL};
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  ett_lua_options(L);
  uint32_t n;
  ett_lua_raw_field(L, 2, "by"); /* 3 */
  ett_key *keys = ett_lua_keys(L, 3, x->t, &n);
  int order = ett_lua_choice_field(L, 2, "order", orders);
  double percents[PERCENTS_MOST];
  const size_t percent_count = get_percents(L, percents);
  lua_Integer top = ett_lua_integer_field(L, 2, "top", LUA_MAXINTEGER);
  ett_groups *g = new_groups(L);
  ett_lua_check_memory(L, ett_group(g, x->t, &x->s, keys, n));
  line *lines = lua_newuserdatauv(L, ((size_t)g->count + 1) * sizeof *lines, 0);
  int64_t *scratch = lua_newuserdatauv(L, (x->s.count + 1) * sizeof *scratch, 0);
  for (uint32_t i = 0; i < g->count; i++) { /* each group sorts its own range */
    lines[i].group = i;
    ett_stats_of(&lines[i].stats, x->t, g->rows + g->begin[i],
                 g->begin[i + 1] - g->begin[i], scratch + g->begin[i], percent_count > 0);
    lines[i].key = order == 1 ? lines[i].stats.total : lines[i].stats.count;
  }
  if (order && g->count)
    qsort(lines, g->count, sizeof *lines, by_key);
  const uint32_t shown =
      top < (lua_Integer)g->count ? (uint32_t)(top > 0 ? top : 0) : g->count;
  lua_createtable(L, (int)shown, 0);
  for (uint32_t i = 0; i < shown; i++) {
    const ett_stats *s = &lines[i].stats;
    uint32_t from = lines[i].group;
    lua_createtable(L, 0, 8 + (int)n + (int)percent_count);
    push_labels(L, x->t, g, keys, from);
    ett_lua_set_integer(L, "count", s->count);
    ett_lua_set_integer(L, "total", s->total);
    ett_lua_set_integer(L, "min", s->min);
    ett_lua_set_integer(L, "max", s->max);
    ett_lua_set_number(L, "mean", s->mean);
    ett_lua_set_number(L, "std", s->std);
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
  lua_pushinteger(L, (lua_Integer)g->count);
  ett_groups_free(g);
  return 2;
}

/* ---- links ---- */

enum { LINK_MATCH, LINK_HAVING, LINK_ENCLOSING, LINK_PRECEDING };

/* Upvalue 1 is one of the above. */
static int selection_link(lua_State *L) {
  ett_lua_selection *r, *s = two(L, &r);
  const lua_Integer how = lua_tointeger(L, lua_upvalueindex(1));
  ett_key key = {0};
  if (how == LINK_MATCH || how == LINK_HAVING)
    key = key_named(L, s->t, luaL_optstring(L, 3, "correlation"));
  ett_lua_selection *x = sibling(L, 1);
  ett_lua_check_memory(
      L, how == LINK_MATCH       ? ett_link_match(&x->s, s->t, &s->s, &r->s, key)
         : how == LINK_HAVING    ? ett_link_having(&x->s, s->t, &s->s, &r->s, key)
         : how == LINK_ENCLOSING ? ett_link_enclosing(&x->s, s->t, &s->s, &r->s)
                                 : ett_link_preceding(&x->s, s->t, &s->s, &r->s));
  return 1;
}

/* Arguments: rows; for each the row that it belongs to. Returns the union of the
 * intervals of ett_link_hulls, and the number of these intervals. */
static int selection_hulls(lua_State *L) {
  ett_lua_selection *homes, *s = two(L, &homes);
  luaL_argcheck(L, homes->s.count == s->s.count, 2, "a home for each row expected");
  size_t count;
  ett_intervals *out = ett_lua_new_intervals(L);
  ett_lua_check_memory(L, ett_link_hulls(out, &count, s->t, &s->s, &homes->s));
  lua_pushinteger(L, (lua_Integer)count);
  return 2;
}

/* Pushes { intervals, number } of hulls with one name. */
static void push_named(lua_State *L, const ett_named_hull *hull, size_t count) {
  lua_createtable(L, 2, 0);
  ett_intervals *set = ett_lua_new_intervals(L);
  ett_lua_check_memory(L, ett_intervals_make(set, count));
  for (size_t i = 0; i < count; i++)
    set->items[set->count++] = hull[i].interval;
  ett_lua_check_memory(L, ett_intervals_unite(set));
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, (lua_Integer)count);
  lua_rawseti(L, -2, 2);
}

/* Arguments: rows; for each its host row; ranges of the host. Returns by name of the
 * ranges the union of the intervals of ett_link_named_hulls, and their number. */
static int selection_named_hulls(lua_State *L) {
  ett_lua_selection *homes, *s = two(L, &homes);
  ett_lua_selection *ranges = ett_lua_check_selection(L, 3);
  luaL_argcheck(L, ranges->t == s->t, 3, "a selection of the same trace expected");
  luaL_argcheck(L, homes->s.count == s->s.count, 2, "a home for each row expected");
  size_t count;
  ett_named_hull *hulls = lua_newuserdatauv(L, (ranges->s.count + 1) * sizeof *hulls, 0);
  ett_lua_check_memory(
      L, ett_link_named_hulls(hulls, &count, s->t, &s->s, &homes->s, &ranges->s));
  lua_newtable(L);
  for (size_t from = 0, to = 0; from < count; from = to) {
    while (to < count && hulls[to].name == hulls[from].name)
      to++;
    const ett_string *name = &s->t->strings->items[hulls[from].name];
    lua_pushlstring(L, name->text, name->length);
    push_named(L, hulls + from, to - from);
    lua_rawset(L, -3);
  }
  return 1;
}

/* Arguments: the selection, slack in ticks. The rows, outer before inner, and a list of
 * the places of their parents. */
static int selection_nested(lua_State *L) {
  ett_lua_selection *s = ett_lua_check_selection(L, 1);
  const lua_Integer slack = luaL_optinteger(L, 2, 0);
  luaL_argcheck(L, slack >= 0 && slack <= INT32_MAX, 2, "0 to 2^31 - 1 ticks expected");
  uint32_t *parents = lua_newuserdatauv(L, (s->s.count + 1) * sizeof *parents, 0);
  ett_lua_selection *x = sibling(L, 1);
  ett_lua_check_memory(L, ett_link_nest(&x->s, parents, s->t, &s->s, slack));
  lua_createtable(L, (int)x->s.count, 0);
  for (size_t i = 0; i < x->s.count; i++) {
    lua_pushinteger(L, parents[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 2;
}

/* ---- single rows, and columns of rows ---- */

/* A column, or an arg with or without "arg:". */
static ett_key check_field(lua_State *L, const ett_trace *t, const char *name) {
  int kind = ett_key_find(name);
  if (kind >= 0)
    return (ett_key){(ett_key_kind)kind, 0};
  int arg = ett_trace_arg_find(t, strncmp(name, "arg:", 4) == 0 ? name + 4 : name);
  if (arg < 0)
    luaL_error(L,
               "unknown field '%s': neither a column (ts, dur, end, row, name, category, "
               "class, rank, file, device, stream, track, pid, tid, process, thread, ph, "
               "correlation) nor an arg requested when the trace was opened",
               name);
  return (ett_key){ETT_KEY_ARG, (uint32_t)arg};
}

static void push_field(lua_State *L, const ett_trace *t, ett_key key, uint32_t row) {
  ett_key_value v = {.type = ETT_ARG_NONE};
  if (row != ETT_TRACE_NONE)
    v = ett_key_of(t, key, row);
  push_key(L, t, key, &v);
}

static uint32_t row_at(lua_State *L, const ett_lua_selection *x, int index) {
  lua_Integer i = luaL_checkinteger(L, index);
  luaL_argcheck(L, i >= 1 && (size_t)i <= x->s.count, index, "no such row");
  return x->s.rows[i - 1];
}

static int selection_get(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  uint32_t row = row_at(L, x, 2);
  push_field(L, x->t, check_field(L, x->t, luaL_checkstring(L, 3)), row);
  return 1;
}

static void push_event(lua_State *L, const ett_trace *t, uint32_t row) {
  if (row == ETT_TRACE_NONE) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 20);
  for (int kind = 0; kind < ETT_KEY_ARG; kind++) {
    push_field(L, t, (ett_key){(ett_key_kind)kind, 0}, row);
    lua_setfield(L, -2, ett_key_name((ett_key_kind)kind));
  }
  lua_newtable(L);
  for (uint32_t a = 0; a < t->arg_count; a++) {
    push_field(L, t, (ett_key){ETT_KEY_ARG, a}, row);
    lua_setfield(L, -2, t->arg_names[a]);
  }
  lua_setfield(L, -2, "args");
}

static int selection_event(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  push_event(L, x->t, row_at(L, x, 2));
  return 1;
}

static int next_event(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  lua_Integer i = luaL_checkinteger(L, 2);
  while (i >= 0 && (size_t)i < x->s.count && x->s.rows[i] == ETT_TRACE_NONE)
    i++;
  if (i < 0 || (size_t)i >= x->s.count)
    return 0;
  lua_pushinteger(L, i + 1);
  push_event(L, x->t, x->s.rows[i]);
  return 2;
}

static int selection_iter(lua_State *L) {
  luaL_checkudata(L, 1, ETT_LUA_SELECTION);
  lua_pushcfunction(L, next_event);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

static void push_column(lua_State *L, const ett_lua_selection *x, ett_key key) {
  lua_createtable(L, x->s.count < 1 << 24 ? (int)x->s.count : 0, 0);
  for (size_t i = 0; i < x->s.count; i++) {
    push_field(L, x->t, key, x->s.rows[i]);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static int selection_columns(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  luaL_argcheck(L, n <= 64, 2, "at most 64 fields");
  luaL_checkstack(L, (int)n + 8, NULL);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    ett_key key = check_field(L, x->t, ett_lua_string_item(L, "fields", i));
    lua_pop(L, 1);
    push_column(L, x, key);
  }
  return (int)n;
}

static int selection_values(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  push_column(
      L, x, (ett_key){ETT_KEY_ARG, ett_lua_arg_column(L, x->t, luaL_checkstring(L, 2))});
  return 1;
}

static int selection_sum(lua_State *L) {
  ett_lua_selection *x = ett_lua_check_selection(L, 1);
  uint32_t arg = ett_lua_arg_column(L, x->t, luaL_checkstring(L, 2));
  double sum = 0, v;
  lua_Integer count = 0;
  for (size_t i = 0; i < x->s.count; i++) {
    if (x->s.rows[i] == ETT_TRACE_NONE)
      continue;
    const ett_trace_arg *a = ett_trace_arg_at(x->t, arg, x->s.rows[i]);
    if (!a || !ett_arg_number(x->t, a, &v))
      continue;
    sum += v;
    count++;
  }
  lua_pushnumber(L, sum);
  lua_pushinteger(L, count);
  return 2;
}

static int selection_tostring(lua_State *L) {
  ett_lua_selection *x = luaL_checkudata(L, 1, ETT_LUA_SELECTION);
  lua_pushfstring(L, "selection of %I rows", (LUAI_UACINT)x->s.count);
  return 1;
}

static const luaL_Reg methods[] = {
    {"where", selection_where},
    {"sort", selection_sort},
    {"total", selection_total},
    {"span", selection_span},
    {"group", selection_group},
    {"intervals", selection_intervals},
    {"stats", selection_stats},
    {"sum", selection_sum},
    {"values", selection_values},
    {"get", selection_get},
    {"event", selection_event},
    {"columns", selection_columns},
    {"iter", selection_iter},
    {"at", selection_at},
    {"slice", selection_slice},
    {"pick", selection_pick},
    {"present", selection_present},
    {"nested", selection_nested},
    {"hulls", selection_hulls},
    {"named_hulls", selection_named_hulls},
    {"numbered", selection_numbered},
    {"__len", selection_len},
    {"__gc", selection_gc},
    {"__tostring", selection_tostring},
    {NULL, NULL},
};

static const ett_lua_variant variants[] = {
    {"__add", selection_combine, ETT_ROWS_OR},
    {"__sub", selection_combine, ETT_ROWS_WITHOUT},
    {"__band", selection_combine, ETT_ROWS_AND},
    {"match", selection_link, LINK_MATCH},
    {"having", selection_link, LINK_HAVING},
    {"enclosing", selection_link, LINK_ENCLOSING},
    {"preceding", selection_link, LINK_PRECEDING},
    {NULL, NULL, 0},
};

void ett_lua_selection_type(lua_State *L) {
  ett_lua_type(L, "ett.groups", (const luaL_Reg[]){{"__gc", groups_gc}, {NULL, NULL}},
               NULL);
  ett_lua_type(L, ETT_LUA_SELECTION, methods, NULL);
  ett_lua_variants(L, ETT_LUA_SELECTION, variants);
}
