/* The interval of a step. Moves each time to the ends of its own interval, one time after
 * the other. */
#include <math.h>
#include <string.h>

#include "step/evaluation.h"

/* Accumulates the change of the step by one move. Moves without effect are skipped. */
typedef struct {
  double sum[2], squares[2]; /* low, high */
} moves;

static void add_move(moves *m, int side, double change) {
  if (side == 0)
    change = -change;
  if (change > 0) {
    m->sum[side] += change;
    m->squares[side] += change * change;
  }
}

int ett_step_interval(ett_program *program, const ett_step_plan *plan,
                      ett_demands *demands, ett_step_workspace *w, double correlation,
                      double *low, double *high, ett_err *err) {
  ett_step_result result;
  int status =
      ett_step_evaluate(program, plan, demands, w, ETT_KEEP_TOTALS, &result, err);
  if (status != 0)
    return status;
  double centre = result.step_seconds;
  moves m;
  memset(&m, 0, sizeof m);
  ett_pipeline_hold_plan(w->pipeline,
                         1); /* keep the orders planned with the expected times */
  for (ett_program *part = program; part && status == 0; part = part->next) {
    for (size_t i = 0; i < part->operation_count && status == 0; i++) {
      const ett_operation *o = &part->operations[i];
      for (int side = 0; side < 2 && status == 0; side++) {
        double end = side == 0 ? o->forward.low + o->backward.low + o->split.low
                               : o->forward.high + o->backward.high + o->split.high;
        if (end == o->forward.seconds + o->backward.seconds + o->split.seconds)
          continue;
        ett_program_vary(part, i, side == 0 ? ETT_AT_LOW : ETT_AT_HIGH);
        status =
            ett_step_evaluate(program, plan, demands, w, ETT_KEEP_TOTALS, &result, err);
        add_move(&m, side, result.step_seconds - centre);
      }
    }
    ett_program_vary(part, 0, ETT_AT_TIME);
  }
  for (size_t i = 0; status == 0 && i < w->demand_count; i++) {
    size_t index = w->demands[i];
    ett_demand_time time = *ett_demands_time(demands, index);
    for (int side = 0; side < 2 && status == 0; side++) {
      ett_demand_time moved = time;
      moved.seconds = side == 0 ? time.low : time.high;
      if (moved.seconds == time.seconds)
        continue;
      if (ett_demands_set(demands, index, moved, err) != 0)
        status = -1;
      else
        status =
            ett_step_evaluate(program, plan, demands, w, ETT_KEEP_TOTALS, &result, err);
      add_move(&m, side, result.step_seconds - centre);
      if (ett_demands_set(demands, index, time, err) != 0)
        status = -1;
    }
  }
  ett_pipeline_hold_plan(w->pipeline, 0);
  if (status != 0)
    return status;
  double half[2];
  for (int side = 0; side < 2; side++)
    half[side] = sqrt((1 - correlation) * m.squares[side] +
                      correlation * m.sum[side] * m.sum[side]);
  *low = centre > half[0] ? centre - half[0] : 0;
  *high = centre + half[1];
  return 0;
}
