/* ett.trace: opening traces and choosing their rows; see runtime/trace/README.md. */
#include "bind/trace.h"

#include <stdlib.h>
#include <string.h>

#include "trace/strings.h"

static ett_lua_trace_box *check_box(lua_State *L, int index) {
  return luaL_checkudata(L, index, ETT_LUA_TRACE);
}

ett_trace *ett_lua_check_trace(lua_State *L, int index) {
  ett_lua_trace_box *box = check_box(L, index);
  luaL_argcheck(L, box->trace != NULL, index, "the trace is closed");
  return box->trace;
}

/* ---- lists in Lua values ---- */

/* Item i (1-based) of a value that is one thing or a list of them; pushes it. 0 at end.
 */
static int item(lua_State *L, int index, lua_Integer i) {
  if (lua_type(L, index) != LUA_TTABLE) {
    if (i > 1)
      return 0;
    lua_pushvalue(L, index);
    return 1;
  }
  if (lua_geti(L, index, i) != LUA_TNIL)
    return 1;
  lua_pop(L, 1);
  return 0;
}

static const char *text_item(lua_State *L, int index, lua_Integer i, const char *field,
                             size_t *length) {
  if (!item(L, index, i))
    return NULL;
  if (lua_type(L, -1) != LUA_TSTRING)
    luaL_error(L, "filter '%s' must be a string or a list of strings, got %s", field,
               luaL_typename(L, -1));
  const char *s = lua_tolstring(L, -1, length);
  lua_pop(L, 1); /* the table or the argument holds it */
  return s;
}

/* Integers of a value, as a userdata left on the stack. */
static int64_t *integers(lua_State *L, int index, const char *field, size_t *count) {
  lua_Integer n = lua_type(L, index) == LUA_TTABLE ? luaL_len(L, index) : 1;
  int64_t *list = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *list, 0);
  *count = 0;
  for (lua_Integer i = 1; item(L, index, i); i++) {
    int good;
    if (i > n) {
      lua_pop(L, 1);
      break;
    }
    list[(*count)++] = lua_tointegerx(L, -1, &good);
    if (!good)
      luaL_error(L, "filter '%s' must be an integer or a list of integers, got %s", field,
                 luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return list;
}

static void window(lua_State *L, int index, const char *field, int64_t *from,
                   int64_t *to) {
  int ok_from = 0, ok_to = 0;
  if (lua_type(L, index) == LUA_TTABLE) {
    lua_geti(L, index, 1);
    lua_geti(L, index, 2);
    *from = lua_tointegerx(L, -2, &ok_from);
    *to = lua_tointegerx(L, -1, &ok_to);
    lua_pop(L, 2);
  }
  if (!ok_from || !ok_to)
    luaL_error(L, "filter '%s' must be { from, to } in integer ticks", field);
}

/* ---- filters ---- */

static uint8_t *zeroes(lua_State *L, size_t n) {
  uint8_t *p = lua_newuserdatauv(L, n + 1, 0);
  memset(p, 0, n + 1);
  return p;
}

/* Narrows an allow array made at the first use (all ones). */
static uint8_t *track_array(lua_State *L, const ett_trace *t, const uint8_t **slot) {
  if (*slot)
    return (uint8_t *)(uintptr_t)*slot;
  uint8_t *p = lua_newuserdatauv(L, (size_t)t->track_count + 1, 0);
  memset(p, 1, (size_t)t->track_count + 1);
  *slot = p;
  return p;
}

static uint8_t *category_array(lua_State *L, const ett_trace *t, const uint8_t **slot) {
  if (*slot)
    return (uint8_t *)(uintptr_t)*slot;
  uint8_t *p = lua_newuserdatauv(L, (size_t)t->category_count + 1, 0);
  memset(p, 1, (size_t)t->category_count + 1);
  *slot = p;
  return p;
}

/* Marks the classes named by the value at index. */
static void classes(lua_State *L, int index, uint8_t *wanted) {
  size_t n;
  for (lua_Integer i = 1;; i++) {
    const char *name = text_item(L, index, i, "class", &n);
    if (!name)
      return;
    int c = ett_trace_class_find(name);
    if (c < 0)
      luaL_error(L,
                 "unknown class '%s' (kernel, memcpy, memset, device_annotation, "
                 "device_step, device_module, device_async, cpu_op, annotation, runtime, "
                 "python, overhead, communication, host, other)",
                 name);
    wanted[c] = 1;
  }
}

static void by_class(lua_State *L, int index, const ett_trace *t, ett_filter *f) {
  uint8_t wanted[ETT_CLASS_COUNT] = {0};
  classes(L, index, wanted);
  uint8_t *allow = category_array(L, t, &f->category);
  for (uint32_t i = 0; i < t->category_count; i++)
    allow[i] &= wanted[t->category_class[i]];
}

/* Allow array over strings from exact texts. */
static uint8_t *texts(lua_State *L, int index, const ett_trace *t, const char *field) {
  uint8_t *allow = zeroes(L, t->strings->count);
  size_t n;
  for (lua_Integer i = 1;; i++) {
    const char *text = text_item(L, index, i, field, &n);
    if (!text)
      return allow;
    uint32_t id = ett_strings_find(t->strings, text, n);
    if (id != ETT_STRING_NONE)
      allow[id] = 1;
  }
}

static int64_t track_number(const ett_trace *t, uint32_t track, const char *field,
                            int *present) {
  const ett_track *w = &t->tracks[track];
  *present = 1;
  switch (field[0]) {
  case 'f':
    return (int64_t)w->file + 1;
  case 'r':
    *present = t->files[w->file].has_rank;
    return t->files[w->file].rank;
  case 'p':
    *present = w->pid_type == ETT_ID_INTEGER;
    return w->pid;
  default:
    if (strcmp(field, "tid") == 0) {
      *present = w->tid_type == ETT_ID_INTEGER;
      return w->tid;
    }
    return (int64_t)track + 1;
  }
}

static void by_track_number(lua_State *L, int index, const ett_trace *t, ett_filter *f,
                            const char *field) {
  size_t n;
  int64_t *list = integers(L, index, field, &n);
  uint8_t *allow = track_array(L, t, &f->track);
  for (uint32_t i = 0; i < t->track_count; i++) {
    int present, found = 0;
    int64_t v = track_number(t, i, field, &present);
    for (size_t k = 0; present && k < n && !found; k++)
      found = list[k] == v;
    allow[i] &= (uint8_t)found;
  }
}

static void by_track_text(lua_State *L, int index, const ett_trace *t, ett_filter *f,
                          int process) {
  uint8_t *wanted = texts(L, index, t, process ? "process" : "thread");
  uint8_t *allow = track_array(L, t, &f->track);
  for (uint32_t i = 0; i < t->track_count; i++) {
    uint32_t id = process ? t->tracks[i].process : t->tracks[i].thread;
    allow[i] &= id != ETT_STRING_NONE && wanted[id];
  }
}

static const uint8_t *name_set(lua_State *L, int index, const ett_trace *t,
                               const char *field) {
  ett_lua_name_set *s = luaL_testudata(L, index, ETT_LUA_NAME_SET);
  if (!s)
    luaL_error(L, "filter '%s' must be a name set, got %s", field,
               luaL_typename(L, index));
  if (s->count != t->strings->count)
    luaL_error(L, "filter '%s' is a name set of another trace", field);
  return s->allow;
}

static uint32_t arg_column(lua_State *L, const ett_trace *t, const char *name) {
  int arg = ett_trace_arg_find(t, name);
  if (arg < 0)
    luaL_error(L, "arg '%s' was not asked for when the trace was opened", name);
  return (uint32_t)arg;
}

static void by_arg(lua_State *L, int index, const ett_trace *t, ett_arg_test *tests,
                   size_t *count) {
  luaL_checktype(L, index, LUA_TTABLE);
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      luaL_error(L, "filter 'arg' must name args");
    if (*count == 16)
      luaL_error(L, "at most 16 arg tests");
    ett_arg_test *a = &tests[(*count)++];
    *a = (ett_arg_test){.arg = arg_column(L, t, lua_tostring(L, -2))};
    if (lua_isinteger(L, -1)) {
      a->value.type = ETT_ARG_INTEGER;
      a->value.value.integer = lua_tointeger(L, -1);
    } else if (lua_type(L, -1) == LUA_TNUMBER) {
      a->value.type = ETT_ARG_FLOAT;
      a->value.value.number = lua_tonumber(L, -1);
    } else if (lua_type(L, -1) == LUA_TSTRING) {
      size_t n;
      const char *text = lua_tolstring(L, -1, &n);
      a->value.type = ETT_ARG_TEXT;
      a->value.value.text = ett_strings_find(t->strings, text, n);
    } else {
      luaL_error(L, "filter 'arg' tests numbers and strings, got %s",
                 luaL_typename(L, -1));
    }
  }
}

void ett_lua_push_selected(lua_State *L, int trace_index, const ett_selection *from,
                           int filter_index) {
  ett_trace *t = ett_lua_check_trace(L, trace_index);
  ett_filter f = {0};
  ett_arg_test tests[16];
  f.args = tests;
  trace_index = lua_absindex(L, trace_index);
  int top = lua_gettop(L);
  if (!lua_isnoneornil(L, filter_index)) {
    filter_index = lua_absindex(L, filter_index);
    luaL_checktype(L, filter_index, LUA_TTABLE);
    /* scratch of the filter stays below the pair of lua_next: keys are listed first */
    lua_newtable(L);
    lua_Integer keys = 0;
    for (lua_pushnil(L); lua_next(L, filter_index);) {
      lua_pop(L, 1);
      lua_pushvalue(L, -1);
      lua_seti(L, top + 1, ++keys);
    }
    for (lua_Integer i = 1; i <= keys; i++) {
      luaL_checkstack(L, 12, NULL);
      lua_geti(L, top + 1, i);
      if (lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L, "filter fields have names");
      const char *k = lua_tostring(L, -1);
      lua_getfield(L, filter_index, k);
      int v = lua_gettop(L);
      if (strcmp(k, "class") == 0) {
        by_class(L, v, t, &f);
      } else if (strcmp(k, "category") == 0) {
        uint8_t *wanted = texts(L, v, t, k), *allow = category_array(L, t, &f.category);
        for (uint32_t c = 0; c < t->category_count; c++)
          allow[c] &= wanted[t->categories[c]];
      } else if (strcmp(k, "ph") == 0) {
        uint8_t *allow = zeroes(L, 256);
        size_t n;
        const char *text;
        for (lua_Integer j = 1; (text = text_item(L, v, j, k, &n)); j++)
          allow[(uint8_t)*text] = 1;
        f.ph = allow;
      } else if (strcmp(k, "name") == 0) {
        f.name = texts(L, v, t, k);
        if (lua_getfield(L, filter_index, "names") != LUA_TNIL)
          luaL_error(L, "filter takes either 'name' or 'names'");
      } else if (strcmp(k, "names") == 0) {
        f.name = name_set(L, v, t, k);
      } else if (strcmp(k, "except_names") == 0) {
        f.not_name = name_set(L, v, t, k);
      } else if (strcmp(k, "process") == 0 || strcmp(k, "thread") == 0) {
        by_track_text(L, v, t, &f, k[0] == 'p');
      } else if (strcmp(k, "file") == 0 || strcmp(k, "rank") == 0 ||
                 strcmp(k, "pid") == 0 || strcmp(k, "tid") == 0 ||
                 strcmp(k, "track") == 0) {
        by_track_number(L, v, t, &f, k);
      } else if (strcmp(k, "device") == 0) {
        f.devices = integers(L, v, k, &f.device_count);
      } else if (strcmp(k, "stream") == 0) {
        f.streams = integers(L, v, k, &f.stream_count);
      } else if (strcmp(k, "window") == 0) {
        window(L, v, k, &f.window_from, &f.window_to);
        f.has_window = true;
      } else if (strcmp(k, "starts_in") == 0) {
        window(L, v, k, &f.starts_from, &f.starts_to);
        f.has_starts_in = true;
      } else if (strcmp(k, "min_dur") == 0) {
        f.min_dur = luaL_checkinteger(L, v);
        f.has_min_dur = true;
      } else if (strcmp(k, "has_arg") == 0) {
        if (f.arg_count == 16)
          luaL_error(L, "at most 16 arg tests");
        tests[f.arg_count++] =
            (ett_arg_test){.arg = arg_column(L, t, luaL_checkstring(L, v)), .any = true};
      } else if (strcmp(k, "arg") == 0) {
        by_arg(L, v, t, tests, &f.arg_count);
      } else if (strcmp(k, "valid") == 0) {
        f.keep_invalid = !lua_toboolean(L, v);
      } else {
        luaL_error(L,
                   "unknown filter '%s' (class, category, ph, name, process, thread, "
                   "names, except_names, file, rank, device, stream, pid, tid, track, "
                   "window, starts_in, min_dur, has_arg, arg, valid)",
                   k);
      }
    }
  }
  ett_lua_selection *x = ett_lua_new_selection(L, trace_index);
  ett_lua_check_memory(L, ett_select(&x->s, t, from, &f));
  if (lua_gettop(L) > top + 1)
    lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

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

/* ---- name sets ---- */

static ett_lua_name_set *new_name_set(lua_State *L, int trace_index, uint32_t count) {
  trace_index = lua_absindex(L, trace_index);
  ett_lua_name_set *s = lua_newuserdatauv(L, sizeof *s + count + 1, 1);
  memset(s, 0, sizeof *s + count + 1);
  s->count = count;
  luaL_setmetatable(L, ETT_LUA_NAME_SET);
  lua_pushvalue(L, trace_index);
  lua_setiuservalue(L, -2, 1);
  return s;
}

static int trace_name_set(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  lua_settop(L, 3);
  uint32_t n = t->strings->count;
  uint8_t wanted[ETT_CLASS_COUNT], *seen = zeroes(L, n); /* 4 */
  memset(wanted, 1, sizeof wanted);
  if (!lua_isnil(L, 3)) {
    memset(wanted, 0, sizeof wanted);
    classes(L, 3, wanted);
  }
  ett_lua_check_memory(L, ett_trace_index_classes(t));
  for (int c = 0; c < ETT_CLASS_COUNT; c++)
    for (uint32_t i = 0; wanted[c] && i < t->class_counts[c]; i++)
      seen[ETT_ROW(t, name, t->class_rows[c][i])] = 1;
  ett_lua_name_set *s = new_name_set(L, 1, n); /* 5 */
  if (lua_type(L, 2) == LUA_TFUNCTION) {
    for (uint32_t i = 0; i < n; i++) {
      if (!seen[i])
        continue;
      lua_pushvalue(L, 2);
      lua_pushlstring(L, t->strings->items[i].text, t->strings->items[i].length);
      lua_call(L, 1, 1);
      if (!check_box(L, 1)->trace)
        return luaL_error(L, "the trace was closed meanwhile");
      s->allow[i] = (uint8_t)lua_toboolean(L, -1);
      s->held += s->allow[i];
      lua_pop(L, 1);
    }
    return 1;
  }
  const char *text;
  size_t length;
  for (lua_Integer i = 1; (text = text_item(L, 2, i, "names", &length)); i++) {
    uint32_t id = ett_strings_find(t->strings, text, length);
    if (id == ETT_STRING_NONE || !seen[id] || s->allow[id])
      continue;
    s->allow[id] = 1;
    s->held++;
  }
  return 1;
}

static int set_len(lua_State *L) {
  ett_lua_name_set *s = luaL_checkudata(L, 1, ETT_LUA_NAME_SET);
  lua_pushinteger(L, s->held);
  return 1;
}

static int set_has(lua_State *L) {
  ett_lua_name_set *s = luaL_checkudata(L, 1, ETT_LUA_NAME_SET);
  lua_getiuservalue(L, 1, 1);
  const ett_trace *t = ett_lua_check_trace(L, -1);
  size_t n;
  const char *text = luaL_checklstring(L, 2, &n);
  uint32_t id = ett_strings_find(t->strings, text, n);
  lua_pushboolean(L, id != ETT_STRING_NONE && s->allow[id]);
  return 1;
}

static int set_list(lua_State *L) {
  ett_lua_name_set *s = luaL_checkudata(L, 1, ETT_LUA_NAME_SET);
  lua_getiuservalue(L, 1, 1);
  const ett_trace *t = ett_lua_check_trace(L, -1);
  lua_createtable(L, (int)s->held, 0);
  lua_Integer k = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    if (!s->allow[i])
      continue;
    lua_pushlstring(L, t->strings->items[i].text, t->strings->items[i].length);
    lua_rawseti(L, -2, ++k);
  }
  return 1;
}

static int set_combine(lua_State *L, int without) {
  ett_lua_name_set *a = luaL_checkudata(L, 1, ETT_LUA_NAME_SET);
  ett_lua_name_set *b = luaL_checkudata(L, 2, ETT_LUA_NAME_SET);
  luaL_argcheck(L, a->count == b->count, 2, "a name set of the same trace expected");
  lua_getiuservalue(L, 1, 1);
  ett_lua_name_set *s = new_name_set(L, -1, a->count);
  for (uint32_t i = 0; i < a->count; i++) {
    s->allow[i] = without ? a->allow[i] && !b->allow[i] : a->allow[i] || b->allow[i];
    s->held += s->allow[i];
  }
  return 1;
}

static int set_union(lua_State *L) {
  return set_combine(L, 0);
}

static int set_subtract(lua_State *L) {
  return set_combine(L, 1);
}

/* ---- tables about the trace ---- */

static void set_string(lua_State *L, const char *key, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

static void set_integer(lua_State *L, const char *key, int64_t v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, key);
}

static void set_text(lua_State *L, const ett_trace *t, const char *key, uint32_t id) {
  if (id == ETT_STRING_NONE)
    return;
  lua_pushlstring(L, t->strings->items[id].text, t->strings->items[id].length);
  lua_setfield(L, -2, key);
}

static void set_identity(lua_State *L, const ett_trace *t, const char *key, int64_t v,
                         uint8_t type) {
  if (type == ETT_ID_INTEGER)
    set_integer(L, key, v);
  if (type == ETT_ID_TEXT)
    set_text(L, t, key, (uint32_t)v);
}

static int unread(const ett_trace *t, uint32_t file) {
  for (uint32_t i = 0; i < t->warning_count; i++)
    if (t->warnings[i].file == file &&
        (strcmp(t->warnings[i].code, "ignored_file") == 0 ||
         strcmp(t->warnings[i].code, "unreadable_file") == 0))
      return 1;
  return 0;
}

static int push_files(lua_State *L, const ett_trace *t) {
  static const char *const kinds[] = {"auto", "kineto", "tpu_json", "xplane", "nsys"};
  lua_Integer n = 0;
  lua_newtable(L);
  for (uint32_t i = 0; i < t->file_count; i++) {
    const ett_trace_file *f = &t->files[i];
    if (unread(t, i))
      continue;
    lua_createtable(L, 0, 14);
    set_string(L, "path", f->path);
    set_integer(L, "index", (int64_t)i + 1);
    set_string(L, "kind", kinds[f->kind]);
    if (f->has_rank)
      set_integer(L, "rank", f->rank);
    set_string(L, "rank_source", f->rank_source);
    if (f->has_world)
      set_integer(L, "world_size", f->world_size);
    set_integer(L, "base_ns", f->base_ns);
    set_integer(L, "bytes", (int64_t)f->bytes);
    set_integer(L, "uncompressed_bytes", (int64_t)f->uncompressed_bytes);
    set_integer(L, "event_count", (int64_t)f->event_count);
    set_integer(L, "seen_count", (int64_t)f->seen_count);
    lua_createtable(L, 0, (int)f->member_count);
    for (uint32_t k = 0; k < f->member_count; k++)
      set_string(L, f->members[k].key, f->members[k].value);
    lua_setfield(L, -2, "root");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static int push_warnings(lua_State *L, const ett_trace *t) {
  lua_createtable(L, (int)t->warning_count, 0);
  for (uint32_t i = 0; i < t->warning_count; i++) {
    const ett_trace_warning *w = &t->warnings[i];
    lua_createtable(L, 0, 5);
    if (w->file != ETT_TRACE_NONE)
      set_string(L, "file", t->files[w->file].path);
    set_string(L, "code", w->code);
    set_string(L, "message", w->message);
    set_integer(L, "count", (int64_t)w->count);
    if (w->has_offset)
      set_integer(L, "offset", (int64_t)w->offset);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

typedef struct counted {
  uint32_t category;
  uint64_t count;
} counted;

static int by_count(const void *a, const void *b) {
  const counted *x = a, *y = b;
  if (x->count != y->count)
    return x->count > y->count ? -1 : 1;
  return x->category < y->category ? -1 : 1;
}

static int trace_categories(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  counted *c = lua_newuserdatauv(L, (t->category_count + 1) * sizeof *c, 0);
  for (uint32_t i = 0; i < t->category_count; i++)
    c[i] = (counted){i, 0};
  for (uint32_t b = 0; b < t->block_count; b++)
    for (uint32_t i = 0; i < t->blocks[b].count; i++)
      c[t->blocks[b].category[i]].count++;
  if (t->category_count)
    qsort(c, t->category_count, sizeof *c, by_count);
  lua_newtable(L);
  for (uint32_t i = 0; i < t->category_count && c[i].count; i++) {
    lua_createtable(L, 0, 3);
    set_text(L, t, "category", t->categories[c[i].category]);
    set_string(L, "class",
               ett_trace_class_name((ett_trace_class)t->category_class[c[i].category]));
    set_integer(L, "count", (int64_t)c[i].count);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int trace_tracks(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  lua_newtable(L);
  lua_Integer n = 0;
  for (uint32_t i = 0; i < t->track_count; i++) {
    const ett_track *w = &t->tracks[i];
    if (!w->events)
      continue;
    lua_createtable(L, 0, 8);
    set_integer(L, "track", (int64_t)i + 1);
    set_integer(L, "file", (int64_t)w->file + 1);
    if (t->files[w->file].has_rank)
      set_integer(L, "rank", t->files[w->file].rank);
    set_identity(L, t, "pid", w->pid, w->pid_type);
    set_identity(L, t, "tid", w->tid, w->tid_type);
    set_text(L, t, "process", w->process);
    set_text(L, t, "thread", w->thread);
    set_integer(L, "events", w->events);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

typedef struct device_count {
  uint32_t file;
  int32_t device;
  uint64_t events;
} device_count;

static int by_device(const void *a, const void *b) {
  const device_count *x = a, *y = b;
  if (x->file != y->file)
    return x->file < y->file ? -1 : 1;
  return x->device < y->device ? -1 : x->device > y->device;
}

static int trace_devices(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  size_t n = 0, capacity = 64, last = 0;
  device_count *d = lua_newuserdatauv(L, capacity * sizeof *d, 0);
  for (uint32_t b = 0; b < t->block_count; b++) {
    const ett_trace_block *k = &t->blocks[b];
    for (uint32_t i = 0; i < k->count; i++) {
      uint8_t class = t->category_class[k->category[i]];
      if (class != ETT_CLASS_KERNEL && class != ETT_CLASS_MEMCPY &&
          class != ETT_CLASS_MEMSET)
        continue;
      if (k->ph[i] & ETT_PH_INVALID)
        continue;
      if (last >= n || d[last].file != k->file || d[last].device != k->device[i]) {
        for (last = 0; last < n; last++)
          if (d[last].file == k->file && d[last].device == k->device[i])
            break;
        if (last == n) {
          if (n == capacity) {
            device_count *grown = lua_newuserdatauv(L, 2 * capacity * sizeof *d, 0);
            memcpy(grown, d, n * sizeof *d);
            lua_replace(L, -2);
            d = grown;
            capacity *= 2;
          }
          d[n++] = (device_count){k->file, k->device[i], 0};
        }
      }
      d[last].events++;
    }
  }
  qsort(d, n, sizeof *d, by_device);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 4);
    set_integer(L, "file", (int64_t)d[i].file + 1);
    if (t->files[d[i].file].has_rank)
      set_integer(L, "rank", t->files[d[i].file].rank);
    if (d[i].device >= 0)
      set_integer(L, "device", d[i].device);
    set_integer(L, "events", (int64_t)d[i].events);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
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

static int trace_close(lua_State *L) {
  ett_lua_trace_box *box = check_box(L, 1);
  ett_trace_free(box->trace);
  box->trace = NULL;
  return 0;
}

static int trace_tostring(lua_State *L) {
  ett_lua_trace_box *box = check_box(L, 1);
  if (!box->trace)
    lua_pushliteral(L, "trace (closed)");
  else
    lua_pushfstring(L, "trace of %d files, %I events", (int)box->trace->file_count,
                    (LUAI_UACINT)box->trace->event_count);
  return 1;
}

/* Fields are computed when asked for; methods are in upvalue 1. */
static int trace_index(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
    return 1;
  const char *k = luaL_checkstring(L, 2);
  ett_trace *t = ett_lua_check_trace(L, 1);
  if (strcmp(k, "files") == 0)
    return push_files(L, t);
  if (strcmp(k, "warnings") == 0)
    return push_warnings(L, t);
  if (strcmp(k, "event_count") == 0)
    lua_pushinteger(L, (lua_Integer)t->event_count);
  else if (strcmp(k, "ticks_per_second") == 0)
    lua_pushinteger(L, t->ticks_per_second);
  else if (strcmp(k, "origin_ns") == 0)
    lua_pushinteger(L, t->origin_ns);
  else if (strcmp(k, "start") == 0)
    lua_pushinteger(L, t->start);
  else if (strcmp(k, "stop") == 0)
    lua_pushinteger(L, t->stop);
  else if (strcmp(k, "memory_bytes") == 0)
    lua_pushinteger(L, (lua_Integer)t->memory_bytes);
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
  int progress; /* stack index of the function, 0: none */
  bool raised;  /* an error value waits on the stack top */
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
  lua_getglobal(c->L, "require");
  lua_pushliteral(c->L, "ett.nsys");
  if (lua_pcall(c->L, 1, 1, 0) != LUA_OK) {
    const char *why = lua_tostring(c->L, -1);
    ett_err_set(err, ETT_ERR_MISSING, "the Nsight reader cannot be loaded: %s",
                why ? why : "unknown");
    lua_pop(c->L, 1);
    return NULL;
  }
  lua_getfield(c->L, -1, "reader");
  void **box = lua_touserdata(c->L, -1);
  ett_trace_reader reader = NULL;
  if (box)
    memcpy(&reader, box, sizeof reader);
  lua_pop(c->L, 2);
  if (!reader)
    ett_err_set(err, ETT_ERR_INTERNAL, "ett.nsys gives no reader");
  return reader;
}

static int trace_open(lua_State *L) {
  static const char *const modes[] = {"auto", "torch", "tpu", "nsys", NULL};
  static const ett_trace_kind kinds[] = {ETT_TRACE_AUTO, ETT_TRACE_KINETO,
                                         ETT_TRACE_TPU_JSON, ETT_TRACE_NSYS};
  const char *path = luaL_checkstring(L, 1);
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_newtable(L);
    lua_replace(L, 2);
  }
  luaL_checktype(L, 2, LUA_TTABLE);
  static const char *const known[] = {"profile_mode", "args",    "threads",    "flows",
                                      "progress",     "scanner", "chunk_bytes"};
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
  lua_getfield(L, 2, "profile_mode");
  o.mode = kinds[luaL_checkoption(L, -1, "auto", modes)];
  o.flows = ett_lua_boolean_field(L, 2, "flows", 0);
  lua_Integer threads = ett_lua_integer_field(L, 2, "threads", 0);
  luaL_argcheck(L, threads >= 0 && threads <= 1024, 2, "threads must be 0 to 1024");
  o.threads = (unsigned)threads;
  o.scanner = ett_lua_string_field(L, 2, "scanner", NULL);
  lua_Integer chunk = ett_lua_integer_field(L, 2, "chunk_bytes", 0);
  luaL_argcheck(L, chunk >= 0, 2, "chunk_bytes must not be negative");
  o.chunk_bytes = (size_t)chunk;
  if (lua_getfield(L, 2, "args") != LUA_TNIL) {
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_Integer n = luaL_len(L, -1);
    const char **names = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *names, 0);
    uint32_t count = 0;
    for (lua_Integer i = 1; i <= n; i++) {
      lua_geti(L, -2, i);
      const char *name = luaL_checkstring(L, -1);
      uint32_t k = 0;
      while (k < count && strcmp(names[k], name) != 0)
        k++;
      if (k == count)
        names[count++] = name;
      lua_pop(L, 1);
    }
    o.args = names;
    o.arg_count = count;
  }
  caller c = {.L = L};
  o.context = &c;
  o.nsys = nsys;
  if (lua_getfield(L, 2, "progress") != LUA_TNIL) {
    luaL_checktype(L, -1, LUA_TFUNCTION);
    c.progress = lua_gettop(L);
    o.progress = report;
  }
  ett_lua_trace_box *box = lua_newuserdatauv(L, sizeof *box, 0);
  box->trace = NULL;
  luaL_setmetatable(L, ETT_LUA_TRACE);
  int self = lua_gettop(L);
  luaL_checkstack(L, 16, NULL);
  ett_err err;
  box->trace = ett_trace_open(path, &o, &err);
  if (c.raised)
    return lua_error(L);
  if (!box->trace)
    return ett_lua_fail(L, &err);
  lua_pushvalue(L, self);
  return 1;
}

static const luaL_Reg methods[] = {
    {"events", trace_events},
    {"intervals", trace_intervals},
    {"name_set", trace_name_set},
    {"categories", trace_categories},
    {"tracks", trace_tracks},
    {"devices", trace_devices},
    {"string", trace_string},
    {"close", trace_close},
    {NULL, NULL},
};

static const luaL_Reg metamethods[] = {
    {"__close", trace_close},
    {"__gc", trace_close},
    {"__tostring", trace_tostring},
    {NULL, NULL},
};

static const luaL_Reg set_methods[] = {
    {"has", set_has},
    {"list", set_list},
    {NULL, NULL},
};

static const luaL_Reg set_metamethods[] = {
    {"__len", set_len},
    {"__bor", set_union},
    {"__sub", set_subtract},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", trace_open},
    {NULL, NULL},
};

int luaopen_ett_trace(lua_State *L) {
  luaL_requiref(L, "ett.interval", luaopen_ett_interval, 0);
  luaL_requiref(L, "ett.selection", luaopen_ett_selection, 0);
  lua_pop(L, 2);
  if (luaL_newmetatable(L, ETT_LUA_TRACE)) {
    luaL_setfuncs(L, metamethods, 0);
    luaL_newlib(L, methods);
    lua_pushcclosure(L, trace_index, 1);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
  if (luaL_newmetatable(L, ETT_LUA_NAME_SET)) {
    luaL_setfuncs(L, set_metamethods, 0);
    luaL_newlib(L, set_methods);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  return 1;
}
