/* handle.c - handles of a ledger's objects, and numbers that may be expressions. */
#include "bind/ledger/ledger.h"

#include <string.h>

ett_lua_ledger_owner *ett_lua_ledger_box(lua_State *L, int index) {
  ett_lua_ledger_owner *b = luaL_checkudata(L, index, ETT_LEDGER_TYPE);
  if (!b->ledger)
    luaL_error(L, "the ledger is closed");
  return b;
}

ett_lua_ledger_item *ett_lua_ledger_handle(lua_State *L, int index, const char *type) {
  ett_lua_ledger_item *h = luaL_checkudata(L, index, type);
  if (!h->owner->ledger)
    luaL_error(L, "the ledger is closed");
  return h;
}

/* The index of a handle that belongs to the ledger of `owner`. */
int ett_lua_ledger_index(lua_State *L, int index, const char *type,
                         const ett_lua_ledger_owner *owner) {
  ett_lua_ledger_item *h = luaL_testudata(L, index, type);
  if (!h) /* type + 11: without "ett.ledger." */
    luaL_error(L, "expected a handle of kind %s, got %s", type + 11,
               luaL_typename(L, index));
  else if (h->owner != owner)
    luaL_error(L, "the %s belongs to another ledger", type + 11);
  return h ? h->index : -1;
}

/* Pushes a handle; owner_index is a ledger or another handle of it. */
void ett_lua_ledger_push(lua_State *L, int owner_index, ett_lua_ledger_owner *owner,
                         const char *type, int index) {
  owner_index = lua_absindex(L, owner_index);
  ett_lua_ledger_item *h = lua_newuserdatauv(L, sizeof *h, 1);
  h->owner = owner;
  h->index = index;
  luaL_setmetatable(L, type);
  if (luaL_testudata(L, owner_index, ETT_LEDGER_TYPE))
    lua_pushvalue(L, owner_index);
  else
    lua_getiuservalue(L, owner_index, 1);
  lua_setiuservalue(L, -2, 1);
}

/* Pushes a plain number if the node does not depend on parameters. */
int ett_lua_ledger_push_node(lua_State *L, int owner_index, ett_lua_ledger_owner *owner,
                             ett_node node, const ett_err *err) {
  if (node < 0)
    return ett_lua_raise(L, err);
  ett_graph *graph = ett_ledger_graph(owner->ledger);
  if (ett_graph_op(graph, node) != ETT_OP_CONSTANT) {
    ett_lua_ledger_push(L, owner_index, owner, ETT_EXPRESSION_TYPE, node);
    return 1;
  }
  lua_pushnumber(L, ett_graph_value(graph, node));
  return 1;
}

ett_node ett_lua_ledger_to_node(lua_State *L, int index, ett_lua_ledger_owner *owner) {
  ett_err err = {0};
  if (lua_type(L, index) == LUA_TNUMBER) {
    ett_node node =
        ett_graph_constant(ett_ledger_graph(owner->ledger), lua_tonumber(L, index), &err);
    if (node < 0)
      ett_lua_raise(L, &err);
    return node;
  }
  ett_lua_ledger_item *h = luaL_testudata(L, index, ETT_EXPRESSION_TYPE);
  if (!h)
    return luaL_error(L, "expected a number or an expression, got %s",
                      luaL_typename(L, index));
  if (h->owner != owner)
    luaL_error(L, "an expression of another ledger");
  return h->index;
}

int ett_lua_ledger_raise_if(lua_State *L, int status, const ett_err *err) {
  return status < 0 ? ett_lua_raise(L, err) : status;
}

/* The list of handles at index as a set. */
ett_set ett_lua_ledger_to_set(lua_State *L, int index, const char *type,
                              const ett_lua_ledger_owner *owner) {
  if (lua_isnoneornil(L, index))
    return 0;
  luaL_checktype(L, index, LUA_TTABLE);
  ett_set set = 0;
  for (lua_Integer i = 1; lua_rawgeti(L, index, i) != LUA_TNIL; i++) {
    ett_lua_ledger_item *h = luaL_testudata(L, -1, type);
    if (!h || h->owner != owner)
      return (ett_set)luaL_error(L, "element %d must be an %s of this ledger, got %s",
                                 (int)i, type + 11, luaL_typename(L, -1));
    set |= (ett_set)1 << h->index;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return set;
}

void ett_lua_ledger_push_names(lua_State *L, const ett_lua_ledger_owner *b, ett_set set) {
  lua_newtable(L);
  for (int i = 0, n = 0; i < ETT_LEDGER_MAX; i++)
    if ((set >> i) & 1u) {
      lua_pushstring(L, ett_ledger_dimension_name(b->ledger, i));
      lua_rawseti(L, -2, ++n);
    }
}

ett_ledger *ett_lua_ledger(lua_State *L, int index) {
  return ett_lua_ledger_box(L, index)->ledger;
}

ett_node ett_lua_ledger_node(lua_State *L, int index, int ledger_index) {
  return ett_lua_ledger_to_node(L, index, ett_lua_ledger_box(L, ledger_index));
}

void ett_lua_ledger_new_type(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  if (methods) {
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
  }
  lua_pushliteral(L, "locked");
  lua_setfield(L, -2, "__metatable");
}
