/* Reads and checks a design {family, dims, backward, multiprocessors} from a Lua
 * table. */
#ifndef ETT_BIND_REGRESS_DESIGN_H
#define ETT_BIND_REGRESS_DESIGN_H

#include "bind/common.h"
#include "regress/serve/design.h"

/* Raises if a field of the table at index is missing. */
static inline void ett_lua_demand(lua_State *L, int index, const char *const *names) {
  for (; *names; names++) {
    if (ett_lua_raw_field(L, index, *names) == LUA_TNIL)
      luaL_error(L, "field '%s' is missing", *names);
    lua_pop(L, 1);
  }
}

static inline void ett_lua_design(lua_State *L, int index, ett_design *design) {
  static const char *const names[] = {"family", "dims", "multiprocessors", NULL};
  luaL_checktype(L, index, LUA_TTABLE);
  ett_lua_demand(L, index, names);
  const char *name = ett_lua_string_field(L, index, "family", "");
  int family = ett_family_find(name);
  if (family < 0)
    luaL_error(L, "unknown family '%s'", name);
  lua_Integer dims = ett_lua_integer_field(L, index, "dims", 0);
  *design =
      (ett_design){(ett_family)family, ett_lua_boolean_field(L, index, "backward", 0),
                   ett_lua_number_field(L, index, "multiprocessors", 0),
                   dims > 0 && dims < 1000 ? (int)dims : 0};
  ett_err err;
  if (ett_design_check(design, &err) != 0)
    ett_lua_raise(L, &err);
}

#endif
