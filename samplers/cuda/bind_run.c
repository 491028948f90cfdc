/* A finished work list: made ready, timed, run, profiled; its tensors read and written.
 */
#include "samplers/cuda/bind.h"
#include "samplers/cuda/profile.h"

/* work:ready{graph=true, time_limit_seconds=60} */
static int work_ready(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_newtable(L);
    lua_replace(L, 2);
  }
  int graph = ett_lua_boolean_field(L, 2, "graph", 1);
  double limit = ett_lua_number_field(L, 2, "time_limit_seconds", 60);
  ett_err err = {ETT_OK, ""};
  return ett_bind_cuda_done(L, ett_cuda_work_ready(work, graph, limit, &err), &err);
}

/* work:time{repeats=10, flush=true, time_limit_seconds=60} -> {seconds, …} */
static int work_time(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer repeats = ett_lua_integer_field(L, 2, "repeats", 10);
  int flush = ett_lua_boolean_field(L, 2, "flush", 1);
  double limit = ett_lua_number_field(L, 2, "time_limit_seconds", 60);
  luaL_argcheck(L, repeats > 0 && repeats <= 100000, 2, "'repeats' must be 1 to 100000");
  double *seconds = lua_newuserdatauv(L, (size_t)repeats * sizeof *seconds, 0);
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_work_time(work, (int)repeats, flush, limit, seconds, &err) != 0)
    return ett_lua_fail(L, &err);
  ett_lua_push_doubles(L, seconds, (size_t)repeats);
  return 1;
}

/* work:read(tensor [, count]) -> {values} */
static int work_read(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  int index = (int)luaL_checkinteger(L, 2);
  long long count = luaL_optinteger(L, 3, ett_cuda_work_count(work, index));
  luaL_argcheck(L, count > 0 && count <= ett_cuda_work_count(work, index), 3,
                "no such tensor, or not that many elements");
  double *values = lua_newuserdatauv(L, (size_t)count * sizeof *values, 0);
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_work_read(work, index, values, count, &err) != 0)
    return ett_lua_fail(L, &err);
  ett_lua_push_doubles(L, values, (size_t)count);
  return 1;
}

/* work:write(tensor, values): sets the first elements, for checks */
static int work_write(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  int index = (int)luaL_checkinteger(L, 2);
  size_t count;
  double *values = ett_lua_doubles(L, 3, &count);
  ett_err err = {ETT_OK, ""};
  return ett_bind_cuda_done(
      L, ett_cuda_work_write(work, index, values, (long long)count, &err), &err);
}

/* work:fill(tensor, {fill="normal", deviation=0.5, high=, seed=0}): now, not as a launch
 * of the list */
static int work_fill(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  int tensor = (int)luaL_checkinteger(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  const char *name = ett_lua_string_field(L, 3, "fill", "normal");
  ett_cuda_fill fill =
      (ett_cuda_fill)ett_bind_cuda_name(L, name, ett_bind_cuda_fills, "fill");
  long long high = ett_lua_integer_field(L, 3, "high", 0);
  double deviation = ett_lua_number_field(L, 3, "deviation", 0.5);
  uint64_t seed = (uint64_t)ett_lua_integer_field(L, 3, "seed", 0);
  ett_err err = {ETT_OK, ""};
  return ett_bind_cuda_done(
      L, ett_cuda_work_fill(work, tensor, fill, high, deviation, seed, &err), &err);
}

/* work:run([time_limit_seconds=60]) -> wall seconds of one run | nil, error object */
static int work_run(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  double limit = luaL_optnumber(L, 2, 60), seconds;
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_work_run(work, limit, &seconds, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushnumber(L, seconds);
  return 1;
}

/* work:launches() -> launches recorded so far */
static int work_launches(lua_State *L) {
  lua_pushinteger(L, ett_cuda_work_launches(ett_bind_cuda_work(L, 1)));
  return 1;
}

/* work:time_parts({ends, …} [, time_limit_seconds=60]) -> {seconds, …}: one run, launch
 * by launch; part i is up to launch ends[i] | nil, error object */
static int work_time_parts(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  double limit = luaL_optnumber(L, 3, 60);
  lua_Integer parts = luaL_len(L, 2);
  luaL_argcheck(L, parts >= 1 && parts <= 1 << 20, 2, "1 to 2^20 parts");
  int *ends = lua_newuserdatauv(L, (size_t)parts * sizeof *ends, 0);
  for (lua_Integer i = 0; i < parts; i++) {
    lua_geti(L, 2, i + 1);
    ends[i] = (int)luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  double *seconds = lua_newuserdatauv(L, (size_t)parts * sizeof *seconds, 0);
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_work_time_parts(work, ends, (int)parts, limit, seconds, &err) != 0)
    return ett_lua_fail(L, &err);
  ett_lua_push_doubles(L, seconds, (size_t)parts);
  return 1;
}

/* work:profile([time_limit_seconds=60]) -> { {name=, seconds=}, … } by CUPTI */
static int work_profile(lua_State *L) {
  enum { ROOM = 256 };
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  double limit = luaL_optnumber(L, 2, 60);
  ett_cuda_kernel_time *times = lua_newuserdatauv(L, ROOM * sizeof *times, 0);
  ett_err err = {ETT_OK, ""};
  int count = ett_cuda_profile(work, limit, times, ROOM, &err);
  if (count < 0)
    return ett_lua_fail(L, &err);
  lua_newtable(L);
  for (int i = 0; i < count && i < ROOM; i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, times[i].name);
    lua_setfield(L, -2, "name");
    lua_pushnumber(L, times[i].seconds);
    lua_setfield(L, -2, "seconds");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

const luaL_Reg ett_bind_cuda_running[] = {
    {"fill", work_fill}, {"ready", work_ready},       {"time", work_time},
    {"run", work_run},   {"launches", work_launches}, {"time_parts", work_time_parts},
    {"read", work_read}, {"profile", work_profile},   {"write", work_write},
    {NULL, NULL},
};
