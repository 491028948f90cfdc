/* ett.io: whole files, folders, content hashes, texts for terminals. */
#include "bind/common.h"
#include "bind/value.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/temporary.h"
#include "io/utf8.h"

/* io.read(path [, max_bytes = 2^30]) -> text | nil, err */
static int io_read(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  const lua_Integer max_bytes = luaL_optinteger(L, 2, (lua_Integer)1 << 30);
  luaL_argcheck(L, max_bytes >= 0, 2, "must be at least 0");
  ett_err err = {ETT_OK, ""};
  ett_lua_file *file = ett_lua_file_read(L, path, (size_t)max_bytes, &err);
  if (!file)
    return ett_lua_fail(L, &err);
  lua_pushlstring(L, file->data, file->length);
  ett_lua_file_free(file);
  return 1;
}

/* io.write(path, text [, kind]) -> true | nil, err. Replaces the whole file or nothing.
 * kind: "named" (default), "derived" or "private" of io/file.h */
static int io_write(lua_State *L) {
  size_t length;
  const char *path = luaL_checkstring(L, 1);
  const char *text = luaL_checklstring(L, 2, &length);
  static const char *const kinds[] = {"named", "derived", "private", NULL};
  const ett_file_kind kind = (ett_file_kind)luaL_checkoption(L, 3, "named", kinds);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(L, ett_file_write(path, text, length, kind, &err), &err);
}

/* io.make_folder(path [, private]) -> true | nil, err; with its parents */
static int io_make_folder(lua_State *L) {
  ett_err err = {ETT_OK, ""};
  const char *path = luaL_checkstring(L, 1);
  return ett_lua_result(L, ett_folder_make(path, lua_toboolean(L, 2), &err), &err);
}

/* io.hash(text, ...) -> 32 hexadecimal digits; ("ab", "c") differs from ("a", "bc") */
static int io_hash(lua_State *L) {
  const int count = lua_gettop(L);
  luaL_checkstring(L, 1);
  ett_hash_piece *pieces = lua_newuserdatauv(L, (size_t)count * sizeof *pieces, 0);
  for (int i = 0; i < count; i++)
    pieces[i].data = luaL_checklstring(L, i + 1, &pieces[i].length);
  char hash[ETT_HASH_SIZE];
  ett_hash_pieces(pieces, (size_t)count, hash);
  lua_pushstring(L, hash);
  return 1;
}

/* io.hash_file(path) -> 32 hexadecimal digits | nil, err */
static int io_hash_file(lua_State *L) {
  ett_err err = {ETT_OK, ""};
  char hash[ETT_HASH_SIZE];
  if (ett_hash_file(luaL_checkstring(L, 1), hash, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushstring(L, hash);
  return 1;
}

/* io.plain(text) -> text as a terminal may show it (ett_utf8_plain) */
static int io_plain(lua_State *L) {
  size_t left;
  const char *text = luaL_checklstring(L, 1, &left);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  while (left > 0) {
    size_t length = 0;
    const size_t read =
        ett_utf8_plain(text, left, luaL_prepbuffsize(&out, ETT_UTF8_PLAIN_SIZE), &length);
    luaL_addsize(&out, length);
    text += read;
    left -= read;
  }
  luaL_pushresult(&out);
  return 1;
}

#define TEMPORARY "ett.io.temporary"

/* io.temporary(under) -> temporary | nil, err: a folder that its `close`, or the end of
 * this process, removes (io/temporary.h) */
static int io_temporary(lua_State *L) {
  const char *under = luaL_checkstring(L, 1);
  ett_err err = {ETT_OK, ""};
  void **box = ett_lua_box_new(L, TEMPORARY);
  *box = ett_temporary_new(under, &err);
  return *box ? 1 : ett_lua_fail(L, &err);
}

/* temporary:path() -> text */
static int temporary_path(lua_State *L) {
  const ett_temporary *temporary = ett_lua_box_check(L, 1, TEMPORARY, "temporary folder");
  lua_pushstring(L, ett_temporary_path(temporary));
  return 1;
}

ETT_LUA_CLOSE(temporary_close, TEMPORARY, ett_temporary_free)

static const luaL_Reg methods[] = {{"path", temporary_path}, {NULL, NULL}};

static const luaL_Reg functions[] = {
    {"read", io_read},
    {"write", io_write},
    {"make_folder", io_make_folder},
    {"hash", io_hash},
    {"hash_file", io_hash_file},
    {"plain", io_plain},
    {"temporary", io_temporary},
    {NULL, NULL},
};

int luaopen_ett_io(lua_State *L);

int luaopen_ett_io(lua_State *L) {
  ett_lua_type(L, TEMPORARY, methods, temporary_close);
  luaL_newlib(L, functions);
  return 1;
}
