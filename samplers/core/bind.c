/* ett.sample: statistics, shapes and journals; tensors, surfaces and the machine in
 * files of their own. */
#include "samplers/core/bind.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "samplers/core/journal.h"
#include "samplers/core/space.h"
#include "samplers/core/stats.h"

#define JOURNAL_TYPE "ett.sample.journal"
#define SPACE_TYPE "ett.sample.space"

/* sample.stats(list) -> { count, min, median, mean, low_mean, half_width, low,
 * low_half_width } */
static int stats(lua_State *L) {
  size_t n;
  double *x = ett_lua_doubles(L, 1, &n);
  ett_sample_stats s;
  ett_sample_stats_compute(x, n, &s);
  lua_createtable(L, 0, 8);
  lua_pushinteger(L, (lua_Integer)s.count);
  lua_setfield(L, -2, "count");
  const char *names[] = {"min",        "median", "mean",          "low_mean",
                         "half_width", "low",    "low_half_width"};
  const double values[] = {s.min,        s.median, s.mean,          s.low_mean,
                           s.half_width, s.low,    s.low_half_width};
  for (int i = 0; i < 7; i++) {
    lua_pushnumber(L, values[i]);
    lua_setfield(L, -2, names[i]);
  }
  return 1;
}

typedef struct {
  int count;
  int64_t total;
  ett_sample_axis axes[32];
  int64_t counts[32];
} space_box;

/* sample.space{ {start=, step=, stop=, op="add"|"mul"}, … } -> space */
static int space_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  space_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->count = 0;
  luaL_setmetatable(L, SPACE_TYPE);
  lua_Integer n = luaL_len(L, 1);
  luaL_argcheck(L, n >= 1 && n <= 32, 1, "1 to 32 dimensions");
  ett_err err = {0};
  for (int i = 0; i < n; i++) {
    lua_geti(L, 1, i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    ett_sample_axis *a = &b->axes[i];
    a->start = ett_lua_integer_field(L, -1, "start", 0);
    a->step = ett_lua_integer_field(L, -1, "step", 1);
    a->end = ett_lua_integer_field(L, -1, "stop", 0);
    const char *op = ett_lua_string_field(L, -1, "op", "add");
    if (strcmp(op, "add") != 0 && strcmp(op, "mul") != 0)
      return luaL_error(L, "operator must be 'add' or 'mul', got '%s'", op);
    a->op = op[0] == 'a' ? '+' : '*';
    b->counts[i] = ett_sample_axis_count(a, &err);
    if (b->counts[i] < 0)
      return ett_lua_raise(L, &err);
    lua_pop(L, 1);
  }
  b->total = ett_sample_space_count(b->axes, (int)n, &err);
  if (b->total < 0)
    return ett_lua_raise(L, &err);
  b->count = (int)n;
  return 1;
}

static int space_count(lua_State *L) {
  space_box *b = luaL_checkudata(L, 1, SPACE_TYPE);
  lua_pushinteger(L, b->total);
  return 1;
}

/* space:shape(index from 1) -> list of integers */
static int space_shape(lua_State *L) {
  space_box *b = luaL_checkudata(L, 1, SPACE_TYPE);
  lua_Integer index = luaL_checkinteger(L, 2);
  luaL_argcheck(L, index >= 1 && index <= b->total, 2, "no shape of that number");
  int64_t shape[32];
  ett_sample_space_shape(b->axes, b->counts, b->count, index - 1, shape);
  lua_createtable(L, b->count, 0);
  for (int i = 0; i < b->count; i++) {
    lua_pushinteger(L, shape[i]);
    lua_seti(L, -2, i + 1);
  }
  return 1;
}

/* sample.halton(index from 1, dimension from 1, seed) -> number in [0, 1) */
static int halton(lua_State *L) {
  lua_Integer index = luaL_checkinteger(L, 1), dimension = luaL_checkinteger(L, 2);
  luaL_argcheck(L, index >= 1, 1, "index counts from 1");
  luaL_argcheck(L, dimension >= 1 && dimension <= 32, 2, "dimension is 1 to 32");
  lua_pushnumber(L, ett_sample_halton((uint64_t)index, (int)dimension - 1,
                                      (uint64_t)luaL_checkinteger(L, 3)));
  return 1;
}

typedef struct {
  ett_sample_journal *journal;
} journal_box;

static ett_sample_journal *check_journal(lua_State *L) {
  journal_box *b = luaL_checkudata(L, 1, JOURNAL_TYPE);
  if (!b->journal)
    luaL_error(L, "the journal is closed");
  return b->journal;
}

/* sample.journal(path, header) -> journal | nil, error */
static int journal_open(lua_State *L) {
  const char *path = luaL_checkstring(L, 1), *header = luaL_checkstring(L, 2);
  journal_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->journal = NULL;
  luaL_setmetatable(L, JOURNAL_TYPE);
  ett_err err = {0};
  b->journal = ett_sample_journal_open(path, header, &err);
  return b->journal ? 1 : ett_lua_fail(L, &err);
}

typedef int appender(ett_sample_journal *, const char *, size_t, ett_err *);

static int append_lines(lua_State *L, appender *append) {
  ett_sample_journal *j = check_journal(L);
  size_t bytes;
  const char *lines = luaL_checklstring(L, 2, &bytes);
  ett_err err = {0};
  if (append(j, lines, bytes, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* journal:append(lines) -> true | nil, error: one line or several, in one write */
static int journal_append(lua_State *L) {
  return append_lines(L, ett_sample_journal_append);
}

/* journal:write(lines) -> true | nil, error: append without the sync */
static int journal_write(lua_State *L) {
  return append_lines(L, ett_sample_journal_write);
}

/* journal:sync() -> true | nil, error */
static int journal_sync(lua_State *L) {
  ett_err err = {0};
  if (ett_sample_journal_sync(check_journal(L), &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

static int journal_close(lua_State *L) {
  journal_box *b = luaL_checkudata(L, 1, JOURNAL_TYPE);
  ett_sample_journal_close(b->journal);
  b->journal = NULL;
  return 0;
}

static const luaL_Reg journal_methods[] = {
    {"append", journal_append},
    {"write", journal_write},
    {"sync", journal_sync},
    {"close", journal_close},
    {"__gc", journal_close},
    {"__close", journal_close},
    {NULL, NULL},
};

static const luaL_Reg space_methods[] = {
    {"count", space_count},
    {"shape", space_shape},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"stats", stats},          {"space", space_new}, {"halton", halton},
    {"journal", journal_open}, {NULL, NULL},
};

void ett_bind_sample_type(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

int luaopen_ett_sample(lua_State *L);
int luaopen_ett_sample(lua_State *L) {
  ett_bind_sample_type(L, JOURNAL_TYPE, journal_methods);
  ett_bind_sample_type(L, SPACE_TYPE, space_methods);
  luaL_newlib(L, functions);
  ett_bind_sample_surface(L);
  ett_bind_sample_tensor(L);
  ett_bind_sample_machine(L);
  return 1;
}
