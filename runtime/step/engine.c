/* The event engine: every unit as early as its order allows. */
#include "step/engine.h"

#include <stdlib.h>
#include <string.h>

#include "step/order.h"

ett_pipeline_workspace *ett_pipeline_workspace_new(void) {
  return calloc(1, sizeof(ett_pipeline_workspace));
}

void ett_pipeline_workspace_free(ett_pipeline_workspace *workspace) {
  if (!workspace)
    return;
  free(workspace->memory);
  free(workspace->next);
  free(workspace);
}

static int reserve(ett_pipeline_workspace *w, size_t doubles, size_t ranks,
                   ett_err *err) {
  if (w->doubles < doubles) {
    double *memory = realloc(w->memory, doubles * sizeof *memory);
    if (!memory)
      return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %zu pipeline units",
                         doubles);
    w->memory = memory;
    w->doubles = doubles;
  }
  if (w->ranks < ranks) {
    size_t *next = realloc(w->next, ranks * sizeof *next);
    if (!next)
      return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %zu ranks", ranks);
    w->next = next;
    w->ranks = ranks;
  }
  return 0;
}

/* When the unit's input is there; negative: not yet known. */
static inline double arrival(const ett_engine *e, int slice, ett_unit u) {
  size_t at = (size_t)slice * (size_t)e->p->micro_batches + u.micro_batch;
  if (u.kind == ETT_UNIT_FORWARD)
    return e->input[at];
  return u.kind == ETT_UNIT_BACKWARD ? e->gradient[at] : e->release[at];
}

/* Sends what ended at `end`; returns when it has arrived (or, if the receiver is to spend
 * the time of the message, when it may begin to) and moves the rank's clock. */
static inline double send(const ett_engine *e, int rank, double *link, double end,
                          double seconds) {
  if (e->p->blocking_sends) {
    e->clock[rank] = end + seconds;
    return e->p->blocking_receives ? end : end + seconds;
  }
  double start = link[rank] > end ? link[rank] : end;
  link[rank] = start + seconds;
  return start + seconds;
}

/* Passes on what a unit made. */
static inline void deliver(const ett_engine *e, int rank, ett_unit u, double start,
                           double end) {
  const ett_pipeline *p = e->p;
  int slice = u.chunk * p->stages + rank;
  size_t m = (size_t)p->micro_batches, at = (size_t)slice * m + u.micro_batch;
  if (u.kind == ETT_UNIT_FORWARD) {
    if (slice < e->last_slice)
      e->input[at + m] = send(e, rank, e->forward_link, end, p->send_forward[slice]);
    else
      e->gradient[at] = end;
  } else {
    e->last_start[slice] = start;
    e->last_end[slice] = end;
    if (u.kind == ETT_UNIT_BACKWARD) {
      if (p->weight)
        e->release[at] = end;
      if (slice > 0)
        e->gradient[at - m] =
            send(e, rank, e->backward_link, end, p->send_backward[slice - 1]);
    }
  }
}

static inline double execute(const ett_engine *e, int rank, ett_unit u, double ready) {
  const ett_pipeline *p = e->p;
  int slice = u.chunk * p->stages + rank;
  double start = e->clock[rank] > ready ? e->clock[rank] : ready;
  start += ett_engine_receive(p, slice, e->last_slice, u.kind);
  double seconds = u.kind == ETT_UNIT_FORWARD    ? p->forward[slice]
                   : u.kind == ETT_UNIT_BACKWARD ? p->backward[slice]
                                                 : p->weight[slice];
  double end = start + seconds;
  e->clock[rank] = end;
  e->busy[rank] += seconds;
  deliver(e, rank, u, start, end);
  return start;
}

/* A forward and a backward of another micro-batch together. */
static double execute_pair(const ett_engine *e, int rank, ett_unit f, ett_unit b,
                           double ready) {
  const ett_pipeline *p = e->p;
  int fs = f.chunk * p->stages + rank, bs = b.chunk * p->stages + rank;
  double start = e->clock[rank] > ready ? e->clock[rank] : ready;
  start += ett_engine_receive(p, fs, e->last_slice, f.kind) +
           ett_engine_receive(p, bs, e->last_slice, b.kind);
  double forward = ett_order_hidden(p->forward_hidden, fs, bs);
  double backward = ett_order_hidden(p->backward_hidden, fs, bs);
  double seconds = p->forward[fs] + p->backward[bs] - forward - backward;
  double end = start + seconds;
  e->clock[rank] = end;
  e->busy[rank] += seconds;
  e->hidden_forward[rank] += forward;
  e->hidden_backward[rank] += backward;
  deliver(e, rank, f, start, end);
  /* Messages that block leave one behind the other. */
  deliver(e, rank, b, start, p->blocking_sends ? e->clock[rank] : end);
  e->last_end[bs] = end;
  return start;
}

/* Runs the units of a rank from *k on as far as their inputs are there. kept: NULL, or
 * where to write when each begins. */
static void advance(const ett_engine *e, int rank, size_t *k, double *kept) {
  const ett_pipeline *p = e->p;
  size_t count = ett_pipeline_unit_count(p, rank);
  int64_t warm = ett_order_warm_up(p, rank);
  while (*k < count) {
    ett_unit u = ett_order_unit(p, rank, warm, (int64_t)*k);
    double ready = arrival(e, u.chunk * p->stages + rank, u), start;
    if (ready < 0)
      return;
    size_t ran = 1;
    if (ett_order_opens_pair(p, warm, (int64_t)*k)) {
      ett_unit b = ett_order_unit(p, rank, warm, (int64_t)*k + 1);
      double other = arrival(e, b.chunk * p->stages + rank, b);
      if (other < 0)
        return;
      start = execute_pair(e, rank, u, b, other > ready ? other : ready);
      ran = 2;
    } else {
      start = execute(e, rank, u, ready);
    }
    for (size_t i = 0; kept && i < ran; i++)
      kept[*k + i] = start;
    *k += ran;
  }
}

static int blocked(const ett_engine *e, const size_t *next, ett_err *err) {
  for (int rank = 0; rank < e->p->stages; rank++) {
    if (next[rank] >= ett_pipeline_unit_count(e->p, rank))
      continue;
    ett_unit u = ett_pipeline_unit(e->p, rank, next[rank]);
    char text[ETT_ORDER_TEXT];
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "deadlock in the order: stage %d cannot start unit %zu, %s",
                       rank + 1, next[rank] + 1, ett_order_describe(u, text));
  }
  return ett_err_set(err, ETT_ERR_INTERNAL, "pipeline stopped early");
}

static void finish(const ett_engine *e, double *unit_start, ett_pipeline_result *result) {
  double makespan = 0;
  for (int rank = 0; rank < e->p->stages; rank++) {
    /* A send that does not block is still part of the step. */
    double end = e->clock[rank];
    end = e->forward_link[rank] > end ? e->forward_link[rank] : end;
    end = e->backward_link[rank] > end ? e->backward_link[rank] : end;
    e->clock[rank] = end;
    makespan = end > makespan ? end : makespan;
  }
  *result = (ett_pipeline_result){makespan,          e->busy,           e->clock,
                                  e->last_start,     e->last_end,       unit_start,
                                  e->hidden_forward, e->hidden_backward};
}

int ett_engine_open(ett_engine *e, const ett_pipeline *p, ett_pipeline_workspace *w,
                    int events, size_t kept, ett_err *err) {
  size_t ranks = (size_t)p->stages, slices = ranks * (size_t)p->chunks;
  size_t grid = events ? slices * (size_t)p->micro_batches : 0;
  if (reserve(w, grid * (p->weight ? 3 : 2) + 6 * ranks + 2 * slices + kept, ranks,
              err) != 0)
    return -1;
  double *at = w->memory;
  e->p = p;
  e->last_slice = (int)slices - 1;
  e->clock = at, at += ranks;
  e->busy = at, at += ranks;
  e->forward_link = at, at += ranks;
  e->backward_link = at, at += ranks;
  e->hidden_forward = at, at += ranks;
  e->hidden_backward = at, at += ranks;
  e->last_start = at, at += slices;
  e->last_end = at, at += slices;
  memset(w->memory, 0, (size_t)(at - w->memory) * sizeof *at);
  e->input = at, at += grid;
  e->gradient = at, at += grid;
  e->release = at;
  for (size_t i = 0; i < grid * (p->weight ? 3 : 2); i++)
    e->input[i] = -1;
  if (events)
    memset(e->input, 0, (size_t)p->micro_batches * sizeof *e->input);
  return 0;
}

/* 1F1B without tables: in round t stage s runs forward t and then backward
 * t - (stages - 1 - s). Forwards need the stage before in the same round, backwards the
 * stage behind in the round before, so two passes over the stages do a round, with the
 * same additions and maxima as the general engine. */
static inline __attribute__((always_inline)) void
rounds(const ett_engine *e, const int blocking, const int receives) {
  const ett_pipeline *p = e->p;
  const int stages = p->stages;
  const int64_t m = p->micro_batches;
  const double *forward = p->forward, *backward = p->backward;
  const double *send_forward = p->send_forward, *send_backward = p->send_backward;
  double *restrict clock = e->clock, *restrict gradient = e->gradient;
  double *restrict last_start = e->last_start, *restrict last_end = e->last_end;
  for (int s = 0; s < stages; s++) {
    e->busy[s] = (double)m * (forward[s] + backward[s]);
    gradient[s] = 0;
  }
  for (int64_t t = 0; t < m + stages - 1; t++) {
    double input = 0;
    for (int s = 0; s < stages && t < m; s++) {
      double start = clock[s] > input ? clock[s] : input;
      if (receives && s > 0)
        start += send_forward[s - 1];
      double end = start + forward[s];
      clock[s] = end;
      if (s == stages - 1) {
        gradient[s] = end;
      } else if (blocking) {
        clock[s] = end + send_forward[s];
        input = receives ? end : clock[s];
      } else {
        input = send(e, s, e->forward_link, end, send_forward[s]);
      }
    }
    int first = t < stages - 1 ? (int)(stages - 1 - t) : 0;
    /* Micro-batch t - (stages - 1 - s) < m: the rear stages are through first. */
    int64_t over = t - m; /* largest finished index of the last stage */
    int last = over >= 0 ? stages - 1 - (int)(over + 1) : stages - 1;
    for (int s = first; s <= last; s++) {
      double start = clock[s] > gradient[s] ? clock[s] : gradient[s];
      if (receives && s < stages - 1)
        start += send_backward[s];
      double end = start + backward[s];
      clock[s] = end;
      last_start[s] = start;
      last_end[s] = end;
      if (s == 0)
        continue;
      if (blocking) {
        clock[s] = end + send_backward[s - 1];
        gradient[s - 1] = receives ? end : clock[s];
      } else {
        gradient[s - 1] = send(e, s, e->backward_link, end, send_backward[s - 1]);
      }
    }
  }
}

static void run_1f1b(const ett_engine *e) {
  if (e->p->blocking_receives)
    rounds(e, 1, 1);
  else if (e->p->blocking_sends)
    rounds(e, 1, 0);
  else
    rounds(e, 0, 0);
}

int ett_pipeline_run(const ett_pipeline *p, ett_pipeline_workspace *w, int keep_units,
                     ett_pipeline_result *result, ett_err *err) {
  if (ett_pipeline_check(p, err) != 0)
    return -1;
  if (p->schedule == ETT_SCHEDULE_CUSTOM && ett_order_check_custom(p, err) != 0)
    return -1;
  ett_engine e;
  if (p->schedule == ETT_SCHEDULE_1F1B && !keep_units && !p->weight &&
      !p->forward_hidden) {
    if (ett_engine_open(&e, p, w, 0, (size_t)p->stages, err) != 0)
      return -1;
    run_1f1b(&e);
    finish(&e, NULL, result);
    return 0;
  }
  size_t all = 0;
  for (int rank = 0; rank < p->stages; rank++)
    all += ett_pipeline_unit_count(p, rank);
  if (ett_engine_open(&e, p, w, 1, keep_units ? all : 0, err) != 0)
    return -1;
  double *unit_start = keep_units ? w->memory + w->doubles - all : NULL;
  size_t *next = w->next;
  memset(next, 0, (size_t)p->stages * sizeof *next);

  for (size_t done = 0, before = 1; done < all;) {
    if (done == before)
      return blocked(&e, next, err);
    before = done;
    double *kept = unit_start;
    /* Down the pipeline, each rank as far as it can: forwards travel with the loop. */
    for (int rank = 0; rank < p->stages; rank++) {
      size_t from = next[rank];
      advance(&e, rank, &next[rank], kept);
      done += next[rank] - from;
      if (kept)
        kept += ett_pipeline_unit_count(p, rank);
    }
    /* And back up: gradients travel with this one. */
    for (int rank = p->stages - 2; rank >= 0 && !kept; rank--) {
      size_t from = next[rank];
      advance(&e, rank, &next[rank], NULL);
      done += next[rank] - from;
    }
  }
  finish(&e, unit_start, result);
  return 0;
}
