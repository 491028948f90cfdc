/* ledger.h - what the two binding files of ett.ledger share. */
#ifndef ETT_BIND_LEDGER_H
#define ETT_BIND_LEDGER_H

#include "bind/common.h"
#include "ledger/ledger.h"

#define ETT_LEDGER_TYPE "ett.ledger"
#define ETT_EXPRESSION_TYPE "ett.ledger.expression"

/* The open ledger at index, or raises. */
ett_ledger *ett_lua_ledger(lua_State *L, int index);
/* The number or expression at index as a node of the ledger at ledger_index. */
ett_node ett_lua_ledger_node(lua_State *L, int index, int ledger_index);

/* ledger:compile{name = expression, ...} */
int ett_lua_ledger_compile(lua_State *L);
int luaopen_ett_ledger(lua_State *L);
int luaopen_ett_ledger_program(lua_State *L);

/* Registers the metatable of programs; leaves it on the stack. */
void ett_lua_ledger_program_type(lua_State *L);

#endif
