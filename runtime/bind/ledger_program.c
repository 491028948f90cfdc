/* ledger_program.c - Lua module ett.ledger_program: compiled ledgers.
 *
 * A program evaluates named outputs for named parameters, one point at a time, in
 * columns, over intervals, or searches for the least value of one. Missing parameters
 * have the values they had when the program was compiled. It needs its ledger no more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/ledger.h"
#include "ledger/search.h"
#include "ledger/tape.h"

#define PROGRAM_TYPE "ett.ledger.program"

enum { NAMES = 1, WORK = 2 }; /* user values */

typedef struct program {
  ett_tape *tape;
  double *defaults, *inputs, *outputs, *scratch; /* all in user value WORK */
} program;

static program *check_program(lua_State *L, int index) {
  program *p = luaL_checkudata(L, index, PROGRAM_TYPE);
  if (!p->tape)
    luaL_error(L, "the program is closed");
  return p;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Pushes the sorted string keys of the table at index as a list; returns their number. */
static size_t push_sorted_keys(lua_State *L, int index) {
  size_t count = 0, at = 0;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      luaL_error(L, "names must be strings, got %s", luaL_typename(L, -2));
    count++;
    lua_pop(L, 1);
  }
  const char **names = lua_newuserdatauv(L, (count + 1) * sizeof *names, 0);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    names[at++] = lua_tostring(L, -2);
    lua_pop(L, 1);
  }
  qsort(names, count, sizeof *names, compare_names);
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    lua_pushstring(L, names[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_remove(L, -2);
  return count;
}

int ett_lua_ledger_compile(lua_State *L) {
  ett_ledger *ledger = ett_lua_ledger(L, 1);
  const ett_graph *graph = ett_ledger_graph(ledger);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  size_t count = push_sorted_keys(L, 2); /* 3 */
  ett_node *nodes = lua_newuserdatauv(L, (count + 1) * sizeof *nodes, 0);
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    lua_gettable(L, 2);
    nodes[i] = ett_lua_ledger_node(L, -1, 1);
    lua_pop(L, 1);
  }
  program *p = lua_newuserdatauv(L, sizeof *p, 2);
  memset(p, 0, sizeof *p);
  luaL_setmetatable(L, PROGRAM_TYPE);
  int self = lua_gettop(L);
  ett_err err = {0};
  p->tape = ett_tape_new(graph, nodes, count, &err);
  if (!p->tape)
    return ett_lua_raise(L, &err);
  size_t inputs = ett_tape_inputs(p->tape), registers = ett_tape_registers(p->tape);
  double *work = lua_newuserdatauv(
      L, (2 * inputs + count + (registers + 1) * ETT_TAPE_LANES) * sizeof *work, 0);
  lua_setiuservalue(L, self, WORK);
  p->defaults = work;
  p->inputs = work + inputs;
  p->outputs = p->inputs + inputs;
  p->scratch = p->outputs + count;
  lua_createtable(L, 0, 2); /* {outputs = names, inputs = names, [name] = index} */
  lua_createtable(L, (int)inputs, (int)inputs);
  for (size_t i = 0; i < inputs; i++) {
    const char *name = ett_graph_parameter_name(graph, i);
    p->defaults[i] = ett_graph_value(graph, ett_graph_parameter_node(graph, i));
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
    lua_pushinteger(L, (lua_Integer)i);
    lua_setfield(L, -2, name);
  }
  lua_setfield(L, -2, "inputs");
  lua_pushvalue(L, 3);
  lua_setfield(L, -2, "outputs");
  lua_setiuservalue(L, self, NAMES);
  return 1;
}

static int program_close(lua_State *L) {
  program *p = luaL_checkudata(L, 1, PROGRAM_TYPE);
  ett_tape_free(p->tape);
  p->tape = NULL;
  return 0;
}

/* Pushes the list of names and returns its stack index. */
static int push_names(lua_State *L, const char *which) {
  lua_getiuservalue(L, 1, NAMES);
  lua_getfield(L, -1, which);
  lua_remove(L, -2);
  return lua_gettop(L);
}

/* Index of the input named by the string at key; names: the list pushed by push_names. */
static size_t input_index(lua_State *L, int key, int names) {
  if (lua_type(L, key) != LUA_TSTRING)
    luaL_error(L, "parameters must be named, got a %s key", luaL_typename(L, key));
  lua_pushvalue(L, key);
  if (lua_rawget(L, names) != LUA_TNUMBER)
    luaL_error(L, "the program has no parameter '%s'", lua_tostring(L, key));
  size_t index = (size_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return index;
}

/* Defaults, then the fields of the table at index (if any) over them. */
static void read_inputs(lua_State *L, const program *p, int index, double *inputs) {
  memcpy(inputs, p->defaults, ett_tape_inputs(p->tape) * sizeof *inputs);
  if (lua_isnoneornil(L, index))
    return;
  luaL_checktype(L, index, LUA_TTABLE);
  int names = push_names(L, "inputs");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    size_t i = input_index(L, lua_gettop(L) - 1, names);
    if (lua_type(L, -1) != LUA_TNUMBER)
      luaL_error(L, "parameter '%s' must be a number, got %s", lua_tostring(L, -2),
                 luaL_typename(L, -1));
    inputs[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_settop(L, names - 1);
}

/* evaluate{name = value}: {output = number} */
static int program_evaluate(lua_State *L) {
  program *p = check_program(L, 1);
  lua_settop(L, 2);
  read_inputs(L, p, 2, p->inputs);
  ett_tape_evaluate(p->tape, p->inputs, p->outputs, p->scratch);
  int names = push_names(L, "outputs");
  size_t count = ett_tape_outputs(p->tape);
  lua_createtable(L, 0, (int)count);
  for (size_t j = 0; j < count; j++) {
    lua_rawgeti(L, names, (lua_Integer)j + 1);
    lua_pushnumber(L, p->outputs[j]);
    lua_rawset(L, -3);
  }
  return 1;
}

/* columns({name = number or list}, rows): {output = list of rows numbers} */
static int program_columns(lua_State *L) {
  program *p = check_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer rows = luaL_checkinteger(L, 3);
  luaL_argcheck(L, rows >= 0 && rows <= 100000000, 3, "0 to 100000000 rows");
  lua_settop(L, 3);
  size_t inputs = ett_tape_inputs(p->tape), count = ett_tape_outputs(p->tape);
  const double **columns = lua_newuserdatauv(L, (inputs + 1) * sizeof *columns, 0);
  memset(columns, 0, (inputs + 1) * sizeof *columns);
  memcpy(p->inputs, p->defaults, inputs * sizeof *p->inputs);
  lua_newtable(L); /* 5: keeps the columns alive */
  int names = push_names(L, "inputs");
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    int value = lua_gettop(L);
    size_t i = input_index(L, value - 1, names);
    if (lua_type(L, value) == LUA_TNUMBER) {
      p->inputs[i] = lua_tonumber(L, value);
    } else {
      size_t length;
      if (lua_type(L, value) != LUA_TTABLE)
        luaL_error(L, "parameter '%s' must be a number or a list, got %s",
                   lua_tostring(L, value - 1), luaL_typename(L, value));
      columns[i] = ett_lua_doubles(L, value, &length);
      if (length != (size_t)rows)
        luaL_error(L, "parameter '%s' has %d values, wanted %d",
                   lua_tostring(L, value - 1), (int)length, (int)rows);
      lua_rawseti(L, 5, (lua_Integer)i + 1);
    }
    lua_settop(L, value - 1);
  }
  double **results = lua_newuserdatauv(L, (count + 1) * sizeof *results, 0);
  double *cells = lua_newuserdatauv(L, (count * (size_t)rows + 1) * sizeof *cells, 0);
  for (size_t j = 0; j < count; j++)
    results[j] = cells + j * (size_t)rows;
  ett_tape_evaluate_columns(p->tape, (size_t)rows, columns, p->inputs, results,
                            p->scratch);
  int output_names = push_names(L, "outputs");
  lua_createtable(L, 0, (int)count);
  for (size_t j = 0; j < count; j++) {
    lua_rawgeti(L, output_names, (lua_Integer)j + 1);
    lua_createtable(L, (int)rows, 0);
    for (lua_Integer row = 0; row < rows; row++) {
      lua_pushnumber(L, results[j][row]);
      lua_rawseti(L, -2, row + 1);
    }
    lua_rawset(L, -3);
  }
  return 1;
}

/* bounds{name = {low, high} or number}: {output = {low, high}} */
static int program_bounds(lua_State *L) {
  program *p = check_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  size_t inputs = ett_tape_inputs(p->tape), count = ett_tape_outputs(p->tape);
  ett_interval *in = lua_newuserdatauv(
      L, (inputs + count + ett_tape_registers(p->tape) + 1) * sizeof *in, 0);
  ett_interval *out = in + inputs, *scratch = out + count;
  for (size_t i = 0; i < inputs; i++)
    in[i] = (ett_interval){p->defaults[i], p->defaults[i]};
  int names = push_names(L, "inputs");
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    int value = lua_gettop(L);
    size_t i = input_index(L, value - 1, names);
    if (lua_type(L, value) == LUA_TTABLE) {
      lua_rawgeti(L, value, 1);
      lua_rawgeti(L, value, 2);
      in[i] = (ett_interval){luaL_checknumber(L, -2), luaL_checknumber(L, -1)};
    } else {
      in[i].low = in[i].high = luaL_checknumber(L, value);
    }
    lua_settop(L, value - 1);
  }
  ett_tape_bound(p->tape, in, out, scratch);
  int output_names = push_names(L, "outputs");
  lua_createtable(L, 0, (int)count);
  for (size_t j = 0; j < count; j++) {
    lua_rawgeti(L, output_names, (lua_Integer)j + 1);
    lua_createtable(L, 2, 0);
    lua_pushnumber(L, out[j].low);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, out[j].high);
    lua_rawseti(L, -2, 2);
    lua_rawset(L, -3);
  }
  return 1;
}

/* One variable from the table on top of the stack; its values stay in the list at keep.
 */
static ett_variable read_variable(lua_State *L, int keep, const char *name) {
  ett_variable v = {.domain = ETT_DOMAIN_INTEGER};
  int at = lua_gettop(L);
  if (lua_type(L, at) != LUA_TTABLE)
    luaL_error(L, "variable '%s' must be a table, got %s", name, luaL_typename(L, at));
  v.factor = ett_lua_boolean_field(L, at, "factor", 0);
  if (lua_getfield(L, at, "values") != LUA_TNIL) {
    v.domain = ETT_DOMAIN_LIST;
    v.values = ett_lua_doubles(L, lua_gettop(L), &v.count);
    lua_rawseti(L, keep, (lua_Integer)lua_rawlen(L, keep) + 1);
  } else {
    if (ett_lua_boolean_field(L, at, "real", 0))
      v.domain = ETT_DOMAIN_REAL;
    v.low = ett_lua_number_field(L, at, "low", 1);
    v.high = ett_lua_number_field(L, at, "high", v.low);
  }
  lua_settop(L, at);
  return v;
}

/* search{variables = {name = {low=, high=, real=, factor=} or {values=, factor=}},
 *        fixed = {name = value}, gap=, cutoff=, boxes=, product_limit=, product_equal=,
 * tolerance=} minimises the output named `objective`; all other outputs are checks
 * (nonzero = kept). */
static int program_search(lua_State *L) {
  program *p = check_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  int outputs = push_names(L, "outputs"); /* 3 */
  lua_rawgeti(L, outputs, 1);
  size_t count = ett_tape_outputs(p->tape);
  const char *first = lua_tostring(L, -1);
  if (count == 0 || strcmp(first, "1 objective") != 0)
    return luaL_error(L, "the program has no output '1 objective'");
  lua_getfield(L, 2, "fixed");
  lua_replace(L, 4);
  double *inputs =
      lua_newuserdatauv(L, (ett_tape_inputs(p->tape) + 1) * sizeof *inputs, 0); /* 5 */
  read_inputs(L, p, 4, inputs);
  lua_newtable(L);                     /* 6: keeps values alive */
  int names = push_names(L, "inputs"); /* 7 */
  lua_getfield(L, 2, "variables");     /* 8 */
  luaL_checktype(L, 8, LUA_TTABLE);
  size_t variables_count = push_sorted_keys(L, 8); /* 9 */
  if (variables_count > ETT_SEARCH_MAX)
    return luaL_error(L, "a search takes at most %d variables", ETT_SEARCH_MAX);
  ett_variable variables[ETT_SEARCH_MAX];
  for (size_t i = 0; i < variables_count; i++) {
    lua_rawgeti(L, 9, (lua_Integer)i + 1);
    int key = lua_gettop(L);
    size_t input = input_index(L, key, names);
    lua_pushvalue(L, key);
    lua_gettable(L, 8);
    variables[i] = read_variable(L, 6, lua_tostring(L, key));
    variables[i].input = input;
    lua_settop(L, 9);
  }
  ett_search_options options = {
      .gap = ett_lua_number_field(L, 2, "gap", 0),
      .cut = true,
      .cutoff = ett_lua_number_field(L, 2, "cutoff", INFINITY),
      .boxes = (size_t)ett_lua_integer_field(L, 2, "boxes", 2000000),
      .product_limit = ett_lua_number_field(L, 2, "product_limit", 0),
      .product_equal = ett_lua_boolean_field(L, 2, "product_equal", 0),
      .tolerance = ett_lua_number_field(L, 2, "tolerance", 1e-6),
  };
  ett_search_result result;
  ett_err err = {0};
  if (ett_search_run(p->tape, inputs, variables, variables_count, &options, &result,
                     &err) != 0)
    return ett_lua_raise(L, &err);
  lua_createtable(L, 0, 7);
  lua_pushboolean(L, result.found);
  lua_setfield(L, -2, "found");
  lua_pushboolean(L, result.proven);
  lua_setfield(L, -2, "proven");
  lua_pushnumber(L, result.best);
  lua_setfield(L, -2, "best");
  lua_pushnumber(L, result.bound);
  lua_setfield(L, -2, "bound");
  lua_pushinteger(L, (lua_Integer)result.boxes);
  lua_setfield(L, -2, "boxes");
  lua_pushinteger(L, (lua_Integer)result.evaluations);
  lua_setfield(L, -2, "evaluations");
  lua_createtable(L, 0, (int)variables_count);
  for (size_t i = 0; result.found && i < variables_count; i++) {
    lua_rawgeti(L, 9, (lua_Integer)i + 1);
    if (variables[i].domain == ETT_DOMAIN_REAL ||
        result.point[i] != rint(result.point[i]))
      lua_pushnumber(L, result.point[i]);
    else
      lua_pushinteger(L, (lua_Integer)result.point[i]);
    lua_rawset(L, -3);
  }
  lua_setfield(L, -2, "point");
  return 1;
}

static int program_inputs(lua_State *L) {
  program *p = check_program(L, 1);
  lua_settop(L, 1);
  int names = push_names(L, "inputs");
  lua_createtable(L, 0, 0);
  for (size_t i = 0; i < ett_tape_inputs(p->tape); i++) {
    lua_rawgeti(L, names, (lua_Integer)i + 1);
    lua_pushnumber(L, p->defaults[i]);
    lua_rawset(L, -3);
  }
  return 1;
}

static int program_operations(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)ett_tape_operations(check_program(L, 1)->tape));
  return 1;
}

static const luaL_Reg methods[] = {
    {"evaluate", program_evaluate}, {"columns", program_columns},
    {"bounds", program_bounds},     {"search", program_search},
    {"inputs", program_inputs},     {"operations", program_operations},
    {"close", program_close},       {NULL, NULL},
};

void ett_lua_ledger_program_type(lua_State *L) {
  luaL_newmetatable(L, PROGRAM_TYPE);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, program_close);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, program_close);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "locked");
  lua_setfield(L, -2, "__metatable");
}

/* The methods of programs, for documentation checks; programs come from ledger:compile.
 */
int luaopen_ett_ledger_program(lua_State *L) {
  luaL_newlib(L, methods);
  return 1;
}
