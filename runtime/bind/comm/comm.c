/* ett.comm; README.md lists its functions. Units: bytes, bytes per second. */
#include "comm/comm.h"

#include "bind/common.h"

/* curve_at({ bytes, bytes/s, ... }, bytes): bus bandwidth of a measured curve. */
static int comm_curve_at(lua_State *L) {
  size_t count;
  const double *values = ett_lua_doubles(L, 1, &count);
  double bytes = luaL_checknumber(L, 2);
  luaL_argcheck(L, count % 2 == 0 && count / 2 <= ETT_COMM_MAX_POINTS, 1,
                "must be at most 64 pairs of bytes and bandwidth");
  luaL_argcheck(L, bytes > 0, 2, "must be positive");
  ett_comm_curve curve = {.points = count / 2};
  for (size_t i = 0; i < curve.points; i++) {
    curve.bytes[i] = values[2 * i];
    curve.bandwidth[i] = values[2 * i + 1];
  }
  ett_err err;
  if (ett_comm_curve_check(&curve, &err) != 0)
    return ett_lua_raise(L, &err);
  lua_pushnumber(L, ett_comm_curve_at(&curve, bytes));
  return 1;
}

static int comm_factor(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  int kind = ett_comm_kind_of(name);
  luaL_argcheck(L, kind >= 0, 1, "unknown collective");
  lua_Integer ranks = luaL_checkinteger(L, 2);
  luaL_argcheck(L, ranks >= 1, 2, "at least one rank");
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

static const luaL_Reg functions[] = {
    {"kinds", comm_kinds},
    {"curve_at", comm_curve_at},
    {"factor", comm_factor},
    {NULL, NULL},
};

int luaopen_ett_comm(lua_State *L);

int luaopen_ett_comm(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
