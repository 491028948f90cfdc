/* ett.pack: data inside HTML pages; README.md lists its functions. */
#include "bind/common.h"

#include <stdint.h>
#include <stdlib.h>

#include "pack/deflate.h"
#include "pack/lane.h"

#define LANE_TYPE "ett.pack.lane"

typedef struct lane_box {
  ett_lane lane;
  char *text;
} lane_box;

static int lane_gc(lua_State *L) {
  lane_box *box = luaL_checkudata(L, 1, LANE_TYPE);
  ett_lane_free(&box->lane);
  free(box->text);
  box->text = NULL;
  return 0;
}

static lane_box *new_box(lua_State *L) {
  lane_box *box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = (lane_box){{0}, NULL};
  luaL_setmetatable(L, LANE_TYPE);
  return box;
}

/* deflate(text): the text, deflated and encoded in base64. */
static int deflate(lua_State *L) {
  size_t size, length;
  const char *text = luaL_checklstring(L, 1, &size);
  ett_err err = {ETT_OK, ""};
  lane_box *box = new_box(L);
  box->text = ett_pack_deflate(text, size, &length, &err);
  if (!box->text)
    return ett_lua_raise(L, &err);
  lua_pushlstring(L, box->text, length);
  return 1;
}

/* The integers of the list in field `name` of argument 1, in a userdata left on the
 * stack. */
static int64_t *integers(lua_State *L, const char *name, size_t *count) {
  if (ett_lua_raw_field(L, 1, name) != LUA_TTABLE)
    luaL_error(L, "field '%s' must be a list of integers", name);
  *count = lua_rawlen(L, -1);
  int64_t *values = lua_newuserdatauv(L, (*count ? *count : 1) * sizeof *values, 0);
  for (size_t i = 0; i < *count; i++) {
    int whole;
    lua_rawgeti(L, -2, (lua_Integer)i + 1);
    values[i] = lua_tointegerx(L, -1, &whole);
    if (!whole)
      luaL_error(L, "field '%s[%I]' must be an integer", name, (LUAI_UACINT)i + 1);
    lua_pop(L, 1);
  }
  lua_remove(L, -2);
  return values;
}

static int64_t *as_many(lua_State *L, const char *name, size_t wanted) {
  size_t count;
  int64_t *values = integers(L, name, &count);
  if (count != wanted)
    luaL_error(L, "field '%s' must hold %I integers, got %I", name, (LUAI_UACINT)wanted,
               (LUAI_UACINT)count);
  return values;
}

static void push_lane(lua_State *L, const ett_lane *lane) {
  lua_createtable(L, 0, 3);
  ett_lua_set_integer(L, "rows", lane->rows);
  lua_pushlstring(L, lane->overview, lane->overview_length);
  lua_setfield(L, -2, "overview");
  lua_createtable(L, (int)lane->chunk_count, 0);
  for (size_t i = 0; i < lane->chunk_count; i++) {
    const ett_lane_chunk *c = &lane->chunks[i];
    lua_createtable(L, 0, 4);
    ett_lua_set_integer(L, "from", c->from);
    ett_lua_set_integer(L, "to", c->to);
    ett_lua_set_integer(L, "count", (lua_Integer)c->count);
    lua_pushlstring(L, c->text, c->length);
    lua_setfield(L, -2, "text");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "chunks");
}

/* lane{ start=, duration=, label= (from 1), kind= of each label (from 0), wait=?, from=,
 * to=, bins=, chunk_events= }: { rows, overview, chunks = { {from, to, count, text} } }.
 */
static int lane(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  ett_lane_events e = {0};
  e.start = integers(L, "start", &e.count);
  e.duration = as_many(L, "duration", e.count);
  const int64_t *given = as_many(L, "label", e.count);
  const int64_t *kinds = integers(L, "kind", &e.labels);
  uint32_t *label = lua_newuserdatauv(L, (e.count + 1) * sizeof *label, 0);
  uint8_t *kind = lua_newuserdatauv(L, e.labels + 1, 0);
  for (size_t i = 0; i < e.count; i++)
    label[i] =
        given[i] < 1 || given[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)given[i] - 1;
  for (size_t i = 0; i < e.labels; i++)
    kind[i] = kinds[i] < 0 || kinds[i] > UINT8_MAX ? UINT8_MAX : (uint8_t)kinds[i];
  e.label = label;
  e.kind = kind;
  if (ett_lua_raw_field(L, 1, "wait") != LUA_TNIL)
    e.wait = as_many(L, "wait", e.count);
  int64_t from = ett_lua_integer_field(L, 1, "from", 0);
  int64_t to = ett_lua_integer_field(L, 1, "to", 0);
  uint32_t bins = (uint32_t)ett_lua_range_field(L, 1, "bins", -1, 1, 1 << 20);
  size_t chunk = (size_t)ett_lua_range_field(L, 1, "chunk_events", -1, 0, 1 << 24);
  ett_err err = {ETT_OK, ""};
  lane_box *box = new_box(L);
  if (ett_lane_pack(&box->lane, &e, from, to, bins, chunk, &err))
    return ett_lua_raise(L, &err);
  push_lane(L, &box->lane);
  ett_lane_free(&box->lane);
  return 1;
}

static const luaL_Reg functions[] = {
    {"deflate", deflate},
    {"lane", lane},
    {NULL, NULL},
};

int luaopen_ett_pack(lua_State *L);

int luaopen_ett_pack(lua_State *L) {
  ett_lua_type(L, LANE_TYPE, NULL, lane_gc);
  luaL_newlib(L, functions);
  return 1;
}
