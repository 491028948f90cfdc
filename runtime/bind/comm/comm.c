/* ett.comm; README.md lists its functions. Units: seconds, bytes, bytes per second. */
#include "comm/comm.h"

#include "bind/common.h"

static void read_curve(lua_State *L, int links, ett_comm_curve *curve) {
  curve->points = 0;
  if (lua_getfield(L, links, "curve") == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  size_t count;
  const double *values = ett_lua_doubles(L, -1, &count);
  if (count % 2 != 0 || count / 2 > ETT_COMM_MAX_POINTS)
    luaL_error(L, "field 'curve' must be at most %d pairs of bytes and bandwidth",
               ETT_COMM_MAX_POINTS);
  curve->points = count / 2;
  for (size_t i = 0; i < curve->points; i++) {
    curve->bytes[i] = values[2 * i];
    curve->bandwidth[i] = values[2 * i + 1];
  }
  lua_pop(L, 2);
}

static int comm_estimate(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const char *name = ett_lua_string_field(L, 1, "kind", NULL);
  int kind = name ? ett_comm_kind_of(name) : -1;
  if (kind < 0)
    return luaL_error(L, "unknown collective '%s'", name ? name : "nil");
  double bytes = ett_lua_number_field(L, 1, "bytes", -1);
  ett_comm_group group = {ett_lua_integer_field(L, 1, "nodes", 1),
                          ett_lua_integer_field(L, 1, "ranks_per_node", 1),
                          ett_lua_integer_field(L, 1, "groups_per_node", 1)};
  lua_getfield(L, 1, "links");
  luaL_checktype(L, -1, LUA_TTABLE);
  int at = lua_gettop(L);
  ett_comm_links links = {
      .intra_bandwidth = ett_lua_number_field(L, at, "intra_bandwidth", 0),
      .intra_latency = ett_lua_number_field(L, at, "intra_latency", 0),
      .intra_send = ett_lua_number_field(L, at, "intra_send", 0),
      .inter_per_gpu = ett_lua_number_field(L, at, "inter_per_gpu", 0),
      .inter_per_node = ett_lua_number_field(L, at, "inter_per_node", 0),
      .inter_send = ett_lua_number_field(L, at, "inter_send", 0),
      .inter_send_node = ett_lua_number_field(L, at, "inter_send_node", 0),
      .hierarchical = ett_lua_boolean_field(L, at, "hierarchical", 0),
      .inter_latency = ett_lua_number_field(L, at, "inter_latency", 0),
      .base_latency = ett_lua_number_field(L, at, "base_latency", 0),
  };
  read_curve(L, at, &links.intra);
  ett_comm_time time;
  ett_err err;
  if (ett_comm_estimate(&links, (ett_comm_kind)kind, bytes, &group, &time, &err) != 0)
    return ett_lua_raise(L, &err);
  lua_createtable(L, 0, 3);
  lua_pushnumber(L, time.seconds);
  lua_setfield(L, -2, "seconds");
  lua_pushnumber(L, time.bus_bandwidth);
  lua_setfield(L, -2, "bus_bandwidth");
  lua_pushstring(L, ett_comm_algorithm_name(time.algorithm));
  lua_setfield(L, -2, "algorithm");
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
    {"estimate", comm_estimate},
    {"factor", comm_factor},
    {NULL, NULL},
};

int luaopen_ett_comm(lua_State *L);

int luaopen_ett_comm(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
