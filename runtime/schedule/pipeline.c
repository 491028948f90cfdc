#include "schedule/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ett_pipeline_workspace {
  double *memory;
  size_t doubles;
  size_t *next;
  size_t ranks;
};

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

int ett_pipeline_check(const ett_pipeline *p, ett_err *err) {
  if (p->stages < 1 || p->stages > ETT_PIPELINE_MAX_STAGES)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "pipeline stages must be 1 to %d, got %d",
                       ETT_PIPELINE_MAX_STAGES, p->stages);
  if (p->chunks < 1 || p->chunks > ETT_PIPELINE_MAX_CHUNKS)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "chunks a stage must be 1 to %d, got %d",
                       ETT_PIPELINE_MAX_CHUNKS, p->chunks);
  if (p->micro_batches < 1 || p->micro_batches > UINT32_MAX)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "micro-batches must be 1 to 2^32-1, got %lld",
                       (long long)p->micro_batches);
  if ((double)p->micro_batches * p->stages * p->chunks > ETT_PIPELINE_MAX_UNITS)
    return ett_err_set(err, ETT_ERR_LIMIT,
                       "micro-batches * stages * chunks must be at most %d, got %.0f",
                       ETT_PIPELINE_MAX_UNITS,
                       (double)p->micro_batches * p->stages * p->chunks);
  if ((p->schedule == ETT_SCHEDULE_GPIPE || p->schedule == ETT_SCHEDULE_1F1B) &&
      p->chunks != 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "this schedule holds one chunk a stage, got %d; use interleaved",
                       p->chunks);
  if (p->blocking_receives && !p->blocking_sends)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "receives that block need sends that block");
  if (p->schedule == ETT_SCHEDULE_INTERLEAVED && p->micro_batches % p->stages != 0)
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "the interleaved schedule needs micro-batches to be a multiple of %d stages, got "
        "%lld",
        p->stages, (long long)p->micro_batches);
  return 0;
}

size_t ett_pipeline_unit_count(const ett_pipeline *p, int rank) {
  if (p->schedule == ETT_SCHEDULE_CUSTOM)
    return p->first_unit[rank + 1] - p->first_unit[rank];
  return 2 * (size_t)p->micro_batches * (size_t)p->chunks;
}

/* Forwards before the first backward. */
static int64_t warm_up(const ett_pipeline *p, int rank) {
  int64_t forwards = p->micro_batches * p->chunks;
  int64_t warm = p->stages - 1 - rank;
  if (p->schedule == ETT_SCHEDULE_INTERLEAVED && p->chunks > 1)
    warm = warm * 2 + (int64_t)(p->chunks - 1) * p->stages;
  return warm < forwards ? warm : forwards;
}

/* The n-th forward (or backward) of a rank under the interleaved order: groups of
 * `stages` micro-batches pass through chunk after chunk; backwards take them reversed. */
static ett_unit interleaved_unit(const ett_pipeline *p, int64_t n, ett_unit_kind kind) {
  int64_t group = (int64_t)p->stages * p->chunks;
  int64_t within = n % group;
  int64_t chunk = within / p->stages;
  if (kind == ETT_UNIT_BACKWARD)
    chunk = p->chunks - 1 - chunk;
  int64_t micro_batch = n / group * p->stages + within % p->stages;
  return (ett_unit){(uint8_t)kind, (uint16_t)chunk, (uint32_t)micro_batch};
}

static inline ett_unit unit_at(const ett_pipeline *p, int rank, int64_t warm, int64_t k) {
  int64_t forwards = p->micro_batches * p->chunks;
  ett_unit_kind kind;
  int64_t n;
  switch (p->schedule) {
  case ETT_SCHEDULE_CUSTOM:
    return p->units[p->first_unit[rank] + (size_t)k];
  case ETT_SCHEDULE_GPIPE:
    kind = k < forwards ? ETT_UNIT_FORWARD : ETT_UNIT_BACKWARD;
    n = k < forwards ? k : k - forwards;
    return (ett_unit){(uint8_t)kind, 0, (uint32_t)n};
  case ETT_SCHEDULE_1F1B:
  case ETT_SCHEDULE_INTERLEAVED:
  default:
    break;
  }
  if (k < warm) {
    kind = ETT_UNIT_FORWARD;
    n = k;
  } else if (k < 2 * forwards - warm) { /* steady: one forward, one backward */
    kind = (k - warm) % 2 == 0 ? ETT_UNIT_FORWARD : ETT_UNIT_BACKWARD;
    n = (k - warm) / 2 + (kind == ETT_UNIT_FORWARD ? warm : 0);
  } else {
    kind = ETT_UNIT_BACKWARD;
    n = k - forwards;
  }
  if (p->chunks == 1)
    return (ett_unit){(uint8_t)kind, 0, (uint32_t)n};
  return interleaved_unit(p, n, kind);
}

ett_unit ett_pipeline_unit(const ett_pipeline *p, int rank, size_t k) {
  return unit_at(p, rank, warm_up(p, rank), (int64_t)k);
}

/* Every rank's own order must hold each unit once. seen: one byte per slice and unit. */
static int check_custom(const ett_pipeline *p, ett_err *err) {
  static const char *const kinds[] = {"forward", "backward", "weight"};
  size_t slices = (size_t)p->stages * (size_t)p->chunks;
  size_t m = (size_t)p->micro_batches;
  unsigned char *seen = calloc(slices * m, 1);
  if (!seen)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to check a schedule");
  int wanted = p->weight ? 7 : 3, status = 0;
  for (int rank = 0; rank < p->stages && status == 0; rank++) {
    for (size_t k = p->first_unit[rank]; k < p->first_unit[rank + 1]; k++) {
      ett_unit u = p->units[k];
      if (u.kind > ETT_UNIT_WEIGHT || u.chunk >= p->chunks || u.micro_batch >= m ||
          !(wanted >> u.kind & 1)) {
        status =
            ett_err_set(err, ETT_ERR_ARGUMENT,
                        "stage %d: unit %zu is outside the pipeline (kind %d, chunk %d, "
                        "micro-batch %u)",
                        rank + 1, k - p->first_unit[rank] + 1, u.kind, u.chunk + 1,
                        u.micro_batch + 1);
        break;
      }
      unsigned char *mark =
          &seen[((size_t)u.chunk * p->stages + rank) * m + u.micro_batch];
      if (*mark >> u.kind & 1) {
        status = ett_err_set(err, ETT_ERR_ARGUMENT,
                             "stage %d: the %s of chunk %d, micro-batch %u stands twice",
                             rank + 1, kinds[u.kind], u.chunk + 1, u.micro_batch + 1);
        break;
      }
      *mark |= (unsigned char)(1 << u.kind);
    }
  }
  for (size_t i = 0; i < slices * m && status == 0; i++)
    if (seen[i] != wanted) {
      int lacking = !(seen[i] & 1) ? 0 : !(seen[i] & 2) ? 1 : 2;
      status = ett_err_set(err, ETT_ERR_ARGUMENT,
                           "stage %zu: lacks the %s of chunk %zu, micro-batch %zu",
                           i / m % (size_t)p->stages + 1, kinds[lacking],
                           i / m / (size_t)p->stages + 1, i % m + 1);
    }
  free(seen);
  return status;
}

/* The running state of ett_pipeline_run. Arrival times are negative until known. */
typedef struct {
  const ett_pipeline *p;
  int last_slice;
  double *input;    /* [slice][micro-batch]: activations have arrived */
  double *gradient; /* [slice][micro-batch]: output gradients have arrived */
  double *release;  /* [slice][micro-batch]: weight unit may run (split backward) */
  double *clock, *busy, *forward_link, *backward_link; /* per rank */
  double *last_start, *last_end;                       /* per slice */
} engine;

/* When the unit's input is there; negative: not yet known. */
static inline double arrival(const engine *e, int slice, ett_unit u) {
  size_t at = (size_t)slice * (size_t)e->p->micro_batches + u.micro_batch;
  if (u.kind == ETT_UNIT_FORWARD)
    return e->input[at];
  return u.kind == ETT_UNIT_BACKWARD ? e->gradient[at] : e->release[at];
}

/* Sends what ended at `end`; returns when it has arrived (or, if the receiver is to spend
 * the time of the message, when it may begin to) and moves the rank's clock. */
static inline double send(const engine *e, int rank, double *link, double end,
                          double seconds) {
  if (e->p->blocking_sends) {
    e->clock[rank] = end + seconds;
    return e->p->blocking_receives ? end : end + seconds;
  }
  double start = link[rank] > end ? link[rank] : end;
  link[rank] = start + seconds;
  return start + seconds;
}

/* Seconds that a rank spends receiving the input of a forward or backward unit. */
static inline double receive(const ett_pipeline *p, int slice, int last_slice, int kind) {
  if (!p->blocking_receives)
    return 0;
  if (kind == ETT_UNIT_FORWARD)
    return slice > 0 ? p->send_forward[slice - 1] : 0;
  return kind == ETT_UNIT_BACKWARD && slice < last_slice ? p->send_backward[slice] : 0;
}

static inline double execute(const engine *e, int rank, ett_unit u, double ready) {
  const ett_pipeline *p = e->p;
  int slice = u.chunk * p->stages + rank;
  size_t m = (size_t)p->micro_batches, at = (size_t)slice * m + u.micro_batch;
  double start = e->clock[rank] > ready ? e->clock[rank] : ready;
  start += receive(p, slice, e->last_slice, u.kind);
  double seconds = u.kind == ETT_UNIT_FORWARD    ? p->forward[slice]
                   : u.kind == ETT_UNIT_BACKWARD ? p->backward[slice]
                                                 : p->weight[slice];
  double end = start + seconds;
  e->clock[rank] = end;
  e->busy[rank] += seconds;
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
  return start;
}

static int blocked(const engine *e, const size_t *next, ett_err *err) {
  for (int rank = 0; rank < e->p->stages; rank++) {
    if (next[rank] >= ett_pipeline_unit_count(e->p, rank))
      continue;
    ett_unit u = ett_pipeline_unit(e->p, rank, next[rank]);
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "the order waits for itself: stage %d cannot start unit %zu (kind %d, "
        "chunk %d, micro-batch %u)",
        rank + 1, next[rank] + 1, u.kind, u.chunk + 1, u.micro_batch + 1);
  }
  return ett_err_set(err, ETT_ERR_INTERNAL, "pipeline stopped early");
}

static void finish(const engine *e, double *unit_start, ett_pipeline_result *result) {
  double makespan = 0;
  for (int rank = 0; rank < e->p->stages; rank++) {
    /* A send that does not block is still part of the step. */
    double end = e->clock[rank];
    end = e->forward_link[rank] > end ? e->forward_link[rank] : end;
    end = e->backward_link[rank] > end ? e->backward_link[rank] : end;
    e->clock[rank] = end;
    makespan = end > makespan ? end : makespan;
  }
  *result = (ett_pipeline_result){makespan,      e->busy,     e->clock,
                                  e->last_start, e->last_end, unit_start};
}

/* Lays the engine's arrays into the workspace; clears what must start at 0. */
static int open_engine(engine *e, const ett_pipeline *p, ett_pipeline_workspace *w,
                       int events, size_t kept, ett_err *err) {
  size_t ranks = (size_t)p->stages, slices = ranks * (size_t)p->chunks;
  size_t grid = events ? slices * (size_t)p->micro_batches : 0;
  if (reserve(w, grid * (p->weight ? 3 : 2) + 4 * ranks + 2 * slices + kept, ranks,
              err) != 0)
    return -1;
  double *at = w->memory;
  e->p = p;
  e->last_slice = (int)slices - 1;
  e->clock = at, at += ranks;
  e->busy = at, at += ranks;
  e->forward_link = at, at += ranks;
  e->backward_link = at, at += ranks;
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
rounds(const engine *e, const int blocking, const int receives) {
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

static void run_1f1b(const engine *e) {
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
  if (p->schedule == ETT_SCHEDULE_CUSTOM && check_custom(p, err) != 0)
    return -1;
  engine e;
  if (p->schedule == ETT_SCHEDULE_1F1B && !keep_units && !p->weight) {
    if (open_engine(&e, p, w, 0, (size_t)p->stages, err) != 0)
      return -1;
    run_1f1b(&e);
    finish(&e, NULL, result);
    return 0;
  }
  size_t all = 0;
  for (int rank = 0; rank < p->stages; rank++)
    all += ett_pipeline_unit_count(p, rank);
  if (open_engine(&e, p, w, 1, keep_units ? all : 0, err) != 0)
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
      size_t count = ett_pipeline_unit_count(p, rank), k = next[rank];
      int64_t warm = warm_up(p, rank);
      for (; k < count; k++) {
        ett_unit u = unit_at(p, rank, warm, (int64_t)k);
        double ready = arrival(&e, u.chunk * p->stages + rank, u);
        if (ready < 0)
          break;
        double start = execute(&e, rank, u, ready);
        if (kept)
          kept[k] = start;
      }
      done += k - next[rank];
      next[rank] = k;
      if (kept)
        kept += count;
    }
    /* And back up: gradients travel with this one. */
    for (int rank = p->stages - 2; rank >= 0 && !kept; rank--) {
      size_t count = ett_pipeline_unit_count(p, rank), k = next[rank];
      int64_t warm = warm_up(p, rank);
      for (; k < count; k++) {
        ett_unit u = unit_at(p, rank, warm, (int64_t)k);
        double ready = arrival(&e, u.chunk * p->stages + rank, u);
        if (ready < 0)
          break;
        execute(&e, rank, u, ready);
      }
      done += k - next[rank];
      next[rank] = k;
    }
  }
  finish(&e, unit_start, result);
  return 0;
}

int ett_pipeline_gpipe_closed(const ett_pipeline *p, ett_pipeline_workspace *w,
                              ett_pipeline_result *result, ett_err *err) {
  if (ett_pipeline_check(p, err) != 0)
    return -1;
  if (p->schedule != ETT_SCHEDULE_GPIPE)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "this closed form is gpipe's");
  engine e;
  if (open_engine(&e, p, w, 0, 0, err) != 0)
    return -1;
  double m = (double)p->micro_batches;
  /* Each half is a flow shop: after the machines seen so far, the last micro-batch is
   * through at sum + (m - 1) * slowest. */
  double sum = 0, slowest = 0, turn = 0;
  for (int s = 0; s < p->stages; s++) {
    double send = s < p->stages - 1 ? p->send_forward[s] : 0;
    double receive_seconds = receive(p, s, p->stages - 1, ETT_UNIT_FORWARD);
    double service = receive_seconds + p->forward[s] + (p->blocking_sends ? send : 0);
    /* A message that both sides spend time on passes once. */
    sum += service - receive_seconds;
    slowest = service > slowest ? service : slowest;
    if (!p->blocking_sends) {
      sum += send;
      slowest = send > slowest ? send : slowest;
    }
    turn = sum + (m - 1) * slowest;
    e.busy[s] = m * (p->forward[s] + p->backward[s]);
  }
  sum = 0, slowest = 0;
  double makespan = 0;
  for (int s = p->stages - 1; s >= 0; s--) {
    double send = s > 0 ? p->send_backward[s - 1] : 0;
    double receive_seconds = receive(p, s, p->stages - 1, ETT_UNIT_BACKWARD);
    double service = receive_seconds + p->backward[s] + (p->blocking_sends ? send : 0);
    sum += service - receive_seconds;
    slowest = service > slowest ? service : slowest;
    double end = turn + sum + (m - 1) * slowest;
    e.last_end[s] = p->blocking_sends ? end - send : end;
    e.last_start[s] = e.last_end[s] - p->backward[s];
    if (!p->blocking_sends) {
      sum += send;
      slowest = send > slowest ? send : slowest;
      end = turn + sum + (m - 1) * slowest;
    }
    e.clock[s] = end;
    makespan = end > makespan ? end : makespan;
  }
  *result =
      (ett_pipeline_result){makespan, e.busy, e.clock, e.last_start, e.last_end, NULL};
  return 0;
}

ett_pipeline_bounds ett_pipeline_closed(const ett_pipeline *p) {
  int slices = p->stages * p->chunks;
  double m = (double)p->micro_batches;
  double through = 0, slowest = 0, lower = 0, before = 0;
  for (int v = 0; v < slices; v++) {
    double send = v < slices - 1 ? p->send_forward[v] + p->send_backward[v] : 0;
    through += p->forward[v] + p->backward[v] + send;
  }
  for (int rank = 0; rank < p->stages; rank++) {
    double work = 0, sends = 0;
    for (int v = rank; v < slices; v += p->stages) {
      work += p->forward[v] + p->backward[v] + (p->weight ? p->weight[v] : 0);
      sends += (v < slices - 1 ? p->send_forward[v] : 0) +
               (v > 0 ? p->send_backward[v - 1] : 0) +
               receive(p, v, slices - 1, ETT_UNIT_FORWARD) +
               receive(p, v, slices - 1, ETT_UNIT_BACKWARD);
    }
    double own = before + m * work;
    lower = own > lower ? own : lower;
    slowest = work + sends > slowest ? work + sends : slowest;
    before += p->forward[rank] + p->backward[rank];
    if (rank < slices - 1)
      before += p->send_forward[rank] + p->send_backward[rank];
  }
  lower = through > lower ? through : lower;
  double upper = INFINITY;
  if (p->schedule == ETT_SCHEDULE_1F1B || p->schedule == ETT_SCHEDULE_GPIPE)
    upper = through + (m - 1) * slowest;
  if (p->schedule == ETT_SCHEDULE_GPIPE) { /* the halves wait for their own slowest */
    double forward = 0, backward = 0;
    for (int v = 0; v < slices; v++) {
      double f = p->forward[v] + (v < slices - 1 ? p->send_forward[v] : 0) +
                 receive(p, v, slices - 1, ETT_UNIT_FORWARD);
      double b = p->backward[v] + (v > 0 ? p->send_backward[v - 1] : 0) +
                 receive(p, v, slices - 1, ETT_UNIT_BACKWARD);
      forward = f > forward ? f : forward;
      backward = b > backward ? b : backward;
    }
    upper = through + (m - 1) * (forward + backward);
  }
  return (ett_pipeline_bounds){lower, upper};
}

double ett_pipeline_peak_in_flight(const ett_pipeline *p, int rank,
                                   const double *weight) {
  if (p->schedule == ETT_SCHEDULE_GPIPE || p->schedule == ETT_SCHEDULE_1F1B) {
    double in_flight = (double)p->micro_batches;
    if (p->schedule == ETT_SCHEDULE_1F1B && in_flight > p->stages - rank)
      in_flight = p->stages - rank;
    return in_flight * weight[rank];
  }
  double held = 0, peak = 0;
  size_t count = ett_pipeline_unit_count(p, rank);
  int64_t warm = warm_up(p, rank);
  for (size_t k = 0; k < count; k++) {
    ett_unit u = unit_at(p, rank, warm, (int64_t)k);
    double bytes = weight[u.chunk * p->stages + rank];
    if (u.kind == ETT_UNIT_FORWARD)
      held += bytes;
    else if (u.kind == (p->weight ? ETT_UNIT_WEIGHT : ETT_UNIT_BACKWARD))
      held -= bytes;
    peak = held > peak ? held : peak;
  }
  return peak;
}
