/* The end of a step over all stages, and the steady state of consecutive steps without a
 * common end. */
#include <math.h>
#include <string.h>

#include "step/evaluation.h"

/* The stages with the embedding's table synchronise. */
static void reduce_tied(const ett_step_arrays *a, int stages, double seconds) {
  double meet = 0;
  for (int rank = 0; rank < stages; rank++)
    if (a->tied[rank] && a->stage[rank].end_seconds > meet)
      meet = a->stage[rank].end_seconds;
  for (int rank = 0; rank < stages; rank++) {
    ett_step_stage *s = &a->stage[rank];
    if (!a->tied[rank])
      continue;
    s->wait_seconds = meet - s->end_seconds;
    s->tied_embedding_seconds = seconds;
    s->end_seconds = meet + seconds;
  }
}

void ett_finish_step(const ett_evaluation *e, const ett_step_arrays *a, double tied,
                     const ett_pipeline_result *ends, ett_step_result *r) {
  const ett_step_plan *p = e->plan;
  double ready = 0;
  for (int rank = 0; rank < p->pp; rank++) {
    ett_step_stage *s = &a->stage[rank];
    ett_update_lay(e, a, rank, ends);
    s->end_seconds = s->pipeline_seconds + s->gradient_exposed_seconds;
  }
  if (tied > 0)
    reduce_tied(a, p->pp, tied);
  for (int rank = 0; rank < p->pp; rank++)
    if (a->stage[rank].end_seconds > ready)
      ready = a->stage[rank].end_seconds;
  r->update_share = ett_update_share(p, p->optimizer_bytes);
  r->step_seconds = ends->makespan;
  double used = 0;
  for (int rank = 0; rank < p->pp; rank++) {
    ett_step_stage *s = &a->stage[rank];
    if (p->clip_gradients && !p->post_validation) {
      s->wait_seconds += ready - s->end_seconds;
      s->end_seconds = ready;
    }
    s->end_seconds += s->optimizer_seconds;
    if (!e->links
             .gather) /* otherwise the gather delayed the first forwards of the stage */
      s->end_seconds += s->gather_exposed_seconds;
    if (s->end_seconds > r->step_seconds)
      r->step_seconds = s->end_seconds;
    used += s->micro_batch_forward_seconds * (double)p->micro_batches +
            s->micro_batch_backward_seconds * (double)p->micro_batches -
            ends->hidden_forward[rank] - ends->hidden_backward[rank] +
            (p->overlap_sends ? 0 : s->send_seconds);
  }
  r->pipeline_seconds = ends->makespan;
  r->bubble_fraction =
      ends->makespan > 0 ? 1 - used / (ends->makespan * (double)p->pp) : 0;
  if (r->bubble_fraction < 1e-12) /* rounding error */
    r->bubble_fraction = 0;
}

/* Maximum number of simulated steps. The loop ends earlier when every stage advances by
 * the same time per step. */
enum { STEADY_STEPS = 64 };

int ett_finish_steady(ett_evaluation *e, const ett_step_arrays *a, double tied,
                      const ett_pipeline *pipeline, int keep_units, ett_step_result *r) {
  size_t stages = (size_t)e->plan->pp;
  ett_pipeline next = *pipeline;
  ett_step_result one = *r;
  double period = r->step_seconds, sum = 0, counted = 0;
  next.start = a->start;
  memset(a->start, 0, stages * sizeof *a->start);
  for (int n = 0; n < STEADY_STEPS; n++) {
    double first = a->stage[0].end_seconds, least = INFINITY, most = -INFINITY;
    for (size_t s = 0; s < stages; s++) {
      double longer = a->stage[s].end_seconds - a->start[s];
      least = longer < least ? longer : least;
      most = longer > most ? longer : most;
      first = a->stage[s].end_seconds < first ? a->stage[s].end_seconds : first;
    }
    period = most;
    if (n > 0 && most - least <= 1e-12 * most)
      break;
    if (n >= STEADY_STEPS / 2) { /* stages alternate: take the mean of many steps */
      sum += a->stage[0].end_seconds - a->start[0];
      period = sum / ++counted;
    }
    for (size_t s = 0; s < stages; s++)
      a->start[s] = a->stage[s].end_seconds - first;
    memcpy(a->stage, a->stage_before, stages * sizeof *a->stage);
    if (ett_shares_run(e, a, &next, 0, &one.pipeline) != 0)
      return -1;
    ett_finish_step(e, a, tied, &one.pipeline, &one);
  }
  /* Reports the stage times of one step alone. */
  memcpy(a->stage, a->stage_before, stages * sizeof *a->stage);
  if (ett_shares_run(e, a, pipeline, keep_units, &r->pipeline) != 0)
    return -1;
  ett_finish_step(e, a, tied, &r->pipeline, r);
  double used = (1 - r->bubble_fraction) * r->pipeline_seconds * (double)stages, own = 0;
  for (size_t s = 0; s < stages; s++) {
    const ett_step_stage *stage = &a->stage[s];
    own += period - stage->gradient_exposed_seconds - stage->tied_embedding_seconds -
           stage->optimizer_seconds - stage->gather_exposed_seconds;
  }
  r->bubble_fraction = own > used ? 1 - used / own : 0;
  r->step_seconds = period;
  return 0;
}
