/* Plans of ett.step, and the reader of fields. */
#include <stddef.h>
#include <string.h>

#include "bind/step/step.h"

const char *const ett_step_lua_schedules[] = {"gpipe", "1f1b", "interleaved", "custom",
                                              NULL};
const char *const ett_step_lua_recomputes[] = {"none", "selective", "full", "policy",
                                               NULL};
const char *const ett_step_lua_overlaps[] = {"none", "shared_experts", "batch", NULL};

#define FIELD(name, kind, names) ETT_STEP_LUA_FIELD(ett_step_plan, name, kind, names)

/* The plan fields that C reads. lua/ett/plan/fields.lua declares them and fills
 * defaults. */
static const ett_step_lua_field plan_fields[] = {
    FIELD(schedule, NAME, ett_step_lua_schedules),
    FIELD(recompute, NAME, ett_step_lua_recomputes),
    FIELD(overlap_all_to_all, NAME, ett_step_lua_overlaps),
    FIELD(pp, INTEGER, NULL),
    FIELD(vp, INTEGER, NULL),
    FIELD(tp, INTEGER, NULL),
    FIELD(cp, INTEGER, NULL),
    FIELD(ep, INTEGER, NULL),
    FIELD(etp, INTEGER, NULL),
    FIELD(cp_ulysses, INTEGER, NULL),
    FIELD(dp, INTEGER, NULL),
    FIELD(rank_order, INTEGER, NULL),
    FIELD(prediction, INTEGER, NULL),
    FIELD(zero, INTEGER, NULL),
    FIELD(gradient_bytes, INTEGER, NULL),
    FIELD(message_bytes, INTEGER, NULL),
    FIELD(weight_bytes, INTEGER, NULL),
    FIELD(micro_batches, BIG_INTEGER, NULL),
    FIELD(interleave_group, BIG_INTEGER, NULL),
    FIELD(optimizer_bytes, NUMBER, NULL),
    FIELD(matrix_bytes, NUMBER, NULL),
    FIELD(data_seconds, NUMBER, NULL),
    FIELD(stall_seconds, NUMBER, NULL),
    FIELD(bucket_bytes, NUMBER, NULL),
    FIELD(gradient_all_reduce, BOOLEAN, NULL),
    FIELD(overlap_gradients, BOOLEAN, NULL),
    FIELD(overlap_parameters, BOOLEAN, NULL),
    FIELD(overlap_sends, BOOLEAN, NULL),
    FIELD(serial_sends, BOOLEAN, NULL),
    FIELD(clip_gradients, BOOLEAN, NULL),
    FIELD(post_validation, BOOLEAN, NULL),
    FIELD(shard, BIG_INTEGER, NULL),
    FIELD(prefetch, BIG_INTEGER, NULL),
    FIELD(reshard, BOOLEAN, NULL),
    FIELD(offload_activations, NUMBER, NULL),
    FIELD(offload_gradients, NUMBER, NULL),
    FIELD(offload_optimizer, NUMBER, NULL),
    FIELD(offload_weights, NUMBER, NULL),
};
enum { PLAN_FIELDS = sizeof plan_fields / sizeof *plan_fields };

/* The enumeration value of the name on top of the stack; raises an error with the field's
 * name if it is unknown. */
static int named(lua_State *L, const ett_step_lua_field *field) {
  const char *name = lua_tostring(L, -1);
  for (int i = 0; field->names[i]; i++)
    if (strcmp(field->names[i], name) == 0)
      return i;
  return luaL_error(L, "field '%s': unknown value '%s'", field->name, name);
}

void ett_step_lua_read_field(lua_State *L, const ett_step_lua_field *field, void *to) {
  int is_right = 0;
  lua_Integer integer;
  switch (field->kind) {
  case NUMBER:
    *(double *)to = lua_tonumberx(L, -1, &is_right);
    break;
  case INTEGER:
    integer = lua_tointegerx(L, -1, &is_right);
    is_right = is_right && integer >= INT32_MIN && integer <= INT32_MAX;
    *(int *)to = (int)integer;
    break;
  case BIG_INTEGER:
    *(int64_t *)to = lua_tointegerx(L, -1, &is_right);
    break;
  case BOOLEAN:
    is_right = lua_isboolean(L, -1);
    *(int *)to = lua_toboolean(L, -1);
    break;
  case NAME:
    is_right = lua_type(L, -1) == LUA_TSTRING;
    *(int *)to = is_right ? named(L, field) : 0;
    break;
  }
  if (!is_right)
    luaL_error(L, "internal error: field '%s' is missing or of the wrong kind: %s",
               field->name, luaL_tolstring(L, -1, NULL));
}

void ett_step_lua_read(lua_State *L, int index, const ett_step_lua_field *fields,
                       size_t count, void *to) {
  luaL_checktype(L, index, LUA_TTABLE);
  for (size_t i = 0; i < count; i++) {
    ett_lua_raw_field(L, index, fields[i].name);
    ett_step_lua_read_field(L, &fields[i], (char *)to + fields[i].offset);
    lua_pop(L, 1);
  }
}

void ett_step_lua_push_names(lua_State *L, const ett_step_lua_field *fields,
                             size_t count) {
  luaL_checkstack(L, (int)count + LUA_MINSTACK, NULL);
  for (size_t i = 0; i < count; i++)
    lua_pushstring(L, fields[i].name);
}

void ett_step_lua_read_given(lua_State *L, int index, int names,
                             const ett_step_lua_field *fields, size_t count, void *to) {
  luaL_checktype(L, index, LUA_TTABLE);
  for (size_t i = 0; i < count; i++) {
    lua_pushvalue(L, names + (int)i);
    if (lua_rawget(L, index) != LUA_TNIL)
      ett_step_lua_read_field(L, &fields[i], (char *)to + fields[i].offset);
    lua_pop(L, 1);
  }
}

const ett_step_lua_field *ett_step_lua_plan_field(const char *name) {
  for (size_t i = 0; i < PLAN_FIELDS; i++)
    if (*plan_fields[i].name == *name && strcmp(plan_fields[i].name, name) == 0)
      return &plan_fields[i];
  return NULL;
}

static void get_split(lua_State *L, int index, ett_step_plan *plan) {
  if (ett_lua_raw_field(L, index, "split") == LUA_TNIL)
    return;
  size_t count;
  double *given = ett_lua_field_doubles(L, "split", &count);
  if ((int64_t)count != (int64_t)plan->pp * plan->vp)
    luaL_error(L, "field 'split' must hold pp * vp = %d numbers of layers, got %d",
               plan->pp * plan->vp, (int)count);
  int64_t *split = lua_newuserdatauv(L, (count + 1) * sizeof *split, 0);
  for (size_t i = 0; i < count; i++) {
    if (!(given[i] >= 0 && given[i] < 0x1p62))
      luaL_error(L, "field 'split' must hold numbers of layers, got %f", given[i]);
    split[i] = (int64_t)given[i];
  }
  plan->split = split;
}

/* Reads tiers: a flat list of sizes and cards. Without a list: nodes, and one network
 * over all nodes. */
static void get_tiers(lua_State *L, int index, ett_step_plan *plan) {
  ett_tiers *t = &plan->tiers;
  int64_t node = ett_lua_integer_field(L, index, "gpus_per_node", 1);
  if (ett_lua_raw_field(L, index, "tiers") == LUA_TNIL) {
    *t = (ett_tiers){.count = 2, .size = {node, ETT_TIER_ALL}, .card = {1, 1}};
    return;
  }
  ett_lua_check_table(L, "tiers");
  size_t count = lua_rawlen(L, -1) / 2;
  luaL_argcheck(L, count >= 1 && count <= ETT_TIERS_MOST, index, "has too many tiers");
  t->count = (int)count;
  for (int k = 0; k < t->count; k++) {
    lua_rawgeti(L, -1, 2 * k + 1);
    lua_rawgeti(L, -2, 2 * k + 2);
    t->size[k] = lua_tointeger(L, -2);
    t->card[k] = lua_tointeger(L, -1);
    if (t->size[k] == node)
      t->node = k;
    lua_pop(L, 2);
  }
}

/* Reads the lengths of the axes of the innermost tier's torus; nil: it is none. Groups
 * have no place on more or longer axes. */
static void get_torus(lua_State *L, int index, ett_step_plan *plan) {
  ett_tiers *t = &plan->tiers;
  if (ett_lua_raw_field(L, index, "torus") == LUA_TNIL)
    return;
  ett_lua_check_table(L, "torus");
  size_t count = lua_rawlen(L, -1);
  int fits = count <= ETT_TORUS_MOST;
  for (size_t j = 0; fits && j < count; j++) {
    lua_rawgeti(L, -1, (lua_Integer)j + 1);
    lua_Integer length = lua_tointeger(L, -1);
    luaL_argcheck(L, length >= 1, index, "field 'torus' must hold positive integers");
    t->axis[j] = length;
    fits = length <= ETT_AXIS_MOST;
    lua_pop(L, 1);
  }
  t->axes = fits ? (int)count : 0;
}

/* Reads the rates of tiers: a flat list of five numbers each; nil: they are unknown. */
static void get_rates(lua_State *L, int index, ett_step_plan *plan) {
  ett_tiers *t = &plan->tiers;
  enum { EACH = 5 };
  if (ett_lua_raw_field(L, index, "rates") == LUA_TNIL)
    return;
  size_t count;
  const double *given = ett_lua_field_doubles(L, "rates", &count);
  luaL_argcheck(L, count == EACH * (size_t)t->count, index, "has rates of other tiers");
  for (int k = 0; k < t->count; k++, given += EACH)
    t->rates[k] =
        (struct ett_tier_rates){given[0], given[1], given[2], given[3], given[4] != 0};
}

/* Reads parts of a cluster: a flat list of ends, bytes of memory, bytes/s to the host and
 * bytes/s of its updates. */
static void get_parts(lua_State *L, int index, ett_step_plan *plan) {
  ett_parts *parts = &plan->parts;
  if (ett_lua_raw_field(L, index, "parts") == LUA_TNIL)
    return;
  size_t count;
  double *given = ett_lua_field_doubles(L, "parts", &count);
  luaL_argcheck(L, count % 4 == 0 && count / 4 <= ETT_PARTS_MOST, index,
                "has too many parts");
  parts->count = (int)(count / 4);
  for (int k = 0; k < parts->count; k++) {
    luaL_argcheck(L, given[4 * k] >= 0 && given[4 * k] < 0x1p62, index,
                  "has a part without an end");
    parts->end[k] = (int64_t)given[4 * k];
    parts->memory_bytes[k] = given[4 * k + 1];
    parts->host_bandwidth[k] = given[4 * k + 2];
    parts->host_rate[k] = given[4 * k + 3];
  }
}

static void get_map(lua_State *L, int index, ett_step_plan *plan) {
  if (ett_lua_raw_field(L, index, "rank_map") == LUA_TNIL)
    return;
  const ett_step_lua_map *map = luaL_testudata(L, -1, ETT_LUA_MAP);
  if (!map)
    luaL_error(L, "field 'rank_map' must be a map of ett.step, got %s",
               luaL_typename(L, -1));
  plan->rank_map = map->device;
  plan->rank_map_count = map->count;
}

/* A plan shared by many evaluations. Its first user value is its table, the second a list
 * of the objects that it points into. */
typedef struct kept_plan {
  ett_step_plan plan;
  int stale; /* the table changed after the plan was read */
} kept_plan;

static void read_kept(lua_State *L, int index, ett_step_plan *plan);

void ett_step_lua_plan(lua_State *L, int index, ett_step_plan *plan) {
  if (lua_isuserdata(L, index)) {
    read_kept(L, index, plan);
    return;
  }
  memset(plan, 0, sizeof *plan);
  ett_step_lua_read(L, index, plan_fields, PLAN_FIELDS, plan);
  luaL_argcheck(L, plan->zero <= ETT_ZERO_PARAMETERS, index, "zero must be 0 to 3");
  get_split(L, index, plan);
  get_tiers(L, index, plan);
  get_torus(L, index, plan);
  get_rates(L, index, plan);
  get_parts(L, index, plan);
  plan->host_bandwidth = ett_lua_number_field(L, index, "host_bandwidth", 0);
  plan->host_rate = ett_lua_number_field(L, index, "host_rate", 0);
  get_map(L, index, plan);
  if (plan->schedule == ETT_SCHEDULE_CUSTOM) {
    ett_lua_raw_field(L, index, "orders");
    ett_step_lua_give_orders(L, lua_gettop(L), plan);
  }
}

static void read_kept(lua_State *L, int index, ett_step_plan *plan) {
  kept_plan *kept = luaL_checkudata(L, index, ETT_LUA_PLAN);
  if (kept->stale) {
    lua_getiuservalue(L, index, 1);
    int top = lua_gettop(L);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    ett_step_lua_plan(L, top, &kept->plan);
    lua_newtable(L); /* the plan's table may drop them */
    for (int last = lua_gettop(L), i = top + 1; i < last; i++) {
      lua_pushvalue(L, i);
      lua_rawseti(L, last, i - top);
    }
    lua_setiuservalue(L, index, 2);
    kept->stale = 0;
    lua_settop(L, top - 1);
  }
  *plan = kept->plan;
}

/* kept_plan(plan): a reusable plan from a table. Its method set() changes the plan and
 * the table. */
static int kept_plan_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  kept_plan *kept = lua_newuserdatauv(L, sizeof *kept, 2);
  memset(kept, 0, sizeof *kept);
  kept->stale = 1;
  luaL_setmetatable(L, ETT_LUA_PLAN);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* kept:set(name, value): sets one field, with a value as in a plan table. */
static int kept_plan_set(lua_State *L) {
  kept_plan *kept = luaL_checkudata(L, 1, ETT_LUA_PLAN);
  const char *name = luaL_checkstring(L, 2);
  lua_settop(L, 3);
  lua_getiuservalue(L, 1, 1);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, 4);
  lua_settop(L, 3);
  const ett_step_lua_field *field = kept->stale ? NULL : ett_step_lua_plan_field(name);
  if (field) {
    int custom = kept->plan.schedule == ETT_SCHEDULE_CUSTOM;
    ett_step_lua_read_field(L, field, (char *)&kept->plan + field->offset);
    custom |= kept->plan.schedule == ETT_SCHEDULE_CUSTOM;
    kept->stale = custom || kept->plan.split || kept->plan.rank_map;
  } else {
    kept->stale = 1;
  }
  return 0;
}

/* plan_fields(): the names of the plan fields that C reads. */
static int push_plan_fields(lua_State *L) {
  lua_newtable(L);
  for (size_t i = 0; i < PLAN_FIELDS; i++) {
    lua_pushstring(L, plan_fields[i].name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* map{device, …}: the device of each rank, counted from 0; a permutation. */
static int map_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  size_t count = lua_rawlen(L, 1);
  luaL_argcheck(L, count >= 1 && count <= (size_t)ETT_RANKS_MOST, 1,
                "has no rank, or too many");
  char *seen = lua_newuserdatauv(L, count, 0);
  memset(seen, 0, count);
  ett_step_lua_map *map =
      lua_newuserdatauv(L, sizeof *map + count * sizeof *map->device, 0);
  map->count = (int64_t)count;
  luaL_setmetatable(L, ETT_LUA_MAP);
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    int is_integer;
    lua_Integer device = lua_tointegerx(L, -1, &is_integer);
    ett_err err;
    if (!is_integer || device < 0 || device >= (lua_Integer)count)
      ett_err_set(&err, ETT_ERR_ARGUMENT,
                  "field 'rank_map[%zu]' must be a device from 0 to %zu, got %s", i + 1,
                  count - 1, luaL_tolstring(L, -1, NULL));
    else if (seen[device])
      ett_err_set(&err, ETT_ERR_ARGUMENT,
                  "field 'rank_map' puts two ranks on device %lld; one is rank %zu",
                  (long long)device, i);
    else {
      seen[device] = 1;
      map->device[i] = (int32_t)device;
      lua_pop(L, 1);
      continue;
    }
    return ett_lua_raise(L, &err);
  }
  return 1;
}

/* Placement of the messages between neighbouring stages: that of the most distant
 * pair. */
static int place_stages(const ett_ranks *ranks, ett_axis axis, ett_placement *found,
                        ett_err *err) {
  int level = 0;
  for (int64_t s = 0; s + 1 < axis.degree; s++) {
    int own = ett_place_level(ranks, axis, s, s + 1);
    level = own > level ? own : level;
  }
  return ett_place_pairs(ranks, axis, level, found, err);
}

/* Reads the degrees and the order of the ranks from a table. */
static ett_degrees get_degrees(lua_State *L, ett_step_plan *plan) {
  const ett_step_lua_field fields[] = {
      FIELD(pp, INTEGER, NULL),        FIELD(tp, INTEGER, NULL),
      FIELD(cp, INTEGER, NULL),        FIELD(ep, INTEGER, NULL),
      FIELD(etp, INTEGER, NULL),       FIELD(dp, INTEGER, NULL),
      FIELD(rank_order, INTEGER, NULL)};
  luaL_checktype(L, 1, LUA_TTABLE);
  ett_step_lua_read(L, 1, fields, sizeof fields / sizeof *fields, plan);
  plan->cp_ulysses = (int)ett_lua_range_field(L, 1, "cp_ulysses", 1, 0, 1 << 20);
  return ett_step_degrees(plan);
}

/* Reads degrees, tiers, parts and map from a table; enough for placement. */
static void get_places(lua_State *L, ett_step_plan *plan) {
  ett_err err;
  get_degrees(L, plan);
  get_tiers(L, 1, plan);
  get_torus(L, 1, plan);
  get_rates(L, 1, plan);
  get_parts(L, 1, plan);
  get_map(L, 1, plan);
  ett_degrees degrees = ett_step_degrees(plan);
  if (ett_degrees_check(&degrees, &err) != 0 || ett_tiers_check(&plan->tiers, &err) != 0)
    ett_lua_raise(L, &err);
  luaL_argcheck(L, !plan->rank_map || plan->rank_map_count == ett_degrees_world(&degrees),
                1, "field 'rank_map' must place all ranks");
}

/* parts(plan): for each stage, the parts of the cluster with its devices, as bits; or nil
 * and a message. */
static int parts(lua_State *L) {
  ett_step_plan plan = {0};
  ett_err err;
  get_places(L, &plan);
  luaL_argcheck(L, plan.pp <= ETT_PIPELINE_MAX_STAGES, 1, "has too many stages");
  ett_degrees degrees = ett_step_degrees(&plan);
  luaL_argcheck(L, ett_degrees_world(&degrees) <= ETT_RANKS_MOST, 1,
                "has too many ranks");
  int32_t *found = lua_newuserdatauv(L, (size_t)plan.pp * sizeof *found, 0);
  if (ett_step_parts(&plan, found, &err) != 0) {
    lua_pushnil(L);
    lua_pushstring(L, err.message);
    return 2;
  }
  lua_createtable(L, plan.pp, 0);
  for (int s = 0; s < plan.pp; s++) {
    lua_pushinteger(L, found[s]);
    lua_rawseti(L, -2, s + 1);
  }
  return 1;
}

/* Sets `lanes` of a placement: { outermost =, ring =, send =, exchange = }, lists of
 * shares. */
static void set_lanes(lua_State *L, const ett_tiers *tiers, const ett_placement *place) {
  static const char *const names[ETT_LANE_USES] = {"ring", "send", "exchange"};
  lua_createtable(L, 0, ETT_LANE_USES + 1);
  for (int use = 0; use < ETT_LANE_USES; use++) {
    double lanes[ETT_LANES];
    int outermost = ett_place_lanes(tiers, place, (ett_lane_use)use, lanes);
    ett_lua_set_integer(L, "outermost", outermost + 1);
    ett_lua_set_doubles(L, names[use], lanes, (size_t)tiers->count);
  }
  lua_setfield(L, -2, "lanes");
}

/* place(plan, group): { ranks=, nodes=, gpus_per_node=, tiers = { { units=, members=,
 * most=, groups=, cards=, sharing=, inside=, branches= [, along=, apart=, placed=]
 * [, slice=] }, … } } of a group named as in ett_group_kind_of, or of the sends between
 * stages, "pp". */
static int place(lua_State *L) {
  ett_step_plan plan = {0};
  get_places(L, &plan);
  const char *name = luaL_checkstring(L, 2);
  int kind = ett_group_kind_of(name), sends = strcmp(name, "pp") == 0;
  luaL_argcheck(L, kind >= 0 || sends, 2, "must be the name of a group");
  ett_degrees degrees = ett_step_degrees(&plan);
  ett_ranks ranks = ett_step_ranks(&plan);
  ett_placement found;
  ett_err err;
  int status =
      sends ? place_stages(&ranks, ett_degrees_pipeline(&degrees), &found, &err)
            : ett_place_group(&ranks, ett_degrees_group(&degrees, (ett_group_kind)kind),
                              &found, &err);
  if (status != 0)
    return ett_lua_raise(L, &err);
  lua_createtable(L, 0, 5);
  ett_step_lua_set_place(L, &found);
  if (ett_tiers_lanes(&plan.tiers) > 2)
    set_lanes(L, &plan.tiers, &found);
  return 1;
}

/* axes(plan, group): degree and stride of the inner and of the outer axis of a group
 * named as in ett_group_kind_of, or of the pipeline, "pp". */
static int axes(lua_State *L) {
  ett_step_plan plan = {0};
  ett_degrees degrees = get_degrees(L, &plan);
  const char *name = luaL_checkstring(L, 2);
  int kind = ett_group_kind_of(name), pipeline = strcmp(name, "pp") == 0;
  luaL_argcheck(L, kind >= 0 || pipeline, 2, "must be the name of a group");
  ett_err err;
  if (ett_degrees_check(&degrees, &err) != 0)
    return ett_lua_raise(L, &err);
  ett_rank_group group = pipeline ? ett_rank_group_of(ett_degrees_pipeline(&degrees))
                                  : ett_degrees_group(&degrees, (ett_group_kind)kind);
  for (int i = 0; i < 2; i++) {
    lua_pushinteger(L, group.axis[i].degree);
    lua_pushinteger(L, group.axis[i].stride);
  }
  return 4;
}

static const luaL_Reg kept_plan_methods[] = {
    {"set", kept_plan_set},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"plan_fields", push_plan_fields},
    {"kept_plan", kept_plan_new},
    {"map", map_new},
    {"place", place},
    {"axes", axes},
    {"parts", parts},
    {NULL, NULL},
};

void ett_step_lua_open_plans(lua_State *L) {
  ett_lua_type(L, ETT_LUA_MAP, NULL, NULL);
  ett_lua_type(L, ETT_LUA_PLAN, kept_plan_methods, NULL);
  luaL_setfuncs(L, functions, 0);
}
