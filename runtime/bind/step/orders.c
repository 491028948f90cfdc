/* Orders of ett.step: the units of a schedule file and their slots. */
#include <string.h>

#include "bind/step/step.h"

/* Followed by its arrays in the same userdata. */
typedef struct {
  ett_orders orders;
  size_t *first_unit;
  ett_unit *units;
  double *runs, *whole;
  int32_t *slice, *next, *prev;
  int64_t *most;
} orders_box;

static const char *const kind_names[] = {"F", "B", "W", "BW", NULL};

static const char *shown(lua_State *L, int at) {
  const char *text = luaL_tolstring(L, at, NULL);
  return lua_type(L, at) == LUA_TSTRING ? lua_pushfstring(L, "\"%s\"", text) : text;
}

/* Raises the error of the unit at `at`; its first three entries follow it on the
 * stack. */
static void refuse_unit(lua_State *L, int at, size_t stage, size_t index) {
  const char *got = shown(L, at);
  if (lua_istable(L, at)) {
    const char *kind = shown(L, at + 1), *micro_batch = shown(L, at + 2);
    got = lua_pushfstring(L, "{%s, %s, %s}", kind, micro_batch, shown(L, at + 3));
  }
  ett_err err;
  ett_err_set(&err, ETT_ERR_ARGUMENT,
              "stage %zu: unit %zu must be {\"F\", \"B\", \"W\" or \"BW\", micro-batch "
              "from 1, chunk from 1} and nothing else, got %s",
              stage, index, got);
  ett_lua_raise(L, &err);
}

static lua_Integer get_count(lua_State *L, int at, lua_Integer most) {
  lua_Integer value = lua_type(L, at) == LUA_TNUMBER ? lua_tointeger(L, at) : 0;
  return value <= most ? value : 0;
}

/* Whether the table at `at` has more entries than the `count` that were read. */
static int has_more(lua_State *L, int at, int count) {
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1))
    count--;
  return count != 0;
}

/* Reads and pops the unit on top of the stack. */
static ett_unit get_unit(lua_State *L, size_t stage, size_t index) {
  int at = lua_gettop(L), is_table = lua_istable(L, at), entries = 0;
  for (int i = 1; i <= 3; i++) {
    lua_pushnil(L);
    if (is_table && lua_rawgeti(L, at, i) != LUA_TNIL)
      entries++;
    if (is_table)
      lua_remove(L, -2);
  }
  const char *name = lua_type(L, at + 1) == LUA_TSTRING ? lua_tostring(L, at + 1) : "";
  int kind = 0;
  while (kind_names[kind] && strcmp(kind_names[kind], name) != 0)
    kind++;
  lua_Integer micro_batch = get_count(L, at + 2, UINT32_MAX);
  lua_Integer chunk =
      lua_isnil(L, at + 3) ? 1 : get_count(L, at + 3, ETT_PIPELINE_MAX_CHUNKS);
  if (!kind_names[kind] || micro_batch < 1 || chunk < 1 || has_more(L, at, entries))
    refuse_unit(L, at, stage, index);
  lua_settop(L, at - 1);
  return (ett_unit){(uint8_t)kind, 0, (uint16_t)(chunk - 1), (uint32_t)(micro_batch - 1)};
}

/* Whether the value on top is a list of two units. */
static int is_pair(lua_State *L) {
  if (!lua_istable(L, -1))
    return 0;
  int pair = lua_rawgeti(L, -1, 1) == LUA_TTABLE;
  lua_pop(L, 1);
  return pair;
}

/* Reads and pops the pair on top of the stack. */
static void get_pair(lua_State *L, ett_unit *units, int has_weight, size_t stage,
                     size_t index) {
  int at = lua_gettop(L);
  int two = lua_rawlen(L, at) == 2 && !has_more(L, at, 2);
  for (int i = 0; i < 2 && two; i++) {
    lua_rawgeti(L, at, i + 1);
    units[i] = get_unit(L, stage, index);
  }
  if (!two || units[0].kind != ETT_UNIT_FORWARD ||
      units[1].kind != (has_weight ? ETT_UNIT_WHOLE : ETT_UNIT_BACKWARD)) {
    ett_err err;
    ett_err_set(&err, ETT_ERR_ARGUMENT,
                "stage %zu: unit %zu is a pair: it must hold an \"F\" and then a \"%s\"",
                stage, index, has_weight ? "BW" : "B");
    ett_lua_raise(L, &err);
  }
  units[0].paired = 1;
  lua_settop(L, at - 1);
}

/* Counts the units of all stages, and those of weights. */
static size_t count_units(lua_State *L, size_t stages, int *has_weight) {
  size_t count = 0;
  for (size_t s = 0; s < stages; s++) {
    lua_rawgeti(L, 1, (lua_Integer)s + 1);
    if (!lua_istable(L, -1))
      luaL_error(L, "the units of stage %d must be a table, got %s", (int)s + 1,
                 luaL_typename(L, -1));
    size_t length = lua_rawlen(L, -1);
    count += length;
    for (size_t k = 0; k < length; k++) {
      lua_rawgeti(L, -1, (lua_Integer)k + 1);
      if (is_pair(L)) {
        count++;
      } else if (lua_istable(L, -1)) {
        lua_rawgeti(L, -1, 1);
        *has_weight |= lua_isstring(L, -1) && strcmp(lua_tostring(L, -1), "W") == 0;
        lua_pop(L, 1);
      }
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  return count;
}

static int get_integer(lua_State *L, const char *name) {
  if (ett_lua_raw_field(L, 2, name) != LUA_TNUMBER)
    luaL_error(L, "internal error: field '%s' is missing", name);
  int value = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

static orders_box *new_box(lua_State *L, size_t stages, size_t count) {
  int chunks = get_integer(L, "chunks"), ways = get_integer(L, "ways");
  luaL_argcheck(L,
                ways >= 1 && chunks >= 1 && chunks <= ETT_PIPELINE_MAX_CHUNKS &&
                    chunks % ways == 0,
                2, "must hold the same number of chunks for each way");
  size_t slots = stages * (size_t)chunks;
  size_t bytes = (stages + 1) * sizeof(size_t) + count * sizeof(ett_unit) +
                 slots * (2 * sizeof(double) + 3 * sizeof(int32_t)) +
                 stages * sizeof(int64_t);
  orders_box *box = lua_newuserdatauv(L, sizeof *box + bytes, 0);
  memset(box, 0, sizeof *box + bytes);
  box->first_unit = (size_t *)(box + 1);
  box->most = (int64_t *)(box->first_unit + stages + 1);
  box->runs = (double *)(box->most + stages);
  box->whole = box->runs + slots;
  box->units = (ett_unit *)(box->whole + slots);
  box->slice = (int32_t *)(box->units + count);
  box->next = box->slice + slots;
  box->prev = box->next + slots;
  box->orders = (ett_orders){.stages = (int)stages,
                             .chunks = chunks,
                             .ways = ways,
                             .slice = box->slice,
                             .next = box->next,
                             .prev = box->prev,
                             .units = box->units,
                             .first_unit = box->first_unit,
                             .runs = box->runs,
                             .whole = box->whole};
  luaL_setmetatable(L, ETT_LUA_ORDERS);
  return box;
}

/* The slices of all slots and the declared activations. */
static void get_placement(lua_State *L, orders_box *box) {
  ett_orders *o = &box->orders;
  int slots = o->stages * o->chunks;
  luaL_checktype(L, 2, LUA_TTABLE);
  ett_lua_raw_field(L, 2, "slice");
  ett_lua_check_table(L, "slice");
  for (int v = 0; v < slots; v++) {
    lua_rawgeti(L, -1, v + 1);
    const lua_Integer slice = ett_lua_integer_item(L, "slice", v + 1);
    box->slice[v] = slice >= 1 && slice <= INT32_MAX ? (int32_t)slice - 1 : -1;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  ett_err err;
  if (ett_orders_link(box->slice, o->stages, o->chunks, o->ways, box->next, box->prev,
                      &err) != 0)
    ett_lua_raise(L, &err);
  if (ett_lua_raw_field(L, 2, "most") != LUA_TNIL) {
    ett_lua_check_table(L, "most");
    for (int rank = 0; rank < o->stages; rank++) {
      lua_rawgeti(L, -1, rank + 1);
      box->most[rank] = ett_lua_integer_item(L, "most", rank + 1);
      lua_pop(L, 1);
    }
    o->most = box->most;
  }
  lua_pop(L, 1);
}

/* orders({{{"F", micro_batch, chunk}, …}, …}, {chunks=, ways=, slice=, most=, planned=}):
 * the units of every stage, in order; chunks of a stage over all ways; the slice of each
 * slot (chunk after chunk, within a chunk stage after stage); the maximum of forwards
 * held by each stage. planned: the number of micro-batches, whose units the core orders;
 * the lists are empty. */
static int orders_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  size_t stages = lua_rawlen(L, 1);
  int has_weight = 0;
  luaL_argcheck(L, stages >= 1 && stages <= ETT_PIPELINE_MAX_STAGES, 1,
                "must hold 1 to 4096 stages");
  size_t count = count_units(L, stages, &has_weight);
  luaL_argcheck(L, count <= 3 * (size_t)ETT_PIPELINE_MAX_UNITS, 1,
                "holds too many units");
  orders_box *box = new_box(L, stages, count);
  ett_orders *o = &box->orders;
  o->has_weight = has_weight;
  get_placement(L, box);
  size_t n = 0;
  for (size_t s = 0; s < stages; s++) {
    lua_rawgeti(L, 1, (lua_Integer)s + 1);
    size_t length = lua_rawlen(L, -1);
    box->first_unit[s] = n;
    for (size_t k = 0; k < length; k++) {
      lua_rawgeti(L, -1, (lua_Integer)k + 1);
      const int pair = is_pair(L);
      if (n + 1 + (size_t)pair > count) /* a finaliser did it */
        return luaL_error(L, "the units changed while they were read");
      if (pair) {
        get_pair(L, &box->units[n], has_weight, s + 1, k + 1);
        o->has_pairs = 1;
        n += 2;
      } else {
        box->units[n++] = get_unit(L, s + 1, k + 1);
      }
    }
    lua_pop(L, 1);
    for (size_t k = box->first_unit[s]; k < n; k++) {
      ett_unit u = box->units[k];
      if (u.chunk < o->chunks && (u.kind == ETT_UNIT_FORWARD || u.kind == ETT_UNIT_WHOLE))
        (u.kind == ETT_UNIT_WHOLE ? box->whole : box->runs)[u.chunk * stages + s]++;
    }
  }
  box->first_unit[stages] = n;
  if (ett_lua_raw_field(L, 2, "planned") != LUA_TNIL) {
    o->planned = o->has_weight = 1;
    for (size_t v = 0; v < stages * (size_t)o->chunks; v++)
      box->runs[v] = (double)lua_tointeger(L, -1);
  }
  lua_pop(L, 1);
  o->identity = ett_orders_identity(o);
  return 1;
}

/* The orders at an index: those of a plan or pipeline. */
static const ett_orders *orders_at(lua_State *L, int index) {
  const orders_box *box = luaL_testudata(L, index, ETT_LUA_ORDERS);
  if (!box)
    luaL_error(L, "schedule 'custom' needs 'orders' of ett.step, got %s",
               luaL_typename(L, index));
  return &box->orders;
}

const ett_orders *ett_step_lua_orders_of(lua_State *L, int index) {
  ett_lua_raw_field(L, index, "orders");
  return orders_at(L, -1);
}

void ett_step_lua_give_orders(lua_State *L, int index, ett_step_plan *plan) {
  plan->orders = NULL;
  if (plan->schedule != ETT_SCHEDULE_CUSTOM && lua_isnoneornil(L, index))
    return;
  plan->orders = orders_at(L, index);
  plan->schedule = ETT_SCHEDULE_CUSTOM;
  if (plan->orders->chunks != plan->vp * plan->orders->ways)
    luaL_error(L, "the orders hold %d chunks a stage, the plan %d", plan->orders->chunks,
               plan->vp * plan->orders->ways);
}

/* orders:properties(): whether the orders have pairs, and whether they have weight
 * units. */
static int orders_properties(lua_State *L) {
  const orders_box *box = luaL_checkudata(L, 1, ETT_LUA_ORDERS);
  lua_pushboolean(L, box->orders.has_pairs);
  lua_pushboolean(L, box->orders.has_weight);
  return 2;
}

static const luaL_Reg orders_methods[] = {
    {"properties", orders_properties},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"orders", orders_new},
    {NULL, NULL},
};

void ett_step_lua_open_orders(lua_State *L) {
  ett_lua_type(L, ETT_LUA_ORDERS, orders_methods, NULL);
  luaL_setfuncs(L, functions, 0);
}
