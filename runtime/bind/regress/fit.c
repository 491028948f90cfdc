/* ett.regress_fit: fits over XGBoost, loaded on demand. lua/ett/profile/regressor.lua
 * holds all defaults; every field but least_seconds is required.
 *
 *   fit.fit{request, …} fits all requests at the same time
 *     request: {design={family, dims, backward, multiprocessors}, rows=flat dims,
 * seconds, least_seconds?, base, trees, log, gate, gate_ratio, twins, loss, folds,
 * threads, difficulty_rounds, rounds, relative, delta, parameters={{name, value}}}
 *     -> {{bytes of a model (ett.regress.open), {[row] = reason}} or {nil, err}, …}
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
static double *doubles_field(lua_State *L, int at, const char *name, size_t *count) {
  ett_lua_raw_field(L, at, name);
  if (lua_isnil(L, -1)) {
    *count = 0;
    return NULL;
  }
  return ett_lua_field_doubles(L, name, count);
}

/* Strings remain owned by the parameter table, which the caller's table anchors. */
static void read_boost(lua_State *L, int at, ett_boost_config *boost) {
  static const char *const names[] = {"rounds", "relative", "delta", "parameters", NULL};
  ett_lua_demand(L, at, names);
  lua_Integer rounds = ett_lua_integer_field(L, at, "rounds", 0);
  luaL_argcheck(L, rounds >= 1 && rounds <= 100000, 1, "rounds must be 1 to 100000");
  boost->rounds = (int)rounds;
  boost->relative = ett_lua_boolean_field(L, at, "relative", 0);
  boost->delta = ett_lua_number_field(L, at, "delta", 0);
  luaL_argcheck(L, boost->delta > 0, 1, "delta must be positive");
  boost->parameters = 0;
  if (ett_lua_raw_field(L, at, "parameters") == LUA_TTABLE) {
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

static void read_config(lua_State *L, int at, ett_fit_config *config) {
  static const char *const losses[] = {"absolute", "huber", "squared"};
  static const char *const names[] = {
      "base",  "trees",   "log",        "gate", "twins",
      "folds", "threads", "gate_ratio", "loss", "difficulty_rounds",
      NULL};
  ett_lua_demand(L, at, names);
  memset(config, 0, sizeof *config);
  config->base = ett_lua_boolean_field(L, at, "base", 0);
  config->trees = ett_lua_boolean_field(L, at, "trees", 0);
  config->log_target = ett_lua_boolean_field(L, at, "log", 0);
  config->gate = ett_lua_boolean_field(L, at, "gate", 0);
  config->twins = ett_lua_boolean_field(L, at, "twins", 0);
  config->gate_ratio = ett_lua_number_field(L, at, "gate_ratio", 0);
  luaL_argcheck(L, config->gate_ratio > 1, 1, "gate_ratio must be above 1");
  config->folds = (int)ett_lua_integer_field(L, at, "folds", 0);
  config->difficulty_rounds = (int)ett_lua_integer_field(L, at, "difficulty_rounds", 0);
  luaL_argcheck(L, config->difficulty_rounds >= 1, 1,
                "difficulty_rounds must be positive");
  config->threads = (int)ett_lua_integer_field(L, at, "threads", 0);
  const char *loss = ett_lua_string_field(L, at, "loss", "");
  int which = 0;
  while (which < 3 && strcmp(losses[which], loss) != 0)
    which++;
  if (which == 3)
    luaL_error(L, "loss must be absolute, huber or squared, got '%s'", loss);
  config->loss = (ett_nnls_loss)which;
  read_boost(L, at, &config->boost);
}

static const char *const reasons[] = {"", "faster than the device can be",
                                      "far from other samples of its kernel",
                                      "far from the fit and from its neighbours"};

/* Reads the request at an index into a job. Its values stay on the stack. */
static void get_job(lua_State *L, int at, ett_fit_job *job) {
  size_t numbers, leasts;
  *job = (ett_fit_job){.status = -1};
  ett_lua_raw_field(L, at, "design");
  ett_lua_check_table(L, "design");
  ett_lua_design(L, lua_gettop(L), &job->design);
  lua_pop(L, 1);
  read_config(L, at, &job->config);
  job->dims = doubles_field(L, at, "rows", &numbers);
  job->seconds = doubles_field(L, at, "seconds", &job->rows);
  job->least_seconds = doubles_field(L, at, "least_seconds", &leasts);
  size_t rows = job->rows;
  if (!job->dims || !job->seconds || numbers != rows * (size_t)job->design.dims ||
      (job->least_seconds && leasts != rows))
    luaL_error(L, "%d times need %d dimensions, got %d", (int)rows,
               (int)rows * job->design.dims, (int)numbers);
  job->kinds = lua_newuserdatauv(L, rows + 1, 0);
  memset(job->kinds, 0, rows + 1);
  job->model = lua_newuserdatauv(L, sizeof *job->model, 0);
  memset(job->model, 0, sizeof *job->model);
  luaL_setmetatable(L, HOLD_TYPE);
}

/* Pushes the results of a job. */
static int push_job(lua_State *L, ett_fit_job *job) {
  if (job->status != 0)
    return ett_lua_fail(L, &job->err);
  lua_pushlstring(L, job->model->memory, job->model->length);
  ett_model_close(job->model);
  lua_newtable(L);
  for (size_t i = 0; i < job->rows; i++)
    if (job->kinds[i]) {
      lua_pushstring(L, reasons[job->kinds[i]]);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
  return 2;
}

static int fit_fit(lua_State *L) {
  ett_fit_job jobs[ETT_FIT_JOBS];
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  int count = (int)lua_rawlen(L, 1);
  luaL_argcheck(L, count >= 1 && count <= ETT_FIT_JOBS, 1, "must list 1 to 8 requests");
  luaL_checkstack(L, 10 * count + LUA_MINSTACK, NULL);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, 1, i + 1);
    get_job(L, lua_gettop(L), &jobs[i]);
  }
  ett_fit_jobs(jobs, count);
  lua_createtable(L, count, 0);
  int list = lua_gettop(L);
  for (int i = 0; i < count; i++) {
    lua_createtable(L, 2, 0);
    for (int k = push_job(L, &jobs[i]); k >= 1; k--)
      lua_rawseti(L, list + 1, k);
    lua_rawseti(L, list, i + 1);
  }
  return 1;
}

static int fit_configuration(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  ett_boost_config config;
  read_boost(L, 1, &config);
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
  ett_lua_type(L, HOLD_TYPE, NULL, hold_close);
  luaL_newlib(L, functions);
  char version[32];
  ett_boost_version(version);
  ett_lua_set_string(L, "version", version);
  return 1;
}
