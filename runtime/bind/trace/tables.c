/* Files and warnings of a trace as Lua tables. */
#include "bind/trace/trace.h"

#include <string.h>

static int unread(const ett_trace *t, uint32_t file) {
  for (uint32_t i = 0; i < t->warning_count; i++)
    if (t->warnings[i].file == file &&
        (strcmp(t->warnings[i].code, "ignored_file") == 0 ||
         strcmp(t->warnings[i].code, "unreadable_file") == 0))
      return 1;
  return 0;
}

void ett_lua_push_files(lua_State *L, const ett_trace *t) {
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

void ett_lua_push_warnings(lua_State *L, const ett_trace *t) {
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
