/* Blocks of plans: the rows of a sweep under all values of some fields. */
#include <stdlib.h>
#include <string.h>

#include "bind/step/step.h"

#define ETT_LUA_BLOCK "ett.step.block"

enum { AXES_MOST = 16 };

typedef union block_value {
  int integer;
  int64_t big;
  double number;
} block_value;

/* Its user value is the table that it was made from; the values are behind it. */
typedef struct block {
  size_t axes, plans; /* plans: combinations of all values */
  struct {
    const ett_step_lua_field *field;
    size_t count;
    block_value *values;
  } axis[AXES_MOST];
  block_value values[];
} block;

/* Values of the axis in the table on top. */
static size_t count_values(lua_State *L) {
  luaL_checktype(L, -1, LUA_TTABLE);
  lua_getfield(L, -1, "c");
  luaL_checktype(L, -1, LUA_TTABLE);
  size_t count = lua_rawlen(L, -1);
  lua_pop(L, 1);
  return count;
}

/* Reads axis i, the table on top, whose values are at `values`. */
static void get_axis(lua_State *L, block *b, size_t i, block_value *values) {
  b->axis[i].count = count_values(L);
  b->axis[i].values = values;
  lua_getfield(L, -1, "field");
  b->axis[i].field = ett_step_lua_plan_field(luaL_checkstring(L, -1));
  luaL_argcheck(L, b->axis[i].field, 1, "names a field that C does not read");
  lua_getfield(L, -2, "c");
  for (size_t k = 0; k < b->axis[i].count; k++) {
    lua_rawgeti(L, -1, (lua_Integer)k + 1);
    ett_step_lua_read_field(L, b->axis[i].field, &values[k]);
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
  b->plans *= b->axis[i].count;
}

/* block{{name=, field=, values = {…}, c = {…}}, …}: fields of a plan, the outermost
 * first. A row holds values[k] under `name`; C reads c[k] as `field`. */
static int block_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  size_t axes = lua_rawlen(L, 1), count = 0;
  luaL_argcheck(L, axes <= AXES_MOST, 1, "must hold at most 16 fields");
  for (size_t i = 0; i < axes; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    count += count_values(L);
  }
  block *b = lua_newuserdatauv(L, sizeof *b + count * sizeof *b->values, 1);
  memset(b, 0, sizeof *b);
  b->axes = axes;
  b->plans = 1;
  block_value *at = b->values;
  for (size_t i = 0; i < axes; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    get_axis(L, b, i, at);
    at += b->axis[i].count;
  }
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, 1);
  luaL_setmetatable(L, ETT_LUA_BLOCK);
  return 1;
}

static size_t size_of(const ett_step_lua_field *field) {
  return field->kind == BIG_INTEGER || field->kind == NUMBER ? 8 : sizeof(int);
}

/* The places of the values of combination n, the last axis fastest. */
static void places(const block *b, size_t n, size_t *place) {
  for (size_t i = b->axes; i-- > 0; n /= b->axis[i].count)
    place[i] = n % b->axis[i].count;
}

/* Fields that every row has beside those of the plan. */
enum {
  STEP_SECONDS,
  MEMORY_BYTES,
  BUBBLE_PERCENT,
  TOKENS_PER_SECOND,
  TOKENS_PER_SECOND_PER_DEVICE,
  FITS,
  ORDER,
  RESULTS
};
static const char *const result_names[RESULTS] = {"step_seconds",
                                                  "memory_bytes",
                                                  "bubble_percent",
                                                  "tokens_per_second",
                                                  "tokens_per_second_per_device",
                                                  "fits",
                                                  "order"};

/* What rows are made of, and where it is on the stack. */
typedef struct row_facts {
  int names;         /* the first of RESULTS strings */
  int axes;          /* the first of pairs: an axis' name, its list of values */
  int shared, pairs; /* the first of pairs: name and value of a field of every row */
  int fields;        /* of a row */
  double tokens, devices, memory_limit;
  int64_t order; /* number of the block's first plan, before 1; negative: not given */
} row_facts;

/* Puts everything that rows share on the stack: pushing a string by its text takes longer
 * than copying it. `shared`: index of the table of fields of every row. */
static void get_facts(lua_State *L, const block *b, int shared, row_facts *f) {
  lua_Integer axes = (lua_Integer)b->axes;
  luaL_checkstack(L, RESULTS + 2 * (int)axes + 256, "too many fields");
  f->names = lua_gettop(L) + 1;
  for (int i = 0; i < RESULTS; i++)
    lua_pushstring(L, result_names[i]);
  lua_getiuservalue(L, 5, 1);
  int list = lua_gettop(L);
  f->axes = list + 1;
  for (lua_Integer i = 1; i <= axes; i++) {
    lua_rawgeti(L, list, i);
    lua_getfield(L, -1, "name");
    lua_getfield(L, -2, "values");
    lua_remove(L, -3);
  }
  f->shared = lua_gettop(L) + 1;
  f->pairs = 0;
  lua_pushnil(L);
  while (lua_next(L, shared)) {
    luaL_argcheck(L, ++f->pairs <= 100, shared, "must hold at most 100 fields");
    lua_pushvalue(L, -2); /* the key goes on */
  }
  f->fields = (int)axes + f->pairs + (f->order < 0 ? RESULTS - 1 : RESULTS);
}

/* The value on top becomes a result of the table below it. */
static void set_result(lua_State *L, const row_facts *f, int name) {
  lua_pushvalue(L, f->names + name);
  lua_insert(L, -2);
  lua_rawset(L, -3);
}

static void set_number(lua_State *L, const row_facts *f, int name, double value) {
  lua_pushvalue(L, f->names + name);
  lua_pushnumber(L, value);
  lua_rawset(L, -3);
}

/* Pushes the row of one plan. */
static void push_row(lua_State *L, const block *b, size_t n, const size_t *place,
                     const row_facts *f, const ett_step_result *r) {
  lua_createtable(L, 0, f->fields); /* a table that grows is copied */
  for (int i = 0; i < f->pairs; i++) {
    lua_pushvalue(L, f->shared + 2 * i);
    lua_pushvalue(L, f->shared + 2 * i + 1);
    lua_rawset(L, -3);
  }
  for (size_t i = 0; i < b->axes; i++) {
    lua_pushvalue(L, f->axes + 2 * (int)i);
    lua_rawgeti(L, f->axes + 2 * (int)i + 1, (lua_Integer)place[i] + 1);
    lua_rawset(L, -3);
  }
  double rate = f->tokens / r->step_seconds;
  set_number(L, f, STEP_SECONDS, r->step_seconds);
  set_number(L, f, MEMORY_BYTES, r->memory_bytes);
  set_number(L, f, BUBBLE_PERCENT, 100 * r->bubble_fraction);
  set_number(L, f, TOKENS_PER_SECOND, rate);
  set_number(L, f, TOKENS_PER_SECOND_PER_DEVICE, rate / f->devices);
  lua_pushboolean(L, r->fits && r->memory_bytes <= f->memory_limit);
  set_result(L, f, FITS);
  if (f->order >= 0) {
    lua_pushinteger(L, f->order + (int64_t)n + 1);
    set_result(L, f, ORDER);
  }
}

/* program:rows(plan, demands, workspace, block, first, shared, rows, tokens, devices,
 * memory limit [, order]): appends the rows of the block's plans from number `first` on,
 * with the fields of `shared`; order: how many plans the sweep has seen before the block,
 * for field `order`. Returns the number of the plan that it stopped at, and its fault:
 * none where demands are untimed. After the last plan: one more than there are. */
int ett_step_lua_rows(lua_State *L) {
  const block *b = luaL_checkudata(L, 5, ETT_LUA_BLOCK);
  lua_Integer first = luaL_checkinteger(L, 6);
  luaL_argcheck(L, first >= 1, 6, "must be at least 1");
  luaL_checktype(L, 7, LUA_TTABLE);
  luaL_checktype(L, 8, LUA_TTABLE);
  row_facts facts = {.tokens = luaL_checknumber(L, 9),
                     .devices = luaL_checknumber(L, 10),
                     .memory_limit = luaL_checknumber(L, 11),
                     .order = luaL_optinteger(L, 12, -1)};
  ett_step_lua_call c;
  ett_step_lua_get_call(L, &c);
  get_facts(L, b, 7, &facts);
  lua_Integer rows = (lua_Integer)lua_rawlen(L, 8);
  size_t place[AXES_MOST];
  for (size_t n = (size_t)first - 1; n < b->plans; n++) {
    places(b, n, place);
    for (size_t i = 0; i < b->axes; i++)
      memcpy((char *)&c.plan + b->axis[i].field->offset, &b->axis[i].values[place[i]],
             size_of(b->axis[i].field));
    ett_step_result r;
    int status =
        ett_step_evaluate(c.program, &c.plan, c.demands, c.workspace, 0, &r, &c.err);
    if (status != 0) {
      lua_pushinteger(L, (lua_Integer)n + 1);
      if (status > 0)
        return 1;
      ett_lua_push_error(L, &c.err);
      return 2;
    }
    push_row(L, b, n, place, &facts, &r);
    lua_rawseti(L, 8, ++rows);
  }
  lua_pushinteger(L, (lua_Integer)b->plans + 1);
  return 1;
}

typedef struct sorted_row {
  double value;
  lua_Integer index;
  int fits;
} sorted_row;

static int in_order(const void *left, const void *right) {
  const sorted_row *a = left, *b = right;
  if (a->fits != b->fits)
    return a->fits ? -1 : 1;
  if (a->value != b->value)
    return a->value < b->value ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

/* sorted(rows, field, descending [, most]): a list of the rows, those with `fits` first,
 * then by the field, then as they were; at most `most` of them. */
static int rows_sorted(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const char *field = luaL_checkstring(L, 2);
  double sign = lua_toboolean(L, 3) ? -1 : 1;
  lua_Integer count = (lua_Integer)lua_rawlen(L, 1);
  lua_Integer most = luaL_optinteger(L, 4, count);
  sorted_row *list = lua_newuserdatauv(L, (size_t)count * sizeof *list + 1, 0);
  for (lua_Integer i = 0; i < count; i++) {
    lua_rawgeti(L, 1, i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_getfield(L, -1, field);
    lua_getfield(L, -2, "fits");
    list[i] = (sorted_row){sign * luaL_checknumber(L, -2), i + 1, lua_toboolean(L, -1)};
    lua_pop(L, 3);
  }
  qsort(list, (size_t)count, sizeof *list, in_order);
  most = most < count ? most : count;
  lua_createtable(L, (int)most, 0);
  for (lua_Integer i = 0; i < most; i++) {
    lua_rawgeti(L, 1, list[i].index);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg block_methods[] = {
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"block", block_new},
    {"sorted", rows_sorted},
    {NULL, NULL},
};

void ett_step_lua_open_blocks(lua_State *L) {
  ett_lua_type(L, ETT_LUA_BLOCK, block_methods, NULL);
  luaL_setfuncs(L, functions, 0);
}
