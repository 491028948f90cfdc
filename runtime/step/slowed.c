/* Steps with slow devices: each stage has a factor on the times of its operators. */
#include "step/evaluation.h"

int ett_step_slowed(const ett_program *program, const ett_step_plan *plan,
                    ett_demands *demands, ett_step_workspace *w, const double *factors,
                    size_t count, double *seconds, ett_err *err) {
  ett_step_result result;
  int status =
      ett_step_evaluate(program, plan, demands, w, ETT_KEEP_TOTALS, &result, err);
  ett_pipeline_hold_plan(w->pipeline, 1); /* orders are planned without slow devices */
  for (size_t i = 0; i < count && status == 0; i++) {
    ett_step_plan slow = *plan;
    slow.slowdown = factors + i * (size_t)plan->pp;
    status = ett_step_evaluate(program, &slow, demands, w, ETT_KEEP_TOTALS, &result, err);
    seconds[i] = result.step_seconds;
  }
  ett_pipeline_hold_plan(w->pipeline, 0);
  return status;
}
