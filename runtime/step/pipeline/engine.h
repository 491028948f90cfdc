/* engine.h - arrays of the event engine and of the closed forms; inside
 * runtime/step/pipeline only. */
#ifndef ETT_STEP_ENGINE_H
#define ETT_STEP_ENGINE_H

#include <math.h>

#include "step/pipeline/walk.h"

/* A cached tape and its key. */
typedef struct ett_kept_tape {
  ett_pipeline_tape tape;
  ett_schedule_kind schedule;
  int stages, chunks, pairs, weight;
  int64_t micro_batches, group;
  uint64_t identity;
  size_t used; /* time of its last use */
} ett_kept_tape;

enum { ETT_KEPT_TAPES = 32 };

/* One unit of a slot: the seconds of its rank, and the addresses of its results. */
typedef struct ett_timing {
  double seconds, receive, send;
  uint32_t last; /* index in last_start and last_end */
  uint32_t link; /* 0: forward, 1: backward, 2: no message */
} ett_timing;

/* The cached orders of the last planned schedule. */
typedef struct ett_plan_memory {
  ett_orders orders;
  size_t *first_unit; /* start of the memory block */
  ett_unit *units;
  void *memory;
  size_t bytes;
  int64_t micro_batches; /* 0: none */
  int held;
} ett_plan_memory;

struct ett_pipeline_workspace {
  ett_plan_memory plan;
  double *memory;
  ett_timing *timing;
  size_t memory_bytes, timing_bytes, input_bytes;
  ett_kept_tape kept[ETT_KEPT_TAPES];
  size_t uses;
  /* The last run; valid while its arrays are unchanged. Holds its input arrays one after
   * the other, and its result. Pointers of `run` only show which arrays were given. */
  int run_known;
  ett_pipeline run;
  uint64_t run_identity; /* identity of its orders */
  double *inputs;
  ett_pipeline_result run_result;
};

/* The running state of one pipeline, and its results. */
typedef struct ett_engine {
  const ett_pipeline *p;
  double *clock, *link[3]; /* per rank; links: forward, backward, none */
  double *last_start,
      *last_end; /* per slot, and one extra entry for units that are not recorded */
  double *cells;
  double *busy, *hidden_forward, *hidden_backward; /* per rank */
  double *before; /* clock, links and cells of the previous period; without a tape, 5
                     numbers per rank */
} ett_engine;

/* Seconds that a rank spends receiving the input of a unit. */
static inline double ett_engine_receive(const ett_pipeline *p, int slot, int kind) {
  if (!p->blocking_receives || kind == ETT_UNIT_WEIGHT)
    return 0;
  int before = ett_order_before(p, slot), after = ett_order_after(p, slot);
  if (kind == ETT_UNIT_FORWARD)
    return before >= 0 ? p->send_forward[before] : 0;
  return after >= 0 ? p->send_backward[slot] : 0;
}

/* Allocates the engine's arrays in the workspace and sets their start values. tape: NULL
 * for closed forms and 1F1B. */
int ett_engine_open(ett_engine *e, const ett_pipeline *p, ett_pipeline_workspace *w,
                    const ett_pipeline_tape *tape, ett_err *err);

/* The tape of a pipeline; reused from the workspace if cached. */
const ett_pipeline_tape *ett_engine_tape(const ett_pipeline *p, ett_pipeline_workspace *w,
                                         ett_err *err);

/* Fills the seconds of every unit: the workspace's timing, [slot][kind]. */
int ett_engine_time(const ett_pipeline *p, ett_pipeline_workspace *w, ett_err *err);

/* Seconds of a pair: a forward and a backward of different micro-batches run together. */
double ett_engine_pair_seconds(const ett_pipeline *p, const ett_event *f,
                               const ett_event *b, double hidden[2]);

/* Computes busy and hidden seconds of a run. */
void ett_engine_add_up(const ett_engine *e, const ett_pipeline_tape *tape);

/* Fills the result of a run; changes the clocks. */
void ett_engine_finish(const ett_engine *e, ett_pipeline_result *result);

/* Whether now equals before plus delta, up to the rounding error of repeated sums. */
static inline int ett_engine_moved(double now, double before, double delta) {
  return fabs(now - before - delta) <= 4e-15 * now;
}

#endif
