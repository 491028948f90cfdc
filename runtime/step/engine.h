/* engine.h - arrays of the event engine and the closed forms; inside runtime/step only.
 */
#ifndef ETT_STEP_ENGINE_H
#define ETT_STEP_ENGINE_H

#include "step/pipeline.h"

struct ett_pipeline_workspace {
  double *memory;
  size_t doubles;
  size_t *next;
  size_t ranks;
};

/* The running state of one pipeline. Arrival times are negative until known. */
typedef struct ett_engine {
  const ett_pipeline *p;
  int last_slice;
  double *input;    /* [slice][micro-batch]: activations have arrived */
  double *gradient; /* [slice][micro-batch]: output gradients have arrived */
  double *release;  /* [slice][micro-batch]: weight unit may run (split backward) */
  double *clock, *busy, *forward_link, *backward_link; /* per rank */
  double *hidden_forward, *hidden_backward;            /* per rank */
  double *last_start, *last_end;                       /* per slice */
} ett_engine;

/* Seconds that a rank spends receiving the input of a forward or backward unit. */
static inline double ett_engine_receive(const ett_pipeline *p, int slice, int last_slice,
                                        int kind) {
  if (!p->blocking_receives)
    return 0;
  if (kind == ETT_UNIT_FORWARD)
    return slice > 0 ? p->send_forward[slice - 1] : 0;
  return kind == ETT_UNIT_BACKWARD && slice < last_slice ? p->send_backward[slice] : 0;
}

/* Places the engine's arrays in the workspace and sets their start values. events: also
 * the tables of arrivals; kept: further doubles, at the end. */
int ett_engine_open(ett_engine *e, const ett_pipeline *p, ett_pipeline_workspace *w,
                    int events, size_t kept, ett_err *err);

#endif
