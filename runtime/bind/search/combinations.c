/* Combinations of ett.search: the plans of a sweep, and its results. */
#include <limits.h>
#include <string.h>

#include "bind/search/search.h"
#include "bind/step/step.h"
#include "search/combinations.h"

#define ETT_LUA_COMBINATIONS "ett.search.combinations"

enum { AXES_MOST = 64, VALUES_MOST = 1 << 28 };

static ett_combinations *to_combinations(lua_State *L) {
  return ett_lua_box_check(L, 1, ETT_LUA_COMBINATIONS, "list of combinations");
}

ETT_LUA_CLOSE(combinations_close, ETT_LUA_COMBINATIONS, ett_combinations_free)

static int checked(lua_State *L, int status, const ett_err *err) {
  return status < 0 ? ett_lua_raise(L, err) : status;
}

static const char *const size_names[] = {
    "pp", "tp", "cp", "dp", "micro_batch", "seq", "micro_batches", "global_batch", NULL};

/* A member of plans; no member without a name or field. */
static ett_plan_member member_of(const ett_step_lua_field *field) {
  if (!field)
    return (ett_plan_member){0, 0};
  int wide = field->kind == BIG_INTEGER || field->kind == NUMBER;
  return (ett_plan_member){field->offset, wide ? sizeof(int64_t) : sizeof(int)};
}

/* Reads the `count` values of the list in a field of the table on top as values of a
 * member; they stay on the stack. */
static ett_member_value *get_values(lua_State *L, const char *name, size_t count,
                                    const ett_step_lua_field *field) {
  ett_lua_raw_field(L, -1, name);
  ett_lua_check_table(L, name);
  ett_member_value *values = lua_newuserdatauv(L, (count + 1) * sizeof *values, 0);
  for (size_t k = 0; k < count; k++) {
    lua_rawgeti(L, -2, (lua_Integer)k + 1);
    ett_step_lua_read_field(L, field, &values[k]);
    lua_pop(L, 1);
  }
  return values;
}

/* Reads axis i, the table on top. */
static void get_axis(lua_State *L, ett_combinations *c, size_t i, size_t count) {
  int top = lua_gettop(L), size = -1;
  ett_err err;
  const char *name = ett_lua_string_field(L, top, "field", NULL);
  const ett_step_lua_field *field = name ? ett_step_lua_plan_field(name) : NULL;
  if (field)
    checked(L,
            ett_combinations_axis(c, i, member_of(field),
                                  get_values(L, "in_c", count, field), &err),
            &err);
  lua_settop(L, top);
  name = ett_lua_string_field(L, top, "name", "");
  for (int k = 0; size_names[k]; k++)
    if (strcmp(size_names[k], name) == 0)
      size = k;
  if (size >= 0) {
    static const ett_step_lua_field big = {"value", BIG_INTEGER, 0, NULL};
    const ett_member_value *values = get_values(L, "values", count, &big);
    int64_t *sizes = lua_newuserdatauv(L, (count + 1) * sizeof *sizes, 0);
    for (size_t k = 0; k < count; k++)
      sizes[k] = values[k].big;
    checked(L, ett_combinations_size(c, i, (ett_plan_size)size, sizes, &err), &err);
  }
  lua_settop(L, top);
}

static ett_combinations_settings get_settings(lua_State *L, int index) {
  ett_combinations_settings s;
  memset(&s, 0, sizeof s);
  for (int k = 0; size_names[k]; k++)
    s.size[k] = ett_lua_integer_field(L, index, size_names[k], 0);
  s.devices = ett_lua_integer_field(L, index, "devices", 0);
  s.memory_limit = ett_lua_number_field(L, index, "memory_limit", 0);
  s.caller_sets = ett_lua_boolean_field(L, index, "caller_sets", 0);
  s.share_rank = ett_lua_integer_field(L, index, "share_rank", 0);
  s.share_size = ett_lua_integer_field(L, index, "share_size", 1);
  s.share_every = ett_lua_integer_field(L, index, "share_every", 1);
  luaL_argcheck(L, s.share_every >= 1, index, "share_every must be at least 1");
  return s;
}

/* combinations({{name=, count=, values=, field=, in_c={…}}, …}, settings): the last axis
 * changes fastest. in_c[k] is value k of the plan field that C reads; without a field the
 * axis does not change the plan. settings: sizes without an axis, devices, memory_limit,
 * caller_sets, share_rank, share_size, share_every. */
static int combinations_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  size_t axes = lua_rawlen(L, 1), counts[AXES_MOST];
  luaL_argcheck(L, axes <= AXES_MOST, 1, "must hold at most 64 fields");
  for (size_t i = 0; i < axes; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    if (!lua_istable(L, -1))
      luaL_error(L, "field %d must be a table, got %s", (int)i + 1, luaL_typename(L, -1));
    lua_Integer count = ett_lua_integer_field(L, -1, "count", 0);
    luaL_argcheck(L, count <= VALUES_MOST, 1, "has a field with too many values");
    counts[i] = count > 0 ? (size_t)count : 0;
  }
  ett_combinations_settings settings = get_settings(L, 2);
  void **box = ett_lua_box_new(L, ETT_LUA_COMBINATIONS), *context;
  lua_Alloc allocate = lua_getallocf(L, &context); /* the memory counts as Lua's */
  ett_err err;
  ett_combinations *c = *box =
      ett_combinations_new(counts, axes, &settings, allocate, context, &err);
  if (!c)
    return ett_lua_raise(L, &err);
  for (size_t i = 0; i < axes; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    get_axis(L, c, i, counts[i]);
  }
  return 1;
}

/* The user value of combinations: fields by number of function, and what they use. */
static void keep(lua_State *L) {
  if (lua_getiuservalue(L, 1, 1) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, 1);
  }
}

/* combinations:ask(kind [, field]): adds a function of kind "rule", "program" or
 * "member"; returns its number. */
static int list_ask(lua_State *L) {
  static const char *const kinds[] = {"rule", "program", "member", NULL};
  ett_combinations *c = to_combinations(L);
  int kind = luaL_checkoption(L, 2, NULL, kinds);
  const ett_step_lua_field *field = NULL;
  if (kind == ETT_FUNCTION_MEMBER) {
    field = ett_step_lua_plan_field(luaL_checkstring(L, 3));
    luaL_argcheck(L, field, 3, "must be a field that C reads");
  }
  ett_err err;
  int number = checked(
      L, ett_combinations_function(c, (ett_function_kind)kind, member_of(field), &err),
      &err);
  if (field) {
    keep(L);
    lua_pushlightuserdata(L, (void *)field);
    lua_rawseti(L, -2, number + 1);
  }
  lua_pushinteger(L, number + 1);
  return 1;
}

/* combinations:program(program, demands): adds them; returns its number. */
static int list_program(lua_State *L) {
  ett_combinations *c = to_combinations(L);
  const ett_program *program = ett_lua_box_check(L, 2, ETT_LUA_PROGRAM, "program");
  ett_demands *demands = ett_lua_box_check(L, 3, ETT_LUA_DEMANDS, "demands object");
  keep(L);
  for (int i = 2; i <= 3; i++) {
    lua_pushvalue(L, i);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  ett_err err;
  int number = checked(L, ett_combinations_program(c, program, demands, &err), &err);
  lua_pushinteger(L, number + 1);
  return 1;
}

/* The index of a program; -1, which is none, for a number beyond an int. */
static int program_number(lua_Integer number) {
  return number >= 1 && number <= INT_MAX ? (int)number - 1 : -1;
}

/* combinations:learn(function, axes, answer [, refusal]): the answer of a function
 * for the plan at which run() stopped. axes: numbers of those that it read, in their
 * order; refusal: number of its sentence. */
static int list_learn(lua_State *L) {
  ett_combinations *c = to_combinations(L);
  lua_Integer number = luaL_checkinteger(L, 2), refusal = luaL_optinteger(L, 5, 0);
  luaL_argcheck(L, number >= 1 && number <= INT_MAX, 2, "must be a function's number");
  luaL_argcheck(L, refusal >= 0 && refusal <= INT32_MAX, 5, "must be a refusal's number");
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 4);
  size_t count = lua_rawlen(L, 3), axes[AXES_MOST];
  luaL_argcheck(L, count <= AXES_MOST, 3, "has too many axes");
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    axes[i] = (size_t)ett_lua_integer_item(L, "axes", (lua_Integer)i + 1) - 1;
  }
  ett_member_value value = {.big = 0};
  keep(L);
  lua_rawgeti(L, -1, number);
  const ett_step_lua_field *field = lua_touserdata(L, -1);
  lua_pushvalue(L, 4);
  if (refusal == 0 && field)
    ett_step_lua_read_field(L, field, &value);
  else if (refusal == 0 && lua_isinteger(L, 4))
    value.integer = program_number(lua_tointeger(L, 4));
  ett_err err;
  return checked(L,
                 ett_combinations_learn(c, (int)number - 1, axes, count, value,
                                        (int32_t)refusal, &err),
                 &err);
}

/* Raises if a program or its demands, which the user value holds, are closed. */
static void check_programs(lua_State *L) {
  keep(L);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TUSERDATA && !*(void **)lua_touserdata(L, -2))
      luaL_error(L, "a program of the combinations is closed");
  lua_pop(L, 1);
}

/* combinations:run(plan, workspace, last [, is_set [, orders]]): evaluates plans up to
 * number `last`. Returns nothing when all are done; else "answer" (a function must be
 * learned), "set", "times" or "fault", the plan's number, and: the function's number,
 * the program's, or the error. */
static int list_run(lua_State *L) {
  static const char *const names[] = {NULL, "answer", "set", "times", "fault"};
  ett_combinations *c = to_combinations(L);
  ett_step_plan plan;
  lua_settop(L, 6);
  ett_step_lua_plan(L, 2, &plan);
  ett_step_workspace *workspace = ett_lua_box_check(L, 3, ETT_LUA_WORKSPACE, "workspace");
  ett_step_lua_give_orders(L, 6, &plan);
  check_programs(L);
  ett_combinations_stop stop = {0};
  ett_err err;
  ett_stop found = ett_combinations_run(c, &plan, lua_toboolean(L, 5),
                                        luaL_checkinteger(L, 4), workspace, &stop, &err);
  if (found == ETT_STOP_DONE)
    return 0;
  lua_pushstring(L, names[found]);
  lua_pushinteger(L, stop.number);
  if (found == ETT_STOP_FAULT)
    ett_lua_push_error(L, &err);
  else
    lua_pushinteger(L, (found == ETT_STOP_ANSWER ? stop.function : stop.program) + 1);
  return 3;
}

/* combinations:refuse(): the plan at which run() stopped. */
static int list_refuse(lua_State *L) {
  ett_combinations_refuse(to_combinations(L));
  return 0;
}

/* combinations:refused(): how many plans; number and refusal of the first that a function
 * refused. */
static int list_refused(lua_State *L) {
  int64_t first;
  int32_t refusal;
  lua_pushinteger(L, ett_combinations_refused(to_combinations(L), &first, &refusal));
  if (refusal == 0)
    return 1;
  lua_pushinteger(L, first);
  lua_pushinteger(L, refusal);
  return 3;
}

/* combinations:sort(objective [, most]): plans that fit come first; then by objective,
 * then by number. Keeps only the first `most`. */
static int list_sort(lua_State *L) {
  static const char *const objectives[] = {"step_seconds", "memory_bytes",
                                           "tokens_per_second",
                                           "tokens_per_second_per_device", NULL};
  ett_combinations *c = to_combinations(L);
  int objective = luaL_checkoption(L, 2, NULL, objectives);
  ett_combinations_sort(c, (ett_objective)objective, luaL_optinteger(L, 3, -1));
  return 0;
}

/* combinations:row(i, table): writes a row's results to the table. Returns the number of
 * its combination, or nil. */
static int list_row(lua_State *L) {
  size_t count;
  const ett_outcome *list = ett_combinations_list(to_combinations(L), &count);
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  if (i < 1 || (size_t)i > count)
    return 0;
  const ett_outcome o = list[i - 1]; /* a metamethod of the table may close the list */
  ett_lua_set_number(L, "step_seconds", o.step_seconds);
  ett_lua_set_number(L, "memory_bytes", o.memory_bytes);
  ett_lua_set_number(L, "bubble_percent", 100 * o.bubble_fraction);
  ett_lua_set_number(L, "tokens_per_second", ett_outcome_tokens_per_second(&o));
  ett_lua_set_number(L, "tokens_per_second_per_device",
                     ett_outcome_tokens_per_second_per_device(&o));
  ett_lua_set_integer(L, "devices", o.devices);
  ett_lua_set_number(L, "memory_limit_bytes", o.memory_limit);
  ett_lua_set_boolean(L, "fits", ett_outcome_fits(&o));
  lua_pushinteger(L, o.number);
  return 1;
}

static int list_count(lua_State *L) {
  size_t count;
  ett_combinations_list(to_combinations(L), &count);
  lua_pushinteger(L, (lua_Integer)count);
  return 1;
}

/* combinations:sum(): number of plans evaluated; whether any fits; number, bytes and
 * limit of the plan with the least memory, if any. Includes plans that sort() dropped. */
static int list_sum(lua_State *L) {
  const ett_outcome_sum *sum = ett_combinations_sum(to_combinations(L));
  lua_pushinteger(L, sum->evaluated);
  lua_pushboolean(L, sum->any_fits != 0);
  if (!sum->least.number)
    return 2;
  lua_pushinteger(L, sum->least.number);
  lua_pushnumber(L, sum->least.memory_bytes);
  lua_pushnumber(L, sum->least.memory_limit);
  return 5;
}

/* combinations:take(): returns totals and outcomes as bytes in this machine's format, and
 * empties the list. */
static int list_take(lua_State *L) {
  ett_combinations *c = to_combinations(L);
  size_t count;
  const ett_outcome *list = ett_combinations_list(c, &count);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addlstring(&b, (const char *)ett_combinations_sum(c), sizeof(ett_outcome_sum));
  if (count > 0)
    luaL_addlstring(&b, (const char *)list, count * sizeof *list);
  luaL_pushresult(&b);
  ett_combinations_clear(c);
  return 1;
}

/* combinations:give(bytes): adds the bytes that another rank got from take(). */
static int list_give(lua_State *L) {
  ett_combinations *c = to_combinations(L);
  size_t length;
  const char *bytes = luaL_checklstring(L, 2, &length);
  ett_outcome_sum part;
  luaL_argcheck(
      L, length >= sizeof part && (length - sizeof part) % sizeof(ett_outcome) == 0, 2,
      "must be bytes of take()");
  memcpy(&part, bytes, sizeof part);
  ett_combinations_add_sum(c, &part);
  for (size_t at = sizeof part; at < length; at += sizeof(ett_outcome)) {
    ett_outcome o;
    ett_err err;
    memcpy(&o, bytes + at, sizeof o);
    checked(L, ett_combinations_add(c, &o, &err), &err);
  }
  return 0;
}

static const luaL_Reg methods[] = {
    {"ask", list_ask},   {"program", list_program}, {"learn", list_learn},
    {"run", list_run},   {"refuse", list_refuse},   {"refused", list_refused},
    {"sort", list_sort}, {"row", list_row},         {"count", list_count},
    {"sum", list_sum},   {"take", list_take},       {"give", list_give},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"combinations", combinations_new},
    {NULL, NULL},
};

void ett_search_lua_open_combinations(lua_State *L) {
  ett_lua_type(L, ETT_LUA_COMBINATIONS, methods, combinations_close);
  luaL_setfuncs(L, functions, 0);
}
