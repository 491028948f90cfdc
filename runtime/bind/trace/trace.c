/* ett.trace: opens and queries traces; see runtime/trace/README.md. */
#include "bind/trace/trace.h"

#include <string.h>

#include "trace/read/open.h"
#include "trace/table/strings.h"

static int trace_events(lua_State *L) {
  lua_settop(L, 2);
  ett_lua_push_selected(L, 1, NULL, 2);
  return 1;
}

static int trace_intervals(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  lua_settop(L, 2);
  ett_lua_push_selected(L, 1, NULL, 2);
  ett_lua_selection *x = lua_touserdata(L, -1);
  ett_lua_check_memory(L, ett_selection_intervals(ett_lua_new_intervals(L), &x->s, t));
  return 1;
}

static int trace_string(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  lua_Integer id = luaL_checkinteger(L, 2);
  if (id < 0 || id >= (lua_Integer)t->strings->count)
    return 0;
  lua_pushlstring(L, t->strings->items[id].text, t->strings->items[id].length);
  return 1;
}

ETT_LUA_CLOSE(trace_close, ETT_LUA_TRACE, ett_trace_free)

static int trace_tostring(lua_State *L) {
  ett_trace **box = luaL_checkudata(L, 1, ETT_LUA_TRACE);
  if (!*box)
    lua_pushliteral(L, "trace (closed)");
  else
    lua_pushfstring(L, "trace of %d files, %I events", (int)(*box)->file_count,
                    (LUAI_UACINT)(*box)->event_count);
  return 1;
}

static int unread(const ett_trace *t, uint32_t file) {
  for (uint32_t i = 0; i < t->warning_count; i++)
    if (t->warnings[i].file == file &&
        (strcmp(t->warnings[i].code, "ignored_file") == 0 ||
         strcmp(t->warnings[i].code, "unreadable_file") == 0))
      return 1;
  return 0;
}

static void push_files(lua_State *L, const ett_trace *t) {
  static const char *const kinds[] = {"auto", "kineto",   "tpu_json", "xplane",
                                      "nsys", "perfetto", "rocprof",  "chakra"};
  lua_Integer n = 0;
  lua_newtable(L);
  for (uint32_t i = 0; i < t->file_count; i++) {
    const ett_trace_file *f = &t->files[i];
    if (unread(t, i))
      continue;
    lua_createtable(L, 0, 14);
    ett_lua_set_string(L, "path", f->path);
    ett_lua_set_integer(L, "index", (int64_t)i + 1);
    ett_lua_set_string(L, "kind", kinds[f->kind]);
    if (f->has_rank)
      ett_lua_set_integer(L, "rank", f->rank);
    ett_lua_set_string(L, "rank_source", f->rank_source);
    if (f->has_world)
      ett_lua_set_integer(L, "world_size", f->world_size);
    ett_lua_set_integer(L, "base_ns", f->base_ns);
    ett_lua_set_integer(L, "bytes", (int64_t)f->bytes);
    ett_lua_set_integer(L, "uncompressed_bytes", (int64_t)f->uncompressed_bytes);
    ett_lua_set_integer(L, "event_count", (int64_t)f->event_count);
    ett_lua_set_integer(L, "seen_count", (int64_t)f->seen_count);
    lua_createtable(L, 0, (int)f->member_count);
    for (uint32_t k = 0; k < f->member_count; k++)
      ett_lua_set_string(L, f->members[k].key, f->members[k].value);
    lua_setfield(L, -2, "root");
    lua_rawseti(L, -2, ++n);
  }
}

static void push_warnings(lua_State *L, const ett_trace *t) {
  lua_createtable(L, (int)t->warning_count, 0);
  for (uint32_t i = 0; i < t->warning_count; i++) {
    const ett_trace_warning *w = &t->warnings[i];
    lua_createtable(L, 0, 5);
    if (w->file != ETT_TRACE_NONE)
      ett_lua_set_string(L, "file", t->files[w->file].path);
    ett_lua_set_string(L, "code", w->code);
    ett_lua_set_string(L, "message", w->message);
    ett_lua_set_integer(L, "count", (int64_t)w->count);
    if (w->has_offset)
      ett_lua_set_integer(L, "offset", (int64_t)w->offset);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* Fields are computed on access; methods are in upvalue 1. */
static int trace_index(lua_State *L) {
  static const char *const names[] = {
      "event_count", "ticks_per_second", "origin_ns", "start", "stop", "memory_bytes"};
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
    return 1;
  const char *k = luaL_checkstring(L, 2);
  ett_trace *t = ett_lua_check_trace(L, 1);
  const int64_t values[] = {
      (int64_t)t->event_count, t->ticks_per_second, t->origin_ns, t->start, t->stop,
      (int64_t)t->memory_bytes};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(k, names[i]) == 0) {
      lua_pushinteger(L, values[i]);
      return 1;
    }
  if (strcmp(k, "files") == 0)
    push_files(L, t);
  else if (strcmp(k, "warnings") == 0)
    push_warnings(L, t);
  else if (strcmp(k, "bytes_per_event") == 0)
    lua_pushnumber(L, t->event_count ? (double)t->memory_bytes / (double)t->event_count
                                     : 0.0);
  else
    return luaL_error(L, "a trace has no field '%s'", k);
  return 1;
}

/* ---- opening ---- */

typedef struct caller {
  lua_State *L;
  int progress; /* stack index of the progress function, 0: none */
  bool raised;  /* an error value is on top of the stack */
} caller;

static int report(void *context, uint64_t done, uint64_t total) {
  caller *c = context;
  if (c->raised)
    return 1;
  lua_pushvalue(c->L, c->progress);
  lua_pushinteger(c->L, (lua_Integer)done);
  lua_pushinteger(c->L, (lua_Integer)total);
  if (lua_pcall(c->L, 2, 0, 0) == LUA_OK)
    return 0;
  c->raised = true;
  return 1;
}

static ett_trace_reader nsys(void *context, ett_err *err) {
  caller *c = context;
  const int top = lua_gettop(c->L);
  lua_getglobal(c->L, "require");
  lua_pushliteral(c->L, "ett.nsys");
  if (lua_pcall(c->L, 1, 1, 0) != LUA_OK) {
    const char *why = lua_tostring(c->L, -1);
    ett_err_set(err, ETT_ERR_MISSING, "the SQLite reader cannot be loaded: %s",
                why ? why : "unknown");
    lua_settop(c->L, top);
    return NULL;
  }
  if (lua_istable(c->L, -1))
    ett_lua_raw_field(c->L, -1, "reader");
  const void *box = luaL_testudata(c->L, -1, ETT_LUA_READER);
  ett_trace_reader reader = NULL;
  if (box)
    memcpy(&reader, box, sizeof reader);
  lua_settop(c->L, top);
  if (!reader)
    ett_err_set(err, ETT_ERR_INTERNAL, "internal error: ett.nsys has no reader");
  return reader;
}

/* Reads the option `args`, each name once; a table left on the stack holds the names. */
static void get_args(lua_State *L, ett_trace_options *o) {
  if (ett_lua_raw_field(L, 2, "args") == LUA_TNIL)
    return;
  const int list = lua_gettop(L);
  ett_lua_check_table(L, "args");
  const size_t n = lua_rawlen(L, list);
  const char **names = lua_newuserdatauv(L, (n + 1) * sizeof *names, 0);
  uint32_t count = 0;
  lua_newtable(L); /* the progress function may change the list */
  for (size_t i = 1; i <= n; i++) {
    if (lua_rawgeti(L, list, (lua_Integer)i) != LUA_TSTRING)
      luaL_error(L, "option 'args' must hold names, got %s", luaL_typename(L, -1));
    const char *name = lua_tostring(L, -1);
    uint32_t k = 0;
    while (k < count && strcmp(names[k], name) != 0)
      k++;
    if (k == count)
      names[count++] = name;
    lua_rawseti(L, -2, (lua_Integer)k + 1);
  }
  o->args = names;
  o->arg_count = count;
}

static int trace_open(lua_State *L) {
  static const char *const modes[] = {"auto", "torch", "tpu", "nsys", NULL};
  static const ett_trace_kind kinds[] = {ETT_TRACE_AUTO, ETT_TRACE_KINETO,
                                         ETT_TRACE_TPU_JSON, ETT_TRACE_NSYS};
  const char *path = luaL_checkstring(L, 1);
  ett_lua_options(L);
  static const char *const known[] = {"profile_mode", "args",        "threads",
                                      "flows",        "progress",    "scanner",
                                      "chunk_bytes",  "memory_bytes"};
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    size_t i = 0;
    const char *k = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    while (i < sizeof known / sizeof *known && strcmp(k, known[i]) != 0)
      i++;
    if (i == sizeof known / sizeof *known)
      return luaL_error(L,
                        "unknown option '%s' (profile_mode, args, threads, flows, "
                        "progress)",
                        k);
  }
  ett_trace_options o = {0};
  o.mode = kinds[ett_lua_choice_field(L, 2, "profile_mode", modes)];
  o.flows = ett_lua_boolean_field(L, 2, "flows", 0);
  lua_Integer threads = ett_lua_integer_field(L, 2, "threads", 0);
  luaL_argcheck(L, threads >= 0 && threads <= 1024, 2, "threads must be 0 to 1024");
  o.threads = (unsigned)threads;
  o.scanner = ett_lua_string_field(L, 2, "scanner", NULL);
  lua_Integer chunk = ett_lua_integer_field(L, 2, "chunk_bytes", 0);
  luaL_argcheck(L, chunk >= 0, 2, "chunk_bytes must not be negative");
  o.chunk_bytes = (size_t)chunk;
  lua_Integer memory = ett_lua_integer_field(L, 2, "memory_bytes", 0);
  luaL_argcheck(L, memory >= 0, 2, "memory_bytes must not be negative");
  o.memory_bytes = (size_t)memory;
  get_args(L, &o);
  caller c = {.L = L};
  o.context = &c;
  o.nsys = nsys;
  if (ett_lua_raw_field(L, 2, "progress") != LUA_TNIL) {
    if (!lua_isfunction(L, -1))
      return luaL_error(L, "field 'progress' must be a function, got %s",
                        luaL_typename(L, -1));
    c.progress = lua_gettop(L);
    o.progress = report;
  }
  void **box = ett_lua_box_new(L, ETT_LUA_TRACE);
  int self = lua_gettop(L);
  luaL_checkstack(L, 16, NULL);
  ett_err err;
  *box = ett_trace_open(path, &o, &err);
  if (c.raised)
    return lua_error(L);
  if (!*box)
    return ett_lua_fail(L, &err);
  lua_pushvalue(L, self);
  return 1;
}

static const luaL_Reg methods[] = {
    {"events", trace_events},       {"intervals", trace_intervals},
    {"string", trace_string},       {"name_set", ett_lua_trace_name_set},
    {"__tostring", trace_tostring}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", trace_open},
    {NULL, NULL},
};

int luaopen_ett_trace(lua_State *L) {
  luaL_requiref(L, "ett.interval", luaopen_ett_interval, 0);
  ett_lua_selection_type(L);
  ett_lua_name_set_type(L);
  ett_lua_type(L, ETT_LUA_TRACE, methods, trace_close);
  luaL_getmetatable(L, ETT_LUA_TRACE);
  lua_getfield(L, -1, "__index");
  lua_pushcclosure(L, trace_index, 1);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
