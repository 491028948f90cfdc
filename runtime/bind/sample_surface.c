/* ett.sample: surfaces fitted through points. */
#include "bind/sample.h"

#include <stdlib.h>
#include <string.h>

#include "sample/surface.h"

#define SURFACE_TYPE "ett.sample.surface"

typedef struct {
  ett_sample_surface *surface;
  size_t count, width;
} surface_box;

/* sample.surface(points, width, values, scales?, doubt?) -> surface | nil, error; points:
 * the features of all points in one list, point after point; scales: of surface:scales(),
 * where the search for them is to be spared; doubt: a factor of the noise's variance for
 * each point. */
static int surface_new(lua_State *L) {
  size_t n, all, given = 0, doubts = 0;
  lua_settop(L, 5);
  lua_Integer width = luaL_checkinteger(L, 2);
  ett_sample_points points = {.x = ett_lua_doubles(L, 1, &all),
                              .y = ett_lua_doubles(L, 3, &n)};
  luaL_argcheck(L, width >= 1 && all == n * (size_t)width, 1, "width features a value");
  double *scales = lua_isnoneornil(L, 4) ? NULL : ett_lua_doubles(L, 4, &given);
  luaL_argcheck(L, !scales || given == (size_t)width + 1, 4, "width lengths and a noise");
  points.doubt = lua_isnoneornil(L, 5) ? NULL : ett_lua_doubles(L, 5, &doubts);
  luaL_argcheck(L, !points.doubt || doubts == n, 5, "a factor for every point");
  points.count = n;
  points.width = (size_t)width;
  surface_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->surface = NULL;
  b->count = n;
  b->width = (size_t)width;
  luaL_setmetatable(L, SURFACE_TYPE);
  ett_err err = {0};
  b->surface = scales ? ett_sample_surface_restore(&points, scales, &err)
                      : ett_sample_surface_fit(&points, &err);
  return b->surface ? 1 : ett_lua_fail(L, &err);
}

static surface_box *check_surface(lua_State *L) {
  surface_box *b = luaL_checkudata(L, 1, SURFACE_TYPE);
  if (!b->surface)
    luaL_error(L, "the surface is closed");
  return b;
}

/* surface:predict{ features } -> mean, deviation */
static int surface_predict(lua_State *L) {
  surface_box *b = check_surface(L);
  size_t n;
  double *x = ett_lua_doubles(L, 2, &n), deviation;
  luaL_argcheck(L, n == b->width, 2, "a point of as many features");
  lua_pushnumber(L, ett_sample_surface_predict(b->surface, x, &deviation));
  lua_pushnumber(L, deviation);
  return 2;
}

/* surface:scales() -> list of its lengths and its noise, deviation of the noise */
static int surface_scales(lua_State *L) {
  surface_box *b = check_surface(L);
  double *scales = lua_newuserdatauv(L, (b->width + 1) * sizeof *scales, 0);
  const double deviation = ett_sample_surface_scales(b->surface, scales);
  lua_createtable(L, (int)b->width + 1, 0);
  for (size_t i = 0; i <= b->width; i++) {
    lua_pushnumber(L, scales[i]);
    lua_seti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushnumber(L, deviation);
  return 2;
}

/* surface:leave_one_out() -> list: each point's prediction by the others */
static int surface_leave_one_out(lua_State *L) {
  surface_box *b = check_surface(L);
  lua_createtable(L, (int)b->count, 0);
  for (size_t i = 0; i < b->count; i++) {
    lua_pushnumber(L, ett_sample_surface_leave_one_out(b->surface, i));
    lua_seti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* surface:gain(points): how much measuring at each would lower the summed variance */
static int surface_gain(lua_State *L) {
  surface_box *b = check_surface(L);
  size_t all;
  double *points = ett_lua_doubles(L, 2, &all);
  luaL_argcheck(L, all % b->width == 0, 2, "points of as many features");
  const size_t count = all / b->width;
  double *gain = lua_newuserdatauv(L, (count + 1) * sizeof *gain, 0);
  ett_err err = {0};
  if (ett_sample_surface_gain(b->surface, points, count, gain, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    lua_pushnumber(L, gain[i]);
    lua_seti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int surface_close(lua_State *L) {
  surface_box *b = luaL_checkudata(L, 1, SURFACE_TYPE);
  ett_sample_surface_free(b->surface);
  b->surface = NULL;
  return 0;
}

static const luaL_Reg surface_methods[] = {
    {"gain", surface_gain},
    {"predict", surface_predict},
    {"leave_one_out", surface_leave_one_out},
    {"scales", surface_scales},
    {"close", surface_close},
    {"__gc", surface_close},
    {"__close", surface_close},
    {NULL, NULL},
};

void ett_bind_sample_surface(lua_State *L) {
  ett_bind_sample_type(L, SURFACE_TYPE, surface_methods);
  lua_pushcfunction(L, surface_new);
  lua_setfield(L, -2, "surface");
}
