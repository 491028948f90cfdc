/* ett.cpu: the CPU back end's kernels and their timing. */
#include "bind/common.h"

#include <cblas.h>
#include <string.h>

#include "samplers/core/memory.h"
#include "samplers/core/tensor.h"
#include "samplers/cpu/cpu.h"
#include "samplers/cpu/measure.h"

#define POOL_TYPE "ett.cpu.pool"

enum { MOST_RAW = 4096, MOST_REPEATS = 4000 };

static const ett_cpu_kind *check_kind(lua_State *L, const char *name) {
  const ett_cpu_kind *kind = ett_cpu_find(name);
  if (kind)
    return kind;
  luaL_Buffer known;
  luaL_buffinit(L, &known);
  for (size_t i = 0; (kind = ett_cpu_kind_at(i)); i++) {
    luaL_addstring(&known, i ? ", " : "");
    luaL_addstring(&known, kind->name);
  }
  luaL_pushresult(&known);
  luaL_error(L, "the CPU back end has no kernel '%s'; it has %s", name,
             lua_tostring(L, -1));
  return NULL;
}

static ett_cpu_pass check_pass(lua_State *L, const char *pass) {
  if (strcmp(pass, "forward") == 0 || strcmp(pass, "update") == 0)
    return ETT_CPU_FORWARD;
  if (strcmp(pass, "backward") != 0)
    luaL_error(L, "pass must be 'forward', 'backward' or 'update', got '%s'", pass);
  return ETT_CPU_BACKWARD;
}

/* Reads the kind's dimensions from the table at index, by name. */
static void check_dims(lua_State *L, int index, const ett_cpu_kind *kind, int64_t *d) {
  for (int i = 0; kind->dims[i]; i++) {
    if (ett_lua_raw_field(L, index, kind->dims[i]) == LUA_TNIL)
      luaL_error(L, "%s: missing dimension '%s'", kind->name, kind->dims[i]);
    int is_integer;
    d[i] = lua_tointegerx(L, -1, &is_integer);
    if (!is_integer)
      luaL_error(L, "%s: dimension '%s' must be an integer", kind->name, kind->dims[i]);
    lua_pop(L, 1);
  }
}

/* Raises if a field of the call at index is not a dimension of its kind. */
static void check_names(lua_State *L, int index, const ett_cpu_kind *kind) {
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    int known = strcmp(name, "kind") == 0 || strcmp(name, "pass") == 0;
    for (int i = 0; kind->dims[i]; i++)
      known |= strcmp(name, kind->dims[i]) == 0;
    if (!known)
      luaL_error(L, "%s: it has no dimension '%s' (samplers/cpu/README.md)", kind->name,
                 name);
  }
}

/* cpu.pool(cold_bytes, seed) -> pool | nil, error */
static int pool_new(lua_State *L) {
  lua_Integer cold = luaL_checkinteger(L, 1), seed = luaL_checkinteger(L, 2);
  luaL_argcheck(L, cold >= 0 && cold <= ETT_SAMPLE_MOST_COLD_BYTES, 1, "0 to 64 GiB");
  void **box = ett_lua_box_new(L, POOL_TYPE);
  ett_err err = {0};
  *box = ett_cpu_pool_new((size_t)cold, (uint64_t)seed, &err);
  return *box ? 1 : ett_lua_fail(L, &err);
}

ETT_LUA_CLOSE(pool_close, POOL_TYPE, ett_cpu_pool_free)

/* pool:probe() -> seconds to read one piece of cold memory */
static int pool_probe(lua_State *L) {
  lua_pushnumber(L, ett_cpu_memory_probe(ett_lua_box_check(L, 1, POOL_TYPE, "pool")));
  return 1;
}

static void push_result(lua_State *L, const ett_cpu_result *r) {
  lua_createtable(L, 0, 11);
  ett_lua_set_number(L, "seconds", r->stats.low);
  ett_lua_set_number(L, "min_seconds", r->stats.min);
  ett_lua_set_number(L, "median_seconds", r->stats.median);
  ett_lua_set_number(L, "half_width_seconds", r->stats.low_half_width);
  ett_lua_set_number(L, "clock_ratio", r->clock_ratio);
  ett_lua_set_integer(L, "repeats", r->repeats);
  ett_lua_set_integer(L, "dropped", r->dropped);
  ett_lua_set_boolean(L, "preempted", (r->disturbed & ETT_CPU_PREEMPTED) != 0);
  ett_lua_set_boolean(L, "slow_clock", (r->disturbed & ETT_CPU_SLOW_CLOCK) != 0);
}

/* pool:measure({ {kind=, pass=, <dimensions>}, … }, options) -> result | nil, error */
static int pool_measure(lua_State *L) {
  ett_cpu_pool *pool = ett_lua_box_check(L, 1, POOL_TYPE, "pool");
  luaL_checktype(L, 2, LUA_TTABLE);
  if (lua_isnoneornil(L, 3)) {
    lua_settop(L, 2);
    lua_newtable(L);
  }
  ett_cpu_call calls[ETT_CPU_MAX_CALLS];
  lua_Integer count = (lua_Integer)lua_rawlen(L, 2);
  if (count < 1 || count > ETT_CPU_MAX_CALLS)
    return luaL_error(L, "a pass needs 1 to %d calls of compiled kinds, got %I",
                      ETT_CPU_MAX_CALLS, (LUAI_UACINT)count);
  for (lua_Integer i = 0; i < count; i++) {
    lua_rawgeti(L, 2, i + 1);
    if (!lua_istable(L, -1))
      luaL_error(L, "call %d must be a table, got %s", (int)i + 1, luaL_typename(L, -1));
    int call = lua_gettop(L);
    calls[i].kind = check_kind(L, ett_lua_string_field(L, call, "kind", ""));
    calls[i].pass = check_pass(L, ett_lua_string_field(L, call, "pass", "forward"));
    check_dims(L, call, calls[i].kind, calls[i].d);
    check_names(L, call, calls[i].kind);
    lua_pop(L, 1);
  }
  const ett_cpu_options *d = &ett_cpu_default_options;
  const ett_cpu_options options = {
      .budget_seconds = ett_lua_number_field(L, 3, "budget_seconds", d->budget_seconds),
      .target = ett_lua_number_field(L, 3, "target", d->target),
      .min_repeats =
          (int)ett_lua_range_field(L, 3, "min_repeats", d->min_repeats, 0, MOST_REPEATS),
      .max_repeats =
          (int)ett_lua_range_field(L, 3, "max_repeats", d->max_repeats, 1, MOST_REPEATS),
      .threads = (int)ett_lua_range_field(L, 3, "threads", d->threads, 1,
                                          ETT_SAMPLE_MOST_THREADS),
      .known_seconds = ett_lua_number_field(L, 3, "known_seconds", d->known_seconds),
      .limit_bytes = ett_lua_number_field(L, 3, "limit_bytes", d->limit_bytes),
      .limit_seconds = ett_lua_number_field(L, 3, "limit_seconds", d->limit_seconds),
  };
  double *raw = lua_newuserdatauv(L, MOST_RAW * sizeof *raw, 0);
  ett_cpu_result result;
  ett_err err = {0};
  if (ett_cpu_measure(pool, calls, (size_t)count, &options, raw, MOST_RAW, &result,
                      &err) != 0)
    return ett_lua_fail(L, &err);
  push_result(L, &result);
  if (ett_lua_boolean_field(L, 3, "keep_raw", 0)) {
    ett_lua_set_doubles(L, "raw_seconds", raw, result.stats.count);
  }
  return 1;
}

/* Reads arguments (kind, pass, dims): their operands and number. */
static int check_operands(lua_State *L, const ett_cpu_kind **kind, ett_cpu_pass *pass,
                          int64_t *d, ett_cpu_operand *operand) {
  ett_err err = {0};
  *kind = check_kind(L, luaL_checkstring(L, 1));
  *pass = check_pass(L, luaL_checkstring(L, 2));
  luaL_checktype(L, 3, LUA_TTABLE);
  check_dims(L, 3, *kind, d);
  int n = ett_cpu_operands(*kind, d, *pass, operand, &err);
  if (n < 0)
    ett_lua_raise(L, &err);
  return n;
}

/* Raises if a kernel would overwrite its checked indices: they share memory with an
 * operand that it writes. */
static void check_apart(lua_State *L, const ett_cpu_kind *kind, int n,
                        const ett_cpu_operand *operand, void *const *data) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n && operand[i].role == ETT_CPU_INDEX; j++) {
      const ett_cpu_role role = operand[j].role;
      const float *index = data[i], *other = data[j];
      if (role != ETT_CPU_INPUT && role != ETT_CPU_INDEX && role != ETT_CPU_POSITIVE &&
          index < other + operand[j].count && other < index + operand[i].count)
        luaL_error(L, "%s: operands '%s' and '%s' share memory", kind->name,
                   operand[i].name, operand[j].name);
    }
}

/* cpu.run(kind, pass, dims, { tensor, … }, { scalar, … }): operands in the order and with
 * at least the sizes of cpu.operands. */
static int run(lua_State *L) {
  const ett_cpu_kind *kind;
  ett_cpu_pass pass;
  int64_t d[ETT_CPU_MAX_DIMS] = {0};
  ett_cpu_operand operand[ETT_CPU_MAX_OPERANDS];
  void *data[ETT_CPU_MAX_OPERANDS];
  ett_err err = {0};
  luaL_checktype(L, 4, LUA_TTABLE);
  int n = check_operands(L, &kind, &pass, d, operand);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 4, i + 1);
    ett_tensor *t = luaL_testudata(L, -1, ETT_TENSOR_TYPE);
    if (!t || !t->data || t->count < (size_t)operand[i].count)
      return luaL_error(L, "%s: operand '%s' must be a tensor of %I elements, got %s",
                        kind->name, operand[i].name, (LUAI_UACINT)operand[i].count,
                        t ? "a shorter one" : luaL_typename(L, -1));
    if (ett_cpu_check_index(kind, &operand[i], t->data, &err) != 0)
      return ett_lua_raise(L, &err);
    data[i] = t->data;
    lua_pop(L, 1);
  }
  check_apart(L, kind, n, operand, data);
  double scalars[8], *scalar = NULL;
  if (lua_istable(L, 5)) {
    memset(scalars, 0, sizeof scalars);
    lua_Integer m = (lua_Integer)lua_rawlen(L, 5);
    luaL_argcheck(L, m <= 8, 5, "at most 8 scalars");
    for (lua_Integer i = 0; i < m; i++) {
      lua_rawgeti(L, 5, i + 1);
      scalars[i] = ett_lua_number_item(L, "scalars", i + 1);
      lua_pop(L, 1);
    }
    scalar = scalars;
  }
  kind->run(d, pass, data, scalar);
  return 0;
}

/* cpu.operands(kind, pass, dims) -> { {name=, role=, count=, limit=}, … } */
static int operands(lua_State *L) {
  const ett_cpu_kind *kind;
  ett_cpu_pass pass;
  int64_t d[ETT_CPU_MAX_DIMS] = {0};
  ett_cpu_operand operand[ETT_CPU_MAX_OPERANDS];
  int n = check_operands(L, &kind, &pass, d, operand);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    char role[2] = {(char)operand[i].role, '\0'};
    lua_createtable(L, 0, 4);
    ett_lua_set_string(L, "name", operand[i].name);
    ett_lua_set_string(L, "role", role);
    ett_lua_set_integer(L, "count", operand[i].count);
    ett_lua_set_integer(L, "limit", operand[i].limit);
    lua_seti(L, -2, i + 1);
  }
  return 1;
}

/* cpu.kinds() -> { {name=, dims={…}}, … } */
static int kinds(lua_State *L) {
  lua_newtable(L);
  const ett_cpu_kind *kind;
  for (size_t i = 0; (kind = ett_cpu_kind_at(i)); i++) {
    lua_createtable(L, 0, 2);
    ett_lua_set_string(L, "name", kind->name);
    lua_newtable(L);
    for (int k = 0; kind->dims[k]; k++) {
      lua_pushstring(L, kind->dims[k]);
      lua_seti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "dims");
    lua_seti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int check_threads(lua_State *L, int argument, lua_Integer count) {
  if (count < 1 || count > ETT_SAMPLE_MOST_THREADS)
    luaL_argerror(L, argument,
                  lua_pushfstring(L, "1 to %d threads", ETT_SAMPLE_MOST_THREADS));
  return (int)count;
}

/* cpu.pin([processor [, count]]) -> { processor, … } | nil, error */
static int pin(lua_State *L) {
  ett_err err = {0};
  int chosen[ETT_SAMPLE_MOST_THREADS];
  const int count = check_threads(L, 2, luaL_optinteger(L, 2, 1));
  if (ett_cpu_pin((int)luaL_optinteger(L, 1, -1), count, chosen, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    lua_pushinteger(L, chosen[i]);
    lua_seti(L, -2, i + 1);
  }
  return 1;
}

/* cpu.allowed() -> { processor, … } that the process may use | nil, error */
static int allowed(lua_State *L) {
  ett_err err = {0};
  lua_newtable(L);
  lua_Integer n = 0;
  for (int at = 0; (at = ett_cpu_allowed(at, &err)) >= 0; at++) {
    lua_pushinteger(L, at);
    lua_seti(L, -2, ++n);
  }
  return n > 0 ? 1 : ett_lua_fail(L, &err);
}

/* cpu.unpin(): restores the initial affinity of the thread; programs that it starts
 * inherit it */
static int unpin(lua_State *L) {
  (void)L;
  ett_cpu_unpin();
  return 0;
}

/* cpu.set_threads(count): of OpenBLAS */
static int threads(lua_State *L) {
  openblas_set_num_threads(check_threads(L, 1, luaL_checkinteger(L, 1)));
  return 0;
}

/* cpu.info() -> { isa=, blas_core=, blas= }: OpenBLAS as loaded, and the core it chose */
static int info(lua_State *L) {
  lua_createtable(L, 0, 3);
  ett_lua_set_string(L, "isa", ett_cpu_isa());
  ett_lua_set_string(L, "blas_core", openblas_get_corename());
  ett_lua_set_string(L, "blas", openblas_get_config());
  return 1;
}

static int clock_probe(lua_State *L) {
  lua_pushnumber(L, ett_cpu_clock_probe());
  return 1;
}

static const luaL_Reg pool_methods[] = {
    {"measure", pool_measure},
    {"probe", pool_probe},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"pool", pool_new},     {"run", run},
    {"operands", operands}, {"kinds", kinds},
    {"allowed", allowed},   {"unpin", unpin},
    {"pin", pin},           {"set_threads", threads},
    {"info", info},         {"clock_probe", clock_probe},
    {NULL, NULL},
};

int luaopen_ett_cpu(lua_State *L);
int luaopen_ett_cpu(lua_State *L) {
  ett_lua_type(L, POOL_TYPE, pool_methods, pool_close);
  luaL_newlib(L, functions);
  lua_createtable(L, 0, 4); /* cpu.defaults: those of pool:measure */
  ett_lua_set_number(L, "budget_seconds", ett_cpu_default_options.budget_seconds);
  ett_lua_set_number(L, "target", ett_cpu_default_options.target);
  ett_lua_set_integer(L, "min_repeats", ett_cpu_default_options.min_repeats);
  ett_lua_set_integer(L, "max_repeats", ett_cpu_default_options.max_repeats);
  lua_setfield(L, -2, "defaults");
  return 1;
}
