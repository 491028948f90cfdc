/* tensor.c - operations on tensors, and the metatables of a ledger's objects. */
#include "bind/ledger/ledger.h"

static int push_tensor(lua_State *L, ett_lua_ledger_owner *owner, int index,
                       const ett_err *err) {
  ett_lua_ledger_raise_if(L, index, err);
  ett_lua_ledger_push(L, 1, owner, ETT_TENSOR_TYPE, index);
  return 1;
}

static int tensor_multiply(lua_State *L) {
  ett_lua_ledger_owner *owner = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE)->owner;
  ett_err err = {0};
  int a = ett_lua_ledger_index(L, 1, ETT_TENSOR_TYPE, owner),
      b = ett_lua_ledger_index(L, 2, ETT_TENSOR_TYPE, owner);
  return push_tensor(L, owner, ett_ledger_multiply(owner->ledger, a, b, &err), &err);
}

static int tensor_dot(lua_State *L) {
  ett_lua_ledger_owner *owner = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE)->owner;
  ett_err err = {0};
  int a = ett_lua_ledger_index(L, 1, ETT_TENSOR_TYPE, owner),
      b = ett_lua_ledger_index(L, 2, ETT_TENSOR_TYPE, owner);
  return push_tensor(L, owner, ett_ledger_dot(owner->ledger, a, b, &err), &err);
}

static ett_set rotate_field(lua_State *L, int index, const ett_lua_ledger_owner *owner) {
  if (lua_isnoneornil(L, index))
    return 0;
  luaL_checktype(L, index, LUA_TTABLE);
  lua_getfield(L, index, "rotate");
  ett_set set = ett_lua_ledger_to_set(L, lua_gettop(L), ETT_DIMENSION_TYPE, owner);
  lua_pop(L, 1);
  return set;
}

static int tensor_broadcast(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE);
  ett_err err = {0};
  ett_set rotate = rotate_field(L, 2, h->owner);
  return push_tensor(
      L, h->owner, ett_ledger_broadcast(h->owner->ledger, h->index, rotate, &err), &err);
}

static int dimension_field(lua_State *L, int index, const char *name,
                           const ett_lua_ledger_owner *owner) {
  if (lua_isnoneornil(L, index))
    return -1;
  luaL_checktype(L, index, LUA_TTABLE);
  int found = -1;
  if (lua_getfield(L, index, name) != LUA_TNIL)
    found = ett_lua_ledger_index(L, -1, ETT_DIMENSION_TYPE, owner);
  lua_pop(L, 1);
  return found;
}

/* reduce(dimension, {from=, to=}) */
static int tensor_reduce(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE);
  int d = ett_lua_ledger_index(L, 2, ETT_DIMENSION_TYPE, h->owner);
  int from = dimension_field(L, 3, "from", h->owner);
  int to = dimension_field(L, 3, "to", h->owner);
  ett_err err = {0};
  return push_tensor(L, h->owner,
                     ett_ledger_reduce(h->owner->ledger, h->index, d, from, to, &err),
                     &err);
}

/* all_reduce(dimension, {rotate=}) */
static int tensor_all_reduce(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE);
  int d = ett_lua_ledger_index(L, 2, ETT_DIMENSION_TYPE, h->owner);
  ett_set rotate = rotate_field(L, 3, h->owner);
  ett_err err = {0};
  int sum = ett_ledger_reduce(h->owner->ledger, h->index, d, -1, -1, &err);
  ett_lua_ledger_raise_if(L, sum, &err);
  return push_tensor(L, h->owner,
                     ett_ledger_broadcast(h->owner->ledger, sum, rotate, &err), &err);
}

static int tensor_scatter_transpose(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE);
  int from = ett_lua_ledger_index(L, 2, ETT_DIMENSION_TYPE, h->owner);
  int to = ett_lua_ledger_index(L, 3, ETT_DIMENSION_TYPE, h->owner);
  ett_err err = {0};
  return push_tensor(
      L, h->owner,
      ett_ledger_scatter_transpose(h->owner->ledger, h->index, from, to, &err), &err);
}

/* reduce_with(other): the sum of both tensors over the one dimension that differs. */
static int tensor_reduce_with(lua_State *L) {
  ett_lua_ledger_owner *owner = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE)->owner;
  int a = ett_lua_ledger_index(L, 1, ETT_TENSOR_TYPE, owner),
      b = ett_lua_ledger_index(L, 2, ETT_TENSOR_TYPE, owner);
  int joint = -1;
  ett_err err = {0};
  int both = ett_ledger_concatenate(owner->ledger, a, b, &joint, &err);
  ett_lua_ledger_raise_if(L, both, &err);
  return push_tensor(L, owner,
                     ett_ledger_reduce(owner->ledger, both, joint, -1, -1, &err), &err);
}

static int tensor_local_elements(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE);
  ett_err err = {0};
  return ett_lua_ledger_push_node(
      L, 1, h->owner, ett_ledger_tensor_local(h->owner->ledger, h->index, &err), &err);
}

static int tensor_dimensions(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_TENSOR_TYPE);
  ett_lua_ledger_push_names(L, h->owner,
                            ett_ledger_tensor_dimensions(h->owner->ledger, h->index));
  return 1;
}

static int dimension_size(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_DIMENSION_TYPE);
  ett_err err = {0};
  return ett_lua_ledger_push_node(
      L, 1, h->owner, ett_ledger_dimension_size(h->owner->ledger, h->index), &err);
}

static int axis_degree(lua_State *L) {
  ett_lua_ledger_item *h = ett_lua_ledger_handle(L, 1, ETT_AXIS_TYPE);
  ett_err err = {0};
  return ett_lua_ledger_push_node(
      L, 1, h->owner, ett_ledger_axis_degree(h->owner->ledger, h->index), &err);
}

static const luaL_Reg tensor_methods[] = {
    {"multiply", tensor_multiply},       {"dot", tensor_dot},
    {"broadcast", tensor_broadcast},     {"reduce", tensor_reduce},
    {"all_reduce", tensor_all_reduce},   {"scatter_transpose", tensor_scatter_transpose},
    {"reduce_with", tensor_reduce_with}, {"local_elements", tensor_local_elements},
    {"dimensions", tensor_dimensions},   {NULL, NULL},
};

void ett_lua_ledger_tensor_types(lua_State *L) {
  static const luaL_Reg dimension_methods[] = {{"size", dimension_size}, {NULL, NULL}};
  static const luaL_Reg axis_methods[] = {{"degree", axis_degree}, {NULL, NULL}};
  ett_lua_ledger_new_type(L, ETT_AXIS_TYPE, axis_methods);
  ett_lua_ledger_new_type(L, ETT_DIMENSION_TYPE, dimension_methods);
  ett_lua_ledger_new_type(L, ETT_TENSOR_TYPE, tensor_methods);
  lua_pushcfunction(L, tensor_multiply);
  lua_setfield(L, -2, "__mul");
}
