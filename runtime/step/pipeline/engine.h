/* engine.h - arrays of the event engine and the closed forms; inside
 * runtime/step/pipeline only. */
#ifndef ETT_STEP_ENGINE_H
#define ETT_STEP_ENGINE_H

#include <math.h>

#include "step/pipeline/walk.h"

/* A tape that is kept, and what it was made for. */
typedef struct ett_kept_tape {
  ett_pipeline_tape tape;
  ett_schedule_kind schedule;
  int stages, chunks, pairs, weight, whole;
  int64_t micro_batches, group;
  uint64_t identity;
  size_t used; /* when */
} ett_kept_tape;

enum { ETT_KEPT_TAPES = 32 };

/* One unit of a slot: how long it takes its rank, and where it leaves its traces. */
typedef struct ett_timing {
  double seconds, receive, send;
  uint32_t last; /* its place in last_start and last_end */
  uint32_t link; /* 0: forward, 1: backward, 2: it sends nothing */
} ett_timing;

/* The last plan. */
typedef struct ett_plan_memory {
  ett_orders orders;
  size_t *first_unit; /* the start of one block of memory */
  ett_unit *units;
  void *memory;
  size_t bytes;
  int64_t micro_batches; /* 0: none */
  int held;
} ett_plan_memory;

struct ett_pipeline_workspace {
  ett_plan_memory plan;
  double *memory;
  size_t doubles;
  ett_timing *timing;
  size_t timings;
  ett_kept_tape kept[ETT_KEPT_TAPES];
  size_t uses;
  /* The last run, while its arrays are untouched: its inputs, one array behind another,
   * and what it left. Pointers of `run` only say which arrays there were. */
  int run_known;
  ett_pipeline run;
  uint64_t run_identity; /* of its orders */
  double *inputs;
  size_t inputs_room;
  ett_pipeline_result run_result;
};

/* The running state of one pipeline, and what it leaves. */
typedef struct ett_engine {
  const ett_pipeline *p;
  double *clock, *link[3];       /* per rank; links: forward, backward, none */
  double *last_start, *last_end; /* per slot, and one for units that do not count */
  double *cells;
  double *busy, *hidden_forward, *hidden_backward; /* per rank */
  double *before; /* clock, links and cells one period ago; NULL: no periods */
  double *unit_start;
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

/* Places the engine's arrays in the workspace and sets their start values. tape: NULL for
 * closed forms. units: of which unit_start is kept. */
int ett_engine_open(ett_engine *e, const ett_pipeline *p, ett_pipeline_workspace *w,
                    const ett_pipeline_tape *tape, size_t units, ett_err *err);

/* The tape of a pipeline, from the workspace where it has it. */
const ett_pipeline_tape *ett_engine_tape(const ett_pipeline *p, ett_pipeline_workspace *w,
                                         int whole, ett_err *err);

/* Fills in the seconds of every unit: the workspace's timing, [slot][kind]. */
int ett_engine_time(const ett_pipeline *p, ett_pipeline_workspace *w, ett_err *err);

/* A forward and a backward of another micro-batch together: their seconds. */
double ett_engine_pair_seconds(const ett_pipeline *p, const ett_event *f,
                               const ett_event *b, double hidden[2]);

/* What a run leaves besides its times: busy and hidden seconds. */
void ett_engine_add_up(const ett_engine *e, const ett_pipeline_tape *tape);

/* The result of a run; changes the clocks. */
void ett_engine_finish(const ett_engine *e, ett_pipeline_result *result);

/* Whether now is before plus delta, to the rounding of sums that repeat. */
static inline int ett_engine_moved(double now, double before, double delta) {
  return fabs(now - before - delta) <= 4e-15 * now;
}

#endif
