/* Plans and orders of ett.schedule: what a schedule is told. */
#include <math.h>
#include <string.h>

#include "bind/step/step.h"

const char *const ett_schedule_names[] = {"gpipe", "1f1b", "interleaved", "custom", NULL};
static const char *const recompute_names[] = {"none", "selective", "full", NULL};
static const char *const overlap_names[] = {"none", "shared_experts", "batch", NULL};

/* Raises what is wrong with the unit at `at`, whose first three entries follow it. */
static void refuse_unit(lua_State *L, int at, size_t stage, size_t index) {
  const char *got = luaL_tolstring(L, at, NULL);
  if (lua_istable(L, at)) {
    const char *kind = luaL_tolstring(L, at + 1, NULL);
    const char *micro_batch = luaL_tolstring(L, at + 2, NULL);
    got = lua_pushfstring(L, "{%s, %s, %s}", kind, micro_batch,
                          luaL_tolstring(L, at + 3, NULL));
  }
  ett_err err;
  ett_err_set(&err, ETT_ERR_ARGUMENT,
              "stage %zu: unit %zu must be {\"F\", \"B\" or \"W\", micro-batch from 1, "
              "chunk from 1} and nothing else, got %s",
              stage, index, got);
  ett_lua_raise(L, &err);
}

static const char kinds[] = "FBW"; /* by ett_unit_kind */

static lua_Integer get_count(lua_State *L, int at, lua_Integer most) {
  lua_Integer value = lua_type(L, at) == LUA_TNUMBER ? lua_tointeger(L, at) : 0;
  return value <= most ? value : 0;
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
  const char *kind = lua_type(L, at + 1) == LUA_TSTRING ? lua_tostring(L, at + 1) : "";
  const char *known = strlen(kind) == 1 ? strchr(kinds, *kind) : NULL;
  lua_Integer micro_batch = get_count(L, at + 2, UINT32_MAX);
  lua_Integer chunk =
      lua_isnil(L, at + 3) ? 1 : get_count(L, at + 3, ETT_PIPELINE_MAX_CHUNKS);
  if (is_table)
    for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1))
      entries--;
  if (!known || micro_batch < 1 || chunk < 1 || entries != 0)
    refuse_unit(L, at, stage, index);
  lua_settop(L, at - 1);
  return (ett_unit){(uint8_t)(known - kinds), (uint16_t)(chunk - 1),
                    (uint32_t)(micro_batch - 1)};
}

/* orders{ {{"F", micro_batch, chunk}, …}, … }: the units of every stage, in order. */
static int orders_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  size_t stages = lua_rawlen(L, 1), count = 0;
  luaL_argcheck(L, stages >= 1 && stages <= ETT_PIPELINE_MAX_STAGES, 1,
                "must hold 1 to 4096 stages");
  for (size_t s = 0; s < stages; s++) {
    lua_rawgeti(L, 1, (lua_Integer)s + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    count += lua_rawlen(L, -1);
    lua_pop(L, 1);
  }
  luaL_argcheck(L, count <= 3 * (size_t)ETT_PIPELINE_MAX_UNITS, 1,
                "holds too many units");
  ett_schedule_orders_box *box = lua_newuserdatauv(
      L, sizeof *box + (stages + 1) * sizeof(size_t) + count * sizeof(ett_unit), 0);
  box->stages = (int)stages;
  box->has_weight = 0;
  box->first_unit = (size_t *)(box + 1);
  box->units = (ett_unit *)(box->first_unit + stages + 1);
  luaL_setmetatable(L, ETT_LUA_ORDERS);
  size_t n = 0;
  for (size_t s = 0; s < stages; s++) {
    lua_rawgeti(L, 1, (lua_Integer)s + 1);
    size_t length = lua_rawlen(L, -1);
    box->first_unit[s] = n;
    for (size_t k = 0; k < length; k++) {
      lua_rawgeti(L, -1, (lua_Integer)k + 1);
      ett_unit unit = get_unit(L, s + 1, k + 1);
      box->has_weight |= unit.kind == ETT_UNIT_WEIGHT;
      box->units[n++] = unit;
    }
    lua_pop(L, 1);
  }
  box->first_unit[stages] = n;
  return 1;
}

int ett_schedule_integer(lua_State *L, int index, const char *name, int fallback) {
  lua_Integer value = ett_lua_integer_field(L, index, name, fallback);
  if (value < INT32_MIN || value > INT32_MAX)
    luaL_error(L, "field '%s' must fit 32 bits, got %I", name, (LUAI_UACINT)value);
  return (int)value;
}

void ett_schedule_plan(lua_State *L, int index, ett_step_plan *plan) {
  luaL_checktype(L, index, LUA_TTABLE);
  memset(plan, 0, sizeof *plan);
  plan->schedule = (ett_schedule_kind)ett_schedule_name(
      L, "schedule", ett_lua_string_field(L, index, "schedule", "1f1b"),
      ett_schedule_names);
  plan->recompute = (ett_recompute)ett_schedule_name(
      L, "recompute", ett_lua_string_field(L, index, "recompute", "none"),
      recompute_names);
  plan->overlap_all_to_all = (ett_exchange_overlap)ett_schedule_name(
      L, "overlap_all_to_all",
      ett_lua_string_field(L, index, "overlap_all_to_all", "none"), overlap_names);
  plan->pp = ett_schedule_integer(L, index, "pp", 1);
  plan->chunks = ett_schedule_integer(L, index, "vp", 1);
  plan->tp = ett_schedule_integer(L, index, "tp", 1);
  plan->cp = ett_schedule_integer(L, index, "cp", 1);
  plan->ep = ett_schedule_integer(L, index, "ep", 1);
  plan->etp = ett_schedule_integer(L, index, "etp", plan->tp);
  plan->dp = ett_schedule_integer(L, index, "dp", 1);
  plan->gpus_per_node = ett_schedule_integer(L, index, "gpus_per_node", 1);
  plan->micro_batches = ett_lua_integer_field(L, index, "micro_batches", 1);
  plan->zero = (ett_zero)ett_schedule_integer(L, index, "zero", 0);
  plan->gradient_all_reduce = ett_lua_boolean_field(L, index, "gradient_all_reduce", 0);
  plan->overlap_gradients = ett_lua_boolean_field(L, index, "overlap_gradients", 0);
  plan->overlap_parameters = ett_lua_boolean_field(L, index, "overlap_parameters", 0);
  plan->overlap_sends = ett_lua_boolean_field(L, index, "overlap_sends", 0);
  plan->serial_sends = ett_lua_boolean_field(L, index, "serial_sends", 0);
  plan->wait_before_update = ett_lua_boolean_field(L, index, "clip_gradients", 1);
  plan->gradient_bytes = ett_schedule_integer(L, index, "gradient_bytes", 4);
  plan->weight_bytes = ett_schedule_integer(L, index, "weight_bytes", 2);
  plan->optimizer_bytes = ett_lua_number_field(L, index, "optimizer_bytes", 12);
  plan->bucket_bytes = ett_lua_number_field(L, index, "bucket_bytes", INFINITY);
  luaL_argcheck(L, plan->zero <= ETT_ZERO_PARAMETERS, index, "zero must be 0 to 3");
  if (lua_getfield(L, index, "split") != LUA_TNIL) {
    size_t count;
    double *given = ett_lua_doubles(L, -1, &count);
    if ((int64_t)count != (int64_t)plan->pp * plan->chunks)
      luaL_error(L, "field 'split' must hold pp * vp = %d numbers of layers, got %d",
                 plan->pp * plan->chunks, (int)count);
    int64_t *split = lua_newuserdatauv(L, (count + 1) * sizeof *split, 0);
    for (size_t i = 0; i < count; i++)
      split[i] = (int64_t)given[i];
    plan->split = split;
  }
  if (plan->schedule == ETT_SCHEDULE_CUSTOM) {
    lua_getfield(L, index, "orders");
    const ett_schedule_orders_box *orders = luaL_checkudata(L, -1, ETT_LUA_ORDERS);
    if (orders->stages != plan->pp)
      luaL_error(L, "the orders hold %d stages, the plan %d", orders->stages, plan->pp);
    plan->units = orders->units;
    plan->first_unit = orders->first_unit;
    plan->split_backward = orders->has_weight;
  }
}

static const luaL_Reg orders_methods[] = {
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"orders", orders_new},
    {NULL, NULL},
};

void ett_schedule_open_plans(lua_State *L) {
  ett_schedule_make_type(L, ETT_LUA_ORDERS, orders_methods, NULL);
  luaL_setfuncs(L, functions, 0);
}
