/* ett.reference_composition - binding of runtime/schedule/reference. */
#include "bind/common.h"
#include "step/reference.h"

#include <string.h>

int luaopen_ett_reference_composition(lua_State *L);

static void set_number(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static void set_stage_numbers(lua_State *L, const char *name, const double *values) {
  ett_lua_push_doubles(L, values, ETT_REFERENCE_STAGES);
  lua_setfield(L, -2, name);
}

static void get_stage_numbers(lua_State *L, int index, const char *name, double *values) {
  lua_getfield(L, index, name);
  luaL_checktype(L, -1, LUA_TTABLE);
  for (int i = 0; i < ETT_REFERENCE_STAGES; i++) {
    lua_rawgeti(L, -1, i + 1);
    values[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void get_reference_plan(lua_State *L, int index, ett_reference_plan *plan,
                               ett_reference_layout *layout) {
  luaL_checktype(L, index, LUA_TTABLE);
  plan->pp = ett_lua_integer_field(L, index, "pp", 0);
  plan->mp = ett_lua_integer_field(L, index, "mp", 0);
  plan->dp = ett_lua_integer_field(L, index, "dp", 0);
  plan->b = ett_lua_integer_field(L, index, "b", 0);
  plan->h = ett_lua_integer_field(L, index, "h", 0);
  plan->l = ett_lua_integer_field(L, index, "l", 0);
  plan->dim = ett_lua_integer_field(L, index, "dim", 0);
  plan->steps_per_update = ett_lua_integer_field(L, index, "steps_per_update", 0);
  plan->gpus_per_node = ett_lua_integer_field(L, index, "gpus_per_node", 0);
  plan->comm_bucket = ett_lua_integer_field(L, index, "comm_bucket", 0);
  plan->encoders = ett_lua_integer_field(L, index, "encoders", 0);
  plan->fwd_syncs = ett_lua_number_field(L, index, "fwd_syncs", 0);
  plan->bwd_syncs = ett_lua_number_field(L, index, "bwd_syncs", 0);
  ett_err err;
  if (ett_reference_lay_out(plan, layout, &err) != 0)
    ett_lua_raise(L, &err);
}

static void push_pieces(lua_State *L, const char *name, const ett_reference_pieces *p) {
  lua_createtable(L, ETT_REFERENCE_STAGES, 0);
  for (int i = 0; i < ETT_REFERENCE_STAGES; i++) {
    lua_createtable(L, 0, 2);
    set_integer(L, "full", p[i].full);
    set_integer(L, "rest", p[i].rest);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, name);
}

/* layout{pp=, mp=, …}: what has to be timed. */
static int reference_layout(lua_State *L) {
  ett_reference_plan plan;
  ett_reference_layout layout;
  get_reference_plan(L, 1, &plan, &layout);
  lua_createtable(L, 0, 12);
  lua_createtable(L, ETT_REFERENCE_STAGES, 0);
  lua_createtable(L, ETT_REFERENCE_STAGES, 0);
  for (int i = 0; i < ETT_REFERENCE_STAGES; i++) {
    lua_pushinteger(L, layout.layers[i]);
    lua_rawseti(L, -3, i + 1);
    lua_pushinteger(L, layout.parameters[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -3, "parameters");
  lua_setfield(L, -2, "layers");
  push_pieces(L, "all_reduce", layout.all_reduce);
  push_pieces(L, "all_gather", layout.all_gather);
  set_integer(L, "p2p_elements", layout.p2p_elements);
  set_integer(L, "p2p_nodes", layout.p2p_nodes);
  set_integer(L, "p2p_gpus", layout.p2p_gpus);
  set_integer(L, "mp_elements", layout.mp_elements);
  set_integer(L, "mp_nodes", layout.mp_nodes);
  set_integer(L, "mp_gpus", layout.mp_gpus);
  set_integer(L, "dp_nodes", layout.dp_nodes);
  set_integer(L, "dp_gpus", layout.dp_gpus);
  return 1;
}

static ett_reference_time get_time(lua_State *L, int index, const char *name) {
  ett_reference_time time;
  lua_getfield(L, index, name);
  luaL_checktype(L, -1, LUA_TTABLE);
  time.fwd = ett_lua_number_field(L, -1, "fwd", 0);
  time.bwd = ett_lua_number_field(L, -1, "bwd", 0);
  lua_pop(L, 1);
  return time;
}

/* compose(plan, times): every intermediate, in the unit of the times. */
static int reference_compose(lua_State *L) {
  ett_reference_plan plan;
  ett_reference_layout layout;
  get_reference_plan(L, 1, &plan, &layout);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);

  ett_reference_times times;
  memset(&times, 0, sizeof times);
  lua_getfield(L, 2, "encoder"); /* 3 */
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_Integer count = luaL_len(L, 3);
  luaL_argcheck(L, count >= 0 && count < 1000000, 2, "too many encoder operators");
  ett_reference_time *encoder =
      lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *encoder, 0); /* 4 */
  for (lua_Integer i = 0; i < count; i++) {
    lua_rawgeti(L, 3, i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    encoder[i].fwd = ett_lua_number_field(L, -1, "fwd", 0);
    encoder[i].bwd = ett_lua_number_field(L, -1, "bwd", 0);
    lua_pop(L, 1);
  }
  times.encoder = encoder;
  times.encoder_count = count;
  times.embedding = get_time(L, 2, "embedding");
  times.norm = get_time(L, 2, "norm");
  times.linear_final = get_time(L, 2, "linear_final");
  times.cross_entropy = get_time(L, 2, "cross_entropy");
  times.p2p = ett_lua_number_field(L, 2, "p2p", 0);
  times.mp_all_reduce = ett_lua_number_field(L, 2, "mp_all_reduce", 0);
  times.all_reduce_full = ett_lua_number_field(L, 2, "all_reduce_full", 0);
  times.all_gather_full = ett_lua_number_field(L, 2, "all_gather_full", 0);
  get_stage_numbers(L, 2, "all_reduce_rest", times.all_reduce_rest);
  get_stage_numbers(L, 2, "all_gather_rest", times.all_gather_rest);
  get_stage_numbers(L, 2, "optimizer", times.optimizer);

  ett_reference_result result;
  ett_reference_compose(&plan, &layout, &times, &result);
  lua_createtable(L, 0, 14);
  set_number(L, "encoder_fwd", result.encoder_fwd);
  set_number(L, "encoder_bwd", result.encoder_bwd);
  set_stage_numbers(L, "fwd", result.fwd);
  set_stage_numbers(L, "bwd", result.bwd);
  set_stage_numbers(L, "fwd_with_p2p", result.fwd_with_p2p);
  set_stage_numbers(L, "bwd_with_p2p", result.bwd_with_p2p);
  set_stage_numbers(L, "all_reduce", result.all_reduce);
  set_stage_numbers(L, "all_gather", result.all_gather);
  set_stage_numbers(L, "optimizer", result.optimizer);
  set_stage_numbers(L, "update", result.update);
  set_number(L, "pipeline", result.pipeline);
  set_number(L, "head_all_reduce", result.head_all_reduce);
  set_number(L, "max_update", result.max_update);
  set_number(L, "total", result.total);
  return 1;
}

static const luaL_Reg functions[] = {
    {"layout", reference_layout},
    {"compose", reference_compose},
    {NULL, NULL},
};

int luaopen_ett_reference_composition(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
