/* Closed forms of pipelines: gpipe exactly, bounds of every schedule. */
#include <math.h>

#include "step/pipeline/engine.h"

int ett_pipeline_gpipe_closed(const ett_pipeline *p, ett_pipeline_workspace *w,
                              ett_pipeline_result *result, ett_err *err) {
  if (ett_pipeline_check(p, err) != 0)
    return -1;
  if (p->schedule != ETT_SCHEDULE_GPIPE)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "this closed form applies to gpipe only");
  ett_engine e;
  if (ett_engine_open(&e, p, w, NULL, err) != 0)
    return -1;
  double m = (double)p->micro_batches;
  /* Each half is a flow shop. After the machines so far, the last micro-batch finishes at
   * sum + (m - 1) * slowest. */
  double sum = 0, slowest = 0, turn = 0;
  for (int s = 0; s < p->stages; s++) {
    double send = s < p->stages - 1 ? p->send_forward[s] : 0;
    double receive_seconds = ett_engine_receive(p, s, ETT_UNIT_FORWARD);
    double service = receive_seconds + p->forward[s] + (p->blocking_sends ? send : 0);
    /* A message that occupies both sides is sent once. */
    sum += service - receive_seconds;
    slowest = service > slowest ? service : slowest;
    if (!p->blocking_sends) {
      sum += send;
      slowest = send > slowest ? send : slowest;
    }
    turn = sum + (m - 1) * slowest;
    e.busy[s] = m * (p->forward[s] + p->backward[s]);
  }
  sum = 0, slowest = 0;
  double makespan = 0;
  for (int s = p->stages - 1; s >= 0; s--) {
    double send = s > 0 ? p->send_backward[s - 1] : 0;
    double receive_seconds = ett_engine_receive(p, s, ETT_UNIT_BACKWARD);
    double service = receive_seconds + p->backward[s] + (p->blocking_sends ? send : 0);
    sum += service - receive_seconds;
    slowest = service > slowest ? service : slowest;
    double end = turn + sum + (m - 1) * slowest;
    e.last_end[s] = p->blocking_sends ? end - send : end;
    e.last_start[s] = e.last_end[s] - p->backward[s];
    if (!p->blocking_sends) {
      sum += send;
      slowest = send > slowest ? send : slowest;
      end = turn + sum + (m - 1) * slowest;
    }
    e.clock[s] = end;
    makespan = end > makespan ? end : makespan;
  }
  *result =
      (ett_pipeline_result){makespan,   e.busy,           e.clock,          e.last_start,
                            e.last_end, e.hidden_forward, e.hidden_backward};
  return 0;
}

/* Bounds for custom orders: the work of a rank, or the shortest path of one
 * micro-batch. */
static ett_pipeline_bounds custom_bounds(const ett_pipeline *p) {
  const ett_orders *o = p->orders;
  int slots = p->stages * p->chunks, slices = slots / o->ways;
  double lower = INFINITY;
  for (int way = 0; way < o->ways; way++) {
    double through = 0;
    for (int v = way * slices; v < (way + 1) * slices; v++)
      through += p->forward[v] + p->backward[v] +
                 (o->next[v] >= 0 ? p->send_forward[v] + p->send_backward[v] : 0);
    lower = through < lower ? through : lower;
  }
  for (int rank = 0; rank < p->stages; rank++) {
    double work = 0;
    for (size_t k = o->first_unit[rank]; k < o->first_unit[rank + 1]; k++) {
      int slot = o->units[k].chunk * p->stages + rank;
      work += ett_order_seconds(p, slot, o->units[k].kind);
      if (o->units[k].paired && p->forward_hidden)
        work -= p->forward_hidden[slot] + p->backward_hidden[slot];
    }
    lower = work > lower ? work : lower;
  }
  return (ett_pipeline_bounds){lower, INFINITY};
}

ett_pipeline_bounds ett_pipeline_closed(const ett_pipeline *p) {
  if (p->schedule == ETT_SCHEDULE_CUSTOM)
    return custom_bounds(p);
  int slices = p->stages * p->chunks;
  double m = (double)p->micro_batches;
  double through = 0, slowest = 0, lower = 0, before = 0;
  for (int v = 0; v < slices; v++) {
    double send = v < slices - 1 ? p->send_forward[v] + p->send_backward[v] : 0;
    through += p->forward[v] + p->backward[v] + send;
  }
  for (int rank = 0; rank < p->stages; rank++) {
    double work = 0, sends = 0;
    for (int v = rank; v < slices; v += p->stages) {
      work += p->forward[v] + p->backward[v] + (p->weight ? p->weight[v] : 0);
      if (p->forward_hidden) /* upper limit, in every pair */
        work -= p->forward_hidden[v] + p->backward_hidden[v];
      sends += (v < slices - 1 ? p->send_forward[v] : 0) +
               (v > 0 ? p->send_backward[v - 1] : 0) +
               ett_engine_receive(p, v, ETT_UNIT_FORWARD) +
               ett_engine_receive(p, v, ETT_UNIT_BACKWARD);
    }
    double own = before + m * work;
    lower = own > lower ? own : lower;
    slowest = work + sends > slowest ? work + sends : slowest;
    before += p->forward[rank] + p->backward[rank];
    if (rank < slices - 1)
      before += p->send_forward[rank] + p->send_backward[rank];
  }
  lower = through > lower ? through : lower;
  double upper = INFINITY;
  if ((p->schedule == ETT_SCHEDULE_1F1B && !p->forward_hidden) ||
      p->schedule == ETT_SCHEDULE_GPIPE)
    upper = through + (m - 1) * slowest;
  if (p->schedule == ETT_SCHEDULE_GPIPE) { /* each half waits for its own slowest rank */
    double forward = 0, backward = 0;
    for (int v = 0; v < slices; v++) {
      double f = p->forward[v] + (v < slices - 1 ? p->send_forward[v] : 0) +
                 ett_engine_receive(p, v, ETT_UNIT_FORWARD);
      double b = p->backward[v] + (v > 0 ? p->send_backward[v - 1] : 0) +
                 ett_engine_receive(p, v, ETT_UNIT_BACKWARD);
      forward = f > forward ? f : forward;
      backward = b > backward ? b : backward;
    }
    upper = through + (m - 1) * (forward + backward);
  }
  return (ett_pipeline_bounds){lower, upper};
}
