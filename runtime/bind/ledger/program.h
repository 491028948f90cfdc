/* program.h - shared by the files of ett.ledger_program: program.c compiles and
 * evaluates, search.c searches. */
#ifndef ETT_BIND_LEDGER_PROGRAM_H
#define ETT_BIND_LEDGER_PROGRAM_H

#include "bind/common.h"
#include "ledger/tape.h"

typedef struct ett_lua_program_box {
  ett_tape *tape;                                /* NULL once closed */
  double *defaults, *inputs, *outputs, *scratch; /* all in user value WORK */
} ett_lua_program_box;

/* The open program at index; raises when it is closed. */
ett_lua_program_box *ett_lua_program(lua_State *L, int index);

/* Pushes the list of the program's names ("inputs" or "outputs"; the program is at index
 * 1) and returns its stack index. */
int ett_lua_program_names(lua_State *L, const char *which);

/* Index of the input named by the string at key; names: the list of inputs. */
size_t ett_lua_program_input(lua_State *L, int key, int names);

/* Fills the inputs with the defaults and overrides them with the table at index, if
 * any. */
void ett_lua_program_read(lua_State *L, const ett_lua_program_box *p, int index,
                          double *inputs);

/* The method `search`. */
int ett_lua_program_search(lua_State *L);

#endif
