/* program.c - Lua module ett.ledger_program: compiled ledgers.
 *
 * A program evaluates named outputs for named parameters: for one point, for columns, or
 * over intervals. It can also minimise one output. A missing parameter has its value at
 * compile time. A program is independent of its ledger. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/ledger/ledger.h"
#include "bind/ledger/program.h"

#define PROGRAM_TYPE "ett.ledger.program"

enum { NAMES = 1, WORK = 2 }; /* user values */

ett_lua_program_box *ett_lua_program(lua_State *L, int index) {
  ett_lua_program_box *p = luaL_checkudata(L, index, PROGRAM_TYPE);
  if (!p->tape)
    luaL_error(L, "the program is closed");
  return p;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t ett_lua_program_keys(lua_State *L, int index) {
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
  size_t count = ett_lua_program_keys(L, 2); /* 3 */
  ett_node *nodes = lua_newuserdatauv(L, (count + 1) * sizeof *nodes, 0);
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    lua_gettable(L, 2);
    nodes[i] = ett_lua_ledger_node(L, -1, 1);
    lua_pop(L, 1);
  }
  ett_lua_program_box *p = lua_newuserdatauv(L, sizeof *p, 2);
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
  ett_lua_program_box *p = luaL_checkudata(L, 1, PROGRAM_TYPE);
  ett_tape_free(p->tape);
  p->tape = NULL;
  return 0;
}

int ett_lua_program_names(lua_State *L, const char *which) {
  lua_getiuservalue(L, 1, NAMES);
  lua_getfield(L, -1, which);
  lua_remove(L, -2);
  return lua_gettop(L);
}

size_t ett_lua_program_input(lua_State *L, int key, int names) {
  if (lua_type(L, key) != LUA_TSTRING)
    luaL_error(L, "parameters must be named, got a %s key", luaL_typename(L, key));
  lua_pushvalue(L, key);
  if (lua_rawget(L, names) != LUA_TNUMBER)
    luaL_error(L, "the program has no parameter '%s'", lua_tostring(L, key));
  size_t index = (size_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return index;
}

void ett_lua_program_read(lua_State *L, const ett_lua_program_box *p, int index,
                          double *inputs) {
  memcpy(inputs, p->defaults, ett_tape_inputs(p->tape) * sizeof *inputs);
  if (lua_isnoneornil(L, index))
    return;
  luaL_checktype(L, index, LUA_TTABLE);
  int names = ett_lua_program_names(L, "inputs");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    size_t i = ett_lua_program_input(L, lua_gettop(L) - 1, names);
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
  ett_lua_program_box *p = ett_lua_program(L, 1);
  lua_settop(L, 2);
  ett_lua_program_read(L, p, 2, p->inputs);
  ett_tape_evaluate(p->tape, p->inputs, p->outputs, p->scratch);
  int names = ett_lua_program_names(L, "outputs");
  size_t count = ett_tape_outputs(p->tape);
  lua_createtable(L, 0, (int)count);
  for (size_t j = 0; j < count; j++) {
    lua_rawgeti(L, names, (lua_Integer)j + 1);
    lua_pushnumber(L, p->outputs[j]);
    lua_rawset(L, -3);
  }
  return 1;
}

/* 5: anchors the columns */
static int program_columns(lua_State *L) {
  ett_lua_program_box *p = ett_lua_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer rows = luaL_checkinteger(L, 3);
  luaL_argcheck(L, rows >= 0 && rows <= 100000000, 3, "0 to 100000000 rows");
  lua_settop(L, 3);
  size_t inputs = ett_tape_inputs(p->tape), count = ett_tape_outputs(p->tape);
  const double **columns = lua_newuserdatauv(L, (inputs + 1) * sizeof *columns, 0);
  memset(columns, 0, (inputs + 1) * sizeof *columns);
  memcpy(p->inputs, p->defaults, inputs * sizeof *p->inputs);
  lua_newtable(L); /* 5: keeps the columns alive */
  int names = ett_lua_program_names(L, "inputs");
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    int value = lua_gettop(L);
    size_t i = ett_lua_program_input(L, value - 1, names);
    if (lua_type(L, value) == LUA_TNUMBER) {
      p->inputs[i] = lua_tonumber(L, value);
    } else {
      size_t length;
      if (lua_type(L, value) != LUA_TTABLE)
        luaL_error(L, "parameter '%s' must be a number or a list, got %s",
                   lua_tostring(L, value - 1), luaL_typename(L, value));
      columns[i] = ett_lua_doubles(L, value, &length);
      if (length != (size_t)rows)
        luaL_error(L, "parameter '%s' must have %d values, got %d",
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
  int output_names = ett_lua_program_names(L, "outputs");
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
  ett_lua_program_box *p = ett_lua_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  size_t inputs = ett_tape_inputs(p->tape), count = ett_tape_outputs(p->tape);
  ett_interval *in = lua_newuserdatauv(
      L, (inputs + count + ett_tape_registers(p->tape) + 1) * sizeof *in, 0);
  ett_interval *out = in + inputs, *scratch = out + count;
  for (size_t i = 0; i < inputs; i++)
    in[i] = (ett_interval){p->defaults[i], p->defaults[i]};
  int names = ett_lua_program_names(L, "inputs");
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    int value = lua_gettop(L);
    size_t i = ett_lua_program_input(L, value - 1, names);
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
  int output_names = ett_lua_program_names(L, "outputs");
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

static int program_inputs(lua_State *L) {
  ett_lua_program_box *p = ett_lua_program(L, 1);
  lua_settop(L, 1);
  int names = ett_lua_program_names(L, "inputs");
  lua_createtable(L, 0, 0);
  for (size_t i = 0; i < ett_tape_inputs(p->tape); i++) {
    lua_rawgeti(L, names, (lua_Integer)i + 1);
    lua_pushnumber(L, p->defaults[i]);
    lua_rawset(L, -3);
  }
  return 1;
}

static int program_operations(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)ett_tape_operations(ett_lua_program(L, 1)->tape));
  return 1;
}

static const luaL_Reg methods[] = {
    {"evaluate", program_evaluate}, {"columns", program_columns},
    {"bounds", program_bounds},     {"search", ett_lua_program_search},
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
