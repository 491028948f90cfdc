/* Shared by all bindings: errors, types, fields of tables. Only bindings and the host
 * include lua.h. */
#ifndef ETT_BIND_COMMON_H
#define ETT_BIND_COMMON_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>

#include "base/err.h"

/* Declared again, because Lua's header does not mark them as noreturn. */
int luaL_error(lua_State *L, const char *format, ...) __attribute__((noreturn));
int luaL_argerror(lua_State *L, int index, const char *message) __attribute__((noreturn));
int luaL_typeerror(lua_State *L, int index, const char *name) __attribute__((noreturn));
int lua_error(lua_State *L) __attribute__((noreturn));

/* The userdata type of ett_comm_law; made by ett.comm, read by ett.step. */
#define ETT_LUA_LAW "ett.comm.law"

/* The type of ett_model, which ett.regress makes and ett.step reads. */
#define ETT_LUA_MODEL "ett.regress"

/* A userdata with an ett_trace_reader; made by ett.nsys, read by ett.trace. */
#define ETT_LUA_READER "ett.trace.reader"

/* Pushes an error object {kind, message}. Its metatable is that of ett.error, if that
 * module is loaded. */
void ett_lua_push_error(lua_State *L, const ett_err *err);

/* Pushes nil and an error object; returns 2. For files and devices. */
int ett_lua_fail(lua_State *L, const ett_err *err);

/* The same with "NAME: " in front of the message. */
int ett_lua_fail_named(lua_State *L, const char *name, const ett_err *err);

/* Returns true, or as ett_lua_fail if status is not 0. */
int ett_lua_result(lua_State *L, int status, const ett_err *err);

/* Raises err as an error object. For wrong arguments and errors in a description. */
int ett_lua_raise(lua_State *L, const ett_err *err) __attribute__((noreturn));

/* Creates the metatable of a userdata type. Methods may be NULL. Those with "__" are
 * metamethods; __index has a table of the others. close (or NULL) becomes the method
 * `close`, __close and __gc. It and a __gc of `methods` may run twice, because
 * debug.getmetatable gives __gc to scripts. In a script's finaliser all three do nothing,
 * because an allocation of a call that uses the object may have started the finaliser.
 * The collector then closes the object later.
 * Before Lua 5.4.4 they also do nothing while the collector is stopped. */
void ett_lua_type(lua_State *L, const char *name, const luaL_Reg *methods,
                  lua_CFunction close);

/* A method of a type whose function serves several: the operand is its upvalue 1. */
typedef struct ett_lua_variant {
  const char *name;
  lua_CFunction function;
  int operand;
} ett_lua_variant;

/* Adds methods to a type; a NULL name ends the list. */
void ett_lua_variants(lua_State *L, const char *type, const ett_lua_variant *list);

/* A userdata with one pointer to a core object. It starts closed (NULL), with its
 * metatable; check raises "the WHAT is closed" for a closed box. */
void **ett_lua_box_new(lua_State *L, const char *type);
void *ett_lua_box_check(lua_State *L, int index, const char *type, const char *what);

/* Defines the function that closes a box of a type, by a function of the core that also
 * takes NULL. */
#define ETT_LUA_CLOSE(function, type, free_object)                                       \
  static int function(lua_State *L) {                                                    \
    void **box = luaL_checkudata(L, 1, type), *object = *box;                            \
    *box = NULL;                                                                         \
    free_object(object);                                                                 \
    return 0;                                                                            \
  }

/* The array part of the table at index as doubles, in a userdata left on the stack, so
 * that an error does not leak it. Sets *count. Raises if an element is not a number. */
double *ett_lua_doubles(lua_State *L, int index, size_t *count);

/* The same for the value on top of the stack, a field of a table. */
double *ett_lua_field_doubles(lua_State *L, const char *name, size_t *count);

/* The value on top of the stack, element i of a list. Another type raises an error with
 * the list's name and i. The list owns the string. */
lua_Integer ett_lua_integer_item(lua_State *L, const char *list, lua_Integer i);
lua_Number ett_lua_number_item(lua_State *L, const char *list, lua_Integer i);
const char *ett_lua_string_item(lua_State *L, const char *list, lua_Integer i);

/* Pushes a copy of text (NULL: an empty string) and frees text, also when memory runs
 * out, which raises. */
void ett_lua_push_freed(lua_State *L, void *text, size_t length);

/* Set a field of the table on top of the stack. */
void ett_lua_set_number(lua_State *L, const char *name, lua_Number value);
void ett_lua_set_integer(lua_State *L, const char *name, lua_Integer value);
void ett_lua_set_boolean(lua_State *L, const char *name, int value);
void ett_lua_set_string(lua_State *L, const char *name, const char *value);
void ett_lua_set_doubles(lua_State *L, const char *name, const double *values,
                         size_t count);

/* Push a list of numbers. */
void ett_lua_push_doubles(lua_State *L, const double *values, size_t count);
void ett_lua_push_integers(lua_State *L, const int64_t *values, size_t count);

/* Pushes a field of the table at index; returns its type. Bindings read a caller's tables
 * without metamethods, which could close an object that the call uses. */
int ett_lua_raw_field(lua_State *L, int index, const char *name);

/* Raises if the value on top of the stack, a field of a table, is no table. */
void ett_lua_check_table(lua_State *L, const char *name);

/* A field, or the default if it is nil. A wrong type raises an error with the field's
 * name. */
lua_Number ett_lua_number_field(lua_State *L, int index, const char *name,
                                lua_Number fallback);
lua_Integer ett_lua_integer_field(lua_State *L, int index, const char *name,
                                  lua_Integer fallback);
int ett_lua_boolean_field(lua_State *L, int index, const char *name, int fallback);

/* An integer field from least to most; raises for any other value. */
lua_Integer ett_lua_range_field(lua_State *L, int index, const char *name,
                                lua_Integer fallback, lua_Integer least,
                                lua_Integer most);

/* The position of a string field in a list that NULL ends, or 0 if the field is nil; any
 * other value raises. */
int ett_lua_choice_field(lua_State *L, int index, const char *name,
                         const char *const *choices);

/* The table owns the string. */
const char *ett_lua_string_field(lua_State *L, int index, const char *name,
                                 const char *fallback);

#endif
