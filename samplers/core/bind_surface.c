/* ett.sample: surfaces fitted through points, and designs over them. */
#include "samplers/core/bind.h"

#include <stdlib.h>
#include <string.h>

#include "samplers/core/design.h"
#include "samplers/core/surface.h"

#define SURFACE_TYPE "ett.sample.surface"
#define DESIGN_TYPE "ett.sample.design"

typedef struct {
  ett_sample_surface *surface;
  size_t count, width, scales;
} surface_box;

/* sample.surface(points, width, values, scales?, doubt?, rough?) -> surface | nil, error.
 * points: the features of all points in one list, point after point. scales: from
 * surface:scales(); skips the search. doubt: a factor of the noise's variance for each
 * point. rough: true adds the short-range kernel. */
static int surface_new(lua_State *L) {
  size_t n, all, given = 0, doubts = 0;
  lua_settop(L, 6);
  if (!lua_isnil(L, 6))
    luaL_checktype(L, 6, LUA_TBOOLEAN);
  const bool rough = lua_toboolean(L, 6);
  lua_Integer width = luaL_checkinteger(L, 2);
  ett_sample_points points = {.x = ett_lua_doubles(L, 1, &all),
                              .y = ett_lua_doubles(L, 3, &n)};
  luaL_argcheck(L, width >= 1 && all == n * (size_t)width, 1,
                "expected `width` features for each value");
  double *scales = lua_isnoneornil(L, 4) ? NULL : ett_lua_doubles(L, 4, &given);
  luaL_argcheck(L,
                !scales || given == ett_sample_surface_scale_count((size_t)width, rough),
                4, "wrong number of scales for this surface");
  points.doubt = lua_isnoneornil(L, 5) ? NULL : ett_lua_doubles(L, 5, &doubts);
  luaL_argcheck(L, !points.doubt || doubts == n, 5, "expected one factor for each point");
  points.count = n;
  points.width = (size_t)width;
  points.rough = rough;
  surface_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->surface = NULL;
  b->count = n;
  b->width = (size_t)width;
  b->scales = ett_sample_surface_scale_count((size_t)width, rough);
  luaL_setmetatable(L, SURFACE_TYPE);
  ett_err err = {0};
  b->surface = ett_sample_surface_fit(&points, scales, &err);
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
  luaL_argcheck(L, n == b->width, 2, "wrong number of features");
  lua_pushnumber(L, ett_sample_surface_predict(b->surface, x, &deviation));
  lua_pushnumber(L, deviation);
  return 2;
}

/* surface:scales() -> list of its scales, deviation of the noise */
static int surface_scales(lua_State *L) {
  surface_box *b = check_surface(L);
  double *scales = lua_newuserdatauv(L, b->scales * sizeof *scales, 0);
  const double deviation = ett_sample_surface_scales(b->surface, scales);
  ett_lua_push_doubles(L, scales, b->scales);
  lua_pushnumber(L, deviation);
  return 2;
}

/* surface:leave_one_out() -> list: each point as predicted from the others */
static int surface_leave_one_out(lua_State *L) {
  surface_box *b = check_surface(L);
  double *predicted = lua_newuserdatauv(L, b->count * sizeof *predicted, 0);
  for (size_t i = 0; i < b->count; i++)
    predicted[i] = ett_sample_surface_leave_one_out(b->surface, i);
  ett_lua_push_doubles(L, predicted, b->count);
  return 1;
}

/* surface:grid_deviation(points, noisier) -> list, as ett_sample_surface_grid_deviation
 */
static int surface_grid_deviation(lua_State *L) {
  surface_box *b = check_surface(L);
  const double noisier = luaL_checknumber(L, 3);
  luaL_argcheck(L, noisier > 0, 3, "a positive factor");
  size_t all;
  double *points = ett_lua_doubles(L, 2, &all);
  luaL_argcheck(L, all % b->width == 0, 2, "wrong number of features");
  const size_t count = all / b->width;
  double *deviation = lua_newuserdatauv(L, (count + 1) * sizeof *deviation, 0);
  ett_err err = {0};
  if (ett_sample_surface_grid_deviation(b->surface, points, count, noisier, deviation,
                                        &err) != 0)
    return ett_lua_fail(L, &err);
  ett_lua_push_doubles(L, deviation, count);
  return 1;
}

static int surface_close(lua_State *L) {
  surface_box *b = luaL_checkudata(L, 1, SURFACE_TYPE);
  ett_sample_surface_free(b->surface);
  b->surface = NULL;
  return 0;
}

static const luaL_Reg surface_methods[] = {
    {"predict", surface_predict},
    {"leave_one_out", surface_leave_one_out},
    {"grid_deviation", surface_grid_deviation},
    {"scales", surface_scales},
    {NULL, NULL},
};

typedef struct {
  ett_sample_design *design;
  size_t count, surfaces;
  unsigned char *open;
} design_box;

/* sample.design(weights) -> design | nil, error: one shape for each weight */
static int design_new(lua_State *L) {
  size_t count;
  double *weight = ett_lua_doubles(L, 1, &count);
  design_box *b = lua_newuserdatauv(L, sizeof *b, 1);
  *b = (design_box){.count = count};
  luaL_setmetatable(L, DESIGN_TYPE);
  b->open = lua_newuserdatauv(L, count + 1, 0);
  memset(b->open, 1, count);
  lua_setiuservalue(L, -2, 1);
  ett_err err = {0};
  b->design = ett_sample_design_new(count, weight, &err);
  return b->design ? 1 : ett_lua_fail(L, &err);
}

static design_box *check_design(lua_State *L) {
  design_box *b = luaL_checkudata(L, 1, DESIGN_TYPE);
  if (!b->design)
    luaL_error(L, "the design is closed");
  return b;
}

/* design:add(surface, points) -> true | nil, error: points of the design's shapes */
static int design_add(lua_State *L) {
  design_box *b = check_design(L);
  surface_box *s = luaL_checkudata(L, 2, SURFACE_TYPE);
  luaL_argcheck(L, s->surface, 2, "the surface is closed");
  size_t all;
  double *points = ett_lua_doubles(L, 3, &all);
  luaL_argcheck(L, all == b->count * s->width, 3,
                "wrong number of features for each shape");
  ett_err err = {0};
  const int status = ett_sample_design_add(b->design, s->surface, points, &err);
  b->surfaces += status == 0;
  return ett_lua_result(L, status, &err);
}

static size_t check_shape(lua_State *L, const design_box *b, int index) {
  const lua_Integer shape = luaL_checkinteger(L, index);
  luaL_argcheck(L, shape >= 1 && (size_t)shape <= b->count, index,
                "expected a shape of the design");
  return (size_t)shape - 1;
}

/* design:shut(shape): next() does not choose it */
static int design_shut(lua_State *L) {
  design_box *b = check_design(L);
  b->open[check_shape(L, b, 2)] = 0;
  return 0;
}

/* design:next() -> the shape to measure next, then treated as measured; nil: none left */
static int design_next(lua_State *L) {
  design_box *b = check_design(L);
  const size_t shape = ett_sample_design_best(b->design, b->open);
  if (shape == b->count)
    return 0;
  b->open[shape] = 0;
  ett_sample_design_take(b->design, shape);
  lua_pushinteger(L, (lua_Integer)shape + 1);
  return 1;
}

/* design:take(shape): treats it as measured */
static int design_take(lua_State *L) {
  design_box *b = check_design(L);
  const size_t shape = check_shape(L, b, 2);
  b->open[shape] = 0;
  ett_sample_design_take(b->design, shape);
  return 0;
}

/* design:deviations(surface) -> list: deviation of the noise-free value at each shape */
static int design_deviations(lua_State *L) {
  design_box *b = check_design(L);
  const lua_Integer surface = luaL_checkinteger(L, 2);
  luaL_argcheck(L, surface >= 1 && (size_t)surface <= b->surfaces, 2,
                "a surface's number");
  lua_createtable(L, (int)b->count, 0);
  for (size_t i = 0; i < b->count; i++) {
    lua_pushnumber(L, ett_sample_design_deviation(b->design, (size_t)surface - 1, i));
    lua_seti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int design_close(lua_State *L) {
  design_box *b = luaL_checkudata(L, 1, DESIGN_TYPE);
  ett_sample_design_free(b->design);
  b->design = NULL;
  return 0;
}

static const luaL_Reg design_methods[] = {
    {"add", design_add},
    {"shut", design_shut},
    {"next", design_next},
    {"take", design_take},
    {"deviations", design_deviations},
    {NULL, NULL},
};

void ett_bind_sample_surface(lua_State *L) {
  ett_lua_type(L, SURFACE_TYPE, surface_methods, surface_close);
  lua_pushcfunction(L, surface_new);
  lua_setfield(L, -2, "surface");
  ett_lua_type(L, DESIGN_TYPE, design_methods, design_close);
  lua_pushcfunction(L, design_new);
  lua_setfield(L, -2, "design");
}
