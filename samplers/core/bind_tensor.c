/* ett.sample: tensors of floats. Several share one block of huge pages. */
#include "samplers/core/bind.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/random.h"
#include "samplers/core/memory.h"

/* A memory block shared by several tensors, and their user value. */
typedef struct {
  char *at; /* first: ett_lua_tensor reads it */
  size_t bytes, used;
} block;

#define BLOCK_TYPE "ett.tensor.block"
/* Registry key of a weak table: the current block, and the number of blocks so far. */
static const char current_block;

static int block_free(lua_State *L) {
  block *b = luaL_checkudata(L, 1, BLOCK_TYPE);
  ett_sample_pages_free(b->at, b->bytes);
  b->at = NULL;
  b->used = b->bytes; /* no new tensor uses it */
  return 0;
}

/* Under AddressSanitizer every tensor has a block of its own, which detects accesses
 * outside of it. */
#if defined(__SANITIZE_ADDRESS__)
enum { BLOCK_BYTES = 1, STARTS = 1, GAP = 0 };
#else
enum { BLOCK_BYTES = 16 << 20, STARTS = 4096 / ETT_SAMPLE_GAP, GAP = ETT_SAMPLE_GAP };
#endif

/* Pushes the table and a block with at least `bytes` free; a new block becomes the
 * current one. */
static block *block_with(lua_State *L, size_t bytes) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &current_block);
  if (lua_rawgeti(L, -1, 1) == LUA_TUSERDATA) {
    block *b = lua_touserdata(L, -1);
    if (b->bytes - b->used >= bytes)
      return b;
  }
  lua_pop(L, 1);
  lua_rawgeti(L, -1, 2);
  const lua_Integer before = lua_tointeger(L, -1);
  lua_pop(L, 1);
  lua_pushinteger(L, before + 1);
  lua_rawseti(L, -2, 2);
  /* Large tensors with blocks of their own also start at different page offsets. */
  const size_t start = (size_t)(before % STARTS) * ETT_SAMPLE_GAP;
  block *b = lua_newuserdatauv(L, sizeof *b, 0);
  *b = (block){NULL, start + bytes > BLOCK_BYTES ? start + bytes : BLOCK_BYTES, start};
  luaL_setmetatable(L, BLOCK_TYPE);
  b->at = ett_sample_pages_new(b->bytes);
  if (!b->at)
    luaL_error(L, "out of memory: a tensor of %I elements",
               (LUAI_UACINT)(bytes / sizeof(float)));
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, 1);
  return b;
}

/* sample.tensor(count) -> zeroed tensor, aligned to 64 bytes and placed ETT_SAMPLE_GAP
 * after the previous one */
static int tensor_new(lua_State *L) {
  lua_Integer count = luaL_checkinteger(L, 1);
  luaL_argcheck(L, count >= 1 && count <= (lua_Integer)1 << 40, 1, "1 to 2^40 elements");
  const size_t bytes = ((size_t)count * sizeof(float) + 63) / 64 * 64 + GAP;
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

/* tensor:view(first from 1, count) shares the memory, also after the tensor is closed. */
static int tensor_view(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1);
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
  lua_getiuservalue(L, 1, 1);
  lua_setiuservalue(L, -2, 1); /* the block, as in tensor_new */
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
  lua_pushinteger(L, (lua_Integer)ett_lua_tensor(L, 1)->count);
  return 1;
}

static size_t check_position(lua_State *L, const ett_tensor *t, int index) {
  lua_Integer i = luaL_checkinteger(L, index);
  luaL_argcheck(L, i >= 1 && (size_t)i <= t->count, index, "outside the tensor");
  return (size_t)i - 1;
}

static int tensor_get(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1);
  lua_pushnumber(L, t->data[check_position(L, t, 2)]);
  return 1;
}

static int tensor_set(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1);
  t->data[check_position(L, t, 2)] = (float)luaL_checknumber(L, 3);
  return 0;
}

/* tensor:fill(value) */
static int tensor_fill(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1);
  const float value = (float)luaL_checknumber(L, 2);
  for (size_t i = 0; i < t->count; i++)
    t->data[i] = value;
  lua_settop(L, 1);
  return 1;
}

/* tensor:normal(seed, deviation): seeded normal deviates (Box and Muller 1958) */
static int tensor_normal(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1);
  uint64_t state = (uint64_t)luaL_checkinteger(L, 2) * 0x2545f4914f6cdd1du;
  const double deviation = luaL_checknumber(L, 3);
  for (size_t i = 0; i < t->count; i++) {
    double u = (double)((ett_random(&state) >> 11) + 1) * 0x1p-53;
    double v = (double)(ett_random(&state) >> 11) * 0x1p-53;
    t->data[i] = (float)(deviation * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
  lua_settop(L, 1);
  return 1;
}

/* tensor:integers(list): int32 bit patterns for index operands. */
static int tensor_integers(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, lua_rawlen(L, 2) <= t->count, 2, "more integers than elements");
  int32_t *out = (int32_t *)(void *)t->data;
  for (size_t i = 0; i < lua_rawlen(L, 2); i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    const lua_Integer value = ett_lua_integer_item(L, "integers", (lua_Integer)i + 1);
    luaL_argcheck(L, value >= INT32_MIN && value <= INT32_MAX, 2,
                  "must hold 32-bit integers");
    out[i] = (int32_t)value;
    lua_pop(L, 1);
  }
  lua_settop(L, 1);
  return 1;
}

static int tensor_integer(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1);
  lua_pushinteger(L, ((int32_t *)(void *)t->data)[check_position(L, t, 2)]);
  return 1;
}

/* tensor:copy(other): the first min(#tensor, #other) elements. */
static int tensor_copy(lua_State *L) {
  ett_tensor *t = ett_lua_tensor(L, 1), *from = ett_lua_tensor(L, 2);
  size_t n = t->count < from->count ? t->count : from->count;
  memmove(t->data, from->data, n * sizeof(float));
  lua_settop(L, 1);
  return 1;
}

static int tensor_sum(lua_State *L) {
  const ett_tensor *t = ett_lua_tensor(L, 1);
  double sum = 0;
  for (size_t i = 0; i < t->count; i++)
    sum += t->data[i];
  lua_pushnumber(L, sum);
  return 1;
}

static const luaL_Reg block_methods[] = {{"__gc", block_free}, {NULL, NULL}};

static const luaL_Reg tensor_methods[] = {
    {"view", tensor_view},
    {"get", tensor_get},
    {"set", tensor_set},
    {"fill", tensor_fill},
    {"normal", tensor_normal},
    {"copy", tensor_copy},
    {"integers", tensor_integers},
    {"integer", tensor_integer},
    {"sum", tensor_sum},
    {"__len", tensor_length},
    {NULL, NULL},
};

void ett_bind_sample_tensor(lua_State *L) {
  ett_lua_type(L, ETT_TENSOR_TYPE, tensor_methods, tensor_close);
  ett_lua_type(L, BLOCK_TYPE, block_methods, NULL);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &current_block);
  lua_pushcfunction(L, tensor_new);
  lua_setfield(L, -2, "tensor");
}
