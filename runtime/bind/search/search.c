/* ett.search - binding of runtime/search: axes, plans of a part, and chances. */
#include <limits.h>
#include <string.h>

#include "bind/search/search.h"
#include "bind/step/step.h"
#include "search/chance.h"
#include "search/walk.h"

#define ETT_LUA_AXES "ett.search.axes"

int luaopen_ett_search(lua_State *L);

/* The position in `names` of the string on top of the stack, element i of a list. */
static int get_choice(lua_State *L, const char *list, int i, const char *const *names) {
  const char *value = ett_lua_string_item(L, list, i);
  for (int k = 0; names[k]; k++)
    if (strcmp(names[k], value) == 0)
      return k;
  return luaL_error(L, "'%s[%d]' has the unknown value '%s'", list, i, value);
}

/* The integer on top of the stack, element i of a list; -1 stands for a large one. */
static int get_small(lua_State *L, const char *list, int i) {
  const lua_Integer value = ett_lua_integer_item(L, list, i);
  return value >= 0 && value <= INT_MAX ? (int)value : -1;
}

/* Reads the list in a field of the table at 1 into values; returns its length. */
static int get_list(lua_State *L, const char *name, const char *const *names, int most,
                    int *values) {
  ett_lua_raw_field(L, 1, name);
  ett_lua_check_table(L, name);
  int count = (int)lua_rawlen(L, -1);
  if (count < 1 || count > most)
    luaL_error(L, "field '%s' must hold 1 to %d values, got %d", name, most, count);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, -1, i + 1);
    if (names)
      values[i] = get_choice(L, name, i + 1, names);
    else
      values[i] = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : get_small(L, name, i + 1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return count;
}

/* axes{recompute=, zero=, reshard=, overlap_parameters=, overlap_gradients=,
 * overlap_sends=}: each a list of values. */
static int axes_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  ett_search_axes a;
  memset(&a, 0, sizeof a);
  a.recomputes =
      get_list(L, "recompute", ett_step_lua_recomputes, ETT_SEARCH_MOST, a.recompute);
  a.zeros = get_list(L, "zero", NULL, ETT_SEARCH_MOST, a.zero);
  for (int i = 0; i < a.zeros; i++)
    if (a.zero[i] < 0 || a.zero[i] > ETT_ZERO_PARAMETERS)
      luaL_error(L, "'zero[%d]' must be 0 to %d", i + 1, ETT_ZERO_PARAMETERS);
  a.reshards = get_list(L, "reshard", NULL, 2, a.reshard);
  a.parameters = get_list(L, "overlap_parameters", NULL, 2, a.overlap_parameters);
  a.gradients = get_list(L, "overlap_gradients", NULL, 2, a.overlap_gradients);
  a.sends = get_list(L, "overlap_sends", NULL, 2, a.overlap_sends);
  ett_search_axes *box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = a;
  luaL_setmetatable(L, ETT_LUA_AXES);
  return 1;
}

static void push_row(lua_State *L, const ett_search_axes *a, const ett_search_row *r) {
  lua_createtable(L, 0, 32);
  ett_lua_set_string(L, "recompute", ett_step_lua_recomputes[a->recompute[r->recompute]]);
  ett_lua_set_integer(L, "zero", a->zero[r->zero]);
  ett_lua_set_boolean(L, "reshard", a->reshard[r->reshard]);
  ett_lua_set_boolean(L, "overlap_parameters",
                      a->overlap_parameters[r->overlap_parameters]);
  ett_lua_set_boolean(L, "overlap_gradients", a->overlap_gradients[r->overlap_gradients]);
  ett_lua_set_boolean(L, "overlap_sends", a->overlap_sends[r->overlap_sends]);
  ett_lua_set_number(L, "step_seconds", r->step_seconds);
  ett_lua_set_number(L, "memory_bytes", r->memory_bytes);
  ett_lua_set_number(L, "shard_parameters", r->shard_parameters);
}

/* Adds the counts to fields of the table at index. */
static void add_counts(lua_State *L, int index, const ett_search_counts *c) {
  int top = lua_gettop(L);
  const struct {
    const char *name;
    int64_t value;
  } fields[] = {{"plans", c->plans},         {"forbidden", c->forbidden},
                {"too_large", c->too_large}, {"bounded", c->bounded},
                {"evaluated", c->evaluated}, {"refused", c->refused}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const lua_Integer before = ett_lua_integer_field(L, index, fields[i].name, 0);
    lua_pushstring(L, fields[i].name);
    lua_pushinteger(L,
                    (lua_Integer)((lua_Unsigned)before + (lua_Unsigned)fields[i].value));
    lua_rawset(L, index);
  }
  if (c->refusal[0] && ett_lua_raw_field(L, index, "refusal") == LUA_TNIL) {
    lua_pushstring(L, "refusal");
    lua_pushstring(L, c->refusal);
    lua_rawset(L, index);
  }
  lua_settop(L, top);
}

/* The arguments of survey, expand and evaluate. */
typedef struct call {
  ett_search_part part;
  ett_step_plan plan;
  ett_search_limits limits;
} call;

/* Reads these arguments. */
static void get_call(lua_State *L, call *c) {
  const ett_search_axes *axes = luaL_checkudata(L, 5, ETT_LUA_AXES);
  luaL_checktype(L, 6, LUA_TTABLE);
  luaL_checktype(L, 7, LUA_TTABLE);
  size_t length = 0, count = 0;
  const char *allowed = luaL_optlstring(L, 8, NULL, &length);
  int plans = axes->recomputes * axes->zeros * axes->reshards * axes->parameters *
              axes->gradients * axes->sends;
  luaL_argcheck(L, !allowed || (int)length == plans, 8, "must hold a byte a plan");
  *c =
      (call){.part = {ett_lua_box_check(L, 1, ETT_LUA_PROGRAM, "program"), &c->plan, axes,
                      (const uint8_t *)allowed,
                      ett_lua_box_check(L, 3, ETT_LUA_DEMANDS, "demands object"),
                      ett_lua_box_check(L, 4, ETT_LUA_WORKSPACE, "workspace")},
             .limits = {.memory_bytes = ett_lua_number_field(L, 6, "memory_bytes", 0),
                        .exhaustive = ett_lua_boolean_field(L, 6, "exhaustive", 0),
                        .excluded = (unsigned)ett_lua_number_field(L, 6, "excluded", 0)}};
  const double *steps = ett_lua_doubles(L, 6, &count);
  luaL_argcheck(L, count % 2 == 0, 6, "must hold pairs");
  ett_search_step *list = lua_newuserdatauv(L, (count + 1) * sizeof *list, 0);
  for (size_t i = 0; i < count / 2; i++)
    list[i] = (ett_search_step){steps[2 * i], steps[2 * i + 1]};
  c->limits.steps = list;
  c->limits.step_count = count / 2;
  ett_step_lua_plan(L, 2, &c->plan);
}

/* survey(program, plan, demands, workspace, axes, limits, counts, allowed): a lower bound
 * of the plans' step time, or nil while demands have no time. Infinite: bounds exclude
 * all plans. Second: bits of the kinds of recomputation of which all plans need too much
 * memory, or conflict. Adds to the fields of counts. limits: {memory_bytes=, exhaustive=,
 * excluded = these bits if they are known, and the best steps as pairs memory_bytes,
 * step_seconds}. */
static int survey(lua_State *L) {
  call c;
  get_call(L, &c);
  ett_search_counts counts = {0};
  unsigned excluded;
  double least = ett_search_survey(&c.part, &c.limits, &counts, &excluded);
  if (counts.untimed > 0)
    return 0;
  add_counts(L, 7, &counts);
  lua_pushnumber(L, least);
  lua_pushinteger(L, excluded);
  return 2;
}

/* expand(the same arguments): the leaves that bounds do not exclude, as five numbers
 * each: recompute, zero, reshard, overlap_parameters, lower bound. nil while demands have
 * no time. */
static int expand(lua_State *L) {
  call c;
  get_call(L, &c);
  ett_search_row leaves[ETT_SEARCH_LEAVES];
  ett_search_counts counts = {0};
  size_t count;
  ett_search_expand(&c.part, &c.limits, leaves, &count, &counts);
  if (counts.untimed > 0)
    return 0;
  add_counts(L, 7, &counts);
  lua_createtable(L, (int)count * 5, 0);
  for (size_t i = 0; i < count; i++) {
    const ett_search_row *leaf = &leaves[i];
    const int values[] = {leaf->recompute, leaf->zero, leaf->reshard,
                          leaf->overlap_parameters};
    for (int k = 0; k < 4; k++) {
      lua_pushinteger(L, values[k]);
      lua_rawseti(L, -2, (lua_Integer)(5 * i) + k + 1);
    }
    lua_pushnumber(L, leaf->step_seconds);
    lua_rawseti(L, -2, (lua_Integer)(5 * i) + 5);
  }
  return 1;
}

/* passes(program): seconds that the passes of a micro-batch take at least in all layers,
 * by overlap_all_to_all and recompute. */
static int passes(lua_State *L) {
  const ett_program *program = ett_lua_box_check(L, 1, ETT_LUA_PROGRAM, "program");
  lua_createtable(L, 0, ETT_EXCHANGE_OVERLAPS);
  for (int o = 0; o < ETT_EXCHANGE_OVERLAPS; o++) {
    lua_createtable(L, 0, ETT_RECOMPUTES);
    for (int r = 0; r < ETT_RECOMPUTES; r++)
      ett_lua_set_number(
          L, ett_step_lua_recomputes[r],
          ett_search_passes(program, (ett_exchange_overlap)o, (ett_recompute)r));
    lua_setfield(L, -2, ett_step_lua_overlaps[o]);
  }
  return 1;
}

static int get_index(lua_State *L, int argument, int count) {
  lua_Integer index = luaL_checkinteger(L, argument);
  luaL_argcheck(L, index >= 0 && index < count, argument, "is no index of the axes");
  return (int)index;
}

/* evaluate(the same arguments, recompute, zero, reshard, overlap_parameters): the fastest
 * plan of a leaf as a row; false if no plan qualifies; nil while demands have no time. */
static int evaluate(lua_State *L) {
  call c;
  get_call(L, &c);
  const ett_search_axes *axes = c.part.axes;
  ett_search_row row = {.recompute = get_index(L, 9, axes->recomputes),
                        .zero = get_index(L, 10, axes->zeros),
                        .reshard = get_index(L, 11, axes->reshards),
                        .overlap_parameters = get_index(L, 12, axes->parameters)};
  ett_search_counts counts = {0};
  ett_err err;
  int found = ett_search_evaluate(&c.part, &c.limits, &row, &counts, &err);
  if (found < 0)
    return ett_lua_raise(L, &err);
  if (counts.untimed > 0)
    return 0;
  add_counts(L, 7, &counts);
  if (found)
    push_row(L, axes, &row);
  else
    lua_pushboolean(L, 0);
  return 1;
}

/* chances(plans, parts, spreads, {own, same, shared}, draws): for each plan, the chance
 * that it is the best. plans and spreads: the numbers of ett_chance. */
static int chances(lua_State *L) {
  lua_Integer parts = luaL_checkinteger(L, 2);
  luaL_argcheck(L, parts >= 0 && parts <= 1024, 2, "must be 0 to 1024");
  ett_chance c = {.parts = (size_t)parts};
  size_t numbers, placed, errors, width = ETT_CHANCE_PARTS + c.parts;
  lua_Integer draws = luaL_checkinteger(L, 5);
  for (int i = 1; i <= 4; i++)
    if (i != 2)
      luaL_checktype(L, i, LUA_TTABLE);
  c.plans = ett_lua_doubles(L, 1, &numbers);
  c.spreads = ett_lua_doubles(L, 3, &placed);
  const double *error = ett_lua_doubles(L, 4, &errors);
  luaL_argcheck(L, numbers % width == 0, 1, "must hold the same numbers for each plan");
  luaL_argcheck(L, placed % ETT_CHANCE_PLACED == 0, 3,
                "must hold three numbers for each place");
  luaL_argcheck(L, errors == 3, 4, "must hold three numbers");
  luaL_argcheck(L, draws > 0 && draws <= 1 << 30, 5, "must be 1 to 2^30");
  c.count = numbers / width, c.places = placed / ETT_CHANCE_PLACED;
  for (size_t i = 0; i < c.places; i++) {
    double software = c.spreads[i * ETT_CHANCE_PLACED + ETT_CHANCE_SOFTWARE];
    luaL_argcheck(L, software >= 0 && software < (double)c.places, 3,
                  "names no software");
    if (software >= (double)c.software)
      c.software = (size_t)software + 1;
  }
  c.own = error[0], c.same = error[1], c.shared = error[2];
  for (size_t i = 0; i < c.count; i++) {
    double place = c.plans[i * width + ETT_CHANCE_PLACE];
    double program = c.plans[i * width + ETT_CHANCE_PROGRAM];
    luaL_argcheck(L, place >= 0 && place < (double)c.places, 1, "names no place");
    luaL_argcheck(L, program >= 0 && program < (double)c.count, 1, "names no program");
  }
  double *room =
      lua_newuserdatauv(L, (ett_chance_room(&c) + c.count + 1) * sizeof *room, 0);
  double *wins = room + ett_chance_room(&c);
  ett_chance_best(&c, (long)draws, room, wins);
  lua_createtable(L, (int)c.count, 0);
  for (size_t i = 0; i < c.count; i++) {
    lua_pushnumber(L, wins[i] / (double)draws);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"axes", axes_new},     {"passes", passes},   {"survey", survey}, {"expand", expand},
    {"evaluate", evaluate}, {"chances", chances}, {NULL, NULL},
};

int luaopen_ett_search(lua_State *L) {
  ett_lua_type(L, ETT_LUA_AXES, NULL, NULL);
  luaL_newlib(L, functions);
  ett_search_lua_open_combinations(L);
  return 1;
}
