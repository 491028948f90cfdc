/* ett.csv: tables of samples, with the line of every row. */
#include <stdio.h>
#include <string.h>

#include "bind/common.h"
#include "bind/value.h"
#include "io/csv.h"
#include "io/file.h"

#define TABLE_TYPE "ett.csv"
#define MAX_FILE_BYTES ((size_t)1 << 30)

/* The userdata has the file's name as user value 1. */
static ett_csv_table *check_table(lua_State *L) {
  ett_csv_table *table = luaL_checkudata(L, 1, TABLE_TYPE);
  if (!table->names)
    luaL_error(L, "the table is closed");
  return table;
}

static const char *table_name(lua_State *L) {
  lua_getiuservalue(L, 1, 1);
  return lua_tostring(L, -1);
}

/* Pushes the names of the columns, for messages about a missing one. */
static const char *push_columns(lua_State *L, const ett_csv_table *table) {
  luaL_Buffer names;
  luaL_buffinit(L, &names);
  for (size_t i = 0; i < table->columns; i++) {
    if (i > 0)
      luaL_addstring(&names, ", ");
    luaL_addlstring(&names, table->names[i].text, table->names[i].length);
  }
  luaL_pushresult(&names);
  return lua_tostring(L, -1);
}

/* Checks options.required (a list of names); returns 0, or -1 with err filled. */
static int check_required(lua_State *L, const ett_csv_table *table, int options,
                          ett_err *err) {
  char missing[512] = "";
  size_t used = 0, count = 0;
  if (lua_isnoneornil(L, options) ||
      ett_lua_raw_field(L, options, "required") == LUA_TNIL)
    return 0;
  ett_lua_check_table(L, "required");
  for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
    size_t length;
    if (!lua_isstring(L, -1))
      luaL_error(L, "field 'required' must hold names of columns, got %s",
                 luaL_typename(L, -1));
    const char *name = lua_tolstring(L, -1, &length);
    if (ett_csv_column(table, name, length) < 0 && used < sizeof missing) {
      used += (size_t)snprintf(missing + used, sizeof missing - used, "%s'%s'",
                               count++ ? ", " : "", name);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
  if (count == 0)
    return 0;
  return ett_err_set(err, ETT_ERR_FORMAT, "no column %s; it has %s", missing,
                     push_columns(L, table));
}

/* Pushes a table userdata made from data, or nil and err. */
static int decode(lua_State *L, const char *data, size_t length, const char *name,
                  int options) {
  char separator = ',';
  int may_be_empty = 0;
  if (!lua_isnoneornil(L, options)) {
    luaL_checktype(L, options, LUA_TTABLE);
    const char *text = ett_lua_string_field(L, options, "separator", ",");
    luaL_argcheck(L, strlen(text) == 1 && !strchr("\"\r\n#", *text), options,
                  "separator must be one character");
    separator = *text;
    may_be_empty = ett_lua_boolean_field(L, options, "empty", 0);
  }
  ett_csv_table *table = lua_newuserdatauv(L, sizeof *table, 1);
  memset(table, 0, sizeof *table);
  luaL_setmetatable(L, TABLE_TYPE);
  lua_pushstring(L, name);
  lua_setiuservalue(L, -2, 1);
  const int result = lua_gettop(L);
  ett_err err = {ETT_OK, ""};
  int status = ett_csv_read(data, length, separator, table, &err);
  if (status == 0 && table->rows == 0 && !may_be_empty)
    status = ett_err_set(&err, ETT_ERR_FORMAT, "holds a header and no rows");
  if (status == 0)
    status = check_required(L, table, options, &err);
  if (status != 0)
    return ett_lua_fail_named(L, name, &err);
  lua_settop(L, result);
  return 1;
}

/* csv.decode(text [, {name=, separator=, required={...}, empty=true}]) -> table | nil,
 * err */
static int csv_decode(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  lua_settop(L, 2);
  const char *name = "csv";
  if (lua_istable(L, 2)) {
    name = ett_lua_string_field(L, 2, "name", name);
  }
  return decode(L, text, length, name, 2);
}

/* csv.read(path [, options]) -> table | nil, err */
static int csv_read(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  lua_settop(L, 2);
  ett_err err = {ETT_OK, ""};
  ett_lua_file *file = ett_lua_file_read(L, path, MAX_FILE_BYTES, &err);
  if (!file)
    return ett_lua_fail(L, &err);
  int results = decode(L, file->data, file->length, path, 2);
  ett_lua_file_free(file);
  return results;
}

/* The column that argument 2 names, or -1 with err filled. */
static int find_column(lua_State *L, const ett_csv_table *table, ett_err *err) {
  size_t length;
  const char *name = luaL_checklstring(L, 2, &length);
  const int column = ett_csv_column(table, name, length);
  return column >= 0 ? column
                     : ett_err_set(err, ETT_ERR_FORMAT, "no column '%s'; it has %s", name,
                                   push_columns(L, table));
}

/* t:numbers(column [, kind]) -> list | nil, err. Kinds: "number", "positive",
 * "nonnegative"; "integer" and "count" give integers. */
static int table_numbers(lua_State *L) {
  static const char *const kinds[] = {"number",  "positive", "nonnegative",
                                      "integer", "count",    NULL};
  const ett_csv_table *table = check_table(L);
  const ett_csv_number_kind kind =
      (ett_csv_number_kind)luaL_checkoption(L, 3, "number", kinds);
  ett_err err = {ETT_OK, ""};
  const int column = find_column(L, table, &err);
  if (column < 0)
    return ett_lua_fail_named(L, table_name(L), &err);
  double *values = lua_newuserdatauv(L, (table->rows + 1) * sizeof *values, 0);
  if (ett_csv_numbers(table, (size_t)column, kind, values, &err) != 0)
    return ett_lua_fail_named(L, table_name(L), &err);
  if (kind != ETT_CSV_INTEGER && kind != ETT_CSV_COUNT) {
    ett_lua_push_doubles(L, values, table->rows);
    return 1;
  }
  lua_createtable(L, (int)table->rows, 0);
  for (size_t row = 0; row < table->rows; row++) {
    lua_pushinteger(L, (lua_Integer)values[row]);
    lua_rawseti(L, -2, (lua_Integer)row + 1);
  }
  return 1;
}

/* t:strings(column) -> list | nil, err */
static int table_strings(lua_State *L) {
  const ett_csv_table *table = check_table(L);
  ett_err err;
  const int column = find_column(L, table, &err);
  if (column < 0)
    return ett_lua_fail_named(L, table_name(L), &err);
  lua_createtable(L, (int)table->rows, 0);
  for (size_t row = 0; row < table->rows; row++) {
    const ett_csv_field *field = ett_csv_at(table, row, (size_t)column);
    lua_pushlstring(L, field->text, field->length);
    lua_rawseti(L, -2, (lua_Integer)row + 1);
  }
  return 1;
}

/* t:line(row) -> the line of the file on which a row (from 1) begins */
static int table_line(lua_State *L) {
  const ett_csv_table *table = check_table(L);
  lua_Integer row = luaL_checkinteger(L, 2);
  luaL_argcheck(L, row >= 1 && (size_t)row <= table->rows, 2, "no such row");
  lua_pushinteger(L, table->lines[row - 1]);
  return 1;
}

/* t:rows() and #t */
static int table_rows(lua_State *L) {
  const ett_csv_table *table = check_table(L);
  lua_pushinteger(L, (lua_Integer)table->rows);
  return 1;
}

/* t:names() -> the columns, in the file's order */
static int table_names(lua_State *L) {
  const ett_csv_table *table = check_table(L);
  lua_createtable(L, (int)table->columns, 0);
  for (size_t i = 0; i < table->columns; i++) {
    lua_pushlstring(L, table->names[i].text, table->names[i].length);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int table_close(lua_State *L) {
  ett_csv_free(luaL_checkudata(L, 1, TABLE_TYPE));
  return 0;
}

static int table_tostring(lua_State *L) {
  const ett_csv_table *table = check_table(L);
  lua_pushfstring(L, "csv %s: %I rows of %s", table_name(L), (LUAI_UACINT)table->rows,
                  push_columns(L, table));
  return 1;
}

static const luaL_Reg functions[] = {
    {"decode", csv_decode}, {"read", csv_read}, {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"numbers", table_numbers},     {"strings", table_strings},
    {"line", table_line},           {"rows", table_rows},
    {"names", table_names},         {"__len", table_rows},
    {"__tostring", table_tostring}, {NULL, NULL},
};

int luaopen_ett_csv(lua_State *L);

int luaopen_ett_csv(lua_State *L) {
  ett_lua_type(L, TABLE_TYPE, methods, table_close);
  luaL_newlib(L, functions);
  return 1;
}
