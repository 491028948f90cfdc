/* ett.line: line editing at a terminal. */
#include "host/line.h"

#include <string.h>

#include "bind/common.h"

#define LINE_TYPE "ett.line"

/* User value 1 is the completing function. */
typedef struct {
  ett_line *line; /* NULL once closed */
  lua_State *L;   /* while reading */
} line_box;

static line_box *check_open(lua_State *L) {
  line_box *box = luaL_checkudata(L, 1, LINE_TYPE);
  luaL_argcheck(L, box->line, 1, "the terminal is closed");
  return box;
}

/* line.open() -> terminal | nil, err */
static int line_open(lua_State *L) {
  line_box *box = lua_newuserdatauv(L, sizeof *box, 1);
  box->line = NULL;
  box->L = NULL;
  luaL_setmetatable(L, LINE_TYPE);
  ett_err err = {ETT_OK, ""};
  box->line = ett_line_new(&err);
  return box->line ? 1 : ett_lua_fail(L, &err);
}

/* Calls the completing function protected, because an error must not unwind the editor.
 */
static void complete(void *context, const char *text, char **insert, char **list) {
  line_box *box = context;
  lua_State *L = box->L;
  const int top = lua_gettop(L);
  if (!lua_checkstack(L, 8))
    return;
  if (lua_getiuservalue(L, 1, 1) == LUA_TFUNCTION) {
    lua_pushlightuserdata(L, (void *)text); /* converted to a string inside the call */
    if (lua_pcall(L, 1, 2, 0) == LUA_OK) {
      if (lua_type(L, -2) == LUA_TSTRING)
        *insert = strdup(lua_tostring(L, -2));
      if (lua_type(L, -1) == LUA_TSTRING)
        *list = strdup(lua_tostring(L, -1));
    }
  }
  lua_settop(L, top);
}

/* Calls the completion function with the text behind a light userdata. */
static int complete_text(lua_State *L) {
  const char *text = lua_touserdata(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushstring(L, text);
  lua_call(L, 1, 2);
  return 2;
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* A signal sets a hook, which raises at the next Lua call, such as this one. */
static bool stopped(void *context) {
  lua_State *L = ((line_box *)context)->L;
  lua_pushcfunction(L, nothing);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK)
    return false;
  lua_pop(L, 1);
  return true;
}

/* terminal:read(prompt [, complete]) -> text | nil, "end" | nil, "interrupted".
 * complete(text before the cursor) -> text to insert or nil, choices to show or nil */
static int line_read(lua_State *L) {
  line_box *box = check_open(L);
  const char *prompt = luaL_checkstring(L, 2);
  lua_settop(L, 3);
  if (lua_isfunction(L, 3)) {
    lua_pushvalue(L, 3);
    lua_pushcclosure(L, complete_text, 1);
  } else {
    lua_pushnil(L);
  }
  lua_setiuservalue(L, 1, 1);
  box->L = L;
  ett_line_set_complete(box->line, complete, box);
  ett_line_set_stopped(box->line, stopped, box);
  const char *text = NULL;
  const ett_line_event event = ett_line_read(box->line, prompt, &text);
  box->L = NULL;
  if (event == ETT_LINE_TEXT) {
    lua_pushstring(L, text);
    return 1;
  }
  if (event == ETT_LINE_INTERRUPTED)
    lua_sethook(L, NULL, 0, 0); /* Ctrl-C ended the line, not the program */
  lua_pushnil(L);
  lua_pushstring(L, event == ETT_LINE_END ? "end" : "interrupted");
  return 2;
}

/* terminal:remember(text) adds to the history */
static int line_remember(lua_State *L) {
  line_box *box = check_open(L);
  ett_line_remember(box->line, luaL_checkstring(L, 2));
  return 0;
}

/* terminal:load(path), terminal:save(path) -> true, or false on failure */
static int line_load(lua_State *L) {
  line_box *box = check_open(L);
  lua_pushboolean(L, ett_line_load(box->line, luaL_checkstring(L, 2)) == 0);
  return 1;
}

static int line_save(lua_State *L) {
  line_box *box = check_open(L);
  lua_pushboolean(L, ett_line_save(box->line, luaL_checkstring(L, 2)) == 0);
  return 1;
}

static int line_close(lua_State *L) {
  line_box *box = luaL_checkudata(L, 1, LINE_TYPE);
  ett_line *line = box->line;
  box->line = NULL;
  ett_line_free(line);
  return 0;
}

static const luaL_Reg functions[] = {{"open", line_open}, {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"read", line_read}, {"remember", line_remember},
    {"load", line_load}, {"save", line_save},
    {NULL, NULL},
};

int luaopen_ett_line(lua_State *L);

int luaopen_ett_line(lua_State *L) {
  ett_lua_type(L, LINE_TYPE, methods, line_close);
  luaL_newlib(L, functions);
  return 1;
}
