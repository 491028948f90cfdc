/* The parts of a cluster: the part of each stage and the sums of its slices there. */
#include <stdlib.h>
#include <string.h>

#include "step/evaluation.h"

static int part_of(const ett_parts *parts, int64_t device) {
  int k = 0;
  while (k < parts->count - 1 && device >= parts->end[k])
    k++;
  return k;
}

static int64_t first_of_group(ett_rank_group group, int64_t rank) {
  for (int i = 0; i < 2; i++) {
    ett_axis axis = group.axis[i];
    if (axis.degree > 1)
      rank -= rank / axis.stride % axis.degree * axis.stride;
  }
  return rank;
}

int ett_step_parts(const ett_step_plan *plan, int32_t *parts, ett_err *err) {
  static const ett_group_kind kinds[] = {ETT_GROUP_TP, ETT_GROUP_CP, ETT_GROUP_EP,
                                         ETT_GROUP_ETP};
  static const char *const names[] = {"tensor", "context", "expert", "expert tensor"};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  ett_degrees degrees = ett_step_degrees(plan);
  ett_axis pipeline = ett_degrees_pipeline(&degrees);
  int64_t world = ett_degrees_world(&degrees);
  ett_rank_group groups[KINDS];
  for (int i = 0; i < KINDS; i++)
    groups[i] = ett_degrees_group(&degrees, kinds[i]);
  memset(parts, 0, (size_t)plan->pp * sizeof *parts);
  for (int64_t rank = 0; rank < world; rank++) {
    const int32_t *map = plan->rank_map;
    int part = part_of(&plan->parts, map ? map[rank] : rank);
    parts[rank / pipeline.stride % pipeline.degree] |= (int32_t)1 << part;
    for (int i = 0; i < KINDS; i++) {
      int64_t first = first_of_group(groups[i], rank);
      if (part_of(&plan->parts, map ? map[first] : first) != part)
        return ett_err_set(err, ETT_ERR_ARGUMENT,
                           "ranks %lld and %lld of one %s-parallel group are on unlike "
                           "devices; only pipeline and data groups may have unlike "
                           "devices",
                           (long long)first, (long long)rank, names[i]);
    }
  }
  return 0;
}

/* Whether the cached part arrays belong to this plan. */
static int same_key(const ett_step_plan *p, const ett_part_arrays *known) {
  const ett_degrees now = ett_step_degrees(p), *was = &known->degrees;
  return !p->rank_map && known->stages == p->pp && now.pp == was->pp &&
         now.tp == was->tp && now.cp == was->cp && now.ep == was->ep &&
         now.dp == was->dp && now.etp == was->etp && now.order == was->order &&
         known->parts.count == p->parts.count &&
         memcmp(known->parts.end, p->parts.end, sizeof p->parts.end) == 0;
}

int ett_parts_place(ett_evaluation *e) {
  const ett_step_plan *p = e->plan;
  ett_part_arrays *known = &e->w->parts;
  e->stage_parts = NULL;
  e->asking = 0;
  if (p->parts.count < 2)
    return 0;
  if (p->pp > ETT_PIPELINE_MAX_STAGES)
    return ett_err_set(e->err, ETT_ERR_ARGUMENT, "a pipeline has at most %d stages",
                       ETT_PIPELINE_MAX_STAGES);
  if (!known->of_stage &&
      !(known->of_stage = malloc(ETT_PIPELINE_MAX_STAGES * sizeof *known->of_stage)))
    return ett_err_set(e->err, ETT_ERR_MEMORY, "not enough memory for the stages' parts");
  if (!same_key(p, known)) {
    known->stages = 0;
    if (ett_step_parts(p, known->of_stage, e->err) != 0)
      return -1;
    known->stages = p->rank_map ? 0 : p->pp; /* the key holds no map */
    known->degrees = ett_step_degrees(p);
    known->parts = p->parts;
  }
  e->stage_parts = known->of_stage;
  return 0;
}

void ett_parts_free(ett_part_arrays *known) {
  free(known->of_stage);
  free(known->sums);
}

/* The arrays of an evaluation, in one block: sums by part and slice; runs by part and
 * kind; runs by part and slice; layers by slice. */
static int layout(ett_evaluation *e, size_t slices) {
  ett_part_arrays *w = &e->w->parts;
  size_t parts = (size_t)e->plan->parts.count, kinds = e->program->kind_count;
  size_t bytes =
      parts * (slices * (sizeof *w->sums + sizeof(double)) + kinds * sizeof(double)) +
      slices * sizeof(int64_t);
  if (ett_room(&w->sums, &w->bytes, bytes) != 0)
    return ett_err_set(e->err, ETT_ERR_MEMORY,
                       "not enough memory for %zu slices on %zu parts", slices, parts);
  w->slices = slices;
  w->runs = (double *)(w->sums + parts * slices);
  w->slice_runs = w->runs + parts * kinds;
  w->layers = (int64_t *)(w->slice_runs + parts * slices);
  return 0;
}

static int slice_of(const ett_step_plan *p, int slot) {
  return p->orders ? p->orders->slice[slot] : slot;
}

const ett_layer_sums *ett_parts_sums(const ett_evaluation *e, const ett_step_arrays *a,
                                     int slot) {
  const ett_part_arrays *w = &e->w->parts;
  int part = a->stage[slot % e->plan->pp].part;
  return &w->sums[(size_t)part * w->slices + (size_t)slice_of(e->plan, slot)];
}

const ett_program *ett_parts_program(const ett_evaluation *e, const ett_step_arrays *a,
                                     int rank) {
  const ett_program *program = e->program;
  for (int k = e->stage_parts ? a->stage[rank].part : 0; k > 0; k--)
    program = program->next;
  return program;
}

/* Seconds of a micro-batch on a stage if all its devices are on one part. */
static double seconds_on(const ett_evaluation *e, const ett_step_arrays *a, int rank,
                         int part) {
  double seconds = 0;
  a->stage[rank].part = part;
  for (int v = rank; v < a->slots; v += e->plan->pp) {
    const ett_layer_sums *s = ett_parts_sums(e, a, v);
    seconds += s->forward + s->backward + s->recompute[e->plan->recompute];
  }
  return seconds;
}

static void choose(const ett_evaluation *e, const ett_step_arrays *a, int rank) {
  const ett_parts *parts = &e->plan->parts;
  ett_step_stage *s = &a->stage[rank];
  double most = -1;
  int slowest = 0;
  s->parts = e->stage_parts[rank];
  for (int k = 0; k < parts->count; k++) {
    if (!(s->parts >> k & 1))
      continue;
    double seconds = seconds_on(e, a, rank, k);
    if (seconds > most) {
      most = seconds;
      slowest = k;
    }
    if (s->memory_limit_bytes == 0 || parts->memory_bytes[k] < s->memory_limit_bytes)
      s->memory_limit_bytes = parts->memory_bytes[k];
  }
  s->part = slowest;
}

int ett_parts_choose(ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  ett_part_arrays *w = &e->w->parts;
  size_t slices = (size_t)p->pp * (size_t)p->vp;
  if (!e->stage_parts)
    return 0;
  if (layout(e, slices) != 0)
    return -1;
  const ett_program *program = e->program;
  for (int k = 0; k < p->parts.count; k++, program = program->next) {
    if (!program)
      return ett_err_set(e->err, ETT_ERR_INTERNAL,
                         "internal error: %d parts, programs of %d", p->parts.count, k);
    if (ett_program_slices(program, (int)slices, a->slice_split, ett_step_prediction(p),
                           w->sums + (size_t)k * slices, w->layers, e->err) != 0)
      return -1;
  }
  for (int rank = 0; rank < p->pp; rank++)
    choose(e, a, rank);
  return 0;
}

/* Adds n layers of one kind in a slice to the runs of every part. */
static void add_runs(const ett_evaluation *e, size_t slice, size_t kind, int64_t n) {
  ett_part_arrays *w = &e->w->parts;
  for (int k = 0; k < e->plan->parts.count; k++)
    w->runs[(size_t)k * e->program->kind_count + kind] +=
        (double)n * w->slice_runs[(size_t)k * w->slices + slice];
}

const double *ett_parts_runs(const ett_evaluation *e, const ett_step_arrays *a) {
  ett_part_arrays *w = &e->w->parts;
  const ett_program *program = e->program;
  if (!e->stage_parts)
    return NULL;
  size_t parts = (size_t)e->plan->parts.count;
  memset(w->runs, 0, parts * (program->kind_count + w->slices) * sizeof(double));
  for (int v = 0; v < a->slots; v++)
    w->slice_runs[(size_t)a->stage[v % e->plan->pp].part * w->slices +
                  (size_t)slice_of(e->plan, v)] += a->runs[v];
  size_t v = 0;
  int64_t room = a->slice_split[0], n;
  for (size_t k = 0; k < program->kind_count; k++) {
    const ett_layer_kind *kind = &program->kinds[k];
    if (kind->place != ETT_PLACE_MIDDLE) {
      int at = ett_program_slice_of(kind, (int)w->slices, ett_step_prediction(e->plan));
      add_runs(e, (size_t)at, k, kind->count);
      continue;
    }
    for (int64_t left = kind->count; left > 0; left -= n, room -= n) {
      while (room == 0)
        room = a->slice_split[++v];
      n = left < room ? left : room;
      add_runs(e, v, k, n);
    }
  }
  return w->runs;
}

/* The least value over the parts of a stage; `whole` without parts. */
static double least_of(const ett_evaluation *e, int rank, const double *of_parts,
                       double whole) {
  double least = 0;
  if (!e->stage_parts)
    return whole;
  for (int k = 0; k < e->plan->parts.count; k++)
    if (e->stage_parts[rank] >> k & 1 && (least == 0 || of_parts[k] < least))
      least = of_parts[k];
  return least;
}

double ett_parts_host_bandwidth(const ett_evaluation *e, int rank) {
  return least_of(e, rank, e->plan->parts.host_bandwidth, e->plan->host_bandwidth);
}

double ett_parts_host_rate(const ett_evaluation *e, int rank) {
  return least_of(e, rank, e->plan->parts.host_rate, e->plan->host_rate);
}

void ett_parts_ask(ett_evaluation *e, int from, int to) {
  e->asking = e->stage_parts ? e->stage_parts[from] | e->stage_parts[to] : 0;
}
