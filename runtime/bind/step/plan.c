/* Plans and orders of ett.step: the reader of fields, plans, units of schedule files. */
#include <stddef.h>
#include <string.h>

#include "bind/step/step.h"

const char *const ett_step_lua_schedules[] = {"gpipe", "1f1b", "interleaved", "custom",
                                              NULL};
static const char *const recompute_names[] = {"none", "selective", "full", "half", NULL};
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
  ett_step_lua_orders *box = lua_newuserdatauv(
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

#define FIELD(name, kind, names) ETT_STEP_LUA_FIELD(ett_step_plan, name, kind, names)

/* The fields that C reads of a plan; lua/ett/plan/fields.lua declares them and fills in
 * defaults. */
static const ett_step_lua_field plan_fields[] = {
    FIELD(schedule, NAME, ett_step_lua_schedules),
    FIELD(recompute, NAME, recompute_names),
    FIELD(overlap_all_to_all, NAME, overlap_names),
    FIELD(pp, INTEGER, NULL),
    FIELD(vp, INTEGER, NULL),
    FIELD(tp, INTEGER, NULL),
    FIELD(cp, INTEGER, NULL),
    FIELD(ep, INTEGER, NULL),
    FIELD(etp, INTEGER, NULL),
    FIELD(dp, INTEGER, NULL),
    FIELD(gpus_per_node, INTEGER, NULL),
    FIELD(zero, INTEGER, NULL),
    FIELD(gradient_bytes, INTEGER, NULL),
    FIELD(weight_bytes, INTEGER, NULL),
    FIELD(micro_batches, BIG_INTEGER, NULL),
    FIELD(optimizer_bytes, NUMBER, NULL),
    FIELD(bucket_bytes, NUMBER, NULL),
    FIELD(gradient_all_reduce, BOOLEAN, NULL),
    FIELD(overlap_gradients, BOOLEAN, NULL),
    FIELD(overlap_parameters, BOOLEAN, NULL),
    FIELD(overlap_sends, BOOLEAN, NULL),
    FIELD(serial_sends, BOOLEAN, NULL),
    FIELD(clip_gradients, BOOLEAN, NULL),
};
enum { PLAN_FIELDS = sizeof plan_fields / sizeof *plan_fields };

/* The value of the name on top of the stack; raises with the field when there is none. */
static int named(lua_State *L, const ett_step_lua_field *field) {
  const char *name = luaL_tolstring(L, -1, NULL);
  lua_pop(L, 1);
  for (int i = 0; field->names[i]; i++)
    if (strcmp(field->names[i], name) == 0)
      return i;
  return luaL_error(L, "field '%s': unknown value '%s'", field->name, name);
}

/* Reads the field on top of the stack. */
static void read_field(lua_State *L, const ett_step_lua_field *field, void *to) {
  int is_right = lua_isboolean(L, -1), value = lua_toboolean(L, -1);
  lua_Integer integer = lua_tointegerx(L, -1, field->kind == BOOLEAN ? NULL : &is_right);
  if (field->kind == INTEGER && (integer < INT32_MIN || integer > INT32_MAX))
    is_right = 0;
  if (field->kind == INTEGER)
    value = (int)integer;
  if (field->kind == NAME) {
    is_right = lua_type(L, -1) == LUA_TSTRING;
    value = is_right ? named(L, field) : 0;
  }
  if (field->kind == BIG_INTEGER)
    *(int64_t *)to = integer;
  else if (field->kind == NUMBER)
    *(double *)to = lua_tonumberx(L, -1, &is_right);
  else
    memcpy(to, &value, sizeof value);
  if (!is_right)
    luaL_error(L, "internal error: field '%s' is missing or of the wrong kind: %s",
               field->name, luaL_tolstring(L, -1, NULL));
}

void ett_step_lua_read(lua_State *L, int index, const ett_step_lua_field *fields,
                       size_t count, void *to) {
  luaL_checktype(L, index, LUA_TTABLE);
  for (size_t i = 0; i < count; i++) {
    lua_getfield(L, index, fields[i].name);
    read_field(L, &fields[i], (char *)to + fields[i].offset);
    lua_pop(L, 1);
  }
}

const ett_step_lua_orders *ett_step_lua_orders_of(lua_State *L, int index, int stages) {
  lua_getfield(L, index, "orders");
  const ett_step_lua_orders *orders = luaL_checkudata(L, -1, ETT_LUA_ORDERS);
  if (orders->stages != stages)
    luaL_error(L, "the orders hold %d stages, the plan %d", orders->stages, stages);
  return orders;
}

static void get_split(lua_State *L, int index, ett_step_plan *plan) {
  if (lua_getfield(L, index, "split") == LUA_TNIL)
    return;
  size_t count;
  double *given = ett_lua_doubles(L, -1, &count);
  if ((int64_t)count != (int64_t)plan->pp * plan->vp)
    luaL_error(L, "field 'split' must hold pp * vp = %d numbers of layers, got %d",
               plan->pp * plan->vp, (int)count);
  int64_t *split = lua_newuserdatauv(L, (count + 1) * sizeof *split, 0);
  for (size_t i = 0; i < count; i++)
    split[i] = (int64_t)given[i];
  plan->split = split;
}

void ett_step_lua_plan(lua_State *L, int index, ett_step_plan *plan) {
  memset(plan, 0, sizeof *plan);
  ett_step_lua_read(L, index, plan_fields, PLAN_FIELDS, plan);
  luaL_argcheck(L, plan->zero <= ETT_ZERO_PARAMETERS, index, "zero must be 0 to 3");
  get_split(L, index, plan);
  if (plan->schedule == ETT_SCHEDULE_CUSTOM) {
    const ett_step_lua_orders *orders = ett_step_lua_orders_of(L, index, plan->pp);
    plan->units = orders->units;
    plan->first_unit = orders->first_unit;
    plan->split_backward = orders->has_weight;
  }
}

/* plan_fields(): the names of what C reads of a plan. */
static int push_plan_fields(lua_State *L) {
  lua_newtable(L);
  for (size_t i = 0; i < PLAN_FIELDS; i++) {
    lua_pushstring(L, plan_fields[i].name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static const luaL_Reg orders_methods[] = {
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"orders", orders_new},
    {"plan_fields", push_plan_fields},
    {NULL, NULL},
};

void ett_step_lua_open_plans(lua_State *L) {
  ett_lua_type(L, ETT_LUA_ORDERS, orders_methods, NULL);
  luaL_setfuncs(L, functions, 0);
}
