/* ett.sequence: the collectives of a device as columns, and matching collectives on
 * several ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/trace/trace.h"
#include "trace/query/align.h"
#include "trace/query/matches.h"
#include "trace/query/sequence.h"

#define MATCHES "ett.matches"

/* The columns follow the header; user value 1 holds the types. */
static ett_sequence *new_sequence(lua_State *L, size_t count, bool with_own) {
  const size_t head = sizeof(ett_sequence);
  ett_sequence *s = lua_newuserdatauv(L, head + ett_sequence_bytes(count, with_own), 1);
  memset(s, 0, sizeof *s);
  ett_sequence_place(s, s + 1, count, with_own);
  luaL_setmetatable(L, ETT_LUA_SEQUENCE);
  return s;
}

static ett_sequence *check(lua_State *L, int index) {
  return luaL_checkudata(L, index, ETT_LUA_SEQUENCE);
}

/* The sequence on top of the stack, of item i of a list, counted from 0. */
static const ett_sequence *sequence_item(lua_State *L, size_t i) {
  const ett_sequence *s = luaL_testudata(L, -1, ETT_LUA_SEQUENCE);
  if (!s)
    luaL_error(L, "item %d must be a sequence, got %s", (int)i + 1, luaL_typename(L, -1));
  return s;
}

/* Shares the types of the sequence at index with the one on top of the stack. */
static void share_types(lua_State *L, int index, ett_sequence *s) {
  const ett_sequence *from = check(L, index);
  s->sort_count = from->sort_count;
  s->types = from->types;
  lua_getiuservalue(L, index, 1);
  lua_setiuservalue(L, -2, 1);
}

/* Refines the sorts by the keys of { {rows=, keys=}, … } at index: first the rows already
 * in the sorts, then each source. Pushes the list of the first row of each sort. */
static void number_sorts(lua_State *L, int index, ett_sequence *s) {
  const lua_Integer sources = (lua_Integer)lua_rawlen(L, index);
  for (lua_Integer k = 1; k <= sources; k++) {
    const int top = lua_gettop(L);
    lua_rawgeti(L, index, k);
    luaL_argcheck(L, lua_istable(L, -1), index, "must be a list of { rows=, keys= }");
    ett_lua_raw_field(L, -1, "rows");
    if (!luaL_testudata(L, -1, ETT_LUA_SELECTION))
      luaL_error(L, "'rows' of source %d must be a selection, got %s", (int)k,
                 luaL_typename(L, -1));
    const ett_lua_selection *x = ett_lua_check_selection(L, lua_gettop(L));
    luaL_argcheck(L, x->s.count == s->count, index, "must be rows of the same length");
    ett_lua_raw_field(L, -2, "keys");
    uint32_t n;
    const ett_key *keys = ett_lua_keys(L, lua_gettop(L), x->t, &n);
    const int64_t groups =
        n ? ett_group_numbers(s->sorts, x->t, &x->s, keys, n, true) : 0;
    ett_lua_check_memory(L, groups < 0 ? -1 : 0);
    lua_settop(L, top);
  }
  s->sort_count = 0;
  lua_newtable(L);
  for (size_t i = 0; i < s->count; i++)
    if (s->sorts[i] >= s->sort_count) {
      s->sort_count = s->sorts[i] + 1;
      lua_pushinteger(L, (lua_Integer)i + 1);
      lua_rawseti(L, -2, s->sort_count);
    }
}

/* sequence.of(rows, sources, arg, scale) -> sequence, first of each sort */
static int sequence_of(lua_State *L) {
  const ett_lua_selection *x = ett_lua_check_selection(L, 1);
  const ett_selection *rows = &x->s;
  luaL_checktype(L, 2, LUA_TTABLE);
  const bool own = !lua_isnoneornil(L, 3);
  const uint32_t arg = own ? ett_lua_arg_column(L, x->t, luaL_checkstring(L, 3)) : 0;
  const double scale = luaL_optnumber(L, 4, 1);
  for (size_t i = 0; i < rows->count; i++)
    luaL_argcheck(L, rows->rows[i] != ETT_TRACE_NONE, 1, "must not have holes");
  ett_sequence *s = new_sequence(L, rows->count, own);
  ett_sequence_fill(s, x->t, rows, arg, scale);
  memset(s->sorts, 0, s->count * sizeof *s->sorts);
  number_sorts(L, 2, s);
  return 2;
}

/* s:refined(sources) -> sequence with the sorts of s refined, and the first row of each
 * sort */
static int sequence_refined(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  ett_sequence *x = new_sequence(L, s->count, s->own != NULL);
  memcpy(x->starts, s->starts, ett_sequence_bytes(s->count, s->own != NULL));
  number_sorts(L, 2, x);
  return 2;
}

/* sequence.new(starts, ends, sorts, own), lists of equal length; without sorts, all have
 * one sort; without own ticks, end - start */
static int sequence_new(lua_State *L) {
  lua_settop(L, 4);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  const bool with_sorts = !lua_isnil(L, 3);
  if (with_sorts)
    luaL_checktype(L, 3, LUA_TTABLE);
  const bool with_own = !lua_isnil(L, 4);
  if (with_own)
    luaL_checktype(L, 4, LUA_TTABLE);
  const size_t n = lua_rawlen(L, 1);
  luaL_argcheck(L, lua_rawlen(L, 2) == n, 2, "must be as long as the starts");
  ett_sequence *s = new_sequence(L, n, with_own);
  s->sort_count = n > 0;
  for (size_t i = 0; i < n; i++) {
    s->starts[i] = ett_lua_integer_at(L, 1, (lua_Integer)i + 1);
    s->ends[i] = ett_lua_integer_at(L, 2, (lua_Integer)i + 1);
    const int64_t sort = with_sorts ? ett_lua_integer_at(L, 3, (lua_Integer)i + 1) : 1;
    luaL_argcheck(L, sort >= 1 && sort <= UINT32_MAX, 3, "must hold numbers from 1");
    s->sorts[i] = (uint32_t)sort - 1;
    s->sort_count = s->sorts[i] < s->sort_count ? s->sort_count : s->sorts[i] + 1;
    if (with_own) {
      lua_rawgeti(L, 4, (lua_Integer)i + 1);
      s->own[i] = ett_lua_number_item(L, "own", (lua_Integer)i + 1);
      lua_pop(L, 1);
    }
  }
  return 1;
}

/* One number per sort from the list at index (false and nil are 0), in a userdata left on
 * the stack. */
static uint32_t *numbers_at(lua_State *L, int index, const char *name, uint32_t count) {
  index = lua_absindex(L, index);
  if (!lua_istable(L, index))
    luaL_error(L, "'%s' must be a list, got %s", name, luaL_typename(L, index));
  uint32_t *out = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *out, 0);
  for (uint32_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    const lua_Integer value =
        lua_toboolean(L, -1) ? ett_lua_integer_item(L, name, (lua_Integer)i + 1) : 0;
    if (value < 0 || value > UINT32_MAX)
      luaL_error(L, "'%s[%d]' must be 0 to 2^32 - 1, got %I", name, (int)i + 1,
                 (LUAI_UACINT)value);
    out[i] = (uint32_t)value;
    lua_pop(L, 1);
  }
  return out;
}

/* An offset of items: no sequence has 2^40. */
static int64_t check_offset(lua_State *L, int64_t offset, int index) {
  luaL_argcheck(L, offset > -(INT64_C(1) << 40) && offset < INT64_C(1) << 40, index,
                "must hold offsets of items");
  return offset;
}

/* One byte per sort: whether it is kept. NULL without a list. */
static uint8_t *kept_at(lua_State *L, int index, uint32_t count) {
  if (lua_isnoneornil(L, index))
    return NULL;
  luaL_checktype(L, index, LUA_TTABLE);
  uint8_t *out = lua_newuserdatauv(L, (size_t)count + 1, 0);
  for (uint32_t i = 0; i < count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    out[i] = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
  }
  return out;
}

/* s:typed(list): sets the kernel type of each sort */
static int sequence_typed(lua_State *L) {
  ett_sequence *s = check(L, 1);
  lua_settop(L, 2);
  s->types = numbers_at(L, 2, "types", s->sort_count);
  lua_setiuservalue(L, 1, 1);
  lua_settop(L, 1);
  return 1;
}

static int sequence_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check(L, 1)->count);
  return 1;
}

/* s:split(homes, parts) -> one sequence per part; homes: the part of each sort */
static int sequence_split(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  const lua_Integer parts = luaL_checkinteger(L, 3);
  luaL_argcheck(L, parts >= 0 && parts <= INT32_MAX, 3, "must be a number of parts");
  const uint32_t *homes = numbers_at(L, 2, "homes", s->sort_count);
  for (uint32_t i = 0; i < s->sort_count; i++)
    luaL_argcheck(L, homes[i] <= parts, 2, "must hold numbers of parts");
  size_t *sizes =
      (size_t *)(void *)ett_lua_zeroes(L, ((size_t)parts + 1) * sizeof *sizes);
  ett_sequence_sizes(s, homes, sizes);
  ett_sequence *out = lua_newuserdatauv(L, ((size_t)parts + 1) * sizeof *out, 0);
  lua_createtable(L, (int)parts, 0);
  for (lua_Integer k = 0; k < parts; k++) {
    ett_sequence *part = new_sequence(L, sizes[k], s->own != NULL);
    share_types(L, 1, part);
    out[k] = *part;
    out[k].count = 0;
    lua_rawseti(L, -2, k + 1);
  }
  ett_sequence_split(s, homes, out);
  return 1;
}

/* s:at(i) -> start, end, sort */
static int sequence_at(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  const lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && (size_t)i <= s->count, 2, "no such collective");
  lua_pushinteger(L, s->starts[i - 1]);
  lua_pushinteger(L, s->ends[i - 1]);
  lua_pushinteger(L, (lua_Integer)s->sorts[i - 1] + 1);
  return 3;
}

static int next(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  const lua_Integer i = luaL_checkinteger(L, 2);
  if (i < 0 || (size_t)i >= s->count)
    return 0;
  lua_pushinteger(L, i + 1);
  lua_pushinteger(L, (lua_Integer)s->sorts[i] + 1);
  lua_pushinteger(L, s->starts[i]);
  lua_pushinteger(L, s->ends[i]);
  return 4;
}

/* for i, sort, start, stop in s:iter() do */
static int sequence_iter(lua_State *L) {
  check(L, 1);
  lua_pushcfunction(L, next);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

/* s:intervals(keep) -> interval set */
static int sequence_intervals(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  lua_settop(L, 2);
  const uint8_t *keep = kept_at(L, 2, s->sort_count);
  ett_lua_check_memory(L, ett_sequence_intervals(ett_lua_new_intervals(L), s, keep));
  return 1;
}

/* s:sum(keep, positive) -> own ticks, number */
static int sequence_sum(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  lua_settop(L, 3);
  const uint8_t *keep = kept_at(L, 2, s->sort_count);
  size_t count;
  lua_pushnumber(L, ett_sequence_sum(s, keep, lua_toboolean(L, 3), &count));
  lua_pushinteger(L, (lua_Integer)count);
  return 2;
}

/* s:totals() -> lists by sort: count, count with a duration above 0, ticks, own ticks */
static int sequence_totals(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  const size_t n = s->sort_count;
  int64_t *counts = (int64_t *)(void *)ett_lua_zeroes(L, n * 4 * sizeof *counts);
  int64_t *longer = counts + n, *ticks = longer + n;
  double *own = (double *)(void *)(ticks + n);
  for (size_t i = 0; i < s->count; i++) {
    const uint32_t sort = s->sorts[i];
    counts[sort]++;
    longer[sort] += s->ends[i] > s->starts[i];
    ticks[sort] += s->ends[i] - s->starts[i];
    own[sort] += ett_sequence_own(s, i);
  }
  ett_lua_push_integers(L, counts, n);
  ett_lua_push_integers(L, longer, n);
  ett_lua_push_integers(L, ticks, n);
  ett_lua_push_doubles(L, own, n);
  return 4;
}

/* Appends the number on top of the stack to a sort's list in the table at index. */
static void append(lua_State *L, int index, uint32_t sort) {
  if (lua_rawgeti(L, index, (lua_Integer)sort + 1) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, index, (lua_Integer)sort + 1);
  }
  lua_insert(L, -2);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
}

/* s:durations() -> { [sort] = own ticks of each } */
static int sequence_durations(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  lua_settop(L, 1);
  lua_newtable(L);
  for (size_t i = 0; i < s->count; i++) {
    lua_pushnumber(L, ett_sequence_own(s, i));
    append(L, 2, s->sorts[i]);
  }
  return 1;
}

/* s:changes(kinds) -> lists: kind before, kind after, start - end before; for each
 * collective whose kind differs from the previous one */
static int sequence_changes(lua_State *L) {
  const ett_sequence *s = check(L, 1);
  lua_settop(L, 2);
  const uint32_t *kinds = numbers_at(L, 2, "kinds", s->sort_count);
  for (int i = 0; i < 3; i++)
    lua_newtable(L);
  lua_Integer n = 0;
  for (size_t i = 1; i < s->count; i++) {
    const uint32_t before = kinds[s->sorts[i - 1]], after = kinds[s->sorts[i]];
    if (before == after)
      continue;
    n++;
    lua_pushinteger(L, before);
    lua_rawseti(L, -4, n);
    lua_pushinteger(L, after);
    lua_rawseti(L, -3, n);
    lua_pushinteger(L, s->starts[i] - s->ends[i - 1]);
    lua_rawseti(L, -2, n);
  }
  return 3;
}

/* a:align(b, by_spread, offset) -> { offset, median, second, clock } in ticks, or nil.
 * Without an offset, finds the best one. */
static int sequence_align(lua_State *L) {
  const ett_sequence *a = check(L, 1), *b = check(L, 2);
  const bool by_spread = lua_toboolean(L, 3), given = !lua_isnoneornil(L, 4);
  ett_alignment out = {.found = true,
                       .offset = given ? check_offset(L, luaL_checkinteger(L, 4), 4) : 0};
  ett_lua_check_memory(L, given ? ett_align_at(&out, a, b, out.offset, by_spread)
                                : ett_align(&out, a, b, by_spread));
  if (!out.found)
    return 0;
  lua_createtable(L, 0, 4);
  ett_lua_set_integer(L, "offset", out.offset);
  ett_lua_set_number(L, "median", out.median);
  if (out.has_second)
    ett_lua_set_number(L, "second", out.second);
  if (by_spread)
    ett_lua_set_number(L, "clock", out.clock);
  return 1;
}

/* sequence.spreads({ {sequence, homes}, … }, groups) -> { count, total, min, p50, p95,
 * max } of the own ticks of each group */
static int sequence_spreads(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const size_t n = lua_rawlen(L, 1);
  const lua_Integer groups = luaL_checkinteger(L, 2);
  luaL_argcheck(L, groups >= 0 && groups <= INT32_MAX, 2, "must be a number of groups");
  const ett_sequence **lists = lua_newuserdatauv(L, (n + 1) * sizeof(void *), 0);
  const uint32_t **homes = lua_newuserdatauv(L, (n + 1) * sizeof(void *), 0);
  ett_spread *out = lua_newuserdatauv(L, ((size_t)groups + 1) * sizeof *out, 0);
  lua_createtable(L, (int)n, 0); /* anchors the data of homes */
  const int held = lua_gettop(L);
  for (size_t k = 0; k < n; k++) {
    lua_rawgeti(L, 1, (lua_Integer)k + 1);
    luaL_argcheck(L, lua_istable(L, -1), 1, "must be a list of { sequence, homes }");
    lua_rawgeti(L, -1, 1);
    lists[k] = sequence_item(L, k);
    lua_rawgeti(L, -2, 2);
    uint32_t *mine = numbers_at(L, -1, "homes", lists[k]->sort_count);
    for (uint32_t i = 0; i < lists[k]->sort_count; i++)
      luaL_argcheck(L, mine[i] <= groups, 1, "must hold numbers of groups");
    homes[k] = mine;
    lua_rawseti(L, held, (lua_Integer)k + 1);
    lua_settop(L, held);
  }
  ett_lua_check_memory(L, ett_sequence_spreads(out, (size_t)groups, lists, homes, n));
  lua_createtable(L, (int)groups, 0);
  for (lua_Integer g = 0; g < groups; g++) {
    lua_createtable(L, 0, 6);
    ett_lua_set_integer(L, "count", (lua_Integer)out[g].count);
    if (out[g].count) {
      ett_lua_set_number(L, "total", out[g].total);
      ett_lua_set_number(L, "min", out[g].min);
      ett_lua_set_number(L, "p50", out[g].p50);
      ett_lua_set_number(L, "p95", out[g].p95);
      ett_lua_set_number(L, "max", out[g].max);
    }
    lua_rawseti(L, -2, g + 1);
  }
  return 1;
}

/* ---- matches: user value 1 is the list of sequences ---- */

static ett_matches *check_matches(lua_State *L, int index) {
  return luaL_checkudata(L, index, MATCHES);
}

/* sequence.matches(list, offsets, clocks) -> matches. Item i of the first sequence
 * matches item i + offset of each other one, whose clock is ahead by its `clock`. */
static int sequence_matches(lua_State *L) {
  for (int i = 1; i <= 3; i++)
    luaL_checktype(L, i, LUA_TTABLE);
  lua_settop(L, 3);
  const size_t ranks = lua_rawlen(L, 1);
  luaL_argcheck(L, ranks >= 1 && ranks <= UINT32_MAX, 1, "must hold a sequence");
  int64_t first = 0, last = INT64_MAX;
  for (size_t r = 0; r < ranks; r++) {
    lua_rawgeti(L, 1, (lua_Integer)r + 1);
    const int64_t n = (int64_t)sequence_item(L, r)->count;
    lua_pop(L, 1);
    const int64_t offset = ett_lua_integer_at(L, 2, (lua_Integer)r + 1);
    check_offset(L, offset, 2);
    first = -offset > first ? -offset : first;
    last = n - offset < last ? n - offset : last;
  }
  const size_t count = last > first ? (size_t)(last - first) : 0;
  const size_t head = sizeof(ett_matches) + ranks * 3 * sizeof(int64_t);
  ett_matches *m = lua_newuserdatauv(L, head + count * sizeof(ett_match), 1);
  const ett_sequence **lists = (const ett_sequence **)(void *)(m + 1);
  size_t *firsts = (size_t *)(void *)(lists + ranks);
  int64_t *clocks = (int64_t *)(void *)(firsts + ranks);
  *m = (ett_matches){lists, firsts, clocks, ranks, count, (ett_match *)(clocks + ranks)};
  for (size_t r = 0; r < ranks; r++) {
    lua_rawgeti(L, 1, (lua_Integer)r + 1);
    lists[r] = sequence_item(L, r);
    lua_rawgeti(L, 3, (lua_Integer)r + 1);
    clocks[r] =
        lua_toboolean(L, -1) ? ett_lua_integer_item(L, "clocks", (lua_Integer)r + 1) : 0;
    lua_pop(L, 2);
    firsts[r] = (size_t)(first + ett_lua_integer_at(L, 2, (lua_Integer)r + 1));
  }
  ett_matches_fill(m);
  lua_createtable(L, (int)ranks, 0); /* a copy: the caller may change its list */
  for (size_t r = 0; r < ranks; r++) {
    lua_rawgeti(L, 1, (lua_Integer)r + 1);
    lua_rawseti(L, -2, (lua_Integer)r + 1);
  }
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, MATCHES);
  return 1;
}

static int matches_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check_matches(L, 1)->count);
  return 1;
}

static size_t check_rank(lua_State *L, const ett_matches *m, int index) {
  const lua_Integer r = luaL_checkinteger(L, index);
  luaL_argcheck(L, r >= 1 && (size_t)r <= m->ranks, index, "no such rank");
  return (size_t)r - 1;
}

/* m:at(rank, i) -> start, end, sort of match i on a rank, in the rank's clock */
static int matches_at(lua_State *L) {
  const ett_matches *m = check_matches(L, 1);
  const size_t r = check_rank(L, m, 2);
  const lua_Integer i = luaL_checkinteger(L, 3);
  luaL_argcheck(L, i >= 1 && (size_t)i <= m->count, 3, "no such match");
  const ett_sequence *s = m->lists[r];
  const size_t at = m->first[r] + (size_t)i - 1;
  lua_pushinteger(L, s->starts[at]);
  lua_pushinteger(L, s->ends[at]);
  lua_pushinteger(L, (lua_Integer)s->sorts[at] + 1);
  return 3;
}

static void set_integers(lua_State *L, const char *name, const int64_t *values,
                         size_t count) {
  ett_lua_push_integers(L, values, count);
  lua_setfield(L, -2, name);
}

/* m:lags() -> { lags = { last start - first start, … }, end_spread, transfer, negative
 * (transfers), last, last_lowest (times that a rank started last), waits (of each rank)
 * } */
static int matches_lags(lua_State *L) {
  const ett_matches *m = check_matches(L, 1);
  int64_t *last = (int64_t *)(void *)ett_lua_zeroes(L, 3 * m->ranks * sizeof *last);
  int64_t *lowest = last + m->ranks, *waits = lowest + m->ranks;
  int64_t spread = 0, transfer = 0, negative = 0;
  lua_createtable(L, 0, 7);
  lua_createtable(L, m->count < 1 << 24 ? (int)m->count : 0, 0);
  for (size_t i = 0; i < m->count; i++) {
    const ett_match *x = &m->items[i];
    lua_pushinteger(L, x->last_start - x->first_start);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
    spread += x->last_end - x->first_end;
    transfer += x->first_end - x->last_start;
    negative += x->first_end < x->last_start;
    last[x->late_highest]++;
    lowest[x->late]++;
  }
  lua_setfield(L, -2, "lags");
  for (size_t r = 0; r < m->ranks; r++) {
    const int64_t *mine = m->lists[r]->starts + m->first[r];
    for (size_t i = 0; i < m->count; i++)
      waits[r] += m->items[i].last_start - (mine[i] - m->clocks[r]);
  }
  ett_lua_set_integer(L, "end_spread", spread);
  ett_lua_set_integer(L, "transfer", transfer);
  ett_lua_set_integer(L, "negative", negative);
  set_integers(L, "last", last, m->ranks);
  set_integers(L, "last_lowest", lowest, m->ranks);
  set_integers(L, "waits", waits, m->ranks);
  return 1;
}

/* m:transfers() -> { [sort of the first rank] = transfers above 0 in ticks } */
static int matches_transfers(lua_State *L) {
  const ett_matches *m = check_matches(L, 1);
  lua_settop(L, 1);
  lua_newtable(L);
  for (size_t i = 0; i < m->count; i++) {
    const int64_t ticks = m->items[i].first_end - m->items[i].last_start;
    if (ticks <= 0)
      continue;
    lua_pushinteger(L, ticks);
    append(L, 2, m->lists[0]->sorts[m->first[0] + i]);
  }
  return 1;
}

/* m:waits(rank) -> starts on the rank; ticks until the last rank started or the first
 * ended */
static int matches_waits(lua_State *L) {
  const ett_matches *m = check_matches(L, 1);
  const size_t r = check_rank(L, m, 2);
  lua_createtable(L, m->count < 1 << 24 ? (int)m->count : 0, 0);
  lua_createtable(L, m->count < 1 << 24 ? (int)m->count : 0, 0);
  for (size_t i = 0; i < m->count; i++) {
    const ett_match *x = &m->items[i];
    const int64_t start = m->lists[r]->starts[m->first[r] + i];
    const int64_t until = x->last_start < x->first_end ? x->last_start : x->first_end;
    lua_pushinteger(L, start);
    lua_rawseti(L, -3, (lua_Integer)i + 1);
    lua_pushinteger(L, until - (start - m->clocks[r]));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 2;
}

/* m:charge(rank, exposed) -> { waiting, transfer, by_rank, waiting_of, transfer_of,
 * count_of (lists by sort) } in ticks of the interval set (query/matches.h) */
static int matches_charge(lua_State *L) {
  const ett_matches *m = check_matches(L, 1);
  const size_t r = check_rank(L, m, 2);
  const ett_intervals *exposed = luaL_checkudata(L, 3, ETT_LUA_INTERVAL);
  const size_t sorts = m->lists[r]->sort_count, all = m->ranks + 3 * sorts;
  int64_t *lists = (int64_t *)(void *)ett_lua_zeroes(L, all * sizeof *lists);
  int64_t *of = lists + m->ranks;
  ett_charges out = {0, 0, lists, of, of + sorts, of + 2 * sorts};
  ett_matches_charge(&out, m, r, exposed);
  lua_createtable(L, 0, 6);
  ett_lua_set_integer(L, "waiting", out.waiting);
  ett_lua_set_integer(L, "transfer", out.transfer);
  set_integers(L, "by_rank", out.by_rank, m->ranks);
  set_integers(L, "waiting_of", out.waiting_of, sorts);
  set_integers(L, "transfer_of", out.transfer_of, sorts);
  set_integers(L, "count_of", out.count_of, sorts);
  return 1;
}

typedef struct ranked {
  int64_t longest, start;
  size_t match;
} ranked;

static int by_length(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->longest != y->longest)
    return x->longest > y->longest ? -1 : 1;
  if (x->start != y->start)
    return x->start < y->start ? -1 : 1;
  return x->match < y->match ? -1 : x->match > y->match;
}

/* m:longest(n) -> the n matches with the longest kernels; ties by earliest start: { {
 * sort (of the first rank), start (of the first), skew, late, transfer, longest } } */
static int matches_longest(lua_State *L) {
  const ett_matches *m = check_matches(L, 1);
  lua_Integer n = luaL_checkinteger(L, 2);
  ranked *list = lua_newuserdatauv(L, (m->count + 1) * sizeof *list, 0);
  for (size_t i = 0; i < m->count; i++)
    list[i] = (ranked){ett_matches_longest(m, i), m->items[i].first_start, i};
  qsort(list, m->count, sizeof *list, by_length);
  n = n < 0 ? 0 : n > (lua_Integer)m->count ? (lua_Integer)m->count : n;
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 0; i < n; i++) {
    const ett_match *x = &m->items[list[i].match];
    lua_createtable(L, 0, 6);
    ett_lua_set_integer(L, "sort",
                        (lua_Integer)m->lists[0]->sorts[m->first[0] + list[i].match] + 1);
    ett_lua_set_integer(L, "start", x->first_start);
    ett_lua_set_integer(L, "skew", x->last_start - x->first_start);
    ett_lua_set_integer(L, "late", (lua_Integer)x->late + 1);
    ett_lua_set_integer(L, "transfer", x->first_end - x->last_start);
    ett_lua_set_integer(L, "longest", list[i].longest);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg methods[] = {
    {"refined", sequence_refined},
    {"typed", sequence_typed},
    {"split", sequence_split},
    {"at", sequence_at},
    {"iter", sequence_iter},
    {"intervals", sequence_intervals},
    {"sum", sequence_sum},
    {"totals", sequence_totals},
    {"durations", sequence_durations},
    {"changes", sequence_changes},
    {"align", sequence_align},
    {"__len", sequence_len},
    {NULL, NULL},
};

static const luaL_Reg match_methods[] = {
    {"at", matches_at},
    {"lags", matches_lags},
    {"transfers", matches_transfers},
    {"waits", matches_waits},
    {"charge", matches_charge},
    {"longest", matches_longest},
    {"__len", matches_len},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"of", sequence_of},           {"new", sequence_new}, {"matches", sequence_matches},
    {"spreads", sequence_spreads}, {NULL, NULL},
};

int luaopen_ett_sequence(lua_State *L);

int luaopen_ett_sequence(lua_State *L) {
  ett_lua_type(L, ETT_LUA_SEQUENCE, methods, NULL);
  ett_lua_type(L, MATCHES, match_methods, NULL);
  luaL_newlib(L, functions);
  return 1;
}
