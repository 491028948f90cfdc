/* ett.cuda: devices, run-time compilation and work lists of samplers/cuda. What goes into
 * a work list and what is done with one are in the files beside this one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/bind.h"
#include "samplers/cuda/compile.h"
#include "samplers/cuda/peer.h"

const char *const ett_bind_cuda_dtypes[] = {"fp16", "bf16", "fp32", "fp8", "int64", NULL};
const char *const ett_bind_cuda_fills[] = {"normal", "uniform", "zero", "index", NULL};

int ett_bind_cuda_name(lua_State *L, const char *name, const char *const *names,
                       const char *what) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return luaL_error(L, "unknown %s '%s'", what, name);
}

ett_cuda_dtype ett_bind_cuda_dtype(lua_State *L, int index, const char *field,
                                   const char *fallback) {
  const char *name = ett_lua_string_field(L, index, field, fallback);
  return (ett_cuda_dtype)ett_bind_cuda_name(L, name, ett_bind_cuda_dtypes, "dtype");
}

/* --- ett.cuda ------------------------------------------------------------------- */

/* available() -> number of devices | nil, error object */
static int available(lua_State *L) {
  ett_err err = {ETT_OK, ""};
  int count = ett_cuda_device_count(&err);
  if (count < 0)
    return ett_lua_fail(L, &err);
  lua_pushinteger(L, count);
  return 1;
}

/* compile{source=, label=, first_line=1, dtype="bf16", capability=90} -> cubin (string)
 * | nil, error object with the compiler's whole log in its field `log` */
static int compile(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const char *source = ett_lua_string_field(L, 1, "source", NULL);
  const char *label = ett_lua_string_field(L, 1, "label", "kernel");
  int first_line = (int)ett_lua_integer_field(L, 1, "first_line", 1);
  lua_Integer capability = ett_lua_integer_field(L, 1, "capability", 90);
  ett_cuda_dtype dtype = ett_bind_cuda_dtype(L, 1, "dtype", "bf16");
  luaL_argcheck(L, source != NULL, 1, "missing field 'source'");
  luaL_argcheck(L, capability > 0 && capability < 1000, 1, "impossible 'capability'");
  ett_err err = {ETT_OK, ""};
  void *cubin = NULL;
  char *log = NULL;
  size_t bytes = 0;
  int status = ett_cuda_compile(source, label, first_line, dtype, (int)capability, &cubin,
                                &bytes, &log, &err);
  if (status != 0) {
    int results = ett_lua_fail(L, &err);
    if (log) { /* a raise here would leak a log: memory is nearly gone anyway */
      lua_pushstring(L, log);
      lua_setfield(L, -2, "log");
    }
    free(log);
    return results;
  }
  lua_pushlstring(L, cubin, bytes);
  free(cubin);
  return 1;
}

/* prelude() -> the CUDA C that stands in front of every source */
static int prelude(lua_State *L) {
  lua_pushstring(L, ett_cuda_prelude());
  return 1;
}

/* versions() -> "NVRTC 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0": of those that are there */
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

ett_cuda_device *ett_bind_cuda_device(lua_State *L, int index) {
  ett_cuda_device *device = luaL_checkudata(L, index, DEVICE_TYPE);
  luaL_argcheck(L, device->driver != NULL, index, "the device is closed");
  return device;
}

/* open(ordinal=0) -> device | nil, error object */
static int open_device(lua_State *L) {
  lua_Integer ordinal = luaL_optinteger(L, 1, 0);
  ett_cuda_device *device = lua_newuserdatauv(L, sizeof *device, 0);
  memset(device, 0, sizeof *device);
  luaL_setmetatable(L, DEVICE_TYPE);
  ett_err err = {ETT_OK, ""};
  if (ordinal < 0 || ordinal > 1024 ||
      ett_cuda_device_open(device, (int)ordinal, &err) != 0)
    return ett_lua_fail(L, &err);
  return 1;
}

static int device_close(lua_State *L) {
  ett_cuda_device_close(luaL_checkudata(L, 1, DEVICE_TYPE));
  return 0;
}

/* device:info() -> {name=, capability=, multiprocessors=, clock_hz=, …} */
static int device_info(lua_State *L) {
  const ett_cuda_device *device = ett_bind_cuda_device(L, 1);
  const struct {
    const char *name;
    lua_Integer value;
  } facts[] = {
      {"capability", device->capability},
      {"multiprocessors", device->multiprocessors},
      {"clock_hz", 1000 * (lua_Integer)device->clock_khz},
      {"memory_clock_hz", 1000 * (lua_Integer)device->memory_clock_khz},
      {"l2_bytes", device->l2_bytes},
      {"memory_bytes", (lua_Integer)device->memory_bytes},
      {"driver_version", device->driver_version},
  };
  lua_createtable(L, 0, 8);
  lua_pushstring(L, device->name);
  lua_setfield(L, -2, "name");
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    lua_pushinteger(L, facts[i].value);
    lua_setfield(L, -2, facts[i].name);
  }
  return 1;
}

/* device:lost() -> nil while it can be used, "kernel" when a kernel made it unusable to
 * this process, "device" when it failed by itself */
static int device_lost(lua_State *L) {
  static const char *const names[] = {NULL, "kernel", "device"};
  lua_pushstring(L, names[ett_bind_cuda_device(L, 1)->death]);
  return 1;
}

/* device:peer(other, {bytes=, repeats=5, time_limit_seconds=60}) -> {bandwidth=,
 * direct=}: bytes/s of a one-way copy to another device, and whether it goes over the
 * link between them instead of the host's memory | nil, error object */
static int device_peer(lua_State *L) {
  ett_cuda_device *from = ett_bind_cuda_device(L, 1), *to = ett_bind_cuda_device(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_Integer bytes = ett_lua_integer_field(L, 3, "bytes", 0);
  lua_Integer repeats = ett_lua_integer_field(L, 3, "repeats", 5);
  double limit = ett_lua_number_field(L, 3, "time_limit_seconds", 60);
  luaL_argcheck(L, bytes > 0, 3, "'bytes' must be positive");
  luaL_argcheck(L, repeats > 0 && repeats <= 10000, 3, "'repeats' must be 1 to 10000");
  ett_err err = {ETT_OK, ""};
  ett_cuda_peer peer;
  if (ett_cuda_peer_measure(from, to, (size_t)bytes, (int)repeats, limit, &peer, &err) !=
      0)
    return ett_lua_fail(L, &err);
  lua_createtable(L, 0, 2);
  lua_pushnumber(L, peer.bandwidth);
  lua_setfield(L, -2, "bandwidth");
  lua_pushboolean(L, peer.direct);
  lua_setfield(L, -2, "direct");
  return 1;
}

/* --- work lists ----------------------------------------------------------------- */

ett_cuda_work *ett_bind_cuda_work(lua_State *L, int index) {
  ett_bind_cuda_work_box *box = luaL_checkudata(L, index, WORK_TYPE);
  luaL_argcheck(L, box->work != NULL, index, "the work list is closed");
  lua_getiuservalue(L, index, 1);
  ett_bind_cuda_device(L, -1);
  lua_pop(L, 1);
  return box->work;
}

/* device:work(dtype) -> work */
static int device_work(lua_State *L) {
  ett_cuda_device *device = ett_bind_cuda_device(L, 1);
  const char *name = luaL_optstring(L, 2, "bf16");
  ett_cuda_dtype dtype =
      (ett_cuda_dtype)ett_bind_cuda_name(L, name, ett_bind_cuda_dtypes, "dtype");
  ett_bind_cuda_work_box *box = lua_newuserdatauv(L, sizeof *box, 1);
  box->work = NULL;
  luaL_setmetatable(L, WORK_TYPE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  ett_err err = {ETT_OK, ""};
  box->work = ett_cuda_work_new(device, dtype, &err);
  return box->work ? 1 : ett_lua_fail(L, &err);
}

static int work_close(lua_State *L) {
  ett_bind_cuda_work_box *box = luaL_checkudata(L, 1, WORK_TYPE);
  ett_cuda_work_free(box->work);
  box->work = NULL;
  return 0;
}

int ett_bind_cuda_done(lua_State *L, int status, const ett_err *err) {
  if (status != 0)
    return ett_lua_fail(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

static const luaL_Reg functions[] = {
    {"available", available}, {"compile", compile},   {"open", open_device},
    {"prelude", prelude},     {"versions", versions}, {NULL, NULL},
};

static const luaL_Reg device_methods[] = {
    {"info", device_info}, {"lost", device_lost},   {"work", device_work},
    {"peer", device_peer}, {"close", device_close}, {NULL, NULL},
};

static const luaL_Reg work_methods[] = {
    {"close", work_close},
    {NULL, NULL},
};

static void new_type(lua_State *L, const char *type, const luaL_Reg *methods,
                     lua_CFunction close) {
  luaL_newmetatable(L, type);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, close);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, close);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "locked");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

int luaopen_ett_cuda(lua_State *L);
int luaopen_ett_cuda(lua_State *L) {
  new_type(L, DEVICE_TYPE, device_methods, device_close);
  new_type(L, WORK_TYPE, work_methods, work_close);
  luaL_getmetatable(L, WORK_TYPE);
  lua_getfield(L, -1, "__index");
  luaL_setfuncs(L, ett_bind_cuda_recording, 0);
  luaL_setfuncs(L, ett_bind_cuda_running, 0);
  lua_pop(L, 2);
  luaL_newlib(L, functions);
  return 1;
}
