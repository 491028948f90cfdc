#include "host/host.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind/common.h"
#include "host/allocator.h"
#include "host/compiled.h"
#include "preloaded.inc"

#ifndef ETT_VERSION
#error "ETT_VERSION comes from CMake"
#endif

static host_memory memory;

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

int host_strip(char *path, int levels) {
  for (int level = 0; level < levels; level++) {
    char *slash = strrchr(path, '/');
    if (!slash)
      return -1;
    *slash = '\0';
  }
  return 0;
}

/* The folder that holds bin/, lib/ett and share/ett of this executable. */
static int find_prefix(char prefix[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", prefix, PATH_MAX - 1);
  if (length <= 0)
    return -1;
  prefix[length] = '\0';
  return host_strip(prefix, 2);
}

/* host.interrupt_reset() -> whether a signal came since the last reset */
static int interrupt_reset(lua_State *L) {
  lua_pushboolean(L, host_interrupt_reset());
  return 1;
}

/* host.interrupt_within(fn, ...) -> as pcall; signals arrive only inside such calls from
 * then on */
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

/* host.interrupt_grace(seconds): as host_interrupt_grace */
static int interrupt_grace(lua_State *L) {
  const lua_Number seconds = luaL_checknumber(L, 1);
  luaL_argcheck(L, seconds > 0 && seconds <= 3600, 1, "must be above 0 and at most 3600");
  host_interrupt_grace(seconds);
  return 0;
}

/* are_counts(given, integers, needed): whether all fields of a table are positive
 * integers and fields of `integers`, and the fields listed in `needed` are present. */
static int are_counts(lua_State *L) {
  for (int i = 1; i <= 3; i++)
    luaL_checktype(L, i, LUA_TTABLE);
  lua_settop(L, 3);
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    int is_count = lua_isinteger(L, -1) && lua_tointeger(L, -1) > 0;
    lua_pushvalue(L, -2);
    lua_rawget(L, 2);
    if (!is_count || !lua_toboolean(L, -1))
      return 0;
    lua_settop(L, 4);
  }
  for (lua_Integer i = 1; lua_rawgeti(L, 3, i) != LUA_TNIL; i++) {
    if (lua_rawget(L, 1) == LUA_TNIL)
      return 0;
    lua_settop(L, 3);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* host.error_class(class): sets the metatable of error objects from C */
static int set_error_class(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "ett.error");
  return 0;
}

static const luaL_Reg functions[] = {
    {"are_counts", are_counts},
    {"error_class", set_error_class},
    {"interrupt_reset", interrupt_reset},
    {"interrupt_within", interrupt_within},
    {"interrupt_patience", interrupt_patience},
    {"interrupt_grace", interrupt_grace},
    {NULL, NULL},
};

static void set_host_table(lua_State *L, const char *prefix) {
  char share[PATH_MAX + 16], resolved[PATH_MAX];
  snprintf(share, sizeof share, "%s/share/ett", prefix);
  luaL_newlib(L, functions);
  ett_lua_set_integer(L, "memory_limit", (lua_Integer)memory.limit);
  ett_lua_set_string(L, "version", ETT_VERSION);
  ett_lua_set_string(L, "lua", lua_ident);
  ett_lua_set_string(L, "root", realpath(share, resolved) ? resolved : share);
  ett_lua_set_string(L, "prefix", prefix);
  ett_lua_set_boolean(L, "terminal", isatty(STDOUT_FILENO));
  ett_lua_set_boolean(L, "error_terminal", isatty(STDERR_FILENO));
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    ett_lua_set_integer(L, "columns", size.ws_col);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "ett.host");
  lua_pop(L, 2);
}

/* Modules come from the installed roots and the system's Lua folders: never from the
 * working directory or LUA_PATH. lua/ett/base/find.lua adds the script's folder and
 * ETT_PATH in front. No file there replaces a module of ett or a library that it uses. */
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
      "package.cpath = host.prefix .. '/lib/ett/?.so;' .. absolute(package.cpath)\n"
      "local search, load_text, installed = package.searchpath, loadfile, package.path\n"
      "local libraries = { argparse = true, cjson = true, lfs = true }\n"
      "local endings = { '.lua', '/init.lua' }\n"
      "package.searchers[2] = function(name)\n" /* the original searcher accepts user
                                                   bytecode */
      "  local path, why, chunk, fault\n"
      "  if libraries[name] or name:find('^ett%f[.%z]') then\n"
      "    for _, ending in ipairs(libraries[name] and {} or endings) do\n" /* one open */
      "      path = lua .. name:gsub('%.', '/') .. ending\n"
      "      chunk, fault = load_text(path)\n"
      "      if chunk then return chunk, path end\n"
      "      if fault:sub(1, 12) ~= 'cannot open ' then error(fault, 0) end\n"
      "    end\n"
      "    path = search(name, installed)\n"
      "    if not path and search(name, package.cpath) then return end\n"
      "  end\n"
      "  if not path then path, why = search(name, package.path) end\n"
      "  if not path then return why end\n"
      "  chunk, fault = load_text(path)\n"
      "  if not chunk then error(fault, 0) end\n"
      "  return chunk, path\n"
      "end\n";
  if (luaL_dostring(L, paths) != LUA_OK)
    lua_error(L);
}

/* The library's load (the upvalue) with the mode, its third argument, set to text.
 * Bytecode can crash the process. */
static int load_text(lua_State *L) {
  if (lua_gettop(L) < 3)
    lua_settop(L, 3);
  lua_pushliteral(L, "t");
  lua_replace(L, 3);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* loadfile(path, mode, environment); the mode is always text. The second result says
 * whether the text is one that ett was built with. */
static int load_text_file(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  const int has_environment = !lua_isnone(L, 3);
  int is_compiled = 0;
  if (compiled_load(L, path, &is_compiled) != LUA_OK) {
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (has_environment) {
    lua_pushvalue(L, 3);
    lua_setupvalue(L, -2, 1);
  }
  lua_pushboolean(L, is_compiled);
  return 2;
}

static int run_text_file(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  lua_settop(L, 1);
  if (compiled_load(L, path, NULL) != LUA_OK)
    return lua_error(L);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

static void refuse_bytecode(lua_State *L) {
  lua_getglobal(L, "load");
  lua_pushcclosure(L, load_text, 1);
  lua_setglobal(L, "load");
  lua_pushcfunction(L, load_text_file);
  lua_setglobal(L, "loadfile");
  lua_pushcfunction(L, run_text_file);
  lua_setglobal(L, "dofile");
}

/* A function of the debug library that could break C objects: they rely on their
 * metatables and user values, and C functions on their upvalues. */
static int change_by_debug(lua_State *L) {
  if (lua_type(L, 1) == LUA_TUSERDATA || lua_iscfunction(L, 1))
    return luaL_error(L, "debug.%s: objects and functions of C cannot be changed",
                      lua_tostring(L, lua_upvalueindex(2)));
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* debug.setlocal for local variables with a name. C functions and the interpreter do not
 * check their values on the stack again; those have names such as "(C temporary)". */
static int set_local(lua_State *L) {
  lua_State *thread = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
  const int first = lua_isthread(L, 1) ? 2 : 1;
  const int level = (int)luaL_checkinteger(L, first);
  const int number = (int)luaL_checkinteger(L, first + 1);
  luaL_checkany(L, first + 2);
  lua_settop(L, first + 2);
  lua_Debug call;
  luaL_argcheck(L, lua_getstack(thread, level, &call), first, "level out of range");
  if (!lua_checkstack(thread, 1))
    return luaL_error(L, "stack overflow");
  const char *name = lua_getlocal(thread, &call, number);
  if (!name)
    return lua_pushnil(L), 1;
  lua_pop(thread, 1);
  if (*name == '(')
    return luaL_error(L,
                      "debug.setlocal: %s has no name; only variables with a name can "
                      "be changed",
                      name);
  lua_xmove(L, thread, 1);
  lua_pushstring(L, lua_setlocal(thread, &call, number));
  return 1;
}

/* debug.getregistry: a copy. C finds the metatables of its objects in the registry, and
 * Lua the C libraries that it loaded. */
static int copy_registry(lua_State *L) {
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, LUA_REGISTRYINDEX)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  lua_pushnil(L);
  lua_setfield(L, -2, "_CLIBS"); /* its handles are closed unchecked */
  return 1;
}

static void protect_objects(lua_State *L) {
  static const char *const names[] = {"setmetatable", "setupvalue", "setuservalue"};
  lua_getglobal(L, "debug");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lua_getfield(L, -1, names[i]);
    lua_pushstring(L, names[i]);
    lua_pushcclosure(L, change_by_debug, 2);
    lua_setfield(L, -2, names[i]);
  }
  lua_pushcfunction(L, set_local);
  lua_setfield(L, -2, "setlocal");
  lua_pushcfunction(L, copy_registry);
  lua_setfield(L, -2, "getregistry");
  lua_pop(L, 1);
}

/* os.setlocale as on a system that has no other locale: numbers keep their point. */
static int set_locale(lua_State *L) {
  const char *name = luaL_optstring(L, 1, "C");
  lua_pushstring(L, strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0 ? "C" : NULL);
  return 1;
}

/* An error outside every protected call: one sentence instead of a core dump. */
static int on_panic(lua_State *L) {
  const char *why = lua_tostring(L, -1);
  fprintf(stderr, "ett: internal error outside a protected call: %s; please report it\n",
          why ? why : "no message");
  fflush(stdout);
  _exit(1);
}

/* warn() of Lua: off until warn("@on"), as in the lua program. */
static void on_warning(void *context, const char *message, int continues) {
  static int on, inside;
  (void)context;
  if (!inside && !continues && *message == '@') {
    on = strcmp(message, "@on") == 0 || (on && strcmp(message, "@off") != 0);
    return;
  }
  if (on)
    fprintf(stderr, "%s%s%s", inside ? "" : "Lua warning: ", message,
            continues ? "" : "\n");
  inside = continues;
}

static void set_preloaded(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const luaL_Reg *module = preloaded; module->name; module++) {
    lua_pushcfunction(L, module->func);
    lua_setfield(L, -2, module->name);
  }
  lua_pop(L, 1);
}

/* Set while host_close runs the finalisers: where it continues after the last one. */
static jmp_buf *after_finalisers;

static int leave_close(lua_State *L) {
  (void)L;
  if (after_finalisers)
    longjmp(*after_finalisers, 1);
  return 0;
}

/* os.exit (the upvalue). In a finaliser it closes the state itself, and its status
 * counts. */
static int exit_process(lua_State *L) {
  after_finalisers = NULL;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

/* Finalisers run in the reverse order of their objects: this object's is the last. */
static void make_last_finaliser(lua_State *L) {
  lua_newuserdatauv(L, 0, 0);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, leave_close);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  luaL_ref(L, LUA_REGISTRYINDEX);
}

void host_close(lua_State *L) {
#if defined __SANITIZE_ADDRESS__ /* it reports what is not freed */
  lua_close(L);
#else
  jmp_buf here;
  after_finalisers = &here;
  if (setjmp(here) == 0)
    lua_close(L);
  after_finalisers = NULL;
#endif
}

static int open_state(lua_State *L) {
  const char *prefix = lua_touserdata(L, 1);
  make_last_finaliser(L);
  lua_pushboolean(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  luaL_openlibs(L);
  refuse_bytecode(L);
  protect_objects(L);
  lua_getglobal(L, "os");
  lua_pushcfunction(L, set_locale);
  lua_setfield(L, -2, "setlocale");
  lua_getfield(L, -1, "exit");
  lua_pushcclosure(L, exit_process, 1);
  lua_setfield(L, -2, "exit");
  set_host_table(L, prefix);
  set_paths(L);
  set_preloaded(L);
  return 0;
}

/* NULL if the Lua library is in its folder, else a message. */
static const char *missing_library(const char *prefix) {
  static char why[PATH_MAX + 200];
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/share/ett/lua/ett/cli/main.lua", prefix);
  if (access(path, R_OK) == 0)
    return NULL;
  snprintf(
      why, sizeof why,
      "cannot read the library at %s/share/ett (%s); the executable needs the tree it "
      "was built or installed in: link to it, or move the whole tree",
      prefix, strerror(errno));
  return why;
}

lua_State *host_open(const char *folder, const char **why) {
  static char prefix[PATH_MAX];
  if (folder) {
    snprintf(prefix, sizeof prefix, "%s", folder);
  } else if (find_prefix(prefix) != 0) {
    *why = "cannot find the folder of the ett executable (is /proc mounted?)";
    return NULL;
  }
  *why = missing_library(prefix);
  if (*why)
    return NULL;
  compiled_open(prefix);
  memory.limit = memory_limit();
  if (memory.limit < (size_t)1 << 20) {
    *why = "ETT_MEMORY_LIMIT must be a size of at least 1M, such as 512M or 4G";
    return NULL;
  }
  lua_State *L = lua_newstate(host_allocate, &memory);
  if (!L) {
    *why = "not enough memory to start";
    return NULL;
  }
  lua_gc(L, LUA_GCSTEP, -(4 << 10)); /* KiB allocated before the first collection */
  lua_atpanic(L, on_panic);
  lua_setwarnf(L, on_warning, NULL);
  lua_pushcfunction(L, open_state);
  lua_pushlightuserdata(L, prefix);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    lua_close(L);
    *why = "not enough memory to start";
    return NULL;
  }
  return L;
}

const char *host_enter(lua_State *L, const char *folder) {
  static const char paths[] =
      "local host = package.loaded['ett.host']\n"
      "local lua = host.root .. '/lua/'\n"
      "package.path = package.path .. ';' .. lua .. '?.lua;' .. lua .. '?/init.lua'\n"
      "package.cpath = package.cpath .. ';' .. host.prefix .. '/lib/ett/?.so'\n";
  const char *why = missing_library(folder);
  if (why)
    return why;
  memory.limit = memory_limit();
  set_host_table(L, folder);
  set_preloaded(L);
  if (luaL_dostring(L, paths) != LUA_OK)
    lua_error(L);
  return NULL;
}

static void push_memory_error(lua_State *L) {
  ett_err err;
  ett_err_set(&err, ETT_ERR_MEMORY,
              "not enough memory: Lua may use %zu MiB (ETT_MEMORY_LIMIT sets the limit)",
              memory.limit >> 20);
  ett_lua_push_error(L, &err);
}

/* String buffers of the Lua library raise a plain string behind a position. */
static int is_memory_error(lua_State *L) {
  static const char end[] = ": not enough memory";
  size_t length = 0;
  const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &length) : NULL;
  return text && length >= sizeof end - 1 &&
         strcmp(text + length - (sizeof end - 1), end) == 0;
}

/* Replaces the message of a missing module at index 1, with Lua's list of the files that
 * it tried, by the error object of lua/ett/base/error.lua. */
static void name_missing_module(lua_State *L) {
  const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
  if (!strstr(text, "' not found:\n\tno field "))
    return;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "ett.base.error") == LUA_TTABLE) {
    lua_getfield(L, -1, "from");
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
      lua_replace(L, 1);
  }
  lua_settop(L, 1);
}

/* Converts every error to an object with its traceback in a separate field. */
static int add_traceback(lua_State *L) {
  name_missing_module(L);
  if (is_memory_error(L)) {
    push_memory_error(L);
    lua_replace(L, 1);
  }
  if (lua_type(L, 1) != LUA_TTABLE) {
    const ett_err err = {.code = ETT_ERR_INTERNAL};
    ett_lua_push_error(L, &err);
    luaL_tolstring(L, 1, NULL); /* raised error values may have any length */
    lua_setfield(L, -2, "message");
    lua_replace(L, 1);
  }
  lua_settop(L, 1);
  if (lua_getfield(L, 1, "traceback") == LUA_TNIL) {
    luaL_traceback(L, L, NULL, 1);
    lua_setfield(L, 1, "traceback");
  }
  lua_settop(L, 1);
  return 1;
}

/* A memory error is a bare string that no handler sees. Unwinding has freed memory, so an
 * object that names the bound can be made now. */
static void describe_memory_error(lua_State *L) {
  lua_pop(L, 1);
  lua_gc(L, LUA_GCCOLLECT);
  push_memory_error(L);
}

int host_call(lua_State *L, int arguments, int results) {
  static locale_t c_locale;
  if (!c_locale)
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  const locale_t callers = uselocale(c_locale);
  int status = lua_pcall(L, arguments, results, base);
  uselocale(callers);
  lua_sethook(L, NULL, 0, 0); /* a hook left by a script would raise in the host */
  lua_remove(L, base);
  if (status == LUA_ERRMEM)
    describe_memory_error(L);
  return status;
}
