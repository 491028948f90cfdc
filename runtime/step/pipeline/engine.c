/* The event engine: runs every unit as early as its order allows. */
#include "step/pipeline/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ett_pipeline_workspace *ett_pipeline_workspace_new(void) {
  return calloc(1, sizeof(ett_pipeline_workspace));
}

void ett_pipeline_workspace_free(ett_pipeline_workspace *workspace) {
  if (!workspace)
    return;
  for (int i = 0; i < ETT_KEPT_TAPES; i++)
    ett_pipeline_tape_free(&workspace->kept[i].tape);
  free(workspace->plan.memory);
  free(workspace->memory);
  free(workspace->timing);
  free(workspace->inputs);
  free(workspace);
}

/* Maximum number of events of other schedules that a workspace keeps. */
#define KEPT_EVENTS (1 << 22)

const ett_pipeline_tape *ett_engine_tape(const ett_pipeline *p, ett_pipeline_workspace *w,
                                         ett_err *err) {
  /* 1F1B uses the group only to index cells. */
  int64_t group = p->schedule == ETT_SCHEDULE_INTERLEAVED ? p->group : 4;
  ett_kept_tape key = {.schedule = p->schedule,
                       .stages = p->stages,
                       .chunks = p->chunks,
                       .pairs = p->forward_hidden != NULL,
                       .weight = p->weight != NULL,
                       .micro_batches = p->micro_batches,
                       .group = group,
                       .identity = p->orders ? p->orders->identity : 0};
  ett_kept_tape *oldest = &w->kept[0];
  size_t events = 0;
  for (int i = 0; i < ETT_KEPT_TAPES; i++) {
    ett_kept_tape *k = &w->kept[i];
    if (k->used && k->schedule == key.schedule && k->stages == key.stages &&
        k->chunks == key.chunks && k->pairs == key.pairs && k->weight == key.weight &&
        k->micro_batches == key.micro_batches && k->group == key.group &&
        k->identity == key.identity) {
      k->used = ++w->uses;
      return &k->tape;
    }
    events += k->tape.bytes / sizeof *k->tape.events;
    if (k->used < oldest->used)
      oldest = k;
  }
  for (int i = 0; events > KEPT_EVENTS && i < ETT_KEPT_TAPES; i++) {
    ett_pipeline_tape_free(&w->kept[i].tape);
    w->kept[i].used = 0;
  }
  key.tape = oldest->tape;
  *oldest = key;
  if (ett_pipeline_tape_build(p, group, &oldest->tape, err) != 0)
    return NULL;
  oldest->used = ++w->uses;
  return &oldest->tape;
}

int ett_engine_time(const ett_pipeline *p, ett_pipeline_workspace *w, ett_err *err) {
  int slots = p->stages * p->chunks;
  size_t count = (size_t)slots * ETT_UNIT_KINDS;
  if (ett_room(&w->timing, &w->timing_bytes, count * sizeof *w->timing) != 0)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %d slots", slots);
  for (int v = 0; v < slots; v++)
    for (int kind = 0; kind < ETT_UNIT_KINDS; kind++) {
      int forward = kind == ETT_UNIT_FORWARD, weight = kind == ETT_UNIT_WEIGHT;
      int to = forward ? ett_order_after(p, v) : ett_order_before(p, v);
      int sends = !weight && to >= 0;
      double send = forward ? p->send_forward[v] : sends ? p->send_backward[to] : 0;
      w->timing[(size_t)v * ETT_UNIT_KINDS + (size_t)kind] =
          (ett_timing){.seconds = ett_order_seconds(p, v, kind),
                       .receive = ett_engine_receive(p, v, kind),
                       .send = sends ? send : 0,
                       .last = (uint32_t)(forward ? slots : v),
                       .link = sends ? !forward : 2};
    }
  return 0;
}

double ett_engine_pair_seconds(const ett_pipeline *p, const ett_event *f,
                               const ett_event *b, double hidden[2]) {
  int fs = (int)(f->unit / ETT_UNIT_KINDS), bs = (int)(b->unit / ETT_UNIT_KINDS);
  hidden[0] = ett_order_hidden(p->forward_hidden, fs, bs);
  hidden[1] = ett_order_hidden(p->backward_hidden, fs, bs);
  return ett_order_seconds(p, fs, (int)(f->unit % ETT_UNIT_KINDS)) +
         ett_order_seconds(p, bs, (int)(b->unit % ETT_UNIT_KINDS)) - hidden[0] -
         hidden[1];
}

/* Runs a range of events. */
static inline __attribute__((always_inline)) void
run_events(const ett_engine *e, const ett_timing *timing, const ett_event *event,
           size_t count, const int blocking, const int receives) {
  double *restrict cells = e->cells;
  double *restrict clock = e->clock;
  for (const ett_event *stop = event + count; event < stop; event++) {
    const ett_timing *t = &timing[event->unit];
    double free = clock[event->rank], input = cells[event->in];
    double start = free > input ? free : input, end;
    if (receives)
      start += t->receive;
    const ett_event *last = event + event->paired;
    if (last != event) { /* the pair begins when both inputs have arrived */
      double hidden[2], other = cells[last->in];
      start = free > input ? free : input;
      start = start > other ? start : other;
      if (receives)
        start += t->receive + timing[last->unit].receive;
      end = start + ett_engine_pair_seconds(e->p, event, last, hidden);
    } else {
      end = start + t->seconds;
    }
    double now = end; /* blocking messages leave one after the other */
    for (;; event++, t = &timing[event->unit]) {
      e->last_start[t->last] = start;
      e->last_end[t->last] = end;
      if (blocking) {
        double sent = now + t->send;
        cells[event->out] = receives ? now : sent;
        now = sent;
      } else {
        double *link = &e->link[t->link][event->rank];
        double begin = *link > end ? *link : end;
        *link = begin + t->send;
        cells[event->out] = *link;
      }
      if (event == last)
        break;
    }
    clock[last->rank] = now;
  }
}

static void run_part(const ett_engine *e, const ett_timing *timing,
                     const ett_event *events, size_t count) {
  if (e->p->blocking_receives)
    run_events(e, timing, events, count, 1, 1);
  else if (e->p->blocking_sends)
    run_events(e, timing, events, count, 1, 0);
  else
    run_events(e, timing, events, count, 0, 0);
}

/* Repeats the period of a tape. The state after a period is a max-plus linear function of
 * the state before. Once a period moves every time by the same delta, all further periods
 * do so too. */
static void run_periods(const ett_engine *e, const ett_pipeline_tape *tape,
                        const ett_timing *timing) {
  const ett_event *events = tape->events + tape->head;
  size_t stages = (size_t)e->p->stages, state = (size_t)(e->busy - e->clock);
  for (int64_t left = tape->repeats; left > 0; left--) {
    int compares = left > 1 && left < tape->repeats;
    memcpy(e->before, e->clock, state * sizeof *e->before);
    run_part(e, timing, events, tape->period);
    if (!compares)
      continue;
    double delta = e->clock[0] - e->before[0];
    int same = 1;
    for (size_t r = 0; r < stages && same; r++)
      same = ett_engine_moved(e->clock[r], e->before[r], delta);
    for (size_t k = 0; k < tape->period && same; k++) {
      size_t cell = (size_t)(e->cells - e->clock) + events[k].out;
      if (events[k].out != ETT_CELL_SINK)
        same = ett_engine_moved(e->clock[cell], e->before[cell], delta);
    }
    for (size_t r = stages; r < 3 * stages && same; r++) /* occupied links */
      same = e->clock[r] == 0 || ett_engine_moved(e->clock[r], e->before[r], delta);
    if (!same)
      continue;
    double further = (double)(left - 1) * delta;
    for (size_t i = 0; i < state; i++)
      if (e->clock[i] != 0)
        e->clock[i] += further;
    e->cells[ETT_CELL_ZERO] = 0;
    return;
  }
}

static void add_pairs(const ett_engine *e, const ett_event *event, size_t count,
                      double runs) {
  for (size_t k = 0; k < count; k++)
    if (event[k].paired) {
      double hidden[2];
      ett_engine_pair_seconds(e->p, &event[k], &event[k + 1], hidden);
      e->hidden_forward[event[k].rank] += runs * hidden[0];
      e->hidden_backward[event[k].rank] += runs * hidden[1];
    }
}

void ett_engine_add_up(const ett_engine *e, const ett_pipeline_tape *tape) {
  const ett_pipeline *p = e->p;
  for (int v = 0; v < p->stages * p->chunks; v++)
    e->busy[v % p->stages] += ett_order_work(p, v);
  if (p->forward_hidden) {
    add_pairs(e, tape->events, tape->head, 1);
    add_pairs(e, tape->events + tape->head, tape->period, (double)tape->repeats);
    add_pairs(e, tape->events + tape->head + tape->period, tape->tail, 1);
    for (int rank = 0; rank < p->stages; rank++)
      e->busy[rank] -= e->hidden_forward[rank] + e->hidden_backward[rank];
  }
}

void ett_engine_finish(const ett_engine *e, ett_pipeline_result *result) {
  double makespan = 0;
  for (int rank = 0; rank < e->p->stages; rank++) {
    /* A non-blocking send is part of the step. */
    double end = e->clock[rank];
    end = e->link[0][rank] > end ? e->link[0][rank] : end;
    end = e->link[1][rank] > end ? e->link[1][rank] : end;
    e->clock[rank] = end;
    makespan = end > makespan ? end : makespan;
  }
  *result = (ett_pipeline_result){makespan,          e->busy,     e->clock,
                                  e->last_start,     e->last_end, e->hidden_forward,
                                  e->hidden_backward};
}

int ett_engine_open(ett_engine *e, const ett_pipeline *p, ett_pipeline_workspace *w,
                    const ett_pipeline_tape *tape, ett_err *err) {
  size_t ranks = (size_t)p->stages, slots = ranks * (size_t)p->chunks;
  size_t cells = tape ? tape->cells : 0;
  size_t state = 4 * ranks + 2 * (slots + 1) + cells, all = state + 3 * ranks;
  all += !tape ? 5 * ranks : tape->period ? state : 0;
  if (ett_room(&w->memory, &w->memory_bytes, all * sizeof *w->memory) != 0)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %zu pipeline units",
                       all);
  double *at = w->memory;
  w->run_known = 0;
  memset(at, 0, all * sizeof *at);
  e->p = p;
  e->clock = at, at += ranks;
  for (int l = 0; l < 3; l++, at += ranks)
    e->link[l] = at;
  e->last_start = at, at += slots + 1;
  e->last_end = at, at += slots + 1;
  e->cells = at, at += cells;
  e->busy = at, at += ranks;
  e->hidden_forward = at, at += ranks;
  e->hidden_backward = at, at += ranks;
  e->before = at;
  if (p->start)
    memcpy(e->clock, p->start, ranks * sizeof *at);
  return 0;
}

/* 1F1B without a tape. In round t, stage s runs forward t and then backward t - (stages -
 * 1 - s). A forward needs the previous stage of the same round; a backward needs the next
 * stage of the round before. Two passes over the stages complete a round, with the
 * additions and maxima of the general engine. */
typedef struct rounds {
  const ett_engine *e;
  double *gradient;  /* per stage: arrival of the input of its next backward */
  double *before[2]; /* clocks and gradients of the previous round, followed by links */
} rounds;

static inline double send(const double *restrict seconds, double *restrict link, int at,
                          double end, int rank) {
  double start = link[rank] > end ? link[rank] : end;
  return link[rank] = start + seconds[at];
}

/* The forward passes of a round. */
static inline __attribute__((always_inline)) void
run_forwards(const rounds *r, const int blocking, const int receives) {
  const ett_engine *e = r->e;
  const ett_pipeline *p = e->p;
  const int last = p->stages - 1;
  const double *forward = p->forward, *send_forward = p->send_forward;
  double *restrict clock = e->clock, input = 0;
  for (int s = 0; s < last; s++) {
    double start = clock[s] > input ? clock[s] : input;
    if (receives && s > 0)
      start += send_forward[s - 1];
    double end = start + forward[s];
    if (blocking) {
      clock[s] = end + send_forward[s];
      input = receives ? end : clock[s];
    } else {
      clock[s] = end;
      input = send(send_forward, e->link[0], s, end, s);
    }
  }
  double start = clock[last] > input ? clock[last] : input;
  if (receives && last > 0)
    start += send_forward[last - 1];
  clock[last] = r->gradient[last] = start + forward[last];
}

/* The backward pass of stage s. leads: whether this is the first stage. Returns its start
 * and sets its end. */
static inline __attribute__((always_inline)) double
run_backward(const rounds *r, int s, double *end, const int leads, const int blocking,
             const int receives) {
  const ett_engine *e = r->e;
  const ett_pipeline *p = e->p;
  double *restrict clock = e->clock, *restrict gradient = r->gradient;
  double start = clock[s] > gradient[s] ? clock[s] : gradient[s];
  if (receives && s < p->stages - 1)
    start += p->send_backward[s];
  *end = start + p->backward[s];
  if (leads) {
    clock[s] = *end;
  } else if (blocking) {
    clock[s] = *end + p->send_backward[s - 1];
    gradient[s - 1] = receives ? *end : clock[s];
  } else {
    clock[s] = *end;
    gradient[s - 1] = send(p->send_backward, e->link[1], s - 1, *end, s);
  }
  return start;
}

/* Backward passes of stages from `first` to before `end`, neither the first nor the last.
 * None depends on another, so the compiler can use vector instructions. */
static void run_middle(double *restrict clock, double *restrict gradient,
                       const double *restrict backward, const double *restrict sends,
                       int first, int end) {
  for (int s = first; s < end; s++) {
    double start = clock[s] > gradient[s] ? clock[s] : gradient[s];
    gradient[s - 1] = clock[s] = start + backward[s] + sends[s - 1];
  }
}

/* The backward passes of a round, from stage `first` to stage `last`. ends: whether the
 * pass of stage `last` is its last one. */
static inline __attribute__((always_inline)) void
run_backwards(const rounds *r, int first, int last, int ends, const int blocking,
              const int receives) {
  const ett_engine *e = r->e;
  const ett_pipeline *p = e->p;
  double end = 0, start = 0;
  int s = first;
  if (s == 0 && last > 0)
    run_backward(r, s++, &end, 1, blocking, receives);
  if (blocking && !receives && s < last)
    run_middle(e->clock, r->gradient, p->backward, p->send_backward, s, last), s = last;
  for (; s < last; s++)
    run_backward(r, s, &end, 0, blocking, receives);
  start = last == 0 ? run_backward(r, last, &end, 1, blocking, receives)
                    : run_backward(r, last, &end, 0, blocking, receives);
  if (ends) {
    e->last_start[last] = start;
    e->last_end[last] = end;
  }
}

static inline __attribute__((always_inline)) void
one_round(const rounds *r, int64_t t, const int blocking, const int receives) {
  const int64_t last = r->e->p->stages - 1, m = r->e->p->micro_batches;
  if (t < m)
    run_forwards(r, blocking, receives);
  /* Micro-batch t - (last - s) < m: later stages finish first. */
  run_backwards(r, t < last ? (int)(last - t) : 0, (int)(t < m ? last : last - 1 - t + m),
                t >= m - 1, blocking, receives);
}

/* After round t: the number of rounds that can be skipped at once; 0: none. */
static int64_t skip_rounds(const rounds *r, int64_t t) {
  const ett_engine *e = r->e;
  size_t stages = (size_t)e->p->stages;
  int64_t first = e->p->stages - 1, left = e->p->micro_batches - 2 - t;
  if (t < first || left < 8)
    return 0;
  if ((t - first) % 8 == 6) { /* compares every eighth round with the round before */
    memcpy(r->before[0], e->clock, 3 * stages * sizeof *e->clock);
    memcpy(r->before[1], r->gradient, stages * sizeof *r->gradient);
    return 0;
  }
  if ((t - first) % 8 != 7)
    return 0;
  double delta = e->clock[0] - r->before[0][0];
  for (size_t s = 0; s < stages; s++)
    if (!ett_engine_moved(e->clock[s], r->before[0][s], delta) ||
        !ett_engine_moved(r->gradient[s], r->before[1][s], delta))
      return 0;
  for (size_t i = stages; i < 3 * stages; i++)
    if (e->clock[i] != 0 && !ett_engine_moved(e->clock[i], r->before[0][i], delta))
      return 0;
  double further = (double)left * delta;
  for (size_t s = 0; s < stages; s++) {
    e->clock[s] += further;
    r->gradient[s] += further;
  }
  for (size_t i = stages; i < 3 * stages; i++)
    if (e->clock[i] != 0)
      e->clock[i] += further;
  return left;
}

static void run_1f1b(const ett_engine *e) {
  const ett_pipeline *p = e->p;
  size_t stages = (size_t)p->stages;
  rounds r = {.e = e, .gradient = e->before};
  r.before[0] = r.gradient + stages;
  r.before[1] = r.before[0] + 3 * stages;
  for (int s = 0; s < p->stages; s++)
    e->busy[s] = (double)p->micro_batches * (p->forward[s] + p->backward[s]);
  for (int64_t t = 0; t < p->micro_batches + p->stages - 1; t++) {
    if (p->blocking_receives)
      one_round(&r, t, 1, 1);
    else if (p->blocking_sends)
      one_round(&r, t, 1, 0);
    else
      one_round(&r, t, 0, 0);
    t += skip_rounds(&r, t);
  }
}

enum { INPUTS = 9 };

/* Collects the input arrays of a pipeline and their lengths; returns the total length. */
static size_t inputs_of(const ett_pipeline *p, const double *array[INPUTS],
                        size_t length[INPUTS]) {
  const double *const all[INPUTS] = {
      p->forward,       p->backward,       p->weight,          p->joined, p->send_forward,
      p->send_backward, p->forward_hidden, p->backward_hidden, p->start};
  size_t ranks = (size_t)p->stages, slots = ranks * (size_t)p->chunks, sum = 0;
  for (int i = 0; i < INPUTS; i++) {
    array[i] = all[i];
    length[i] = !all[i] ? 0 : all[i] == p->start ? ranks : slots;
    sum += length[i];
  }
  return sum;
}

/* Whether the workspace's last run had the same inputs. */
static int is_known(const ett_pipeline *p, const ett_pipeline_workspace *w) {
  const ett_pipeline *k = &w->run;
  const double *array[INPUTS], *known[INPUTS], *at = w->inputs;
  size_t length[INPUTS], known_length[INPUTS];
  if (!w->run_known || p->schedule != k->schedule || p->stages != k->stages ||
      p->chunks != k->chunks || p->micro_batches != k->micro_batches ||
      p->group != k->group || p->blocking_sends != k->blocking_sends ||
      p->blocking_receives != k->blocking_receives ||
      w->run_identity != (p->orders ? p->orders->identity : 0))
    return 0;
  inputs_of(p, array, length);
  inputs_of(k, known, known_length);
  for (int i = 0; i < INPUTS; at += length[i++])
    if (!array[i] != !known[i] ||
        (length[i] && memcmp(array[i], at, length[i] * sizeof *at) != 0))
      return 0;
  return 1;
}

/* Stores the inputs of a run. The stored run is invalid if memory runs out. */
static void remember(const ett_pipeline *p, ett_pipeline_workspace *w,
                     const ett_pipeline_result *result) {
  const double *array[INPUTS];
  size_t length[INPUTS], sum = inputs_of(p, array, length);
  if (ett_room(&w->inputs, &w->input_bytes, sum * sizeof *w->inputs) != 0)
    return;
  double *at = w->inputs;
  for (int i = 0; i < INPUTS; at += length[i++])
    if (length[i])
      memcpy(at, array[i], length[i] * sizeof *at);
  w->run = *p;
  w->run_identity = p->orders ? p->orders->identity : 0;
  w->run_result = *result;
  w->run_known = 1;
}

int ett_pipeline_run(const ett_pipeline *p, ett_pipeline_workspace *w,
                     ett_pipeline_result *result, ett_err *err) {
  if (ett_pipeline_check(p, err) != 0)
    return -1;
  if (p->orders && p->orders->has_weight != (p->weight != NULL))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "weight seconds are given without W units, or W units without "
                       "weight seconds: the orders hold %s",
                       p->orders->has_weight ? "W units" : "none");
  if (is_known(p, w)) {
    *result = w->run_result;
    return 0;
  }
  ett_engine e;
  if (p->schedule == ETT_SCHEDULE_1F1B && !p->weight && !p->forward_hidden) {
    if (ett_engine_open(&e, p, w, NULL, err) != 0)
      return -1;
    run_1f1b(&e);
    ett_engine_finish(&e, result);
    remember(p, w, result);
    return 0;
  }
  const ett_pipeline_tape *tape = ett_engine_tape(p, w, err);
  if (!tape || ett_engine_time(p, w, err) != 0 ||
      ett_engine_open(&e, p, w, tape, err) != 0)
    return -1;
  run_part(&e, w->timing, tape->events, tape->head);
  if (tape->period)
    run_periods(&e, tape, w->timing);
  run_part(&e, w->timing, tape->events + tape->head + tape->period, tape->tail);
  ett_engine_add_up(&e, tape);
  ett_engine_finish(&e, result);
  remember(p, w, result);
  return 0;
}
