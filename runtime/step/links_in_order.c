/* Pipelines on their links in the order of a tape.
 *
 * Sends have priority over collectives, and no stage uses the links of another stage. If
 * units do not slow sends either, the sends of a stage depend only on its own earlier
 * units. One pass over a tape then gives the result of the event engine (links.c). */
#include <string.h>

#include "step/links.h"
#include "step/pipeline/engine.h"

typedef struct in_order {
  const ett_links *l;
  ett_engine e; /* link[0], link[1]: end of the sends of inner lanes, and of the outermost
                   lane; link[2]: time up to which collectives are counted */
  const int32_t *outermost; /* per rank */
  const unsigned char
      *holds;   /* per rank and link: whether these sends stop collectives */
  double *left; /* per rank: seconds of pending collectives */
  double *gathers,
      *served; /* per rank: seconds of all gathers; seconds of completed collectives */
  double *reduced, *gather_wait;
  double *need;         /* per slot: seconds of its rank's gathers up to its own */
  int64_t *gradients;   /* per slot: number of units that produced gradients */
  unsigned char *begun; /* per slot */
  unsigned char *reduces,
      *emptied; /* per rank: whether it ever reduces; whether all collectives ended */
  double *left_before;
} in_order;

/* 1: sends of a lane stop collectives; 0: they have no effect; -1: they slow them. */
static int stops(const ett_links *l, int lane) {
  int slows = 0;
  for (int i = 0; i < l->lanes; i++) {
    double send = l->send[lane][i];
    if (send >= 1 && l->collective[i] > 0)
      return 1;
    slows |= send > 0 && send + l->collective[i] > 1;
  }
  return slows ? -1 : 0;
}

/* A bit for each lane that is the outermost lane of a send of a stage (-1: any stage). */
static unsigned lanes_of_sends(const ett_pipeline *p, const ett_links *l, int stage) {
  unsigned lanes = 0;
  for (int v = 0; v < p->stages * p->chunks; v++) {
    int to = ett_order_after(p, v);
    if (to < 0 || (p->send_forward[v] <= 0 && p->send_backward[v] <= 0))
      continue;
    if (stage < 0 || v % p->stages == stage || to % p->stages == stage)
      lanes |= 1u << l->send_lane[v];
  }
  return lanes;
}

static int more_than_two(unsigned bits) {
  bits &= bits - 1;
  return (bits & (bits - 1)) != 0;
}

int ett_links_in_order(const ett_pipeline *p, const ett_links *l) {
  int slots = p->stages * p->chunks;
  unsigned sends = lanes_of_sends(p, l, -1);
  for (int stage = 0; more_than_two(sends) && stage < p->stages; stage++)
    if (more_than_two(lanes_of_sends(p, l, stage))) /* than a stage's queues */
      return 0;
  for (int lane = 0; lane < l->lanes; lane++)
    if (sends >> lane & 1 && stops(l, lane) < 0)
      return 0;
  for (int lane = 0; !p->blocking_sends && lane < l->lanes; lane++) {
    const double *forward = l->forward_busy[lane], *backward = l->backward_busy[lane];
    int carries = 0, passes = 0;
    for (int i = 0; i < l->lanes; i++)
      carries += sends >> i & 1 && l->send[i][lane] > 0;
    for (int v = 0; carries && v < slots; v++)
      passes |= (forward && forward[v] > 0) || (backward && backward[v] > 0);
    if (carries > 1 || (carries && passes))
      return 0;
  }
  return 1;
}

static double later(double a, double b) {
  return a > b ? a : b;
}

/* The time until which a rank's sends stop collectives. */
static double stopped(const in_order *o, int rank) {
  const unsigned char *holds = &o->holds[2 * rank];
  double until = holds[0] ? o->e.link[0][rank] : 0;
  return holds[1] ? later(until, o->e.link[1][rank]) : until;
}

/* All collectives of a rank have ended. */
static void empty(const in_order *o, int rank, double at) {
  if (o->reduces[rank])
    o->reduced[rank] = at;
  o->served[rank] += o->left[rank];
  o->emptied[rank] = 1;
  o->left[rank] = 0;
}

/* Advances the collectives of a rank to a time, at a rate. */
static void serve(const in_order *o, int rank, double to, double rate) {
  double *at = &o->e.link[2][rank], *left = &o->left[rank];
  double from = later(*at, stopped(o, rank));
  *at = later(*at, to);
  if (*left <= 0 || to <= from)
    return;
  double done = (to - from) * rate;
  if (done < *left) {
    *left -= done;
    o->served[rank] += done;
  } else {
    empty(o, rank, from + *left / rate);
  }
}

/* Computes for some seconds from a time on. Computing is slower while collectives run,
 * which advance at `rate`. Returns the end. */
static double compute(const in_order *o, int rank, double at, double seconds,
                      double rate) {
  double slow = 1 - o->l->share;
  if (o->left[rank] > 0) {
    double from = later(at, stopped(o, rank));
    double empties = rate > 0 ? from + o->left[rank] / rate : INFINITY;
    double end = at + seconds / slow;
    if (end < empties) {
      serve(o, rank, end, rate);
      return end;
    }
    empty(o, rank, empties);
    seconds -= (empties - at) * slow;
    at = empties;
  }
  return o->e.link[2][rank] = at + later(0, seconds);
}

static void reduce(const in_order *o, int rank, double seconds) {
  if (seconds <= 0)
    return;
  o->left[rank] += seconds;
  o->reduces[rank] = 1;
}

/* The fraction of a unit after which its next full buckets are complete; 1: none is left.
 */
static double next_part(const ett_buckets *b, double made) {
  if (made >= b->full)
    return 1;
  return ett_buckets_next(b, made) * b->size / (b->full * b->size + b->rest);
}

/* Runs a unit that produces buckets; returns its end. */
static double make_buckets(const in_order *o, int rank, int slot, double at,
                           double seconds, double rate) {
  const ett_buckets *of[2] = {&o->l->gradients[slot].dense,
                              &o->l->gradients[slot].expert};
  double made[2] = {0, 0}, done = 0;
  for (;;) {
    double part[2] = {next_part(of[0], made[0]), next_part(of[1], made[1])};
    double first = part[0] < part[1] ? part[0] : part[1];
    at = compute(o, rank, at, seconds * (first - done), rate);
    done = first;
    if (first >= 1)
      break;
    for (int i = 0; i < 2; i++)
      if (part[i] <= first) {
        double now = ett_buckets_next(of[i], made[i]);
        reduce(o, rank, (now - made[i]) * of[i]->full_time);
        made[i] = now;
      }
  }
  reduce(o, rank, of[0]->rest_time + of[1]->rest_time);
  return at;
}

/* The slot whose gradients a unit produces and reduces; -1: none. */
static int reducing(const in_order *o, const ett_event *event) {
  const ett_pipeline *p = o->e.p;
  int kind = (int)(event->unit % ETT_UNIT_KINDS),
      slot = (int)(event->unit / ETT_UNIT_KINDS);
  if (!o->l->gradients || kind == ETT_UNIT_FORWARD ||
      (kind == ETT_UNIT_BACKWARD && p->weight))
    return -1;
  int64_t runs = p->orders ? (int64_t)p->orders->runs[slot] : p->micro_batches;
  return ++o->gradients[slot] == runs || o->l->reduces_every ? slot : -1;
}

/* The rate of collectives beside the units event .. last, from the seconds for which
 * these units occupy their lanes. */
static double rate_beside(const in_order *o, const ett_event *event,
                          const ett_event *last, double seconds) {
  double busy[ETT_LANES] = {0};
  for (int lane = 0; lane < o->l->lanes; lane++) {
    if (o->l->collective[lane] <= 0)
      continue;
    for (const ett_event *at = event; at <= last; at++) {
      int kind = (int)(at->unit % ETT_UNIT_KINDS);
      const double *of = kind == ETT_UNIT_FORWARD  ? o->l->forward_busy[lane]
                         : kind == ETT_UNIT_WEIGHT ? NULL
                                                   : o->l->backward_busy[lane];
      busy[lane] += of ? of[at->unit / ETT_UNIT_KINDS] : 0;
    }
    busy[lane] = seconds > 0 ? busy[lane] / seconds : 0;
  }
  return ett_links_beside(o->l, 1 - o->l->share, busy);
}

/* Runs the collectives of a rank during its units event .. last; returns the end of the
 * units. The first forward of a slot waits for its weights. */
static double beside(const in_order *o, const ett_event *event, const ett_event *last,
                     double start, double seconds) {
  int rank = event->rank, slot = -1;
  double need = 0, end = start + seconds;
  for (const ett_event *at = event; at <= last; at++) {
    int own = reducing(o, at), v = (int)(at->unit / ETT_UNIT_KINDS);
    slot = own >= 0 ? own : slot;
    if (at->unit % ETT_UNIT_KINDS == ETT_UNIT_FORWARD && !o->begun[v]) {
      o->begun[v] = 1;
      need = later(need, o->need[v]);
    }
  }
  if (slot < 0 && o->left[rank] <= 0) {
    o->e.link[2][rank] = end;
    return end;
  }
  serve(o, rank, start, 1);
  double rate = rate_beside(o, event, last, seconds);
  end = slot >= 0 ? make_buckets(o, rank, slot, start, seconds, rate)
                  : compute(o, rank, start, seconds, rate);
  need -= o->served[rank];
  if (need <= 0)
    return end;
  double ready = later(end, stopped(o, rank)) + need;
  serve(o, rank, ready, 1);
  o->gather_wait[rank] += ready - end;
  return ready;
}

/* Runs a range of events, as run_events of engine.c does, with links. */
static void run(const in_order *o, const ett_timing *timing, const ett_event *event,
                size_t count) {
  const ett_engine *e = &o->e;
  const ett_pipeline *p = e->p;
  const int blocking = p->blocking_sends, receives = p->blocking_receives;
  for (const ett_event *stop = event + count; event < stop; event++) {
    const ett_event *last = event + event->paired;
    const ett_timing *t = &timing[event->unit];
    double start = later(e->clock[event->rank], e->cells[event->in]);
    double seconds = t->seconds, hidden[2];
    if (last != event) {
      start = later(start, e->cells[last->in]);
      seconds = ett_engine_pair_seconds(p, event, last, hidden);
    }
    if (receives)
      start += t->receive + (last != event ? timing[last->unit].receive : 0);
    double end = beside(o, event, last, start, seconds), now = end;
    for (;; event++) {
      int slot = (int)(event->unit / ETT_UNIT_KINDS), forward = t->link == 0;
      e->last_start[t->last] = start;
      e->last_end[t->last] = end;
      double sent = end;
      if (t->send > 0) {
        int lane = o->l->send_lane[forward ? slot : ett_order_before(p, slot)];
        int apart = lane >= o->outermost[event->rank];
        double *queue = &o->e.link[apart][event->rank];
        double begin = blocking ? now : later(*queue, end);
        if (o->holds[2 * event->rank + (uint32_t)apart])
          serve(o, event->rank, begin, 1);
        sent = *queue = begin + t->send;
      } else if (blocking) {
        sent = now;
      }
      e->cells[event->out] = receives ? now : sent;
      now = blocking ? sent : now;
      if (event == last)
        break;
      t = &timing[event[1].unit];
    }
    e->clock[last->rank] = now;
  }
}

/* Whether the state equals that of the previous period plus delta. Collectives that are
 * always pending may grow. */
static int same_state(const in_order *o, const ett_event *events, size_t period,
                      double delta) {
  const ett_engine *e = &o->e;
  size_t stages = (size_t)e->p->stages;
  for (size_t r = 0; r < stages; r++)
    if (!ett_engine_moved(e->clock[r], e->before[r], delta) ||
        !(o->gathers[r] <= o->served[r]) ||
        (!ett_engine_moved(e->clock[r] + o->left[r], e->clock[r] + o->left_before[r],
                           0) &&
         (o->emptied[r] || o->left[r] < o->left_before[r])))
      return 0;
  for (size_t i = stages; i < 4 * stages; i++) /* sends, collectives */
    if (e->clock[i] != 0 && !ett_engine_moved(e->clock[i], e->before[i], delta))
      return 0;
  for (size_t k = 0; k < period; k++) {
    size_t cell = (size_t)(e->cells - e->clock) + events[k].out;
    if (events[k].out != ETT_CELL_SINK &&
        !ett_engine_moved(e->clock[cell], e->before[cell], delta))
      return 0;
  }
  return 1;
}

/* Repeats the period of a tape. Once a period moves every time by the same delta, all
 * later periods but the last are skipped by one multiplication. */
static void run_periods(const in_order *o, const ett_pipeline_tape *tape,
                        const ett_timing *timing) {
  const ett_engine *e = &o->e;
  const ett_event *events = tape->events + tape->head;
  size_t stages = (size_t)e->p->stages, state = (size_t)(e->busy - e->clock);
  int skipped = 0;
  for (int64_t left = tape->repeats; left > 0; left--) {
    int compares = !skipped && left > 2 && left < tape->repeats;
    if (compares) {
      memcpy(e->before, e->clock, state * sizeof *e->before);
      memcpy(o->left_before, o->left, stages * sizeof *o->left);
      memset(o->emptied, 0, stages);
    }
    run(o, timing, events, tape->period);
    double delta = compares ? e->clock[0] - e->before[0] : 0;
    if (!compares || !same_state(o, events, tape->period, delta))
      continue;
    int64_t further = left - 2;
    for (size_t i = 0; i < state; i++)
      if (e->clock[i] != 0)
        e->clock[i] += (double)further * delta;
    e->cells[ETT_CELL_ZERO] = 0;
    for (size_t r = 0; r < stages; r++)
      if (!o->emptied[r])
        o->left[r] += (double)further * (o->left[r] - o->left_before[r]);
    for (size_t k = 0; k < tape->period; k++) {
      int kind = (int)(events[k].unit % ETT_UNIT_KINDS);
      if (kind != ETT_UNIT_FORWARD)
        o->gradients[events[k].unit / ETT_UNIT_KINDS] += further;
    }
    left -= further;
    skipped = 1;
  }
}

static size_t take(size_t *at, size_t bytes) {
  size_t here = *at;
  *at += (bytes + 15) & ~(size_t)15;
  return here;
}

/* Records whether the sends between a slot and the next one stop collectives. */
static void fill_holds(const in_order *o, int slot, const int32_t *outermost,
                       unsigned char *holds) {
  const ett_pipeline *p = o->e.p;
  int lane = o->l->send_lane[slot], to = ett_order_after(p, slot);
  const int rank[2] = {slot % p->stages, to % p->stages};
  const double sends[2] = {p->send_forward[slot], p->send_backward[slot]};
  for (int i = 0; to >= 0 && i < 2; i++)
    if (sends[i] > 0 && stops(o->l, lane) > 0)
      holds[2 * rank[i] + (lane >= outermost[rank[i]])] = 1;
}

static int open_arrays(in_order *o, ett_links_workspace *w, ett_err *err) {
  const ett_pipeline *p = o->e.p;
  size_t stages = (size_t)p->stages, slots = stages * (size_t)p->chunks, at = 0;
  size_t doubles = take(&at, (6 * stages + slots) * sizeof(double));
  size_t counts = take(&at, slots * sizeof(int64_t));
  size_t flags = take(&at, slots + 4 * stages),
         lanes = take(&at, stages * sizeof(int32_t));
  char *base = ett_links_memory(w, at);
  if (!base)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %zu slots", slots);
  memset(base, 0, at);
  double *d = (double *)(base + doubles);
  double **arrays[] = {&o->left,    &o->gathers,     &o->served,
                       &o->reduced, &o->gather_wait, &o->left_before};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, d += stages)
    *arrays[i] = d;
  o->need = d;
  o->gradients = (int64_t *)(base + counts);
  o->begun = (unsigned char *)base + flags;
  o->reduces = o->begun + slots;
  o->emptied = o->reduces + stages;
  unsigned char *holds = o->emptied + stages;
  int32_t *outermost = (int32_t *)(base + lanes);
  for (size_t r = 0; r < stages; r++)
    outermost[r] = ett_links_outermost(p, o->l, (int)r);
  for (size_t v = 0; v < slots; v++)
    fill_holds(o, (int)v, outermost, holds);
  o->outermost = outermost;
  o->holds = holds;
  for (size_t v = 0; o->l->gather && v < slots; v++)
    o->need[v] = o->gathers[v % stages] += o->l->gather[v];
  for (size_t r = 0; r < stages; r++) {
    o->left[r] = o->gathers[r];
    o->e.link[2][r] = p->start ? p->start[r] : 0;
  }
  return 0;
}

int ett_links_run_in_order(const ett_pipeline *pipeline, const ett_links *links,
                           ett_pipeline_workspace *workspace,
                           ett_links_workspace *links_workspace, ett_links_result *result,
                           ett_err *err) {
  in_order o = {.l = links};
  if (ett_pipeline_check(pipeline, err) != 0)
    return -1;
  const ett_pipeline_tape *tape = ett_engine_tape(pipeline, workspace, err);
  if (!tape || ett_engine_time(pipeline, workspace, err) != 0 ||
      ett_engine_open(&o.e, pipeline, workspace, tape, err) != 0 ||
      open_arrays(&o, links_workspace, err) != 0)
    return -1;
  const ett_timing *timing = workspace->timing;
  run(&o, timing, tape->events, tape->head);
  if (tape->period)
    run_periods(&o, tape, timing);
  run(&o, timing, tape->events + tape->head + tape->period, tape->tail);
  for (int rank = 0; rank < pipeline->stages; rank++)
    serve(&o, rank, INFINITY, 1);
  ett_engine_add_up(&o.e, tape);
  *result = (ett_links_result){.reduced = o.reduced, .gather_wait = o.gather_wait};
  ett_engine_finish(&o.e, &result->pipeline);
  return 0;
}
