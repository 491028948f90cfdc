/* trace.h - shared by the bindings of traces, selections and intervals. */
#ifndef ETT_BIND_TRACE_H
#define ETT_BIND_TRACE_H

#include "bind/common.h"
#include "trace/query/group.h"
#include "trace/query/interval.h"
#include "trace/query/link.h"
#include "trace/query/select.h"
#include "trace/table/trace.h"

#define ETT_LUA_TRACE "ett.trace"
#define ETT_LUA_NAME_SET "ett.name_set"
#define ETT_LUA_SELECTION "ett.selection"
#define ETT_LUA_INTERVAL "ett.interval"
#define ETT_LUA_SEQUENCE "ett.sequence"

/* The trace at an index; raises if it is closed. */
static inline ett_trace *ett_lua_check_trace(lua_State *L, int index) {
  return ett_lua_box_check(L, index, ETT_LUA_TRACE, "trace");
}

/* Argument 2, the last one, is a table of options; none is an empty table. */
static inline void ett_lua_options(lua_State *L) {
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_newtable(L);
    lua_replace(L, 2);
  }
  luaL_checktype(L, 2, LUA_TTABLE);
}

/* ---- filter.c ---- */

typedef struct ett_lua_filter {
  ett_filter f;
  ett_arg_test tests[16];
} ett_lua_filter;

/* Reads the filter table at index (none or nil: no filter). Data of the filter stays on
 * the stack; raises on an unknown field or a wrong value. */
void ett_lua_read_filter(lua_State *L, int index, const ett_trace *t, ett_lua_filter *x);

/* Marks the classes named by the string or list at index. */
void ett_lua_read_classes(lua_State *L, int index, uint8_t *wanted);

/* Item i (1-based) of a string or a list of them; NULL at the end. */
const char *ett_lua_text_item(lua_State *L, int index, lua_Integer i, const char *field,
                              size_t *length);

/* n + 1 zero bytes in a userdata left on the stack. */
uint8_t *ett_lua_zeroes(lua_State *L, size_t n);

/* Column of an arg; raises if it was not requested. */
uint32_t ett_lua_arg_column(lua_State *L, const ett_trace *t, const char *name);

/* ---- name_set.c ---- */

/* One byte per string of the trace in its user value. */
typedef struct ett_lua_name_set {
  uint32_t count, held;
  uint8_t allow[];
} ett_lua_name_set;

int ett_lua_trace_name_set(lua_State *L);
void ett_lua_name_set_type(lua_State *L);

/* ---- selection.c ---- */

/* User value 1 holds the trace. */
typedef struct ett_lua_selection {
  ett_selection s;
  ett_trace *t; /* set by ett_lua_check_selection */
  bool closed;
} ett_lua_selection;

/* The selection at an index; raises if its trace is closed. */
ett_lua_selection *ett_lua_check_selection(lua_State *L, int index);

/* Keys from the string or list at index ("name", "arg:NAME", …), in a userdata left on
 * the stack. */
ett_key *ett_lua_keys(lua_State *L, int index, const ett_trace *t, uint32_t *count);

/* Pushes a selection of all rows (from is NULL), or of those of `from`, that pass the
 * filter table at filter_index (none or nil: all valid rows). */
void ett_lua_push_selected(lua_State *L, int trace_index, const ett_selection *from,
                           int filter_index);

/* ---- interval.c ---- */

/* Pushes an empty set; the caller fills its items. */
ett_intervals *ett_lua_new_intervals(lua_State *L);

/* Item i of the list of integers at an index. */
int64_t ett_lua_integer_at(lua_State *L, int list, lua_Integer i);

/* Raises an out-of-memory error if status is not 0. */
void ett_lua_check_memory(lua_State *L, int status);

/* Creates the metatables of selections, and of intervals. */
void ett_lua_selection_type(lua_State *L);
int luaopen_ett_interval(lua_State *L);
int luaopen_ett_trace(lua_State *L);

#endif
