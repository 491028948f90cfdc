/* Plans of ett.step, and the reader of fields. */
#include <stddef.h>
#include <string.h>

#include "bind/step/step.h"

const char *const ett_step_lua_schedules[] = {"gpipe", "1f1b", "interleaved", "custom",
                                              NULL};
static const char *const recompute_names[] = {"none", "selective", "full", "half", NULL};
static const char *const overlap_names[] = {"none", "shared_experts", "batch", NULL};

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
    FIELD(interleave_group, BIG_INTEGER, NULL),
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
    plan->orders = ett_step_lua_orders_of(L, index);
    if (plan->orders->chunks != plan->vp * plan->orders->ways)
      luaL_error(L, "the orders hold %d chunks a stage, the plan %d",
                 plan->orders->chunks, plan->vp * plan->orders->ways);
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

static const luaL_Reg functions[] = {
    {"plan_fields", push_plan_fields},
    {NULL, NULL},
};

void ett_step_lua_open_plans(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
