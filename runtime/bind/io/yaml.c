/* ett.yaml: configurations as tables, with the line of each field.
 *
 * libyaml's events become tables in one pass. Plain scalars follow the YAML 1.2 core
 * schema: 1.26e9 is a number, `yes` is a string. The key `<<` merges mappings as YAML 1.1
 * defines it (yaml.org/type/merge.html). Refused, with the line: text that is not UTF-8,
 * a second document, unknown tags, keys that are not scalars, documents beyond the
 * limits. The limits count each use of an alias, so a few lines cannot expand to
 * billions. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "bind/common.h"
#include "bind/value.h"
#include "io/utf8.h"
#include "io/yaml_scalar.h"

#define READER_TYPE "ett.yaml.reader"
#define MAX_FILE_BYTES ((size_t)16 << 20)

enum { MOST_DEPTH = 64, MOST_NODES = 1000000 };

/* An open container. `table` is the first of its places on the stack: the table, its
 * lines, the entry of its anchor (or nil), and in a mapping the key whose value comes
 * next. */
typedef struct {
  int table, mapping, has_key, height; /* height: deepest nesting inside */
  int merges;                          /* the key is a merge key */
  lua_Integer count;                   /* elements of a sequence */
  size_t line;                         /* on which it begins, from 0 */
  double nodes; /* values inside, with aliases expanded; it may exceed integers */
} level;

typedef struct {
  yaml_parser_t parser;
  yaml_event_t event; /* the last one */
  int open, depth, documents;
  level levels[MOST_DEPTH];
  double nodes;
  int anchors, lines, root; /* stack positions: name -> {value, nodes, height}; table ->
                               {key -> line}; the document */
  int mappings, merged;     /* table of a mapping -> true; table -> value of its `<<` */
  ett_err err;
} reader;

static int reader_close(lua_State *L) {
  reader *r = luaL_checkudata(L, 1, READER_TYPE);
  if (r->open) {
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
  }
  r->open = 0;
  return 0;
}

static int fault(reader *r, ett_err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A fault at the line of the event. Returns -1. */
static int fault(reader *r, ett_err_code code, const char *format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return ett_err_set(&r->err, code, "line %zu: %s", r->event.start_mark.line + 1, what);
}

/* Reports libyaml's problem and the construct in which it occurred. */
static int parser_fault(reader *r) {
  const yaml_parser_t *p = &r->parser;
  if (p->error == YAML_MEMORY_ERROR)
    return ett_err_set(&r->err, ETT_ERR_MEMORY, "not enough memory to read yaml");
  const char *problem = p->problem ? p->problem : "malformed yaml";
  if (p->error == YAML_READER_ERROR)
    return ett_err_set(&r->err, ETT_ERR_FORMAT, "byte %zu: %s", p->problem_offset,
                       problem);
  char context[200] = "";
  if (p->context)
    snprintf(context, sizeof context, " %s that began on line %zu", p->context,
             p->context_mark.line + 1);
  return ett_err_set(&r->err, ETT_ERR_FORMAT, "line %zu: column %zu: %s%s",
                     p->problem_mark.line + 1, p->problem_mark.column + 1, problem,
                     context);
}

/* Whether a tag names this kind of the core schema: "tag:yaml.org,2002:int". */
static int tag_is(const char *tag, const char *kind) {
  static const char core[] = "tag:yaml.org,2002:";
  return strncmp(tag, core, sizeof core - 1) == 0 &&
         strcmp(tag + sizeof core - 1, kind) == 0;
}

static int has_tag(const yaml_char_t *tag) {
  return tag && strcmp((const char *)tag, "!") != 0;
}

/* Gives a tagged scalar its kind; returns 0 or -1. */
static int apply_tag(reader *r, const char *tag, const char *text, size_t length,
                     ett_yaml_scalar *s) {
  static const char *const names[] = {"null", "bool", "int", "float", "str"};
  size_t kind = 0;
  while (kind < 5 && !tag_is(tag, names[kind]))
    kind++;
  if (kind == 5)
    return fault(r, ETT_ERR_FORMAT, "unknown tag '%.80s'", tag);
  if (kind == ETT_YAML_STRING)
    return 0;
  *s = ett_yaml_resolve(text, length);
  if (kind == ETT_YAML_FLOAT && s->kind == ETT_YAML_INTEGER)
    s->kind = ETT_YAML_FLOAT;
  if (s->kind != kind)
    return fault(r, ETT_ERR_FORMAT, "'%.40s' is no %s, as its tag says", text,
                 names[kind]);
  return 0;
}

/* Counts one more value in the open container. */
static int count_node(reader *r) {
  r->nodes += 1;
  if (r->depth > 0)
    r->levels[r->depth - 1].nodes += 1;
  return r->nodes <= MOST_NODES
             ? 0
             : fault(r, ETT_ERR_LIMIT, "more than %d values", MOST_NODES);
}

/* Pushes the entry of the anchor of that name, empty at first; nil without a name. */
static void push_anchor(lua_State *L, const reader *r, const yaml_char_t *name) {
  if (!name) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 3, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, r->anchors, (const char *)name);
}

/* Completes the entry at index with the value on the top. */
static void set_anchor(lua_State *L, int entry, double nodes, int height) {
  if (lua_isnil(L, entry))
    return;
  lua_pushvalue(L, -1);
  lua_rawseti(L, entry, 1);
  lua_pushnumber(L, nodes);
  lua_rawseti(L, entry, 2);
  lua_pushinteger(L, height);
  lua_rawseti(L, entry, 3);
}

/* Whether the scalar, as a key, merges mappings: `<<` without quotes. */
static int is_merge_key(const yaml_event_t *e) {
  const yaml_char_t *tag = e->data.scalar.tag;
  if (strcmp((const char *)e->data.scalar.value, "<<") != 0)
    return 0;
  return has_tag(tag) ? tag_is((const char *)tag, "merge")
                      : e->data.scalar.plain_implicit;
}

/* Takes the value on the top as the next key, which must be new. */
static int put_key(lua_State *L, reader *r, level *l) {
  if (ett_lua_is_null(L, -1) || !lua_rawequal(L, -1, -1))
    return fault(r, ETT_ERR_FORMAT, "a key must not be null or NaN");
  l->merges = is_merge_key(&r->event);
  lua_pushvalue(L, l->merges ? l->table : -1);
  if (lua_rawget(L, l->merges ? r->merged : l->table) != LUA_TNIL)
    return fault(r, ETT_ERR_FORMAT, "key '%.200s' appears twice",
                 luaL_tolstring(L, -2, NULL));
  lua_pop(L, 1);
  l->has_key = 1;
  if (l->merges)
    return 0;
  lua_pushvalue(L, -1);
  lua_pushinteger(L, (lua_Integer)r->event.start_mark.line + 1);
  lua_rawset(L, l->table + 1);
  return 0;
}

/* Whether the value at index is a mapping of the document. */
static int is_mapping(lua_State *L, const reader *r, int index) {
  lua_pushvalue(L, index);
  const int found = lua_rawget(L, r->mappings) != LUA_TNIL;
  lua_pop(L, 1);
  return found;
}

/* Keeps the value on the top, below it the key, for the end of the mapping: the mapping's
 * own keys take precedence wherever they stand. */
static int put_merge(lua_State *L, reader *r, level *l, size_t line) {
  const int value = lua_gettop(L);
  int valid = lua_istable(L, value) && !ett_lua_is_null(L, value);
  if (valid && !is_mapping(L, r, value)) {
    const lua_Integer count = (lua_Integer)lua_rawlen(L, value);
    for (lua_Integer i = 1; valid && i <= count; i++) {
      lua_rawgeti(L, value, i);
      valid = is_mapping(L, r, lua_gettop(L));
      lua_pop(L, 1);
    }
  }
  if (!valid)
    return ett_err_set(&r->err, ETT_ERR_FORMAT,
                       "line %zu: '<<' merges a mapping or a list of mappings, such as "
                       "*anchor; found another value",
                       line + 1);
  lua_pushvalue(L, l->table);
  lua_insert(L, value);
  lua_rawset(L, r->merged);
  lua_pop(L, 1);
  l->has_key = l->merges = 0;
  return 0;
}

/* Copies the entries, with their lines, whose keys the mapping lacks from the mapping on
 * the top, which it pops. */
static void merge_from(lua_State *L, const reader *r, int table) {
  const int from = lua_gettop(L);
  lua_pushvalue(L, from);
  lua_rawget(L, r->lines);
  for (lua_pushnil(L); lua_next(L, from) != 0; lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    const int has = lua_rawget(L, table) != LUA_TNIL;
    lua_pop(L, 1);
    if (has)
      continue;
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, table);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -1);
    lua_rawget(L, from + 1);
    lua_rawset(L, table + 1);
  }
  lua_settop(L, from - 1);
}

/* Completes a mapping at its end from the value of its `<<`; earlier mappings of a list
 * take precedence. */
static void merge(lua_State *L, const reader *r, int table) {
  lua_pushvalue(L, table);
  if (lua_rawget(L, r->merged) == LUA_TNIL) {
    lua_pop(L, 1);
  } else if (is_mapping(L, r, lua_gettop(L))) {
    merge_from(L, r, table);
  } else {
    const int list = lua_gettop(L);
    const lua_Integer count = (lua_Integer)lua_rawlen(L, list);
    for (lua_Integer i = 1; i <= count; i++) {
      lua_rawgeti(L, list, i);
      merge_from(L, r, table);
    }
    lua_pop(L, 1);
  }
}

/* Puts the value on the top, which began on that line, into the open container. */
static int put(lua_State *L, reader *r, size_t line) {
  if (r->depth == 0) {
    lua_replace(L, r->root);
    return 0;
  }
  level *l = &r->levels[r->depth - 1];
  if (l->mapping && !l->has_key)
    return put_key(L, r, l);
  if (l->merges)
    return put_merge(L, r, l, line);
  if (l->mapping) {
    lua_rawset(L, l->table);
    l->has_key = 0;
    return 0;
  }
  lua_rawseti(L, l->table, ++l->count);
  lua_pushinteger(L, (lua_Integer)line + 1);
  lua_rawseti(L, l->table + 1, l->count);
  return 0;
}

static int scalar(lua_State *L, reader *r) {
  const char *text = (const char *)r->event.data.scalar.value;
  const size_t length = r->event.data.scalar.length;
  const yaml_char_t *tag = r->event.data.scalar.tag;
  ett_yaml_scalar s = {.kind = ETT_YAML_STRING};
  if (count_node(r) != 0)
    return -1;
  if (has_tag(tag) && !is_merge_key(&r->event)) {
    if (apply_tag(r, (const char *)tag, text, length, &s) != 0)
      return -1;
  } else if (r->event.data.scalar.plain_implicit &&
             r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
    s = ett_yaml_resolve(text, length);
  }
  push_anchor(L, r, r->event.data.scalar.anchor);
  const int entry = lua_gettop(L);
  switch (s.kind) {
  case ETT_YAML_NULL:
    ett_lua_push_null(L);
    break;
  case ETT_YAML_BOOLEAN:
    lua_pushboolean(L, s.integer != 0);
    break;
  case ETT_YAML_INTEGER:
    lua_pushinteger(L, s.integer);
    break;
  case ETT_YAML_FLOAT:
    lua_pushnumber(L, s.number);
    break;
  case ETT_YAML_STRING:
    lua_pushlstring(L, text, length);
  }
  set_anchor(L, entry, 1, 0);
  lua_remove(L, entry);
  return put(L, r, r->event.start_mark.line);
}

static int open_container(lua_State *L, reader *r, int mapping, const yaml_char_t *anchor,
                          const yaml_char_t *tag) {
  if (r->depth >= MOST_DEPTH)
    return fault(r, ETT_ERR_LIMIT, "nested deeper than %d levels", MOST_DEPTH);
  if (has_tag(tag) && !tag_is((const char *)tag, mapping ? "map" : "seq"))
    return fault(r, ETT_ERR_FORMAT, "unknown tag '%.80s'", (const char *)tag);
  if (count_node(r) != 0)
    return -1;
  lua_newtable(L);
  r->levels[r->depth++] = (level){.table = lua_gettop(L),
                                  .mapping = mapping,
                                  .line = r->event.start_mark.line,
                                  .height = 1,
                                  .nodes = 1};
  lua_newtable(L);
  lua_pushvalue(L, -2);
  lua_pushvalue(L, -2);
  lua_rawset(L, r->lines);
  if (mapping) {
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, r->mappings);
  }
  push_anchor(L, r, anchor);
  return 0;
}

static int close_container(lua_State *L, reader *r) {
  const level closed = r->levels[--r->depth];
  if (!closed.mapping && closed.count == 0)
    ett_lua_mark_array(L, closed.table);
  if (closed.mapping)
    merge(L, r, closed.table);
  lua_pushvalue(L, closed.table);
  set_anchor(L, closed.table + 2, closed.nodes, closed.height);
  lua_settop(L, closed.table);
  if (r->depth > 0) {
    level *parent = &r->levels[r->depth - 1];
    parent->nodes += closed.nodes - 1; /* the container itself was counted before */
    if (closed.height + 1 > parent->height)
      parent->height = closed.height + 1;
  }
  return put(L, r, closed.line);
}

static int alias(lua_State *L, reader *r) {
  const char *name = (const char *)r->event.data.alias.anchor;
  if (count_node(r) != 0)
    return -1;
  if (lua_getfield(L, r->anchors, name) == LUA_TNIL)
    return fault(r, ETT_ERR_FORMAT, "alias '*%.60s' has no anchor before it", name);
  const int entry = lua_gettop(L);
  if (lua_rawgeti(L, entry, 1) == LUA_TNIL)
    return fault(r, ETT_ERR_FORMAT, "alias '*%.60s' is inside its own anchor", name);
  lua_rawgeti(L, entry, 2);
  lua_rawgeti(L, entry, 3);
  const double nodes = lua_tonumber(L, -2);
  const int height = (int)lua_tointeger(L, -1);
  lua_pop(L, 2);
  lua_remove(L, entry);
  r->nodes += nodes - 1;
  if (r->nodes > MOST_NODES)
    return fault(r, ETT_ERR_LIMIT, "aliases expand to more than %d values", MOST_NODES);
  if (r->depth + height > MOST_DEPTH)
    return fault(r, ETT_ERR_LIMIT, "aliases nest deeper than %d levels", MOST_DEPTH);
  if (r->depth > 0) {
    level *l = &r->levels[r->depth - 1];
    l->nodes += nodes - 1;
    if (height + 1 > l->height)
      l->height = height + 1;
  }
  return put(L, r, r->event.start_mark.line);
}

static int handle(lua_State *L, reader *r) {
  const yaml_event_t *e = &r->event;
  const level *l = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
  const int at_key = l && l->mapping && !l->has_key;
  switch (e->type) {
  case YAML_DOCUMENT_START_EVENT:
    return ++r->documents > 1
               ? fault(r, ETT_ERR_FORMAT, "expected one document, found a second")
               : 0;
  case YAML_SCALAR_EVENT:
    return scalar(L, r);
  case YAML_ALIAS_EVENT:
    return at_key ? fault(r, ETT_ERR_FORMAT, "an alias cannot be a key") : alias(L, r);
  case YAML_SEQUENCE_START_EVENT:
  case YAML_MAPPING_START_EVENT:
    if (at_key)
      return fault(r, ETT_ERR_FORMAT, "a key must be a scalar, got a container");
    if (e->type == YAML_SEQUENCE_START_EVENT)
      return open_container(L, r, 0, e->data.sequence_start.anchor,
                            e->data.sequence_start.tag);
    return open_container(L, r, 1, e->data.mapping_start.anchor,
                          e->data.mapping_start.tag);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    return close_container(L, r);
  default:
    return 0;
  }
}

/* Checks that data is text; libyaml names neither line nor byte. */
static int check_text(reader *r, const char *data, size_t length) {
  size_t at = ett_utf8_valid_prefix(data, length);
  if (at < length)
    return ett_err_set(&r->err, ETT_ERR_FORMAT,
                       "line %zu: not UTF-8 at byte %zu (0x%02x)",
                       ett_place_of(data, at).line, at, (unsigned char)data[at]);
  at = strnlen(data, length);
  if (at < length)
    return ett_err_set(&r->err, ETT_ERR_FORMAT,
                       "line %zu: NUL at byte %zu; is this text?",
                       ett_place_of(data, at).line, at);
  return 0;
}

static int read_events(lua_State *L, reader *r, const char *data, size_t length) {
  if (check_text(r, data, length) != 0)
    return -1;
  if (!yaml_parser_initialize(&r->parser))
    return parser_fault(r);
  r->open = 1;
  yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&r->parser, (const unsigned char *)data, length);
  do {
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
      return parser_fault(r);
    if (handle(L, r) != 0)
      return -1;
  } while (r->event.type != YAML_STREAM_END_EVENT);
  return lua_isnil(L, r->root) ? ett_err_set(&r->err, ETT_ERR_FORMAT,
                                             "holds no value (empty, or comments only)")
                               : 0;
}

/* Pushes value and lines, or nil and err; returns 2. */
static int decode(lua_State *L, const char *data, size_t length, const char *name) {
  luaL_checkstack(L, 5 * MOST_DEPTH + 20, "yaml");
  reader *r = lua_newuserdatauv(L, sizeof *r, 0);
  memset(r, 0, sizeof *r);
  luaL_setmetatable(L, READER_TYPE);
  for (int i = 0; i < 4; i++)
    lua_newtable(L);
  lua_pushnil(L);
  r->root = lua_gettop(L);
  r->lines = r->root - 1;
  r->anchors = r->root - 2;
  r->mappings = r->root - 3;
  r->merged = r->root - 4;
  const int status = read_events(L, r, data, length);
  lua_pushcfunction(L, reader_close);
  lua_pushvalue(L, r->merged - 1);
  lua_call(L, 1, 0);
  if (status != 0)
    return ett_lua_fail_named(L, name, &r->err);
  lua_pushvalue(L, r->root);
  lua_pushvalue(L, r->lines);
  return 2;
}

/* yaml.decode(text [, name]) -> value, lines | nil, err */
static int yaml_decode(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  return decode(L, text, length, luaL_optstring(L, 2, "yaml"));
}

/* yaml.read(path) -> value, lines | nil, err. lines[table][key] is the line of a field.
 */
static int yaml_read(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  ett_err err = {ETT_OK, ""};
  ett_lua_file *file = ett_lua_file_read(L, path, MAX_FILE_BYTES, &err);
  if (!file)
    return ett_lua_fail(L, &err);
  int results = decode(L, file->data, file->length, path);
  ett_lua_file_free(file);
  return results;
}

static const luaL_Reg functions[] = {
    {"decode", yaml_decode},
    {"read", yaml_read},
    {NULL, NULL},
};

int luaopen_ett_yaml(lua_State *L);

int luaopen_ett_yaml(lua_State *L) {
  ett_lua_type(L, READER_TYPE, NULL, reader_close);
  luaL_newlib(L, functions);
  ett_lua_push_null(L);
  lua_setfield(L, -2, "null");
  return 1;
}
