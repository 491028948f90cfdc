/* ett.cuda: devices, compilation at run time, work lists. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bind/common.h"
#include "samplers/cuda/compile.h"
#include "samplers/cuda/work.h"

#define DEVICE_TYPE "ett.cuda.device"
#define WORK_TYPE "ett.cuda.work" /* its device is user value 1 */

static const char *const dtypes[] = {"fp16", "bf16", "fp32", "fp8", "int64", NULL};
static const char *const fills[] = {"normal", "uniform", "zero", "index", NULL};

/* Index of a name in the list; raises if it is missing. */
static int index_of(lua_State *L, const char *name, const char *const *names,
                    const char *what) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return luaL_error(L, "unknown %s '%s'", what, name);
}

static ett_cuda_dtype dtype_field(lua_State *L, int index, const char *fallback) {
  const char *name = ett_lua_string_field(L, index, "dtype", fallback);
  return (ett_cuda_dtype)index_of(L, name, dtypes, "dtype");
}

static ett_cuda_fill fill_field(lua_State *L, int index) {
  const char *name = ett_lua_string_field(L, index, "fill", "normal");
  return (ett_cuda_fill)index_of(L, name, fills, "fill");
}

/* The number of a tensor in a field; -1 without the field. */
static int tensor_field(lua_State *L, int index, const char *name) {
  return (int)ett_lua_range_field(L, index, name, -1, -1, INT_MAX);
}

/* The number of a tensor among the arguments. */
static int check_tensor(lua_State *L, int index) {
  const lua_Integer tensor = luaL_checkinteger(L, index);
  luaL_argcheck(L, tensor >= 0 && tensor <= INT_MAX, index, "no such tensor");
  return (int)tensor;
}

/* Pushes a non-negative number, or nil and err if it is negative. */
static int push_count(lua_State *L, int number, const ett_err *err) {
  if (number < 0)
    return ett_lua_fail(L, err);
  lua_pushinteger(L, number);
  return 1;
}

/* available() -> number of devices | nil, error object */
static int available(lua_State *L) {
  ett_err err = {ETT_OK, ""};
  return push_count(L, ett_cuda_device_count(&err), &err);
}

/* compile{source=, label=, first_line=1, dtype="bf16", capability=90} -> cubin (string)
 * | nil, error object whose field `log` is the compiler's log */
static int compile(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const char *source = ett_lua_string_field(L, 1, "source", NULL);
  const char *label = ett_lua_string_field(L, 1, "label", "kernel");
  int first_line = (int)ett_lua_range_field(L, 1, "first_line", 1, 1, INT_MAX);
  int capability = (int)ett_lua_range_field(L, 1, "capability", 90, 1, 999);
  ett_cuda_dtype dtype = dtype_field(L, 1, "bf16");
  luaL_argcheck(L, source != NULL, 1, "missing field 'source'");
  ett_err err = {ETT_OK, ""};
  void *cubin = NULL;
  char *log = NULL;
  size_t bytes = 0;
  int status = ett_cuda_compile(source, label, first_line, dtype, capability, &cubin,
                                &bytes, &log, &err);
  if (status == 0) {
    ett_lua_push_freed(L, cubin, bytes);
    return 1;
  }
  ett_lua_push_freed(L, log, log ? strlen(log) : 0);
  const int results = ett_lua_fail(L, &err);
  lua_pushvalue(L, -1 - results);
  lua_setfield(L, -2, "log");
  return results;
}

/* versions() -> "NVRTC 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0": the libraries found */
static int versions(lua_State *L) {
  char text[160] = "";
  int at = 0, major, minor;
  const ett_cuda_nvrtc *nvrtc = ett_cuda_nvrtc_open(NULL);
  if (nvrtc && nvrtc->nvrtcVersion(&major, &minor) == NVRTC_SUCCESS)
    at += snprintf(text + at, sizeof text - (size_t)at, "NVRTC %d.%d", major, minor);
  const ett_cuda_blas *blas = ett_cuda_blas_open(NULL);
  if (blas) {
    size_t v = blas->cublasLtGetVersion();
    at += snprintf(text + at, sizeof text - (size_t)at, "%scuBLASLt %zu.%zu.%zu",
                   at ? ", " : "", v / 10000, v / 100 % 100, v % 100);
  }
#ifdef ETT_HAVE_CUDNN
  const ett_cuda_dnn *dnn = ett_cuda_dnn_open(NULL);
  if (dnn) {
    size_t v = dnn->cudnnGetVersion();
    at += snprintf(text + at, sizeof text - (size_t)at, "%scuDNN %zu.%zu.%zu",
                   at ? ", " : "", v / 10000, v / 100 % 100, v % 100);
  }
#endif
  lua_pushstring(L, text);
  return 1;
}

static ett_cuda_device *check_device(lua_State *L, int index) {
  ett_cuda_device *device = luaL_checkudata(L, index, DEVICE_TYPE);
  if (!device->driver)
    luaL_error(L, "the device is closed");
  return device;
}

/* open(ordinal=0) -> device | nil, error object */
static int open_device(lua_State *L) {
  const lua_Integer given = luaL_optinteger(L, 1, 0);
  const int ordinal = given < 0 ? -1 : given > INT_MAX ? INT_MAX : (int)given;
  ett_cuda_device *device = lua_newuserdatauv(L, sizeof *device, 0);
  memset(device, 0, sizeof *device);
  luaL_setmetatable(L, DEVICE_TYPE);
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_device_open(device, ordinal, &err) != 0)
    return ett_lua_fail(L, &err);
  return 1;
}

static int device_close(lua_State *L) {
  ett_cuda_device_close(luaL_checkudata(L, 1, DEVICE_TYPE));
  return 0;
}

/* device:info() -> {name=, capability=, multiprocessors=, clock_hz=, …} */
static int device_info(lua_State *L) {
  const ett_cuda_device *device = check_device(L, 1);
  lua_createtable(L, 0, 8);
  ett_lua_set_string(L, "name", device->name);
  ett_lua_set_integer(L, "capability", device->capability);
  ett_lua_set_integer(L, "multiprocessors", device->multiprocessors);
  ett_lua_set_integer(L, "clock_hz", 1000 * (lua_Integer)device->clock_khz);
  ett_lua_set_integer(L, "memory_clock_hz", 1000 * (lua_Integer)device->memory_clock_khz);
  ett_lua_set_integer(L, "l2_bytes", device->l2_bytes);
  ett_lua_set_integer(L, "memory_bytes", (lua_Integer)device->memory_bytes);
  ett_lua_set_integer(L, "driver_version", device->driver_version);
  return 1;
}

/* device:lost() -> nil while usable; "kernel" if a kernel made it unusable for this
 * process; "device" if the device itself failed */
static int device_lost(lua_State *L) {
  static const char *const names[] = {NULL, "kernel", "device"};
  lua_pushstring(L, names[check_device(L, 1)->death]);
  return 1;
}

/* device:peer(other, {bytes=, repeats=5, time_limit_seconds=60}) -> {bandwidth=,
 * direct=} as ett_cuda_peer | nil, error object */
static int device_peer(lua_State *L) {
  ett_cuda_device *from = check_device(L, 1), *to = check_device(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_Integer bytes = ett_lua_range_field(L, 3, "bytes", 0, 1, LUA_MAXINTEGER);
  lua_Integer repeats = ett_lua_range_field(L, 3, "repeats", 5, 1, 10000);
  double limit = ett_lua_number_field(L, 3, "time_limit_seconds", 60);
  ett_err err = {ETT_OK, ""};
  ett_cuda_peer peer;
  if (ett_cuda_peer_measure(from, to, (size_t)bytes, (int)repeats, limit, &peer, &err) !=
      0)
    return ett_lua_fail(L, &err);
  lua_createtable(L, 0, 2);
  ett_lua_set_number(L, "bandwidth", peer.bandwidth);
  ett_lua_set_boolean(L, "direct", peer.direct);
  return 1;
}

static ett_cuda_work *check_work(lua_State *L, int index) {
  ett_cuda_work *work = ett_lua_box_check(L, index, WORK_TYPE, "work list");
  lua_getiuservalue(L, index, 1);
  check_device(L, -1);
  lua_pop(L, 1);
  return work;
}

/* device:work(dtype) -> work */
static int device_work(lua_State *L) {
  ett_cuda_device *device = check_device(L, 1);
  const char *name = luaL_optstring(L, 2, "bf16");
  ett_cuda_dtype dtype = (ett_cuda_dtype)index_of(L, name, dtypes, "dtype");
  void **box = ett_lua_box_new(L, WORK_TYPE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  ett_err err = {ETT_OK, ""};
  *box = ett_cuda_work_new(device, dtype, &err);
  return *box ? 1 : ett_lua_fail(L, &err);
}

ETT_LUA_CLOSE(work_close, WORK_TYPE, ett_cuda_work_free)

/* work:tensor{ d1, d2, …, dtype=, fill="normal", high=, seed=0 } -> number
 * | nil, error object */
static int work_tensor(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  long long count = 1;
  for (lua_Integer i = 1; lua_rawgeti(L, 2, i) != LUA_TNIL; i++) {
    int is_integer;
    long long dimension = lua_tointegerx(L, -1, &is_integer);
    luaL_argcheck(L, is_integer && dimension > 0, 2, "dimensions are positive integers");
    luaL_argcheck(L, !__builtin_mul_overflow(count, dimension, &count), 2,
                  "the tensor is too large");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  ett_cuda_fill fill = fill_field(L, 2);
  ett_cuda_dtype dtype =
      dtype_field(L, 2, fill == ETT_CUDA_FILL_INDEX ? "int64" : "bf16");
  long long high = ett_lua_integer_field(L, 2, "high", 0);
  uint64_t seed = (uint64_t)ett_lua_integer_field(L, 2, "seed", 0);
  ett_err err = {ETT_OK, ""};
  int index = ett_cuda_work_tensor(work, count, dtype, fill, high, seed, &err);
  return push_count(L, index, &err);
}

/* work:view(tensor, first from 1, count) -> number of the view | nil, error object */
static int work_view(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  int tensor = check_tensor(L, 2);
  long long first = luaL_checkinteger(L, 3), count = luaL_checkinteger(L, 4);
  ett_err err = {ETT_OK, ""};
  int index = ett_cuda_work_view(work, tensor, first - 1, count, &err);
  return push_count(L, index, &err);
}

/* The number on top of the stack as a size of a grid or a block. */
static unsigned check_size(lua_State *L, const char *field) {
  int is_integer;
  const lua_Integer size = lua_tointegerx(L, -1, &is_integer);
  if (!is_integer || size < 1 || size > INT_MAX)
    luaL_error(L, "field '%s' must be 1 to 2^31 - 1, got %s", field,
               luaL_tolstring(L, -1, NULL));
  return (unsigned)size;
}

static void read_sizes(lua_State *L, const char *field, unsigned sizes[3]) {
  int type = ett_lua_raw_field(L, 2, field);
  sizes[0] = sizes[1] = sizes[2] = 1;
  if (type == LUA_TNUMBER) {
    sizes[0] = check_size(L, field);
  } else if (type == LUA_TTABLE) {
    for (int i = 0; i < 3; i++) {
      if (lua_rawgeti(L, -1, i + 1) != LUA_TNIL)
        sizes[i] = check_size(L, field);
      lua_pop(L, 1);
    }
  } else {
    luaL_error(L, "field '%s' must be a number or a list of up to three", field);
  }
  lua_pop(L, 1);
}

/* An argument is {tensor=number}, an integer or a float. */
static void read_args(lua_State *L, ett_cuda_kernel *kernel) {
  if (ett_lua_raw_field(L, 2, "args") != LUA_TTABLE)
    luaL_error(L, "field 'args' must be a list");
  int count = (int)lua_rawlen(L, -1);
  if (count > ETT_CUDA_MAX_ARGS)
    luaL_error(L, "a kernel takes at most %d arguments, got %d", ETT_CUDA_MAX_ARGS,
               count);
  for (int i = 0; i < count; i++) {
    ett_cuda_arg *arg = &kernel->args[i];
    int type = lua_rawgeti(L, -1, i + 1);
    if (type == LUA_TTABLE) {
      arg->kind = ETT_CUDA_ARG_TENSOR;
      arg->tensor = tensor_field(L, -1, "tensor");
    } else if (lua_isinteger(L, -1)) {
      arg->kind = ETT_CUDA_ARG_INTEGER;
      arg->integer = lua_tointeger(L, -1);
    } else {
      arg->kind = ETT_CUDA_ARG_NUMBER;
      arg->number = ett_lua_number_item(L, "args", i + 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  kernel->arg_count = count;
}

/* work:kernel{source=, name=, label=, first_line=1, grid=, block=, shared=0, args={…}} */
static int work_kernel(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  ett_cuda_kernel kernel;
  memset(&kernel, 0, sizeof kernel);
  kernel.source = ett_lua_string_field(L, 2, "source", NULL);
  kernel.name = ett_lua_string_field(L, 2, "name", NULL);
  kernel.label = ett_lua_string_field(L, 2, "label", kernel.name);
  kernel.first_line = (int)ett_lua_range_field(L, 2, "first_line", 1, 1, INT_MAX);
  luaL_argcheck(L, kernel.source && kernel.name, 2, "needs 'source' and 'name'");
  kernel.shared_bytes = (unsigned)ett_lua_range_field(L, 2, "shared", 0, 0, INT_MAX);
  read_sizes(L, "grid", kernel.grid);
  read_sizes(L, "block", kernel.block);
  read_args(L, &kernel);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(L, ett_cuda_work_kernel(work, &kernel, &err), &err);
}

/* work:gemm{a=, b=, c=, m=, n=, k=, batch=1, trans_a=, trans_b=, accumulate=, fast=,
 * autotune=} */
static int work_gemm(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  ett_cuda_gemm gemm = {
      .a = tensor_field(L, 2, "a"),
      .b = tensor_field(L, 2, "b"),
      .c = tensor_field(L, 2, "c"),
      .m = ett_lua_integer_field(L, 2, "m", 0),
      .n = ett_lua_integer_field(L, 2, "n", 0),
      .k = ett_lua_integer_field(L, 2, "k", 0),
      .batch = ett_lua_integer_field(L, 2, "batch", 1),
      .trans_a = ett_lua_boolean_field(L, 2, "trans_a", 0),
      .trans_b = ett_lua_boolean_field(L, 2, "trans_b", 0),
      .accumulate = ett_lua_boolean_field(L, 2, "accumulate", 0),
      .fast = ett_lua_boolean_field(L, 2, "fast", 0),
  };
  int autotune = ett_lua_boolean_field(L, 2, "autotune", 0);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(L, ett_cuda_work_gemm(work, &gemm, autotune, &err), &err);
}

/* work:attention{q=, k=, v=, out=, stats=, batch=, heads=, kv_heads=, seq_q=, seq_k=,
 * head_dim=, q_row=0, kv_row=0, out_row=0, causal=, pass="forward"|"backward", dout=,
 * dq=, dk=, dv=} */
static int work_attention(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer heads = ett_lua_integer_field(L, 2, "heads", 0);
  ett_cuda_attention attention = {
      .q = tensor_field(L, 2, "q"),
      .k = tensor_field(L, 2, "k"),
      .v = tensor_field(L, 2, "v"),
      .out = tensor_field(L, 2, "out"),
      .stats = tensor_field(L, 2, "stats"),
      .dout = tensor_field(L, 2, "dout"),
      .dq = tensor_field(L, 2, "dq"),
      .dk = tensor_field(L, 2, "dk"),
      .dv = tensor_field(L, 2, "dv"),
      .batch = ett_lua_integer_field(L, 2, "batch", 0),
      .heads = heads,
      .kv_heads = ett_lua_integer_field(L, 2, "kv_heads", heads),
      .seq_q = ett_lua_integer_field(L, 2, "seq_q", 0),
      .seq_k = ett_lua_integer_field(L, 2, "seq_k", 0),
      .head_dim = ett_lua_integer_field(L, 2, "head_dim", 0),
      .q_row = ett_lua_integer_field(L, 2, "q_row", 0),
      .kv_row = ett_lua_integer_field(L, 2, "kv_row", 0),
      .out_row = ett_lua_integer_field(L, 2, "out_row", 0),
      .causal = ett_lua_boolean_field(L, 2, "causal", 1),
      .backward = strcmp(ett_lua_string_field(L, 2, "pass", "forward"), "backward") == 0,
  };
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(L, ett_cuda_work_attention(work, &attention, &err), &err);
}

/* work:ready{graph=true, time_limit_seconds=60} */
static int work_ready(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int graph = ett_lua_boolean_field(L, 2, "graph", 1);
  double limit = ett_lua_number_field(L, 2, "time_limit_seconds", 60);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(L, ett_cuda_work_ready(work, graph, limit, &err), &err);
}

/* work:time{repeats=10, flush=true, time_limit_seconds=60} -> {seconds, …} */
static int work_time(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer repeats = ett_lua_range_field(L, 2, "repeats", 10, 1, 100000);
  int flush = ett_lua_boolean_field(L, 2, "flush", 1);
  double limit = ett_lua_number_field(L, 2, "time_limit_seconds", 60);
  double *seconds = lua_newuserdatauv(L, (size_t)repeats * sizeof *seconds, 0);
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_work_time(work, (int)repeats, flush, limit, seconds, &err) != 0)
    return ett_lua_fail(L, &err);
  ett_lua_push_doubles(L, seconds, (size_t)repeats);
  return 1;
}

/* work:read(tensor [, count]) -> {values} */
static int work_read(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  int index = check_tensor(L, 2);
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
  ett_cuda_work *work = check_work(L, 1);
  int index = check_tensor(L, 2);
  size_t count;
  double *values = ett_lua_doubles(L, 3, &count);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(
      L, ett_cuda_work_write(work, index, values, (long long)count, &err), &err);
}

/* work:fill(tensor, {fill="normal", deviation=0.5, high=, seed=0}): immediate, not a
 * launch of the list */
static int work_fill(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  int tensor = check_tensor(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  ett_cuda_fill fill = fill_field(L, 3);
  long long high = ett_lua_integer_field(L, 3, "high", 0);
  double deviation = ett_lua_number_field(L, 3, "deviation", 0.5);
  uint64_t seed = (uint64_t)ett_lua_integer_field(L, 3, "seed", 0);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(
      L, ett_cuda_work_fill(work, tensor, fill, high, deviation, seed, &err), &err);
}

/* work:run([time_limit_seconds=60]) -> wall seconds of one run | nil, error object */
static int work_run(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  double limit = luaL_optnumber(L, 2, 60), seconds;
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_work_run(work, limit, &seconds, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushnumber(L, seconds);
  return 1;
}

/* work:launches() -> number of launches recorded */
static int work_launches(lua_State *L) {
  lua_pushinteger(L, ett_cuda_work_launches(check_work(L, 1)));
  return 1;
}

/* work:time_parts({ends, …} [, time_limit_seconds=60]) -> {seconds, …} of the parts of
 * one run; part i ends with launch ends[i] | nil, error object */
static int work_time_parts(lua_State *L) {
  ett_cuda_work *work = check_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  double limit = luaL_optnumber(L, 3, 60);
  lua_Integer parts = (lua_Integer)lua_rawlen(L, 2);
  luaL_argcheck(L, parts >= 1 && parts <= 1 << 20, 2, "1 to 2^20 parts");
  int *ends = lua_newuserdatauv(L, (size_t)parts * sizeof *ends, 0);
  for (lua_Integer i = 0; i < parts; i++) {
    lua_rawgeti(L, 2, i + 1);
    const lua_Integer end = ett_lua_integer_item(L, "ends", i + 1);
    ends[i] = end < 0 || end > INT_MAX ? -1 : (int)end;
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
  ett_cuda_work *work = check_work(L, 1);
  double limit = luaL_optnumber(L, 2, 60);
  ett_cuda_kernel_time *times = lua_newuserdatauv(L, ROOM * sizeof *times, 0);
  ett_err err = {ETT_OK, ""};
  int count = ett_cuda_profile(work, limit, times, ROOM, &err);
  if (count < 0)
    return ett_lua_fail(L, &err);
  lua_newtable(L);
  for (int i = 0; i < count && i < ROOM; i++) {
    lua_createtable(L, 0, 2);
    ett_lua_set_string(L, "name", times[i].name);
    ett_lua_set_number(L, "seconds", times[i].seconds);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"available", available}, {"compile", compile}, {"open", open_device},
    {"versions", versions},   {NULL, NULL},
};

static const luaL_Reg device_methods[] = {
    {"info", device_info}, {"lost", device_lost}, {"work", device_work},
    {"peer", device_peer}, {NULL, NULL},
};

static const luaL_Reg work_methods[] = {
    {"tensor", work_tensor},
    {"view", work_view},
    {"kernel", work_kernel},
    {"gemm", work_gemm},
    {"attention", work_attention},
    {"fill", work_fill},
    {"ready", work_ready},
    {"time", work_time},
    {"run", work_run},
    {"launches", work_launches},
    {"time_parts", work_time_parts},
    {"read", work_read},
    {"profile", work_profile},
    {"write", work_write},
    {NULL, NULL},
};

int luaopen_ett_cuda(lua_State *L);
int luaopen_ett_cuda(lua_State *L) {
  ett_lua_type(L, DEVICE_TYPE, device_methods, device_close);
  ett_lua_type(L, WORK_TYPE, work_methods, work_close);
  luaL_newlib(L, functions);
  return 1;
}
