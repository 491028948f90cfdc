/* The event engine of links on given times, without a step. */
#include <string.h>

#include "bind/step/step.h"

static const char *const kinds[] = {"forward", "backward", "reduce", "gather"};
static const char *const links[] = {"none", "node", "network", NULL};

void ett_step_lua_push_transfers(lua_State *L, const ett_links_result *r) {
  lua_createtable(L, (int)r->transfer_count, 0);
  for (size_t i = 0; i < r->transfer_count; i++) {
    const ett_transfer *t = &r->transfers[i];
    lua_createtable(L, 0, 8);
    ett_lua_set_string(L, "kind", kinds[t->kind]);
    ett_lua_set_string(L, "link", links[t->link]);
    ett_lua_set_integer(L, "stage", t->stage + 1);
    ett_lua_set_integer(L, "slot", t->slot + 1);
    ett_lua_set_integer(L, "to", t->to + 1);
    ett_lua_set_integer(L, "micro_batch", (lua_Integer)t->micro_batch + 1);
    ett_lua_set_number(L, "start_seconds", t->start);
    ett_lua_set_number(L, "seconds", t->end - t->start);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
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
      g[v].dense = (ett_buckets){dense[0], dense[1], dense[2], dense[3], dense[4]};
    if (expert)
      g[v].expert = (ett_buckets){expert[0], expert[1], expert[2], expert[3], expert[4]};
  }
  return g;
}

static void get_links(lua_State *L, size_t slots, ett_links *l) {
#define FIELD(name, kind, names) ETT_STEP_LUA_FIELD(ett_links, name, kind, names)
  static const ett_step_lua_field fields[] = {
      FIELD(collective, NAME, links),
      FIELD(reduces_every, BOOLEAN, NULL),
      FIELD(share, NUMBER, NULL),
  };
  memset(l, 0, sizeof *l);
  ett_step_lua_read(L, 1, fields, sizeof fields / sizeof *fields, l);
  if (l->collective == ETT_LINK_NONE || !(l->share >= 0 && l->share < 1))
    luaL_error(L, "field 'collective' must be a link, 'share' at least 0 and below 1");
  l->forward_busy[ETT_LINK_NODE] = ett_step_lua_seconds(L, "forward_node", slots, 0);
  l->forward_busy[ETT_LINK_NETWORK] =
      ett_step_lua_seconds(L, "forward_network", slots, 0);
  l->backward_busy[ETT_LINK_NODE] = ett_step_lua_seconds(L, "backward_node", slots, 0);
  l->backward_busy[ETT_LINK_NETWORK] =
      ett_step_lua_seconds(L, "backward_network", slots, 0);
  l->gather = ett_step_lua_seconds(L, "gather", slots, 0);
  const double *network = ett_step_lua_seconds(L, "send_network", slots, 0);
  int32_t *send = lua_newuserdatauv(L, slots * sizeof *send, 0);
  for (size_t v = 0; v < slots; v++)
    send[v] = network && network[v] != 0 ? ETT_LINK_NETWORK : ETT_LINK_NODE;
  l->send_link = send;
  l->gradients = get_gradients(L, slots);
}

/* links{…}: the fields of pipeline{…}, and of its links: collective=, reduces_every=,
 * share=, forward_node=, forward_network=, backward_node=, backward_network= and gather=
 * (seconds of each slot), send_network= (of each slot, 1: its message to the next one is
 * on the network), dense= and expert= (five numbers of each slot, as ett_buckets). */
static int links_run(lua_State *L) {
  lua_settop(L, 1);
  luaL_checkstack(L, 60, NULL);
  ett_pipeline p;
  ett_step_lua_pipeline(L, &p);
  ett_links l;
  get_links(L, (size_t)p.stages * (size_t)p.chunks, &l);
  lua_getfield(L, 1, "keep_units");
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
  ett_lua_push_doubles(L, r.reduced, (size_t)p.stages);
  lua_setfield(L, -2, "reduced_seconds");
  ett_lua_push_doubles(L, r.gather_wait, (size_t)p.stages);
  lua_setfield(L, -2, "gather_wait_seconds");
  if (keep_units) {
    ett_step_lua_push_units(L, &p, &r.pipeline, r.unit_end);
    lua_setfield(L, -2, "units");
    ett_step_lua_push_transfers(L, &r);
    lua_setfield(L, -2, "transfers");
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"links", links_run},
    {NULL, NULL},
};

void ett_step_lua_open_links(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
}
