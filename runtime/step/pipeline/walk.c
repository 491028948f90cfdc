/* Simulates a schedule tick by tick to build its tape. */
#include "step/pipeline/walk.h"

#include <stdlib.h>
#include <string.h>

/* Content of a cell during the walk. */
enum { EMPTY, MESSAGE, LOCAL /* produced by the same rank: no message */ };

/* The units of a rank in one tick: one unit or a pair. */
typedef struct turn {
  int count;
  ett_unit unit[2];
  size_t slot[2], ring[2], cell[2];
} turn;

typedef struct walk {
  const ett_pipeline *p;
  ett_pipeline_tape *tape;
  size_t ring; /* micro-batches with separate cells in a slot */
  int whole;   /* every micro-batch has separate cells */
  size_t slots;
  unsigned char *full; /* per cell */
  ett_cursor *cursor;  /* per rank */
  turn *turn;          /* per rank */
  size_t *wanted;      /* per rank: the cell that it waits for; 0: none */
  int *now, *then;     /* ranks that may run in this tick and in the next */
  size_t then_count;
  size_t *tick; /* number of events before each tick */
  uint32_t ticks, tick_capacity;
  size_t done, all; /* units done, units in all */
  int collided;     /* a message arrived before the previous one in its cell was read */
} walk;

void ett_pipeline_tape_free(ett_pipeline_tape *tape) {
  free(tape->events);
  memset(tape, 0, sizeof *tape);
}

static size_t cell_of(const walk *w, int kind, size_t slot, size_t ring) {
  size_t table = kind == ETT_UNIT_WHOLE ? ETT_UNIT_BACKWARD : (size_t)kind;
  return ETT_CELLS + (table * w->slots + slot) * w->ring + ring;
}

/* Fills a cell and wakes the rank that waits for it. */
static void put(walk *w, size_t cell, int what, int reader) {
  if (w->full[cell] != EMPTY)
    w->collided = 1;
  w->full[cell] = (unsigned char)what;
  if (w->wanted[reader] == cell) {
    w->wanted[reader] = 0;
    w->then[w->then_count++] = reader;
  }
}

/* Delivers the output of a unit; returns the cell of its message. */
static size_t deliver(walk *w, int rank, ett_unit u, size_t slot, size_t ring) {
  const ett_pipeline *p = w->p;
  int stages = p->stages, forward = u.kind == ETT_UNIT_FORWARD;
  if (u.kind == ETT_UNIT_WEIGHT)
    return ETT_CELL_SINK;
  if (u.kind == ETT_UNIT_BACKWARD && p->weight)
    put(w, cell_of(w, ETT_UNIT_WEIGHT, slot, ring), LOCAL, rank);
  int to = forward ? ett_order_after(p, (int)slot) : ett_order_before(p, (int)slot);
  int reader = p->orders ? -1 : forward ? rank + 1 : rank - 1; /* spares a division */
  reader = reader == stages ? 0 : reader;
  if (to < 0) { /* the last slice starts the backward */
    if (forward)
      put(w, cell_of(w, ETT_UNIT_BACKWARD, slot, ring), LOCAL, rank);
    return ETT_CELL_SINK;
  }
  size_t cell =
      cell_of(w, forward ? ETT_UNIT_FORWARD : ETT_UNIT_BACKWARD, (size_t)to, ring);
  put(w, cell, MESSAGE, reader < 0 ? to % stages : reader);
  return cell;
}

/* Whether a unit's input has arrived; *cell: the cell of the input. */
static int has_input(const walk *w, ett_unit u, size_t slot, size_t ring, size_t *cell) {
  if (u.kind == ETT_UNIT_FORWARD && ett_order_before(w->p, (int)slot) < 0) {
    *cell = ETT_CELL_ZERO;
    return 1;
  }
  *cell = cell_of(w, u.kind, slot, ring);
  return w->full[*cell] != EMPTY;
}

static int reserve_events(walk *w, size_t more, ett_err *err) {
  ett_pipeline_tape *t = w->tape;
  size_t wanted = (t->head + more) * sizeof *t->events;
  if (wanted <= t->bytes || ett_room(&t->events, &t->bytes, 2 * wanted) == 0)
    return 0;
  return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %zu pipeline units",
                     t->head + more);
}

/* Whether the next unit or pair of a rank can run; fills its turn. */
static int can_run(walk *w, int rank) {
  turn *t = &w->turn[rank];
  const ett_cursor *c = &w->cursor[rank];
  ett_cursor second;
  t->count = 0;
  if (ett_order_done(c))
    return 0;
  for (int i = 0;; i++) {
    ett_unit u = t->unit[i] = ett_order_peek(c);
    t->slot[i] = (size_t)u.chunk * (size_t)w->p->stages + (size_t)rank;
    t->ring[i] = w->whole ? u.micro_batch : ett_order_ring(c, u);
    if (!has_input(w, u, t->slot[i], t->ring[i], &t->cell[i])) {
      w->wanted[rank] = t->cell[i];
      return 0;
    }
    if (!u.paired || i > 0) {
      t->count = i + 1;
      return 1;
    }
    second = *c;
    ett_order_pass(&second, u);
    c = &second;
  }
}

/* Runs a turn. */
static void run(walk *w, int rank) {
  turn *t = &w->turn[rank];
  for (int i = 0; i < t->count; i++) {
    ett_unit u = t->unit[i];
    ett_order_pass(&w->cursor[rank], u);
    uint32_t in = ETT_CELL_ZERO;
    if (t->cell[i] >= ETT_CELLS) {
      in = w->full[t->cell[i]] == MESSAGE ? (uint32_t)t->cell[i] : ETT_CELL_ZERO;
      w->full[t->cell[i]] = EMPTY;
    }
    uint32_t out = (uint32_t)deliver(w, rank, u, t->slot[i], t->ring[i]);
    w->tape->events[w->tape->head++] =
        (ett_event){in, out, (uint32_t)(t->slot[i] * ETT_UNIT_KINDS + u.kind),
                    (uint16_t)rank, u.paired};
    w->done++;
  }
}

static int note_tick(walk *w, ett_err *err) {
  if (ett_grow(&w->tick, w->ticks, &w->tick_capacity, 256, sizeof *w->tick))
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %u ticks", w->ticks);
  w->tick[w->ticks++] = w->tape->head;
  return 0;
}

static int blocked(const walk *w, ett_err *err) {
  for (int rank = 0; rank < w->p->stages; rank++) {
    const ett_cursor *c = &w->cursor[rank];
    if (ett_order_done(c))
      continue;
    char text[ETT_ORDER_TEXT];
    size_t at = c->custom ? (size_t)(c->custom - w->p->orders->units -
                                     (ptrdiff_t)w->p->orders->first_unit[rank])
                          : (size_t)c->k;
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "deadlock in the order: stage %d cannot start unit %zu, %s",
                       rank + 1, at + 1, ett_order_describe(ett_order_peek(c), text));
  }
  return ett_err_set(err, ETT_ERR_INTERNAL, "internal error: a pipeline stopped early");
}

/* Runs ranks tick by tick. The next tick continues ranks that ran, and starts ranks whose
 * input arrived. */
static int run_ticks(walk *w, ett_err *err) {
  w->then_count = (size_t)w->p->stages;
  for (int rank = 0; rank < w->p->stages; rank++)
    w->then[rank] = rank;
  while (w->then_count > 0 && !w->collided) {
    int *ranks = w->then;
    size_t count = w->then_count;
    w->then = w->now;
    w->now = ranks;
    w->then_count = 0;
    if (note_tick(w, err) != 0)
      return -1;
    if (reserve_events(w, 2 * count, err) != 0)
      return -1;
    size_t able = 0; /* all decisions precede the runs of a tick */
    for (size_t i = 0; i < count; i++)
      if (can_run(w, ranks[i]))
        ranks[able++] = ranks[i];
    for (size_t i = 0; i < able; i++) {
      run(w, ranks[i]);
      w->then[w->then_count++] = ranks[i];
    }
  }
  if (w->collided || w->done == w->all)
    return 0;
  return blocked(w, err);
}

/* Finds the repeating ticks and removes all but one of their repetitions from the tape.
 * 1: none. */
static int fold(walk *w, size_t length, size_t events) {
  ett_pipeline_tape *tape = w->tape;
  ett_event *e = tape->events;
  size_t first = 0, end = 0, total = tape->head;
  for (size_t t = 1; t + 2 * length < w->ticks && !first; t++) {
    size_t a = w->tick[t], b = w->tick[t + length];
    if (b - a != events || memcmp(e + a, e + b, events * sizeof *e) != 0)
      continue;
    first = t;
    for (end = t;
         end + length < w->ticks && w->tick[end + length] - w->tick[end] == events &&
         memcmp(e + a, e + w->tick[end], events * sizeof *e) == 0;
         end += length)
      tape->repeats++;
  }
  if (!first)
    return 1;
  tape->head = w->tick[first];
  tape->period = events;
  tape->tail = total - w->tick[end];
  memmove(e + tape->head + events, e + w->tick[end], tape->tail * sizeof *e);
  return 0;
}

static int open_walk(walk *w, ett_err *err) {
  size_t stages = (size_t)w->p->stages;
  size_t cells = ETT_CELLS + (w->p->weight ? 3 : 2) * w->slots * w->ring;
  w->tape->cells = cells;
  w->full = calloc(cells, 1);
  w->cursor = malloc(stages * sizeof *w->cursor);
  w->turn = malloc(stages * sizeof *w->turn);
  w->wanted = calloc(stages, sizeof *w->wanted);
  w->now = malloc(stages * sizeof *w->now);
  w->then = malloc(stages * sizeof *w->then);
  if (cells > UINT32_MAX || !w->full || !w->cursor || !w->turn || !w->wanted || !w->now ||
      !w->then)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %zu messages", cells);
  return 0;
}

static void close_walk(walk *w) {
  free(w->full);
  free(w->cursor);
  free(w->turn);
  free(w->wanted);
  free(w->now);
  free(w->then);
  free(w->tick);
}

/* Walks through p. whole: every micro-batch has separate cells; else only the
 * micro-batches of one group. Without `whole`, returns 1 if cells collide or nothing
 * repeats. */
static int walk_through(const ett_pipeline *p, int whole, int64_t group,
                        ett_pipeline_tape *tape, ett_err *err) {
  walk w = {.p = p,
            .tape = tape,
            .whole = whole,
            .ring = (size_t)(whole ? p->micro_batches : group),
            .slots = (size_t)p->stages * (size_t)p->chunks};
  tape->head = tape->period = tape->tail = 0;
  tape->repeats = 0;
  for (int rank = 0; rank < p->stages; rank++)
    w.all += ett_pipeline_unit_count(p, rank);
  int status = open_walk(&w, err);
  for (int rank = 0; status == 0 && rank < p->stages; rank++)
    w.cursor[rank] = ett_order_open(p, rank, group);
  if (status == 0)
    status = run_ticks(&w, err);
  if (status == 0 && w.collided)
    status = 1;
  if (status == 0 && !whole) {
    size_t units = 2 * (size_t)(group * p->chunks);
    status = fold(&w, p->forward_hidden ? units / 2 : units, units * (size_t)p->stages);
  }
  close_walk(&w);
  return status;
}

/* The tape of a periodic schedule, from a step with only the groups of its start and end.
 * 1: the schedule is not periodic. */
static int build_folded(const ett_pipeline *p, int64_t group, ett_pipeline_tape *tape,
                        ett_err *err) {
  int64_t lead = 2 * (int64_t)p->stages / ((int64_t)p->chunks * group) + 1;
  int64_t enough = (2 * lead + 6) * group + p->micro_batches % group;
  ett_pipeline few = *p;
  if (few.micro_batches > enough)
    few.micro_batches = enough;
  int status = walk_through(&few, 0, group, tape, err);
  if (status == 0)
    tape->repeats += (p->micro_batches - few.micro_batches) / group;
  return status;
}

int ett_pipeline_tape_build(const ett_pipeline *p, int64_t group, ett_pipeline_tape *tape,
                            ett_err *err) {
  int status = 1;
  if (p->schedule == ETT_SCHEDULE_CUSTOM) {
    if (ett_orders_check(p->orders, p->micro_batches, err) != 0)
      return -1;
  } else if (p->schedule != ETT_SCHEDULE_GPIPE && p->micro_batches >= 4 * group) {
    status = build_folded(p, group, tape, err);
  }
  if (status == 1)
    status = walk_through(p, 1, group, tape, err);
  if (status == 1)
    return ett_err_set(err, ETT_ERR_INTERNAL,
                       "internal error: two messages met in a pipeline");
  return status;
}
