/* ledger.c - Lua module ett.ledger: ledgers, their expressions and tensors, programs.
 *
 * Axes, dimensions, tensors and expressions are small handles that keep their ledger
 * alive. Wherever a number is wanted, an expression of the same ledger may stand; results
 * that do not depend on parameters are plain numbers. */
#include "ledger/ledger.h"

#include <math.h>
#include <string.h>

#include "bind/common.h"
#include "bind/ledger.h"
#include "ledger/graph.h"

#define AXIS_TYPE "ett.ledger.axis"
#define DIMENSION_TYPE "ett.ledger.dimension"
#define TENSOR_TYPE "ett.ledger.tensor"
#define METER_TYPE "ett.ledger.meter"

typedef struct box {
  ett_ledger *ledger;
} box;

typedef struct handle {
  box *owner; /* kept by user value 1 */
  int index;
} handle;

static box *check_box(lua_State *L, int index) {
  box *b = luaL_checkudata(L, index, ETT_LEDGER_TYPE);
  if (!b->ledger)
    luaL_error(L, "the ledger is closed");
  return b;
}

static handle *check_handle(lua_State *L, int index, const char *type) {
  handle *h = luaL_checkudata(L, index, type);
  if (!h->owner->ledger)
    luaL_error(L, "the ledger is closed");
  return h;
}

/* A handle of the same ledger as owner. */
static int check_index(lua_State *L, int index, const char *type, const box *owner) {
  handle *h = luaL_testudata(L, index, type);
  if (!h) /* type + 11: without "ett.ledger." */
    luaL_error(L, "a handle of kind %s is wanted, got %s", type + 11,
               luaL_typename(L, index));
  else if (h->owner != owner)
    luaL_error(L, "the %s belongs to another ledger", type + 11);
  return h ? h->index : -1;
}

/* Pushes a handle; owner_index is a ledger or another handle of it. */
static void push_handle(lua_State *L, int owner_index, box *owner, const char *type,
                        int index) {
  owner_index = lua_absindex(L, owner_index);
  handle *h = lua_newuserdatauv(L, sizeof *h, 1);
  h->owner = owner;
  h->index = index;
  luaL_setmetatable(L, type);
  if (luaL_testudata(L, owner_index, ETT_LEDGER_TYPE))
    lua_pushvalue(L, owner_index);
  else
    lua_getiuservalue(L, owner_index, 1);
  lua_setiuservalue(L, -2, 1);
}

/* A plain number when the node does not depend on parameters. */
static int push_node(lua_State *L, int owner_index, box *owner, ett_node node,
                     const ett_err *err) {
  if (node < 0)
    return ett_lua_raise(L, err);
  ett_graph *graph = ett_ledger_graph(owner->ledger);
  if (ett_graph_op(graph, node) != ETT_OP_CONSTANT) {
    push_handle(L, owner_index, owner, ETT_EXPRESSION_TYPE, node);
    return 1;
  }
  lua_pushnumber(L, ett_graph_value(graph, node));
  return 1;
}

static ett_node to_node(lua_State *L, int index, box *owner) {
  ett_err err = {0};
  if (lua_type(L, index) == LUA_TNUMBER) {
    ett_node node =
        ett_graph_constant(ett_ledger_graph(owner->ledger), lua_tonumber(L, index), &err);
    if (node < 0)
      ett_lua_raise(L, &err);
    return node;
  }
  handle *h = luaL_testudata(L, index, ETT_EXPRESSION_TYPE);
  if (!h)
    return luaL_error(L, "a number or an expression is wanted, got %s",
                      luaL_typename(L, index));
  if (h->owner != owner)
    luaL_error(L, "an expression of another ledger");
  return h->index;
}

ett_ledger *ett_lua_ledger(lua_State *L, int index) {
  return check_box(L, index)->ledger;
}

ett_node ett_lua_ledger_node(lua_State *L, int index, int ledger_index) {
  return to_node(L, index, check_box(L, ledger_index));
}

static int raise_if(lua_State *L, int status, const ett_err *err) {
  return status < 0 ? ett_lua_raise(L, err) : status;
}

/* --- expressions ------------------------------------------------------------------- */

/* One function for every operation: upvalue 1 is the op. */
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
  box *owner = check_handle(L, owner_at, ETT_EXPRESSION_TYPE)->owner;
  ett_node v[3] = {-1, -1, -1};
  for (int i = 0; i < arity; i++)
    v[i] = to_node(L, i + 1, owner);
  ett_err err = {0};
  ett_node node =
      ett_graph_apply(ett_ledger_graph(owner->ledger), op, v[0], v[1], v[2], &err);
  return push_node(L, owner_at, owner, node, &err);
}

static int expression_negate(lua_State *L) {
  handle *h = check_handle(L, 1, ETT_EXPRESSION_TYPE);
  ett_err err = {0};
  ett_graph *graph = ett_ledger_graph(h->owner->ledger);
  ett_node node = ett_graph_apply(graph, ETT_OP_SUB, ett_graph_constant(graph, 0, &err),
                                  h->index, -1, &err);
  return push_node(L, 1, h->owner, node, &err);
}

static int expression_no_order(lua_State *L) {
  return luaL_error(L,
                    "expressions cannot be compared with <, <=, > or >=; use ledger.lt, "
                    "ledger.le or ledger.value");
}

/* value(x): the number that x has with the parameters' current values. */
static int module_value(lua_State *L) {
  if (lua_type(L, 1) == LUA_TNUMBER) {
    lua_settop(L, 1);
    return 1;
  }
  handle *h = check_handle(L, 1, ETT_EXPRESSION_TYPE);
  lua_pushnumber(L, ett_graph_value(ett_ledger_graph(h->owner->ledger), h->index));
  return 1;
}

static int expression_tostring(lua_State *L) {
  handle *h = check_handle(L, 1, ETT_EXPRESSION_TYPE);
  lua_pushfstring(L, "expression (now %f)",
                  ett_graph_value(ett_ledger_graph(h->owner->ledger), h->index));
  return 1;
}

/* --- ledgers ----------------------------------------------------------------------- */

static int ledger_new(lua_State *L) {
  box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->ledger = NULL;
  luaL_setmetatable(L, ETT_LEDGER_TYPE);
  b->ledger = ett_ledger_new();
  if (!b->ledger)
    return luaL_error(L, "not enough memory for a ledger");
  return 1;
}

static int ledger_close(lua_State *L) {
  box *b = luaL_checkudata(L, 1, ETT_LEDGER_TYPE);
  ett_ledger_free(b->ledger);
  b->ledger = NULL;
  return 0;
}

static int ledger_parameter(lua_State *L) {
  box *b = check_box(L, 1);
  ett_err err = {0};
  ett_node node = ett_graph_parameter(ett_ledger_graph(b->ledger), luaL_checkstring(L, 2),
                                      luaL_checknumber(L, 3), &err);
  return push_node(L, 1, b, node, &err);
}

static int ledger_axis(lua_State *L) {
  box *b = check_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  ett_node degree = to_node(L, 3, b);
  int rotational = 0;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    rotational = ett_lua_boolean_field(L, 4, "rotational", 0);
  }
  ett_err err = {0};
  int index =
      raise_if(L, ett_ledger_axis(b->ledger, name, degree, rotational, &err), &err);
  push_handle(L, 1, b, AXIS_TYPE, index);
  return 1;
}

static int ledger_dimension(lua_State *L) {
  box *b = check_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  ett_node size = to_node(L, 3, b), virtual_size = -1;
  int on = -1, autoreduce = 0;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    autoreduce = ett_lua_boolean_field(L, 4, "autoreduce", 0);
    if (lua_getfield(L, 4, "axis") != LUA_TNIL)
      on = check_index(L, -1, AXIS_TYPE, b);
    if (lua_getfield(L, 4, "virtual") != LUA_TNIL)
      virtual_size = to_node(L, -1, b);
    lua_pop(L, 2);
  }
  ett_err err = {0};
  int index = raise_if(
      L, ett_ledger_dimension(b->ledger, name, size, on, virtual_size, autoreduce, &err),
      &err);
  push_handle(L, 1, b, DIMENSION_TYPE, index);
  return 1;
}

/* The list of handles at index as a set. */
static ett_set to_set(lua_State *L, int index, const char *type, const box *owner) {
  if (lua_isnoneornil(L, index))
    return 0;
  luaL_checktype(L, index, LUA_TTABLE);
  ett_set set = 0;
  for (lua_Integer i = 1; lua_rawgeti(L, index, i) != LUA_TNIL; i++) {
    handle *h = luaL_testudata(L, -1, type);
    if (!h || h->owner != owner)
      return (ett_set)luaL_error(L, "element %d must be an %s of this ledger, got %s",
                                 (int)i, type + 11, luaL_typename(L, -1));
    set |= (ett_set)1 << h->index;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return set;
}

static int ledger_tensor(lua_State *L) {
  box *b = check_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  ett_set dimensions = to_set(L, 3, DIMENSION_TYPE, b), scattered = 0;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_getfield(L, 4, "scattered");
    scattered = to_set(L, lua_gettop(L), AXIS_TYPE, b);
    lua_pop(L, 1);
  }
  ett_err err = {0};
  int index =
      raise_if(L, ett_ledger_tensor(b->ledger, name, dimensions, scattered, &err), &err);
  push_handle(L, 1, b, TENSOR_TYPE, index);
  return 1;
}

/* Closes the meter of a guard (user value 1: its ledger), whether or not its function
 * raised. */
static int meter_close(lua_State *L) {
  luaL_checkudata(L, 1, METER_TYPE);
  int raised = !lua_isnoneornil(L, 2);
  lua_getiuservalue(L, 1, 1);
  box *b = luaL_checkudata(L, -1, ETT_LEDGER_TYPE);
  if (!b->ledger)
    return raised ? 0 : luaL_error(L, "the ledger is closed");
  ett_err err = {0};
  return ett_ledger_close(b->ledger, &err) < 0 && !raised ? ett_lua_raise(L, &err) : 0;
}

/* meter(name, multiplier, fn): counts what fn does, times multiplier. */
static int ledger_meter(lua_State *L) {
  box *b = check_box(L, 1);
  const char *name = luaL_checkstring(L, 2);
  ett_node multiplier = to_node(L, 3, b);
  luaL_checktype(L, 4, LUA_TFUNCTION);
  lua_settop(L, 4);
  lua_newuserdatauv(L, 0, 1);
  luaL_setmetatable(L, METER_TYPE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  ett_err err = {0};
  raise_if(L, ett_ledger_open(b->ledger, name, multiplier, &err), &err);
  lua_toclose(L, 5);
  lua_pushvalue(L, 4);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L) - 5;
}

static int ledger_label(lua_State *L) {
  ett_err err = {0};
  raise_if(L, ett_ledger_label(check_box(L, 1)->ledger, luaL_checkstring(L, 2), &err),
           &err);
  return 0;
}

static const char *const relations[] = {"divides", "at_most",  "at_least",
                                        "equal",   "disjoint", NULL};

/* check(relation, subject, left, object, right) */
static int ledger_check(lua_State *L) {
  box *b = check_box(L, 1);
  int relation = luaL_checkoption(L, 2, NULL, relations);
  const char *subject = luaL_checkstring(L, 3), *object = luaL_checkstring(L, 5);
  ett_node left = to_node(L, 4, b), right = to_node(L, 6, b);
  ett_err err = {0};
  raise_if(L,
           ett_ledger_check(b->ledger, (ett_relation)relation, subject, left, object,
                            right, &err),
           &err);
  return 0;
}

/* checks(): {relation, subject, left, object, right, stage, ok}, in order. */
static int ledger_checks(lua_State *L) {
  box *b = check_box(L, 1);
  size_t count = ett_ledger_checks(b->ledger);
  ett_err err = {0};
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    const ett_check *c = ett_ledger_check_at(b->ledger, i);
    lua_createtable(L, 0, 7);
    lua_pushstring(L, relations[c->relation]);
    lua_setfield(L, -2, "relation");
    lua_pushstring(L, c->subject);
    lua_setfield(L, -2, "subject");
    lua_pushstring(L, c->object);
    lua_setfield(L, -2, "object");
    lua_pushstring(L, c->stage);
    lua_setfield(L, -2, "stage");
    push_node(L, 1, b, c->left, &err);
    lua_setfield(L, -2, "left");
    push_node(L, 1, b, c->right, &err);
    lua_setfield(L, -2, "right");
    push_node(L, 1, b, c->ok, &err);
    lua_setfield(L, -2, "ok");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static const char *const count_names[ETT_COUNTS] = {"flop_forward", "tx_forward",
                                                    "rx_forward",   "flop_backward",
                                                    "tx_backward",  "rx_backward"};

static void set_counts(lua_State *L, box *b, const ett_node *counts, ett_node factor) {
  ett_graph *graph = ett_ledger_graph(b->ledger);
  ett_err err = {0};
  for (int i = 0; i < ETT_COUNTS; i++) {
    if (counts[i] < 0)
      continue;
    ett_node node = factor < 0
                        ? counts[i]
                        : ett_graph_apply(graph, ETT_OP_MUL, counts[i], factor, -1, &err);
    push_node(L, 1, b, node, &err);
    lua_setfield(L, -2, count_names[i]);
  }
}

static int ledger_totals(lua_State *L) {
  box *b = check_box(L, 1);
  ett_node counts[ETT_COUNTS];
  for (int i = 0; i < ETT_COUNTS; i++)
    counts[i] = ett_ledger_meter_count(b->ledger, 0, i);
  lua_createtable(L, 0, ETT_COUNTS);
  set_counts(L, b, counts, -1);
  return 1;
}

static void push_names(lua_State *L, const box *b, ett_set set) {
  lua_newtable(L);
  for (int i = 0, n = 0; i < ETT_LEDGER_MAX; i++)
    if ((set >> i) & 1u) {
      lua_pushstring(L, ett_ledger_dimension_name(b->ledger, i));
      lua_rawseti(L, -2, ++n);
    }
}

/* entries(): what each operation cost, multipliers applied, with its part by axis.
 * `tensors` names the operands, `left`, `right` and `result` their dimensions. */
static int ledger_entries(lua_State *L) {
  static const char *const operations[] = {"multiply", "broadcast", "reduce"};
  box *b = check_box(L, 1);
  size_t count = ett_ledger_entries(b->ledger), shares = ett_ledger_shares(b->ledger);
  size_t s = 0;
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    const ett_entry *e = ett_ledger_entry(b->ledger, i);
    ett_node factor = ett_ledger_meter_factor(b->ledger, e->meter);
    lua_createtable(L, 0, 16);
    lua_pushstring(L, operations[e->operation]);
    lua_setfield(L, -2, "operation");
    lua_pushstring(L, e->label);
    lua_setfield(L, -2, "label");
    lua_pushstring(L, ett_ledger_meter_name(b->ledger, e->meter));
    lua_setfield(L, -2, "meter");
    ett_err err = {0};
    push_node(L, 1, b, factor, &err);
    lua_setfield(L, -2, "factor");
    if (e->reduced >= 0) {
      lua_pushstring(L, ett_ledger_dimension_name(b->ledger, e->reduced));
      lua_setfield(L, -2, "dimension");
    }
    push_names(L, b, ett_ledger_tensor_dimensions(b->ledger, e->left));
    lua_setfield(L, -2, "left");
    if (e->right >= 0) {
      push_names(L, b, ett_ledger_tensor_dimensions(b->ledger, e->right));
      lua_setfield(L, -2, "right");
    }
    push_names(L, b, ett_ledger_tensor_dimensions(b->ledger, e->result));
    lua_setfield(L, -2, "result");
    lua_newtable(L);
    lua_pushstring(L, ett_ledger_tensor_name(b->ledger, e->left));
    lua_rawseti(L, -2, 1);
    if (e->right >= 0) {
      lua_pushstring(L, ett_ledger_tensor_name(b->ledger, e->right));
      lua_rawseti(L, -2, 2);
    }
    lua_setfield(L, -2, "tensors");
    set_counts(L, b, e->counts, factor);
    ett_node touched =
        ett_graph_apply(ett_ledger_graph(b->ledger), ETT_OP_MUL,
                        ett_ledger_entry_touched(b->ledger, i, &err), factor, -1, &err);
    push_node(L, 1, b, touched, &err);
    lua_setfield(L, -2, "rank_words");
    lua_newtable(L);
    for (int n = 0; s < shares; s++) {
      const ett_share *share = ett_ledger_share(b->ledger, s);
      if ((size_t)share->entry != i)
        break;
      lua_createtable(L, 0, 5);
      lua_pushstring(L, ett_ledger_axis_name(b->ledger, share->axis));
      lua_setfield(L, -2, "axis");
      push_node(L, 1, b, ett_ledger_axis_degree(b->ledger, share->axis), &err);
      lua_setfield(L, -2, "degree");
      set_counts(L, b, share->counts, factor);
      lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "axes");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* axes(): {name, degree}, in order of creation. */
static int ledger_axes(lua_State *L) {
  box *b = check_box(L, 1);
  ett_err err = {0};
  size_t count = ett_ledger_axes(b->ledger);
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, ett_ledger_axis_name(b->ledger, (int)i));
    lua_setfield(L, -2, "name");
    push_node(L, 1, b, ett_ledger_axis_degree(b->ledger, (int)i), &err);
    lua_setfield(L, -2, "degree");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int ledger_clusters(lua_State *L) {
  box *b = check_box(L, 1);
  ett_err err = {0};
  return push_node(L, 1, b, ett_ledger_clusters(b->ledger, &err), &err);
}

/* --- tensors ----------------------------------------------------------------------- */

static int push_tensor(lua_State *L, box *owner, int index, const ett_err *err) {
  raise_if(L, index, err);
  push_handle(L, 1, owner, TENSOR_TYPE, index);
  return 1;
}

static int tensor_multiply(lua_State *L) {
  box *owner = check_handle(L, 1, TENSOR_TYPE)->owner;
  ett_err err = {0};
  int a = check_index(L, 1, TENSOR_TYPE, owner),
      b = check_index(L, 2, TENSOR_TYPE, owner);
  return push_tensor(L, owner, ett_ledger_multiply(owner->ledger, a, b, &err), &err);
}

static int tensor_dot(lua_State *L) {
  box *owner = check_handle(L, 1, TENSOR_TYPE)->owner;
  ett_err err = {0};
  int a = check_index(L, 1, TENSOR_TYPE, owner),
      b = check_index(L, 2, TENSOR_TYPE, owner);
  return push_tensor(L, owner, ett_ledger_dot(owner->ledger, a, b, &err), &err);
}

static ett_set rotate_field(lua_State *L, int index, const box *owner) {
  if (lua_isnoneornil(L, index))
    return 0;
  luaL_checktype(L, index, LUA_TTABLE);
  lua_getfield(L, index, "rotate");
  ett_set set = to_set(L, lua_gettop(L), DIMENSION_TYPE, owner);
  lua_pop(L, 1);
  return set;
}

static int tensor_broadcast(lua_State *L) {
  handle *h = check_handle(L, 1, TENSOR_TYPE);
  ett_err err = {0};
  ett_set rotate = rotate_field(L, 2, h->owner);
  return push_tensor(
      L, h->owner, ett_ledger_broadcast(h->owner->ledger, h->index, rotate, &err), &err);
}

static int dimension_field(lua_State *L, int index, const char *name, const box *owner) {
  if (lua_isnoneornil(L, index))
    return -1;
  luaL_checktype(L, index, LUA_TTABLE);
  int found = -1;
  if (lua_getfield(L, index, name) != LUA_TNIL)
    found = check_index(L, -1, DIMENSION_TYPE, owner);
  lua_pop(L, 1);
  return found;
}

/* reduce(dimension, {from=, to=}) */
static int tensor_reduce(lua_State *L) {
  handle *h = check_handle(L, 1, TENSOR_TYPE);
  int d = check_index(L, 2, DIMENSION_TYPE, h->owner);
  int from = dimension_field(L, 3, "from", h->owner);
  int to = dimension_field(L, 3, "to", h->owner);
  ett_err err = {0};
  return push_tensor(L, h->owner,
                     ett_ledger_reduce(h->owner->ledger, h->index, d, from, to, &err),
                     &err);
}

/* all_reduce(dimension, {rotate=}) */
static int tensor_all_reduce(lua_State *L) {
  handle *h = check_handle(L, 1, TENSOR_TYPE);
  int d = check_index(L, 2, DIMENSION_TYPE, h->owner);
  ett_set rotate = rotate_field(L, 3, h->owner);
  ett_err err = {0};
  int sum = ett_ledger_reduce(h->owner->ledger, h->index, d, -1, -1, &err);
  raise_if(L, sum, &err);
  return push_tensor(L, h->owner,
                     ett_ledger_broadcast(h->owner->ledger, sum, rotate, &err), &err);
}

static int tensor_scatter_transpose(lua_State *L) {
  handle *h = check_handle(L, 1, TENSOR_TYPE);
  int from = check_index(L, 2, DIMENSION_TYPE, h->owner);
  int to = check_index(L, 3, DIMENSION_TYPE, h->owner);
  ett_err err = {0};
  return push_tensor(
      L, h->owner,
      ett_ledger_scatter_transpose(h->owner->ledger, h->index, from, to, &err), &err);
}

/* reduce_with(other): the sum of both over the one dimension in which they differ. */
static int tensor_reduce_with(lua_State *L) {
  box *owner = check_handle(L, 1, TENSOR_TYPE)->owner;
  int a = check_index(L, 1, TENSOR_TYPE, owner),
      b = check_index(L, 2, TENSOR_TYPE, owner);
  int joint = -1;
  ett_err err = {0};
  int both = ett_ledger_concatenate(owner->ledger, a, b, &joint, &err);
  raise_if(L, both, &err);
  return push_tensor(L, owner,
                     ett_ledger_reduce(owner->ledger, both, joint, -1, -1, &err), &err);
}

static int tensor_local_elements(lua_State *L) {
  handle *h = check_handle(L, 1, TENSOR_TYPE);
  ett_err err = {0};
  return push_node(L, 1, h->owner,
                   ett_ledger_tensor_local(h->owner->ledger, h->index, &err), &err);
}

static int tensor_dimensions(lua_State *L) {
  handle *h = check_handle(L, 1, TENSOR_TYPE);
  push_names(L, h->owner, ett_ledger_tensor_dimensions(h->owner->ledger, h->index));
  return 1;
}

static int dimension_size(lua_State *L) {
  handle *h = check_handle(L, 1, DIMENSION_TYPE);
  ett_err err = {0};
  return push_node(L, 1, h->owner, ett_ledger_dimension_size(h->owner->ledger, h->index),
                   &err);
}

static int axis_degree(lua_State *L) {
  handle *h = check_handle(L, 1, AXIS_TYPE);
  ett_err err = {0};
  return push_node(L, 1, h->owner, ett_ledger_axis_degree(h->owner->ledger, h->index),
                   &err);
}

/* --- tables ------------------------------------------------------------------------ */

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

static const luaL_Reg ledger_methods[] = {
    {"parameter", ledger_parameter},
    {"axis", ledger_axis},
    {"dimension", ledger_dimension},
    {"tensor", ledger_tensor},
    {"meter", ledger_meter},
    {"label", ledger_label},
    {"check", ledger_check},
    {"checks", ledger_checks},
    {"totals", ledger_totals},
    {"entries", ledger_entries},
    {"axes", ledger_axes},
    {"clusters", ledger_clusters},
    {"compile", ett_lua_ledger_compile},
    {"close", ledger_close},
    {NULL, NULL},
};

static const luaL_Reg tensor_methods[] = {
    {"multiply", tensor_multiply},       {"dot", tensor_dot},
    {"broadcast", tensor_broadcast},     {"reduce", tensor_reduce},
    {"all_reduce", tensor_all_reduce},   {"scatter_transpose", tensor_scatter_transpose},
    {"reduce_with", tensor_reduce_with}, {"local_elements", tensor_local_elements},
    {"dimensions", tensor_dimensions},   {NULL, NULL},
};

static void new_type(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  if (methods) {
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
  }
  lua_pushliteral(L, "locked");
  lua_setfield(L, -2, "__metatable");
}

int luaopen_ett_ledger(lua_State *L) {
  static const luaL_Reg dimension_methods[] = {{"size", dimension_size}, {NULL, NULL}};
  static const luaL_Reg axis_methods[] = {{"degree", axis_degree}, {NULL, NULL}};
  new_type(L, ETT_LEDGER_TYPE, ledger_methods);
  lua_pushcfunction(L, ledger_close);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, ledger_close);
  lua_setfield(L, -2, "__close");
  new_type(L, METER_TYPE, NULL);
  lua_pushcfunction(L, meter_close);
  lua_setfield(L, -2, "__close");
  new_type(L, AXIS_TYPE, axis_methods);
  new_type(L, DIMENSION_TYPE, dimension_methods);
  new_type(L, TENSOR_TYPE, tensor_methods);
  lua_pushcfunction(L, tensor_multiply);
  lua_setfield(L, -2, "__mul");
  ett_lua_ledger_program_type(L);
  new_type(L, ETT_EXPRESSION_TYPE, NULL);
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
  lua_pushcfunction(L, ledger_new);
  lua_setfield(L, -2, "new");
  lua_pushcfunction(L, module_value);
  lua_setfield(L, -2, "value");
  return 1;
}
