/* ett.comm; README.md lists its functions. Units: bytes, bytes per second. */
#include "comm/comm.h"

#include "bind/common.h"

#include <math.h>
#include <string.h>

/* Reads the curve at an index of the stack, a list of bytes and bytes/s. */
static void get_curve(lua_State *L, int index, ett_comm_curve *curve) {
  size_t count;
  const double *values = ett_lua_doubles(L, index, &count);
  luaL_argcheck(L, count % 2 == 0 && count / 2 <= ETT_COMM_MAX_POINTS, 1,
                "must be at most 64 pairs of bytes and bandwidth");
  curve->points = count / 2;
  for (size_t i = 0; i < curve->points; i++) {
    curve->bytes[i] = values[2 * i];
    curve->bandwidth[i] = values[2 * i + 1];
  }
  ett_err err;
  if (ett_comm_curve_check(curve, &err) != 0)
    ett_lua_raise(L, &err);
  lua_pop(L, 1);
}

/* curve_at({ bytes, bytes/s, ... }, bytes): bus bandwidth of a measured curve. */
static int comm_curve_at(lua_State *L) {
  ett_comm_curve curve;
  double bytes = luaL_checknumber(L, 2);
  luaL_argcheck(L, bytes > 0, 2, "must be positive");
  get_curve(L, 1, &curve);
  lua_pushnumber(L, ett_comm_curve_at(&curve, bytes));
  return 1;
}

static int comm_factor(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  int kind = ett_comm_kind_of(name);
  luaL_argcheck(L, kind >= 0, 1, "must be a collective, such as all_reduce");
  lua_Integer ranks = luaL_checkinteger(L, 2);
  luaL_argcheck(L, ranks >= 1, 2, "must be at least one rank");
  lua_pushnumber(L, ett_comm_factor((ett_comm_kind)kind, ranks));
  return 1;
}

/* comm.kinds() -> names of the collectives, in the order of ett_comm_kind. */
static int comm_kinds(lua_State *L) {
  lua_createtable(L, ETT_COMM_KINDS, 0);
  for (int kind = 0; kind < ETT_COMM_KINDS; kind++) {
    lua_pushstring(L, ett_comm_kind_name((ett_comm_kind)kind));
    lua_rawseti(L, -2, kind + 1);
  }
  return 1;
}

/* Fields are counted and then read; a finaliser may run between the two. */
static void changed(lua_State *L) {
  luaL_error(L, "a line of the law changed while it was read");
}

/* Reads the stream on top of the stack, whose curve, if it has one, goes to *curve, below
 * `end`. */
static void get_stream(lua_State *L, ett_comm_stream *stream, ett_comm_curve **curve,
                       const ett_comm_curve *end) {
  stream->moved = ett_lua_number_field(L, -1, "moved", 1);
  stream->curve = NULL;
  if (ett_lua_raw_field(L, -1, "curve") != LUA_TNIL) {
    ett_lua_check_table(L, "curve");
    if (*curve == end)
      changed(L);
    get_curve(L, lua_gettop(L), *curve);
    stream->curve = (*curve)++;
  }
  lua_pop(L, 1);
  stream->bandwidth = ett_lua_number_field(L, -1, "bandwidth", stream->curve ? 1 : 0);
  if (!(isfinite(stream->moved) && stream->moved >= 0 && stream->bandwidth > 0))
    luaL_error(L,
               "a stream needs 'moved' of at least 0 and a positive 'bandwidth', "
               "got %f and %f",
               stream->moved, stream->bandwidth);
}

/* law({start=, {moved=, bandwidth=, curve=}, …}, …): the fastest of several lines. A
 * stream's bandwidth is in bytes/s, or a fraction of its curve. */
static int comm_law(lua_State *L) {
  int lines = lua_gettop(L);
  size_t streams = 0, curves = 0;
  luaL_argcheck(L, lines >= 1 && lines <= ETT_COMM_LINES, 1, "must be 1 to 8 lines");
  for (int i = 1; i <= lines; i++) {
    luaL_checktype(L, i, LUA_TTABLE);
    size_t count = lua_rawlen(L, i);
    luaL_argcheck(L, count <= ETT_COMM_STREAMS, i, "has too many streams");
    streams += count;
    for (size_t k = 0; k < count; k++, lua_pop(L, 2)) {
      lua_rawgeti(L, i, (lua_Integer)k + 1);
      if (!lua_istable(L, -1))
        return luaL_error(L, "line %d: stream %d must be a table, got %s", i, (int)k + 1,
                          luaL_typename(L, -1));
      curves += ett_lua_raw_field(L, -1, "curve") != LUA_TNIL;
    }
  }
  ett_comm_law *law = lua_newuserdatauv(L,
                                        sizeof *law + streams * sizeof(ett_comm_stream) +
                                            curves * sizeof(ett_comm_curve),
                                        0);
  luaL_setmetatable(L, ETT_LUA_LAW);
  ett_comm_stream *stream = (ett_comm_stream *)(law + 1);
  const ett_comm_stream *last = stream + streams;
  ett_comm_curve *curve = (ett_comm_curve *)(stream + streams);
  const ett_comm_curve *end = curve + curves;
  law->lines = lines;
  for (int i = 0; i < lines; i++) {
    ett_comm_line *line = &law->line[i];
    line->start = ett_lua_number_field(L, i + 1, "start", 0);
    if (!(isfinite(line->start) && line->start >= 0))
      luaL_error(L, "'start' must be at least 0 s, got %f", line->start);
    line->streams = (int)lua_rawlen(L, i + 1);
    line->stream = stream;
    for (int k = 0; k < line->streams; k++, lua_pop(L, 1)) {
      lua_rawgeti(L, i + 1, k + 1);
      if (stream == last || !lua_istable(L, -1))
        changed(L);
      get_stream(L, stream++, &curve, end);
    }
  }
  return 1;
}

/* law:time(bytes): seconds; index of the fastest line; seconds, moved and bytes/s of that
 * line's slowest stream. */
static int law_time(lua_State *L) {
  const ett_comm_law *law = luaL_checkudata(L, 1, ETT_LUA_LAW);
  double bytes = luaL_checknumber(L, 2);
  luaL_argcheck(L, bytes > 0, 2, "must be positive");
  ett_comm_law_time t = ett_comm_law_at(law, bytes);
  lua_pushnumber(L, t.seconds);
  lua_pushinteger(L, t.line + 1);
  lua_pushnumber(L, t.stream_seconds);
  lua_pushnumber(L, t.moved);
  lua_pushnumber(L, t.bandwidth);
  return 5;
}

static const luaL_Reg law_methods[] = {{"time", law_time}, {NULL, NULL}};

static const luaL_Reg functions[] = {
    {"law", comm_law},       {"kinds", comm_kinds}, {"curve_at", comm_curve_at},
    {"factor", comm_factor}, {NULL, NULL},
};

int luaopen_ett_comm(lua_State *L);

int luaopen_ett_comm(lua_State *L) {
  ett_lua_type(L, ETT_LUA_LAW, law_methods, NULL);
  luaL_newlib(L, functions);
  return 1;
}
