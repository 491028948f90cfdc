/* Decides whether the transfers of a plan share links, and runs its pipeline.
 *
 * Closed forms and the pipeline's own engine are exact while each link carries one kind
 * of transfer at a time. If two kinds overlap on a link, the event engine of links runs.
 */
#include "step/evaluation.h"

/* Whether a pass uses a lane. */
static int passes_use(const ett_evaluation *e, const ett_step_arrays *a, int lane) {
  for (int v = 0; v < a->slots; v++)
    if (a->sums[v].forward_lane[lane] > 0 || a->sums[v].backward_lane[lane] > 0 ||
        (e->collective[lane] > 0 &&
         (a->forward_busy[lane][v] > 0 || a->backward_busy[lane][v] > 0)))
      return 1;
  return 0;
}

static int sends_use(const ett_evaluation *e, const ett_step_arrays *a, int lane) {
  for (int v = 0; v < a->slots; v++)
    if (a->send_forward[v] > 0 && e->links.send[a->send_lane[v]][lane] > 0)
      return 1;
  return 0;
}

/* Sends overlapped with computing. With more than two slots a network card sends in both
 * directions. */
static int sends_share(const ett_evaluation *e, const ett_step_arrays *a) {
  if (!e->plan->overlap_sends)
    return 0;
  for (int l = 0; l < e->lanes; l++)
    if (sends_use(e, a, l) && (a->slots > 2 || passes_use(e, a, l)))
      return 1;
  return 0;
}

/* Whether any slot has gradients to reduce, and whether any slot has both dense and
 * expert gradients. */
static void find_gradients(const ett_step_arrays *a, int *some, int *both) {
  *some = *both = 0;
  for (int v = 0; v < a->slots; v++) {
    int dense = a->gradients[v].dense.rest > 0, expert = a->gradients[v].expert.rest > 0;
    *some |= dense || expert;
    *both |= dense && expert;
  }
}

/* Reductions overlapped with backward passes. */
static int reductions_share(const ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  int some, both;
  if (!ett_messages_overlaps_gradients(e))
    return 0;
  find_gradients(a, &some, &both);
  if (some && (both || e->program->communication_share > 0 ||
               (ett_messages_reduces_every(e) && p->micro_batches > 1)))
    return 1;
  for (int l = 0; some && l < e->lanes; l++)
    if (e->collective[l] > 0 && (passes_use(e, a, l) || sends_use(e, a, l)))
      return 1;
  return 0;
}

/* Gathers of weights that overlap the first forwards; later stages run these later. */
static int gathers_share(const ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  double seconds = 0;
  if (!p->overlap_parameters)
    return 0;
  for (int rank = 0; rank < p->pp; rank++)
    seconds += a->stage[rank].gather_seconds;
  return seconds > 0 && (p->pp > 1 || e->program->communication_share > 0);
}

/* Fills the seconds of passes on lanes that carry no weights or gradients, and each
 * slot's share of its stage's gather. */
static void fill_arrays(const ett_evaluation *e, const ett_step_arrays *a) {
  for (int v = 0; v < a->slots; v++) {
    for (int l = 0; l < e->lanes; l++)
      if (e->collective[l] <= 0) {
        a->forward_busy[l][v] = ett_messages_busy(e, a, v, 0, l);
        a->backward_busy[l][v] = ett_messages_busy(e, a, v, 1, l);
      }
    const ett_step_stage *stage = &a->stage[v % e->plan->pp];
    const ett_layer_sums *s = &a->sums[v];
    double own = ett_slot_gathered(e, s), all = ett_stage_gathered(e, stage);
    a->gather[v] = all > 0 ? stage->gather_seconds * own / all : 0;
  }
}

/* Fills the lanes of the sends in use. */
static void fill_sends(ett_evaluation *e, const ett_step_arrays *a) {
  const ett_placed *placed = &e->w->placed;
  int known[ETT_LANES] = {0};
  for (int v = 0; v < a->slots; v++) {
    int lane = a->send_lane[v];
    double *lanes = e->links.send[lane];
    ett_placement place;
    if (known[lane] || a->send_forward[v] <= 0)
      continue;
    known[lane] = 1;
    lanes[lane] = 1;
    if (e->lanes > 2 &&
        ett_place_pairs(&placed->ranks, placed->pipeline, lane, &place, e->err) == 0)
      ett_place_lanes(&e->plan->tiers, &place, ETT_LANES_SEND, lanes);
  }
}

void ett_shares_prepare(ett_evaluation *e, const ett_step_arrays *a) {
  int gathers = gathers_share(e, a);
  e->links =
      (ett_links){.lanes = e->lanes,
                  .send_lane = a->send_lane,
                  .gradients = ett_messages_overlaps_gradients(e) ? a->gradients : NULL,
                  .reduces_every = ett_messages_reduces_every(e),
                  .gather = gathers ? a->gather : NULL,
                  .share = e->program->communication_share};
  for (int l = 0; l < e->lanes; l++) {
    e->links.collective[l] = e->collective[l];
    e->links.forward_busy[l] = a->forward_busy[l];
    e->links.backward_busy[l] = a->backward_busy[l];
  }
  if (e->plan->overlap_sends || ett_messages_overlaps_gradients(e) || gathers)
    fill_sends(e, a);
  e->shares = gathers || sends_share(e, a) || reductions_share(e, a);
  if (e->shares)
    fill_arrays(e, a);
}

ett_links_workspace *ett_step_workspace_links(ett_step_workspace *w) {
  if (!w->links)
    w->links = ett_links_workspace_new();
  return w->links;
}

static int run_links(ett_evaluation *e, const ett_pipeline *pipeline, int keep_units) {
  ett_links_workspace *w = ett_step_workspace_links(e->w);
  if (!w)
    return ett_err_set(e->err, ETT_ERR_MEMORY, "not enough memory for a plan");
  if (!keep_units && ett_links_in_order(pipeline, &e->links))
    return ett_links_run_in_order(pipeline, &e->links, e->w->pipeline, w, &e->result,
                                  e->err);
  return ett_links_run(pipeline, &e->links, w, keep_units, &e->result, e->err);
}

int ett_shares_run(ett_evaluation *e, const ett_step_arrays *a,
                   const ett_pipeline *pipeline, int keep_units,
                   ett_pipeline_result *result) {
  ett_pipeline_workspace *w = e->w->pipeline;
  if (keep_units && !e->shares) { /* the links only record units and transfers */
    fill_sends(e, a);
    fill_arrays(e, a);
  }
  if ((keep_units || e->shares) && run_links(e, pipeline, keep_units) != 0)
    return -1;
  if (e->shares)
    *result = e->result.pipeline;
  else if (pipeline->schedule == ETT_SCHEDULE_GPIPE && !pipeline->start)
    return ett_pipeline_gpipe_closed(pipeline, w, result, e->err);
  else
    return ett_pipeline_run(pipeline, w, result, e->err);
  return 0;
}
