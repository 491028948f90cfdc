/* ett.regress_fit: fits over XGBoost, loaded on demand. lua/ett/profile/regressor.lua
 * holds all defaults; every field but least_seconds is required.
 *
 *   fit.fit{design={family, dims, backward, multiprocessors}, rows=flat dims, seconds,
 *     least_seconds?, base, trees, log, gate, gate_ratio, twins, loss, folds, threads,
 *     difficulty_rounds, rounds, relative, delta, parameters={{name, value}}}
 *     -> bytes of a model (ett.regress.open), {[row] = reason} | nil, err
 *   fit.configuration{rounds, relative, delta, parameters}
 *     -> XGBoost's configuration, JSON | nil, err
 *   fit.version -> "1.7.4" */
#include "bind/common.h"
#include "bind/regress/design.h"

#include <stdlib.h>
#include <string.h>

#include "regress/fit/fit.h"

#define HOLD_TYPE "ett.regress_fit.hold"

/* Holds a model across calls that can raise. */
static int hold_close(lua_State *L) {
  ett_model_close(luaL_checkudata(L, 1, HOLD_TYPE));
  return 0;
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
                                      "far from other samples of its kernel",
                                      "far from the fit and from its neighbours"};

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
  ett_model *model = lua_newuserdatauv(L, sizeof *model, 0);
  memset(model, 0, sizeof *model);
  luaL_setmetatable(L, HOLD_TYPE);
  if (ett_fit(&design, dims, seconds, least, rows, &config, kinds, model, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushlstring(L, model->memory, model->length);
  ett_model_close(model);
  lua_newtable(L);
  for (size_t i = 0; i < rows; i++)
    if (kinds[i]) {
      lua_pushstring(L, reasons[kinds[i]]);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
  return 2;
}

static int fit_configuration(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  ett_boost_config config;
  read_boost(L, &config);
  ett_err err;
  size_t length;
  char *text = ett_boost_configuration(&config, &length, &err);
  if (!text)
    return ett_lua_fail(L, &err);
  ett_lua_push_freed(L, text, length);
  return 1;
}

static const luaL_Reg functions[] = {
    {"fit", fit_fit},
    {"configuration", fit_configuration},
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
