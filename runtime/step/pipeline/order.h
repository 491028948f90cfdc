/* order.h - the sequence of units of a rank; inside runtime/step/pipeline only. Inline,
 * because the engine reads every unit of every rank. */
#ifndef ETT_STEP_ORDER_H
#define ETT_STEP_ORDER_H

#include "base/grow.h"
#include "step/pipeline/pipeline.h"

/* Number of forwards before the first backward. */
static inline int64_t ett_order_warm_up(const ett_pipeline *p, int rank) {
  int64_t forwards = p->micro_batches * p->chunks;
  int64_t warm = p->stages - 1 - rank;
  if (p->schedule == ETT_SCHEDULE_GPIPE)
    return forwards;
  if (p->forward_hidden) /* a micro-batch takes two pairs per stage: one down, one up */
    warm = warm * 2 + (int64_t)(p->chunks - 1) * p->group + 1;
  else if (p->schedule == ETT_SCHEDULE_INTERLEAVED && p->chunks > 1)
    warm = warm * 2 + (int64_t)(p->chunks - 1) * p->group;
  return warm < forwards ? warm : forwards;
}

/* The forwards, or the backwards, of a rank of a built-in schedule. Groups of
 * micro-batches pass through one chunk after the other; backwards take the chunks in
 * reverse. The last group may be smaller (Megatron-LM, get_schedule_table). */
typedef struct ett_lane {
  int64_t first, size;  /* of the current group */
  int64_t index, chunk; /* of the next unit in the group */
} ett_lane;

typedef struct ett_cursor {
  const ett_pipeline *p;
  const ett_unit *custom, *custom_end; /* for ETT_SCHEDULE_CUSTOM */
  int64_t k, warm, forwards, group;
  ett_lane lane[2]; /* forwards, backwards */
} ett_cursor;

/* group: the size of the lanes' groups. With one chunk, every size gives the same
 * order. */
static inline ett_cursor ett_order_open(const ett_pipeline *p, int rank, int64_t group) {
  ett_cursor c = {.p = p, .group = group};
  if (p->schedule == ETT_SCHEDULE_CUSTOM) {
    c.custom = p->orders->units + p->orders->first_unit[rank];
    c.custom_end = p->orders->units + p->orders->first_unit[rank + 1];
    return c;
  }
  c.warm = ett_order_warm_up(p, rank);
  c.forwards = p->micro_batches * p->chunks;
  c.lane[0].size = c.lane[1].size = group < p->micro_batches ? group : p->micro_batches;
  return c;
}

static inline int ett_order_done(const ett_cursor *c) {
  return c->custom ? c->custom == c->custom_end : c->k == 2 * c->forwards;
}

/* The next unit. Requires ett_order_done to be false. */
static inline ett_unit ett_order_peek(const ett_cursor *c) {
  if (c->custom)
    return *c->custom;
  int64_t steady = c->k - c->warm, after = 2 * (c->forwards - c->warm);
  int backward = steady >= after || (steady >= 0 && steady & 1);
  const ett_lane *l = &c->lane[backward];
  int64_t chunk = backward ? c->p->chunks - 1 - l->chunk : l->chunk;
  return (ett_unit){(uint8_t)(backward ? ETT_UNIT_BACKWARD : ETT_UNIT_FORWARD),
                    (uint8_t)(c->p->forward_hidden && !backward && steady >= 0),
                    (uint16_t)chunk, (uint32_t)(l->first + l->index)};
}

/* Index of the unit's micro-batch within its group; for custom schedules, the
 * micro-batch. */
static inline uint32_t ett_order_ring(const ett_cursor *c, ett_unit u) {
  return c->custom ? u.micro_batch : (uint32_t)c->lane[u.kind != ETT_UNIT_FORWARD].index;
}

/* Moves on from the next unit, `u`. */
static inline void ett_order_pass(ett_cursor *c, ett_unit u) {
  if (c->custom) {
    c->custom++;
    return;
  }
  ett_lane *l = &c->lane[u.kind != ETT_UNIT_FORWARD];
  c->k++;
  if (++l->index < l->size)
    return;
  l->index = 0;
  if (++l->chunk < c->p->chunks)
    return;
  int64_t left = c->p->micro_batches - (l->first += l->size);
  l->chunk = 0;
  l->size = c->group < left ? c->group : left;
}

static inline void ett_order_next(ett_cursor *c) {
  ett_order_pass(c, ett_order_peek(c));
}

/* Seconds of one pass that a pair of two slots hides. */
static inline double ett_order_hidden(const double *hidden, int one, int other) {
  if (!hidden)
    return 0;
  return hidden[one] < hidden[other] ? hidden[one] : hidden[other];
}

/* Seconds of an unpaired unit. */
static inline double ett_order_seconds(const ett_pipeline *p, int slot, int kind) {
  switch (kind) {
  case ETT_UNIT_FORWARD:
    return p->forward[slot];
  case ETT_UNIT_BACKWARD:
    return p->backward[slot];
  case ETT_UNIT_WEIGHT:
    return p->weight ? p->weight[slot] : 0;
  default:
    return p->backward[slot] + (p->weight ? p->weight[slot] : 0) -
           (p->joined ? p->joined[slot] : 0);
  }
}

/* Seconds of all units of a slot, unpaired. */
static inline double ett_order_work(const ett_pipeline *p, int slot) {
  double runs = p->orders ? p->orders->runs[slot] : (double)p->micro_batches;
  double joined = p->joined && p->orders ? p->orders->whole[slot] * p->joined[slot] : 0;
  return runs *
             (p->forward[slot] + p->backward[slot] + (p->weight ? p->weight[slot] : 0)) -
         joined;
}

/* The next and the previous slot in the model; -1: none. */
static inline int ett_order_after(const ett_pipeline *p, int slot) {
  if (p->orders)
    return p->orders->next[slot];
  return slot + 1 < p->stages * p->chunks ? slot + 1 : -1;
}

static inline int ett_order_before(const ett_pipeline *p, int slot) {
  return p->orders ? p->orders->prev[slot] : slot - 1;
}

/* Buffer size for any unit as ett_order_describe writes it. */
#define ETT_ORDER_TEXT 48

/* Writes a unit in the form of a schedule file: {"B", 2, 1}. */
const char *ett_order_describe(ett_unit unit, char text[ETT_ORDER_TEXT]);

#endif
