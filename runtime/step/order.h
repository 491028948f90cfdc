/* order.h - the k-th unit of a rank; inside runtime/step only. Inline, because the event
 * engine asks for every unit of every rank. */
#ifndef ETT_STEP_ORDER_H
#define ETT_STEP_ORDER_H

#include "step/pipeline.h"

/* Forwards before the first backward. */
static inline int64_t ett_order_warm_up(const ett_pipeline *p, int rank) {
  int64_t forwards = p->micro_batches * p->chunks;
  int64_t warm = p->stages - 1 - rank;
  if (p->forward_hidden) /* a micro-batch is a pair down and a pair up a stage */
    warm = warm * 2 + (int64_t)(p->chunks - 1) * p->stages + 1;
  else if (p->schedule == ETT_SCHEDULE_INTERLEAVED && p->chunks > 1)
    warm = warm * 2 + (int64_t)(p->chunks - 1) * p->stages;
  return warm < forwards ? warm : forwards;
}

/* The n-th forward (or backward) of a rank under the interleaved order: groups of
 * `stages` micro-batches pass through chunk after chunk; backwards take them reversed. */
static inline ett_unit ett_order_interleaved(const ett_pipeline *p, int64_t n,
                                             ett_unit_kind kind) {
  int64_t group = (int64_t)p->stages * p->chunks;
  int64_t within = n % group;
  int64_t chunk = within / p->stages;
  if (kind == ETT_UNIT_BACKWARD)
    chunk = p->chunks - 1 - chunk;
  int64_t micro_batch = n / group * p->stages + within % p->stages;
  return (ett_unit){(uint8_t)kind, (uint16_t)chunk, (uint32_t)micro_batch};
}

/* The k-th unit of a rank; warm: ett_order_warm_up. */
static inline ett_unit ett_order_unit(const ett_pipeline *p, int rank, int64_t warm,
                                      int64_t k) {
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
  return ett_order_interleaved(p, n, kind);
}

/* Whether the k-th unit of a rank is the forward of a pair, k + 1 its backward. */
static inline int ett_order_opens_pair(const ett_pipeline *p, int64_t warm, int64_t k) {
  return p->forward_hidden && k >= warm && k < 2 * p->micro_batches * p->chunks - warm &&
         (k - warm) % 2 == 0;
}

/* Seconds of one pass that two slices hide as a pair. */
static inline double ett_order_hidden(const double *hidden, int one, int other) {
  return hidden[one] < hidden[other] ? hidden[one] : hidden[other];
}

/* Room for any unit as ett_order_describe writes it. */
#define ETT_ORDER_TEXT 48

/* A unit as a schedule file writes it: {"B", 2, 1}. */
const char *ett_order_describe(ett_unit unit, char text[ETT_ORDER_TEXT]);

/* Checks that every rank's order holds each unit once. */
int ett_order_check_custom(const ett_pipeline *pipeline, ett_err *err);

#endif
