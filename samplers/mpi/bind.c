/* ett.dist: ranks, groups, collectives on tensors, shared work. */
#include "samplers/core/bind.h"

#include <string.h>

#include "samplers/mpi/dist.h"

#define GROUP_TYPE "ett.dist.group"
#define WORK_TYPE "ett.dist.work"

enum { MOST_REPEATS = 1 << 20 };

typedef struct {
  ett_dist_group group;
  int is_world;
} group_box;

static const ett_dist_job *job_of(lua_State *L) {
  ett_err err = {0};
  const ett_dist_job *job = ett_dist_open(&err);
  if (!job)
    ett_lua_raise(L, &err);
  return job;
}

static ett_dist_group *check_group(lua_State *L) {
  group_box *b = luaL_checkudata(L, 1, GROUP_TYPE);
  if (b->group.comm == MPI_COMM_NULL)
    luaL_error(L, "this rank is not in the group");
  return &b->group;
}

/* dist.open() -> job table { world=, rank=, size=, node=, nodes=, local_rank=,
 * ranks_per_node=, library= } */
static int open_job(lua_State *L) {
  const ett_dist_job *job = job_of(L);
  lua_createtable(L, 0, 8);
  group_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->group = job->world;
  b->is_world = 1;
  luaL_setmetatable(L, GROUP_TYPE);
  lua_setfield(L, -2, "world");
  ett_lua_set_integer(L, "rank", job->world.rank);
  ett_lua_set_integer(L, "size", job->world.size);
  ett_lua_set_integer(L, "node", job->node);
  ett_lua_set_integer(L, "nodes", job->nodes);
  ett_lua_set_integer(L, "local_rank", job->local_rank);
  ett_lua_set_integer(L, "ranks_per_node", job->ranks_per_node);
  ett_lua_set_string(L, "library", job->library);
  return 1;
}

/* dist.leave(): see ett_dist_leave */
static int leave(lua_State *L) {
  (void)L;
  ett_dist_leave();
  return 0;
}

/* dist.abort([status]): ends every rank of the job; names this rank on standard error */
static int abort_job(lua_State *L) {
  MPI_Abort(MPI_COMM_WORLD, (int)luaL_optinteger(L, 1, 1));
  return 0;
}

/* group:split(color, key) -> group; color < 0 excludes this rank */
static int split(lua_State *L) {
  ett_dist_group *parent = check_group(L);
  int color = (int)luaL_checkinteger(L, 2), key = (int)luaL_optinteger(L, 3, 0);
  group_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->group.comm = MPI_COMM_NULL;
  b->is_world = 0;
  luaL_setmetatable(L, GROUP_TYPE);
  ett_err err = {0};
  if (ett_dist_split(parent, color, key, &b->group, &err) != 0)
    return ett_lua_raise(L, &err);
  return 1;
}

static int group_close(lua_State *L) {
  group_box *b = luaL_checkudata(L, 1, GROUP_TYPE);
  if (!b->is_world)
    ett_dist_group_free(&b->group);
  b->group.comm = MPI_COMM_NULL;
  return 0;
}

static int is_member(lua_State *L) {
  group_box *b = luaL_checkudata(L, 1, GROUP_TYPE);
  lua_pushboolean(L, b->group.comm != MPI_COMM_NULL);
  return 1;
}

static int rank(lua_State *L) {
  lua_pushinteger(L, check_group(L)->rank);
  return 1;
}

static int size(lua_State *L) {
  lua_pushinteger(L, check_group(L)->size);
  return 1;
}

static int barrier(lua_State *L) {
  MPI_Barrier(check_group(L)->comm);
  return 0;
}

/* group:run(kind, out [, in]): a collective of max(#out, #in) elements; in place without
 * in. */
static int run(lua_State *L) {
  ett_dist_group *g = check_group(L);
  int kind = ett_dist_collective_find(luaL_checkstring(L, 2));
  luaL_argcheck(L, kind >= 0, 2, "unknown collective");
  ett_tensor *out = ett_lua_tensor(L, 3);
  ett_tensor *in = lua_isnoneornil(L, 4) ? out : ett_lua_tensor(L, 4);
  size_t count = in->count > out->count ? in->count : out->count;
  size_t share = count / (size_t)g->size;
  size_t need_in = kind == ETT_DIST_ALL_GATHER && in != out ? share : count;
  size_t need_out = kind == ETT_DIST_REDUCE_SCATTER && in != out ? share : count;
  if (in->count < need_in || out->count < need_out)
    return luaL_error(L, "tensors of %I and %I elements do not fit the collective",
                      (LUAI_UACINT)in->count, (LUAI_UACINT)out->count);
  ett_err err = {0};
  if (ett_dist_run(g, (ett_dist_collective)kind, in->data, out->data, count, &err) != 0)
    return ett_lua_raise(L, &err);
  return 0;
}

/* group:agree(number) -> the maximum over the ranks; waiting ranks sleep */
static int agree(lua_State *L) {
  lua_pushnumber(L, ett_dist_agree(check_group(L), luaL_checknumber(L, 2)));
  return 1;
}

/* The rank at index, another one of the group. */
static int check_other(lua_State *L, int index, const ett_dist_group *g) {
  const lua_Integer other = luaL_checkinteger(L, index);
  luaL_argcheck(L, other >= 0 && other < g->size && other != g->rank, index,
                "no such rank");
  return (int)other;
}

/* group:send(tensor, rank), group:receive(tensor, rank) */
static int transfer(lua_State *L, int sending) {
  ett_dist_group *g = check_group(L);
  ett_tensor *t = ett_lua_tensor(L, 2);
  int other = check_other(L, 3, g);
  luaL_argcheck(L, t->count <= 0x7fffffff, 2, "more than 2^31 - 1 elements");
  if (sending)
    MPI_Send(t->data, (int)t->count, MPI_FLOAT, other, 12, g->comm);
  else
    MPI_Recv(t->data, (int)t->count, MPI_FLOAT, other, 12, g->comm, MPI_STATUS_IGNORE);
  return 0;
}

static int send_tensor(lua_State *L) {
  return transfer(L, 1);
}
static int receive_tensor(lua_State *L) {
  return transfer(L, 0);
}

/* group:exchange(sent, received, rank): sends and receives at once, so that two stages
 * that send to each other do not deadlock */
static int exchange(lua_State *L) {
  ett_dist_group *g = check_group(L);
  ett_tensor *out = ett_lua_tensor(L, 2), *in = ett_lua_tensor(L, 3);
  int other = check_other(L, 4, g);
  luaL_argcheck(L, out->count <= 0x7fffffff && in->count <= 0x7fffffff, 2, "too long");
  MPI_Sendrecv(out->data, (int)out->count, MPI_FLOAT, other, 12, in->data, (int)in->count,
               MPI_FLOAT, other, 12, g->comm, MPI_STATUS_IGNORE);
  return 0;
}

/* group:reduce(number, "max"|"sum"|"min") -> number on every rank */
static int reduce(lua_State *L) {
  static const char *const names[] = {"max", "sum", "min", NULL};
  ett_dist_group *g = check_group(L);
  double value = luaL_checknumber(L, 2);
  MPI_Op ops[] = {MPI_MAX, MPI_SUM, MPI_MIN};
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE,
                ops[luaL_checkoption(L, 3, "max", names)], g->comm);
  lua_pushnumber(L, value);
  return 1;
}

/* group:share_text(text [, rank]) -> the text of that rank (default 0) */
static int share_text(lua_State *L) {
  ett_dist_group *g = check_group(L);
  size_t bytes = 0;
  const char *text = luaL_optlstring(L, 2, "", &bytes);
  const lua_Integer from = luaL_optinteger(L, 3, 0);
  luaL_argcheck(L, from >= 0 && from < g->size, 3, "no such rank");
  unsigned long long n = bytes;
  MPI_Bcast(&n, 1, MPI_UNSIGNED_LONG_LONG, (int)from, g->comm);
  if (n > 0x7fffffff)
    return luaL_error(L, "more than 2 GB of text");
  char *copy = lua_newuserdatauv(L, (size_t)n + 1, 0);
  if (g->rank == (int)from)
    memcpy(copy, text, bytes);
  MPI_Bcast(copy, (int)n, MPI_BYTE, (int)from, g->comm);
  lua_pushlstring(L, copy, (size_t)n);
  return 1;
}

/* group:time{ kind=, count=, in_place=, min_repeats=, max_repeats=, budget_seconds=,
 * target=, keep_raw= } -> result | nil, error */
static int time_collective(lua_State *L) {
  ett_dist_group *g = check_group(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  int kind = ett_dist_collective_find(ett_lua_string_field(L, 2, "kind", ""));
  luaL_argcheck(L, kind >= 0, 2, "unknown collective");
  lua_Integer count = ett_lua_integer_field(L, 2, "count", 0);
  luaL_argcheck(L, count >= 1, 2, "count must be positive");
  ett_dist_time_options options = {
      .min_repeats = (int)ett_lua_range_field(L, 2, "min_repeats", 0, 0, MOST_REPEATS),
      .max_repeats = (int)ett_lua_range_field(L, 2, "max_repeats", 100, 1, MOST_REPEATS),
      .budget_seconds = ett_lua_number_field(L, 2, "budget_seconds", 0),
      .target = ett_lua_number_field(L, 2, "target", 0),
      .in_place = ett_lua_boolean_field(L, 2, "in_place", 0),
  };
  const int keep = ett_lua_boolean_field(L, 2, "keep_raw", 0);
  if (keep)
    options.raw =
        lua_newuserdatauv(L, (size_t)options.max_repeats * sizeof *options.raw, 0);
  ett_dist_timing t;
  ett_err err = {0};
  if (ett_dist_time(job_of(L), g, (ett_dist_collective)kind, (size_t)count, &options, &t,
                    &err) != 0)
    return ett_lua_fail(L, &err);
  lua_createtable(L, 0, 6);
  ett_lua_set_number(L, "seconds", t.stats.low_mean);
  ett_lua_set_number(L, "min_seconds", t.stats.min);
  ett_lua_set_number(L, "median_seconds", t.stats.median);
  ett_lua_set_number(L, "half_width_seconds", t.stats.half_width);
  ett_lua_set_integer(L, "repeats", t.repeats);
  ett_lua_set_integer(L, "dropped", t.dropped);
  ett_lua_set_boolean(L, "preempted", t.late);
  if (keep) {
    ett_lua_set_doubles(L, "raw_seconds", options.raw, (size_t)t.used);
  }
  return 1;
}

/* group:work(journal or nil, count) -> work; journal: that of rank 0; nil: nothing is
 * committed */
static int work_new(lua_State *L) {
  ett_dist_group *g = check_group(L);
  ett_sample_journal *journal = NULL;
  if (g->rank == 0 && !lua_isnoneornil(L, 2))
    journal = ett_lua_box_check(L, 2, ETT_JOURNAL_TYPE, "journal");
  lua_Integer count = luaL_checkinteger(L, 3);
  void **box = ett_lua_box_new(L, WORK_TYPE);
  ett_err err = {0};
  *box = ett_dist_work_open(g, journal, count, &err);
  return *box ? 1 : ett_lua_raise(L, &err);
}

/* Call it after all that allocates: the work's `close`, which frees it, also runs in a
 * finaliser, because the collector does not close a work. */
static ett_dist_work *check_work(lua_State *L) {
  return ett_lua_box_check(L, 1, WORK_TYPE, "work");
}

/* work:take([hints [, ahead]]) -> position or nil, hints of the other ranks */
static int work_take(lua_State *L) {
  ett_err err = {0};
  size_t bytes = 0, length = 0;
  const char *text = luaL_optlstring(L, 2, "", &bytes);
  ett_dist_work *work = check_work(L);
  char *others = NULL;
  int64_t position =
      ett_dist_work_take(work, text, bytes, lua_toboolean(L, 3), &others, &length, &err);
  if (position < 0)
    return ett_lua_raise(L, &err);
  if (position == 0)
    lua_pushnil(L);
  else
    lua_pushinteger(L, position);
  ett_lua_push_freed(L, others, length);
  return 2;
}

/* work:tell(hints) -> whether the hints were sent, hints of the other ranks */
static int work_tell(lua_State *L) {
  ett_err err = {0};
  size_t bytes, length;
  const char *text = luaL_checklstring(L, 2, &bytes);
  ett_dist_work *work = check_work(L);
  char *others;
  int taken = ett_dist_work_tell(work, text, bytes, &others, &length, &err);
  if (taken < 0)
    return ett_lua_raise(L, &err);
  lua_pushboolean(L, taken);
  ett_lua_push_freed(L, others, length);
  return 2;
}

static int work_commit(lua_State *L) {
  size_t bytes;
  const char *text = luaL_checklstring(L, 2, &bytes);
  ett_dist_work *w = check_work(L);
  ett_err err = {0};
  if (ett_dist_work_commit(w, text, bytes, &err) != 0)
    return ett_lua_raise(L, &err);
  return 0;
}

/* work:count() -> positions committed to rank 0, number of failures among them */
static int work_count(lua_State *L) {
  int64_t committed, failed;
  ett_dist_work_count(check_work(L), &committed, &failed);
  lua_pushinteger(L, committed);
  lua_pushinteger(L, failed);
  return 2;
}

ETT_LUA_CLOSE(work_close, WORK_TYPE, ett_dist_work_close)

static const luaL_Reg group_methods[] = {
    {"split", split},
    {"is_member", is_member},
    {"rank", rank},
    {"size", size},
    {"barrier", barrier},
    {"run", run},
    {"send", send_tensor},
    {"receive", receive_tensor},
    {"exchange", exchange},
    {"reduce", reduce},
    {"agree", agree},
    {"share_text", share_text},
    {"time", time_collective},
    {"work", work_new},
    {NULL, NULL},
};

static const luaL_Reg work_methods[] = {
    {"take", work_take},   {"tell", work_tell},   {"commit", work_commit},
    {"count", work_count}, {"close", work_close}, {"__close", work_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", open_job},
    {"leave", leave},
    {"abort", abort_job},
    {NULL, NULL},
};

int luaopen_ett_dist(lua_State *L);
int luaopen_ett_dist(lua_State *L) {
  ett_lua_type(L, GROUP_TYPE, group_methods, group_close);
  ett_lua_type(L, WORK_TYPE, work_methods,
               NULL); /* no __gc, because closing waits for other ranks */
  luaL_newlib(L, functions);
  return 1;
}
