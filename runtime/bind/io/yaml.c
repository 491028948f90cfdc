/* ett.yaml: configurations as tables, with the line of each field. */
#include <string.h>

#include "bind/common.h"
#include "bind/value.h"
#include "io/yaml.h"

#define DOCUMENT_TYPE "ett.yaml.document"
#define MAX_FILE_BYTES ((size_t)16 << 20)

static int document_gc(lua_State *L) {
  ett_yaml_free(luaL_checkudata(L, 1, DOCUMENT_TYPE));
  return 0;
}

/* State of the conversion of a document to tables; built and lines are stack
 * positions. */
typedef struct {
  lua_State *L;
  const ett_yaml_document *document;
  int built; /* node index -> table, for aliases */
  int lines; /* table -> { key -> line } */
  ett_err *err;
} converter;

static int push_node(converter *c, int32_t index);

/* Sets the line of a key in the table of lines at index `at`. */
static void set_line(lua_State *L, int at, int key, uint32_t line) {
  lua_pushvalue(L, key);
  lua_pushinteger(L, (lua_Integer)line);
  lua_rawset(L, at);
}

static int push_sequence(converter *c, const ett_yaml_node *node, int table, int at) {
  lua_State *L = c->L;
  lua_Integer position = 0;
  for (int32_t child = node->first; child >= 0; child = c->document->nodes[child].next) {
    if (push_node(c, child) != 0)
      return -1;
    lua_rawseti(L, table, ++position);
    lua_pushinteger(L, (lua_Integer)c->document->nodes[child].line);
    lua_rawseti(L, at, position);
  }
  if (position == 0)
    ett_lua_mark_array(L, table);
  return 0;
}

static int push_mapping(converter *c, const ett_yaml_node *node, int table, int at) {
  lua_State *L = c->L;
  const ett_yaml_node *nodes = c->document->nodes;
  for (int32_t key = node->first; key >= 0;) {
    const int32_t value = nodes[key].next;
    if (nodes[key].kind == ETT_YAML_NULL ||
        (nodes[key].kind == ETT_YAML_FLOAT &&
         nodes[key].value.number != nodes[key].value.number))
      return ett_err_set(c->err, ETT_ERR_FORMAT, "line %u: a key must not be null or NaN",
                         nodes[key].line);
    if (push_node(c, key) != 0)
      return -1;
    const int name = lua_gettop(L);
    if (lua_type(L, name) == LUA_TSTRING && strcmp(lua_tostring(L, name), "<<") == 0)
      return ett_err_set(c->err, ETT_ERR_FORMAT,
                         "line %u: merge key '<<' is not YAML 1.2; write the fields out",
                         nodes[key].line);
    lua_pushvalue(L, name);
    if (lua_rawget(L, table) != LUA_TNIL)
      return ett_err_set(c->err, ETT_ERR_FORMAT, "line %u: key '%s' appears twice",
                         nodes[key].line, luaL_tolstring(L, name, NULL));
    lua_pop(L, 1);
    set_line(L, at, name, nodes[key].line);
    if (push_node(c, value) != 0)
      return -1;
    lua_rawset(L, table);
    key = nodes[value].next;
  }
  return 0;
}

static int push_container(converter *c, int32_t index) {
  lua_State *L = c->L;
  const ett_yaml_node *node = &c->document->nodes[index];
  luaL_checkstack(L, 12, "yaml");
  lua_newtable(L);
  const int table = lua_gettop(L);
  lua_pushvalue(L, table);
  lua_rawseti(L, c->built, index);
  lua_newtable(L);
  const int at = lua_gettop(L);
  lua_pushvalue(L, table);
  lua_pushvalue(L, at);
  lua_rawset(L, c->lines);
  int status = node->kind == ETT_YAML_MAPPING ? push_mapping(c, node, table, at)
                                              : push_sequence(c, node, table, at);
  if (status == 0)
    lua_settop(L, table);
  return status;
}

/* Pushes the value of a node. Returns -1 on a fault, with extra values on the stack. */
static int push_node(converter *c, int32_t index) {
  const ett_yaml_node *node = &c->document->nodes[index];
  switch (node->kind) {
  case ETT_YAML_NULL:
    ett_lua_push_null(c->L);
    return 0;
  case ETT_YAML_BOOLEAN:
    lua_pushboolean(c->L, node->value.integer != 0);
    return 0;
  case ETT_YAML_INTEGER:
    lua_pushinteger(c->L, node->value.integer);
    return 0;
  case ETT_YAML_FLOAT:
    lua_pushnumber(c->L, node->value.number);
    return 0;
  case ETT_YAML_STRING:
    lua_pushlstring(c->L, c->document->text + node->value.string.offset,
                    node->value.string.length);
    return 0;
  case ETT_YAML_ALIAS:
    if (lua_rawgeti(c->L, c->built, node->value.integer) != LUA_TNIL)
      return 0;
    lua_pop(c->L, 1);
    return push_node(c, (int32_t)node->value.integer); /* an anchored scalar */
  case ETT_YAML_SEQUENCE:
  case ETT_YAML_MAPPING:
    break;
  }
  return push_container(c, index);
}

/* Pushes value and lines, or nil and err; returns 2. */
static int decode(lua_State *L, const char *data, size_t length, const char *name) {
  ett_yaml_document *document = lua_newuserdatauv(L, sizeof *document, 0);
  memset(document, 0, sizeof *document);
  luaL_setmetatable(L, DOCUMENT_TYPE);
  ett_err err = {ETT_OK, ""};
  int status = ett_yaml_read(data, length, NULL, document, &err);
  if (status == 0) {
    lua_newtable(L);
    lua_newtable(L);
    converter c = {L, document, lua_gettop(L) - 1, lua_gettop(L), &err};
    status = push_node(&c, 0);
    if (status == 0)
      lua_pushvalue(L, c.lines);
  }
  ett_yaml_free(document);
  if (status == 0)
    return 2;
  return ett_lua_fail_named(L, name, &err);
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
  static const luaL_Reg none[] = {{NULL, NULL}};
  ett_lua_type(L, DOCUMENT_TYPE, none, document_gc);
  luaL_newlib(L, functions);
  ett_lua_push_null(L);
  lua_setfield(L, -2, "null");
  return 1;
}
