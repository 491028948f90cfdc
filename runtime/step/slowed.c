/* Steps with slow devices: each stage has a factor on the times of its operators. */
#include <stdlib.h>

#include "step/messages.h"

int ett_slowed_slots(const ett_evaluation *e, const ett_step_arrays *a) {
  const ett_step_plan *p = e->plan;
  size_t slices = (size_t)p->pp * (size_t)p->vp, kinds = e->program->kind_count;
  const ett_program *known = NULL;
  double factor = 1;
  ett_layer_sums *of_kinds =
      malloc((kinds + slices) * sizeof *of_kinds + slices * sizeof(int64_t));
  if (!of_kinds)
    return ett_err_set(e->err, ETT_ERR_MEMORY, "not enough memory for %zu slices",
                       slices);
  ett_layer_sums *sums = of_kinds + kinds;
  int status = 0;
  for (int rank = 0; rank < p->pp && status == 0; rank++) {
    const ett_program *program = ett_parts_program(e, a, rank);
    if (p->slowdown[rank] == 1)
      continue;
    if (program != known || p->slowdown[rank] != factor)
      status = ett_program_slowed(program, p->slowdown[rank], (int)slices, a->slice_split,
                                  ett_step_prediction(p), of_kinds, sums,
                                  (int64_t *)(sums + slices), e->err);
    known = program;
    factor = p->slowdown[rank];
    for (int v = rank; v < a->slots && status == 0; v += p->pp)
      a->sums[v] = sums[p->orders ? p->orders->slice[v] : v];
  }
  free(of_kinds);
  return status;
}

int ett_step_slowed(const ett_program *program, const ett_step_plan *plan,
                    ett_demands *demands, ett_step_workspace *w, const double *factors,
                    size_t count, double *seconds, ett_err *err) {
  ett_step_result result;
  int status = ett_step_evaluate(program, plan, demands, w, 0, &result, err);
  ett_pipeline_hold_plan(w->pipeline, 1); /* orders are planned without slow devices */
  for (size_t i = 0; i < count && status == 0; i++) {
    ett_step_plan slow = *plan;
    slow.slowdown = factors + i * (size_t)plan->pp;
    status = ett_step_evaluate(program, &slow, demands, w, 0, &result, err);
    seconds[i] = result.step_seconds;
  }
  ett_pipeline_hold_plan(w->pipeline, 0);
  return status;
}
