/* trace.h - what the bindings of traces, selections and intervals share. */
#ifndef ETT_BIND_TRACE_H
#define ETT_BIND_TRACE_H

#include "bind/common.h"
#include "trace/group.h"
#include "trace/interval.h"
#include "trace/link.h"
#include "trace/select.h"
#include "trace/trace.h"

#define ETT_LUA_TRACE "ett.trace"
#define ETT_LUA_NAME_SET "ett.name_set"
#define ETT_LUA_SELECTION "ett.selection"
#define ETT_LUA_INTERVAL "ett.interval"

typedef struct ett_lua_trace_box {
  ett_trace *trace; /* NULL once closed */
} ett_lua_trace_box;

/* The trace at an index; raises when it is closed. */
ett_trace *ett_lua_check_trace(lua_State *L, int index);

/* One byte for each string of the trace that is its user value. */
typedef struct ett_lua_name_set {
  uint32_t count, held;
  uint8_t allow[];
} ett_lua_name_set;

/* User value 1 is the trace. */
typedef struct ett_lua_selection {
  ett_selection s;
} ett_lua_selection;

/* The selection at an index and its trace; raises when the trace is closed. */
ett_lua_selection *ett_lua_check_selection(lua_State *L, int index, ett_trace **t);

/* An empty selection of the trace at trace_index, pushed; its rows are filled next. */
ett_lua_selection *ett_lua_new_selection(lua_State *L, int trace_index);

/* Pushes the selection of all rows (from NULL) or of one's rows that pass the filter
 * table at filter_index (none or nil: all valid rows). */
void ett_lua_push_selected(lua_State *L, int trace_index, const ett_selection *from,
                           int filter_index);

/* An empty set, pushed; its items are filled next. */
ett_intervals *ett_lua_new_intervals(lua_State *L);

/* Raises out of memory when status is not 0. */
void ett_lua_check_memory(lua_State *L, int status);

/* Pushes a key's value: class and ph by name, missing as nil. */
void ett_lua_push_key(lua_State *L, const ett_trace *t, ett_key key,
                      const ett_key_value *value);

/* Makes the metatables of selections and intervals, once per state. */
int luaopen_ett_selection(lua_State *L);
int luaopen_ett_interval(lua_State *L);
int luaopen_ett_trace(lua_State *L);

#endif
