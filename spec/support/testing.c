/* ett.testing: runs a function with allocations failing. With oom_shim.so preloaded every
 * malloc of the process is in play; without it (sanitizer builds) only Lua's own. */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <unistd.h>

typedef void arm_function(long first);
typedef long count_function(void);

typedef struct {
  lua_Alloc allocate;
  void *context;
  long counted, first;
} lua_failures;

static void *failing_allocate(void *context, void *block, size_t old_size, size_t size) {
  lua_failures *f = context;
  const int grows = size > 0 && (!block || size > old_size);
  if (grows && ++f->counted >= f->first)
    return NULL;
  return f->allocate(f->context, block, old_size, size);
}

/* fail_from(first, fn) -> counted, ok, result, err: calls fn with the first-th allocation
 * and all later ones failing. counted < first means that none failed. */
static int fail_from(lua_State *L) {
  const long first = (long)luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_checkstack(L, 20);
  arm_function *arm = (arm_function *)dlsym(RTLD_DEFAULT, "ett_oom_arm");
  count_function *disarm = (count_function *)dlsym(RTLD_DEFAULT, "ett_oom_disarm");
  lua_failures failures = {NULL, NULL, 0, first};
  int status;
  if (arm && disarm) {
    arm(first);
    status = lua_pcall(L, 0, 2, 0);
    failures.counted = disarm();
  } else {
    failures.allocate = lua_getallocf(L, &failures.context);
    lua_setallocf(L, failing_allocate, &failures);
    status = lua_pcall(L, 0, 2, 0);
    lua_setallocf(L, failures.allocate, failures.context);
  }
  lua_pushinteger(L, failures.counted);
  lua_insert(L, 2);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 3);
  return lua_gettop(L) - 1;
}

/* blocks() -> malloc'ed blocks now held by the process, or nil without the shim */
static int blocks(lua_State *L) {
  count_function *count = (count_function *)dlsym(RTLD_DEFAULT, "ett_oom_blocks");
  if (!count)
    return 0;
  lua_pushinteger(L, count());
  return 1;
}

/* fail_forked(stride, fn) -> counted, failed, in_child, ok, result, err: calls fn once.
 * Every stride-th allocation forks. In the child that allocation and all that follow
 * fail; the child also returns. failed: how many children ended with another status than
 * 0. */
static int fail_forked(lua_State *L) {
  const long stride = (long)luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_checkstack(L, 20);
  arm_function *arm = (arm_function *)dlsym(RTLD_DEFAULT, "ett_oom_fork");
  count_function *disarm = (count_function *)dlsym(RTLD_DEFAULT, "ett_oom_disarm");
  count_function *failed = (count_function *)dlsym(RTLD_DEFAULT, "ett_oom_failed");
  if (!arm || !disarm || !failed)
    return luaL_error(L, "fail_forked needs oom_shim.so");
  const pid_t parent = getpid();
  arm(stride);
  const int status = lua_pcall(L, 0, 2, 0);
  lua_pushinteger(L, disarm());
  lua_insert(L, 2);
  lua_pushinteger(L, failed());
  lua_insert(L, 3);
  lua_pushboolean(L, getpid() != parent);
  lua_insert(L, 4);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 5);
  return lua_gettop(L) - 1;
}

/* exit(status): at once, without closing the state */
static int exit_at_once(lua_State *L) {
  fflush(stdout);
  _exit((int)luaL_checkinteger(L, 1));
}

static const luaL_Reg functions[] = {
    {"exit", exit_at_once},
    {"fail_forked", fail_forked},
    {"fail_from", fail_from},
    {"blocks", blocks},
    {NULL, NULL},
};

int luaopen_ett_testing(lua_State *L);

int luaopen_ett_testing(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
