/* ett.regress_fit: fits over XGBoost, loaded on demand. lua/ett/profile/regressor.lua
 * holds all defaults; every field but least_seconds is required.
 *
 *   fit.fit{design={family, dims, backward, multiprocessors}, rows=flat dims, seconds,
 *     least_seconds?, base, trees, log, gate, gate_ratio, twins, loss, folds, threads,
 *     difficulty_rounds, rounds, relative, delta, parameters={{name, value}}}
 *     -> bytes of a model (ett.regress.open), {[row] = reason} | nil, err
 *   fit.trees{rows, columns, target, probe, base_score, rounds, relative, delta,
 *     parameters} -> the library's answers, our own
 *   fit.version -> "1.7.4" */
#include "bind/common.h"
#include "bind/regress/design.h"

#include <stdlib.h>
#include <string.h>

#include "regress/fit/fit.h"

#define HOLD_TYPE "ett.regress_fit.hold"

/* Owns C memory across calls that may raise. */
typedef struct {
  ett_model model;
  ett_forest forest;
} hold;

static int hold_close(lua_State *L) {
  hold *h = luaL_checkudata(L, 1, HOLD_TYPE);
  ett_model_close(&h->model);
  ett_forest_free(&h->forest);
  return 0;
}

static hold *new_hold(lua_State *L) {
  hold *h = lua_newuserdatauv(L, sizeof *h, 0);
  memset(h, 0, sizeof *h);
  luaL_setmetatable(L, HOLD_TYPE);
  return h;
}

/* Doubles of a field, in a userdata left on the stack. */
static double *doubles_field(lua_State *L, const char *name, size_t *count) {
  lua_getfield(L, 1, name);
  if (lua_isnil(L, -1)) {
    *count = 0;
    return NULL;
  }
  if (!lua_istable(L, -1))
    luaL_error(L, "field '%s' must be a list of numbers, got %s", name,
               luaL_typename(L, -1));
  return ett_lua_doubles(L, -1, count);
}

/* Strings remain owned by the parameter table, which the caller's table anchors. */
static void read_boost(lua_State *L, ett_boost_config *boost) {
  static const char *const names[] = {"rounds", "relative", "delta", "parameters", NULL};
  ett_lua_demand(L, 1, names);
  lua_Integer rounds = ett_lua_integer_field(L, 1, "rounds", 0);
  luaL_argcheck(L, rounds >= 1 && rounds <= 100000, 1, "rounds must be 1 to 100000");
  boost->rounds = (int)rounds;
  boost->relative = ett_lua_boolean_field(L, 1, "relative", 0);
  boost->delta = ett_lua_number_field(L, 1, "delta", 0);
  luaL_argcheck(L, boost->delta > 0, 1, "delta must be positive");
  boost->parameters = 0;
  if (lua_getfield(L, 1, "parameters") == LUA_TTABLE) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    luaL_argcheck(L, n < ETT_BOOST_PARAMETERS - 1, 1, "too many parameters");
    for (lua_Integer i = 1; i <= n; i++) {
      if (lua_rawgeti(L, -1, i) != LUA_TTABLE || lua_rawgeti(L, -1, 1) != LUA_TSTRING ||
          lua_rawgeti(L, -2, 2) != LUA_TSTRING)
        luaL_error(L, "parameter %d must be {name, value}, both strings", (int)i);
      boost->parameter[boost->parameters++] =
          (ett_boost_parameter){lua_tostring(L, -2), lua_tostring(L, -1)};
      lua_pop(L, 3);
    }
  }
  lua_pop(L, 1);
}

static void read_config(lua_State *L, ett_fit_config *config) {
  static const char *const losses[] = {"absolute", "huber", "squared"};
  static const char *const names[] = {
      "base",  "trees",   "log",        "gate", "twins",
      "folds", "threads", "gate_ratio", "loss", "difficulty_rounds",
      NULL};
  ett_lua_demand(L, 1, names);
  memset(config, 0, sizeof *config);
  config->base = ett_lua_boolean_field(L, 1, "base", 0);
  config->trees = ett_lua_boolean_field(L, 1, "trees", 0);
  config->log_target = ett_lua_boolean_field(L, 1, "log", 0);
  config->gate = ett_lua_boolean_field(L, 1, "gate", 0);
  config->twins = ett_lua_boolean_field(L, 1, "twins", 0);
  config->gate_ratio = ett_lua_number_field(L, 1, "gate_ratio", 0);
  luaL_argcheck(L, config->gate_ratio > 1, 1, "gate_ratio must be above 1");
  config->folds = (int)ett_lua_integer_field(L, 1, "folds", 0);
  config->difficulty_rounds = (int)ett_lua_integer_field(L, 1, "difficulty_rounds", 0);
  luaL_argcheck(L, config->difficulty_rounds >= 1, 1,
                "difficulty_rounds must be positive");
  config->threads = (int)ett_lua_integer_field(L, 1, "threads", 0);
  const char *loss = ett_lua_string_field(L, 1, "loss", "");
  int which = 0;
  while (which < 3 && strcmp(losses[which], loss) != 0)
    which++;
  if (which == 3)
    luaL_error(L, "loss must be absolute, huber or squared, got '%s'", loss);
  config->loss = (ett_nnls_loss)which;
  read_boost(L, &config->boost);
}

static const char *const reasons[] = {"", "faster than the device can be",
                                      "far from its twins", "in another mode"};

static int fit_fit(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  ett_design design;
  ett_fit_config config;
  ett_err err;
  size_t numbers, rows, leasts;
  lua_getfield(L, 1, "design");
  ett_lua_design(L, 2, &design);
  lua_pop(L, 1);
  read_config(L, &config);
  double *dims = doubles_field(L, "rows", &numbers);
  double *seconds = doubles_field(L, "seconds", &rows);
  double *least = doubles_field(L, "least_seconds", &leasts);
  if (!dims || !seconds || numbers != rows * (size_t)design.dims ||
      (least && leasts != rows))
    return luaL_error(L, "%d times need %d dimensions, got %d", (int)rows,
                      (int)rows * design.dims, (int)numbers);
  unsigned char *kinds = lua_newuserdatauv(L, rows + 1, 0);
  memset(kinds, 0, rows + 1);
  hold *h = new_hold(L);
  if (ett_fit(&design, dims, seconds, least, rows, &config, kinds, &h->model, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushlstring(L, h->model.memory, h->model.length);
  ett_model_close(&h->model);
  lua_newtable(L);
  for (size_t i = 0; i < rows; i++)
    if (kinds[i]) {
      lua_pushstring(L, reasons[kinds[i]]);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
  return 2;
}

static float *floats(lua_State *L, const double *values, size_t count) {
  float *out = lua_newuserdatauv(L, (count + 1) * sizeof *out, 0);
  for (size_t i = 0; i < count; i++)
    out[i] = (float)values[i];
  return out;
}

static int fit_trees(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  ett_boost_config config;
  ett_err err;
  size_t numbers, rows, probes;
  lua_Integer columns = ett_lua_integer_field(L, 1, "columns", 1);
  double base_score = ett_lua_number_field(L, 1, "base_score", 0);
  read_boost(L, &config);
  double *features = doubles_field(L, "rows", &numbers);
  double *target = doubles_field(L, "target", &rows);
  double *probe = doubles_field(L, "probe", &probes);
  if (!features || !target || !probe || columns < 1 || columns > 10000 ||
      numbers != rows * (size_t)columns || probes % (size_t)columns != 0)
    return luaL_error(L, "rows, target and probe must hold whole rows of %d columns",
                      (int)columns);
  size_t asked = probes / (size_t)columns;
  float *x = floats(L, features, numbers), *y = floats(L, target, rows),
        *p = floats(L, probe, probes), *answers = floats(L, probe, asked);
  hold *h = new_hold(L);
  if (ett_boost_oracle(x, y, rows, (int)columns, base_score, &config, p, asked, answers,
                       &h->forest, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_createtable(L, (int)asked, 0);
  lua_createtable(L, (int)asked, 0);
  for (size_t i = 0; i < asked; i++) {
    lua_pushnumber(L, (double)answers[i]), lua_rawseti(L, -3, (lua_Integer)i + 1);
    lua_pushnumber(L, (double)ett_forest_predict(&h->forest, p + i * (size_t)columns));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  ett_forest_free(&h->forest);
  return 2;
}

static const luaL_Reg functions[] = {
    {"fit", fit_fit},
    {"trees", fit_trees},
    {NULL, NULL},
};

int luaopen_ett_regress_fit(lua_State *L);

int luaopen_ett_regress_fit(lua_State *L) {
  if (luaL_newmetatable(L, HOLD_TYPE)) {
    lua_pushcfunction(L, hold_close);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  char version[32];
  ett_boost_version(version);
  lua_pushstring(L, version);
  lua_setfield(L, -2, "version");
  return 1;
}
