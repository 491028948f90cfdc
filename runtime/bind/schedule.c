/* ett.schedule - binding of runtime/schedule: step programs, demands, plans, pipelines.
 */
#include <math.h>
#include <string.h>

#include "bind/common.h"
#include "schedule/step.h"

#define PROGRAM "ett.schedule.program"
#define DEMANDS "ett.schedule.demands"
#define WORKSPACE "ett.schedule.workspace"
#define ORDERS "ett.schedule.orders"

int luaopen_ett_schedule(lua_State *L);

typedef struct {
  ett_program *program;
} program_box;
typedef struct {
  ett_demands *demands;
} demands_box;
typedef struct {
  ett_step_workspace *step;
  ett_pipeline_workspace *pipeline;
} workspace_box;

/* Units of every stage; the arrays stand behind the header in the same userdata. */
typedef struct {
  int stages;
  int has_weight;
  size_t count;
  size_t *first_unit;
  ett_unit *units;
} orders_box;

static const char *const schedule_names[] = {"gpipe", "1f1b", "interleaved", "custom",
                                             NULL};
static const char *const recompute_names[] = {"none", "selective", "full", NULL};
static const char *const place_names[] = {"first", "middle", "last", NULL};
static const char *const demand_names[] = {"send_recv", "all_reduce", "reduce_scatter",
                                           "all_gather", "optimizer"};

static int find_name(lua_State *L, const char *field, const char *name,
                     const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return luaL_error(L, "field '%s': unknown value '%s'", field, name);
}

static void set_number(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static void set_numbers(lua_State *L, const char *name, const double *values,
                        size_t count) {
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    lua_pushnumber(L, values[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, name);
}

/* ---- program ---- */

static ett_program *to_program(lua_State *L, int index) {
  program_box *box = luaL_checkudata(L, index, PROGRAM);
  luaL_argcheck(L, box->program, index, "the program is closed");
  return box->program;
}

static int program_close(lua_State *L) {
  program_box *box = luaL_checkudata(L, 1, PROGRAM);
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
    o.parameters = ett_lua_number_field(L, at, "parameters", 0);
    o.expert_parameters = ett_lua_number_field(L, at, "expert_parameters", 0);
    o.activation_bytes = ett_lua_number_field(L, at, "activation_bytes", 0);
    o.flops = ett_lua_number_field(L, at, "flops", 0);
    o.selective = ett_lua_boolean_field(L, at, "selective", 0);
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
    kind.place = (ett_place)find_name(L, "place", place, place_names);
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

/* program{operations=, kinds=, boundary_bytes=, tied_bytes=, element_bytes=} */
static int program_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_getfield(L, 1, "operations"); /* 2 */
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_getfield(L, 1, "kinds"); /* 3 */
  luaL_checktype(L, 3, LUA_TTABLE);
  size_t operations = lua_rawlen(L, 2), kinds = lua_rawlen(L, 3);
  program_box *box = lua_newuserdatauv(L, sizeof *box, 0); /* 4 */
  box->program = NULL;
  luaL_setmetatable(L, PROGRAM);
  ett_err err;
  box->program = ett_program_new(operations, kinds, &err);
  if (!box->program)
    return ett_lua_raise(L, &err);
  get_operations(L, box->program, 2, operations);
  get_kinds(L, box->program, 3, kinds);
  if (ett_program_set_messages(
          box->program, ett_lua_number_field(L, 1, "boundary_bytes", 0),
          ett_lua_number_field(L, 1, "tied_bytes", 0),
          (int32_t)ett_lua_integer_field(L, 1, "element_bytes", 2), &err) != 0)
    return ett_lua_raise(L, &err);
  ett_program_finish(box->program);
  return 1;
}

static int program_layers(lua_State *L) {
  lua_pushinteger(L, ett_program_middle_layers(to_program(L, 1)));
  return 1;
}

/* ---- demands ---- */

static ett_demands *to_demands(lua_State *L, int index) {
  demands_box *box = luaL_checkudata(L, index, DEMANDS);
  luaL_argcheck(L, box->demands, index, "the demands are closed");
  return box->demands;
}

static int demands_close(lua_State *L) {
  demands_box *box = luaL_checkudata(L, 1, DEMANDS);
  ett_demands_free(box->demands);
  box->demands = NULL;
  return 0;
}

static int demands_new(lua_State *L) {
  demands_box *box = lua_newuserdatauv(L, sizeof *box, 0);
  box->demands = NULL;
  luaL_setmetatable(L, DEMANDS);
  box->demands = ett_demands_new();
  if (!box->demands)
    return luaL_error(L, "not enough memory");
  return 1;
}

static void push_demand(lua_State *L, const ett_demands *demands, size_t index) {
  const ett_demand *d = ett_demands_at(demands, index);
  const ett_demand_time *time = ett_demands_time(demands, index);
  lua_createtable(L, 0, 9);
  set_integer(L, "index", (int64_t)index + 1);
  lua_pushstring(L, demand_names[d->kind]);
  lua_setfield(L, -2, "kind");
  if (d->kind == ETT_DEMAND_OPTIMIZER) {
    set_number(L, "parameters", d->amount);
    set_integer(L, "layers", d->nodes);
    lua_pushstring(L, place_names[d->gpus_per_node]);
    lua_setfield(L, -2, "place");
  } else {
    set_number(L, "bytes", d->amount);
    set_integer(L, "nodes", d->nodes);
    set_integer(L, "gpus_per_node", d->gpus_per_node);
  }
  set_integer(L, "element_bytes", d->element_bytes);
  if (time) {
    set_number(L, "seconds", time->seconds);
    set_number(L, "low_seconds", time->low);
    set_number(L, "high_seconds", time->high);
  }
}

/* demands:untimed(): the list of what has to be set. */
static int demands_untimed(lua_State *L) {
  ett_demands *demands = to_demands(L, 1);
  lua_newtable(L);
  lua_Integer n = 0;
  for (size_t i = 0; (i = ett_demands_untimed(demands, i)) < ett_demands_count(demands);
       i++) {
    push_demand(L, demands, i);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static int demands_get(lua_State *L) {
  ett_demands *demands = to_demands(L, 1);
  lua_Integer index = luaL_checkinteger(L, 2);
  if (index < 1 || (size_t)index > ett_demands_count(demands))
    return 0;
  push_demand(L, demands, (size_t)index - 1);
  return 1;
}

/* demands:set(index, seconds [, low, high]) */
static int demands_set(lua_State *L) {
  ett_demands *demands = to_demands(L, 1);
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

static int demands_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)ett_demands_count(to_demands(L, 1)));
  return 1;
}

/* ---- workspace ---- */

static workspace_box *to_workspace(lua_State *L, int index) {
  workspace_box *box = luaL_checkudata(L, index, WORKSPACE);
  luaL_argcheck(L, box->step, index, "the workspace is closed");
  return box;
}

static int workspace_close(lua_State *L) {
  workspace_box *box = luaL_checkudata(L, 1, WORKSPACE);
  ett_step_workspace_free(box->step);
  ett_pipeline_workspace_free(box->pipeline);
  box->step = NULL;
  box->pipeline = NULL;
  return 0;
}

static int workspace_new(lua_State *L) {
  workspace_box *box = lua_newuserdatauv(L, sizeof *box, 0);
  box->step = NULL;
  box->pipeline = NULL;
  luaL_setmetatable(L, WORKSPACE);
  box->step = ett_step_workspace_new();
  box->pipeline = ett_pipeline_workspace_new();
  if (!box->step || !box->pipeline)
    return luaL_error(L, "not enough memory");
  return 1;
}

/* ---- orders ---- */

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
  orders_box *box = lua_newuserdatauv(
      L, sizeof *box + (stages + 1) * sizeof(size_t) + count * sizeof(ett_unit), 0);
  box->stages = (int)stages;
  box->has_weight = 0;
  box->count = count;
  box->first_unit = (size_t *)(box + 1);
  box->units = (ett_unit *)(box->first_unit + stages + 1);
  luaL_setmetatable(L, ORDERS);
  size_t n = 0;
  for (size_t s = 0; s < stages; s++) {
    lua_rawgeti(L, 1, (lua_Integer)s + 1);
    size_t length = lua_rawlen(L, -1);
    box->first_unit[s] = n;
    for (size_t k = 0; k < length; k++) {
      if (lua_rawgeti(L, -1, (lua_Integer)k + 1) != LUA_TTABLE)
        return luaL_error(L, "stage %d: unit %d must be {kind, micro_batch, chunk}",
                          (int)s + 1, (int)k + 1);
      lua_rawgeti(L, -1, 1);
      lua_rawgeti(L, -2, 2);
      lua_rawgeti(L, -3, 3);
      const char *kind = lua_tostring(L, -3);
      const char *at = kind && strlen(kind) == 1 ? strchr("FBW", *kind) : NULL;
      lua_Integer micro_batch = lua_tointeger(L, -2);
      lua_Integer chunk = lua_isnil(L, -1) ? 1 : lua_tointeger(L, -1);
      if (!at || micro_batch < 1 || micro_batch > UINT32_MAX || chunk < 1 ||
          chunk > ETT_PIPELINE_MAX_CHUNKS)
        return luaL_error(L,
                          "stage %d: unit %d must be {\"F\", \"B\" or \"W\", micro-batch "
                          "from 1, chunk from 1}",
                          (int)s + 1, (int)k + 1);
      box->units[n++] = (ett_unit){(uint8_t)(at - "FBW"), (uint16_t)(chunk - 1),
                                   (uint32_t)(micro_batch - 1)};
      box->has_weight |= *kind == 'W';
      lua_pop(L, 4);
    }
    lua_pop(L, 1);
  }
  box->first_unit[stages] = n;
  return 1;
}

/* ---- plans ---- */

static int integer_field(lua_State *L, int index, const char *name, int fallback) {
  lua_Integer value = ett_lua_integer_field(L, index, name, fallback);
  if (value < INT32_MIN || value > INT32_MAX)
    luaL_error(L, "field '%s' must fit 32 bits, got %I", name, (LUAI_UACINT)value);
  return (int)value;
}

/* Reads a plan; `split` and `orders` stay on the stack while it is used. */
static void get_plan(lua_State *L, int index, ett_step_plan *plan) {
  luaL_checktype(L, index, LUA_TTABLE);
  memset(plan, 0, sizeof *plan);
  plan->schedule = (ett_schedule_kind)find_name(
      L, "schedule", ett_lua_string_field(L, index, "schedule", "1f1b"), schedule_names);
  plan->recompute = (ett_recompute)find_name(
      L, "recompute", ett_lua_string_field(L, index, "recompute", "none"),
      recompute_names);
  plan->pp = integer_field(L, index, "pp", 1);
  plan->chunks = integer_field(L, index, "vp", 1);
  plan->tp = integer_field(L, index, "tp", 1);
  plan->cp = integer_field(L, index, "cp", 1);
  plan->ep = integer_field(L, index, "ep", 1);
  plan->etp = integer_field(L, index, "etp", plan->tp);
  plan->dp = integer_field(L, index, "dp", 1);
  plan->gpus_per_node = integer_field(L, index, "gpus_per_node", 1);
  plan->micro_batches = ett_lua_integer_field(L, index, "micro_batches", 1);
  plan->zero = (ett_zero)integer_field(L, index, "zero", 0);
  plan->gradient_all_reduce = ett_lua_boolean_field(L, index, "gradient_all_reduce", 0);
  plan->overlap_gradients = ett_lua_boolean_field(L, index, "overlap_gradients", 0);
  plan->overlap_parameters = ett_lua_boolean_field(L, index, "overlap_parameters", 0);
  plan->overlap_sends = ett_lua_boolean_field(L, index, "overlap_sends", 0);
  plan->serial_sends = ett_lua_boolean_field(L, index, "serial_sends", 0);
  plan->wait_before_update = ett_lua_boolean_field(L, index, "clip_gradients", 1);
  plan->gradient_bytes = integer_field(L, index, "gradient_bytes", 4);
  plan->weight_bytes = integer_field(L, index, "weight_bytes", 2);
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
    const orders_box *orders = luaL_checkudata(L, -1, ORDERS);
    if (orders->stages != plan->pp)
      luaL_error(L, "the orders hold %d stages, the plan %d", orders->stages, plan->pp);
    plan->units = orders->units;
    plan->first_unit = orders->first_unit;
    plan->split_backward = orders->has_weight;
  }
}

static void push_stage(lua_State *L, const ett_step_stage *s) {
  lua_createtable(L, 0, 24);
  set_integer(L, "layers", s->layers);
  set_number(L, "parameters", s->parameters + s->expert_parameters);
  set_number(L, "expert_parameters", s->expert_parameters);
  set_number(L, "forward_seconds", s->forward_seconds);
  set_number(L, "backward_seconds", s->backward_seconds);
  set_number(L, "recompute_seconds", s->again_seconds);
  set_number(L, "micro_batch_forward_seconds", s->unit_forward_seconds);
  set_number(L, "micro_batch_backward_seconds", s->unit_backward_seconds);
  set_number(L, "send_seconds", s->send_seconds);
  set_number(L, "pipeline_seconds", s->pipeline_seconds);
  set_number(L, "gradient_seconds", s->gradient_seconds);
  set_number(L, "gradient_exposed_seconds", s->gradient_exposed_seconds);
  set_number(L, "tied_embedding_seconds", s->tied_seconds);
  set_number(L, "wait_seconds", s->wait_seconds);
  set_number(L, "optimizer_seconds", s->optimizer_seconds);
  set_number(L, "gather_seconds", s->gather_seconds);
  set_number(L, "gather_exposed_seconds", s->gather_exposed_seconds);
  set_number(L, "end_seconds", s->end_seconds);
  set_number(L, "weight_bytes", s->weight_bytes);
  set_number(L, "gradient_bytes", s->gradient_bytes);
  set_number(L, "optimizer_bytes", s->optimizer_bytes);
  set_number(L, "activation_bytes", s->activation_bytes);
  set_number(L, "memory_bytes", s->memory_bytes);
}

/* program:totals(plan, demands, workspace): step seconds, bytes of the fullest device,
 * bubble fraction, pipeline seconds; nil while demands are untimed. */
static int program_totals(lua_State *L) {
  ett_program *program = to_program(L, 1);
  ett_demands *demands = to_demands(L, 3);
  workspace_box *workspace = to_workspace(L, 4);
  ett_step_plan plan;
  get_plan(L, 2, &plan);
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

static void push_units(lua_State *L, const ett_pipeline *pipeline,
                       const ett_pipeline_result *result) {
  static const char *const kinds[] = {"F", "B", "W"};
  const double *start = result->unit_start;
  lua_createtable(L, pipeline->stages, 0);
  for (int rank = 0; rank < pipeline->stages; rank++) {
    size_t count = ett_pipeline_unit_count(pipeline, rank);
    lua_createtable(L, (int)count, 0);
    for (size_t k = 0; k < count; k++) {
      ett_unit u = ett_pipeline_unit(pipeline, rank, k);
      lua_createtable(L, 3, 2);
      lua_pushstring(L, kinds[u.kind]);
      lua_rawseti(L, -2, 1);
      lua_pushinteger(L, (lua_Integer)u.micro_batch + 1);
      lua_rawseti(L, -2, 2);
      lua_pushinteger(L, (lua_Integer)u.chunk + 1);
      lua_rawseti(L, -2, 3);
      if (start) {
        int slice = u.chunk * pipeline->stages + rank;
        set_number(L, "start_seconds", *start++);
        set_number(L, "seconds",
                   u.kind == ETT_UNIT_FORWARD    ? pipeline->forward[slice]
                   : u.kind == ETT_UNIT_BACKWARD ? pipeline->backward[slice]
                                                 : pipeline->weight[slice]);
      }
      lua_rawseti(L, -2, (lua_Integer)k + 1);
    }
    lua_rawseti(L, -2, rank + 1);
  }
}

/* program:evaluate(plan, demands, workspace [, keep_units]): everything, or nil while
 * demands are untimed. */
static int program_evaluate(lua_State *L) {
  ett_program *program = to_program(L, 1);
  ett_demands *demands = to_demands(L, 3);
  workspace_box *workspace = to_workspace(L, 4);
  int keep_units = lua_toboolean(L, 5);
  ett_step_plan plan;
  get_plan(L, 2, &plan);
  ett_step_result r;
  ett_err err;
  int status =
      ett_step_evaluate(program, &plan, demands, workspace->step, keep_units, &r, &err);
  if (status < 0)
    return ett_lua_raise(L, &err);
  if (status > 0)
    return 0;
  lua_createtable(L, 0, 8);
  set_number(L, "step_seconds", r.step_seconds);
  set_number(L, "pipeline_seconds", r.pipeline_seconds);
  set_number(L, "bubble_fraction", r.bubble_fraction);
  set_number(L, "flops", r.flops);
  set_number(L, "memory_bytes", r.memory_bytes);
  lua_createtable(L, r.stages, 0);
  for (int i = 0; i < r.stages; i++) {
    push_stage(L, &r.stage[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "stages");
  lua_createtable(L, (int)r.demand_count, 0);
  for (size_t i = 0; i < r.demand_count; i++) {
    push_demand(L, demands, r.demands[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "demands");
  if (keep_units) {
    ett_pipeline pipeline = {.schedule = plan.schedule,
                             .stages = plan.pp,
                             .chunks = plan.chunks,
                             .micro_batches = plan.micro_batches,
                             .forward = r.slice_forward,
                             .backward = r.slice_backward,
                             .weight = r.slice_weight,
                             .units = plan.units,
                             .first_unit = plan.first_unit};
    push_units(L, &pipeline, &r.pipeline);
    lua_setfield(L, -2, "units");
  }
  return 1;
}

/* program:interval(plan, demands, workspace, correlation): low, high seconds. */
static int program_interval(lua_State *L) {
  ett_program *program = to_program(L, 1);
  ett_demands *demands = to_demands(L, 3);
  workspace_box *workspace = to_workspace(L, 4);
  double correlation = luaL_checknumber(L, 5), low, high;
  luaL_argcheck(L, correlation >= 0 && correlation <= 1, 5, "must be 0 to 1");
  ett_step_plan plan;
  get_plan(L, 2, &plan);
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

/* ---- pipelines by themselves ---- */

static const double *get_slices(lua_State *L, const char *name, size_t want, int needed) {
  size_t count = 0;
  if (lua_getfield(L, 1, name) == LUA_TNIL) {
    if (needed)
      luaL_error(L, "missing field '%s' (a list of seconds)", name);
    return NULL;
  }
  const double *values = ett_lua_doubles(L, -1, &count);
  if (count < want)
    luaL_error(L, "field '%s' must hold %d numbers, got %d", name, (int)want, (int)count);
  for (size_t i = 0; i < count; i++)
    if (!(values[i] >= 0) || isinf(values[i]))
      luaL_error(L, "field '%s[%d]' must be seconds of at least 0, got %f", name,
                 (int)i + 1, values[i]);
  return values;
}

static void get_pipeline(lua_State *L, ett_pipeline *p) {
  luaL_checktype(L, 1, LUA_TTABLE);
  memset(p, 0, sizeof *p);
  p->schedule = (ett_schedule_kind)find_name(
      L, "schedule", ett_lua_string_field(L, 1, "schedule", "1f1b"), schedule_names);
  p->stages = integer_field(L, 1, "stages", 1);
  p->chunks = integer_field(L, 1, "chunks", 1);
  p->micro_batches = ett_lua_integer_field(L, 1, "micro_batches", 1);
  p->blocking_sends = ett_lua_boolean_field(L, 1, "blocking_sends", 0);
  p->blocking_receives = ett_lua_boolean_field(L, 1, "blocking_receives", 0);
  ett_err err;
  if (ett_pipeline_check(p, &err) != 0)
    ett_lua_raise(L, &err);
  size_t slices = (size_t)p->stages * (size_t)p->chunks;
  p->forward = get_slices(L, "forward", slices, 1);
  p->backward = get_slices(L, "backward", slices, 1);
  p->weight = get_slices(L, "weight", slices, 0);
  p->send_forward = get_slices(L, "send_forward", slices - 1, 0);
  p->send_backward = get_slices(L, "send_backward", slices - 1, 0);
  double *zeros = lua_newuserdatauv(L, slices * sizeof *zeros, 0);
  memset(zeros, 0, slices * sizeof *zeros);
  p->send_forward = p->send_forward ? p->send_forward : zeros;
  p->send_backward = p->send_backward ? p->send_backward : zeros;
  if (p->schedule == ETT_SCHEDULE_CUSTOM) {
    lua_getfield(L, 1, "orders");
    const orders_box *orders = luaL_checkudata(L, -1, ORDERS);
    if (orders->stages != p->stages)
      luaL_error(L, "the orders hold %d stages, the pipeline %d", orders->stages,
                 p->stages);
    if (orders->has_weight && !p->weight)
      luaL_error(L,
                 "missing field 'weight' (a list of seconds): the orders hold W units");
    p->units = orders->units;
    p->first_unit = orders->first_unit;
  }
}

/* pipeline{schedule=, stages=, chunks=, micro_batches=, forward=, backward=, weight=,
 * send_forward=, send_backward=, blocking_sends=, blocking_receives=, orders=, closed=,
 * keep_units=}: how it runs. closed: gpipe's closed form instead of events; keep_units =
 * false: 1f1b takes its short way. */
static int pipeline_run(lua_State *L) {
  lua_settop(L, 1);
  luaL_checkstack(L, 40, NULL);
  ett_pipeline p;
  get_pipeline(L, &p);
  int closed = ett_lua_boolean_field(L, 1, "closed", 0);
  int keep_units = !closed && ett_lua_boolean_field(L, 1, "keep_units", 1);
  workspace_new(L);
  workspace_box *workspace = to_workspace(L, -1);
  ett_pipeline_result r;
  ett_err err;
  int status = closed ? ett_pipeline_gpipe_closed(&p, workspace->pipeline, &r, &err)
                      : ett_pipeline_run(&p, workspace->pipeline, keep_units, &r, &err);
  if (status != 0)
    return ett_lua_raise(L, &err);
  size_t stages = (size_t)p.stages, slices = stages * (size_t)p.chunks;
  ett_pipeline_bounds bounds = ett_pipeline_closed(&p);
  lua_createtable(L, 0, 8);
  set_number(L, "makespan_seconds", r.makespan);
  set_number(L, "lower_seconds", bounds.lower);
  set_number(L, "upper_seconds", bounds.upper);
  set_numbers(L, "busy_seconds", r.busy, stages);
  set_numbers(L, "end_seconds", r.end, stages);
  set_numbers(L, "last_backward_start_seconds", r.last_backward_start, slices);
  set_numbers(L, "last_backward_end_seconds", r.last_backward_end, slices);
  if (keep_units) {
    push_units(L, &p, &r);
    lua_setfield(L, -2, "units");
  }
  double *ones = lua_newuserdatauv(L, slices * sizeof *ones, 0);
  for (size_t i = 0; i < slices; i++)
    ones[i] = 1;
  lua_createtable(L, p.stages, 0);
  for (int rank = 0; rank < p.stages; rank++) {
    lua_pushnumber(L, ett_pipeline_peak_in_flight(&p, rank, ones));
    lua_rawseti(L, -2, rank + 1);
  }
  lua_setfield(L, -3, "peak_in_flight");
  lua_pop(L, 1);
  workspace_box *used = to_workspace(L, -2);
  ett_pipeline_workspace_free(used->pipeline);
  used->pipeline = NULL;
  return 1;
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

static const luaL_Reg demands_methods[] = {
    {"untimed", demands_untimed}, {"get", demands_get},     {"set", demands_set},
    {"count", demands_count},     {"close", demands_close}, {NULL, NULL},
};

static const luaL_Reg workspace_methods[] = {
    {"close", workspace_close},
    {NULL, NULL},
};

static const luaL_Reg orders_methods[] = {
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"program", program_new},
    {"demands", demands_new},
    {"workspace", workspace_new},
    {"orders", orders_new},
    {"pipeline", pipeline_run},
    {"group", group},
    {"split", split},
    {NULL, NULL},
};

static void make_type(lua_State *L, const char *name, const luaL_Reg *methods,
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

int luaopen_ett_schedule(lua_State *L) {
  make_type(L, PROGRAM, program_methods, program_close);
  make_type(L, DEMANDS, demands_methods, demands_close);
  make_type(L, WORKSPACE, workspace_methods, workspace_close);
  make_type(L, ORDERS, orders_methods, NULL);
  luaL_newlib(L, functions);
  return 1;
}
