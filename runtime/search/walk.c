#include "search/walk.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

/* Tolerance: bounds add in another order than the engine. */
static const double rounding = 1e-9;

/* One walk: its inputs and its current choice. */
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
  int sharded;       /* whether replicas share weights */
  int untimed;       /* whether a bound needs times that are still missing */
  unsigned excluded; /* bits of the kinds of recomputation (ett_search_survey) */
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

/* Number of values of a field that have an effect under the current ZeRO stage. */
static int parameters(const walk *w) {
  return w->sharded && w->plan.zero != ETT_ZERO_NONE ? w->axes->parameters : 1;
}

static int reshards(const walk *w) {
  return w->sharded && w->plan.zero == ETT_ZERO_PARAMETERS ? w->axes->reshards : 1;
}

static int gradients(const walk *w) {
  return w->sharded ? w->axes->gradients : 1;
}

static int sends(const walk *w) {
  return w->plan.pp > 1 && !w->plan.serial_sends ? w->axes->sends : 1;
}

/* Number of plans with one value of recompute and one of zero. */
static int64_t plans_of_zero(const walk *w) {
  return (int64_t)reshards(w) * parameters(w) * gradients(w) * sends(w);
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
  int at = (r->recompute * a->zeros + r->zero) * a->reshards + r->reshard;
  at = at * a->parameters + r->overlap_parameters;
  at = (at * a->gradients + r->overlap_gradients) * a->sends + r->overlap_sends;
  return w->allowed[at];
}

/* 1: done; 0: the plan is refused; -1: an error that does not come from the plan. */
static int judge(const walk *w, int status) {
  if (status >= 0)
    return 1;
  return w->err->code == ETT_ERR_MEMORY ? -1 : 0;
}

static void count_refused(walk *w, int64_t plans) {
  ett_search_counts *c = w->counts;
  c->refused += plans;
  if (plans > 0 && !c->refusal[0])
    snprintf(c->refusal, sizeof c->refusal, "%.*s", (int)sizeof c->refusal - 1,
             w->err->message);
}

static int outline(walk *w, int passes_only, ett_step_outline_result *o) {
  return judge(w, ett_step_outline(w->program, &w->plan, w->demands, w->workspace,
                                   passes_only, o, w->err));
}

/* Parameters of the largest stage, divided among the ranks that hold the same ones. */
static double shard(const walk *w, const ett_step_result *result) {
  double ways = w->plan.orders ? w->plan.orders->ways : 1, most = 0;
  double data = (double)w->plan.dp * w->plan.cp * ways;
  double expert_data = data * w->plan.tp / ((double)w->plan.ep * w->plan.etp);
  for (int i = 0; i < result->stages; i++) {
    const ett_step_stage *s = &result->stage[i];
    double parameters = s->dense_parameters / data + s->expert_parameters / expert_data;
    most = parameters > most ? parameters : most;
  }
  return most;
}

/* Whether bounds exclude the current plans, which differ only in overlap_sends. Excluded
 * plans are counted. *seconds: their lower bound. */
static int bounds_settle(walk *w, double cut, double *seconds) {
  ett_step_outline_result o;
  w->plan.overlap_sends = 0;
  int status = outline(w, 0, &o);
  *seconds = 0;
  if (status < 0) /* the evaluation reports the error */
    return 0;
  w->untimed |= status > 0 && o.untimed;
  if (status == 0) {
    count_refused(w, sends(w));
    return 1;
  }
  int64_t *count = NULL;
  if (o.memory_bytes > w->limits->memory_bytes)
    count = &w->counts->too_large;
  else if (!w->limits->exhaustive) {
    double threshold = ett_search_threshold(w->limits, o.memory_bytes);
    *seconds = o.step_seconds * (1 - rounding);
    if (*seconds > (cut < threshold ? cut : threshold))
      count = &w->counts->bounded;
  }
  if (count)
    *count += sends(w);
  return count != NULL;
}

/* Lower bound of the plans of a leaf; INFINITY: bounds exclude all; then they are
 * counted. */
static double least_of_leaf(walk *w) {
  ett_search_counts before = *w->counts;
  double least = INFINITY;
  for (int g = 0; g < gradients(w); g++) {
    double seconds;
    w->plan.overlap_gradients = w->axes->overlap_gradients[g];
    if (!bounds_settle(w, INFINITY, &seconds) && seconds < least)
      least = seconds;
  }
  if (least < INFINITY)
    *w->counts = before;
  else
    w->counts->plans += (int64_t)gradients(w) * sends(w);
  return least;
}

/* Evaluates the plans of a leaf and keeps the fastest in row. Returns 1 if it is wanted.
 */
static int evaluate_leaf(walk *w, ett_search_row *row) {
  double best = INFINITY, seconds;
  ett_search_row r = *row;
  w->counts->plans += (int64_t)gradients(w) * sends(w);
  for (int g = 0; g < gradients(w); g++) {
    w->plan.overlap_gradients = w->axes->overlap_gradients[g];
    if (bounds_settle(w, best, &seconds))
      continue;
    for (int s = 0; s < sends(w); s++) {
      w->plan.overlap_sends = w->axes->overlap_sends[s];
      r.overlap_gradients = g;
      r.overlap_sends = s;
      if (!is_allowed(w, &r)) {
        w->counts->forbidden++;
        continue;
      }
      ett_step_result result;
      int done = ett_step_evaluate(w->program, &w->plan, w->demands, w->workspace,
                                   ETT_KEEP_TOTALS, &result, w->err);
      if (judge(w, done) < 0)
        return -1;
      if (done != 0) {
        w->counts->untimed += done > 0;
        count_refused(w, done < 0);
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

/* Adds the leaves of one kind of recomputation that bounds do not exclude. */
static void expand_recompute(walk *w, int recompute, ett_search_row *leaves,
                             size_t *count) {
  for (int z = 0; z < zeros(w); z++) {
    w->plan.zero = (ett_zero)w->axes->zero[z];
    for (int k = 0; k < reshards(w) * parameters(w); k++) {
      ett_search_row leaf = {.recompute = recompute,
                             .zero = z,
                             .reshard = k / parameters(w),
                             .overlap_parameters = k % parameters(w)};
      w->plan.reshard = w->axes->reshard[leaf.reshard];
      w->plan.overlap_parameters = w->axes->overlap_parameters[leaf.overlap_parameters];
      leaf.step_seconds = least_of_leaf(w);
      if (leaf.step_seconds < INFINITY)
        leaves[(*count)++] = leaf;
    }
  }
}

/* The largest ZeRO stage on the axis below the given one; -1: none. */
static int zero_below(const walk *w, int other) {
  int largest = -1;
  for (int z = 0; z < zeros(w); z++)
    if (w->axes->zero[z] < other && w->axes->zero[z] > largest)
      largest = w->axes->zero[z];
  return largest;
}

/* The least memory of the ZeRO stages up to `zero`; `bytes` is the memory of `zero`. A
 * larger stage may need more memory than a smaller one, if it gathers more weights than
 * it saves. */
static double least_memory(walk *w, int zero, double bytes) {
  ett_step_outline_result o;
  int kept = w->plan.zero;
  while ((zero = zero_below(w, zero)) >= 0) {
    w->plan.zero = (ett_zero)zero;
    if (outline(w, 1, &o) > 0 && o.memory_bytes < bytes)
      bytes = o.memory_bytes;
  }
  w->plan.zero = (ett_zero)kept;
  return bytes;
}

/* Whether passes move weights or gradients to or from the host. A high ZeRO stage moves
 * only a shard, so it can take less time than a lower stage. */
static int moves_shards(const walk *w) {
  return w->plan.offload_weights > 0 || w->plan.offload_gradients > 0;
}

/* Whether a value of reshard is on the axis. */
static int on_reshard_axis(const walk *w, int value) {
  for (int i = 0; i < w->axes->reshards; i++)
    if (w->axes->reshard[i] == value)
      return 1;
  return 0;
}

/* Whether all plans of one kind of recomputation are excluded. Then even the ZeRO stage
 * with the least memory does not fit, or the pipeline alone takes too long. If not,
 * *seconds is their lower bound. *all: all later kinds are excluded, too. */
static int settled(walk *w, int recompute, int *all, double *seconds) {
  ett_search_counts *counts = w->counts;
  ett_step_outline_result o;
  int most = INT_MAX, status = 0;
  *seconds = 0;
  w->plan.recompute = (ett_recompute)w->axes->recompute[recompute];
  if (w->excluded >> recompute & 1) {
    w->plan.zero = (ett_zero)w->axes->zero[0];
    *(ett_step_conflicts(&w->plan) ? &counts->refused : &counts->too_large) +=
        plans_of_recompute(w);
    return 1;
  }
  w->plan.overlap_parameters = w->plan.overlap_gradients = w->plan.overlap_sends = 0;
  w->plan.reshard = on_reshard_axis(w, 1); /* needs less memory */
  while (status == 0 && (most = zero_below(w, most)) >= 0) {
    w->plan.zero = (ett_zero)most;
    status = outline(w, 1, &o);
  }
  if (status < 0) /* the evaluation of the plans reports the error */
    return 0;
  int64_t plans = plans_of_recompute(w);
  if (status == 0) {
    count_refused(w, plans);
    w->excluded |= (unsigned)ett_step_conflicts(&w->plan) << recompute;
    return 1;
  }
  double bytes = o.memory_bytes;
  if (bytes > w->limits->memory_bytes || w->limits->step_count > 1)
    bytes = least_memory(w, most, bytes);
  if (bytes > w->limits->memory_bytes) {
    counts->too_large += plans;
    w->excluded |= 1u << recompute;
    return 1;
  }
  if (w->limits->exhaustive)
    return 0;
  double threshold = ett_search_threshold(w->limits, bytes);
  double least = o.pipeline_seconds;
  w->untimed |= o.untimed;
  if (most == ETT_ZERO_PARAMETERS) { /* its gathers may be absent or hidden */
    for (int p = 0; p < w->axes->parameters; p++)
      w->plan.overlap_parameters |= w->axes->overlap_parameters[p];
    w->plan.reshard = !on_reshard_axis(w, 0); /* gathers at most as often */
    least = INFINITY;
    for (int z = most; z >= 0; z = zero_below(w, z)) {
      if (!moves_shards(w) && zero_below(w, z) >= 0)
        continue;
      w->plan.zero = (ett_zero)z;
      if (outline(w, 1, &o) <= 0)
        return 0;
      w->untimed |= o.untimed;
      least = o.pipeline_seconds < least ? o.pipeline_seconds : least;
    }
  }
  *seconds = least * (1 - rounding);
  if (*seconds <= threshold)
    return 0;
  /* The other kinds repeat work, but they may move fewer activations to the host. */
  *all = w->plan.recompute == ETT_RECOMPUTE_NONE && w->plan.offload_activations == 0 &&
         *seconds > ett_search_threshold(w->limits, 0);
  counts->bounded += plans;
  return 1;
}

/* Bounds each kind of recomputation. Returns the smallest bound of those that are not
 * excluded; INFINITY: all are. Expands them unless leaves is NULL. */
static double walk_all(walk *w, ett_search_row *leaves, size_t *count) {
  double least = INFINITY;
  for (int r = 0, all = 0; r < w->axes->recomputes; r++) {
    double seconds = 0;
    if (all)
      w->counts->bounded += plans_of_recompute(w);
    if (all || settled(w, r, &all, &seconds)) {
      w->counts->plans += plans_of_recompute(w);
      continue;
    }
    least = seconds < least ? seconds : least;
    if (leaves)
      expand_recompute(w, r, leaves, count);
  }
  return least;
}

double ett_search_passes(const ett_program *program, ett_exchange_overlap overlap,
                         ett_recompute recompute) {
  double seconds = 0;
  int in_part = recompute == ETT_RECOMPUTE_FULL && program->recompute_layers > 0;
  for (size_t k = 0; k < program->kind_count; k++) {
    const ett_layer_sums *s = &program->sums[k];
    double again = s->recompute[recompute] - s->repeated[recompute].hidden;
    seconds += (double)program->kinds[k].count *
               (s->forward - s->forward_hidden[overlap] + s->backward -
                s->backward_hidden[overlap] + (in_part || again < 0 ? 0 : again));
  }
  return seconds;
}

static walk start(const ett_search_part *part, const ett_search_limits *limits,
                  ett_search_counts *counts, ett_err *err) {
  const ett_orders *orders = part->plan->orders;
  int64_t data = (int64_t)part->plan->dp * part->plan->cp * (orders ? orders->ways : 1);
  return (walk){.program = part->program,
                .plan = *part->plan,
                .axes = part->axes,
                .allowed = part->allowed,
                .limits = limits,
                .demands = part->demands,
                .workspace = part->workspace,
                .counts = counts,
                .err = err,
                .excluded = limits->excluded,
                .sharded = data > 1 || data * part->plan->tp >
                                           (int64_t)part->plan->ep * part->plan->etp};
}

double ett_search_survey(const ett_search_part *part, const ett_search_limits *limits,
                         ett_search_counts *counts, unsigned *excluded) {
  ett_err err;
  ett_search_counts own = *counts;
  walk w = start(part, limits, &own, &err);
  double least = walk_all(&w, NULL, NULL);
  if (least == INFINITY)
    *counts = own;
  counts->untimed += w.untimed;
  *excluded = w.excluded;
  return least;
}

void ett_search_expand(const ett_search_part *part, const ett_search_limits *limits,
                       ett_search_row *leaves, size_t *count, ett_search_counts *counts) {
  ett_err err;
  walk w = start(part, limits, counts, &err);
  *count = 0;
  walk_all(&w, leaves, count);
  counts->untimed += w.untimed;
}

int ett_search_evaluate(const ett_search_part *part, const ett_search_limits *limits,
                        ett_search_row *row, ett_search_counts *counts, ett_err *err) {
  walk w = start(part, limits, counts, err);
  w.plan.recompute = (ett_recompute)part->axes->recompute[row->recompute];
  w.plan.zero = (ett_zero)part->axes->zero[row->zero];
  w.plan.reshard = part->axes->reshard[row->reshard];
  w.plan.overlap_parameters = part->axes->overlap_parameters[row->overlap_parameters];
  return evaluate_leaf(&w, row);
}
