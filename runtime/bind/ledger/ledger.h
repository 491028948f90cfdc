/* ledger.h - shared by the binding files of ett.ledger. */
#ifndef ETT_BIND_LEDGER_H
#define ETT_BIND_LEDGER_H

#include "bind/common.h"
#include "ledger/graph.h"
#include "ledger/ledger.h"

#define ETT_LEDGER_TYPE "ett.ledger"
#define ETT_EXPRESSION_TYPE "ett.ledger.expression"
#define ETT_AXIS_TYPE "ett.ledger.axis"
#define ETT_DIMENSION_TYPE "ett.ledger.dimension"
#define ETT_TENSOR_TYPE "ett.ledger.tensor"

typedef struct ett_lua_ledger_owner {
  ett_ledger *ledger; /* NULL once closed */
} ett_lua_ledger_owner;

/* An axis, dimension, tensor or expression. */
typedef struct ett_lua_ledger_item {
  ett_lua_ledger_owner *owner; /* kept by user value 1 */
  int index;
} ett_lua_ledger_item;

/* ---- handle.c ---- */

/* The open ledger at index, or the handle of that type; raises if the ledger is
 * closed. */
ett_lua_ledger_owner *ett_lua_ledger_box(lua_State *L, int index);
ett_lua_ledger_item *ett_lua_ledger_handle(lua_State *L, int index, const char *type);
ett_ledger *ett_lua_ledger(lua_State *L, int index);

/* Index of the handle of that type; raises if it belongs to another ledger than owner. */
int ett_lua_ledger_index(lua_State *L, int index, const char *type,
                         const ett_lua_ledger_owner *owner);

/* The list of handles at index as a set; nil or none gives the empty set. */
ett_set ett_lua_ledger_to_set(lua_State *L, int index, const char *type,
                              const ett_lua_ledger_owner *owner);

/* Pushes a handle; owner_index is a ledger or another handle of it. */
void ett_lua_ledger_push(lua_State *L, int owner_index, ett_lua_ledger_owner *owner,
                         const char *type, int index);

/* Pushes a node: a plain number when it does not depend on parameters. Raises err when
 * the node is negative. Returns 1. */
int ett_lua_ledger_push_node(lua_State *L, int owner_index, ett_lua_ledger_owner *owner,
                             ett_node node, const ett_err *err);

/* Pushes the names of a set of dimensions as a list. */
void ett_lua_ledger_push_names(lua_State *L, const ett_lua_ledger_owner *b, ett_set set);

/* The number or expression at index as a node of the owner's ledger. */
ett_node ett_lua_ledger_to_node(lua_State *L, int index, ett_lua_ledger_owner *owner);
/* The same for the ledger at ledger_index. */
ett_node ett_lua_ledger_node(lua_State *L, int index, int ledger_index);

/* Returns the status; raises err if the status is negative. */
int ett_lua_ledger_raise_if(lua_State *L, int status, const ett_err *err);

/* Creates a metatable with these methods (or none), left on the stack. */
void ett_lua_ledger_new_type(lua_State *L, const char *name, const luaL_Reg *methods);

/* ---- expression.c: pushes the table of the module's functions ---- */
void ett_lua_ledger_expressions(lua_State *L);

/* ---- tensor.c ---- */
void ett_lua_ledger_tensor_types(lua_State *L);

/* ---- report.c ---- */
extern const char *const ett_lua_ledger_relations[]; /* by ett_relation; NULL last */
int ett_lua_ledger_checks(lua_State *L);
int ett_lua_ledger_totals(lua_State *L);
int ett_lua_ledger_entries(lua_State *L);
int ett_lua_ledger_axes(lua_State *L);

/* ---- program.c ---- */

/* ledger:compile{name = expression, ...} */
int ett_lua_ledger_compile(lua_State *L);

/* Registers the metatable of programs; leaves it on the stack. */
void ett_lua_ledger_program_type(lua_State *L);

int luaopen_ett_ledger(lua_State *L);
int luaopen_ett_ledger_program(lua_State *L);

#endif
