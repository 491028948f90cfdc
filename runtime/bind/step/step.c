/* ett.step - binding of runtime/step: step programs and their evaluation. Demands
 * and workspaces, plans and orders, and pipelines by themselves are in the files beside
 * this one. */
#include <string.h>

#include "bind/step/step.h"

int luaopen_ett_step(lua_State *L);

const char *const ett_step_lua_places[] = {"first", "middle", "last", NULL};
static const char *const role_names[] = {
    "outside", "expert", "exchange", "beside_dispatch", "beside_combine", "alone", NULL};

int ett_step_lua_name(lua_State *L, const char *field, const char *name,
                      const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return luaL_error(L, "field '%s': unknown value '%s'", field, name);
}

void ett_step_lua_set_number(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

void ett_step_lua_set_integer(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static ett_program *to_program(lua_State *L, int index) {
  ett_step_lua_program_box *box = luaL_checkudata(L, index, ETT_LUA_PROGRAM);
  luaL_argcheck(L, box->program, index, "the program is closed");
  return box->program;
}

static int program_close(lua_State *L) {
  ett_step_lua_program_box *box = luaL_checkudata(L, 1, ETT_LUA_PROGRAM);
  ett_program_free(box->program);
  box->program = NULL;
  return 0;
}

/* {seconds, low, high}; the ends may be left out. Absent: no time at all. */
static ett_demand_time get_time(lua_State *L, int index, const char *name) {
  ett_demand_time time = {0, 0, 0};
  if (lua_getfield(L, index, name) != LUA_TNIL) {
    luaL_checktype(L, -1, LUA_TTABLE);
    double *values[] = {&time.seconds, &time.low, &time.high};
    for (int i = 0; i < 3; i++) {
      *values[i] = time.seconds;
      if (lua_rawgeti(L, -1, i + 1) != LUA_TNIL)
        *values[i] = luaL_checknumber(L, -1);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return time;
}

static void get_operations(lua_State *L, ett_program *program, int list, size_t count) {
  ett_err err;
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, list, (lua_Integer)i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    int at = lua_gettop(L);
    ett_operation o;
    o.forward = get_time(L, at, "forward");
    o.backward = get_time(L, at, "backward");
    o.dense_parameters = ett_lua_number_field(L, at, "dense_parameters", 0);
    o.expert_parameters = ett_lua_number_field(L, at, "expert_parameters", 0);
    o.activation_bytes = ett_lua_number_field(L, at, "activation_bytes", 0);
    o.flops = ett_lua_number_field(L, at, "flops", 0);
    o.selective = ett_lua_boolean_field(L, at, "selective", 0);
    o.role = (ett_role)ett_step_lua_name(
        L, "role", ett_lua_string_field(L, at, "role", "outside"), role_names);
    if (ett_program_set_operation(program, i, &o, &err) != 0) {
      ett_err outer;
      ett_err_set(&outer, err.code, "operation '%s': %s",
                  ett_lua_string_field(L, at, "name", "?"), err.message);
      ett_lua_raise(L, &outer);
    }
    lua_pop(L, 1);
  }
}

static void get_kinds(lua_State *L, ett_program *program, int list, size_t count) {
  ett_err err;
  for (size_t k = 0; k < count; k++) {
    lua_rawgeti(L, list, (lua_Integer)k + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    int at = lua_gettop(L);
    ett_layer_kind kind;
    const char *place = ett_lua_string_field(L, at, "place", "middle");
    kind.place = (ett_place)ett_step_lua_name(L, "place", place, ett_step_lua_places);
    kind.count = ett_lua_integer_field(L, at, "count", 1);
    kind.input_bytes = ett_lua_number_field(L, at, "input_bytes", 0);
    if (ett_program_set_kind(program, k, &kind, &err) != 0)
      ett_lua_raise(L, &err);
    lua_getfield(L, at, "uses"); /* operation index -> how often */
    luaL_checktype(L, -1, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      lua_Integer operation = luaL_checkinteger(L, -2), uses = luaL_checkinteger(L, -1);
      luaL_argcheck(L, operation >= 1 && uses >= 0 && uses <= INT32_MAX, 1,
                    "uses must map operation numbers to counts");
      if (ett_program_set_uses(program, k, (size_t)operation - 1, (int32_t)uses, &err) !=
          0)
        ett_lua_raise(L, &err);
    }
    lua_settop(L, at - 1);
  }
}

/* program{operations=, kinds=, boundary_bytes=, tied_embedding_bytes=, element_bytes=} */
static int program_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_getfield(L, 1, "operations"); /* 2 */
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_getfield(L, 1, "kinds"); /* 3 */
  luaL_checktype(L, 3, LUA_TTABLE);
  size_t operations = lua_rawlen(L, 2), kinds = lua_rawlen(L, 3);
  ett_step_lua_program_box *box = lua_newuserdatauv(L, sizeof *box, 0); /* 4 */
  box->program = NULL;
  luaL_setmetatable(L, ETT_LUA_PROGRAM);
  ett_err err;
  box->program = ett_program_new(operations, kinds, &err);
  if (!box->program)
    return ett_lua_raise(L, &err);
  get_operations(L, box->program, 2, operations);
  get_kinds(L, box->program, 3, kinds);
  if (ett_program_set_messages(
          box->program, ett_lua_number_field(L, 1, "boundary_bytes", 0),
          ett_lua_number_field(L, 1, "tied_embedding_bytes", 0),
          (int32_t)ett_lua_integer_field(L, 1, "element_bytes", 2), &err) != 0)
    return ett_lua_raise(L, &err);
  ett_program_finish(box->program);
  return 1;
}

static int program_layers(lua_State *L) {
  lua_pushinteger(L, ett_program_middle_layers(to_program(L, 1)));
  return 1;
}

static void push_stage(lua_State *L, const ett_step_stage *s) {
  lua_createtable(L, 0, 24);
  ett_step_lua_set_integer(L, "layers", s->layers);
  ett_step_lua_set_number(L, "parameters", s->dense_parameters + s->expert_parameters);
  ett_step_lua_set_number(L, "expert_parameters", s->expert_parameters);
  ett_step_lua_set_number(L, "forward_seconds", s->forward_seconds);
  ett_step_lua_set_number(L, "backward_seconds", s->backward_seconds);
  ett_step_lua_set_number(L, "recompute_seconds", s->recompute_seconds);
  ett_step_lua_set_number(L, "all_to_all_overlapped_seconds",
                          s->all_to_all_overlapped_seconds);
  ett_step_lua_set_number(L, "micro_batch_forward_seconds",
                          s->micro_batch_forward_seconds);
  ett_step_lua_set_number(L, "micro_batch_backward_seconds",
                          s->micro_batch_backward_seconds);
  ett_step_lua_set_number(L, "send_seconds", s->send_seconds);
  ett_step_lua_set_number(L, "pipeline_seconds", s->pipeline_seconds);
  ett_step_lua_set_number(L, "gradient_seconds", s->gradient_seconds);
  ett_step_lua_set_number(L, "gradient_exposed_seconds", s->gradient_exposed_seconds);
  ett_step_lua_set_number(L, "tied_embedding_seconds", s->tied_embedding_seconds);
  ett_step_lua_set_number(L, "wait_seconds", s->wait_seconds);
  ett_step_lua_set_number(L, "optimizer_seconds", s->optimizer_seconds);
  ett_step_lua_set_number(L, "gather_seconds", s->gather_seconds);
  ett_step_lua_set_number(L, "gather_exposed_seconds", s->gather_exposed_seconds);
  ett_step_lua_set_number(L, "end_seconds", s->end_seconds);
  ett_step_lua_set_number(L, "weight_bytes", s->weight_bytes);
  ett_step_lua_set_number(L, "gradient_bytes", s->gradient_bytes);
  ett_step_lua_set_number(L, "optimizer_bytes", s->optimizer_bytes);
  ett_step_lua_set_number(L, "activation_bytes", s->activation_bytes);
  ett_step_lua_set_number(L, "memory_bytes", s->memory_bytes);
}

/* program:totals(plan, demands, workspace): step seconds, bytes of the fullest device,
 * bubble fraction, pipeline seconds; nil while demands are untimed. */
static int program_totals(lua_State *L) {
  ett_program *program = to_program(L, 1);
  ett_demands *demands = ett_step_lua_demands(L, 3);
  ett_step_lua_workspace_box *workspace = ett_step_lua_workspace(L, 4);
  ett_step_plan plan;
  ett_step_lua_plan(L, 2, &plan);
  ett_step_result result;
  ett_err err;
  int status =
      ett_step_evaluate(program, &plan, demands, workspace->step, 0, &result, &err);
  if (status < 0)
    return ett_lua_raise(L, &err);
  if (status > 0)
    return 0;
  lua_pushnumber(L, result.step_seconds);
  lua_pushnumber(L, result.memory_bytes);
  lua_pushnumber(L, result.bubble_fraction);
  lua_pushnumber(L, result.pipeline_seconds);
  return 4;
}

/* program:evaluate(plan, demands, workspace [, keep_units]): everything, or nil while
 * demands are untimed. */
static int program_evaluate(lua_State *L) {
  ett_program *program = to_program(L, 1);
  ett_demands *demands = ett_step_lua_demands(L, 3);
  ett_step_lua_workspace_box *workspace = ett_step_lua_workspace(L, 4);
  int keep_units = lua_toboolean(L, 5);
  ett_step_plan plan;
  ett_step_lua_plan(L, 2, &plan);
  ett_step_result r;
  ett_err err;
  int status =
      ett_step_evaluate(program, &plan, demands, workspace->step, keep_units, &r, &err);
  if (status < 0)
    return ett_lua_raise(L, &err);
  if (status > 0)
    return 0;
  lua_createtable(L, 0, 8);
  ett_step_lua_set_number(L, "step_seconds", r.step_seconds);
  ett_step_lua_set_number(L, "pipeline_seconds", r.pipeline_seconds);
  ett_step_lua_set_number(L, "bubble_fraction", r.bubble_fraction);
  ett_step_lua_set_number(L, "flops", r.flops);
  ett_step_lua_set_number(L, "memory_bytes", r.memory_bytes);
  lua_createtable(L, r.stages, 0);
  for (int i = 0; i < r.stages; i++) {
    push_stage(L, &r.stage[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "stages");
  lua_createtable(L, (int)r.demand_count, 0);
  for (size_t i = 0; i < r.demand_count; i++) {
    ett_step_lua_push_demand(L, demands, r.demands[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "demands");
  if (keep_units) {
    ett_step_lua_push_units(L, &r.run, &r.pipeline);
    lua_setfield(L, -2, "units");
  }
  return 1;
}

/* program:interval(plan, demands, workspace, correlation): low, high seconds. */
static int program_interval(lua_State *L) {
  ett_program *program = to_program(L, 1);
  ett_demands *demands = ett_step_lua_demands(L, 3);
  ett_step_lua_workspace_box *workspace = ett_step_lua_workspace(L, 4);
  double correlation = luaL_checknumber(L, 5), low, high;
  luaL_argcheck(L, correlation >= 0 && correlation <= 1, 5, "must be 0 to 1");
  ett_step_plan plan;
  ett_step_lua_plan(L, 2, &plan);
  ett_err err;
  int status = ett_step_interval(program, &plan, demands, workspace->step, correlation,
                                 &low, &high, &err);
  if (status < 0)
    return ett_lua_raise(L, &err);
  if (status > 0)
    return 0;
  lua_pushnumber(L, low);
  lua_pushnumber(L, high);
  return 2;
}

/* group(degree, stride, gpus_per_node): nodes, GPUs on each. */
static int group(lua_State *L) {
  lua_Integer degree = luaL_checkinteger(L, 1), stride = luaL_checkinteger(L, 2);
  lua_Integer gpus_per_node = luaL_checkinteger(L, 3);
  luaL_argcheck(L, degree >= 1 && degree <= INT32_MAX, 1, "must be a degree");
  luaL_argcheck(L, stride >= 1, 2, "must be at least 1");
  luaL_argcheck(L, gpus_per_node >= 1 && gpus_per_node <= INT32_MAX, 3,
                "must be at least 1");
  int32_t nodes, gpus;
  ett_group_topology(degree, stride, (int)gpus_per_node, &nodes, &gpus);
  lua_pushinteger(L, nodes);
  lua_pushinteger(L, gpus);
  return 2;
}

/* split(layers, slices): how layers are spread. */
static int split(lua_State *L) {
  lua_Integer layers = luaL_checkinteger(L, 1), slices = luaL_checkinteger(L, 2);
  luaL_argcheck(L, layers >= 0, 1, "must be at least 0");
  luaL_argcheck(L, slices >= 1 && slices <= 1 << 22, 2, "must be 1 to 4194304");
  int64_t *values = lua_newuserdatauv(L, (size_t)slices * sizeof *values, 0);
  ett_split_even(layers, (int)slices, values);
  lua_createtable(L, (int)slices, 0);
  for (lua_Integer i = 0; i < slices; i++) {
    lua_pushinteger(L, values[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg program_methods[] = {
    {"evaluate", program_evaluate}, {"totals", program_totals},
    {"interval", program_interval}, {"layers", program_layers},
    {"close", program_close},       {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"program", program_new},
    {"group", group},
    {"split", split},
    {NULL, NULL},
};

void ett_step_lua_make_type(lua_State *L, const char *name, const luaL_Reg *methods,
                            lua_CFunction close) {
  luaL_newmetatable(L, name);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  if (close) {
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__close");
  }
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

int luaopen_ett_step(lua_State *L) {
  ett_step_lua_make_type(L, ETT_LUA_PROGRAM, program_methods, program_close);
  luaL_newlib(L, functions);
  ett_step_lua_open_demands(L);
  ett_step_lua_open_plans(L);
  ett_step_lua_open_pipelines(L);
  return 1;
}
