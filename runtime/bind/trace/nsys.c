/* ett.nsys: the SQLite reader of ett.trace; separate, so that SQLite is loaded only for
 * its files. */
#include <string.h>

#include "bind/common.h"
#include "trace/read/nsys.h"

int luaopen_ett_nsys(lua_State *L);

int luaopen_ett_nsys(lua_State *L) {
  ett_lua_type(L, ETT_LUA_READER, NULL, NULL);
  lua_newtable(L);
  ett_trace_reader reader = ett_nsys_read;
  void *box = lua_newuserdatauv(L, sizeof reader, 0);
  memcpy(box, &reader, sizeof reader);
  luaL_setmetatable(L, ETT_LUA_READER);
  lua_setfield(L, -2, "reader");
  return 1;
}
