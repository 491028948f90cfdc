/* The pipeline's event engine and closed forms on given times, without a step. */
#include <math.h>
#include <string.h>

#include "bind/step/step.h"

void ett_step_lua_set_units(lua_State *L, const ett_pipeline *pipeline,
                            const double *start, const double *end) {
  static const char *const kinds[] = {"F", "B", "W", "BW"};
  lua_createtable(L, pipeline->stages, 0);
  for (int rank = 0; rank < pipeline->stages; rank++) {
    size_t count = ett_pipeline_unit_count(pipeline, rank);
    ett_unit *units = lua_newuserdatauv(L, (count + 1) * sizeof *units, 0);
    ett_pipeline_units(pipeline, rank, units);
    lua_createtable(L, (int)count, 0);
    for (size_t k = 0; k < count; k++) {
      lua_createtable(L, 3, 2);
      lua_pushstring(L, kinds[units[k].kind]);
      lua_rawseti(L, -2, 1);
      lua_pushinteger(L, (lua_Integer)units[k].micro_batch + 1);
      lua_rawseti(L, -2, 2);
      lua_pushinteger(L, (lua_Integer)units[k].chunk + 1);
      lua_rawseti(L, -2, 3);
      if (start) {
        ett_lua_set_number(L, "start_seconds", *start);
        ett_lua_set_number(L, "seconds", *end++ - *start++);
      }
      lua_rawseti(L, -2, (lua_Integer)k + 1);
    }
    lua_rawseti(L, -3, rank + 1);
    lua_pop(L, 1);
  }
  lua_setfield(L, -2, "units");
}

const double *ett_step_lua_seconds(lua_State *L, const char *name, size_t want,
                                   int needed) {
  size_t count = 0;
  if (ett_lua_raw_field(L, 1, name) == LUA_TNIL) {
    if (needed)
      luaL_error(L, "missing field '%s' (a list of seconds)", name);
    return NULL;
  }
  const double *values = ett_lua_field_doubles(L, name, &count);
  if (count < want)
    luaL_error(L, "field '%s' must hold %d numbers, got %d", name, (int)want, (int)count);
  for (size_t i = 0; i < count; i++)
    if (!(values[i] >= 0) || isinf(values[i]))
      luaL_error(L, "field '%s[%d]' must be seconds of at least 0, got %f", name,
                 (int)i + 1, values[i]);
  return values;
}

#define FIELD(name, kind, names) ETT_STEP_LUA_FIELD(ett_pipeline, name, kind, names)
static const ett_step_lua_field pipeline_fields[] = {
    FIELD(schedule, NAME, ett_step_lua_schedules),
    FIELD(stages, INTEGER, NULL),
    FIELD(chunks, INTEGER, NULL),
    FIELD(micro_batches, BIG_INTEGER, NULL),
    FIELD(group, BIG_INTEGER, NULL),
    FIELD(blocking_sends, BOOLEAN, NULL),
    FIELD(blocking_receives, BOOLEAN, NULL),
};

void ett_step_lua_pipeline(lua_State *L, ett_pipeline *p) {
  memset(p, 0, sizeof *p);
  ett_step_lua_read(L, 1, pipeline_fields,
                    sizeof pipeline_fields / sizeof *pipeline_fields, p);
  if (p->schedule == ETT_SCHEDULE_CUSTOM)
    p->orders = ett_step_lua_orders_of(L, 1);
  ett_err err;
  if (ett_pipeline_check(p, &err) != 0)
    ett_lua_raise(L, &err);
  size_t slices = (size_t)p->stages * (size_t)p->chunks;
  p->forward = ett_step_lua_seconds(L, "forward", slices, 1);
  p->backward = ett_step_lua_seconds(L, "backward", slices, 1);
  p->weight = ett_step_lua_seconds(L, "weight", slices, 0);
  p->joined = ett_step_lua_seconds(L, "joined", slices, 0);
  for (size_t v = 0; p->joined && v < slices; v++)
    if (!p->weight || p->joined[v] > p->weight[v])
      luaL_error(L, "field 'joined[%d]' must be at most 'weight'", (int)v + 1);
  size_t messages = p->orders ? slices : slices - 1;
  p->send_forward = ett_step_lua_seconds(L, "send_forward", messages, 0);
  p->send_backward = ett_step_lua_seconds(L, "send_backward", messages, 0);
  p->forward_hidden = ett_step_lua_seconds(L, "forward_hidden", slices, 0);
  p->backward_hidden =
      ett_step_lua_seconds(L, "backward_hidden", slices, p->forward_hidden != 0);
  for (size_t v = 0; p->forward_hidden && v < slices; v++)
    if (p->forward_hidden[v] + p->backward_hidden[v] > p->forward[v] ||
        p->forward_hidden[v] + p->backward_hidden[v] > p->backward[v])
      luaL_error(L,
                 "field 'forward_hidden[%d]' and 'backward_hidden' must be no longer "
                 "together than either pass",
                 (int)v + 1);
  double *zeros = lua_newuserdatauv(L, slices * sizeof *zeros, 0);
  memset(zeros, 0, slices * sizeof *zeros);
  p->send_forward = p->send_forward ? p->send_forward : zeros;
  p->send_backward = p->send_backward ? p->send_backward : zeros;
  p->start = ett_step_lua_seconds(L, "start", (size_t)p->stages, 0);
}

void ett_step_lua_set_run(lua_State *L, const ett_pipeline *p,
                          const ett_pipeline_result *r) {
  size_t stages = (size_t)p->stages, slots = stages * (size_t)p->chunks;
  ett_lua_set_number(L, "makespan_seconds", r->makespan);
  ett_lua_set_doubles(L, "busy_seconds", r->busy, stages);
  ett_lua_set_doubles(L, "end_seconds", r->end, stages);
  ett_lua_set_doubles(L, "last_backward_start_seconds", r->last_backward_start, slots);
  ett_lua_set_doubles(L, "last_backward_end_seconds", r->last_backward_end, slots);
}

/* pipeline{schedule=, stages=, chunks=, micro_batches=, forward=, backward=, weight=,
 * joined=, send_forward=, send_backward=, forward_hidden=, backward_hidden=,
 * blocking_sends=, blocking_receives=, start=, orders=, closed=, keep_units=}: the result
 * of a run. closed: gpipe's closed form instead of events. keep_units: also the units,
 * without times. */
static int pipeline_run(lua_State *L) {
  lua_settop(L, 1);
  luaL_checkstack(L, 40, NULL);
  ett_pipeline p;
  ett_step_lua_pipeline(L, &p);
  ett_lua_raw_field(L, 1, "closed");
  ett_lua_raw_field(L, 1, "keep_units");
  int closed = lua_toboolean(L, -2), keep_units = lua_toboolean(L, -1);
  ett_step_lua_workspace_new(L);
  void **box = lua_touserdata(L, -1);
  ett_pipeline_workspace *workspace = ett_step_workspace_pipeline(*box);
  ett_pipeline_result r;
  ett_err err;
  int status = ett_pipeline_plan(&p, workspace, ETT_PLAN_ENDS_TOGETHER, &err);
  if (status == 0)
    status = closed ? ett_pipeline_gpipe_closed(&p, workspace, &r, &err)
                    : ett_pipeline_run(&p, workspace, &r, &err);
  if (status != 0)
    return ett_lua_raise(L, &err);
  size_t stages = (size_t)p.stages, slices = stages * (size_t)p.chunks;
  ett_pipeline_bounds bounds = ett_pipeline_closed(&p);
  lua_createtable(L, 0, 8);
  ett_step_lua_set_run(L, &p, &r);
  ett_lua_set_number(L, "lower_seconds", bounds.lower);
  ett_lua_set_number(L, "upper_seconds", bounds.upper);
  if (keep_units)
    ett_step_lua_set_units(L, &p, NULL, NULL);
  double *ones = lua_newuserdatauv(L, slices * sizeof *ones, 0);
  for (size_t i = 0; i < slices; i++)
    ones[i] = 1;
  lua_createtable(L, p.stages, 0);
  for (int rank = 0; rank < p.stages; rank++) {
    lua_pushnumber(L, ett_pipeline_peak_in_flight(&p, rank, ones, ones, 0));
    lua_rawseti(L, -2, rank + 1);
  }
  lua_setfield(L, -3, "peak_in_flight");
  lua_pop(L, 1);
  ett_step_workspace_free(*box); /* not left to the garbage collector: it may be large */
  *box = NULL;
  return 1;
}

static const luaL_Reg functions[] = {
    {"pipeline", pipeline_run},
    {NULL, NULL},
};

void ett_step_lua_open_pipelines(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
