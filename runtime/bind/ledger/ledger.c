/* ledger.c - Lua module ett.ledger: creation and description of ledgers.
 *
 * Axes, dimensions, tensors and expressions are small handles that keep their ledger
 * alive. An expression of the same ledger is accepted in place of any number. Results
 * that do not depend on parameters are plain numbers. */
#include "bind/ledger/ledger.h"

#define METER_TYPE "ett.ledger.meter"

static int ledger_new(lua_State *L) {
  ett_lua_ledger_owner *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->ledger = NULL;
  luaL_setmetatable(L, ETT_LEDGER_TYPE);
  b->ledger = ett_ledger_new();
  if (!b->ledger)
    return luaL_error(L, "not enough memory for a ledger");
  return 1;
}

static int ledger_close(lua_State *L) {
  ett_lua_ledger_owner *b = luaL_checkudata(L, 1, ETT_LEDGER_TYPE);
  ett_ledger_free(b->ledger);
  b->ledger = NULL;
  return 0;
}

static int ledger_parameter(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  ett_err err = {0};
  ett_node node = ett_graph_parameter(ett_ledger_graph(b->ledger), luaL_checkstring(L, 2),
                                      luaL_checknumber(L, 3), &err);
  return ett_lua_ledger_push_node(L, 1, b, node, &err);
}

static int ledger_axis(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  ett_node degree = ett_lua_ledger_to_node(L, 3, b);
  int rotational = 0;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    rotational = ett_lua_boolean_field(L, 4, "rotational", 0);
  }
  ett_err err = {0};
  int index = ett_lua_ledger_raise_if(
      L, ett_ledger_axis(b->ledger, name, degree, rotational, &err), &err);
  ett_lua_ledger_push(L, 1, b, ETT_AXIS_TYPE, index);
  return 1;
}

static int ledger_dimension(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  ett_node size = ett_lua_ledger_to_node(L, 3, b), virtual_size = -1;
  int on = -1, autoreduce = 0;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    autoreduce = ett_lua_boolean_field(L, 4, "autoreduce", 0);
    if (lua_getfield(L, 4, "axis") != LUA_TNIL)
      on = ett_lua_ledger_index(L, -1, ETT_AXIS_TYPE, b);
    if (lua_getfield(L, 4, "virtual") != LUA_TNIL)
      virtual_size = ett_lua_ledger_to_node(L, -1, b);
    lua_pop(L, 2);
  }
  ett_err err = {0};
  int index = ett_lua_ledger_raise_if(
      L, ett_ledger_dimension(b->ledger, name, size, on, virtual_size, autoreduce, &err),
      &err);
  ett_lua_ledger_push(L, 1, b, ETT_DIMENSION_TYPE, index);
  return 1;
}

static int ledger_tensor(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  ett_set dimensions = ett_lua_ledger_to_set(L, 3, ETT_DIMENSION_TYPE, b), scattered = 0;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_getfield(L, 4, "scattered");
    scattered = ett_lua_ledger_to_set(L, lua_gettop(L), ETT_AXIS_TYPE, b);
    lua_pop(L, 1);
  }
  ett_err err = {0};
  int index = ett_lua_ledger_raise_if(
      L, ett_ledger_tensor(b->ledger, name, dimensions, scattered, &err), &err);
  ett_lua_ledger_push(L, 1, b, ETT_TENSOR_TYPE, index);
  return 1;
}

/* Closes the meter of a guard (user value 1: its ledger), also after an error. */
static int meter_close(lua_State *L) {
  luaL_checkudata(L, 1, METER_TYPE);
  int raised = !lua_isnoneornil(L, 2);
  lua_getiuservalue(L, 1, 1);
  ett_lua_ledger_owner *b = luaL_checkudata(L, -1, ETT_LEDGER_TYPE);
  if (!b->ledger)
    return raised ? 0 : luaL_error(L, "the ledger is closed");
  ett_err err = {0};
  return ett_ledger_close(b->ledger, &err) < 0 && !raised ? ett_lua_raise(L, &err) : 0;
}

/* meter(name, multiplier, fn): records the operations of fn, times multiplier. */
static int ledger_meter(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  ett_node multiplier = ett_lua_ledger_to_node(L, 3, b);
  luaL_checktype(L, 4, LUA_TFUNCTION);
  lua_settop(L, 4);
  lua_newuserdatauv(L, 0, 1);
  luaL_setmetatable(L, METER_TYPE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  ett_err err = {0};
  ett_lua_ledger_raise_if(L, ett_ledger_open(b->ledger, name, multiplier, &err), &err);
  lua_toclose(L, 5);
  lua_pushvalue(L, 4);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L) - 5;
}

static int ledger_label(lua_State *L) {
  ett_err err = {0};
  ett_lua_ledger_raise_if(
      L, ett_ledger_label(ett_lua_ledger_box(L, 1)->ledger, luaL_checkstring(L, 2), &err),
      &err);
  return 0;
}

/* check(relation, subject, left, object, right) */
static int ledger_check(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  int relation = luaL_checkoption(L, 2, NULL, ett_lua_ledger_relations);
  const char *subject = luaL_checkstring(L, 3), *object = luaL_checkstring(L, 5);
  ett_node left = ett_lua_ledger_to_node(L, 4, b),
           right = ett_lua_ledger_to_node(L, 6, b);
  ett_err err = {0};
  ett_lua_ledger_raise_if(L,
                          ett_ledger_check(b->ledger, (ett_relation)relation, subject,
                                           left, object, right, &err),
                          &err);
  return 0;
}

static int ledger_clusters(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  ett_err err = {0};
  return ett_lua_ledger_push_node(L, 1, b, ett_ledger_clusters(b->ledger, &err), &err);
}

static const luaL_Reg ledger_methods[] = {
    {"parameter", ledger_parameter},
    {"axis", ledger_axis},
    {"dimension", ledger_dimension},
    {"tensor", ledger_tensor},
    {"meter", ledger_meter},
    {"label", ledger_label},
    {"check", ledger_check},
    {"checks", ett_lua_ledger_checks},
    {"totals", ett_lua_ledger_totals},
    {"entries", ett_lua_ledger_entries},
    {"axes", ett_lua_ledger_axes},
    {"clusters", ledger_clusters},
    {"compile", ett_lua_ledger_compile},
    {"close", ledger_close},
    {NULL, NULL},
};

int luaopen_ett_ledger(lua_State *L) {
  ett_lua_ledger_new_type(L, ETT_LEDGER_TYPE, ledger_methods);
  lua_pushcfunction(L, ledger_close);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, ledger_close);
  lua_setfield(L, -2, "__close");
  ett_lua_ledger_new_type(L, METER_TYPE, NULL);
  lua_pushcfunction(L, meter_close);
  lua_setfield(L, -2, "__close");
  ett_lua_ledger_tensor_types(L);
  ett_lua_ledger_program_type(L);
  ett_lua_ledger_expressions(L);
  lua_pushcfunction(L, ledger_new);
  lua_setfield(L, -2, "new");
  return 1;
}
