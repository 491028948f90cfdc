/* The event engine of links on given times, without a step. */
#include <stdio.h>
#include <string.h>

#include "bind/step/step.h"

static const char *const kinds[] = {"forward", "backward", "reduce", "gather"};

void ett_step_lua_set_transfers(lua_State *L, const ett_pipeline *p,
                                const ett_links_result *r) {
  ett_step_lua_set_units(L, p, r->unit_start, r->unit_end);
  lua_createtable(L, (int)r->transfer_count, 0);
  for (size_t i = 0; i < r->transfer_count; i++) {
    const ett_transfer *t = &r->transfers[i];
    lua_createtable(L, 0, 8);
    ett_lua_set_string(L, "kind", kinds[t->kind]);
    ett_lua_set_integer(L, "lane", t->lane + 1);
    ett_lua_set_integer(L, "stage", t->stage + 1);
    ett_lua_set_integer(L, "slot", t->slot + 1);
    ett_lua_set_integer(L, "to", t->to + 1);
    ett_lua_set_integer(L, "micro_batch", (lua_Integer)t->micro_batch + 1);
    ett_lua_set_number(L, "start_seconds", t->start);
    ett_lua_set_number(L, "seconds", t->end - t->start);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "transfers");
}

/* Per slot: 5 numbers of dense buckets, then 5 of expert buckets. */
static const ett_slice_gradients *get_gradients(lua_State *L, size_t slots) {
  enum { NUMBERS = 5 };
  const double *dense = ett_step_lua_seconds(L, "dense", NUMBERS * slots, 0);
  const double *expert = ett_step_lua_seconds(L, "expert", NUMBERS * slots, 0);
  if (!dense && !expert)
    return NULL;
  ett_slice_gradients *g = lua_newuserdatauv(L, slots * sizeof *g, 0);
  memset(g, 0, slots * sizeof *g);
  for (size_t v = 0; v < slots;
       v++, dense += dense ? NUMBERS : 0, expert += expert ? NUMBERS : 0) {
    if (dense)
      g[v].dense = (ett_buckets){dense[0], dense[1], dense[2], dense[3], dense[4], 0, 0};
    if (expert)
      g[v].expert =
          (ett_buckets){expert[0], expert[1], expert[2], expert[3], expert[4], 0, 0};
  }
  return g;
}

/* The shares of `lanes` lanes in a field; NULL: it is nil. */
static const double *get_shares(lua_State *L, const char *name, int lanes) {
  const double *shares = ett_step_lua_seconds(L, name, (size_t)lanes, 0);
  for (int i = 0; shares && i < lanes; i++)
    if (!(shares[i] <= 1))
      luaL_error(L, "field '%s' must hold shares from 0 to 1", name);
  return shares;
}

static void get_lanes(lua_State *L, size_t slots, ett_links *l) {
  char name[32];
  const double *shares = get_shares(L, "collective", l->lanes);
  if (!shares)
    luaL_error(L, "field 'collective' must hold a share of each lane");
  memcpy(l->collective, shares, (size_t)l->lanes * sizeof *shares);
  for (int i = 0; i < l->lanes; i++) {
    snprintf(name, sizeof name, "send_lane%d", i + 1);
    shares = get_shares(L, name, l->lanes);
    l->send[i][i] = 1;
    if (shares)
      memcpy(l->send[i], shares, (size_t)l->lanes * sizeof *shares);
    snprintf(name, sizeof name, "forward_lane%d", i + 1);
    l->forward_busy[i] = ett_step_lua_seconds(L, name, slots, 0);
    snprintf(name, sizeof name, "backward_lane%d", i + 1);
    l->backward_busy[i] = ett_step_lua_seconds(L, name, slots, 0);
  }
}

static void get_links(lua_State *L, size_t slots, ett_links *l) {
#define FIELD(name, kind, names) ETT_STEP_LUA_FIELD(ett_links, name, kind, names)
  static const ett_step_lua_field fields[] = {
      FIELD(lanes, INTEGER, NULL),
      FIELD(reduces_every, BOOLEAN, NULL),
      FIELD(share, NUMBER, NULL),
  };
  memset(l, 0, sizeof *l);
  ett_step_lua_read(L, 1, fields, sizeof fields / sizeof *fields, l);
  if (l->lanes < 1 || l->lanes > ETT_LANES || !(l->share >= 0 && l->share < 1))
    luaL_error(L, "field 'lanes' must be 1 to %d, 'share' at least 0 and below 1",
               ETT_LANES);
  get_lanes(L, slots, l);
  l->gather = ett_step_lua_seconds(L, "gather", slots, 0);
  const double *outermost = ett_step_lua_seconds(L, "send_lane", slots, 0);
  int32_t *send = lua_newuserdatauv(L, slots * sizeof *send, 0);
  for (size_t v = 0; v < slots; v++) {
    if (outermost && !(outermost[v] >= 1 && outermost[v] <= l->lanes))
      luaL_error(L, "field 'send_lane' must hold lanes from 1 to %d", l->lanes);
    send[v] = outermost ? (int32_t)outermost[v] - 1 : 0;
  }
  l->send_lane = send;
  l->gradients = get_gradients(L, slots);
}

/* links{…}: the fields of pipeline{…}, and of its links: lanes= (their number),
 * collective= (shares of lanes), reduces_every=, share=, forward_lane1=, backward_lane1=,
 * … and gather= (seconds of each slot), send_lane= (of each slot, the outermost lane of
 * its message to the next one), send_lane1=, … (shares of lanes of such messages;
 * default: 1 of the outermost), dense= and expert= (five numbers of each slot, as
 * ett_buckets). */
static int links_run(lua_State *L) {
  lua_settop(L, 1);
  luaL_checkstack(L, 100, NULL);
  ett_pipeline p;
  ett_step_lua_pipeline(L, &p);
  ett_links l;
  get_links(L, (size_t)p.stages * (size_t)p.chunks, &l);
  ett_lua_raw_field(L, 1, "keep_units");
  int keep_units = lua_toboolean(L, -1);
  ett_step_lua_workspace_new(L);
  void **box = lua_touserdata(L, -1);
  ett_links_workspace *workspace = ett_step_workspace_links(*box);
  if (!workspace)
    return luaL_error(L, "not enough memory");
  ett_links_result r;
  ett_err err;
  int in_order = !keep_units && ett_links_in_order(&p, &l);
  int status = in_order
                   ? ett_links_run_in_order(&p, &l, ett_step_workspace_pipeline(*box),
                                            workspace, &r, &err)
                   : ett_links_run(&p, &l, workspace, keep_units, &r, &err);
  if (status != 0)
    return ett_lua_raise(L, &err);
  lua_createtable(L, 0, 10);
  ett_lua_set_boolean(L, "in_order", in_order);
  ett_step_lua_set_run(L, &p, &r.pipeline);
  ett_lua_set_doubles(L, "reduced_seconds", r.reduced, (size_t)p.stages);
  ett_lua_set_doubles(L, "gather_wait_seconds", r.gather_wait, (size_t)p.stages);
  if (keep_units)
    ett_step_lua_set_transfers(L, &p, &r);
  return 1;
}

static const luaL_Reg functions[] = {
    {"links", links_run},
    {NULL, NULL},
};

void ett_step_lua_open_links(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
