/* ett.sandbox: a child process that can compute and print. */
#include "host/sandbox.h"

#include <stdlib.h>

#include "bind/common.h"
#include "host/compiled.h"

/* sandbox.enter(readable paths, processor seconds, memory bytes, output bytes)
 * -> whether the kernel restricts paths | nil, err. Returns in the child only. */
static int enter(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const size_t count = lua_rawlen(L, 1);
  const char **paths = lua_newuserdatauv(L, (count + 1) * sizeof *paths, 0);
  for (size_t i = 0; i < count; i++) {
    if (lua_rawgeti(L, 1, (lua_Integer)i + 1) != LUA_TSTRING)
      return luaL_error(L, "paths must be strings, got %s", luaL_typename(L, -1));
    paths[i] = lua_tostring(L, -1);
    lua_pop(L, 1); /* the table holds it */
  }
  const ett_sandbox_limits limits = {.readable = paths,
                                     .readable_count = count,
                                     .kept = compiled_descriptor(),
                                     .processor_seconds =
                                         (unsigned)luaL_checkinteger(L, 2),
                                     .memory_bytes = (size_t)luaL_checkinteger(L, 3),
                                     .output_bytes = (size_t)luaL_checkinteger(L, 4)};
  int landlock = 0;
  ett_err err = {ETT_OK, ""};
  if (ett_sandbox_enter(&limits, &landlock, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushboolean(L, landlock);
  return 1;
}

static const luaL_Reg functions[] = {{"enter", enter}, {NULL, NULL}};

int luaopen_ett_sandbox(lua_State *L);

int luaopen_ett_sandbox(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
