/* What goes into a work list: tensors, launches of kernels, products, attention. */
#include <string.h>

#include "samplers/cuda/bind.h"

/* work:tensor{ d1, d2, …, dtype=, fill="normal", high=, seed=0 } -> number
 * | nil, error object */
static int work_tensor(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
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
  const char *fill_name = ett_lua_string_field(L, 2, "fill", "normal");
  ett_cuda_fill fill =
      (ett_cuda_fill)ett_bind_cuda_name(L, fill_name, ett_bind_cuda_fills, "fill");
  ett_cuda_dtype dtype =
      ett_bind_cuda_dtype(L, 2, "dtype", fill == ETT_CUDA_FILL_INDEX ? "int64" : "bf16");
  long long high = ett_lua_integer_field(L, 2, "high", 0);
  uint64_t seed = (uint64_t)ett_lua_integer_field(L, 2, "seed", 0);
  ett_err err = {ETT_OK, ""};
  int index = ett_cuda_work_tensor(work, count, dtype, fill, high, seed, &err);
  if (index < 0)
    return ett_lua_fail(L, &err);
  lua_pushinteger(L, index);
  return 1;
}

/* work:view(tensor, first, count) -> number of a tensor that is `count` elements of
 * another, from its element `first` (from 1) on | nil, error object */
static int work_view(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  int tensor = (int)luaL_checkinteger(L, 2);
  long long first = luaL_checkinteger(L, 3), count = luaL_checkinteger(L, 4);
  ett_err err = {ETT_OK, ""};
  int index = ett_cuda_work_view(work, tensor, first - 1, count, &err);
  if (index < 0)
    return ett_lua_fail(L, &err);
  lua_pushinteger(L, index);
  return 1;
}

static void read_sizes(lua_State *L, const char *field, unsigned sizes[3]) {
  int type = lua_getfield(L, 2, field);
  sizes[0] = sizes[1] = sizes[2] = 1;
  if (type == LUA_TNUMBER) {
    sizes[0] = (unsigned)luaL_checkinteger(L, -1);
  } else if (type == LUA_TTABLE) {
    for (int i = 0; i < 3; i++) {
      if (lua_rawgeti(L, -1, i + 1) != LUA_TNIL)
        sizes[i] = (unsigned)luaL_checkinteger(L, -1);
      lua_pop(L, 1);
    }
  } else {
    luaL_error(L, "field '%s' must be a number or a list of up to three", field);
  }
  lua_pop(L, 1);
}

/* An argument is {tensor=number}, an integer or a float. */
static void read_args(lua_State *L, ett_cuda_kernel *kernel) {
  if (lua_getfield(L, 2, "args") != LUA_TTABLE)
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
      arg->tensor = (int)ett_lua_integer_field(L, -1, "tensor", -1);
    } else if (lua_isinteger(L, -1)) {
      arg->kind = ETT_CUDA_ARG_INTEGER;
      arg->integer = lua_tointeger(L, -1);
    } else {
      arg->kind = ETT_CUDA_ARG_NUMBER;
      arg->number = luaL_checknumber(L, -1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  kernel->arg_count = count;
}

/* work:kernel{source=, name=, label=, first_line=1, grid=, block=, shared=0, args={…}} */
static int work_kernel(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  ett_cuda_kernel kernel;
  memset(&kernel, 0, sizeof kernel);
  kernel.source = ett_lua_string_field(L, 2, "source", NULL);
  kernel.name = ett_lua_string_field(L, 2, "name", NULL);
  kernel.label = ett_lua_string_field(L, 2, "label", kernel.name);
  kernel.first_line = (int)ett_lua_integer_field(L, 2, "first_line", 1);
  luaL_argcheck(L, kernel.source && kernel.name, 2, "needs 'source' and 'name'");
  kernel.shared_bytes = (unsigned)ett_lua_integer_field(L, 2, "shared", 0);
  read_sizes(L, "grid", kernel.grid);
  read_sizes(L, "block", kernel.block);
  read_args(L, &kernel);
  ett_err err = {ETT_OK, ""};
  return ett_bind_cuda_done(L, ett_cuda_work_kernel(work, &kernel, &err), &err);
}

/* work:gemm{a=, b=, c=, m=, n=, k=, batch=1, trans_a=, trans_b=, accumulate=, fast=,
 * autotune=} */
static int work_gemm(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  ett_cuda_gemm gemm = {
      .a = (int)ett_lua_integer_field(L, 2, "a", -1),
      .b = (int)ett_lua_integer_field(L, 2, "b", -1),
      .c = (int)ett_lua_integer_field(L, 2, "c", -1),
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
  return ett_bind_cuda_done(L, ett_cuda_work_gemm(work, &gemm, autotune, &err), &err);
}

/* work:attention{q=, k=, v=, out=, stats=, batch=, heads=, kv_heads=, seq_q=, seq_k=,
 * head_dim=, q_row=0, kv_row=0, out_row=0, causal=, pass="forward"|"backward", dout=,
 * dq=, dk=, dv=} */
static int work_attention(lua_State *L) {
  ett_cuda_work *work = ett_bind_cuda_work(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer heads = ett_lua_integer_field(L, 2, "heads", 0);
  ett_cuda_attention attention = {
      .q = (int)ett_lua_integer_field(L, 2, "q", -1),
      .k = (int)ett_lua_integer_field(L, 2, "k", -1),
      .v = (int)ett_lua_integer_field(L, 2, "v", -1),
      .out = (int)ett_lua_integer_field(L, 2, "out", -1),
      .stats = (int)ett_lua_integer_field(L, 2, "stats", -1),
      .dout = (int)ett_lua_integer_field(L, 2, "dout", -1),
      .dq = (int)ett_lua_integer_field(L, 2, "dq", -1),
      .dk = (int)ett_lua_integer_field(L, 2, "dk", -1),
      .dv = (int)ett_lua_integer_field(L, 2, "dv", -1),
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
  return ett_bind_cuda_done(L, ett_cuda_work_attention(work, &attention, &err), &err);
}

const luaL_Reg ett_bind_cuda_recording[] = {
    {"tensor", work_tensor}, {"view", work_view},           {"kernel", work_kernel},
    {"gemm", work_gemm},     {"attention", work_attention}, {NULL, NULL},
};
