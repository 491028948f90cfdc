/* program.c - Lua module ett.ledger_program: compiled ledgers.
 *
 * A program evaluates named outputs for named parameters: for one point, for columns, or
 * over intervals. It can also minimise one output. A missing parameter has its value at
 * compile time. lua/ett/ledger/expression.lua compiles them. */
#include <math.h>
#include <string.h>

#include "bind/common.h"
#include "ledger/search.h"

#define PROGRAM_TYPE "ett.ledger.program"

enum { NAMES = 1, WORK = 2 }; /* user values */

typedef struct {
  ett_tape *tape;                                /* NULL once closed */
  double *defaults, *inputs, *outputs, *scratch; /* all in user value WORK */
} program_box;

/* The open program at index 1. */
static program_box *check_program(lua_State *L) {
  program_box *p = luaL_checkudata(L, 1, PROGRAM_TYPE);
  if (!p->tape)
    luaL_error(L, "the program is closed");
  return p;
}

/* Names of the operations in Lua, by ett_op. */
static const char *const op_names[ETT_OPS] = {
    "add", "sub", "mul", "div",   "idiv", "mod",   "min",  "max",  "pow",
    "le",  "lt",  "eq",  "floor", "ceil", "round", "sqrt", "log2", "select"};

/* The field of the table at 1 as numbers. */
static const double *doubles_field(lua_State *L, const char *name, size_t *count) {
  ett_lua_raw_field(L, 1, name);
  return ett_lua_field_doubles(L, name, count);
}

/* The field of the table at 1 as whole numbers below 2^32. */
static uint32_t *integers_field(lua_State *L, const char *name, size_t *count) {
  const double *values = doubles_field(L, name, count);
  uint32_t *out = lua_newuserdatauv(L, (*count + 1) * sizeof *out, 0);
  for (size_t i = 0; i < *count; i++) {
    if (!(values[i] >= 0 && values[i] <= UINT32_MAX))
      luaL_error(L, "'%s' must hold whole numbers", name);
    out[i] = (uint32_t)values[i];
  }
  return out;
}

/* Copies a list of strings, a field of the table at 1, into the same field of the table
 * on top. With `indexed`, each name also maps to its index. Returns the length. */
static size_t copy_names(lua_State *L, const char *name, int indexed) {
  ett_lua_raw_field(L, 1, name);
  ett_lua_check_table(L, name);
  size_t count = lua_rawlen(L, -1);
  lua_createtable(L, (int)count, indexed ? (int)count : 0);
  for (size_t i = 0; i < count; i++) {
    if (lua_rawgeti(L, -2, (lua_Integer)i + 1) != LUA_TSTRING)
      luaL_error(L, "names must be strings, got %s", luaL_typename(L, -1));
    if (indexed) {
      lua_pushvalue(L, -1);
      lua_pushinteger(L, (lua_Integer)i);
      lua_rawset(L, -4);
    }
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -3, name);
  lua_pop(L, 1);
  return count;
}

/* new{inputs = names, defaults = numbers, constants = numbers, code = {op, a, b, c, ...},
 * outputs = names, registers = of the outputs}: a program. */
static int program_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  program_box *p = lua_newuserdatauv(L, sizeof *p, 2); /* 2 */
  memset(p, 0, sizeof *p);
  luaL_setmetatable(L, PROGRAM_TYPE);
  lua_createtable(L, 0, 2); /* {outputs = names, inputs = names, [name] = index} */
  size_t inputs = copy_names(L, "inputs", 1), outputs = copy_names(L, "outputs", 0);
  lua_setiuservalue(L, 2, NAMES);
  size_t defaults, constants, words, registers;
  const double *value = doubles_field(L, "defaults", &defaults);
  const double *constant = doubles_field(L, "constants", &constants);
  const uint32_t *word = integers_field(L, "code", &words),
                 *output = integers_field(L, "registers", &registers);
  if (defaults != inputs || registers != outputs || words % 4 != 0)
    return luaL_error(L, "a default an input, a register an output and four numbers an "
                         "operation are needed");
  ett_instruction *code = lua_newuserdatauv(L, (words / 4 + 1) * sizeof *code, 0);
  for (size_t i = 0; i < words / 4; i++)
    code[i] = (ett_instruction){(ett_op)word[4 * i], word[4 * i + 1], word[4 * i + 2],
                                word[4 * i + 3]};
  ett_err err = {0};
  p->tape =
      ett_tape_new(inputs, constant, constants, code, words / 4, output, outputs, &err);
  if (!p->tape)
    return ett_lua_raise(L, &err);
  double *work = lua_newuserdatauv(
      L,
      (2 * inputs + outputs + (ett_tape_registers(p->tape) + 1) * ETT_TAPE_LANES) *
          sizeof *work,
      0);
  lua_setiuservalue(L, 2, WORK);
  memcpy(work, value, inputs * sizeof *work);
  p->defaults = work;
  p->inputs = work + inputs;
  p->outputs = p->inputs + inputs;
  p->scratch = p->outputs + outputs;
  lua_settop(L, 2);
  return 1;
}

/* value(op, a, b, c): the result of the op-th operation on numbers. */
static int program_value(lua_State *L) {
  lua_Integer op = luaL_checkinteger(L, 1);
  luaL_argcheck(L, op >= 0 && op < ETT_OPS, 1, "is no operation");
  lua_pushnumber(L, ett_op_value((ett_op)op, luaL_checknumber(L, 2),
                                 luaL_optnumber(L, 3, 0), luaL_optnumber(L, 4, 0)));
  return 1;
}

static int program_close(lua_State *L) {
  program_box *p = luaL_checkudata(L, 1, PROGRAM_TYPE);
  ett_tape_free(p->tape);
  p->tape = NULL;
  return 0;
}

/* Pushes the list of the program's names ("inputs" or "outputs"); returns its index. */
static int push_names(lua_State *L, const char *which) {
  lua_getiuservalue(L, 1, NAMES);
  ett_lua_raw_field(L, -1, which);
  lua_remove(L, -2);
  return lua_gettop(L);
}

/* Index of the input named by the string at key; names: the list of inputs. */
static size_t input_at(lua_State *L, int key, int names) {
  if (lua_type(L, key) != LUA_TSTRING)
    luaL_error(L, "parameters must be named, got a %s key", luaL_typename(L, key));
  lua_pushvalue(L, key);
  if (lua_rawget(L, names) != LUA_TNUMBER)
    luaL_error(L, "the program has no parameter '%s'", lua_tostring(L, key));
  size_t index = (size_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return index;
}

/* Fills the inputs with the defaults and overrides them with the table at index, if any.
 */
static void read_inputs(lua_State *L, const program_box *p, int index, double *inputs) {
  memcpy(inputs, p->defaults, ett_tape_inputs(p->tape) * sizeof *inputs);
  if (lua_isnoneornil(L, index))
    return;
  luaL_checktype(L, index, LUA_TTABLE);
  int names = push_names(L, "inputs");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    size_t i = input_at(L, lua_gettop(L) - 1, names);
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
  program_box *p = check_program(L);
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

/* 5: anchors the columns */
static int program_columns(lua_State *L) {
  program_box *p = check_program(L);
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
    size_t i = input_at(L, value - 1, names);
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
                   lua_tostring(L, value - 1), (int)rows, (int)length);
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
    ett_lua_push_doubles(L, results[j], (size_t)rows);
    lua_rawset(L, -3);
  }
  return 1;
}

/* bounds{name = {low, high} or number}: {output = {low, high}} */
static int program_bounds(lua_State *L) {
  program_box *p = check_program(L);
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
    size_t i = input_at(L, value - 1, names);
    if (lua_type(L, value) == LUA_TTABLE) {
      const char *name = lua_tostring(L, value - 1);
      lua_rawgeti(L, value, 1);
      in[i].low = ett_lua_number_item(L, name, 1);
      lua_rawgeti(L, value, 2);
      in[i].high = ett_lua_number_item(L, name, 2);
    } else if (lua_type(L, value) == LUA_TNUMBER) {
      in[i].low = in[i].high = lua_tonumber(L, value);
    } else {
      luaL_error(L, "parameter '%s' must be a number or { low, high }, got %s",
                 lua_tostring(L, value - 1), luaL_typename(L, value));
    }
    lua_settop(L, value - 1);
  }
  ett_tape_bound(p->tape, in, out, scratch);
  int output_names = push_names(L, "outputs");
  lua_createtable(L, 0, (int)count);
  for (size_t j = 0; j < count; j++) {
    lua_rawgeti(L, output_names, (lua_Integer)j + 1);
    ett_lua_push_doubles(L, (double[]){out[j].low, out[j].high}, 2);
    lua_rawset(L, -3);
  }
  return 1;
}

/* Reads one variable from the value on top of the stack; the list at `keep` anchors its
 * values. */
static ett_variable read_variable(lua_State *L, int keep, const char *name) {
  ett_variable v = {.domain = ETT_DOMAIN_INTEGER};
  int at = lua_gettop(L);
  if (lua_type(L, at) != LUA_TTABLE)
    luaL_error(L, "variable '%s' must be a table, got %s", name, luaL_typename(L, at));
  v.factor = ett_lua_boolean_field(L, at, "factor", 0);
  if (ett_lua_raw_field(L, at, "values") != LUA_TNIL) {
    v.domain = ETT_DOMAIN_LIST;
    v.values = ett_lua_field_doubles(L, "values", &v.count);
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

typedef struct caller {
  lua_State *L;
  const program_box *program;
  bool raised; /* an error value is on top of the stack */
} caller;

/* Calls the progress function (stack index 9) with boxes, best and bound. */
static int report(void *context, const ett_search_result *so_far) {
  caller *c = context;
  lua_pushvalue(c->L, 9);
  lua_pushinteger(c->L, (lua_Integer)so_far->boxes);
  lua_pushnumber(c->L, so_far->best);
  lua_pushnumber(c->L, so_far->bound);
  c->raised = lua_pcall(c->L, 3, 0, 0) != LUA_OK;
  if (!c->raised && !c->program->tape) {
    lua_pushliteral(c->L, "the program was closed during its search");
    c->raised = true;
  }
  return c->raised;
}

/* search{variables = {name = {low=, high=, real=, factor=} or {values=, factor=}},
 *        fixed = {name = value}, gap=, cutoff=, boxes=, product_limit=, product_equal=,
 * tolerance=, progress = function(boxes, best, bound)} minimises the output named
 * `objective`; all other outputs are checks (nonzero = kept). */
static int program_search(lua_State *L) {
  program_box *p = check_program(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  int outputs = push_names(L, "outputs"); /* 3 */
  lua_rawgeti(L, outputs, 1);
  size_t count = ett_tape_outputs(p->tape);
  const char *first = lua_tostring(L, -1);
  if (count == 0 || strcmp(first, "1 objective") != 0)
    return luaL_error(L, "the program has no output '1 objective'");
  ett_lua_raw_field(L, 2, "fixed");
  lua_replace(L, 4);
  double *inputs =
      lua_newuserdatauv(L, (ett_tape_inputs(p->tape) + 1) * sizeof *inputs, 0); /* 5 */
  read_inputs(L, p, 4, inputs);
  lua_newtable(L);                      /* 6: anchors the values */
  int names = push_names(L, "inputs");  /* 7 */
  ett_lua_raw_field(L, 2, "variables"); /* 8 */
  luaL_checktype(L, 8, LUA_TTABLE);
  ett_variable variables[ETT_SEARCH_MAX];
  size_t given = 0, count_of_variables = 0;
  for (lua_pushnil(L); lua_next(L, 8); lua_pop(L, 1), given++)
    input_at(L, lua_gettop(L) - 1, names);
  if (given > ETT_SEARCH_MAX)
    return luaL_error(L, "a search takes at most %d variables", ETT_SEARCH_MAX);
  for (size_t i = 0; i < ett_tape_inputs(p->tape); i++) { /* in the order of the inputs */
    lua_rawgeti(L, names, (lua_Integer)i + 1);
    const char *name = lua_tostring(L, -1);
    if (ett_lua_raw_field(L, 8, name) != LUA_TNIL) {
      variables[count_of_variables] = read_variable(L, 6, name);
      variables[count_of_variables++].input = i;
    }
    lua_settop(L, 8);
  }
  ett_search_options options = {
      .gap = ett_lua_number_field(L, 2, "gap", 0),
      .cut = true,
      .cutoff = ett_lua_number_field(L, 2, "cutoff", INFINITY),
      .boxes = (size_t)ett_lua_integer_field(L, 2, "boxes", 0),
      .product_limit = ett_lua_number_field(L, 2, "product_limit", 0),
      .product_equal = ett_lua_boolean_field(L, 2, "product_equal", 0),
      .tolerance = ett_lua_number_field(L, 2, "tolerance", 0),
  };
  caller c = {.L = L, .program = p};
  if (ett_lua_raw_field(L, 2, "progress") != LUA_TNIL) { /* 9 */
    luaL_checktype(L, 9, LUA_TFUNCTION);
    options.progress = report;
    options.context = &c;
  }
  ett_search_result result;
  ett_err err = {0};
  if (ett_search_run(p->tape, inputs, variables, count_of_variables, &options, &result,
                     &err) != 0)
    return c.raised ? lua_error(L) : ett_lua_raise(L, &err);
  lua_createtable(L, 0, 7);
  ett_lua_set_boolean(L, "found", result.found);
  ett_lua_set_boolean(L, "proven", result.proven);
  ett_lua_set_number(L, "best", result.best);
  ett_lua_set_number(L, "bound", result.bound);
  ett_lua_set_integer(L, "boxes", (lua_Integer)result.boxes);
  ett_lua_set_integer(L, "evaluations", (lua_Integer)result.evaluations);
  lua_createtable(L, 0, (int)count_of_variables);
  for (size_t i = 0; result.found && i < count_of_variables; i++) {
    lua_rawgeti(L, names, (lua_Integer)variables[i].input + 1);
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

static const luaL_Reg methods[] = {
    {"evaluate", program_evaluate},
    {"columns", program_columns},
    {"bounds", program_bounds},
    {"search", program_search},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"new", program_new},
    {"value", program_value},
    {NULL, NULL},
};

int luaopen_ett_ledger_program(lua_State *L);

/* operations: {name, number of operands} of each operation, in order. */
int luaopen_ett_ledger_program(lua_State *L) {
  ett_lua_type(L, PROGRAM_TYPE, methods, program_close);
  luaL_newlib(L, functions);
  lua_createtable(L, ETT_OPS, 0);
  for (int op = 0; op < ETT_OPS; op++) {
    lua_createtable(L, 0, 2);
    ett_lua_set_string(L, "name", op_names[op]);
    ett_lua_set_integer(L, "operands",
                        op < ETT_OP_FLOOR    ? 2
                        : op < ETT_OP_SELECT ? 1
                                             : 3);
    lua_rawseti(L, -2, op + 1);
  }
  lua_setfield(L, -2, "operations");
  return 1;
}
