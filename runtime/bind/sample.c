/* ett.sample: statistics, shapes, journals, tensors, interrupts. */
#include "bind/common.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sample/journal.h"
#include "sample/pages.h"
#include "sample/space.h"
#include "sample/stats.h"
#include "sample/surface.h"
#include "sample/tensor.h"

#define JOURNAL_TYPE "ett.sample.journal"
#define SPACE_TYPE "ett.sample.space"
#define SURFACE_TYPE "ett.sample.surface"

/* sample.stats(list) -> { count, min, median, mean, low_mean, half_width, low,
 * low_half_width } */
static int stats(lua_State *L) {
  size_t n;
  double *x = ett_lua_doubles(L, 1, &n);
  ett_sample_stats s;
  ett_sample_stats_compute(x, n, &s);
  lua_createtable(L, 0, 8);
  lua_pushinteger(L, (lua_Integer)s.count);
  lua_setfield(L, -2, "count");
  const char *names[] = {"min",        "median", "mean",          "low_mean",
                         "half_width", "low",    "low_half_width"};
  const double values[] = {s.min,        s.median, s.mean,          s.low_mean,
                           s.half_width, s.low,    s.low_half_width};
  for (int i = 0; i < 7; i++) {
    lua_pushnumber(L, values[i]);
    lua_setfield(L, -2, names[i]);
  }
  return 1;
}

typedef struct {
  int count;
  int64_t total;
  ett_sample_axis axes[32];
  int64_t counts[32];
} space_box;

/* sample.space{ {start=, step=, stop=, op="add"|"mul"}, … } -> space */
static int space_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  space_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->count = 0;
  luaL_setmetatable(L, SPACE_TYPE);
  lua_Integer n = luaL_len(L, 1);
  luaL_argcheck(L, n >= 1 && n <= 32, 1, "1 to 32 dimensions");
  ett_err err = {0};
  for (int i = 0; i < n; i++) {
    lua_geti(L, 1, i + 1);
    luaL_checktype(L, -1, LUA_TTABLE);
    ett_sample_axis *a = &b->axes[i];
    a->start = ett_lua_integer_field(L, -1, "start", 0);
    a->step = ett_lua_integer_field(L, -1, "step", 1);
    a->end = ett_lua_integer_field(L, -1, "stop", 0);
    const char *op = ett_lua_string_field(L, -1, "op", "add");
    if (strcmp(op, "add") != 0 && strcmp(op, "mul") != 0)
      return luaL_error(L, "operator must be 'add' or 'mul', got '%s'", op);
    a->op = op[0] == 'a' ? '+' : '*';
    b->counts[i] = ett_sample_axis_count(a, &err);
    if (b->counts[i] < 0)
      return ett_lua_raise(L, &err);
    lua_pop(L, 1);
  }
  b->total = ett_sample_space_count(b->axes, (int)n, &err);
  if (b->total < 0)
    return ett_lua_raise(L, &err);
  b->count = (int)n;
  return 1;
}

static int space_count(lua_State *L) {
  space_box *b = luaL_checkudata(L, 1, SPACE_TYPE);
  lua_pushinteger(L, b->total);
  return 1;
}

/* space:shape(index from 1) -> list of integers */
static int space_shape(lua_State *L) {
  space_box *b = luaL_checkudata(L, 1, SPACE_TYPE);
  lua_Integer index = luaL_checkinteger(L, 2);
  luaL_argcheck(L, index >= 1 && index <= b->total, 2, "no shape of that number");
  int64_t shape[32];
  ett_sample_space_shape(b->axes, b->counts, b->count, index - 1, shape);
  lua_createtable(L, b->count, 0);
  for (int i = 0; i < b->count; i++) {
    lua_pushinteger(L, shape[i]);
    lua_seti(L, -2, i + 1);
  }
  return 1;
}

/* sample.halton(index from 1, dimension from 1, seed) -> number in [0, 1) */
static int halton(lua_State *L) {
  lua_Integer index = luaL_checkinteger(L, 1), dimension = luaL_checkinteger(L, 2);
  luaL_argcheck(L, index >= 1, 1, "index counts from 1");
  luaL_argcheck(L, dimension >= 1 && dimension <= 32, 2, "dimension is 1 to 32");
  lua_pushnumber(L, ett_sample_halton((uint64_t)index, (int)dimension - 1,
                                      (uint64_t)luaL_checkinteger(L, 3)));
  return 1;
}

typedef struct {
  ett_sample_surface *surface;
  size_t count, width;
} surface_box;

/* sample.surface(points, width, values, scales?) -> surface | nil, error; points: the
 * features of all points in one list, point after point; scales: of surface:scales(),
 * where the search for them is to be spared. */
static int surface_new(lua_State *L) {
  size_t n, all, given = 0;
  lua_settop(L, 4);
  lua_Integer width = luaL_checkinteger(L, 2);
  double *x = ett_lua_doubles(L, 1, &all), *y = ett_lua_doubles(L, 3, &n);
  luaL_argcheck(L, width >= 1 && all == n * (size_t)width, 1, "width features a value");
  double *scales = lua_isnoneornil(L, 4) ? NULL : ett_lua_doubles(L, 4, &given);
  luaL_argcheck(L, !scales || given == (size_t)width + 1, 4, "width lengths and a noise");
  surface_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->surface = NULL;
  b->count = n;
  b->width = (size_t)width;
  luaL_setmetatable(L, SURFACE_TYPE);
  ett_err err = {0};
  b->surface = scales ? ett_sample_surface_restore(x, y, n, (size_t)width, scales, &err)
                      : ett_sample_surface_fit(x, y, n, (size_t)width, &err);
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

typedef struct {
  ett_sample_journal *journal;
} journal_box;

static ett_sample_journal *check_journal(lua_State *L) {
  journal_box *b = luaL_checkudata(L, 1, JOURNAL_TYPE);
  if (!b->journal)
    luaL_error(L, "the journal is closed");
  return b->journal;
}

/* sample.journal(path, header) -> journal | nil, error */
static int journal_open(lua_State *L) {
  const char *path = luaL_checkstring(L, 1), *header = luaL_checkstring(L, 2);
  journal_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->journal = NULL;
  luaL_setmetatable(L, JOURNAL_TYPE);
  ett_err err = {0};
  b->journal = ett_sample_journal_open(path, header, &err);
  return b->journal ? 1 : ett_lua_fail(L, &err);
}

/* journal:append(line) -> true | nil, error */
static int journal_append(lua_State *L) {
  ett_sample_journal *j = check_journal(L);
  size_t bytes;
  const char *line = luaL_checklstring(L, 2, &bytes);
  ett_err err = {0};
  if (ett_sample_journal_append(j, line, bytes, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* journal:repaired() -> bytes of an incomplete last line that were cut off */
static int journal_repaired(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)ett_sample_journal_repaired(check_journal(L)));
  return 1;
}

static int journal_close(lua_State *L) {
  journal_box *b = luaL_checkudata(L, 1, JOURNAL_TYPE);
  ett_sample_journal_close(b->journal);
  b->journal = NULL;
  return 0;
}

static ett_tensor *check_tensor(lua_State *L, int index) {
  ett_tensor *t = luaL_checkudata(L, index, ETT_TENSOR_TYPE);
  if (!t->data)
    luaL_error(L, "the tensor is closed");
  return t;
}

/* Memory that several tensors lie in. */
typedef struct {
  char *at;
  size_t bytes, used;
} block;

#define BLOCK_TYPE "ett.tensor.block"
static const char
    current_block; /* key of the registry: a weak table of the current one */

static int block_free(lua_State *L) {
  block *b = luaL_checkudata(L, 1, BLOCK_TYPE);
  ett_sample_pages_free(b->at, b->bytes);
  b->at = NULL;
  return 0;
}

/* Under the address sanitizer every tensor has a block of its own, so that a step outside
 * is seen. */
#if defined(__SANITIZE_ADDRESS__)
enum { BLOCK_BYTES = 1 };
#else
enum { BLOCK_BYTES = 16 << 20 };
#endif

/* Pushes the table and a block with room for bytes and returns it: the current one, or a
 * new one that is the current one from now on. */
static block *block_with(lua_State *L, size_t bytes) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &current_block);
  if (lua_rawgeti(L, -1, 1) == LUA_TUSERDATA) {
    block *b = lua_touserdata(L, -1);
    if (b->bytes - b->used >= bytes)
      return b;
  }
  lua_pop(L, 1);
  block *b = lua_newuserdatauv(L, sizeof *b, 0);
  *b = (block){NULL, bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES, 0};
  luaL_setmetatable(L, BLOCK_TYPE);
  b->at = ett_sample_pages_new(b->bytes);
  if (!b->at)
    luaL_error(L, "out of memory: a tensor of %I elements",
               (LUAI_UACINT)(bytes / sizeof(float)));
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, 1);
  return b;
}

/* sample.tensor(count) -> zeroed tensor, aligned to 64 bytes; a cache line and more apart
 * from its neighbour, as operands of samples are. */
static int tensor_new(lua_State *L) {
  lua_Integer count = luaL_checkinteger(L, 1);
  luaL_argcheck(L, count >= 1 && count <= (lua_Integer)1 << 40, 1, "1 to 2^40 elements");
  const size_t bytes = ((size_t)count * sizeof(float) + 127) / 64 * 64;
  ett_tensor *t = lua_newuserdatauv(L, sizeof *t, 1);
  memset(t, 0, sizeof *t);
  luaL_setmetatable(L, ETT_TENSOR_TYPE);
  block *b = block_with(L, bytes);
  t->data = (float *)(void *)(b->at + b->used);
  t->count = (size_t)count;
  b->used += bytes;
  lua_setiuservalue(L, -3, 1); /* the block lives as long as the tensor */
  lua_pop(L, 1);
  return 1;
}

/* tensor:view(first from 1, count) shares memory and keeps the owner alive. */
static int tensor_view(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  lua_Integer first = luaL_checkinteger(L, 2), count = luaL_checkinteger(L, 3);
  luaL_argcheck(L,
                first >= 1 && count >= 1 && (size_t)first <= t->count &&
                    (size_t)count <= t->count - (size_t)first + 1,
                2, "view leaves the tensor");
  ett_tensor *v = lua_newuserdatauv(L, sizeof *v, 1);
  memset(v, 0, sizeof *v);
  luaL_setmetatable(L, ETT_TENSOR_TYPE);
  v->data = t->data + first - 1;
  v->count = (size_t)count;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static int tensor_close(lua_State *L) {
  ett_tensor *t = luaL_checkudata(L, 1, ETT_TENSOR_TYPE);
  t->data = NULL;
  lua_pushnil(L);
  lua_setiuservalue(L, 1, 1);
  return 0;
}

static int tensor_length(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check_tensor(L, 1)->count);
  return 1;
}

static size_t check_position(lua_State *L, const ett_tensor *t, int index) {
  lua_Integer i = luaL_checkinteger(L, index);
  luaL_argcheck(L, i >= 1 && (size_t)i <= t->count, index, "outside the tensor");
  return (size_t)i - 1;
}

static int tensor_get(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  lua_pushnumber(L, t->data[check_position(L, t, 2)]);
  return 1;
}

static int tensor_set(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  t->data[check_position(L, t, 2)] = (float)luaL_checknumber(L, 3);
  return 0;
}

/* tensor:fill(value) */
static int tensor_fill(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  float value = (float)luaL_checknumber(L, 2);
  for (size_t i = 0; i < t->count; i++)
    t->data[i] = value;
  lua_settop(L, 1);
  return 1;
}

static uint64_t mix(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* tensor:normal(seed, deviation): seeded normal deviates (Box and Muller 1958). */
static int tensor_normal(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  uint64_t state = (uint64_t)luaL_checkinteger(L, 2) * 0x2545f4914f6cdd1du;
  double deviation = luaL_optnumber(L, 3, 1.0);
  for (size_t i = 0; i < t->count; i++) {
    double u = (double)((mix(&state) >> 11) + 1) * 0x1p-53;
    double v = (double)(mix(&state) >> 11) * 0x1p-53;
    t->data[i] = (float)(deviation * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
  lua_settop(L, 1);
  return 1;
}

/* tensor:integers(list): int32 bit patterns for index operands. */
static int tensor_integers(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, lua_rawlen(L, 2) <= t->count, 2, "more integers than elements");
  int32_t *out = (int32_t *)(void *)t->data;
  for (size_t i = 0; i < lua_rawlen(L, 2); i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    out[i] = (int32_t)luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  lua_settop(L, 1);
  return 1;
}

static int tensor_integer(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  lua_pushinteger(L, ((int32_t *)(void *)t->data)[check_position(L, t, 2)]);
  return 1;
}

/* tensor:copy(other): the first min(#tensor, #other) elements. */
static int tensor_copy(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1), *from = check_tensor(L, 2);
  size_t n = t->count < from->count ? t->count : from->count;
  memmove(t->data, from->data, n * sizeof(float));
  lua_settop(L, 1);
  return 1;
}

/* tensor:scale(factor) */
static int tensor_scale(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  float factor = (float)luaL_checknumber(L, 2);
  for (size_t i = 0; i < t->count; i++)
    t->data[i] *= factor;
  lua_settop(L, 1);
  return 1;
}

static int tensor_sum(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1);
  double sum = 0;
  for (size_t i = 0; i < t->count; i++)
    sum += t->data[i];
  lua_pushnumber(L, sum);
  return 1;
}

static int tensor_dot(lua_State *L) {
  ett_tensor *t = check_tensor(L, 1), *other = check_tensor(L, 2);
  luaL_argcheck(L, t->count == other->count, 2, "tensors differ in length");
  double sum = 0;
  for (size_t i = 0; i < t->count; i++)
    sum += (double)t->data[i] * other->data[i];
  lua_pushnumber(L, sum);
  return 1;
}

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupts++;
  if (interrupts >= 3) /* someone means it: the rows are safe at any moment */
    _exit(130);
}

/* sample.catch_interrupts(): from now on SIGINT and SIGTERM only count. */
static int catch_interrupts(lua_State *L) {
  (void)L;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of write, not a death */
  return 0;
}

static int interrupted(lua_State *L) {
  lua_pushboolean(L, interrupts > 0);
  return 1;
}

static double clock_seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of a clock that never goes back. */
static int now(lua_State *L) {
  lua_pushnumber(L, clock_seconds(CLOCK_MONOTONIC));
  return 1;
}

/* Processor seconds of the calling thread. */
static int thread_seconds(lua_State *L) {
  lua_pushnumber(L, clock_seconds(CLOCK_THREAD_CPUTIME_ID));
  return 1;
}

static int pause_seconds(lua_State *L) {
  double seconds = luaL_checknumber(L, 1);
  luaL_argcheck(L, seconds >= 0 && seconds < 1e6, 1, "0 to a million seconds");
  struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  nanosleep(&t, NULL);
  return 0;
}

static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

static int hostname(lua_State *L) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  lua_pushstring(L, name);
  return 1;
}

/* sample.default_environment(name, value): sets a variable that is not set yet. */
static int default_environment(lua_State *L) {
  lua_pushboolean(L, setenv(luaL_checkstring(L, 1), luaL_checkstring(L, 2), 0) == 0);
  return 1;
}

static int processors(lua_State *L) {
  lua_pushinteger(L, sysconf(_SC_NPROCESSORS_ONLN));
  return 1;
}

static int process_id(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

static const luaL_Reg block_methods[] = {{"__gc", block_free}, {NULL, NULL}};

static const luaL_Reg tensor_methods[] = {
    {"view", tensor_view},         {"close", tensor_close},
    {"get", tensor_get},           {"set", tensor_set},
    {"fill", tensor_fill},         {"normal", tensor_normal},
    {"integers", tensor_integers}, {"integer", tensor_integer},
    {"copy", tensor_copy},         {"scale", tensor_scale},
    {"sum", tensor_sum},           {"dot", tensor_dot},
    {"__len", tensor_length},      {"__gc", tensor_close},
    {"__close", tensor_close},     {NULL, NULL},
};

static const luaL_Reg journal_methods[] = {
    {"append", journal_append}, {"repaired", journal_repaired}, {"close", journal_close},
    {"__gc", journal_close},    {"__close", journal_close},     {NULL, NULL},
};

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

static const luaL_Reg space_methods[] = {
    {"count", space_count},
    {"shape", space_shape},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"stats", stats},
    {"space", space_new},
    {"surface", surface_new},
    {"halton", halton},
    {"journal", journal_open},
    {"tensor", tensor_new},
    {"catch_interrupts", catch_interrupts},
    {"interrupted", interrupted},
    {"now", now},
    {"thread_seconds", thread_seconds},
    {"pause", pause_seconds},
    {"is_terminal", is_terminal},
    {"hostname", hostname},
    {"default_environment", default_environment},
    {"processors", processors},
    {"process_id", process_id},
    {NULL, NULL},
};

static void make_type(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

int luaopen_ett_sample(lua_State *L);
int luaopen_ett_sample(lua_State *L) {
  make_type(L, JOURNAL_TYPE, journal_methods);
  make_type(L, SPACE_TYPE, space_methods);
  make_type(L, SURFACE_TYPE, surface_methods);
  make_type(L, ETT_TENSOR_TYPE, tensor_methods);
  make_type(L, BLOCK_TYPE, block_methods);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &current_block);
  luaL_newlib(L, functions);
  return 1;
}
