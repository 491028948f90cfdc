/* Converts Lua filter tables to filters of ett_select. */
#include "bind/trace/trace.h"

#include <string.h>

#include "trace/table/strings.h"

/* Pushes item i (1-based) of a list, or a single value as item 1. 0 at the end. */
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

const char *ett_lua_text_item(lua_State *L, int index, lua_Integer i, const char *field,
                              size_t *length) {
  if (!item(L, index, i))
    return NULL;
  if (lua_type(L, -1) != LUA_TSTRING)
    luaL_error(L, "filter '%s' must be a string or a list of strings, got %s", field,
               luaL_typename(L, -1));
  const char *s = lua_tolstring(L, -1, length);
  lua_pop(L, 1); /* anchored by the table or the argument */
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

uint8_t *ett_lua_zeroes(lua_State *L, size_t n) {
  uint8_t *p = lua_newuserdatauv(L, n + 1, 0);
  memset(p, 0, n + 1);
  return p;
}

/* The allow array in a slot; created at its first use with all n entries allowed. */
static uint8_t *allow_array(lua_State *L, const uint8_t **slot, size_t n) {
  if (*slot)
    return (uint8_t *)(uintptr_t)*slot;
  uint8_t *p = lua_newuserdatauv(L, n + 1, 0);
  memset(p, 1, n + 1);
  *slot = p;
  return p;
}

/* Marks the classes named by the value at index. */
void ett_lua_read_classes(lua_State *L, int index, uint8_t *wanted) {
  size_t n;
  for (lua_Integer i = 1;; i++) {
    const char *name = ett_lua_text_item(L, index, i, "class", &n);
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

static void by_class(lua_State *L, int index, const ett_trace *t, const char *field,
                     ett_lua_filter *x) {
  (void)field;
  uint8_t wanted[ETT_CLASS_COUNT] = {0};
  ett_lua_read_classes(L, index, wanted);
  uint8_t *allow = allow_array(L, &x->f.category, t->category_count);
  for (uint32_t i = 0; i < t->category_count; i++)
    allow[i] &= wanted[t->category_class[i]];
}

/* Allow array of the strings that equal one of the given texts. */
static uint8_t *texts(lua_State *L, int index, const ett_trace *t, const char *field) {
  uint8_t *allow = ett_lua_zeroes(L, t->strings->count);
  size_t n;
  for (lua_Integer i = 1;; i++) {
    const char *text = ett_lua_text_item(L, index, i, field, &n);
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

static void by_track_number(lua_State *L, int index, const ett_trace *t,
                            const char *field, ett_lua_filter *x) {
  size_t n;
  int64_t *list = integers(L, index, field, &n);
  uint8_t *allow = allow_array(L, &x->f.track, t->track_count);
  for (uint32_t i = 0; i < t->track_count; i++) {
    int present, found = 0;
    int64_t v = track_number(t, i, field, &present);
    for (size_t k = 0; present && k < n && !found; k++)
      found = list[k] == v;
    allow[i] &= (uint8_t)found;
  }
}

static void by_track_text(lua_State *L, int index, const ett_trace *t, const char *field,
                          ett_lua_filter *x) {
  bool process = field[0] == 'p';
  uint8_t *wanted = texts(L, index, t, field);
  uint8_t *allow = allow_array(L, &x->f.track, t->track_count);
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
  lua_getiuservalue(L, index, 1);
  const ett_lua_trace_box *box = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (box->trace != t)
    luaL_error(L, "filter '%s' is a name set of another trace", field);
  return s->allow;
}

uint32_t ett_lua_arg_column(lua_State *L, const ett_trace *t, const char *name) {
  int arg = ett_trace_arg_find(t, name);
  if (arg < 0)
    luaL_error(L, "arg '%s' was not requested when the trace was opened", name);
  return (uint32_t)arg;
}

static ett_arg_test *add_test(lua_State *L, const ett_trace *t, const char *name,
                              ett_lua_filter *x) {
  if (x->f.arg_count == sizeof x->tests / sizeof *x->tests)
    luaL_error(L, "at most %d arg tests", (int)(sizeof x->tests / sizeof *x->tests));
  ett_arg_test *a = &x->tests[x->f.arg_count++];
  *a = (ett_arg_test){.arg = ett_lua_arg_column(L, t, name)};
  return a;
}

static void by_arg(lua_State *L, int index, const ett_trace *t, const char *field,
                   ett_lua_filter *x) {
  luaL_checktype(L, index, LUA_TTABLE);
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      luaL_error(L, "filter '%s' must name args", field);
    ett_arg_test *a = add_test(L, t, lua_tostring(L, -2), x);
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

static void by_has_arg(lua_State *L, int index, const ett_trace *t, const char *field,
                       ett_lua_filter *x) {
  (void)field;
  add_test(L, t, luaL_checkstring(L, index), x)->any = true;
}

static void by_category(lua_State *L, int index, const ett_trace *t, const char *field,
                        ett_lua_filter *x) {
  uint8_t *wanted = texts(L, index, t, field);
  uint8_t *allow = allow_array(L, &x->f.category, t->category_count);
  for (uint32_t c = 0; c < t->category_count; c++)
    allow[c] &= wanted[t->categories[c]];
}

static void by_phase(lua_State *L, int index, const ett_trace *t, const char *field,
                     ett_lua_filter *x) {
  (void)t;
  uint8_t *allow = ett_lua_zeroes(L, 256);
  size_t n;
  const char *text;
  for (lua_Integer j = 1; (text = ett_lua_text_item(L, index, j, field, &n)); j++)
    allow[(uint8_t)*text] = 1;
  x->f.ph = allow;
}

static void by_name(lua_State *L, int index, const ett_trace *t, const char *field,
                    ett_lua_filter *x) {
  bool set = strcmp(field, "names") == 0;
  if (x->f.name)
    luaL_error(L, "filter takes either 'name' or 'names'");
  x->f.name = set ? name_set(L, index, t, field) : texts(L, index, t, field);
}

static void by_except_names(lua_State *L, int index, const ett_trace *t,
                            const char *field, ett_lua_filter *x) {
  x->f.not_name = name_set(L, index, t, field);
}

static void by_device(lua_State *L, int index, const ett_trace *t, const char *field,
                      ett_lua_filter *x) {
  (void)t;
  x->f.devices = integers(L, index, field, &x->f.device_count);
}

static void by_stream(lua_State *L, int index, const ett_trace *t, const char *field,
                      ett_lua_filter *x) {
  (void)t;
  x->f.streams = integers(L, index, field, &x->f.stream_count);
}

static void by_window(lua_State *L, int index, const ett_trace *t, const char *field,
                      ett_lua_filter *x) {
  (void)t;
  window(L, index, field, &x->f.window_from, &x->f.window_to);
  x->f.has_window = true;
}

static void by_start(lua_State *L, int index, const ett_trace *t, const char *field,
                     ett_lua_filter *x) {
  (void)t;
  window(L, index, field, &x->f.starts_from, &x->f.starts_to);
  x->f.has_starts_in = true;
}

static void by_least_duration(lua_State *L, int index, const ett_trace *t,
                              const char *field, ett_lua_filter *x) {
  (void)t;
  (void)field;
  x->f.min_dur = luaL_checkinteger(L, index);
  x->f.has_min_dur = true;
}

static void by_validity(lua_State *L, int index, const ett_trace *t, const char *field,
                        ett_lua_filter *x) {
  (void)t;
  (void)field;
  x->f.keep_invalid = !lua_toboolean(L, index);
}

static const struct {
  const char *name;
  void (*read)(lua_State *L, int index, const ett_trace *t, const char *field,
               ett_lua_filter *x);
} fields[] = {
    {"class", by_class},        {"category", by_category},
    {"ph", by_phase},           {"name", by_name},
    {"process", by_track_text}, {"thread", by_track_text},
    {"names", by_name},         {"except_names", by_except_names},
    {"file", by_track_number},  {"rank", by_track_number},
    {"device", by_device},      {"stream", by_stream},
    {"pid", by_track_number},   {"tid", by_track_number},
    {"track", by_track_number}, {"window", by_window},
    {"starts_in", by_start},    {"min_dur", by_least_duration},
    {"has_arg", by_has_arg},    {"arg", by_arg},
    {"valid", by_validity},
};

static void unknown_field(lua_State *L, const char *name) {
  luaL_Buffer known;
  luaL_buffinit(L, &known);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    luaL_addstring(&known, i ? ", " : "");
    luaL_addstring(&known, fields[i].name);
  }
  luaL_pushresult(&known);
  luaL_error(L, "unknown filter '%s' (%s)", name, lua_tostring(L, -1));
}

void ett_lua_read_filter(lua_State *L, int index, const ett_trace *t, ett_lua_filter *x) {
  memset(x, 0, sizeof *x);
  x->f.args = x->tests;
  if (lua_isnoneornil(L, index))
    return;
  index = lua_absindex(L, index);
  luaL_checktype(L, index, LUA_TTABLE);
  /* Collects the keys first: reading fields leaves scratch values on the stack, where
   * lua_next needs its key. */
  lua_newtable(L);
  int keys = lua_gettop(L);
  lua_Integer count = 0;
  for (lua_pushnil(L); lua_next(L, index);) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_seti(L, keys, ++count);
  }
  for (lua_Integer i = 1; i <= count; i++) {
    luaL_checkstack(L, 12, NULL);
    lua_geti(L, keys, i);
    if (lua_type(L, -1) != LUA_TSTRING)
      luaL_error(L, "filter fields have names");
    const char *name = lua_tostring(L, -1);
    size_t k = 0;
    while (k < sizeof fields / sizeof *fields && strcmp(fields[k].name, name) != 0)
      k++;
    if (k == sizeof fields / sizeof *fields)
      unknown_field(L, name);
    lua_getfield(L, index, name);
    fields[k].read(L, lua_gettop(L), t, name, x);
  }
}
