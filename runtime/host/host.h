/* host.h - the Lua state of one ett process: roots, search paths, preloaded modules, the
 * bound on its memory, and Ctrl-C. */
#ifndef ETT_HOST_H
#define ETT_HOST_H

#include <lua.h>

/* Makes a state with the standard libraries, the preloaded ett modules and the search
 * paths of the installed (or build) tree that holds this executable. NULL when memory or
 * the tree is missing, or ETT_MEMORY_LIMIT is no size; then *why is a static sentence.
 *
 * Lua's own memory is bounded by ETT_MEMORY_LIMIT (bytes, or with a suffix as in 512M),
 * by default half of the machine's and at most 4 GiB: a script that asks for more gets
 * "not enough memory". What C modules hold (traces, samples) does not count. */
lua_State *host_open(const char **why);

/* Calls the function below its n arguments with a traceback handler; returns the Lua
 * status. On failure the error value (an object or a string) is left on the stack. */
int host_call(lua_State *L, int arguments, int results);

/* From now on the first SIGINT or SIGTERM raises an error object of kind "interrupt" in
 * the running Lua code (coroutines included); of those that follow before
 * host_interrupt_reset, the one after `patience` kills the process as it would have
 * without us. After a SIGTERM the process lives for ten seconds more at most, to remove
 * what it made. */
void host_interrupt_catch(lua_State *L, int patience);
void host_interrupt_patience(int patience);

/* Whether a SIGINT came since the last reset; forgets it. After a SIGTERM it does not
 * return. */
int host_interrupt_reset(void);

/* Calls the function below its arguments, protected; returns the Lua status, with all
 * results on the stack. From then on signals come only within such calls, and wait
 * outside: nothing is raised between two of them. A signal that came too late for one is
 * forgotten. */
int host_interrupt_within(lua_State *L, int arguments);

/* The signal behind an error object of kind "interrupt": of what the process then dies.
 */
int host_interrupt_signal(void);

#endif
