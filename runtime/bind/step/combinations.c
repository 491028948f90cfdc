/* Combinations of plan fields: evaluation of a sweep, and its results. */
#include <stdlib.h>
#include <string.h>

#include "bind/step/step.h"

#define ETT_LUA_COMBINATIONS "ett.step.combinations"

enum { AXES_MOST = 64 };

typedef union axis_value {
  int integer;
  int64_t big;
  double number;
} axis_value;

/* The stored result of one plan. Kept small, because a sweep stores millions of them. */
typedef struct outcome {
  double step_seconds, memory_bytes, bubble_fraction, tokens;
  int64_t number;  /* of the combination, counted from 1 */
  int64_t devices; /* of the plan */
  int64_t fits;
  double key; /* sort key */
} outcome;

/* Totals that ranks of a job exchange before their outcomes. */
typedef struct outcome_sum {
  int64_t evaluated, any_fits;
  outcome least; /* the plan with the least memory, the first of ties; number 0: none */
} outcome_sum;

typedef struct combinations {
  size_t axes;
  struct {
    const ett_step_lua_field *field; /* NULL: C does not read the field */
    size_t count;
    int64_t every; /* number of consecutive combinations with the same value */
    axis_value *values;
  } axis[AXES_MOST];
  outcome_sum sum;
  outcome *list;
  size_t count, capacity;
  axis_value values[];
} combinations;

/* Resizes the list of outcomes in memory that counts towards Lua's limit. 0: out of
 * memory. */
static int resize(lua_State *L, combinations *c, size_t capacity) {
  void *context;
  lua_Alloc allocate = lua_getallocf(L, &context);
  outcome *list =
      allocate(context, c->list, c->capacity * sizeof *list, capacity * sizeof *list);
  if (!list && capacity > 0)
    return 0;
  c->list = list;
  c->capacity = capacity;
  return 1;
}

static int close_list(lua_State *L) {
  combinations *c = luaL_checkudata(L, 1, ETT_LUA_COMBINATIONS);
  c->count = 0;
  resize(L, c, 0);
  return 0;
}

/* Reads axis i from the table on top of the stack into `values`. */
static void get_axis(lua_State *L, combinations *c, size_t i, axis_value *values) {
  lua_getfield(L, -1, "field");
  lua_getfield(L, -2, "in_c");
  const char *name = lua_tostring(L, -2);
  c->axis[i].field = name ? ett_step_lua_plan_field(name) : NULL;
  c->axis[i].values = values;
  for (size_t k = 0; c->axis[i].field && k < c->axis[i].count; k++) {
    lua_rawgeti(L, -1, (lua_Integer)k + 1);
    ett_step_lua_read_field(L, c->axis[i].field, &values[k]);
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

/* combinations{{count=, field=, in_c={…}}, …}: the last axis changes fastest. in_c[k] is
 * value k of the plan field of that name; an axis without a field does not change the
 * plan. */
static int combinations_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  size_t axes = lua_rawlen(L, 1), values = 0;
  luaL_argcheck(L, axes <= AXES_MOST, 1, "must hold at most 64 fields");
  int64_t counts[AXES_MOST] = {0}, every = 1;
  for (size_t i = axes; i-- > 0; lua_pop(L, 1)) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    counts[i] = ett_lua_integer_field(L, -1, "count", 0);
    luaL_argcheck(L, counts[i] >= 1 && counts[i] <= INT64_MAX / every, 1,
                  "has no combination, or too many");
    every *= counts[i];
    values += (size_t)counts[i];
  }
  combinations *c = lua_newuserdatauv(L, sizeof *c + values * sizeof *c->values, 0);
  memset(c, 0, sizeof *c);
  luaL_setmetatable(L, ETT_LUA_COMBINATIONS);
  c->axes = axes;
  axis_value *at = c->values;
  for (size_t i = 0; i < axes; i++, lua_pop(L, 1)) {
    c->axis[i].count = (size_t)counts[i];
    c->axis[i].every = every /= counts[i];
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    get_axis(L, c, i, at);
    at += counts[i];
  }
  return 1;
}

/* Sets the plan's fields for combination n, counted from 0. all = 0: only the axes that
 * differ from combination n - 1. */
static void set_fields(const combinations *c, int64_t n, int all, ett_step_plan *plan) {
  for (size_t i = c->axes; i-- > 0;) {
    const ett_step_lua_field *field = c->axis[i].field;
    if (!all && n % c->axis[i].every != 0)
      return;
    if (!field)
      continue;
    const axis_value *value =
        &c->axis[i].values[(size_t)(n / c->axis[i].every) % c->axis[i].count];
    int wide = field->kind == BIG_INTEGER || field->kind == NUMBER;
    memcpy((char *)plan + field->offset, value, wide ? sizeof *value : sizeof(int));
  }
}

static void add(lua_State *L, combinations *c, const outcome *o) {
  if (c->count == c->capacity && !resize(L, c, c->capacity ? 2 * c->capacity : 256))
    luaL_error(L, "not enough memory");
  c->list[c->count++] = *o;
}

/* Merges the totals of a part. */
static void add_sum(outcome_sum *to, const outcome_sum *part) {
  const outcome *a = &part->least, *b = &to->least;
  to->evaluated += part->evaluated;
  to->any_fits |= part->any_fits;
  if (a->number && (!b->number || a->memory_bytes < b->memory_bytes ||
                    (a->memory_bytes == b->memory_bytes && a->number < b->number)))
    to->least = *a;
}

/* program:sweep(plan, demands, workspace, combinations, first, last, micro-batches,
 * tokens, devices, memory limit [, orders]): evaluates combinations `first` to `last`,
 * which share all given arguments. If it stops early, returns the number of that
 * combination and the error; no error: demands have no time. Returns nothing at the
 * end. */
int ett_step_lua_sweep(lua_State *L) {
  combinations *list = luaL_checkudata(L, 5, ETT_LUA_COMBINATIONS);
  int64_t first = luaL_checkinteger(L, 6), last = luaL_checkinteger(L, 7);
  luaL_argcheck(L, first >= 1, 6, "must be at least 1");
  ett_step_lua_call c;
  ett_step_lua_get_call(L, &c);
  c.plan.micro_batches = luaL_checkinteger(L, 8);
  outcome o = {.tokens = luaL_checknumber(L, 9), .devices = luaL_checkinteger(L, 10)};
  double limit = luaL_checknumber(L, 11);
  for (int64_t n = first; n <= last; n++) {
    set_fields(list, n - 1, n == first, &c.plan);
    ett_step_lua_give_orders(L, 12, &c.plan);
    ett_step_result r;
    int status =
        ett_step_evaluate(c.program, &c.plan, c.demands, c.workspace, 0, &r, &c.err);
    if (status == 0) {
      o.step_seconds = r.step_seconds;
      o.memory_bytes = r.memory_bytes;
      o.bubble_fraction = r.bubble_fraction;
      o.number = n;
      o.fits = r.fits && r.memory_bytes <= limit;
      add_sum(&list->sum, &(outcome_sum){1, o.fits, o});
      add(L, list, &o);
      continue;
    }
    lua_pushinteger(L, n);
    if (status < 0)
      ett_lua_push_error(L, &c.err);
    return status < 0 ? 2 : 1;
  }
  return 0;
}

static int in_order(const void *left, const void *right) {
  const outcome *a = left, *b = right;
  if (a->fits != b->fits)
    return a->fits ? -1 : 1;
  if (a->key != b->key)
    return a->key < b->key ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static double tokens_per_second(const outcome *o) {
  return o->tokens / o->step_seconds;
}

static double tokens_per_second_per_device(const outcome *o) {
  return tokens_per_second(o) / (double)o->devices;
}

/* combinations:sort(objective [, most]): plans that fit come first; then by objective,
 * then by number. Keeps only the first `most`. */
static int list_sort(lua_State *L) {
  static const char *const objectives[] = {"step_seconds", "memory_bytes",
                                           "tokens_per_second",
                                           "tokens_per_second_per_device", NULL};
  combinations *c = luaL_checkudata(L, 1, ETT_LUA_COMBINATIONS);
  int objective = luaL_checkoption(L, 2, NULL, objectives);
  lua_Integer most = luaL_optinteger(L, 3, (lua_Integer)c->count);
  for (size_t i = 0; i < c->count; i++) {
    outcome *o = &c->list[i];
    o->key = objective == 0   ? o->step_seconds
             : objective == 1 ? o->memory_bytes
             : objective == 2 ? -tokens_per_second(o)
                              : -tokens_per_second_per_device(o);
  }
  if (c->count > 0)
    qsort(c->list, c->count, sizeof *c->list, in_order);
  if (most >= 0 && (size_t)most < c->count)
    c->count = (size_t)most;
  return 0;
}

/* combinations:row(i, table): writes a row's results to the table. Returns the number of
 * its combination, or nil. */
static int list_row(lua_State *L) {
  const combinations *c = luaL_checkudata(L, 1, ETT_LUA_COMBINATIONS);
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  if (i < 1 || (size_t)i > c->count)
    return 0;
  const outcome *o = &c->list[i - 1];
  ett_lua_set_number(L, "step_seconds", o->step_seconds);
  ett_lua_set_number(L, "memory_bytes", o->memory_bytes);
  ett_lua_set_number(L, "bubble_percent", 100 * o->bubble_fraction);
  ett_lua_set_number(L, "tokens_per_second", tokens_per_second(o));
  ett_lua_set_number(L, "tokens_per_second_per_device", tokens_per_second_per_device(o));
  ett_lua_set_integer(L, "devices", o->devices);
  ett_lua_set_boolean(L, "fits", (int)o->fits);
  lua_pushinteger(L, o->number);
  return 1;
}

static int list_count(lua_State *L) {
  const combinations *c = luaL_checkudata(L, 1, ETT_LUA_COMBINATIONS);
  lua_pushinteger(L, (lua_Integer)c->count);
  return 1;
}

/* combinations:sum(): number of plans evaluated; whether any fits; number and bytes of
 * the plan with the least memory, if any. Includes plans that sort() dropped. */
static int list_sum(lua_State *L) {
  const combinations *c = luaL_checkudata(L, 1, ETT_LUA_COMBINATIONS);
  lua_pushinteger(L, c->sum.evaluated);
  lua_pushboolean(L, c->sum.any_fits != 0);
  if (!c->sum.least.number)
    return 2;
  lua_pushinteger(L, c->sum.least.number);
  lua_pushnumber(L, c->sum.least.memory_bytes);
  return 4;
}

/* combinations:take(): returns totals and outcomes as bytes in this machine's format, and
 * empties the list. */
static int list_take(lua_State *L) {
  combinations *c = luaL_checkudata(L, 1, ETT_LUA_COMBINATIONS);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addlstring(&b, (const char *)&c->sum, sizeof c->sum);
  if (c->count > 0)
    luaL_addlstring(&b, (const char *)c->list, c->count * sizeof *c->list);
  luaL_pushresult(&b);
  c->sum = (outcome_sum){0};
  c->count = 0;
  return 1;
}

/* combinations:give(bytes): adds the bytes that another rank got from take(). */
static int list_give(lua_State *L) {
  combinations *c = luaL_checkudata(L, 1, ETT_LUA_COMBINATIONS);
  size_t length;
  const char *bytes = luaL_checklstring(L, 2, &length);
  outcome_sum part;
  luaL_argcheck(L, length >= sizeof part && (length - sizeof part) % sizeof(outcome) == 0,
                2, "must be bytes of take()");
  memcpy(&part, bytes, sizeof part);
  add_sum(&c->sum, &part);
  for (size_t at = sizeof part; at < length; at += sizeof(outcome)) {
    outcome o;
    memcpy(&o, bytes + at, sizeof o);
    add(L, c, &o);
  }
  return 0;
}

static const luaL_Reg methods[] = {
    {"sort", list_sort}, {"row", list_row},   {"count", list_count}, {"sum", list_sum},
    {"take", list_take}, {"give", list_give}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"combinations", combinations_new},
    {NULL, NULL},
};

void ett_step_lua_open_combinations(lua_State *L) {
  ett_lua_type(L, ETT_LUA_COMBINATIONS, methods, close_list);
  luaL_setfuncs(L, functions, 0);
}
