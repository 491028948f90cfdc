/* Orders planned from measured unit times, as in Qi et al. 2023, section 3.1. Tries
 * several rules and takes the order with the shortest step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/pipeline/engine.h"

/* A rule of ordering. width >= 0: a fixed pattern, independent of times. A stage with n
 * later and o earlier stages runs width * n + 1 forwards ahead of its backwards and
 * delays width * o weight units: zb_h1 has width 1, zb_h2 has width 2. width < 0: greedy;
 * units that are ready run, backwards first. A stage waits for an input that arrives
 * within the time of `patience` weight units. */
typedef struct rule {
  double width, patience;
  int fills; /* weight units run even if they delay an imminent input */
} rule;

typedef struct stage {
  double clock;
  int64_t done[ETT_UNIT_WHOLE]; /* units of each kind */
  int waits;                    /* waits for a message of unknown arrival */
} stage;

typedef struct plan {
  const ett_pipeline *p;
  stage *stages;
  double
      *arrival[2]; /* of forwards, backwards: per stage and micro-batch; NAN: unknown */
  ett_unit *units;
  double *start; /* per stage: start of the measured step */
} plan;

static double *arrival(const plan *x, int kind, int s, int64_t micro_batch) {
  return &x->arrival[kind][(size_t)s * (size_t)x->p->micro_batches + (size_t)micro_batch];
}

/* Arrival of the input of a stage's next unit of a kind; INFINITY: unknown, or no such
 * unit may run. */
static double input(const plan *x, int kind, int s) {
  const stage *g = &x->stages[s];
  int64_t next = g->done[kind];
  if (next == x->p->micro_batches)
    return INFINITY;
  double at = *arrival(x, kind, s, next);
  return isnan(at) ? INFINITY : at;
}

static int next_of_pattern(const plan *x, const rule *r, int s) {
  const stage *g = &x->stages[s];
  int64_t m = x->p->micro_batches, f = g->done[ETT_UNIT_FORWARD];
  int64_t b = g->done[ETT_UNIT_BACKWARD], late = b - g->done[ETT_UNIT_WEIGHT];
  if (late > (int64_t)(r->width * s) || (b == m && late > 0))
    return ETT_UNIT_WEIGHT;
  int64_t ahead = (int64_t)(r->width * (x->p->stages - 1 - s)) + 1;
  return f < m && f - b < ahead ? ETT_UNIT_FORWARD : ETT_UNIT_BACKWARD;
}

/* The kind of a stage's next unit. -1: no unit is ready; *until is the earliest time that
 * one may be. */
static int next_ready(const plan *x, const rule *r, int s, double *until) {
  const stage *g = &x->stages[s];
  int64_t f = g->done[ETT_UNIT_FORWARD], b = g->done[ETT_UNIT_BACKWARD];
  int64_t w = g->done[ETT_UNIT_WEIGHT];
  double weight = x->p->weight[s], soon = g->clock + r->patience * weight;
  double backward = input(x, ETT_UNIT_BACKWARD, s);
  int early = f - b < 2 * (int64_t)(x->p->stages - 1 - s) + 1;
  double forward = f - w < x->p->orders->most[s] && (early || w == b)
                       ? input(x, ETT_UNIT_FORWARD, s)
                       : INFINITY;
  if (backward <= soon)
    return ETT_UNIT_BACKWARD;
  if (forward <= soon)
    return ETT_UNIT_FORWARD;
  *until = backward < forward ? backward : forward;
  if (w < b && (r->fills || *until > g->clock + weight / 2))
    return ETT_UNIT_WEIGHT;
  return -1;
}

static void run(const plan *x, int s, int kind, double start) {
  const ett_pipeline *p = x->p;
  stage *g = &x->stages[s];
  int64_t i = g->done[kind]++, at = g->done[0] + g->done[1] + g->done[2] - 1;
  double end = start + ett_order_seconds(p, s, kind);
  x->units[3 * (size_t)s * (size_t)p->micro_batches + (size_t)at] =
      (ett_unit){(uint8_t)kind, 0, 0, (uint32_t)i};
  g->clock = end;
  if (kind == ETT_UNIT_WEIGHT)
    return;
  int to = kind == ETT_UNIT_FORWARD ? s + 1 : s - 1;
  if (to == p->stages) { /* the last slice starts the backward */
    *arrival(x, ETT_UNIT_BACKWARD, s, i) = end;
  } else if (to >= 0) {
    double sent = end + (to > s ? p->send_forward[s] : p->send_backward[to]);
    *arrival(x, kind, to, i) = sent;
    x->stages[to].waits = 0;
    if (p->blocking_sends)
      g->clock = sent;
  }
}

/* Orders all units by a rule; 0: the rule deadlocks. */
static int order_by(const plan *x, const rule *r) {
  const ett_pipeline *p = x->p;
  size_t cells = (size_t)p->stages * (size_t)p->micro_batches;
  memset(x->stages, 0, (size_t)p->stages * sizeof *x->stages);
  for (size_t i = 0; i < cells; i++)
    x->arrival[0][i] = x->arrival[1][i] = NAN;
  for (int64_t i = 0; i < p->micro_batches; i++)
    *arrival(x, ETT_UNIT_FORWARD, 0, i) = 0;
  for (size_t left = 3 * cells; left > 0;) {
    int s = -1;
    for (int k = 0; k < p->stages; k++) {
      const stage *g = &x->stages[k];
      if (!g->waits && g->done[ETT_UNIT_WEIGHT] < p->micro_batches &&
          (s < 0 || g->clock < x->stages[s].clock))
        s = k;
    }
    if (s < 0)
      return 0;
    stage *g = &x->stages[s];
    double until = INFINITY;
    int kind = r->width >= 0 ? next_of_pattern(x, r, s) : next_ready(x, r, s, &until);
    if (kind >= 0)
      until = kind == ETT_UNIT_WEIGHT ? g->clock : input(x, kind, s);
    if (isinf(until)) {
      g->waits = 1;
    } else if (kind < 0) {
      g->clock = until;
    } else {
      run(x, s, kind, until > g->clock ? until : g->clock);
      left--;
    }
  }
  return 1;
}

/* Memory of a plan: two copies of the units and stage offsets, and the arrays of a
 * rule. */
static int reserve(ett_plan_memory *w, const ett_pipeline *p, plan *x, ett_err *err) {
  size_t stages = (size_t)p->stages, cells = stages * (size_t)p->micro_batches;
  size_t kept = (stages + 1) * sizeof *w->first_unit + 3 * cells * sizeof *w->units;
  size_t bytes = kept + 3 * cells * sizeof *w->units +
                 (2 * cells + stages) * sizeof(double) + stages * sizeof(stage);
  if (ett_room(&w->memory, &w->bytes, bytes) != 0)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to plan %zu units",
                       3 * cells);
  w->first_unit = w->memory;
  w->units = (ett_unit *)(w->first_unit + stages + 1);
  x->units = w->units + 3 * cells;
  x->arrival[0] = (double *)(x->units + 3 * cells);
  x->arrival[1] = x->arrival[0] + cells;
  x->start = x->arrival[1] + cells;
  x->stages = (stage *)(x->start + stages);
  return 0;
}

/* Number of steps after which the step time is nearly constant. */
enum { STEPS = 4 };

/* Earliest start of a stage's next step. */
static double ended(const ett_pipeline_result *r, int s, int stages, ett_plan_ends ends) {
  int meets = ends == ETT_PLAN_ENDS_MEET && (s == 0 || s == stages - 1);
  return meets ? fmax(r->end[0], r->end[stages - 1]) : r->end[s];
}

/* Seconds of a step in the given order. */
static int measure(const plan *x, const ett_orders *orders, ett_pipeline_workspace *w,
                   ett_plan_ends ends, double *seconds, ett_err *err) {
  ett_pipeline p = *x->p;
  p.orders = orders;
  p.start = x->start;
  memset(x->start, 0, (size_t)p.stages * sizeof *x->start);
  for (int n = 0; n < (ends == ETT_PLAN_ENDS_TOGETHER ? 1 : STEPS); n++) {
    ett_pipeline_result r;
    if (ett_pipeline_run(&p, w, &r, err) != 0)
      return -1;
    double first = INFINITY;
    *seconds = ends == ETT_PLAN_ENDS_TOGETHER ? r.makespan : 0;
    for (int s = 0; s < p.stages; s++) {
      double end = ended(&r, s, p.stages, ends);
      first = end < first ? end : first;
      if (ends != ETT_PLAN_ENDS_TOGETHER && end - x->start[s] > *seconds)
        *seconds = end - x->start[s];
    }
    for (int s = 0; s < p.stages; s++)
      x->start[s] = ended(&r, s, p.stages, ends) - first;
  }
  return 0;
}

/* The widest pattern that respects every stage's declared maximum. */
static double widest(const ett_pipeline *p) {
  int64_t least = p->orders->most[0];
  for (int s = 1; s < p->stages; s++)
    if (p->orders->most[s] < least)
      least = p->orders->most[s];
  return p->stages > 1 ? (double)(least - 1) / (p->stages - 1) : 0;
}

int ett_pipeline_plan(ett_pipeline *p, ett_pipeline_workspace *workspace,
                      ett_plan_ends ends, ett_err *err) {
  ett_plan_memory *w = &workspace->plan;
  const ett_orders *given = p->orders;
  if (!given || !given->planned)
    return 0;
  if (w->held && w->orders.stages == p->stages && w->micro_batches == p->micro_batches) {
    p->orders = &w->orders;
    return 0;
  }
  if (ett_pipeline_check(p, err) != 0)
    return -1;
  if (!p->weight || !given->most || p->chunks != 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a planned order needs weight seconds, declared activations and "
                       "one chunk per stage");
  for (int s = 0; s < p->stages; s++)
    if (given->most[s] < 1)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "stage %d: the schedule declares activations of %lld forwards, "
                         "an order needs at least 1",
                         s + 1, (long long)given->most[s]);
  plan x = {.p = p};
  if (reserve(w, p, &x, err) != 0)
    return -1;
  double width = widest(p), best = INFINITY;
  const rule rules[] = {{width, 0, 0},
                        {width < 1 ? width : 1, 0, 0},
                        {0.875 * width, 0, 0},
                        {0.75 * width, 0, 0},
                        {0.625 * width, 0, 0},
                        {-1, 0, 0},
                        {-1, 0, 1},
                        {-1, 0.25, 0},
                        {-1, 0.5, 1}};
  size_t stages = (size_t)p->stages, each = 3 * (size_t)p->micro_batches;
  for (size_t s = 0; s <= stages; s++)
    w->first_unit[s] = s * each;
  w->orders = *given;
  w->orders.first_unit = w->first_unit;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    double seconds;
    if (!order_by(&x, &rules[i]))
      continue;
    w->orders.units = x.units;
    w->orders.identity = ett_orders_identity(&w->orders);
    if (measure(&x, &w->orders, workspace, ends, &seconds, err) != 0)
      return -1;
    if (seconds < best) {
      best = seconds;
      memcpy(w->units, x.units, stages * each * sizeof *w->units);
    }
  }
  if (isinf(best))
    return ett_err_set(err, ETT_ERR_INTERNAL, "internal error: no order was found");
  w->orders.units = w->units;
  w->orders.identity = ett_orders_identity(&w->orders);
  w->micro_batches = p->micro_batches;
  p->orders = &w->orders;
  return 0;
}

void ett_pipeline_hold_plan(ett_pipeline_workspace *workspace, int held) {
  workspace->plan.held = held && workspace->plan.micro_batches > 0;
}
