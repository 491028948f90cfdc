/* Tasks at changing rates. A tournament tree over the groups finds the next event. */
#include "step/flows.h"

#include <math.h>
#include <string.h>

static size_t round_up(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}

static int leaves_of(int groups) {
  int leaves = 1;
  while (leaves < groups)
    leaves *= 2;
  return leaves;
}

size_t ett_flows_bytes(int groups, int each) {
  size_t flows = (size_t)groups * (size_t)each, leaves = (size_t)leaves_of(groups);
  return round_up(flows * sizeof(ett_flow)) + round_up(flows * sizeof(double)) +
         round_up(leaves * sizeof(double)) + round_up(2 * leaves * sizeof(int32_t)) +
         round_up((size_t)groups * sizeof(int32_t)) + round_up((size_t)groups);
}

static void *take(char **at, size_t bytes) {
  void *here = *at;
  *at += round_up(bytes);
  return here;
}

void ett_flows_open(ett_flows *l, int groups, int each, void *memory) {
  char *at = memory;
  size_t flows = (size_t)groups * (size_t)each;
  memset(l, 0, sizeof *l);
  l->groups = groups;
  l->each = each;
  l->leaves = leaves_of(groups);
  l->flow = take(&at, flows * sizeof *l->flow);
  l->due = take(&at, flows * sizeof *l->due);
  l->least = take(&at, (size_t)l->leaves * sizeof *l->least);
  l->winner = take(&at, 2 * (size_t)l->leaves * sizeof *l->winner);
  l->changed = take(&at, (size_t)groups * sizeof *l->changed);
  l->is_changed = take(&at, (size_t)groups);
  for (size_t i = 0; i < flows; i++) {
    l->flow[i] = (ett_flow){.rate = 1};
    l->due[i] = INFINITY;
  }
  for (int i = 0; i < l->leaves; i++) {
    l->least[i] = INFINITY;
    l->winner[l->leaves + i] = i;
  }
  for (int i = l->leaves - 1; i >= 1; i--)
    l->winner[i] = l->winner[2 * i];
  memset(l->is_changed, 0, (size_t)groups);
}

/* Records that the events of a flow's group changed. */
static void change(ett_flows *l, int flow) {
  int group = flow / l->each;
  if (l->is_changed[group])
    return;
  l->is_changed[group] = 1;
  l->changed[l->changes++] = group;
}

static void set_due(ett_flows *l, int flow) {
  ett_flow *t = &l->flow[flow];
  double more = t->left > t->until ? t->left - t->until : 0;
  l->due[flow] = more == 0 ? l->now : t->rate > 0 ? l->now + more / t->rate : INFINITY;
  change(l, flow);
}

/* Updates a flow's task to the current time. */
static void settle(ett_flows *l, int flow) {
  ett_flow *t = &l->flow[flow];
  t->left -= (l->now - t->since) * t->rate;
  if (t->left < t->until)
    t->left = t->until;
  t->since = l->now;
}

void ett_flows_set_rate(ett_flows *l, int flow, double rate) {
  ett_flow *t = &l->flow[flow];
  if (rate == t->rate)
    return;
  if (t->active)
    settle(l, flow);
  t->rate = rate;
  if (t->active)
    set_due(l, flow);
}

void ett_flows_begin(ett_flows *l, int flow, double seconds) {
  ett_flow *t = &l->flow[flow];
  t->left = seconds;
  t->until = 0;
  t->since = l->now;
  t->active = 1;
  set_due(l, flow);
}

void ett_flows_extend(ett_flows *l, int flow, double seconds, double after) {
  settle(l, flow);
  l->flow[flow].left += seconds;
  l->flow[flow].until += after;
  set_due(l, flow);
}

void ett_flows_mark(ett_flows *l, int flow, double until) {
  settle(l, flow);
  l->flow[flow].until = until;
  set_due(l, flow);
}

void ett_flows_end(ett_flows *l, int flow) {
  l->flow[flow].active = 0;
  l->flow[flow].left = 0;
  l->due[flow] = INFINITY;
  change(l, flow);
}

double ett_flows_left(const ett_flows *l, int flow) {
  const ett_flow *t = &l->flow[flow];
  double left = t->left - (l->now - t->since) * t->rate;
  return left > t->until ? left : t->until;
}

/* Updates the tournament tree after a change of a group. */
static void replay(ett_flows *l, int group) {
  const double *due = &l->due[group * l->each];
  double least = due[0];
  for (int i = 1; i < l->each; i++)
    least = due[i] < least ? due[i] : least;
  l->least[group] = least;
  for (int at = (l->leaves + group) / 2; at >= 1; at /= 2) {
    int32_t a = l->winner[2 * at], b = l->winner[2 * at + 1];
    l->winner[at] = l->least[b] < l->least[a] ? b : a;
  }
}

int ett_flows_next(ett_flows *l) {
  for (int32_t i = 0; i < l->changes; i++) {
    l->is_changed[l->changed[i]] = 0;
    replay(l, l->changed[i]);
  }
  l->changes = 0;
  int group = l->winner[1];
  double due = l->least[group];
  if (due == INFINITY)
    return -1;
  int flow = group * l->each;
  while (l->due[flow] != due)
    flow++;
  ett_flow *t = &l->flow[flow];
  l->now = due > l->now ? due : l->now;
  t->left = t->until; /* exact, without rounding error */
  t->since = l->now;
  return flow;
}

void ett_flows_shift(ett_flows *l, double seconds) {
  l->now += seconds;
  for (int i = 0; i < l->groups * l->each; i++) {
    l->flow[i].since += seconds;
    l->due[i] += seconds;
    change(l, i);
  }
}
