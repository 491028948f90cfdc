/* The command line: passes the arguments to lua/ett/cli and prints errors. */
#ifndef ETT_CLI_H
#define ETT_CLI_H

#include <lua.h>

/* Runs `ett …`; returns the exit status: 0 success, 1 fault, 2 usage. */
int cli_main(int argc, char **argv);

/* The same in an open state, which stays open; -1 after an interrupt. Specs run commands
 * this way in forked children. */
int cli_run(lua_State *L, int argc, char **argv);

#endif
