/* ett.step - binding of runtime/step: step programs and their evaluation. The other files
 * of this folder bind demands, workspaces, plans, orders, and pipelines without a
 * step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/step/step.h"

int luaopen_ett_step(lua_State *L);

static const char *const places[] = {"first", "middle", "prediction", "last", NULL};
static const char *const kind_names[] = {"operator", "collective", NULL};
static const char *const role_names[] = {
    "outside", "expert", "exchange", "beside_dispatch", "beside_combine", "alone", NULL};

static const char *const method_names[] = {"block", "every", "uniform", NULL};

static const char *const host_names[] = {"none", "ahead", "blocking", NULL};

static ett_program *to_program(lua_State *L) {
  return ett_lua_box_check(L, 1, ETT_LUA_PROGRAM, "program");
}

ETT_LUA_CLOSE(program_close, ETT_LUA_PROGRAM, ett_program_free)

/* Names of an operation's members that are no operation_fields. */
enum {
  LANES,
  POINTS,
  FORWARD,
  BACKWARD,
  SPLIT,
  SPLIT_WEIGHT,
  REPEATED,
  SECONDS,
  LOW,
  HIGH,
  NAMES
};
static const char *const other_names[NAMES] = {
    [LANES] = "lanes",       [POINTS] = "points",   [FORWARD] = "forward",
    [BACKWARD] = "backward", [SPLIT] = "split",     [SPLIT_WEIGHT] = "split_weight",
    [REPEATED] = "repeated", [SECONDS] = "seconds", [LOW] = "low_seconds",
    [HIGH] = "high_seconds",
};

/* As ett_lua_raw_field, with a name on the stack. */
static int get_named(lua_State *L, int index, int name) {
  luaL_checktype(L, index, LUA_TTABLE);
  lua_pushvalue(L, name);
  return lua_rawget(L, index);
}

/* Reads {seconds, low, high} or {seconds=, low_seconds=, high_seconds=}; low and high are
 * optional. A missing field is 0 seconds. names: index of the first of other_names. */
static ett_demand_time get_time(lua_State *L, int index, int names, int name) {
  ett_demand_time time = {0, 0, 0};
  if (get_named(L, index, names + name) != LUA_TNIL) {
    ett_lua_check_table(L, lua_tostring(L, names + name));
    int at = lua_gettop(L), listed = get_named(L, at, names + SECONDS) == LUA_TNIL;
    double *values[] = {&time.seconds, &time.low, &time.high};
    for (int i = 0; i < 3; i++) {
      *values[i] = time.seconds;
      if (i > 0 || listed) {
        lua_pop(L, 1);
        if (listed)
          lua_rawgeti(L, at, i + 1);
        else
          get_named(L, at, names + SECONDS + i);
      }
      if (!lua_isnil(L, -1))
        *values[i] = ett_lua_number_item(L, lua_tostring(L, names + name), i + 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return time;
}

#define FIELD(type, name, kind, names) ETT_STEP_LUA_FIELD(type, name, kind, names)
static const ett_step_lua_field operation_fields[] = {
    FIELD(ett_operation, dense_parameters, NUMBER, NULL),
    FIELD(ett_operation, expert_parameters, NUMBER, NULL),
    FIELD(ett_operation, frozen_dense, NUMBER, NULL),
    FIELD(ett_operation, spared_share, NUMBER, NULL),
    FIELD(ett_operation, frozen_expert, NUMBER, NULL),
    FIELD(ett_operation, quantised_bytes, NUMBER, NULL),
    FIELD(ett_operation, sharded_bytes, NUMBER, NULL),
    FIELD(ett_operation, scale_bytes, NUMBER, NULL),
    FIELD(ett_operation, activation_bytes, NUMBER, NULL),
    FIELD(ett_operation, dropped_bytes, NUMBER, NULL),
    FIELD(ett_operation, late_bytes, NUMBER, NULL),
    FIELD(ett_operation, matrix_parameters, NUMBER, NULL),
    FIELD(ett_operation, newton_seconds, NUMBER, NULL),
    FIELD(ett_operation, largest_newton_seconds, NUMBER, NULL),
    FIELD(ett_operation, working_bytes, NUMBER, NULL),
    FIELD(ett_operation, weight_working_bytes, NUMBER, NULL),
    FIELD(ett_operation, weight_share, NUMBER, NULL),
    FIELD(ett_operation, cached_shape, INTEGER, NULL),
    FIELD(ett_operation, cached_bytes, NUMBER, NULL),
    FIELD(ett_operation, flops, NUMBER, NULL),
    FIELD(ett_operation, selective, BOOLEAN, NULL),
    FIELD(ett_operation, waits_again, BOOLEAN, NULL),
    FIELD(ett_operation, hides_exchanges, BOOLEAN, NULL),
    FIELD(ett_operation, loss, BOOLEAN, NULL),
    FIELD(ett_operation, never_again, BOOLEAN, NULL),
    FIELD(ett_operation, beside_seconds, NUMBER, NULL),
    FIELD(ett_operation, role, NAME, role_names),
    FIELD(ett_operation, kind, NAME, kind_names),
    FIELD(ett_operation, host, NAME, host_names),
};
static const ett_step_lua_field kind_fields[] = {
    FIELD(ett_layer_kind, place, NAME, places),
    FIELD(ett_layer_kind, count, BIG_INTEGER, NULL),
    FIELD(ett_layer_kind, input_bytes, NUMBER, NULL),
    FIELD(ett_layer_kind, policy_bytes, NUMBER, NULL),
    FIELD(ett_layer_kind, remade_bytes, NUMBER, NULL),
    FIELD(ett_layer_kind, shared_bytes, NUMBER, NULL),
    FIELD(ett_layer_kind, boundary, NUMBER, NULL),
    FIELD(ett_layer_kind, forward_only, BOOLEAN, NULL),
    FIELD(ett_layer_kind, stored, BOOLEAN, NULL),
    FIELD(ett_layer_kind, owns_table, BOOLEAN, NULL),
    FIELD(ett_layer_kind, copies_table, BOOLEAN, NULL),
};
static const ett_step_lua_field message_fields[] = {
    FIELD(ett_program, boundary_bytes, NUMBER, NULL),
    FIELD(ett_program, tied_embedding_bytes, NUMBER, NULL),
    FIELD(ett_program, tied_frozen, BOOLEAN, NULL),
    FIELD(ett_program, element_bytes, INTEGER, NULL),
    FIELD(ett_program, recompute_layers, BIG_INTEGER, NULL),
    FIELD(ett_program, recompute_method, NAME, method_names),
    FIELD(ett_program, gather, INTEGER, NULL),
    FIELD(ett_program, lanes, INTEGER, NULL),
    FIELD(ett_program, workspace_bytes, NUMBER, NULL),
    FIELD(ett_program, context_bytes, NUMBER, NULL),
    FIELD(ett_program, communicator_bytes, NUMBER, NULL),
    FIELD(ett_program, output_bytes, NUMBER, NULL),
    FIELD(ett_program, kept_logits, NUMBER, NULL),
    FIELD(ett_program, gathers_tensors, BOOLEAN, NULL),
    FIELD(ett_program, whole_ends, BOOLEAN, NULL),
    FIELD(ett_program, master_shards, BOOLEAN, NULL),
    FIELD(ett_program, blocking_reductions, BOOLEAN, NULL),
    FIELD(ett_program, whole_stages, BOOLEAN, NULL),
    FIELD(ett_program, defers_gradients, BOOLEAN, NULL),
    FIELD(ett_program, frees_gradients, BOOLEAN, NULL),
    FIELD(ett_program, autocast, BOOLEAN, NULL),
    FIELD(ett_program, cast_bytes, NUMBER, NULL),
    FIELD(ett_program, foreach_update, BOOLEAN, NULL),
    FIELD(ett_program, owned_tensors, NUMBER, NULL),
    FIELD(ett_program, copies_gradients, BOOLEAN, NULL),
    FIELD(ett_program, kept_gradient_bytes, NUMBER, NULL),
    FIELD(ett_program, allocator_share, NUMBER, NULL),
    FIELD(ett_program, communication_share, NUMBER, NULL),
    FIELD(ett_program, exchange_communication_share, NUMBER, NULL),
};

/* Reads the lanes of an operation: a list of shares, "node" or "network"; nil: none. */
static void get_lanes(lua_State *L, int index, int name, ett_operation *o) {
  static const char *const names[] = {"node", "network"};
  int type = get_named(L, index, name);
  for (int i = 0; type == LUA_TSTRING && i < 2; i++)
    o->lanes[i] = strcmp(lua_tostring(L, -1), names[i]) == 0;
  for (int i = 0; type == LUA_TTABLE && i < ETT_LANES; i++) {
    lua_rawgeti(L, -1, i + 1);
    o->lanes[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Reads the points of a wait for the host: a list of seconds, operators and exchanges, in
 * turn; nil: none. */
static void get_points(lua_State *L, int index, int name, ett_operation *o) {
  size_t count = get_named(L, index, name) == LUA_TTABLE ? lua_rawlen(L, -1) : 0;
  ett_err err;
  if (count > 2 && !(o->points = calloc(count / 3, sizeof *o->points))) {
    ett_err_set(&err, ETT_ERR_MEMORY, "not enough memory for a step program");
    ett_lua_raise(L, &err);
  }
  o->point_count = count / 3;
  for (size_t i = 0; i < o->point_count; i++) {
    for (int k = 1; k <= 3; k++)
      lua_rawgeti(L, -k, (lua_Integer)(3 * i) + k);
    o->points[i] =
        (ett_host_point){lua_tonumber(L, -3), lua_tonumber(L, -2), lua_tonumber(L, -1)};
    lua_pop(L, 3);
  }
  lua_pop(L, 1);
}

/* Pushes table i, counted from 0, of a list of tables; returns its index. */
static int get_item(lua_State *L, int list, const char *name, size_t i) {
  if (lua_rawgeti(L, list, (lua_Integer)i + 1) != LUA_TTABLE)
    luaL_error(L, "'%s[%d]' must be a table, got %s", name, (int)i + 1,
               luaL_typename(L, -1));
  return lua_gettop(L);
}

/* Numbers that an operation does not have are 0; its role is then "outside". */
static void get_operations(lua_State *L, ett_program *program, int list) {
  enum { FIELDS = sizeof operation_fields / sizeof *operation_fields };
  int top = lua_gettop(L), names = top + 1 + FIELDS;
  ett_step_lua_push_names(L, operation_fields, FIELDS);
  luaL_checkstack(L, NAMES + LUA_MINSTACK, NULL);
  for (int i = 0; i < NAMES; i++)
    lua_pushstring(L, other_names[i]);
  for (size_t i = 0; i < program->operation_count; i++) {
    int at = get_item(L, list, "operations", i);
    ett_operation *o = &program->operations[i];
    ett_step_lua_read_given(L, at, top + 1, operation_fields, FIELDS, o);
    get_lanes(L, at, names + LANES, o);
    get_points(L, at, names + POINTS, o);
    o->forward = get_time(L, at, names, FORWARD);
    o->backward = get_time(L, at, names, BACKWARD);
    o->split = get_time(L, at, names, SPLIT);
    o->split_weight = get_time(L, at, names, SPLIT_WEIGHT);
    o->repeated = get_time(L, at, names, REPEATED);
    ett_err err, outer;
    if (ett_operation_check(o, &err) != 0) {
      ett_err_set(&outer, err.code, "operation '%s': %s",
                  ett_lua_string_field(L, at, "name", "?"), err.message);
      ett_lua_raise(L, &outer);
    }
    lua_pop(L, 1);
  }
  lua_settop(L, top);
}

/* The key of a field's entry on top of the stack: the index of an operation. */
static lua_Integer get_operation(lua_State *L, const ett_program *program,
                                 const char *field) {
  int is_integer;
  const lua_Integer operation = lua_tointegerx(L, -2, &is_integer);
  if (!is_integer || operation < 1 || (size_t)operation > program->operation_count)
    luaL_error(L, "field '%s' must have indexes of operations from 1 to %d, got %s",
               field, (int)program->operation_count, luaL_tolstring(L, -2, NULL));
  return operation;
}

/* Replaces the default, half of the runs, by those of the table on the stack. */
static void get_policy_uses(lua_State *L, ett_program *program, size_t kind) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    lua_Integer operation = get_operation(L, program, "policy_uses");
    lua_Number runs = ett_lua_number_item(L, "policy_uses", operation);
    if (!(runs >= 0 && isfinite(runs)))
      luaL_error(L, "'policy_uses[%I]' must be runs of at least 0, got %f",
                 (LUAI_UACINT)operation, runs);
    program->policy_uses[kind * program->operation_count + (size_t)operation - 1] = runs;
  }
}

static void get_kinds(lua_State *L, ett_program *program, int list) {
  for (size_t k = 0; k < program->kind_count; k++) {
    int at = get_item(L, list, "kinds", k);
    ett_step_lua_read(L, at, kind_fields, sizeof kind_fields / sizeof *kind_fields,
                      &program->kinds[k]);
    ett_lua_raw_field(L, at, "uses"); /* operation index -> number of runs */
    ett_lua_check_table(L, "uses");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      lua_Integer operation = get_operation(L, program, "uses");
      lua_Integer uses = ett_lua_integer_item(L, "uses", operation);
      if (uses < 0 || uses > INT32_MAX)
        luaL_error(L, "'uses[%I]' must be 0 to %d, got %I", (LUAI_UACINT)operation,
                   INT32_MAX, (LUAI_UACINT)uses);
      size_t place = k * program->operation_count + (size_t)operation - 1;
      program->uses[place] = (int32_t)uses;
      program->policy_uses[place] = (double)uses / 2;
    }
    if (ett_lua_raw_field(L, at, "policy_uses") == LUA_TTABLE)
      get_policy_uses(L, program, k);
    lua_settop(L, at - 1);
  }
}

/* Reads the description at an index into a new program, owned by `to`. */
static ett_program *get_program(lua_State *L, int index, ett_program **to) {
  int top = lua_gettop(L);
  luaL_checktype(L, index, LUA_TTABLE);
  ett_lua_raw_field(L, index, "operations");
  ett_lua_check_table(L, "operations");
  ett_lua_raw_field(L, index, "kinds");
  ett_lua_check_table(L, "kinds");
  ett_err err;
  ett_program *program = *to =
      ett_program_new(lua_rawlen(L, top + 1), lua_rawlen(L, top + 2), &err);
  if (!program)
    ett_lua_raise(L, &err);
  ett_step_lua_read(L, index, message_fields,
                    sizeof message_fields / sizeof *message_fields, program);
  get_operations(L, program, top + 1);
  get_kinds(L, program, top + 2);
  if (ett_program_check(program, &err) != 0)
    ett_lua_raise(L, &err);
  ett_program_finish(program);
  lua_settop(L, top);
  return program;
}

/* program({operations=, kinds=, boundary_bytes=, tied_embedding_bytes=, element_bytes=},
 * …): one description per part of a cluster, all with the same kinds of layers. */
static int program_new(lua_State *L) {
  int parts = lua_gettop(L);
  luaL_argcheck(L, parts <= ETT_PARTS_MOST, parts, "is one part too many");
  void **box = ett_lua_box_new(L, ETT_LUA_PROGRAM);
  ett_program *first = NULL, *program = NULL;
  for (int k = 1; k <= parts || k == 1; k++) {
    program = get_program(L, k, program ? &program->next : (ett_program **)box);
    first = first ? first : program;
    luaL_argcheck(L, program->kind_count == first->kind_count, k,
                  "has other kinds of layers than the first part");
  }
  return 1;
}

static int program_layers(lua_State *L) {
  lua_pushinteger(L, ett_program_middle_layers(to_program(L)));
  return 1;
}

/* Sets fields of the table on top of the stack from members of type double. */
static void set_doubles(lua_State *L, const ett_step_lua_field *fields, size_t count,
                        const void *from) {
  for (size_t i = 0; i < count; i++)
    ett_lua_set_number(L, fields[i].name,
                       *(const double *)((const char *)from + fields[i].offset));
}

static void push_stage(lua_State *L, const ett_step_stage *s) {
#define STAGE(name) FIELD(ett_step_stage, name, NUMBER, NULL)
  static const ett_step_lua_field fields[] = {
      STAGE(expert_parameters),
      STAGE(forward_seconds),
      STAGE(backward_seconds),
      STAGE(recompute_seconds),
      STAGE(all_to_all_overlapped_seconds),
      STAGE(micro_batch_forward_seconds),
      STAGE(micro_batch_backward_seconds),
      STAGE(send_seconds),
      STAGE(boundary_seconds),
      STAGE(pipeline_seconds),
      STAGE(gradient_seconds),
      STAGE(gradient_exposed_seconds),
      STAGE(tied_embedding_seconds),
      STAGE(wait_seconds),
      STAGE(optimizer_seconds),
      STAGE(optimizer_kernel_seconds),
      STAGE(newton_seconds),
      STAGE(newton_message_seconds),
      STAGE(gather_seconds),
      STAGE(gather_exposed_seconds),
      STAGE(expert_gradient_share),
      STAGE(expert_gather_share),
      STAGE(replica_share),
      STAGE(expert_replica_share),
      STAGE(end_seconds),
      STAGE(weight_bytes),
      STAGE(gradient_bytes),
      STAGE(optimizer_bytes),
      STAGE(activation_bytes),
      STAGE(loss_bytes),
      STAGE(temporary_bytes),
      STAGE(working_bytes),
      STAGE(update_bytes),
      STAGE(cached_bytes),
      STAGE(quantised_bytes),
      STAGE(workspace_bytes),
      STAGE(allocated_bytes),
      STAGE(fragment_bytes),
      STAGE(communicator_bytes),
      STAGE(context_bytes),
      STAGE(memory_bytes),
      STAGE(host_bytes),
      STAGE(offload_seconds),
  };
  lua_createtable(L, 0, 44);
  ett_lua_set_integer(L, "layers", s->layers);
  if (s->parts) {
    ett_lua_set_integer(L, "part", s->part + 1);
    ett_lua_set_integer(L, "parts", s->parts);
    ett_lua_set_number(L, "memory_limit_bytes", s->memory_limit_bytes);
  }
  ett_lua_set_number(L, "parameters", s->dense_parameters + s->expert_parameters);
  ett_lua_set_number(L, "matrix_parameters",
                     s->matrices[0].parameters + s->matrices[1].parameters);
  ett_lua_set_number(L, "frozen_parameters", s->frozen_dense + s->frozen_expert);
  set_doubles(L, fields, sizeof fields / sizeof *fields, s);
}

/* The arguments of a method of programs. */
typedef struct {
  ett_program *program;
  ett_step_plan plan;
  ett_demands *demands;
  ett_step_workspace *workspace;
  ett_err err;
} call;

/* Reads the arguments from 1 to 4: program, plan, demands, workspace. */
static void get_call(lua_State *L, call *c) {
  c->program = to_program(L);
  c->demands = ett_lua_box_check(L, 3, ETT_LUA_DEMANDS, "demands object");
  c->workspace = ett_lua_box_check(L, 4, ETT_LUA_WORKSPACE, "workspace");
  ett_step_lua_plan(L, 2, &c->plan);
}

/* Evaluates; raises on an error. 0 while demands have no time. */
static int evaluate(lua_State *L, call *c, int keep_units, ett_step_result *r) {
  int status =
      ett_step_evaluate(c->program, &c->plan, c->demands, c->workspace,
                        keep_units ? ETT_KEEP_UNITS : ETT_KEEP_STAGES, r, &c->err);
  return status < 0 ? ett_lua_raise(L, &c->err) : status == 0;
}

/* program:totals(plan, demands, workspace): step seconds, bytes of the fullest device,
 * bubble fraction, pipeline seconds, whether each stage fits its part of the cluster.
 * Nothing while demands have no time. */
static int program_totals(lua_State *L) {
  call c;
  get_call(L, &c);
  ett_step_result result;
  if (!evaluate(L, &c, 0, &result))
    return 0;
  lua_pushnumber(L, result.step_seconds);
  lua_pushnumber(L, result.memory_bytes);
  lua_pushnumber(L, result.bubble_fraction);
  lua_pushnumber(L, result.pipeline_seconds);
  lua_pushboolean(L, result.fits);
  return 5;
}

/* Pushes { { runs of each kind of layer }, … }, one list per part. */
static void push_part_runs(lua_State *L, const ett_program *program, int parts,
                           const double *runs) {
  lua_createtable(L, parts, 0);
  for (int k = 0; k < parts; k++) {
    lua_createtable(L, (int)program->kind_count, 0);
    for (size_t i = 0; i < program->kind_count; i++) {
      lua_pushnumber(L, runs[(size_t)k * program->kind_count + i]);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_rawseti(L, -2, k + 1);
  }
}

/* program:evaluate(plan, demands, workspace [, keep_units]): the complete result; nothing
 * while demands have no time. */
static int program_evaluate(lua_State *L) {
#define RESULT(name) FIELD(ett_step_result, name, NUMBER, NULL)
  static const ett_step_lua_field fields[] = {
      RESULT(step_seconds), RESULT(pipeline_seconds), RESULT(bubble_fraction),
      RESULT(flops),        RESULT(memory_bytes),     RESULT(update_share),
      RESULT(split_share),  RESULT(device_seconds),
  };
  int keep_units = lua_toboolean(L, 5);
  call c;
  get_call(L, &c);
  ett_step_result r;
  if (!evaluate(L, &c, keep_units, &r))
    return 0;
  lua_createtable(L, 0, 8);
  set_doubles(L, fields, sizeof fields / sizeof *fields, &r);
  lua_createtable(L, r.stages, 0);
  for (int i = 0; i < r.stages; i++) {
    push_stage(L, &r.stage[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "stages");
  lua_createtable(L, (int)r.demand_count, 0);
  for (size_t i = 0; i < r.demand_count; i++) {
    ett_step_lua_push_demand(L, 3, r.demands[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "demands");
  ett_lua_set_boolean(L, "fits", r.fits);
  if (r.part_runs) {
    push_part_runs(L, c.program, c.plan.parts.count, r.part_runs);
    lua_setfield(L, -2, "part_runs");
  }
  if (keep_units)
    ett_step_lua_set_transfers(L, &r.run, &r.links);
  return 1;
}

/* program:outline(plan, demands, workspace): bytes of the fullest device, and lower
 * bounds of pipeline seconds and step seconds. */
static int program_outline(lua_State *L) {
  call c;
  get_call(L, &c);
  ett_step_outline_result o;
  if (ett_step_outline(c.program, &c.plan, c.demands, c.workspace, 0, &o, &c.err) != 0)
    return ett_lua_raise(L, &c.err);
  lua_pushnumber(L, o.memory_bytes);
  lua_pushnumber(L, o.pipeline_seconds);
  lua_pushnumber(L, o.step_seconds);
  return 3;
}

/* program:interval(plan, demands, workspace, correlation): low, high seconds. */
static int program_interval(lua_State *L) {
  double correlation = luaL_checknumber(L, 5), low, high;
  luaL_argcheck(L, correlation >= 0 && correlation <= 1, 5, "must be 0 to 1");
  call c;
  get_call(L, &c);
  int status = ett_step_interval(c.program, &c.plan, c.demands, c.workspace, correlation,
                                 &low, &high, &c.err);
  if (status < 0)
    return ett_lua_raise(L, &c.err);
  if (status > 0)
    return 0;
  lua_pushnumber(L, low);
  lua_pushnumber(L, high);
  return 2;
}

/* program:slowed(plan, demands, workspace, factors): step seconds for lists of factors of
 * the operators' times, one number per stage, all in one list. Nothing while demands have
 * no time. */
static int program_slowed(lua_State *L) {
  size_t numbers;
  call c;
  const double *factors = ett_lua_doubles(L, 5, &numbers);
  get_call(L, &c);
  luaL_argcheck(L, c.plan.pp >= 1, 2, "has no stages");
  luaL_argcheck(L, numbers % (size_t)c.plan.pp == 0, 5,
                "must hold one factor per stage in each list");
  size_t count = numbers / (size_t)c.plan.pp;
  for (size_t i = 0; i < numbers; i++)
    luaL_argcheck(L, factors[i] > 0 && isfinite(factors[i]), 5, "must hold factors");
  double *seconds = lua_newuserdatauv(L, (count + 1) * sizeof *seconds, 0);
  int status = ett_step_slowed(c.program, &c.plan, c.demands, c.workspace, factors, count,
                               seconds, &c.err);
  if (status < 0)
    return ett_lua_raise(L, &c.err);
  if (status > 0)
    return 0;
  ett_lua_push_doubles(L, seconds, count);
  return 1;
}

/* split(layers, slices): the number of layers of each slice. */
static int split(lua_State *L) {
  lua_Integer layers = luaL_checkinteger(L, 1), slices = luaL_checkinteger(L, 2);
  luaL_argcheck(L, layers >= 0, 1, "must be at least 0");
  luaL_argcheck(L, slices >= 1 && slices <= 1 << 22, 2, "must be 1 to 4194304");
  int64_t *values = lua_newuserdatauv(L, (size_t)slices * sizeof *values, 0);
  ett_split_even(layers, (int)slices, values);
  ett_lua_push_integers(L, values, (size_t)slices);
  return 1;
}

static const luaL_Reg program_methods[] = {
    {"evaluate", program_evaluate},
    {"totals", program_totals},
    {"outline", program_outline},
    {"interval", program_interval},
    {"slowed", program_slowed},
    {"layers", program_layers},
    {NULL, NULL},
};

enum { MOST_KEY_FIELDS = 32 };

/* shape_key(names, shape): the integers of these fields, 8 bytes each; the least integer
 * stands for a missing one. nil if another value is among them or there are too many. */
static int shape_key(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  lua_Integer values[MOST_KEY_FIELDS];
  size_t count = lua_rawlen(L, 1);
  if (count > MOST_KEY_FIELDS)
    return 0;
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    int is_integer = lua_rawget(L, 2) == LUA_TNIL;
    if (is_integer)
      values[i] = LUA_MININTEGER;
    else if ((is_integer = lua_isinteger(L, -1)))
      values[i] = lua_tointeger(L, -1);
    if (!is_integer)
      return 0;
    lua_settop(L, 2);
  }
  lua_pushlstring(L, (const char *)values, count * sizeof *values);
  return 1;
}

/* is_time(seconds, low, high): whether these are numbers, finite and at least 0, and the
 * interval holds the time. */
static int is_time(lua_State *L) {
  lua_settop(L, 3);
  int numbers = 1;
  for (int i = 1; i <= 3; i++)
    numbers = numbers && lua_type(L, i) == LUA_TNUMBER;
  double seconds = lua_tonumber(L, 1), low = lua_tonumber(L, 2);
  double high = lua_tonumber(L, 3);
  lua_pushboolean(L, numbers && low >= 0 && low <= seconds && seconds <= high &&
                         high < HUGE_VAL);
  return 1;
}

static const luaL_Reg functions[] = {
    {"is_time", is_time},
    {"program", program_new},
    {"shape_key", shape_key},
    {"split", split},
    {NULL, NULL},
};

int luaopen_ett_step(lua_State *L) {
  ett_lua_type(L, ETT_LUA_PROGRAM, program_methods, program_close);
  luaL_newlib(L, functions);
  ett_step_lua_open_demands(L);
  ett_step_lua_open_plans(L);
  ett_step_lua_open_orders(L);
  ett_step_lua_open_pipelines(L);
  ett_step_lua_open_links(L);
  return 1;
}
