/* What every binding shares: faults, types, fields of tables. Only bindings and the host
 * include lua.h. */
#ifndef ETT_BIND_COMMON_H
#define ETT_BIND_COMMON_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/err.h"

/* These never return; Lua's header does not say so to compilers. */
int luaL_error(lua_State *L, const char *format, ...) __attribute__((noreturn));
int luaL_argerror(lua_State *L, int index, const char *message) __attribute__((noreturn));
int luaL_typeerror(lua_State *L, int index, const char *name) __attribute__((noreturn));
int lua_error(lua_State *L) __attribute__((noreturn));

/* The type of ett_comm_law, which ett.comm makes and ett.step reads. */
#define ETT_LUA_LAW "ett.comm.law"

/* Pushes an error object {kind, message}, with the metatable of ett.error once that
 * module is loaded. */
void ett_lua_push_error(lua_State *L, const ett_err *err);

/* Pushes nil and an error object; returns 2. For files and devices. */
int ett_lua_fail(lua_State *L, const ett_err *err);

/* The same with "NAME: " in front of the message. */
int ett_lua_fail_named(lua_State *L, const char *name, const ett_err *err);

/* true, or as ett_lua_fail when status is not 0. */
int ett_lua_result(lua_State *L, int status, const ett_err *err);

/* Raises err as an error object. For wrong arguments and faults of a description. */
int ett_lua_raise(lua_State *L, const ett_err *err) __attribute__((noreturn));

/* Makes the metatable of a type of userdata, which indexes itself. close, unless NULL, is
 * its method `close`, its __close and its __gc: it must tolerate to run twice. */
void ett_lua_type(lua_State *L, const char *name, const luaL_Reg *methods,
                  lua_CFunction close);

/* A userdata that holds one pointer of the core's. It is made closed (NULL), with its
 * metatable; check raises "the WHAT is closed" when it still or again is. */
void **ett_lua_box_new(lua_State *L, const char *type);
void *ett_lua_box_check(lua_State *L, int index, const char *type, const char *what);

/* Array part of the table at index as doubles, in a userdata left on the stack, so that
 * no raise leaks it. Sets *count. Raises when an element is not a number. */
double *ett_lua_doubles(lua_State *L, int index, size_t *count);

/* Set a field of the table on the top of the stack. */
void ett_lua_set_number(lua_State *L, const char *name, lua_Number value);
void ett_lua_set_integer(lua_State *L, const char *name, lua_Integer value);
void ett_lua_set_boolean(lua_State *L, const char *name, int value);
void ett_lua_set_string(lua_State *L, const char *name, const char *value);

/* Pushes a list of numbers. */
void ett_lua_push_doubles(lua_State *L, const double *values, size_t count);

/* A field, or the fallback when it is nil; a wrong type raises with the field's name. */
lua_Number ett_lua_number_field(lua_State *L, int index, const char *name,
                                lua_Number fallback);
lua_Integer ett_lua_integer_field(lua_State *L, int index, const char *name,
                                  lua_Integer fallback);
int ett_lua_boolean_field(lua_State *L, int index, const char *name, int fallback);

/* The table owns the string. */
const char *ett_lua_string_field(lua_State *L, int index, const char *name,
                                 const char *fallback);

#endif
