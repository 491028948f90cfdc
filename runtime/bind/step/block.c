/* Blocks of plans: the rows of a sweep under all values of some fields. */
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

/* What rows are made of. */
typedef struct row_facts {
  int shared, axes; /* indexes of tables: fields of every row; the block's own */
  int fields;       /* of a row */
  double tokens, devices, memory_limit;
  int64_t order; /* number of the block's first plan, before 1; negative: not given */
} row_facts;

/* Pushes the row of one plan. */
static void push_row(lua_State *L, const block *b, size_t n, const size_t *place,
                     const row_facts *f, const ett_step_result *r) {
  lua_createtable(L, 0, f->fields);
  for (lua_pushnil(L); lua_next(L, f->shared);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  for (size_t i = 0; i < b->axes; i++) {
    lua_rawgeti(L, f->axes, (lua_Integer)i + 1);
    lua_getfield(L, -1, "name");
    lua_getfield(L, -2, "values");
    lua_rawgeti(L, -1, (lua_Integer)place[i] + 1);
    lua_replace(L, -2);
    lua_rawset(L, -4);
    lua_pop(L, 1);
  }
  double rate = f->tokens / r->step_seconds;
  ett_lua_set_number(L, "step_seconds", r->step_seconds);
  ett_lua_set_number(L, "memory_bytes", r->memory_bytes);
  ett_lua_set_number(L, "bubble_percent", 100 * r->bubble_fraction);
  ett_lua_set_number(L, "tokens_per_second", rate);
  ett_lua_set_number(L, "tokens_per_second_per_device", rate / f->devices);
  if (f->order >= 0)
    ett_lua_set_integer(L, "order", f->order + (int64_t)n + 1);
  ett_lua_set_boolean(L, "fits", r->fits && r->memory_bytes <= f->memory_limit);
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
  row_facts facts = {.shared = 7,
                     .tokens = luaL_checknumber(L, 9),
                     .devices = luaL_checknumber(L, 10),
                     .memory_limit = luaL_checknumber(L, 11),
                     .order = luaL_optinteger(L, 12, -1)};
  ett_step_lua_call c;
  ett_step_lua_get_call(L, &c);
  lua_getiuservalue(L, 5, 1);
  facts.axes = lua_gettop(L);
  facts.fields =
      (int)b->axes + (facts.order < 0 ? 6 : 7); /* a table that grows is copied */
  for (lua_pushnil(L); lua_next(L, facts.shared); lua_pop(L, 1))
    facts.fields++;
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

static const luaL_Reg block_methods[] = {
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"block", block_new},
    {NULL, NULL},
};

void ett_step_lua_open_blocks(lua_State *L) {
  ett_lua_type(L, ETT_LUA_BLOCK, block_methods, NULL);
  luaL_setfuncs(L, functions, 0);
}
