#include "host.h"

#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preloaded.inc"

#ifndef ETT_VERSION
#error "ETT_VERSION comes from CMake"
#endif

/* The folder above bin/, in which lib/ett and share/ett stand. */
static int find_prefix(char prefix[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", prefix, PATH_MAX - 1);
  if (length <= 0)
    return -1;
  prefix[length] = '\0';
  for (int level = 0; level < 2; level++) {
    char *slash = strrchr(prefix, '/');
    if (!slash)
      return -1;
    *slash = '\0';
  }
  return 0;
}

static void set_host_table(lua_State *L, const char *prefix) {
  char share[PATH_MAX + 16], resolved[PATH_MAX];
  snprintf(share, sizeof share, "%s/share/ett", prefix);
  lua_createtable(L, 0, 4);
  lua_pushstring(L, ETT_VERSION);
  lua_setfield(L, -2, "version");
  lua_pushstring(L, realpath(share, resolved) ? resolved : share);
  lua_setfield(L, -2, "root");
  lua_pushstring(L, prefix);
  lua_setfield(L, -2, "prefix");
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  lua_setfield(L, -2, "terminal");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "ett.host");
  lua_pop(L, 2);
}

/* Searches the installed roots and, for C modules, the system's Lua folders: never the
 * working directory, and never LUA_PATH (lua/ett/host.lua adds script folder and
 * ETT_PATH in front). Relative and "./" entries of the default paths are dropped. */
static void set_paths(lua_State *L) {
  static const char paths[] =
      "local host = package.loaded['ett.host']\n"
      "local function absolute(path)\n"
      "  local kept = {}\n"
      "  for entry in path:gmatch('[^;]+') do\n"
      "    if entry:sub(1, 1) == '/' then kept[#kept + 1] = entry end\n"
      "  end\n"
      "  return table.concat(kept, ';')\n"
      "end\n"
      "local lua = host.root .. '/lua/'\n"
      "package.path = lua .. '?.lua;' .. lua .. '?/init.lua;' .. absolute(package.path)\n"
      "package.cpath = host.prefix .. '/lib/ett/?.so;' .. absolute(package.cpath)\n";
  if (luaL_dostring(L, paths) != LUA_OK)
    lua_error(L);
}

static int open_state(lua_State *L) {
  const char *prefix = lua_touserdata(L, 1);
  /* LUA_PATH and LUA_CPATH belong to other programs: not read. */
  lua_pushboolean(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  luaL_openlibs(L);
  set_host_table(L, prefix);
  set_paths(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const luaL_Reg *module = preloaded; module->name; module++) {
    lua_pushcfunction(L, module->func);
    lua_setfield(L, -2, module->name);
  }
  return 0;
}

lua_State *host_open(const char **why) {
  static char prefix[PATH_MAX];
  if (find_prefix(prefix) != 0) {
    *why = "cannot find the folder of the ett executable (is /proc mounted?)";
    return NULL;
  }
  lua_State *L = luaL_newstate();
  if (!L) {
    *why = "not enough memory to start";
    return NULL;
  }
  lua_pushcfunction(L, open_state);
  lua_pushlightuserdata(L, prefix);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    lua_close(L);
    *why = "not enough memory to start";
    return NULL;
  }
  return L;
}

/* Strings get a traceback appended to a separate field, so that the message stays one
 * line unless it is asked for; error objects keep theirs in `traceback`. */
static int add_traceback(lua_State *L) {
  if (lua_type(L, 1) == LUA_TTABLE) {
    if (lua_getfield(L, 1, "traceback") == LUA_TNIL) {
      luaL_traceback(L, L, NULL, 1);
      lua_setfield(L, 1, "traceback");
    }
    lua_settop(L, 1);
    return 1;
  }
  lua_createtable(L, 0, 3);
  lua_pushliteral(L, "internal");
  lua_setfield(L, -2, "kind");
  luaL_tolstring(L, 1, NULL);
  lua_setfield(L, -2, "message");
  luaL_traceback(L, L, NULL, 1);
  lua_setfield(L, -2, "traceback");
  luaL_getmetatable(L, "ett.error");
  lua_setmetatable(L, -2);
  return 1;
}

int host_call(lua_State *L, int arguments, int results) {
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  int status = lua_pcall(L, arguments, results, base);
  lua_remove(L, base);
  return status;
}
