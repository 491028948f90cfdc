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
  if (lua_rawgeti(L, index, i) != LUA_TNIL)
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

/* The argument of the reader of a filter field: its value is at `index`. */
typedef struct reading {
  lua_State *L;
  int index;
  const ett_trace *t;
  const char *field;
  ett_lua_filter *x;
} reading;

/* Integers of a value, as a userdata left on the stack. */
static int64_t *integers(const reading *r, size_t *count) {
  lua_Integer n = lua_type(r->L, r->index) == LUA_TTABLE
                      ? (lua_Integer)lua_rawlen(r->L, r->index)
                      : 1;
  int64_t *list = lua_newuserdatauv(r->L, (size_t)(n + 1) * sizeof *list, 0);
  *count = 0;
  for (lua_Integer i = 1; item(r->L, r->index, i); i++) {
    int good;
    if (i > n) {
      lua_pop(r->L, 1);
      break;
    }
    list[(*count)++] = lua_tointegerx(r->L, -1, &good);
    if (!good)
      luaL_error(r->L, "filter '%s' must be an integer or a list of integers, got %s",
                 r->field, luaL_typename(r->L, -1));
    lua_pop(r->L, 1);
  }
  return list;
}

static void window(const reading *r, int64_t *from, int64_t *to) {
  int ok_from = 0, ok_to = 0;
  if (lua_type(r->L, r->index) == LUA_TTABLE) {
    lua_rawgeti(r->L, r->index, 1);
    lua_rawgeti(r->L, r->index, 2);
    *from = lua_tointegerx(r->L, -2, &ok_from);
    *to = lua_tointegerx(r->L, -1, &ok_to);
    lua_pop(r->L, 2);
  }
  if (!ok_from || !ok_to)
    luaL_error(r->L, "filter '%s' must be { from, to } in integer ticks", r->field);
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

static void by_class(const reading *r) {
  uint8_t wanted[ETT_CLASS_COUNT] = {0};
  ett_lua_read_classes(r->L, r->index, wanted);
  uint8_t *allow = allow_array(r->L, &r->x->f.category, r->t->category_count);
  for (uint32_t i = 0; i < r->t->category_count; i++)
    allow[i] &= wanted[r->t->category_class[i]];
}

/* Allow array of the strings that equal one of the given texts. */
static uint8_t *texts(const reading *r) {
  uint8_t *allow = ett_lua_zeroes(r->L, r->t->strings->count);
  size_t n;
  for (lua_Integer i = 1;; i++) {
    const char *text = ett_lua_text_item(r->L, r->index, i, r->field, &n);
    if (!text)
      return allow;
    uint32_t id = ett_strings_find(r->t->strings, text, n);
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

static void by_track_number(const reading *r) {
  size_t n;
  int64_t *list = integers(r, &n);
  uint8_t *allow = allow_array(r->L, &r->x->f.track, r->t->track_count);
  for (uint32_t i = 0; i < r->t->track_count; i++) {
    int present, found = 0;
    int64_t v = track_number(r->t, i, r->field, &present);
    for (size_t k = 0; present && k < n && !found; k++)
      found = list[k] == v;
    allow[i] &= (uint8_t)found;
  }
}

static void by_track_text(const reading *r) {
  bool process = r->field[0] == 'p';
  uint8_t *wanted = texts(r);
  uint8_t *allow = allow_array(r->L, &r->x->f.track, r->t->track_count);
  for (uint32_t i = 0; i < r->t->track_count; i++) {
    uint32_t id = process ? r->t->tracks[i].process : r->t->tracks[i].thread;
    allow[i] &= id != ETT_STRING_NONE && wanted[id];
  }
}

static const uint8_t *name_set(const reading *r) {
  ett_lua_name_set *s = luaL_testudata(r->L, r->index, ETT_LUA_NAME_SET);
  if (!s)
    luaL_error(r->L, "filter '%s' must be a name set, got %s", r->field,
               luaL_typename(r->L, r->index));
  lua_getiuservalue(r->L, r->index, 1);
  ett_trace *const *box = lua_touserdata(r->L, -1);
  lua_pop(r->L, 1);
  if (*box != r->t)
    luaL_error(r->L, "filter '%s' is a name set of another trace", r->field);
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

static void by_arg(const reading *r) {
  luaL_checktype(r->L, r->index, LUA_TTABLE);
  for (lua_pushnil(r->L); lua_next(r->L, r->index); lua_pop(r->L, 1)) {
    if (lua_type(r->L, -2) != LUA_TSTRING)
      luaL_error(r->L, "filter '%s' must name args", r->field);
    ett_arg_test *a = add_test(r->L, r->t, lua_tostring(r->L, -2), r->x);
    if (lua_isinteger(r->L, -1)) {
      a->value.type = ETT_ARG_INTEGER;
      a->value.value.integer = lua_tointeger(r->L, -1);
    } else if (lua_type(r->L, -1) == LUA_TNUMBER) {
      a->value.type = ETT_ARG_FLOAT;
      a->value.value.number = lua_tonumber(r->L, -1);
    } else if (lua_type(r->L, -1) == LUA_TSTRING) {
      size_t n;
      const char *text = lua_tolstring(r->L, -1, &n);
      a->value.type = ETT_ARG_TEXT;
      a->value.value.text = ett_strings_find(r->t->strings, text, n);
    } else {
      luaL_error(r->L, "filter 'arg' tests numbers and strings, got %s",
                 luaL_typename(r->L, -1));
    }
  }
}

static void by_has_arg(const reading *r) {
  add_test(r->L, r->t, luaL_checkstring(r->L, r->index), r->x)->any = true;
}

static void by_category(const reading *r) {
  uint8_t *wanted = texts(r);
  uint8_t *allow = allow_array(r->L, &r->x->f.category, r->t->category_count);
  for (uint32_t c = 0; c < r->t->category_count; c++)
    allow[c] &= wanted[r->t->categories[c]];
}

static void by_phase(const reading *r) {
  uint8_t *allow = ett_lua_zeroes(r->L, 256);
  size_t n;
  const char *text;
  for (lua_Integer j = 1; (text = ett_lua_text_item(r->L, r->index, j, r->field, &n));
       j++)
    allow[(uint8_t)*text] = 1;
  r->x->f.ph = allow;
}

static void by_name(const reading *r) {
  bool set = strcmp(r->field, "names") == 0;
  if (r->x->f.name)
    luaL_error(r->L, "filter takes either 'name' or 'names'");
  r->x->f.name = set ? name_set(r) : texts(r);
}

static void by_except_names(const reading *r) {
  r->x->f.not_name = name_set(r);
}

static void by_device(const reading *r) {
  r->x->f.devices = integers(r, &r->x->f.device_count);
}

static void by_stream(const reading *r) {
  r->x->f.streams = integers(r, &r->x->f.stream_count);
}

static void by_window(const reading *r) {
  window(r, &r->x->f.window_from, &r->x->f.window_to);
  r->x->f.has_window = true;
}

static void by_start(const reading *r) {
  window(r, &r->x->f.starts_from, &r->x->f.starts_to);
  r->x->f.has_starts_in = true;
}

static void by_least_duration(const reading *r) {
  const int is_number = lua_type(r->L, r->index) == LUA_TNUMBER;
  int is_integer = 0;
  if (is_number)
    r->x->f.min_dur = lua_tointegerx(r->L, r->index, &is_integer);
  if (!is_integer)
    luaL_error(r->L, "filter '%s' must be an integer, got %s", r->field,
               is_number ? lua_tostring(r->L, r->index) : luaL_typename(r->L, r->index));
  r->x->f.has_min_dur = true;
}

static void by_validity(const reading *r) {
  r->x->f.keep_invalid = !lua_toboolean(r->L, r->index);
}

static const struct {
  const char *name;
  void (*read)(const reading *r);
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
    lua_rawseti(L, keys, ++count);
  }
  for (lua_Integer i = 1; i <= count; i++) {
    luaL_checkstack(L, 12, NULL);
    lua_rawgeti(L, keys, i);
    if (lua_type(L, -1) != LUA_TSTRING)
      luaL_error(L, "filter fields have names");
    const char *name = lua_tostring(L, -1);
    size_t k = 0;
    while (k < sizeof fields / sizeof *fields && strcmp(fields[k].name, name) != 0)
      k++;
    if (k == sizeof fields / sizeof *fields)
      unknown_field(L, name);
    ett_lua_raw_field(L, index, name);
    fields[k].read(&(reading){L, lua_gettop(L), t, name, x});
  }
}
