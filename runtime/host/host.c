#include "host/host.h"

#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preloaded.inc"

#ifndef ETT_VERSION
#error "ETT_VERSION comes from CMake"
#endif

/* Lua's own allocator with a bound: used never passes limit. Kept out of the
 * state because the state's memory is what it counts. */
typedef struct {
  size_t used, limit;
} memory_bound;

static memory_bound memory;

static void *bounded_allocate(void *context, void *block, size_t old_size, size_t size) {
  memory_bound *bound = context;
  if (!block)
    old_size = 0; /* Lua passes the kind of object here */
  if (size == 0) {
    free(block);
    bound->used -= old_size;
    return NULL;
  }
  if (size > old_size && size - old_size > bound->limit - bound->used)
    return NULL;
  void *moved = realloc(block, size);
  if (moved)
    bound->used = bound->used - old_size + size;
  return moved;
}

/* ETT_MEMORY_LIMIT, or half of the machine's memory and at most 4 GiB; 0 when malformed.
 */
static size_t memory_limit(void) {
  const char *text = getenv("ETT_MEMORY_LIMIT");
  if (!text || !*text) {
    const size_t most = (size_t)4 << 30;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0)
      return most;
    const size_t half = (size_t)pages / 2 * (size_t)page;
    return half < most ? half : most;
  }
  char *end;
  unsigned long long value = strtoull(text, &end, 10);
  const char *suffix = *end ? strchr("KMGT", *end) : NULL;
  int shift = *end == '\0'               ? 0
              : suffix && end[1] == '\0' ? 10 * (int)(suffix - "KMGT" + 1)
                                         : -1;
  return shift < 0 || *text == '-' || value > (SIZE_MAX >> shift)
             ? 0
             : (size_t)value << shift;
}

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

/* host.interrupt_reset() -> whether a Ctrl-C came; host.interrupt_patience(n) */
static int interrupt_reset(lua_State *L) {
  lua_pushboolean(L, host_interrupt_reset());
  return 1;
}

/* host.interrupt_within(fn, ...) -> as of pcall; from then on Ctrl-C comes only there */
static int interrupt_within(lua_State *L) {
  luaL_checkany(L, 1);
  const int status = host_interrupt_within(L, lua_gettop(L) - 1);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

static int interrupt_patience(lua_State *L) {
  host_interrupt_patience((int)luaL_checkinteger(L, 1));
  return 0;
}

static void set_host_table(lua_State *L, const char *prefix) {
  char share[PATH_MAX + 16], resolved[PATH_MAX];
  snprintf(share, sizeof share, "%s/share/ett", prefix);
  lua_createtable(L, 0, 9);
  lua_pushinteger(L, (lua_Integer)memory.limit);
  lua_setfield(L, -2, "memory_limit");
  lua_pushstring(L, ETT_VERSION);
  lua_setfield(L, -2, "version");
  lua_pushstring(L, realpath(share, resolved) ? resolved : share);
  lua_setfield(L, -2, "root");
  lua_pushstring(L, prefix);
  lua_setfield(L, -2, "prefix");
  lua_pushcfunction(L, interrupt_reset);
  lua_setfield(L, -2, "interrupt_reset");
  lua_pushcfunction(L, interrupt_within);
  lua_setfield(L, -2, "interrupt_within");
  lua_pushcfunction(L, interrupt_patience);
  lua_setfield(L, -2, "interrupt_patience");
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  lua_setfield(L, -2, "terminal");
  lua_pushboolean(L, isatty(STDERR_FILENO));
  lua_setfield(L, -2, "error_terminal");
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

/* Whether the library stands where the executable looks for it; else a sentence. */
static const char *missing_library(const char *prefix) {
  static char why[PATH_MAX + 200];
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/share/ett/lua/ett/cli/main.lua", prefix);
  if (access(path, R_OK) == 0)
    return NULL;
  snprintf(why, sizeof why,
           "cannot read the library at %s/share/ett (%s); the executable works from the "
           "tree it was built or installed in: link to it, or move the whole tree",
           prefix, strerror(errno));
  return why;
}

lua_State *host_open(const char **why) {
  static char prefix[PATH_MAX];
  if (find_prefix(prefix) != 0) {
    *why = "cannot find the folder of the ett executable (is /proc mounted?)";
    return NULL;
  }
  *why = missing_library(prefix);
  if (*why)
    return NULL;
  memory.limit = memory_limit();
  if (memory.limit < (size_t)1 << 20) {
    *why = "ETT_MEMORY_LIMIT must be a size of at least 1M, such as 512M or 4G";
    return NULL;
  }
  lua_State *L = luaL_newstate();
  if (!L) {
    *why = "not enough memory to start";
    return NULL;
  }
  memory.used = (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
  lua_setallocf(L, bounded_allocate, &memory);
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

/* A memory error is a bare string, which no handler sees: make it an object that says
 * what the bound is. There is memory again: what asked for it is unwound. */
static void describe_memory_error(lua_State *L) {
  lua_pop(L, 1);
  lua_gc(L, LUA_GCCOLLECT);
  lua_createtable(L, 0, 2);
  lua_pushliteral(L, "memory");
  lua_setfield(L, -2, "kind");
  lua_pushfstring(L, "not enough memory: Lua may hold %d MiB (ETT_MEMORY_LIMIT sets it)",
                  (int)(memory.limit >> 20));
  lua_setfield(L, -2, "message");
}

int host_call(lua_State *L, int arguments, int results) {
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  int status = lua_pcall(L, arguments, results, base);
  lua_remove(L, base);
  if (status == LUA_ERRMEM)
    describe_memory_error(L);
  return status;
}
