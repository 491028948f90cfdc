/* ett.nccl: collectives of samplers/nccl. */
#include <limits.h>
#include <string.h>

#include "bind/common.h"
#include "samplers/nccl/nccl.h"

#define COMM_TYPE "ett.nccl.comm"

static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter",
                                    "all_to_all", "send_recv",  "broadcast",
                                    NULL};
static const char *const dtypes[] = {"fp16", "bf16", "fp32", "fp8", "int64", NULL};

typedef struct comm_box {
  ett_nccl *comm;         /* NULL once closed */
  ett_cuda_device device; /* owns a reference to the primary context */
} comm_box;

static int close_box(lua_State *L) {
  comm_box *box = luaL_checkudata(L, 1, COMM_TYPE);
  ett_nccl_close(box->comm);
  box->comm = NULL;
  ett_cuda_device_close(&box->device);
  return 0;
}

/* available() -> version of NCCL | nil, error object */
static int available(lua_State *L) {
  ett_err err = {ETT_OK, ""};
  int version = ett_nccl_version(&err);
  if (version < 0)
    return ett_lua_fail(L, &err);
  lua_pushinteger(L, version);
  return 1;
}

/* unique_id() -> 128 bytes for rank 0 to send to the others | nil, error object */
static int unique_id(lua_State *L) {
  char id[ETT_NCCL_ID_BYTES];
  ett_err err = {ETT_OK, ""};
  if (ett_nccl_unique_id(id, &err) != 0)
    return ett_lua_fail(L, &err);
  lua_pushlstring(L, id, sizeof id);
  return 1;
}

/* open{device=0, rank=, size=, id=} -> communicator | nil, error object */
static int open_comm(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  int ordinal = (int)ett_lua_range_field(L, 1, "device", 0, 0, INT_MAX);
  int size = (int)ett_lua_range_field(L, 1, "size", 0, 1, INT_MAX);
  int rank = (int)ett_lua_range_field(L, 1, "rank", -1, 0, size - 1);
  size_t length = 0;
  ett_lua_raw_field(L, 1, "id");
  const char *id = lua_tolstring(L, -1, &length);
  luaL_argcheck(L, id && length == ETT_NCCL_ID_BYTES, 1, "'id' must have 128 bytes");
  comm_box *box = lua_newuserdatauv(L, sizeof *box, 0);
  memset(box, 0, sizeof *box);
  luaL_setmetatable(L, COMM_TYPE);
  ett_err err = {ETT_OK, ""};
  if (ett_cuda_device_open(&box->device, ordinal, &err) != 0)
    return ett_lua_fail(L, &err);
  box->comm = ett_nccl_open(&box->device, rank, size, id, &err);
  return box->comm ? 1 : ett_lua_fail(L, &err);
}

static int index_field(lua_State *L, const char *field, const char *fallback,
                       const char *const *names) {
  const char *name = ett_lua_string_field(L, 2, field, fallback);
  for (int i = 0; name && names[i]; i++)
    if (strcmp(name, names[i]) == 0)
      return i;
  return luaL_error(L, "unknown %s '%s'", field, name ? name : "nil");
}

static comm_box *check_comm(lua_State *L) {
  comm_box *box = luaL_checkudata(L, 1, COMM_TYPE);
  luaL_argcheck(L, box->comm != NULL, 1, "the communicator is closed");
  luaL_checktype(L, 2, LUA_TTABLE);
  return box;
}

static ett_nccl_request read_request(lua_State *L) {
  ett_nccl_request request = {
      .kind = (ett_nccl_kind)index_field(L, "kind", NULL, kinds),
      .count = ett_lua_integer_field(L, 2, "count", 0),
      .dtype = (ett_cuda_dtype)index_field(L, "dtype", "bf16", dtypes),
      .in_place = ett_lua_boolean_field(L, 2, "in_place", 0),
      .repeats = (int)ett_lua_range_field(L, 2, "repeats", 10, 1, 100000),
      .time_limit_seconds = ett_lua_number_field(L, 2, "time_limit_seconds", 60),
  };
  return request;
}

/* comm:prepare{…} -> true | nil, error object: checks the fields of time{…} and allocates
 * its buffers */
static int prepare(lua_State *L) {
  comm_box *box = check_comm(L);
  ett_nccl_request request = read_request(L);
  ett_err err = {ETT_OK, ""};
  return ett_lua_result(L, ett_nccl_prepare(box->comm, &request, &err), &err);
}

/* comm:time{kind=, count=, dtype="bf16", in_place=false, repeats=10,
 * time_limit_seconds=60} -> {seconds, …} of this rank | nil, error object */
static int time_collective(lua_State *L) {
  comm_box *box = check_comm(L);
  ett_nccl_request request = read_request(L);
  double *seconds = lua_newuserdatauv(L, (size_t)request.repeats * sizeof *seconds, 0);
  ett_err err = {ETT_OK, ""};
  if (ett_nccl_time(box->comm, &request, seconds, &err) != 0)
    return ett_lua_fail(L, &err);
  ett_lua_push_doubles(L, seconds, (size_t)request.repeats);
  return 1;
}

static const luaL_Reg functions[] = {
    {"available", available},
    {"unique_id", unique_id},
    {"open", open_comm},
    {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"prepare", prepare},
    {"time", time_collective},
    {NULL, NULL},
};

int luaopen_ett_nccl(lua_State *L);
int luaopen_ett_nccl(lua_State *L) {
  ett_lua_type(L, COMM_TYPE, methods, close_box);
  luaL_newlib(L, functions);
  return 1;
}
