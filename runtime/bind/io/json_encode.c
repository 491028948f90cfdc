#include "bind/io/json_encode.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/buffer.h"
#include "bind/common.h"
#include "bind/value.h"
#include "io/number.h"
#include "io/utf8.h"

#define MAX_DEPTH 128

/* One container on the path to the current value; for messages and cycle detection. */
typedef struct frame {
  const struct frame *parent;
  const void *table;
  const char *key; /* NULL in an array */
  lua_Integer index;
  int depth; /* of tables, results of __json included */
  int level; /* of braces, for the indentation */
} frame;

typedef struct {
  lua_State *L;
  ett_lua_buffer *out;
  int indent;
  bool nan_as_null;
} writer;

static void add_path(luaL_Buffer *path, lua_State *L, const frame *f) {
  if (!f) {
    luaL_addstring(path, "value");
    return;
  }
  add_path(path, L, f->parent);
  if (f->key) {
    luaL_addchar(path, '.');
    luaL_addstring(path, f->key);
  } else {
    lua_pushfstring(L, "[%I]", f->index);
    luaL_addvalue(path);
  }
}

/* Raises "json: value.layers[3]: <what>". */
static int fault(const writer *w, const frame *f, const char *what) {
  luaL_Buffer path;
  luaL_buffinit(w->L, &path);
  luaL_addstring(&path, "json: ");
  add_path(&path, w->L, f);
  luaL_addstring(&path, ": ");
  luaL_addstring(&path, what);
  luaL_pushresult(&path);
  return lua_error(w->L);
}

/* \uNNNN; codes above U+FFFF are two (RFC 8259, section 7). */
static void add_code(const writer *w, uint32_t code) {
  char text[13];
  const unsigned high = 0xD800 + ((code - 0x10000) >> 10);
  const int length = code < 0x10000
                         ? snprintf(text, sizeof text, "\\u%04x", (unsigned)code)
                         : snprintf(text, sizeof text, "\\u%04x\\u%04x", high,
                                    (unsigned)(0xDC00 + (code & 0x3FF)));
  ett_lua_buffer_add(w->out, text, (size_t)length);
}

static void add_string(const writer *w, const frame *f, const char *text, size_t length) {
  static const char special[] = "\"\\\n\r\t", escaped[] = "\"\\nrt";
  if (ett_utf8_valid_prefix(text, length) < length)
    fault(w, f, "string is not UTF-8");
  ett_lua_buffer_add_char(w->out, '"');
  size_t start = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\')
      continue;
    uint32_t code;
    const size_t hidden = ett_utf8_hidden(text + i, length - i, &code);
    if (hidden == 0 && c != '"' && c != '\\')
      continue;
    ett_lua_buffer_add(w->out, text + start, i - start);
    const char *plain = memchr(special, c, sizeof special - 1);
    if (plain) {
      const char pair[] = {'\\', escaped[plain - special]};
      ett_lua_buffer_add(w->out, pair, sizeof pair);
    } else {
      add_code(w, code);
    }
    i += hidden > 0 ? hidden - 1 : 0;
    start = i + 1;
  }
  ett_lua_buffer_add(w->out, text + start, length - start);
  ett_lua_buffer_add_char(w->out, '"');
}

static void add_number(const writer *w, const frame *f, int value) {
  if (lua_isinteger(w->L, value)) {
    char text[24];
    int length =
        snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(w->L, value));
    ett_lua_buffer_add(w->out, text, (size_t)length);
    return;
  }
  const double number = lua_tonumber(w->L, value);
  if (!isfinite(number)) {
    if (!w->nan_as_null) {
      fault(w, f, isnan(number) ? "number is NaN" : "number is infinite");
    }
    ett_lua_buffer_add_string(w->out, "null");
    return;
  }
  char text[ETT_NUMBER_FORMAT_SIZE];
  ett_lua_buffer_add(w->out, text, ett_number_format(number, text));
}

static void add_newline(const writer *w, int level) {
  if (w->indent == 0)
    return;
  ett_lua_buffer_add_char(w->out, '\n');
  for (int i = 0; i < level * w->indent; i++)
    ett_lua_buffer_add_char(w->out, ' ');
}

static void add_value(const writer *w, const frame *parent, int value);

static void add_array(const writer *w, frame *f, int table, lua_Integer count) {
  ett_lua_buffer_add_char(w->out, '[');
  for (lua_Integer i = 1; i <= count; i++) {
    if (i > 1)
      ett_lua_buffer_add_char(w->out, ',');
    add_newline(w, f->level);
    f->index = i;
    lua_rawgeti(w->L, table, i);
    add_value(w, f, lua_gettop(w->L));
    lua_pop(w->L, 1);
  }
  if (count > 0)
    add_newline(w, f->level - 1);
  ett_lua_buffer_add_char(w->out, ']');
}

typedef struct {
  const char *text;
  size_t length;
  lua_Integer held; /* position in the list that keeps the key from the collector */
} key_slice;

static int compare_keys(const void *a, const void *b) {
  const key_slice *x = a, *y = b;
  int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
  if (order != 0)
    return order;
  return (x->length > y->length) - (x->length < y->length);
}

/* Fields of a table, by the kind of their keys. */
typedef struct {
  size_t named;
  lua_Integer positional;
} fields;

/* The sorted keys of a table, in a userdata; above it, a list that keeps them from the
 * collector. An allocation may run a finaliser that changes the table. */
static const key_slice *get_keys(const writer *w, const frame *f, int table,
                                 size_t count) {
  lua_State *L = w->L;
  key_slice *keys = lua_newuserdatauv(L, (count + 1) * sizeof *keys, 0);
  size_t n = 0;
  lua_createtable(L, (int)count, 0);
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    if (n == count || lua_type(L, -2) != LUA_TSTRING)
      fault(w, f->parent, "the table changed while it was written");
    keys[n].text = lua_tolstring(L, -2, &keys[n].length);
    keys[n].held = (lua_Integer)n + 1;
    lua_pushvalue(L, -2);
    lua_rawseti(L, -4, keys[n++].held);
  }
  if (n < count)
    fault(w, f->parent, "the table changed while it was written");
  qsort(keys, n, sizeof *keys, compare_keys);
  return keys;
}

static void add_object(const writer *w, frame *f, int table, size_t n) {
  lua_State *L = w->L;
  const key_slice *keys = get_keys(w, f, table, n);
  const int held = lua_gettop(L);
  ett_lua_buffer_add_char(w->out, '{');
  for (size_t i = 0; i < n; i++) {
    if (i > 0)
      ett_lua_buffer_add_char(w->out, ',');
    add_newline(w, f->level);
    f->key = keys[i].text;
    add_string(w, f, keys[i].text, keys[i].length);
    ett_lua_buffer_add_string(w->out, w->indent ? ": " : ":");
    lua_rawgeti(L, held, keys[i].held);
    lua_rawget(L, table);
    add_value(w, f, lua_gettop(L));
    lua_pop(L, 1);
  }
  if (n > 0)
    add_newline(w, f->level - 1);
  ett_lua_buffer_add_char(w->out, '}');
  lua_pop(L, 2);
}

/* Raises if a key is neither a string nor a position. */
static fields count_fields(const writer *w, const frame *parent, int table) {
  lua_State *L = w->L;
  lua_Integer highest = 0;
  fields counted = {0};
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING) {
      counted.named++;
    } else if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1) {
      counted.positional++;
      if (lua_tointeger(L, -2) > highest)
        highest = lua_tointeger(L, -2);
    } else {
      fault(w, parent,
            lua_pushfstring(L, "key %s is neither a string nor a position",
                            luaL_tolstring(L, -2, NULL)));
    }
  }
  if (counted.named > 0 && counted.positional > 0)
    fault(w, parent, "table mixes named and positional fields");
  if (highest != counted.positional)
    fault(w, parent, "array has holes");
  return counted;
}

static void add_table(const writer *w, const frame *parent, int table) {
  lua_State *L = w->L;
  frame f = {.parent = parent,
             .table = lua_topointer(L, table),
             .depth = parent ? parent->depth + 1 : 1,
             .level = parent ? parent->level + 1 : 1};
  if (f.depth > MAX_DEPTH)
    fault(w, parent, "nested deeper than 128 levels");
  for (const frame *up = parent; up; up = up->parent) {
    if (up->table == f.table)
      fault(w, parent, "table holds itself");
  }
  luaL_checkstack(L, 12, "json");
  if (luaL_getmetafield(L, table, "__json") != LUA_TNIL) {
    lua_pushvalue(L, table);
    lua_call(L, 1, 1);
    f.level--; /* adds no braces */
    add_value(w, &f, lua_gettop(L));
    lua_pop(L, 1);
    return;
  }
  const fields counted = count_fields(w, parent, table);
  if (counted.positional > 0 || (counted.named == 0 && ett_lua_is_array(L, table)))
    add_array(w, &f, table, counted.positional);
  else
    add_object(w, &f, table, counted.named);
}

static void add_value(const writer *w, const frame *parent, int value) {
  lua_State *L = w->L;
  size_t length;
  switch (lua_type(L, value)) {
  case LUA_TNIL:
    ett_lua_buffer_add_string(w->out, "null");
    break;
  case LUA_TBOOLEAN:
    ett_lua_buffer_add_string(w->out, lua_toboolean(L, value) ? "true" : "false");
    break;
  case LUA_TNUMBER:
    add_number(w, parent, value);
    break;
  case LUA_TSTRING: {
    const char *text = lua_tolstring(L, value, &length);
    add_string(w, parent, text, length);
    break;
  }
  case LUA_TTABLE:
    add_table(w, parent, value);
    break;
  default:
    if (ett_lua_is_null(L, value)) {
      ett_lua_buffer_add_string(w->out, "null");
    } else {
      fault(w, parent,
            lua_pushfstring(L, "a %s has no form in JSON", luaL_typename(L, value)));
    }
  }
}

void ett_lua_json_encode(lua_State *L, int value, int options) {
  writer w = {L, NULL, 0, false};
  if (!lua_isnoneornil(L, options)) {
    luaL_checktype(L, options, LUA_TTABLE);
    w.indent = (int)ett_lua_range_field(L, options, "indent", 0, 0, 16);
    const char *nan = ett_lua_string_field(L, options, "nan", NULL);
    luaL_argcheck(L, !nan || strcmp(nan, "null") == 0, options,
                  "nan must be \"null\" or absent");
    w.nan_as_null = nan != NULL;
  }
  w.out = ett_lua_buffer_new(L);
  add_value(&w, NULL, value);
  if (w.indent > 0)
    ett_lua_buffer_add_char(w.out, '\n');
  ett_lua_buffer_push(w.out);
  ett_lua_buffer_clear(w.out);
  lua_remove(L, -2);
}
