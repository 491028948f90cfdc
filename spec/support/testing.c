/* ett.testing: runs a function with allocations failing. With oom_shim.so preloaded,
 * every malloc of the process can fail; without it (sanitizer builds) only allocations of
 * Lua. */
#include <dlfcn.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/allocator.h" /* the executable's */
#include "host/cli.h"

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
  static lua_failures failures; /* an object may keep the allocator and its context */
  failures = (lua_failures){NULL, NULL, 0, first};
  long counted;
  int status;
  if (arm && disarm) {
    arm(first);
    status = lua_pcall(L, 0, 2, 0);
    counted = disarm();
  } else {
    failures.allocate = lua_getallocf(L, &failures.context);
    lua_setallocf(L, failing_allocate, &failures);
    status = lua_pcall(L, 0, 2, 0);
    lua_setallocf(L, failures.allocate, failures.context);
    counted = failures.counted;
    failures.first = LONG_MAX;
  }
  lua_pushinteger(L, counted);
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

typedef void fork_function(long stride, long alike);

/* fail_forked(stride, alike, fn) -> counted, tried, failed, in_child, ok, result, err:
 * calls fn once. Every stride-th allocation forks, and so do the first `alike` of each
 * chain of C callers. In the child that allocation and all that follow fail; the child
 * also returns. failed: how many children ended with another status than 0. */
static int fail_forked(lua_State *L) {
  const long stride = (long)luaL_checkinteger(L, 1),
             alike = (long)luaL_checkinteger(L, 2);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  lua_checkstack(L, 20);
  fork_function *arm = (fork_function *)dlsym(RTLD_DEFAULT, "ett_oom_fork");
  count_function *disarm = (count_function *)dlsym(RTLD_DEFAULT, "ett_oom_disarm");
  count_function *tried = (count_function *)dlsym(RTLD_DEFAULT, "ett_oom_tried");
  count_function *failed = (count_function *)dlsym(RTLD_DEFAULT, "ett_oom_failed");
  if (!arm || !disarm || !tried || !failed)
    return luaL_error(L, "fail_forked needs oom_shim.so");
  const pid_t parent = getpid();
  arm(stride, alike);
  const int status = lua_pcall(L, 0, 2, 0);
  lua_pushinteger(L, disarm());
  lua_pushinteger(L, tried());
  lua_pushinteger(L, failed());
  lua_pushboolean(L, getpid() != parent);
  lua_pushboolean(L, status == LUA_OK);
  lua_rotate(L, 3, 5);
  return lua_gettop(L) - 2;
}

/* exit(status): at once, without closing the state */
static int exit_at_once(lua_State *L) {
  fflush(stdout);
  _exit((int)luaL_checkinteger(L, 1));
}

typedef void leave_function(void (*close_state)(lua_State *), lua_State *L, long most,
                            int report);

static leave_function *leave(lua_State *L) {
  leave_function *f = (leave_function *)dlsym(RTLD_DEFAULT, "ett_oom_leave");
  if (!f)
    luaL_error(L, "oom_shim.so is not preloaded");
  return f;
}

/* exit_closed(most): closes the state, then exits with 4 if more than `most` blocks are
 * held. */
static int exit_closed(lua_State *L) {
  leave(L)(lua_close, L, (long)luaL_checkinteger(L, 1), -1);
  return 0;
}

/* blocks_closed(fn) -> the blocks that a child holds after it called fn and closed its
 * state */
static int blocks_closed(lua_State *L) {
  leave_function *leaves = leave(L);
  int ends[2];
  long held = 0;
  if (pipe(ends) != 0)
    return luaL_error(L, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    lua_settop(L, 1);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
      _exit(1);
    leaves(lua_close, L, 0, ends[1]);
  }
  close(ends[1]);
  const int told = child > 0 && read(ends[0], &held, sizeof held) == sizeof held;
  close(ends[0]);
  if (child > 0)
    waitpid(child, NULL, 0);
  if (!told)
    return luaL_error(L, "the child without failing allocations failed");
  lua_pushinteger(L, held);
  return 1;
}

enum { MOST_WORDS = 200, MOST_SECONDS = 300 };

static void redirect(int stream, const char *path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  if (file < 0 || dup2(file, stream) < 0)
    _exit(125);
  close(file);
}

/* The state of a newly started process, whose streams are files. */
static void forget_terminal(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "ett.host");
  const char *const fields[] = {"terminal", "error_terminal", "columns"};
  for (int i = 0; i < 3; i++) {
    if (i < 2)
      lua_pushboolean(L, 0);
    else
      lua_pushnil(L);
    lua_setfield(L, -2, fields[i]);
  }
  lua_pop(L, 2);
}

/* Writes the names of the loaded modules, one per line. */
static void tell_modules(lua_State *L, int file) {
  FILE *out = fdopen(file, "w");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (lua_pushnil(L); out && lua_next(L, -2); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING)
      fprintf(out, "%s\n", lua_tostring(L, -2));
}

/* Pushes all data from a pipe. */
static void push_all(lua_State *L, int file) {
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  ssize_t count;
  do {
    count = read(file, luaL_prepbuffer(&text), LUAL_BUFFERSIZE);
    luaL_addsize(&text, count > 0 ? (size_t)count : 0);
  } while (count > 0);
  close(file);
  luaL_pushresult(&text);
}

/* command(folder, output, errors, words) -> status, modules: runs ett in a forked child,
 * with this state's modules. It prints into these files (which may be one), and has five
 * minutes. modules: names of those that are loaded then, a line each. */
static int run_command(lua_State *L) {
  const char *folder = luaL_checkstring(L, 1), *output = luaL_checkstring(L, 2),
             *errors = luaL_checkstring(L, 3);
  luaL_checktype(L, 4, LUA_TTABLE);
  char *argv[MOST_WORDS + 1] = {(char[]){"ett"}};
  int argc = 1;
  for (; argc < MOST_WORDS && lua_rawgeti(L, 4, argc) == LUA_TSTRING; argc++) {
    argv[argc] = (char *)(size_t)lua_tostring(L, -1); /* the table keeps it */
    lua_pop(L, 1);
  }
  lua_settop(L, 4);
  fflush(NULL);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return luaL_error(L, "no pipe");
  const pid_t child = fork();
  if (child < 0)
    return luaL_error(L, "cannot fork");
  if (child == 0) {
    close(ends[0]);
    alarm(MOST_SECONDS);
    if (chdir(folder) != 0)
      _exit(125);
    redirect(STDOUT_FILENO, output);
    redirect(STDERR_FILENO, errors);
    unsetenv("ETT_PATH");
    forget_terminal(L);
    lua_gc(L, LUA_GCSTOP); /* it would copy every page of the parent's objects */
    const int status = cli_run(L, argc, argv);
    tell_modules(L, ends[1]);
    fflush(NULL);
    _exit(status < 0 ? 130 : status);
  }
  close(ends[1]);
  push_all(L, ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  lua_pushinteger(L, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  lua_insert(L, -2);
  return 2;
}

static const luaL_Reg functions[] = {
    {"command", run_command},     {"blocks_closed", blocks_closed},
    {"exit", exit_at_once},       {"exit_closed", exit_closed},
    {"fail_forked", fail_forked}, {"fail_from", fail_from},
    {"blocks", blocks},           {NULL, NULL},
};

int luaopen_ett_testing(lua_State *L);

int luaopen_ett_testing(lua_State *L) {
  if (dlsym(RTLD_DEFAULT, "ett_oom_arm"))
    host_keep_no_blocks();
  luaL_newlib(L, functions);
  return 1;
}
