/* ett.bulk: sums for metrics (runtime/trace/query/bulk.h). */
#include <math.h>

#include "bind/trace/trace.h"
#include "trace/query/bulk.h"

/* Two selections of the same trace with equal lengths: rows and their launches. */
static const ett_trace *check_pair(lua_State *L, const ett_selection **rows,
                                   const ett_selection **calls) {
  const ett_lua_selection *x = ett_lua_check_selection(L, 1);
  const ett_lua_selection *y = ett_lua_check_selection(L, 2);
  luaL_argcheck(L, x->t == y->t, 2, "must be a selection of the same trace");
  luaL_argcheck(L, x->s.count == y->s.count, 2,
                "must be as long as the first selection (rows:match(…))");
  *rows = &x->s;
  *calls = &y->s;
  return x->t;
}

/* bulk.launches(rows, calls) -> { launched, short_rows, delay_sum, … } in ticks */
static int bulk_launches(lua_State *L) {
  const ett_selection *rows, *calls;
  const ett_trace *t = check_pair(L, &rows, &calls);
  ett_launch_stats s;
  ett_lua_check_memory(L,
                       ett_launch_stats_of(&s, t, rows->rows, calls->rows, rows->count));
  lua_createtable(L, 0, 11);
  ett_lua_set_integer(L, "rows", (int64_t)s.rows);
  ett_lua_set_integer(L, "launched", (int64_t)s.launched);
  ett_lua_set_integer(L, "short_rows", (int64_t)s.short_rows);
  ett_lua_set_number(L, "delay_sum", s.delay_sum);
  ett_lua_set_number(L, "call_sum", s.call_sum);
  ett_lua_set_integer(L, "delay_p50", s.delay_p50);
  ett_lua_set_integer(L, "delay_p95", s.delay_p95);
  ett_lua_set_integer(L, "delay_max", s.delay_max);
  ett_lua_set_integer(L, "queue_most", s.queue_most);
  ett_lua_set_number(L, "queue_ticks", s.queue_ticks);
  if (!isnan(s.queue_mean))
    ett_lua_set_number(L, "queue_mean", s.queue_mean);
  return 1;
}

/* bulk.idle(rows in order of start, calls, gaps) -> host, device, unknown in ticks */
static int bulk_idle(lua_State *L) {
  const ett_selection *rows, *calls;
  const ett_trace *t = check_pair(L, &rows, &calls);
  const ett_intervals *gaps = luaL_checkudata(L, 3, ETT_LUA_INTERVAL);
  ett_idle_causes causes;
  ett_idle_causes_of(&causes, t, rows->rows, calls->rows, rows->count, gaps);
  lua_pushinteger(L, causes.host);
  lua_pushinteger(L, causes.device);
  lua_pushinteger(L, causes.unknown);
  return 3;
}

/* bulk.weighted(rows, arg, cap) -> sum of min(cap, value) x duration, and the duration of
 * the rows with the arg (ticks) */
static int bulk_weighted(lua_State *L) {
  const ett_lua_selection *x = ett_lua_check_selection(L, 1);
  const uint32_t arg = ett_lua_arg_column(L, x->t, luaL_checkstring(L, 2));
  const double cap = luaL_optnumber(L, 3, HUGE_VAL);
  double weighted, ticks;
  ett_arg_weighted(x->t, x->s.rows, x->s.count, arg, cap, &weighted, &ticks);
  lua_pushnumber(L, weighted);
  lua_pushnumber(L, ticks);
  return 2;
}

/* bulk.covered(rows, arg, cap, from, to) -> sum over time of min(cap, sum of the arg over
 * the rows that run) (ticks) */
static int bulk_covered(lua_State *L) {
  const ett_lua_selection *x = ett_lua_check_selection(L, 1);
  const uint32_t arg = ett_lua_arg_column(L, x->t, luaL_checkstring(L, 2));
  const double cap = luaL_checknumber(L, 3);
  double covered;
  ett_lua_check_memory(L, ett_arg_covered(x->t, x->s.rows, x->s.count, arg, cap,
                                          luaL_checkinteger(L, 4),
                                          luaL_checkinteger(L, 5), &covered));
  lua_pushnumber(L, covered);
  return 1;
}

/* bulk.sorted(list of integers or of floats) -> a sorted copy; nil for other lists */
static int bulk_sorted(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const size_t n = lua_rawlen(L, 1);
  double *numbers = lua_newuserdatauv(L, (2 * n + 1) * sizeof *numbers, 0);
  const int64_t most = INT64_C(1) << 53;
  size_t integers = 0;
  for (size_t i = 0; i < n; i++) {
    if (lua_rawgeti(L, 1, (lua_Integer)i + 1) != LUA_TNUMBER)
      return 0;
    if (lua_isinteger(L, -1)) {
      lua_Integer v = lua_tointeger(L, -1);
      if (v > most || v < -most)
        return 0;
      integers++;
    }
    numbers[i] = lua_tonumber(L, -1);
    if (isnan(numbers[i]))
      return 0;
    lua_pop(L, 1);
  }
  if (integers != 0 && integers != n)
    return 0;
  ett_sort_numbers(numbers, numbers + n, n);
  lua_createtable(L, n < 1 << 24 ? (int)n : 0, 0);
  for (size_t i = 0; i < n; i++) {
    if (integers)
      lua_pushinteger(L, (lua_Integer)numbers[i]);
    else
      lua_pushnumber(L, numbers[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"sorted", bulk_sorted},     {"launches", bulk_launches}, {"idle", bulk_idle},
    {"weighted", bulk_weighted}, {"covered", bulk_covered},   {NULL, NULL},
};

int luaopen_ett_bulk(lua_State *L);

int luaopen_ett_bulk(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
