/* common.h - what every binding shares. lua.h is included by bindings and the host only.
 */
#ifndef ETT_BIND_COMMON_H
#define ETT_BIND_COMMON_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/err.h"

/* Lua's header does not say that these never return; compilers and analysers ask. */
int luaL_error(lua_State *L, const char *format, ...) __attribute__((noreturn));
int luaL_argerror(lua_State *L, int index, const char *message) __attribute__((noreturn));
int luaL_typeerror(lua_State *L, int index, const char *name) __attribute__((noreturn));
int lua_error(lua_State *L) __attribute__((noreturn));

/* Pushes nil and an error object {kind, message} made from err (the object has the
 * metatable of ett.error once that module is loaded); returns 2. For files and devices.
 */
int ett_lua_fail(lua_State *L, const ett_err *err);

/* Raises err as an error object. For wrong arguments and faults of a description. */
int ett_lua_raise(lua_State *L, const ett_err *err) __attribute__((noreturn));

/* Array part of the table at index as doubles, in a userdata left on the stack (scratch
 * memory that survives a raise). Sets *count. Raises when an element is not a number. */
double *ett_lua_doubles(lua_State *L, int index, size_t *count);

/* Pushes a list of numbers. */
void ett_lua_push_doubles(lua_State *L, const double *values, size_t count);

/* Field access with a default; raises with the field's name when the kind is wrong. */
lua_Number ett_lua_number_field(lua_State *L, int index, const char *name,
                                lua_Number fallback);
lua_Integer ett_lua_integer_field(lua_State *L, int index, const char *name,
                                  lua_Integer fallback);
int ett_lua_boolean_field(lua_State *L, int index, const char *name, int fallback);

/* The string stays owned by the table: valid while the table holds it. */
const char *ett_lua_string_field(lua_State *L, int index, const char *name,
                                 const char *fallback);

#endif
