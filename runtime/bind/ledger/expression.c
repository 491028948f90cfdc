/* expression.c - arithmetic on expressions of a ledger's parameters. */
#include "bind/ledger/ledger.h"

/* All operations; upvalue 1 is the operation. */
static int expression_apply(lua_State *L) {
  ett_op op = (ett_op)lua_tointeger(L, lua_upvalueindex(1));
  int arity = ett_op_arity(op), owner_at = 0;
  for (int i = 1; i <= arity && !owner_at; i++)
    if (luaL_testudata(L, i, ETT_EXPRESSION_TYPE))
      owner_at = i;
  if (!owner_at) {
    double v[3] = {0, 0, 0};
    for (int i = 0; i < arity; i++)
      v[i] = luaL_checknumber(L, i + 1);
    lua_pushnumber(L, ett_op_value(op, v[0], v[1], v[2]));
    return 1;
  }
  ett_lua_ledger_owner *owner =
      ett_lua_ledger_handle(L, owner_at, ETT_EXPRESSION_TYPE)->owner;
  ett_node v[3] = {-1, -1, -1};
  for (int i = 0; i < arity; i++)
    v[i] = ett_lua_ledger_to_node(L, i + 1, owner);
  ett_err err = {0};
  ett_node node =
      ett_graph_apply(ett_ledger_graph(owner->ledger), op, v[0], v[1], v[2], &err);
  return ett_lua_ledger_push_node(L, owner_at, owner, node, &err);
}

static int expression_negate(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_EXPRESSION_TYPE);
  ett_err err = {0};
  ett_graph *graph = ett_ledger_graph(h->owner->ledger);
  ett_node node = ett_graph_apply(graph, ETT_OP_SUB, ett_graph_constant(graph, 0, &err),
                                  h->index, -1, &err);
  return ett_lua_ledger_push_node(L, 1, h->owner, node, &err);
}

static int expression_no_order(lua_State *L) {
  return luaL_error(L,
                    "expressions cannot be compared with <, <=, > or >=; use ledger.lt, "
                    "ledger.le or ledger.value");
}

/* value(x): the value of x at the parameters' current values. */
static int module_value(lua_State *L) {
  if (lua_type(L, 1) == LUA_TNUMBER) {
    lua_settop(L, 1);
    return 1;
  }
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_EXPRESSION_TYPE);
  lua_pushnumber(L, ett_graph_value(ett_ledger_graph(h->owner->ledger), h->index));
  return 1;
}

static int expression_tostring(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_EXPRESSION_TYPE);
  lua_pushfstring(L, "expression (now %f)",
                  ett_graph_value(ett_ledger_graph(h->owner->ledger), h->index));
  return 1;
}

static const struct {
  const char *name, *metamethod;
  ett_op op;
} operations[] = {
    {"add", "__add", ETT_OP_ADD},
    {"sub", "__sub", ETT_OP_SUB},
    {"mul", "__mul", ETT_OP_MUL},
    {"div", "__div", ETT_OP_DIV},
    {"idiv", "__idiv", ETT_OP_FLOOR_DIV},
    {"mod", "__mod", ETT_OP_MOD},
    {"pow", "__pow", ETT_OP_POW},
    {"min", NULL, ETT_OP_MIN},
    {"max", NULL, ETT_OP_MAX},
    {"le", NULL, ETT_OP_LE},
    {"lt", NULL, ETT_OP_LT},
    {"eq", NULL, ETT_OP_EQ},
    {"floor", NULL, ETT_OP_FLOOR},
    {"ceil", NULL, ETT_OP_CEIL},
    {"round", NULL, ETT_OP_ROUND},
    {"sqrt", NULL, ETT_OP_SQRT},
    {"log2", NULL, ETT_OP_LOG2},
    {"select", NULL, ETT_OP_SELECT},
};

void ett_lua_ledger_expressions(lua_State *L) {
  ett_lua_ledger_new_type(L, ETT_EXPRESSION_TYPE, NULL);
  int expression = lua_gettop(L);
  lua_pushcfunction(L, expression_negate);
  lua_setfield(L, -2, "__unm");
  lua_pushcfunction(L, expression_no_order);
  lua_setfield(L, -2, "__lt");
  lua_pushcfunction(L, expression_no_order);
  lua_setfield(L, -2, "__le");
  lua_pushcfunction(L, expression_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_newtable(L);
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
    lua_pushinteger(L, operations[i].op);
    lua_pushcclosure(L, expression_apply, 1);
    if (operations[i].metamethod) {
      lua_pushvalue(L, -1);
      lua_setfield(L, expression, operations[i].metamethod);
    }
    lua_setfield(L, -2, operations[i].name);
  }
  lua_pushcfunction(L, module_value);
  lua_setfield(L, -2, "value");
}
