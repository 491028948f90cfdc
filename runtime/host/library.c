#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "host/ett.h"
#include "host/host.h"

struct ett_state {
  lua_State *L;
};

static int open_already;

/* The folder above lib/ett/libett.so. */
static int find_prefix(char prefix[PATH_MAX]) {
  Dl_info info;
  if (!dladdr((void *)ett_open, &info) || !realpath(info.dli_fname, prefix))
    return -1;
  return host_strip(prefix, 3);
}

ett_state *ett_open(const char *prefix, const char **why) {
  static char own[PATH_MAX];
  *why = NULL;
  if (open_already)
    *why = "ett is open in this process already; close it first";
  else if (!prefix && find_prefix(own) != 0)
    *why = "cannot find the folder of libett.so";
  ett_state *ett = *why ? NULL : malloc(sizeof *ett);
  if (!ett) {
    *why = *why ? *why : "not enough memory to start";
    return NULL;
  }
  ett->L = host_open(prefix ? prefix : own, why);
  if (!ett->L) {
    free(ett);
    return NULL;
  }
  host_interrupt_follow(ett->L);
  open_already = 1;
  return ett;
}

int luaopen_ett(lua_State *L);

/* Opens the library in a plain Lua interpreter; called by ett.lua of the rock. */
int luaopen_ett(lua_State *L) {
  char prefix[PATH_MAX];
  if (find_prefix(prefix) != 0)
    return luaL_error(L, "cannot find the folder of libett.so");
  const char *why = host_enter(L, prefix);
  if (why)
    return luaL_error(L, "%s", why);
  lua_pushfstring(L, "%s/share/ett/lua/ett/init.lua", prefix);
  if (luaL_loadfile(L, lua_tostring(L, -1)) != LUA_OK)
    return lua_error(L);
  lua_call(L, 0, 1);
  return 1;
}

/* require("ett.cli.call")(function, json) */
static int run(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ett.cli.call");
  lua_call(L, 1, 1);
  lua_pushstring(L, lua_touserdata(L, 1));
  lua_pushstring(L, lua_touserdata(L, 2));
  lua_call(L, 2, 1);
  return 1;
}

static const char no_memory[] =
    "{\"error\": {\"kind\": \"memory\", \"message\": \"not enough memory\"}}";
static const char interrupted[] = /* for a signal while the answer was made */
    "{\"error\": {\"kind\": \"interrupt\", \"message\": \"interrupted\"}}";
static const char no_answer[] =
    "{\"error\": {\"kind\": \"internal\", \"message\": \"cannot run ett.cli.call\"}}";

char *ett_call(ett_state *ett, const char *function, const char *json) {
  lua_State *L = ett->L;
  lua_pushcfunction(L, run);
  lua_pushlightuserdata(L, (void *)function);
  lua_pushlightuserdata(L, (void *)json);
  host_interrupt_share();
  const int status = host_call(L, 2, 1);
  const int came = host_interrupt_release();
  const char *text = status == LUA_ERRMEM ? no_memory : came ? interrupted : no_answer;
  if (status == LUA_OK && lua_type(L, -1) == LUA_TSTRING) /* converts nothing here */
    text = lua_tostring(L, -1);
  char *copy = strdup(text);
  lua_settop(L, 0);
  return copy;
}

void ett_free(char *text) {
  free(text);
}

void ett_close(ett_state *ett) {
  if (!ett)
    return;
  lua_close(ett->L);
  free(ett);
  open_already = 0;
}
