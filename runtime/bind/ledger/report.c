/* report.c - a ledger's records as tables: checks, totals, entries, axes. */
#include "bind/ledger/ledger.h"

const char *const ett_lua_ledger_relations[] = {"divides", "at_most",  "at_least",
                                                "equal",   "disjoint", NULL};

static void set_node(lua_State *L, ett_lua_ledger_owner *b, const char *name,
                     ett_node node, const ett_err *err) {
  ett_lua_ledger_push_node(L, 1, b, node, err);
  lua_setfield(L, -2, name);
}

/* checks(): {relation, subject, left, object, right, stage, ok}, in order. */
int ett_lua_ledger_checks(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  size_t count;
  const ett_check *checks = ett_ledger_checks(b->ledger, &count);
  ett_err err = {0};
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    const ett_check *c = &checks[i];
    lua_createtable(L, 0, 7);
    ett_lua_set_string(L, "relation", ett_lua_ledger_relations[c->relation]);
    ett_lua_set_string(L, "subject", c->subject);
    ett_lua_set_string(L, "object", c->object);
    ett_lua_set_string(L, "stage", c->stage);
    set_node(L, b, "left", c->left, &err);
    set_node(L, b, "right", c->right, &err);
    set_node(L, b, "ok", c->ok, &err);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static const char *const count_names[ETT_COUNTS] = {"flop_forward", "tx_forward",
                                                    "rx_forward",   "flop_backward",
                                                    "tx_backward",  "rx_backward"};

static void set_counts(lua_State *L, ett_lua_ledger_owner *b, const ett_node *counts,
                       ett_node factor) {
  ett_graph *graph = ett_ledger_graph(b->ledger);
  ett_err err = {0};
  for (int i = 0; i < ETT_COUNTS; i++) {
    if (counts[i] < 0)
      continue;
    ett_node node = factor < 0
                        ? counts[i]
                        : ett_graph_apply(graph, ETT_OP_MUL, counts[i], factor, -1, &err);
    set_node(L, b, count_names[i], node, &err);
  }
}

int ett_lua_ledger_totals(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  ett_node counts[ETT_COUNTS];
  for (int i = 0; i < ETT_COUNTS; i++)
    counts[i] = ett_ledger_meter_count(b->ledger, 0, i);
  lua_createtable(L, 0, ETT_COUNTS);
  set_counts(L, b, counts, -1);
  return 1;
}

/* entries(): the cost of each operation, with multipliers applied, and its traffic by
 * axis. `tensors` names the operands, `left`, `right` and `result` their dimensions. */
int ett_lua_ledger_entries(lua_State *L) {
  static const char *const operations[] = {"multiply", "broadcast", "reduce"};
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  size_t count, share_count, s = 0;
  const ett_entry *entries = ett_ledger_entries(b->ledger, &count);
  const ett_share *shares = ett_ledger_shares(b->ledger, &share_count);
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    const ett_entry *e = &entries[i];
    ett_node factor = ett_ledger_meter_factor(b->ledger, e->meter);
    lua_createtable(L, 0, 16);
    ett_lua_set_string(L, "operation", operations[e->operation]);
    ett_lua_set_string(L, "label", e->label);
    ett_lua_set_string(L, "meter", ett_ledger_meter_name(b->ledger, e->meter));
    ett_err err = {0};
    set_node(L, b, "factor", factor, &err);
    if (e->reduced >= 0) {
      ett_lua_set_string(L, "dimension",
                         ett_ledger_dimension_name(b->ledger, e->reduced));
    }
    ett_lua_ledger_push_names(L, b, ett_ledger_tensor_dimensions(b->ledger, e->left));
    lua_setfield(L, -2, "left");
    if (e->right >= 0) {
      ett_lua_ledger_push_names(L, b, ett_ledger_tensor_dimensions(b->ledger, e->right));
      lua_setfield(L, -2, "right");
    }
    ett_lua_ledger_push_names(L, b, ett_ledger_tensor_dimensions(b->ledger, e->result));
    lua_setfield(L, -2, "result");
    lua_newtable(L);
    lua_pushstring(L, ett_ledger_tensor_name(b->ledger, e->left));
    lua_rawseti(L, -2, 1);
    if (e->right >= 0) {
      lua_pushstring(L, ett_ledger_tensor_name(b->ledger, e->right));
      lua_rawseti(L, -2, 2);
    }
    lua_setfield(L, -2, "tensors");
    set_counts(L, b, e->counts, factor);
    ett_node touched =
        ett_graph_apply(ett_ledger_graph(b->ledger), ETT_OP_MUL,
                        ett_ledger_entry_touched(b->ledger, i, &err), factor, -1, &err);
    set_node(L, b, "rank_words", touched, &err);
    lua_newtable(L);
    for (int n = 0; s < share_count; s++) {
      const ett_share *share = &shares[s];
      if ((size_t)share->entry != i)
        break;
      lua_createtable(L, 0, 5);
      ett_lua_set_string(L, "axis", ett_ledger_axis_name(b->ledger, share->axis));
      set_node(L, b, "degree", ett_ledger_axis_degree(b->ledger, share->axis), &err);
      set_counts(L, b, share->counts, factor);
      lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "axes");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* axes(): {name, degree}, in order of creation. */
int ett_lua_ledger_axes(lua_State *L) {
  ett_lua_ledger_owner *b = ett_lua_ledger_box(L, 1);
  ett_err err = {0};
  size_t count = ett_ledger_axes(b->ledger);
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    lua_createtable(L, 0, 2);
    ett_lua_set_string(L, "name", ett_ledger_axis_name(b->ledger, (int)i));
    set_node(L, b, "degree", ett_ledger_axis_degree(b->ledger, (int)i), &err);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}
