/* No text makes the YAML reader crash, leak, run away or answer without a value. */
#include <stdint.h>
#include <stdlib.h>

#include "bind/common.c"
#include "bind/io/yaml.c"
#include "bind/value.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lua_State *L = luaL_newstate();
  if (!L)
    return 0;
  lua_pushcfunction(L, luaopen_ett_yaml);
  lua_call(L, 0, 1);
  lua_getfield(L, -1, "decode");
  lua_pushlstring(L, (const char *)data, size);
  if (lua_pcall(L, 1, 2, 0) != LUA_OK)
    abort();
  if (lua_isnil(L, -2)) { /* then a message */
    if (lua_getfield(L, -1, "message") != LUA_TSTRING || lua_rawlen(L, -1) == 0)
      abort();
  } else if (!lua_istable(L, -1)) {
    abort();
  }
  lua_close(L);
  return 0;
}
