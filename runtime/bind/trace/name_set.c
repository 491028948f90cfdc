/* Sets of names of a trace, for filters. */
#include "bind/trace/trace.h"

#include <string.h>

#include "trace/table/strings.h"
#include "trace/table/words.h"

static ett_lua_name_set *new_name_set(lua_State *L, int trace_index, const ett_trace *t) {
  trace_index = lua_absindex(L, trace_index);
  size_t size = sizeof(ett_lua_name_set) + t->strings->count + 1;
  ett_lua_name_set *s = lua_newuserdatauv(L, size, 1);
  memset(s, 0, size);
  s->count = t->strings->count;
  luaL_setmetatable(L, ETT_LUA_NAME_SET);
  lua_pushvalue(L, trace_index);
  lua_setiuservalue(L, -2, 1);
  return s;
}

/* Pushes the words at index as a filter and returns it; NULL for nil. */
static const ett_words *words_at(lua_State *L, int index) {
  if (lua_isnoneornil(L, index))
    return NULL;
  ett_words *words = (ett_words *)(void *)ett_lua_zeroes(L, sizeof *words);
  const char *text;
  size_t length;
  for (lua_Integer i = 1; (text = ett_lua_text_item(L, index, i, "words", &length));
       i++) {
    luaL_argcheck(L, length >= ETT_WORD_LEAST, index, "a word has 4 letters or more");
    ett_words_add(words, text);
  }
  return words;
}

int ett_lua_trace_name_set(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  lua_settop(L, 4);
  const ett_words *words = words_at(L, 4);
  uint32_t n = t->strings->count;
  uint8_t wanted[ETT_CLASS_COUNT], *seen = ett_lua_zeroes(L, n);
  memset(wanted, 1, sizeof wanted);
  if (!lua_isnil(L, 3)) {
    memset(wanted, 0, sizeof wanted);
    ett_lua_read_classes(L, 3, wanted);
  }
  ett_lua_check_memory(L, ett_trace_index_classes(t, wanted));
  for (int c = 0; c < ETT_CLASS_COUNT; c++)
    for (uint32_t i = 0; wanted[c] && i < ett_trace_class_count(t, c); i++)
      seen[ETT_ROW(t, name, t->class_rows[c][i])] = 1;
  ett_lua_name_set *s = new_name_set(L, 1, t);
  if (lua_type(L, 2) == LUA_TFUNCTION) {
    for (uint32_t i = 0; i < n; i++) {
      if (!seen[i] || (words && !ett_words_may_contain(words, t->strings->items[i].text,
                                                       t->strings->items[i].length)))
        continue;
      lua_pushvalue(L, 2);
      lua_pushlstring(L, t->strings->items[i].text, t->strings->items[i].length);
      lua_call(L, 1, 1);
      ett_lua_check_trace(L, 1); /* it may have been closed */
      s->allow[i] = (uint8_t)lua_toboolean(L, -1);
      s->held += s->allow[i];
      lua_pop(L, 1);
    }
    return 1;
  }
  const char *text;
  size_t length;
  for (lua_Integer i = 1; (text = ett_lua_text_item(L, 2, i, "names", &length)); i++) {
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

/* Upvalue 1: whether the second set is subtracted. */
static int set_combine(lua_State *L) {
  const bool without = lua_tointeger(L, lua_upvalueindex(1)) != 0;
  ett_lua_name_set *a = luaL_checkudata(L, 1, ETT_LUA_NAME_SET);
  ett_lua_name_set *b = luaL_checkudata(L, 2, ETT_LUA_NAME_SET);
  lua_getiuservalue(L, 2, 1);
  lua_getiuservalue(L, 1, 1);
  luaL_argcheck(L, lua_rawequal(L, -1, -2), 2, "a name set of the same trace expected");
  ett_lua_name_set *s = new_name_set(L, -1, ett_lua_check_trace(L, -1));
  for (uint32_t i = 0; i < a->count; i++) {
    s->allow[i] = without ? a->allow[i] && !b->allow[i] : a->allow[i] || b->allow[i];
    s->held += s->allow[i];
  }
  return 1;
}

static const luaL_Reg methods[] = {
    {"has", set_has},
    {"list", set_list},
    {"__len", set_len},
    {NULL, NULL},
};

static const ett_lua_variant variants[] = {
    {"__bor", set_combine, false},
    {"__sub", set_combine, true},
    {NULL, NULL, 0},
};

void ett_lua_name_set_type(lua_State *L) {
  ett_lua_type(L, ETT_LUA_NAME_SET, methods, NULL);
  ett_lua_variants(L, ETT_LUA_NAME_SET, variants);
}
