/* Demands and workspaces of ett.step. */
#include "bind/step/step.h"

static const char *const demand_names[] = {"send_recv",  "all_reduce", "reduce_scatter",
                                           "all_gather", "all_to_all", "optimizer"};
static const char *const stage_names[] = {"first", "middle", "last",
                                          NULL}; /* ett_stage_place */

static ett_demands *to_demands(lua_State *L) {
  return ett_lua_box_check(L, 1, ETT_LUA_DEMANDS, "demands object");
}

ETT_LUA_CLOSE(demands_close, ETT_LUA_DEMANDS, ett_demands_free)

static int demands_new(lua_State *L) {
  void **box = ett_lua_box_new(L, ETT_LUA_DEMANDS);
  *box = ett_demands_new();
  return *box ? 1 : luaL_error(L, "not enough memory");
}

/* Sets a list of counts on the axes of a torus, up to the first 0. */
static void set_axes(lua_State *L, const char *name, const int32_t *counts) {
  if (counts[0] == 0)
    return;
  lua_createtable(L, ETT_TORUS_MOST, 0);
  for (int j = 0; j < ETT_TORUS_MOST && counts[j] > 0; j++) {
    lua_pushinteger(L, counts[j]);
    lua_rawseti(L, -2, j + 1);
  }
  lua_setfield(L, -2, name);
}

void ett_step_lua_set_place(lua_State *L, const ett_placement *place) {
  ett_lua_set_integer(L, "ranks", place->ranks);
  ett_lua_set_integer(L, "nodes", ett_place_nodes(place));
  ett_lua_set_integer(L, "gpus_per_node", ett_place_per_node(place));
  lua_createtable(L, place->tiers, 0);
  for (int k = 0; k < place->tiers; k++) {
    const ett_placement_tier *t = &place->tier[k];
    lua_createtable(L, 0, 8);
    ett_lua_set_integer(L, "units", t->units);
    ett_lua_set_integer(L, "members", t->members);
    ett_lua_set_integer(L, "most", t->most);
    ett_lua_set_integer(L, "groups", t->groups);
    ett_lua_set_integer(L, "cards", t->cards);
    ett_lua_set_integer(L, "sharing", t->sharing);
    ett_lua_set_integer(L, "inside", t->inside);
    ett_lua_set_integer(L, "branches", t->branches);
    set_axes(L, "along", t->along);
    set_axes(L, "apart", t->apart);
    if (t->placed > 0)
      ett_lua_set_integer(L, "placed", t->placed);
    if (t->slice)
      ett_lua_set_integer(L, "slice", t->slice);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, "tiers");
}

/* Pushes the user value of the demands at `box`: tables of placements by number, and
 * laws. */
static void push_kept(lua_State *L, int box) {
  if (lua_getiuservalue(L, box, 1) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, box, 1);
}

/* Pushes the table of a demand's placement. Demands with the same placement share a
 * table, kept in the user value of the demands at `box`. */
static void push_topology(lua_State *L, int box, size_t index) {
  const ett_demands *demands = *(void **)lua_touserdata(L, box);
  size_t place = ett_demands_place(demands, index);
  push_kept(L, box);
  if (lua_rawgeti(L, -1, (lua_Integer)place + 1) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 4);
    ett_step_lua_set_place(L, ett_demands_at(demands, place)->place);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, (lua_Integer)place + 1);
  }
  lua_remove(L, -2);
}

void ett_step_lua_push_demand(lua_State *L, int box, size_t index) {
  const ett_demands *demands = *(void **)lua_touserdata(L, box);
  const ett_demand *d = ett_demands_at(demands, index);
  const ett_demand_time *time = ett_demands_time(demands, index);
  lua_createtable(L, 0, time ? 8 : 5);
  ett_lua_set_integer(L, "index", (int64_t)index + 1);
  ett_lua_set_string(L, "kind", demand_names[d->kind]);
  if (d->kind == ETT_DEMAND_OPTIMIZER) {
    ett_lua_set_number(L, "parameters", d->amount);
    ett_lua_set_integer(L, "layers", d->layers);
    ett_lua_set_string(L, "place", stage_names[d->stage]);
  } else {
    ett_lua_set_number(L, "bytes", d->amount);
    push_topology(L, box, index);
    lua_setfield(L, -2, "topology");
  }
  ett_lua_set_integer(L, "element_bytes", d->element_bytes);
  if (d->parts)
    ett_lua_set_integer(L, "parts", d->parts);
  if (time) {
    ett_lua_set_number(L, "seconds", time->seconds);
    ett_lua_set_number(L, "low_seconds", time->low);
    ett_lua_set_number(L, "high_seconds", time->high);
  }
}

/* demands:untimed_after(index): the first demand without a time after a demand (0: the
 * first of all). Returns index, kind, bytes or parameters, topology of a message or place
 * of an update, bytes of an element. Returns nothing if all have a time. */
static int demands_untimed_after(lua_State *L) {
  ett_demands *demands = to_demands(L);
  lua_Integer after = luaL_checkinteger(L, 2);
  luaL_argcheck(L, after >= 0, 2, "must be at least 0");
  size_t index = ett_demands_untimed(demands, (size_t)after);
  const ett_demand *d = ett_demands_at(demands, index);
  if (!d)
    return 0;
  lua_pushinteger(L, (lua_Integer)index + 1);
  lua_pushstring(L, demand_names[d->kind]);
  lua_pushnumber(L, d->amount);
  if (d->kind == ETT_DEMAND_OPTIMIZER)
    lua_pushstring(L, stage_names[d->stage]);
  else
    push_topology(L, 1, index);
  lua_pushinteger(L, d->element_bytes);
  return 5;
}

static int demands_get(lua_State *L) {
  ett_demands *demands = to_demands(L);
  lua_Integer index = luaL_checkinteger(L, 2);
  if (index < 1 || (size_t)index > ett_demands_count(demands))
    return 0;
  ett_step_lua_push_demand(L, 1, (size_t)index - 1);
  return 1;
}

/* demands:set(index, seconds [, low, high]) */
static int demands_set(lua_State *L) {
  ett_demands *demands = to_demands(L);
  lua_Integer index = luaL_checkinteger(L, 2);
  ett_demand_time time;
  time.seconds = luaL_checknumber(L, 3);
  time.low = luaL_optnumber(L, 4, time.seconds);
  time.high = luaL_optnumber(L, 5, time.seconds);
  ett_err err;
  luaL_argcheck(L, index >= 1, 2, "must be a demand's index");
  if (ett_demands_set(demands, (size_t)index - 1, time, &err) != 0)
    return ett_lua_raise(L, &err);
  return 0;
}

/* Keeps the value at an index of the stack as long as the demands at 1. */
static void hold(lua_State *L, int index) {
  push_kept(L, 1);
  lua_pushvalue(L, index);
  lua_rawsetp(L, -2, lua_touserdata(L, index));
  lua_pop(L, 1);
}

/* The model in a field of the table at an index, kept with the demands; NULL: none. */
static ett_model *get_model(lua_State *L, int index) {
  if (ett_lua_raw_field(L, index, "model") == LUA_TNIL)
    return NULL;
  ett_model *model = luaL_testudata(L, -1, ETT_LUA_MODEL);
  if (!model)
    luaL_error(L, "field 'model' must be a regressor, got %s", luaL_typename(L, -1));
  luaL_argcheck(L, model->memory, index, "holds a closed regressor");
  hold(L, lua_gettop(L));
  return model;
}

/* demands:price(index, law [, { model=, element_bytes=, ranks=, share=, groups=,
 * bandwidth= }]): times all messages of a demand's kind and placement by a law of
 * ett.comm, or by a regressor within the law (ett_message_price). Returns whether the
 * demand has a time afterwards. */
static int demands_price(lua_State *L) {
  ett_demands *demands = to_demands(L);
  lua_Integer index = luaL_checkinteger(L, 2);
  lua_settop(L, 4);
  ett_message_price price = {.law = luaL_checkudata(L, 3, ETT_LUA_LAW)};
  ett_err err;
  luaL_argcheck(L, index >= 1, 2, "must be a demand's index");
  hold(L, 3);
  if (!lua_isnil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    price.model = get_model(L, 4);
    luaL_argcheck(L, price.model && price.model->design.dims == 1, 4,
                  "needs a regressor of one dimension");
    price.element_bytes = ett_lua_number_field(L, 4, "element_bytes", 1);
    price.ranks = ett_lua_number_field(L, 4, "ranks", 1);
    price.share = ett_lua_number_field(L, 4, "share", 0);
    price.groups = ett_lua_number_field(L, 4, "groups", 0);
    price.bandwidth = ett_lua_number_field(L, 4, "bandwidth", 0);
  }
  if (ett_demands_price(demands, (size_t)index - 1, &price, &err) != 0)
    return ett_lua_raise(L, &err);
  lua_pushboolean(L, ett_demands_time(demands, (size_t)index - 1) != NULL);
  return 1;
}

/* demands:price_updates(place, { model=, hidden=, bytes=, bandwidth= }): times the
 * updates of a place by a regressor (ett_update_price). */
static int demands_price_updates(lua_State *L) {
  ett_demands *demands = to_demands(L);
  int stage = luaL_checkoption(L, 2, NULL, stage_names);
  luaL_checktype(L, 3, LUA_TTABLE);
  ett_update_price price = {.model = get_model(L, 3),
                            .hidden = ett_lua_number_field(L, 3, "hidden", 0),
                            .bytes = ett_lua_number_field(L, 3, "bytes", 0),
                            .bandwidth = ett_lua_number_field(L, 3, "bandwidth", 0)};
  luaL_argcheck(L, price.model && price.model->design.dims == 4, 3,
                "needs a regressor of four dimensions");
  luaL_argcheck(L, price.bandwidth > 0, 3, "needs a bandwidth");
  ett_demands_price_updates(demands, (ett_stage_place)stage, &price);
  return 0;
}

static int demands_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)ett_demands_count(to_demands(L)));
  return 1;
}

ETT_LUA_CLOSE(workspace_close, ETT_LUA_WORKSPACE, ett_step_workspace_free)

int ett_step_lua_workspace_new(lua_State *L) {
  void **box = ett_lua_box_new(L, ETT_LUA_WORKSPACE);
  *box = ett_step_workspace_new();
  return *box ? 1 : luaL_error(L, "not enough memory");
}

static const luaL_Reg demands_methods[] = {
    {"untimed_after", demands_untimed_after},
    {"get", demands_get},
    {"set", demands_set},
    {"price", demands_price},
    {"price_updates", demands_price_updates},
    {"count", demands_count},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"demands", demands_new},
    {"workspace", ett_step_lua_workspace_new},
    {NULL, NULL},
};

void ett_step_lua_open_demands(lua_State *L) {
  ett_lua_type(L, ETT_LUA_DEMANDS, demands_methods, demands_close);
  ett_lua_type(L, ETT_LUA_WORKSPACE, NULL, workspace_close);
  luaL_setfuncs(L, functions, 0);
}
