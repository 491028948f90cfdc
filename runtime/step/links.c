/* The event engine of resources: the effect of each event of a flow. */
#include "step/links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/flows.h"
#include "step/pipeline/engine.h"

/* The flows of a stage: its units; two flows of sends; its collectives. If sends overlap
 * computing, sends of the outermost lane are on the second flow; else all sends are on
 * the first. */
enum { RANK, SENDS, COLLECT = SENDS + 2, FLOWS };

/* A unit produces its buckets in at most this many groups, and one for the rest. */
enum { MOST_PARTS = 64 };

typedef enum rank_state {
  STARTING,  /* its start time has not come */
  WAITING,   /* for an input */
  RECEIVING, /* serial sends: spends the time of a message */
  RUNNING,
  HELD,    /* waits only for the weights of its slot */
  SENDING, /* blocking sends */
  DONE
} rank_state;

typedef struct rank {
  ett_cursor cursor;
  rank_state state;
  int count; /* number of running units: 2 in a pair */
  ett_unit unit[2];
  int slot[2];
  double start, seconds, hidden[2];
  int quiet;       /* no other transfer uses the stage's links before they end */
  double attached; /* quiet: seconds of the units' message, which their event includes */
  double busy[ETT_LANES]; /* share of the unit in which its messages occupy a lane */
  int reducing;           /* slot whose gradients it produces; -1: none */
  double made[2];         /* number of its dense and expert buckets that are complete */
  int gathering;          /* slot whose weights are being gathered; past the last: none */
  double held_since;
  int32_t head[2], tail[2]; /* queue of each flow of sends; the head is running */
  int sends_on[2];          /* its lane */
  int outermost;            /* lane of the second flow of sends */
  size_t units;             /* number of units that began */
  double began[FLOWS];      /* start time of each flow's transfer */
  ett_unit reduced_unit;
  int reduced_slot, reduces; /* whether reductions are running */
  int emptied;               /* whether all collectives ended in this period */
} rank;

typedef struct waiting_send {
  ett_unit unit;
  int32_t slot, next;
} waiting_send;

struct ett_links_workspace {
  void *memory;
  size_t bytes;
  waiting_send *send;
  uint32_t sends, free_sends;
  int32_t free_send;
  ett_transfer *transfer;
  uint32_t transfers;
};

typedef struct run {
  const ett_pipeline *p;
  const ett_links *l;
  ett_links_workspace *w;
  ett_flows flows;
  rank *rank;
  int slots;
  int32_t *inputs;         /* built-in: per table and slot, messages not yet read */
  unsigned char *input;    /* custom: per table, slot and micro-batch */
  int64_t *gradients;      /* per slot: number of units that produced gradients */
  unsigned char *gathered; /* per slot */
  double *busy, *end, *last_start, *last_end, *hidden_forward, *hidden_backward;
  double *reduced, *gather_wait, *unit_start, *unit_end;
  double *state[2]; /* now and `lag` periods ago; NULL: no repetition */
  size_t state_count, *first_unit;
  double state_time;
  int64_t lag, most_lag; /* most_lag: 0 before the first state */
  int keep;
  uint32_t transfers;
  ett_err *err;
  int failed;
} run;

ett_links_workspace *ett_links_workspace_new(void) {
  return calloc(1, sizeof(ett_links_workspace));
}

void ett_links_workspace_free(ett_links_workspace *w) {
  if (!w)
    return;
  free(w->memory);
  free(w->send);
  free(w->transfer);
  free(w);
}

void *ett_links_memory(ett_links_workspace *w, size_t bytes) {
  return ett_room(&w->memory, &w->bytes, bytes) == 0 ? w->memory : NULL;
}

static int flow_of(int stage, int flow) {
  return stage * FLOWS + flow;
}

static int is_active(const run *x, int stage, int flow) {
  return x->flows.flow[flow_of(stage, flow)].active;
}

static int table_of(int kind) {
  return kind == ETT_UNIT_WHOLE ? ETT_UNIT_BACKWARD : kind;
}

/* The rate of a transfer on the free part of its lanes. */
static double rate_on(const run *x, const double *lanes, const double *free) {
  double rate = 1;
  for (int i = 0; i < x->l->lanes; i++)
    if (free[i] < rate * lanes[i])
      rate = free[i] / lanes[i];
  return rate;
}

/* The rate of a send during another send: each gets at least half of a lane. */
static double rate_beside(const run *x, const double *lanes, const double *other,
                          const double *free) {
  double left[ETT_LANES], rate = rate_on(x, other, free);
  for (int i = 0; i < x->l->lanes; i++) {
    left[i] = free[i] - rate * other[i];
    left[i] = left[i] > free[i] / 2 ? left[i] : free[i] / 2;
  }
  return rate_on(x, lanes, left);
}

/* The rates of a stage's flows. */
static void set_rates(run *x, int stage) {
  const rank *r = &x->rank[stage];
  const ett_links *l = x->l;
  int running = r->state == RUNNING && !r->quiet, sends = 0;
  int collects = is_active(x, stage, COLLECT);
  double rate = running && collects ? 1 - l->share : 1, free[ETT_LANES];
  const double *send[2] = {NULL, NULL};
  for (int q = 0; q < 2; q++)
    if (is_active(x, stage, SENDS + q)) {
      send[q] = l->send[r->sends_on[q]];
      sends++;
    }
  for (int q = 0; running && q < 2; q++)
    for (int i = 0; send[q] && i < l->lanes; i++) {
      double rest = send[q][i] < 0.5 ? 1 - send[q][i] : 0.5;
      if (send[q][i] > 0 && rate * r->busy[i] > rest)
        rate = rest / r->busy[i];
    }
  ett_flows_set_rate(&x->flows, flow_of(stage, RANK), rate);
  if (sends == 0 && !collects)
    return;
  for (int i = 0; i < l->lanes; i++) {
    free[i] = running ? 1 - rate * r->busy[i] : 1;
    free[i] = free[i] > 0 ? free[i] : 0;
  }
  for (int q = 0; q < 2; q++) {
    if (!send[q])
      continue;
    double own = sends == 2 && q == 0 ? rate_beside(x, send[0], send[1], free)
                                      : rate_on(x, send[q], free);
    ett_flows_set_rate(&x->flows, flow_of(stage, SENDS + q), own);
    for (int i = 0; i < l->lanes; i++) {
      free[i] -= own * send[q][i];
      free[i] = free[i] > 0 ? free[i] : 0;
    }
  }
  if (collects)
    ett_flows_set_rate(&x->flows, flow_of(stage, COLLECT),
                       rate_on(x, l->collective, free));
}

static void no_memory(run *x, uint32_t sends) {
  x->failed =
      ett_err_set(x->err, ETT_ERR_MEMORY, "not enough memory for %u sends", sends);
}

static void note_transfer(run *x, int stage, int flow, ett_transfer_kind kind, int lane,
                          int slot, int to, uint32_t micro_batch) {
  if (!x->keep || x->failed)
    return;
  ett_links_workspace *w = x->w;
  if (ett_grow(&w->transfer, x->transfers, &w->transfers, 256, sizeof *w->transfer)) {
    no_memory(x, x->transfers);
    return;
  }
  w->transfer[x->transfers++] = (ett_transfer){
      kind, lane, stage, slot, to, micro_batch, x->rank[stage].began[flow], x->flows.now};
}

/* Gradients of a stage are ready: their reduction runs after earlier ones and gathers. */
static void reduce(run *x, int stage, double seconds) {
  rank *r = &x->rank[stage];
  int flow = flow_of(stage, COLLECT);
  if (seconds <= 0)
    return;
  r->reduces = 1;
  r->reduced_slot = r->reducing;
  r->reduced_unit = r->unit[r->count - 1];
  if (is_active(x, stage, COLLECT)) {
    ett_flows_extend(&x->flows, flow, seconds, r->gathering < x->slots ? seconds : 0);
    return;
  }
  r->began[COLLECT] = x->flows.now;
  ett_flows_begin(&x->flows, flow, seconds);
  set_rates(x, stage);
}

static const ett_buckets *buckets_of(const run *x, const rank *r, int expert) {
  const ett_slice_gradients *g = &x->l->gradients[r->reducing];
  return expert ? &g->expert : &g->dense;
}

double ett_buckets_next(const ett_buckets *b, double made) {
  double group = b->full > MOST_PARTS ? ceil(b->full / MOST_PARTS) : 1;
  return made + group < b->full ? made + group : b->full;
}

/* The fraction of a unit after which its next full buckets are complete; 1: none is left.
 */
static double next_part(const run *x, const rank *r, int expert) {
  const ett_buckets *b = buckets_of(x, r, expert);
  if (r->made[expert] >= b->full)
    return 1;
  return ett_buckets_next(b, r->made[expert]) * b->size / (b->full * b->size + b->rest);
}

static void mark_next(run *x, int stage) {
  const rank *r = &x->rank[stage];
  if (r->reducing < 0)
    return;
  double dense = next_part(x, r, 0), expert = next_part(x, r, 1);
  double part = dense < expert ? dense : expert;
  ett_flows_mark(&x->flows, flow_of(stage, RANK), part < 1 ? r->seconds * (1 - part) : 0);
}

/* Queues the completed buckets of a unit; all: the unit has ended. */
static void make_buckets(run *x, int stage, int all) {
  rank *r = &x->rank[stage];
  double part[2] = {next_part(x, r, 0), next_part(x, r, 1)}, seconds = 0;
  double first = part[0] < part[1] ? part[0] : part[1];
  for (int expert = 0; expert < 2; expert++) {
    const ett_buckets *b = buckets_of(x, r, expert);
    double made = all                     ? b->full
                  : part[expert] <= first ? ett_buckets_next(b, r->made[expert])
                                          : r->made[expert];
    seconds += (made - r->made[expert]) * b->full_time + (all ? b->rest_time : 0);
    r->made[expert] = made;
  }
  reduce(x, stage, seconds);
}

/* Advances to the next slot of a stage with weights to gather. */
static void gather_next(run *x, int stage) {
  rank *r = &x->rank[stage];
  int flow = flow_of(stage, COLLECT);
  for (; r->gathering < x->slots; r->gathering += x->p->stages) {
    double seconds = x->l->gather[r->gathering];
    if (seconds > 0) {
      ett_flows_mark(&x->flows, flow, ett_flows_left(&x->flows, flow) - seconds);
      return;
    }
    x->gathered[r->gathering] = 1;
  }
  if (is_active(x, stage, COLLECT))
    ett_flows_mark(&x->flows, flow, 0);
}

static void start_gathers(run *x, int stage) {
  double seconds = 0;
  for (int v = stage; v < x->slots; v += x->p->stages)
    seconds += x->l->gather[v];
  if (seconds > 0) {
    x->rank[stage].began[COLLECT] = x->flows.now;
    ett_flows_begin(&x->flows, flow_of(stage, COLLECT), seconds);
    set_rates(x, stage);
  }
  gather_next(x, stage);
}

/* Seconds of the running units, and seconds that a pair hides. */
static double turn_seconds(const run *x, rank *r) {
  const ett_pipeline *p = x->p;
  double seconds = ett_order_seconds(p, r->slot[0], r->unit[0].kind);
  r->hidden[0] = r->hidden[1] = 0;
  if (r->count < 2)
    return seconds;
  r->hidden[0] = ett_order_hidden(p->forward_hidden, r->slot[0], r->slot[1]);
  r->hidden[1] = ett_order_hidden(p->backward_hidden, r->slot[0], r->slot[1]);
  return seconds + ett_order_seconds(p, r->slot[1], r->unit[1].kind) - r->hidden[0] -
         r->hidden[1];
}

static void set_busy(const run *x, rank *r) {
  for (int lane = 0; lane < x->l->lanes; lane++) {
    double busy = 0;
    for (int i = 0; i < r->count; i++) {
      const double *from = r->unit[i].kind == ETT_UNIT_FORWARD ? x->l->forward_busy[lane]
                           : r->unit[i].kind == ETT_UNIT_WEIGHT
                               ? NULL
                               : x->l->backward_busy[lane];
      busy += from ? from[r->slot[i]] : 0;
    }
    r->busy[lane] = busy > 0 && r->seconds > 0 ? busy / r->seconds : 0;
  }
}

/* Whether a unit produces gradients of weights. */
static int makes_gradients(const run *x, int kind) {
  return kind == ETT_UNIT_WEIGHT || kind == ETT_UNIT_WHOLE ||
         (kind == ETT_UNIT_BACKWARD && !x->p->weight);
}

static int64_t runs_of(const run *x, int slot) {
  return x->p->orders ? (int64_t)x->p->orders->runs[slot] : x->p->micro_batches;
}

static int to_of(const run *x, ett_unit u, int slot) {
  return u.kind == ETT_UNIT_FORWARD  ? ett_order_after(x->p, slot)
         : u.kind == ETT_UNIT_WEIGHT ? -1
                                     : ett_order_before(x->p, slot);
}

static double send_seconds(const run *x, ett_unit u, int slot) {
  return u.kind == ETT_UNIT_FORWARD ? x->p->send_forward[slot]
                                    : x->p->send_backward[to_of(x, u, slot)];
}

/* Whether only a unit and its blocking send use the links of their stage. */
static void set_quiet(run *x, int stage) {
  const ett_pipeline *p = x->p;
  rank *r = &x->rank[stage];
  r->attached = 0;
  r->quiet = p->blocking_sends && r->reducing < 0 && !is_active(x, stage, COLLECT);
  if (!r->quiet || p->blocking_receives || r->count > 1)
    return;
  int to = to_of(x, r->unit[0], r->slot[0]);
  if (to >= 0 && to % p->stages != stage)
    r->attached = send_seconds(x, r->unit[0], r->slot[0]);
}

static void begin_unit(run *x, int stage) {
  rank *r = &x->rank[stage];
  r->start = x->flows.now;
  r->seconds = turn_seconds(x, r);
  x->hidden_forward[stage] += r->hidden[0];
  x->hidden_backward[stage] += r->hidden[1];
  r->reducing = -1;
  for (int i = 0; i < r->count; i++) {
    int slot = r->slot[i];
    if (r->unit[i].kind != ETT_UNIT_FORWARD)
      x->last_start[slot] = r->start;
    if (!makes_gradients(x, r->unit[i].kind))
      continue;
    x->gradients[slot]++;
    if (x->l->gradients &&
        (x->l->reduces_every || x->gradients[slot] == runs_of(x, slot))) {
      r->reducing = slot;
      r->made[0] = r->made[1] = 0;
    }
  }
  r->state = RUNNING;
  set_quiet(x, stage);
  if (!r->quiet) {
    set_busy(x, r);
    set_rates(x, stage);
  }
  ett_flows_begin(&x->flows, flow_of(stage, RANK), r->seconds + r->attached);
  mark_next(x, stage);
}

/* The input of a unit, in the tables. */
static int has_input(run *x, ett_unit u, int slot) {
  if (u.kind == ETT_UNIT_FORWARD && ett_order_before(x->p, slot) < 0)
    return 1;
  size_t at = (size_t)table_of(u.kind) * (size_t)x->slots + (size_t)slot;
  if (x->inputs)
    return x->inputs[at] > 0;
  return x->input[at * (size_t)x->p->micro_batches + u.micro_batch];
}

static void take_input(run *x, ett_unit u, int slot) {
  if (x->inputs && (u.kind != ETT_UNIT_FORWARD || ett_order_before(x->p, slot) >= 0))
    x->inputs[(size_t)table_of(u.kind) * (size_t)x->slots + (size_t)slot]--;
}

static void put_input(run *x, int kind, int slot, uint32_t micro_batch) {
  size_t at = (size_t)kind * (size_t)x->slots + (size_t)slot;
  if (x->inputs)
    x->inputs[at]++;
  else
    x->input[at * (size_t)x->p->micro_batches + micro_batch] = 1;
}

/* Serial sends: adds the time of the messages that a rank receives. They use the links of
 * their senders. */
static int receive(run *x, int stage) {
  rank *r = &x->rank[stage];
  double seconds = 0;
  for (int i = 0; i < r->count; i++)
    seconds += ett_engine_receive(x->p, r->slot[i], r->unit[i].kind);
  if (seconds <= 0)
    return 0;
  r->state = RECEIVING;
  ett_flows_begin(&x->flows, flow_of(stage, RANK), seconds);
  return 1;
}

static void note_steady(run *x);

/* Begins the next unit or pair of a rank if its inputs have arrived. */
static void start_next(run *x, int stage) {
  rank *r = &x->rank[stage];
  r->state = DONE;
  if (ett_order_done(&r->cursor))
    return;
  ett_cursor c = r->cursor;
  int count = 0, more;
  r->state = WAITING;
  do {
    ett_unit u = r->unit[count] = ett_order_peek(&c);
    r->slot[count] = u.chunk * x->p->stages + stage;
    if (!has_input(x, u, r->slot[count]))
      return;
    ett_order_next(&c);
    more = u.paired && count == 0;
    count++;
  } while (more);
  if (stage == 0 && x->state[0])
    note_steady(x);
  r->count = count;
  for (int i = 0; i < count; i++) {
    ett_order_next(&r->cursor);
    take_input(x, r->unit[i], r->slot[i]);
  }
  if (!x->p->blocking_receives || !receive(x, stage))
    begin_unit(x, stage);
}

static void deliver(run *x, int kind, int to, uint32_t micro_batch) {
  int stage = to % x->p->stages;
  put_input(x, kind, to, micro_batch);
  if (x->rank[stage].state == WAITING)
    start_next(x, stage);
}

static int lane_of(const run *x, ett_unit u, int slot) {
  return x->l->send_lane[u.kind == ETT_UNIT_FORWARD ? slot : to_of(x, u, slot)];
}

int ett_links_outermost(const ett_pipeline *p, const ett_links *l, int stage) {
  int slots = p->stages * p->chunks, most = 1;
  for (int v = stage; v < slots; v += p->stages) {
    int to = ett_order_after(p, v), from = ett_order_before(p, v);
    if (to >= 0 && p->send_forward[v] > 0 && l->send_lane[v] > most)
      most = l->send_lane[v];
    if (from >= 0 && p->send_backward[from] > 0 && l->send_lane[from] > most)
      most = l->send_lane[from];
  }
  return most;
}

/* The outermost lane of reductions and gathers. */
static int collective_lane(const ett_links *l) {
  int lane = l->lanes - 1;
  while (lane > 0 && l->collective[lane] <= 0)
    lane--;
  return lane;
}

static void put_send(run *x, int stage, int flow, ett_unit u, int slot) {
  ett_links_workspace *w = x->w;
  int32_t own = w->free_send;
  if (own >= 0) {
    w->free_send = w->send[own].next;
  } else {
    if (ett_grow(&w->send, w->free_sends, &w->sends, 256, sizeof *w->send)) {
      no_memory(x, w->free_sends);
      return;
    }
    own = (int32_t)w->free_sends++;
  }
  rank *r = &x->rank[stage];
  int queue = flow - SENDS;
  w->send[own] = (waiting_send){u, slot, -1};
  if (r->head[queue] >= 0)
    w->send[r->tail[queue]].next = own;
  else
    r->head[queue] = own;
  r->tail[queue] = own;
}

static void note_send(run *x, int stage, int flow, ett_unit u, int slot) {
  int to = to_of(x, u, slot), forward = u.kind == ETT_UNIT_FORWARD;
  note_transfer(x, stage, flow, forward ? ETT_TRANSFER_FORWARD : ETT_TRANSFER_BACKWARD,
                lane_of(x, u, slot), slot, to % x->p->stages, u.micro_batch);
}

/* The first send of a queue has ended. */
static void finish_send(run *x, int stage, int flow) {
  rank *r = &x->rank[stage];
  int queue = flow - SENDS;
  int32_t own = r->head[queue];
  waiting_send s = x->w->send[own];
  r->head[queue] = s.next;
  x->w->send[own].next = x->w->free_send;
  x->w->free_send = own;
  int to = to_of(x, s.unit, s.slot), forward = s.unit.kind == ETT_UNIT_FORWARD;
  x->end[stage] = x->flows.now;
  if (send_seconds(x, s.unit, s.slot) > 0)
    note_send(x, stage, flow, s.unit, s.slot);
  if (!x->p->blocking_receives)
    deliver(x, forward ? ETT_UNIT_FORWARD : ETT_UNIT_BACKWARD, to, s.unit.micro_batch);
}

/* Begins the sends of a queue up to the first that takes time. Returns 1 if it is empty.
 */
static int send_next(run *x, int stage, int flow) {
  rank *r = &x->rank[stage];
  int queue = flow - SENDS;
  while (r->head[queue] >= 0 && !is_active(x, stage, flow)) {
    waiting_send s = x->w->send[r->head[queue]];
    double seconds = send_seconds(x, s.unit, s.slot);
    if (x->p->blocking_receives)
      deliver(x, table_of(s.unit.kind), to_of(x, s.unit, s.slot), s.unit.micro_batch);
    r->began[flow] = x->flows.now;
    r->sends_on[queue] = lane_of(x, s.unit, s.slot);
    if (seconds > 0) {
      ett_flows_begin(&x->flows, flow_of(stage, flow), seconds);
      set_rates(x, stage);
    } else {
      finish_send(x, stage, flow);
    }
  }
  return r->head[queue] < 0;
}

/* The running units have ended: delivers their outputs. */
static void finish_unit(run *x, int stage) {
  const ett_pipeline *p = x->p;
  rank *r = &x->rank[stage];
  double ended = r->attached > 0 ? r->start + r->seconds : x->flows.now;
  x->end[stage] = x->flows.now;
  r->state = SENDING;
  for (int i = 0; i < r->count; i++) {
    ett_unit u = r->unit[i];
    int slot = r->slot[i], forward = u.kind == ETT_UNIT_FORWARD;
    if (!forward)
      x->last_end[slot] = ended;
    if (x->keep) {
      size_t at = x->first_unit[stage] + r->units;
      x->unit_start[at] = r->start;
      x->unit_end[at] = ended;
    }
    r->units++;
    if (u.kind == ETT_UNIT_BACKWARD && p->weight)
      put_input(x, ETT_UNIT_WEIGHT, slot, u.micro_batch);
    int to = to_of(x, u, slot);
    if (to < 0) {
      if (forward)
        put_input(x, ETT_UNIT_BACKWARD, slot, u.micro_batch);
    } else if (to % p->stages == stage) {
      put_input(x, forward ? ETT_UNIT_FORWARD : ETT_UNIT_BACKWARD, to, u.micro_batch);
    } else if (r->attached > 0) {
      r->began[SENDS] = ended;
      note_send(x, stage, SENDS, u, slot);
      deliver(x, forward ? ETT_UNIT_FORWARD : ETT_UNIT_BACKWARD, to, u.micro_batch);
    } else {
      int apart = !p->blocking_sends && lane_of(x, u, slot) >= r->outermost;
      put_send(x, stage, SENDS + apart, u, slot);
    }
  }
  if (x->failed)
    return;
  int sent = send_next(x, stage, SENDS);
  send_next(x, stage, SENDS + 1);
  if (sent || !p->blocking_sends)
    start_next(x, stage);
}

/* A slot whose weights the ended units still need; -1: none. */
static int held_by(const run *x, const rank *r) {
  for (int i = 0; x->l->gather && i < r->count; i++)
    if (r->unit[i].kind == ETT_UNIT_FORWARD && !x->gathered[r->slot[i]])
      return r->slot[i];
  return -1;
}

static void end_unit(run *x, int stage) {
  rank *r = &x->rank[stage];
  if (r->reducing >= 0)
    make_buckets(x, stage, 1);
  ett_flows_end(&x->flows, flow_of(stage, RANK));
  r->state = HELD;
  if (!r->quiet)
    set_rates(x, stage);
  r->held_since = x->flows.now;
  if (held_by(x, r) < 0)
    finish_unit(x, stage);
}

static void on_rank(run *x, int stage) {
  rank *r = &x->rank[stage];
  const ett_flow *t = &x->flows.flow[flow_of(stage, RANK)];
  if (r->state == STARTING) {
    ett_flows_end(&x->flows, flow_of(stage, RANK));
    if (x->l->gather)
      start_gathers(x, stage);
    start_next(x, stage);
  } else if (r->state == RECEIVING) {
    ett_flows_end(&x->flows, flow_of(stage, RANK));
    begin_unit(x, stage);
  } else if (t->until > 0) {
    make_buckets(x, stage, 0);
    mark_next(x, stage);
  } else {
    end_unit(x, stage);
  }
}

/* A gather has ended, or all collectives of a stage have. */
static void on_collect(run *x, int stage) {
  rank *r = &x->rank[stage];
  int flow = flow_of(stage, COLLECT), slot = r->gathering;
  int gathers = slot < x->slots;
  if (gathers) {
    note_transfer(x, stage, COLLECT, ETT_TRANSFER_GATHER, collective_lane(x->l), slot,
                  stage, 0);
    x->gathered[slot] = 1;
    r->gathering += x->p->stages;
    r->began[COLLECT] = x->flows.now;
    gather_next(x, stage);
  } else {
    r->reduces = 0;
    x->reduced[stage] = x->flows.now;
    note_transfer(x, stage, COLLECT, ETT_TRANSFER_REDUCE, collective_lane(x->l),
                  r->reduced_slot, stage, r->reduced_unit.micro_batch);
  }
  if (r->gathering >= x->slots && !r->reduces) {
    r->emptied = 1;
    ett_flows_end(&x->flows, flow);
    set_rates(x, stage);
  }
  if (gathers && r->state == HELD && held_by(x, r) < 0) {
    x->gather_wait[stage] += x->flows.now - r->held_since;
    finish_unit(x, stage);
  }
}

static void on_event(run *x, int at) {
  int stage = at / FLOWS, flow = at % FLOWS;
  if (flow == RANK) {
    on_rank(x, stage);
  } else if (flow == COLLECT) {
    on_collect(x, stage);
  } else {
    ett_flows_end(&x->flows, at);
    set_rates(x, stage);
    finish_send(x, stage, flow);
    if (send_next(x, stage, flow) && x->p->blocking_sends)
      start_next(x, stage);
  }
}

/* Number of units after which the order of a rank repeats. */
static int64_t period_of(const ett_pipeline *p) {
  return 2 * p->group * p->chunks;
}

/* The state that determines all later events, relative to now and to the first rank. */
static size_t fill_state(const run *x, double *at) {
  double *first = at;
  for (int s = 0; s < x->p->stages; s++) {
    const rank *r = &x->rank[s];
    *at++ = (double)(r->cursor.k - x->rank[0].cursor.k);
    *at++ = (double)r->state;
    *at++ = r->reducing < 0 ? -1 : r->made[0] + r->made[1];
    *at++ = (double)r->gathering;
    for (int flow = 0; flow < FLOWS; flow++)
      *at++ = is_active(x, s, flow) ? ett_flows_left(&x->flows, flow_of(s, flow)) : -1;
    for (int q = 0; q < 2; q++) {
      int waiting = 0;
      for (int32_t i = r->head[q]; i >= 0; i = x->w->send[i].next)
        waiting++;
      *at++ = (double)waiting;
    }
  }
  for (int i = 0; i < ETT_UNIT_WHOLE * x->slots; i++)
    *at++ = (double)x->inputs[i];
  return (size_t)(at - first);
}

enum { STATE_FLOWS = 4, STATE_OF_STAGE = STATE_FLOWS + FLOWS + 2 };

/* Tolerance for repeated times, relative to the current time. */
#define SAME_TIME 1e-13

/* The seconds by which a stage's pending collectives grew during a period. Negative if
 * they shrank, or if none was pending at some time. */
static double piled_up(const run *x, int stage) {
  size_t at = (size_t)stage * STATE_OF_STAGE + STATE_FLOWS + COLLECT;
  if (x->rank[stage].emptied || x->state[1][at] < 0)
    return -1;
  return x->state[0][at] - x->state[1][at];
}

static int same_state(const run *x) {
  const double *now = x->state[0], *before = x->state[1];
  for (size_t i = 0; i < x->state_count; i++) {
    int stage = (int)(i / STATE_OF_STAGE);
    if (fabs(now[i] - before[i]) > SAME_TIME * x->flows.now &&
        (stage >= x->p->stages || i % STATE_OF_STAGE != STATE_FLOWS + COLLECT ||
         piled_up(x, stage) < 0))
      return 0;
  }
  return 1;
}

/* Advances the state by a multiple of the change of the last `lag` periods. */
static void skip(run *x, int64_t times) {
  int64_t periods = times * x->lag, group = periods * x->p->group;
  double seconds = (double)times * (x->flows.now - x->state_time);
  ett_flows_shift(&x->flows, seconds);
  for (int s = 0; s < x->p->stages; s++) {
    rank *r = &x->rank[s];
    r->cursor.k += periods * period_of(x->p);
    r->cursor.lane[0].first += group;
    r->cursor.lane[1].first += group;
    r->start += seconds;
    double more = piled_up(x, s);
    if (more > 0)
      ett_flows_extend(&x->flows, flow_of(s, COLLECT), (double)times * more, 0);
    if (x->p->forward_hidden) {
      const double *before = x->state[1] + x->state_count;
      x->hidden_forward[s] += (double)times * (x->hidden_forward[s] - before[2 * s]);
      x->hidden_backward[s] +=
          (double)times * (x->hidden_backward[s] - before[2 * s + 1]);
    }
  }
  for (int v = 0; v < x->slots; v++) {
    x->gradients[v] += group;
    x->last_start[v] += seconds;
  }
}

/* Called at the first rank's first unit of each period: skips periods that would repeat
 * earlier ones. Later events depend only on the state, so equal states repeat while the
 * orders repeat. Some steps repeat only after several periods. So a state is compared
 * with a stored state, which is replaced after 1, 2, 4, ... periods (Brent 1980). */
static void note_steady(run *x) {
  const ett_pipeline *p = x->p;
  const ett_cursor *c = &x->rank[0].cursor;
  if (c->k < c->warm || (c->k - c->warm) % period_of(p) != 0)
    return;
  double *now = x->state[0], *before = x->state[1];
  fill_state(x, now);
  x->lag++;
  if (x->most_lag > 0 && same_state(x)) {
    int64_t lead = 0;
    for (int s = 0; s < p->stages; s++)
      lead =
          x->rank[s].cursor.lane[0].first > lead ? x->rank[s].cursor.lane[0].first : lead;
    int64_t periods = p->micro_batches / p->group - 2 - lead / p->group;
    if (periods >= x->lag)
      skip(x, periods / x->lag);
    x->state[0] = NULL;
    return;
  }
  if (x->lag < x->most_lag)
    return;
  for (int s = 0; s < p->stages; s++) {
    now[x->state_count + 2 * (size_t)s] = x->hidden_forward[s];
    now[x->state_count + 2 * (size_t)s + 1] = x->hidden_backward[s];
  }
  x->state[0] = before;
  x->state[1] = now;
  for (int s = 0; s < p->stages; s++)
    x->rank[s].emptied = 0;
  x->state_time = x->flows.now;
  x->lag = 0;
  x->most_lag = x->most_lag > 0 ? 2 * x->most_lag : 1;
}

static size_t take(size_t *at, size_t bytes) {
  size_t here = *at;
  *at += (bytes + 15) & ~(size_t)15;
  return here;
}

/* Places the arrays of a run in one block. */
static int open_run(run *x, size_t units) {
  const ett_pipeline *p = x->p;
  size_t stages = (size_t)p->stages, slots = (size_t)x->slots, at = 0;
  size_t tables = (size_t)ETT_UNIT_WHOLE * slots;
  int repeats = !x->keep && (p->schedule == ETT_SCHEDULE_1F1B ||
                             p->schedule == ETT_SCHEDULE_INTERLEAVED);
  x->state_count = STATE_OF_STAGE * stages + tables;
  size_t flows = take(&at, ett_flows_bytes(p->stages, FLOWS));
  size_t ranks = take(&at, stages * sizeof(rank));
  size_t inputs =
      take(&at, p->orders ? tables * (size_t)p->micro_batches : tables * sizeof(int32_t));
  size_t counts = take(&at, slots * sizeof(int64_t)), gathered = take(&at, slots);
  size_t first_unit = take(&at, x->keep ? stages * sizeof(size_t) : 0);
  size_t doubles = take(&at, (6 * stages + 2 * slots + 2 * units +
                              (repeats ? 2 * (x->state_count + 2 * stages) : 0)) *
                                 sizeof(double));
  char *base = ett_links_memory(x->w, at);
  if (!base)
    return ett_err_set(x->err, ETT_ERR_MEMORY, "not enough memory for %zu pipeline units",
                       units);
  memset(base + ranks, 0, at - ranks);
  ett_flows_open(&x->flows, p->stages, FLOWS, base + flows);
  x->rank = (rank *)(base + ranks);
  x->inputs = p->orders ? NULL : (int32_t *)(base + inputs);
  x->input = p->orders ? (unsigned char *)base + inputs : NULL;
  x->gradients = (int64_t *)(base + counts);
  x->gathered = (unsigned char *)base + gathered;
  x->first_unit = x->keep ? (size_t *)(base + first_unit) : NULL;
  double *d = (double *)(base + doubles);
  double **per_stage[] = {&x->busy,           &x->end,
                          &x->hidden_forward, &x->hidden_backward,
                          &x->reduced,        &x->gather_wait};
  for (size_t i = 0; i < sizeof per_stage / sizeof *per_stage; i++, d += stages)
    *per_stage[i] = d;
  x->last_start = d, d += slots;
  x->last_end = d, d += slots;
  x->unit_start = d, d += units;
  x->unit_end = d, d += units;
  x->state[0] = repeats ? d : NULL;
  x->state[1] = repeats ? d + x->state_count + 2 * stages : NULL;
  x->w->free_sends = 0;
  x->w->free_send = -1;
  return 0;
}

static void start_ranks(run *x) {
  const ett_pipeline *p = x->p;
  size_t units = 0;
  for (int s = 0; s < p->stages; s++) {
    rank *r = &x->rank[s];
    r->cursor =
        ett_order_open(p, s, p->schedule == ETT_SCHEDULE_INTERLEAVED ? p->group : 1);
    r->head[0] = r->head[1] = -1;
    r->reducing = -1;
    r->outermost = ett_links_outermost(p, x->l, s);
    r->gathering = x->l->gather ? s : x->slots;
    if (x->keep)
      x->first_unit[s] = units;
    units += ett_pipeline_unit_count(p, s);
    for (int v = s; v < x->slots; v += p->stages)
      x->busy[s] += ett_order_work(p, v);
    ett_flows_begin(&x->flows, flow_of(s, RANK), p->start ? p->start[s] : 0);
  }
}

static int finish_run(run *x, ett_links_result *result) {
  const ett_pipeline *p = x->p;
  double makespan = 0;
  for (int s = 0; s < p->stages; s++) {
    const rank *r = &x->rank[s];
    char text[ETT_ORDER_TEXT];
    if (r->state != DONE)
      return ett_err_set(x->err, ETT_ERR_ARGUMENT,
                         "deadlock in the order: stage %d cannot start %s", s + 1,
                         ett_order_describe(ett_order_peek(&r->cursor), text));
    x->busy[s] -= x->hidden_forward[s] + x->hidden_backward[s];
    makespan = x->end[s] > makespan ? x->end[s] : makespan;
  }
  *result =
      (ett_links_result){.pipeline = {makespan, x->busy, x->end, x->last_start,
                                      x->last_end, x->hidden_forward, x->hidden_backward},
                         .reduced = x->reduced,
                         .gather_wait = x->gather_wait,
                         .unit_start = x->unit_start,
                         .unit_end = x->unit_end,
                         .transfers = x->w->transfer,
                         .transfer_count = x->transfers};
  return 0;
}

int ett_links_run(const ett_pipeline *pipeline, const ett_links *links,
                  ett_links_workspace *workspace, int keep_units,
                  ett_links_result *result, ett_err *err) {
  if (ett_pipeline_check(pipeline, err) != 0)
    return -1;
  if (pipeline->orders &&
      ett_orders_check(pipeline->orders, pipeline->micro_batches, err) != 0)
    return -1;
  ett_pipeline own = *pipeline;
  if (own.schedule != ETT_SCHEDULE_INTERLEAVED)
    own.group = 1; /* with one chunk any group gives the same order */
  run x = {.p = &own,
           .l = links,
           .w = workspace,
           .slots = own.stages * own.chunks,
           .keep = keep_units,
           .err = err};
  size_t units = 0;
  for (int s = 0; keep_units && s < own.stages; s++)
    units += ett_pipeline_unit_count(&own, s);
  if (open_run(&x, units) != 0)
    return -1;
  start_ranks(&x);
  for (int flow; !x.failed && (flow = ett_flows_next(&x.flows)) >= 0;)
    on_event(&x, flow);
  return x.failed ? -1 : finish_run(&x, result);
}
