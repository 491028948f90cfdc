/* host.h - the Lua state of one ett process: roots, search paths, preloaded modules. */
#ifndef ETT_HOST_H
#define ETT_HOST_H

#include <lua.h>

/* Makes a state with the standard libraries, the preloaded ett modules and the search
 * paths of the installed (or build) tree that holds this executable. NULL when memory or
 * the tree is missing; then *why is a static sentence. */
lua_State *host_open(const char **why);

/* Calls the function below its n arguments with a traceback handler; returns the Lua
 * status. On failure the error value (an object or a string) is left on the stack. */
int host_call(lua_State *L, int arguments, int results);

#endif
