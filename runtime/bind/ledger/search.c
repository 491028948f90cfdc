/* search.c - minimises the objective of a compiled ledger. */
#include <math.h>
#include <string.h>

#include "bind/ledger/program.h"
#include "ledger/search.h"

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

typedef struct caller {
  lua_State *L;
  const ett_lua_program_box *program;
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
int ett_lua_program_search(lua_State *L) {
  ett_lua_program_box *p = ett_lua_program(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  int outputs = ett_lua_program_names(L, "outputs"); /* 3 */
  lua_rawgeti(L, outputs, 1);
  size_t count = ett_tape_outputs(p->tape);
  const char *first = lua_tostring(L, -1);
  if (count == 0 || strcmp(first, "1 objective") != 0)
    return luaL_error(L, "the program has no output '1 objective'");
  ett_lua_raw_field(L, 2, "fixed");
  lua_replace(L, 4);
  double *inputs =
      lua_newuserdatauv(L, (ett_tape_inputs(p->tape) + 1) * sizeof *inputs, 0); /* 5 */
  ett_lua_program_read(L, p, 4, inputs);
  lua_newtable(L);                                /* 6: anchors the values */
  int names = ett_lua_program_names(L, "inputs"); /* 7 */
  ett_lua_raw_field(L, 2, "variables");           /* 8 */
  luaL_checktype(L, 8, LUA_TTABLE);
  ett_variable variables[ETT_SEARCH_MAX];
  size_t given = 0, count_of_variables = 0;
  for (lua_pushnil(L); lua_next(L, 8); lua_pop(L, 1), given++)
    ett_lua_program_input(L, lua_gettop(L) - 1, names);
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
