#include "search/walk.h"

#include <math.h>

/* Bounds are sums in another order than the engine's. */
static const double rounding = 1e-9;

/* One walk: its inputs and the choice that it is at. */
typedef struct walk {
  const ett_program *program;
  ett_step_plan plan;
  const ett_search_axes *axes;
  const uint8_t *allowed;
  const ett_search_limits *limits;
  ett_demands *demands;
  ett_step_workspace *workspace;
  ett_search_counts *counts;
  ett_err *err;
  int sharded; /* whether replicas share weights */
} walk;

double ett_search_threshold(const ett_search_limits *limits, double memory_bytes) {
  double least = INFINITY;
  for (size_t i = 0; i < limits->step_count; i++)
    if (limits->steps[i].memory_bytes <= memory_bytes &&
        limits->steps[i].step_seconds < least)
      least = limits->steps[i].step_seconds;
  return least;
}

static int zeros(const walk *w) {
  return w->sharded ? w->axes->zeros : 1;
}

/* Values of a field that matter under the ZeRO stage at hand. */
static int parameters(const walk *w) {
  return w->sharded && w->plan.zero != ETT_ZERO_NONE ? w->axes->parameters : 1;
}

static int gradients(const walk *w) {
  return w->sharded ? w->axes->gradients : 1;
}

static int sends(const walk *w) {
  return w->plan.pp > 1 && !w->plan.serial_sends ? w->axes->sends : 1;
}

/* Plans under one choice of recompute, and of zero. */
static int64_t plans_of_zero(const walk *w) {
  return (int64_t)parameters(w) * gradients(w) * sends(w);
}

static int64_t plans_of_recompute(walk *w) {
  int64_t plans = 0;
  int kept = w->plan.zero;
  for (int z = 0; z < zeros(w); z++) {
    w->plan.zero = (ett_zero)w->axes->zero[z];
    plans += plans_of_zero(w);
  }
  w->plan.zero = (ett_zero)kept;
  return plans;
}

static int is_allowed(const walk *w, const ett_search_row *r) {
  const ett_search_axes *a = w->axes;
  if (!w->allowed)
    return 1;
  int at = ((r->recompute * a->zeros + r->zero) * a->parameters + r->overlap_parameters);
  at = (at * a->gradients + r->overlap_gradients) * a->sends + r->overlap_sends;
  return w->allowed[at];
}

/* 1: done; 0: the plan is refused; -1: a fault that is not the plan's own. */
static int judge(const walk *w, int status) {
  if (status >= 0)
    return 1;
  return w->err->code == ETT_ERR_MEMORY ? -1 : 0;
}

static int outline(walk *w, ett_step_outline_result *o) {
  return judge(
      w, ett_step_outline(w->program, &w->plan, w->demands, w->workspace, o, w->err));
}

/* Parameters of the stage with most, shared out among all that hold the same. */
static double shard(const walk *w, const ett_step_result *result) {
  double data = (double)w->plan.dp * w->plan.cp, most = 0;
  double expert_data = data * w->plan.tp / ((double)w->plan.ep * w->plan.etp);
  for (int i = 0; i < result->stages; i++) {
    const ett_step_stage *s = &result->stage[i];
    double parameters = s->dense_parameters / data + s->expert_parameters / expert_data;
    most = parameters > most ? parameters : most;
  }
  return most;
}

/* Evaluates the plans under one choice of recompute, zero and overlap_parameters, and
 * keeps the fastest in row. Returns 1 when it is of interest. */
static int walk_overlaps(walk *w, ett_search_row *row) {
  double best = INFINITY;
  ett_search_row r = *row;
  for (int g = 0; g < gradients(w); g++) {
    w->plan.overlap_gradients = w->axes->overlap_gradients[g];
    w->plan.overlap_sends = 0;
    ett_step_outline_result o;
    int status = outline(w, &o);
    if (status <= 0) {
      w->counts->refused += sends(w);
      if (status < 0)
        return -1;
      continue;
    }
    if (o.memory_bytes > w->limits->memory_bytes) {
      w->counts->too_large += sends(w);
      continue;
    }
    double cut = ett_search_threshold(w->limits, o.memory_bytes);
    cut = best < cut && !w->limits->exhaustive ? best : cut;
    if (!w->limits->exhaustive && o.step_seconds * (1 - rounding) > cut) {
      w->counts->bounded += sends(w);
      continue;
    }
    for (int s = 0; s < sends(w); s++) {
      w->plan.overlap_sends = w->axes->overlap_sends[s];
      r.overlap_gradients = g;
      r.overlap_sends = s;
      if (!is_allowed(w, &r)) {
        w->counts->forbidden++;
        continue;
      }
      ett_step_result result;
      int done = ett_step_evaluate(w->program, &w->plan, w->demands, w->workspace, 0,
                                   &result, w->err);
      if (judge(w, done) < 0)
        return -1;
      if (done != 0) {
        w->counts->untimed += done > 0;
        w->counts->refused += done < 0;
        continue;
      }
      w->counts->evaluated++;
      if (result.step_seconds < best) {
        best = result.step_seconds;
        *row = r;
        row->step_seconds = best;
        row->memory_bytes = result.memory_bytes;
        row->shard_parameters = shard(w, &result);
      }
    }
  }
  return best <= ett_search_threshold(w->limits, row->memory_bytes) && best < INFINITY;
}

static int walk_recompute(walk *w, int recompute, ett_search_row *rows, size_t *count) {
  for (int z = 0; z < zeros(w); z++) {
    w->plan.zero = (ett_zero)w->axes->zero[z];
    for (int p = 0; p < parameters(w); p++) {
      w->plan.overlap_parameters = w->axes->overlap_parameters[p];
      ett_search_row row = {.recompute = recompute, .zero = z, .overlap_parameters = p};
      int status = walk_overlaps(w, &row);
      if (status < 0)
        return -1;
      if (status > 0)
        rows[(*count)++] = row;
    }
  }
  return 0;
}

/* Whether all plans of one recomputation are settled by the memory of the ZeRO stage that
 * holds least, or by the pipeline alone. *all: every later recomputation is, too. */
static int settled(walk *w, int *all) {
  const ett_search_axes *a = w->axes;
  ett_step_outline_result o;
  int least = a->zero[0], most = a->zero[0];
  for (int z = 1; z < zeros(w); z++) {
    least = a->zero[z] < least ? a->zero[z] : least;
    most = a->zero[z] > most ? a->zero[z] : most;
  }
  w->plan.overlap_parameters = w->plan.overlap_gradients = w->plan.overlap_sends = 0;
  w->plan.zero = (ett_zero)most;
  if (outline(w, &o) <= 0) /* the plans themselves say why */
    return 0;
  if (o.memory_bytes > w->limits->memory_bytes) {
    w->counts->too_large += plans_of_recompute(w);
    return 1;
  }
  if (w->limits->exhaustive)
    return 0;
  double threshold = ett_search_threshold(w->limits, o.memory_bytes);
  if (most == ETT_ZERO_PARAMETERS) { /* the gathers of its passes may be absent or hide */
    w->plan.zero = (ett_zero)least;
    for (int p = 0; p < a->parameters; p++)
      w->plan.overlap_parameters |= a->overlap_parameters[p];
    if (outline(w, &o) <= 0)
      return 0;
  }
  double seconds = o.pipeline_seconds * (1 - rounding);
  if (seconds <= threshold)
    return 0;
  *all = w->plan.recompute == ETT_RECOMPUTE_NONE && /* the others repeat work */
         seconds > ett_search_threshold(w->limits, 0);
  w->counts->bounded += plans_of_recompute(w);
  return 1;
}

int ett_search_walk(const ett_program *program, const ett_step_plan *plan,
                    const ett_search_axes *axes, const uint8_t *allowed,
                    const ett_search_limits *limits, ett_demands *demands,
                    ett_step_workspace *workspace, ett_search_row *rows,
                    size_t *row_count, ett_search_counts *counts, ett_err *err) {
  walk w = {program, *plan, axes, allowed, limits, demands, workspace, counts, err, 0};
  int64_t data = (int64_t)plan->dp * plan->cp;
  w.sharded = data > 1 || data * plan->tp > (int64_t)plan->ep * plan->etp;
  *row_count = 0;
  int all = 0;
  for (int r = 0; r < axes->recomputes; r++) {
    w.plan.recompute = (ett_recompute)axes->recompute[r];
    counts->plans += plans_of_recompute(&w);
    if (all) {
      counts->bounded += plans_of_recompute(&w);
      continue;
    }
    if (!settled(&w, &all) && walk_recompute(&w, r, rows, row_count) != 0)
      return -1;
  }
  return 0;
}
