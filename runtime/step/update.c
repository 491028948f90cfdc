/* After the pipeline of a stage: gradients are reduced, weights updated and gathered. */
#include <math.h>

#include "step/evaluation.h"

double ett_update_share(const ett_step_plan *p, double optimizer_bytes) {
  int master = p->weight_bytes < (int32_t)sizeof(float);
  /* Bytes for the weight (written, without a master weight also read), for its gradient,
   * and three times as many for the gradient's norm and clipping (in_step.update_bytes).
   * With 16-bit gradients, states of at most 4 bytes are two narrow moments. */
  double usual = master ? 12 : 8, beside = master ? 2 + 4 * 4 : 8 + 4 * 4;
  int narrow = master && optimizer_bytes <= (double)sizeof(float) &&
               p->gradient_bytes < (int32_t)sizeof(float);
  return ((narrow ? 4 + 4 * 2 : beside) + 2 * optimizer_bytes) / (beside + 2 * usual);
}

/* Bytes of a momentum that Muon orthogonalises. */
enum { NEWTON_BYTES = 2 };

/* The Newton-Schulz iterations of a rank. Ranks that share states own whole matrices, so
 * one matrix is the least. Under ZeRO-1 and 2, an owner gathers the momenta of all ranks,
 * unless gradients are all-reduced (Megatron-Core's layer-wise optimizer). Under ZeRO-3,
 * ranks exchange shards for whole matrices, and their updates for shards. trained: layers
 * with gradients. */
static void ask_newton(ett_evaluation *e, ett_step_stage *s, int64_t trained) {
  const ett_step_plan *p = e->plan;
  s->newton_seconds = s->newton_message_seconds = 0;
  for (int experts = 0; experts < 2; experts++) {
    const ett_matrices *m = &s->matrices[experts];
    double degree = p->zero < ETT_ZERO_OPTIMIZER ? 1
                    : experts                    ? (double)e->expert.degree
                                                 : (double)e->dense.degree;
    double bytes = NEWTON_BYTES * m->parameters;
    s->newton_seconds += fmax(m->seconds / degree, m->largest);
    if (degree > 1 && p->zero == ETT_ZERO_PARAMETERS)
      s->newton_message_seconds += 2 * ett_buckets_seconds(ett_messages_buckets(
                                           e, ETT_DEMAND_ALL_TO_ALL, experts,
                                           bytes / degree, trained, NEWTON_BYTES));
    else if (degree > 1 && !p->gradient_all_reduce)
      s->newton_message_seconds += ett_buckets_seconds(ett_messages_buckets(
          e, ETT_DEMAND_ALL_GATHER, experts, bytes, trained, NEWTON_BYTES));
  }
}

double ett_update_matrices(const ett_evaluation *e, const ett_step_stage *s) {
  int shares = e->plan->zero >= ETT_ZERO_OPTIMIZER;
  return s->matrices[0].parameters / (shares ? (double)e->dense.degree : 1) +
         s->matrices[1].parameters / (shares ? (double)e->expert.degree : 1);
}

/* Time of an update as a multiple of the update by Adam that was timed. Muon also writes
 * and reads an orthogonal matrix. updated: weights of the rank, matrices included. */
static double update_factor(const ett_evaluation *e, const ett_step_stage *s,
                            double updated) {
  const ett_step_plan *p = e->plan;
  double share = updated > 0 ? ett_update_matrices(e, s) / updated : 0;
  return (1 - share) * ett_update_share(p, p->optimizer_bytes) +
         share * ett_update_share(p, p->matrix_bytes + NEWTON_BYTES);
}

/* Seconds in which the host updates the weights whose states it holds. It reads and
 * writes the states, reads fp32 gradients and writes weights. Gradients that are still on
 * the device come to the host, and weights go to the device. Both overlap the update,
 * piece by piece. Gradients that the host holds for weights that the device updates go
 * back to the device. */
static double seconds_on_host(const ett_evaluation *e, const ett_step_stage *s, int rank,
                              double updated) {
  const ett_step_plan *p = e->plan;
  double on_host = p->offload_optimizer * updated;
  double there = ett_messages_whole_gradients(e) ? 0 : p->offload_gradients;
  double moved = (there - p->offload_optimizer) * updated *
                 p->gradient_bytes; /* above 0: gradients return */
  double to = moved < 0 ? -moved : 0;
  double from = on_host * p->weight_bytes + (moved > 0 ? moved : 0);
  double share = updated > 0 ? ett_update_matrices(e, s) / updated : 0;
  double states = (1 - share) * p->optimizer_bytes + share * p->matrix_bytes;
  double bytes = 2 * states + (double)sizeof(float) + p->weight_bytes;
  double computing = on_host > 0 ? on_host * bytes / ett_parts_host_rate(e, rank) : 0;
  return ett_messages_beside_host(e, rank, computing, to > from ? to : from);
}

void ett_update_ask(ett_evaluation *e, const ett_step_arrays *a, int rank) {
  const ett_step_plan *p = e->plan;
  ett_step_stage *s = &a->stage[rank];
  int slices = a->slots;
  if (a->alike[rank]) {
    for (int v = rank; v < slices; v += p->pp)
      a->gradients[v] = a->gradients[v - 1];
    s->optimizer_seconds = s[-1].optimizer_seconds;
    s->optimizer_kernel_seconds = s[-1].optimizer_kernel_seconds;
    s->newton_seconds = s[-1].newton_seconds;
    s->newton_message_seconds = s[-1].newton_message_seconds;
    s->gather_seconds = s[-1].gather_seconds;
    s->expert_gather_share = s[-1].expert_gather_share;
    return;
  }
  ett_parts_ask(e, rank, rank);
  ett_demand_kind reduce = p->zero == ETT_ZERO_NONE || p->gradient_all_reduce
                               ? ETT_DEMAND_ALL_REDUCE
                               : ETT_DEMAND_REDUCE_SCATTER;
  double layers = 0;
  int64_t all_trained = 0;
  for (int v = rank; v < slices; v += p->pp) {
    const ett_layer_sums *sums = &a->sums[v];
    int64_t trained = a->layers[v] - (int64_t)sums->idle_layers;
    a->gradients[v].dense =
        ett_messages_buckets(e, reduce, 0, sums->dense_parameters * p->message_bytes,
                             trained, p->message_bytes);
    a->gradients[v].expert =
        ett_messages_buckets(e, reduce, 1, sums->expert_parameters * p->message_bytes,
                             trained, p->message_bytes);
    layers += (double)a->split[v];
    all_trained += trained;
  }
  double sharded = p->zero >= ETT_ZERO_OPTIMIZER ? (double)e->dense.degree : 1;
  double expert_sharded = p->zero >= ETT_ZERO_OPTIMIZER ? (double)e->expert.degree : 1;
  ett_stage_place place = rank == 0           ? ETT_STAGE_FIRST
                          : rank == p->pp - 1 ? ETT_STAGE_LAST
                                              : ETT_STAGE_MIDDLE;
  ett_demand update = {.kind = ETT_DEMAND_OPTIMIZER,
                       .amount = ceil(s->dense_parameters / sharded +
                                      s->expert_parameters / expert_sharded),
                       .layers = (int32_t)ceil(layers / sharded),
                       .stage = place,
                       .element_bytes = p->weight_bytes};
  s->optimizer_kernel_seconds = (1 - p->offload_optimizer) *
                                update_factor(e, s, update.amount) *
                                ett_messages_ask(e, &update);
  double on_host = seconds_on_host(e, s, rank, update.amount);
  s->optimizer_seconds =
      on_host > s->optimizer_kernel_seconds ? on_host : s->optimizer_kernel_seconds;
  ask_newton(e, s, all_trained);
  s->optimizer_seconds += s->newton_seconds + s->newton_message_seconds;
  if (p->zero == ETT_ZERO_OPTIMIZER || p->zero == ETT_ZERO_GRADIENTS ||
      (ett_messages_whole(e) && !p->reshard)) {
    const ett_weights *w = &s->spared;
    double dense = ett_messages_gathered(e, s->dense_parameters - w->dense,
                                         s->frozen_dense - w->frozen_dense);
    double expert = ett_messages_gathered(e, s->expert_parameters - w->expert,
                                          s->frozen_expert - w->frozen_expert);
    int64_t messages = p->zero == ETT_ZERO_PARAMETERS ? s->layers : (int64_t)layers;
    dense = ett_messages_gather(e, dense, 0, messages);
    expert = ett_messages_gather(e, 0, expert, messages);
    s->gather_seconds = dense + expert;
    s->expert_gather_share = expert > 0 ? expert / s->gather_seconds : 0;
  }
}

/* The slot of a rank whose last backward follows the last backward of slot v (v = -1: the
 * first slot to finish); -1: none. The chunks of built-in schedules finish last to first.
 */
static int next_to_finish(const ett_step_plan *p, const ett_step_arrays *a, int rank,
                          int v, const ett_pipeline_result *ends) {
  if (!p->orders)
    return v < 0 ? a->slots - p->pp + rank : v - p->pp;
  const double *end = ends->last_backward_end;
  const double last = v < 0 ? -INFINITY : end[v];
  int next = -1;
  for (int u = rank; u < a->slots; u += p->pp) {
    int after = end[u] > last || (end[u] == last && u > v);
    if (after && u != v && (next < 0 || end[u] < end[next]))
      next = u;
  }
  return next;
}

/* Seconds of a weight gather that do not overlap the next forward pass. */
static double gather_exposed(const ett_step_plan *p, double gather, double forward) {
  if (!p->overlap_parameters || forward < 0)
    return gather;
  return gather > forward ? gather - forward : 0;
}

/* The least seconds in which the passes of a micro-batch in a slot occupy a lane. Hidden
 * messages run beside others of the lane, so its messages can take longer than a pass. */
static double occupied_least(const ett_evaluation *e, const ett_step_arrays *a, int v,
                             int lane) {
  double seconds = fmin(a->forward_busy[lane][v], a->forward[v]) +
                   fmin(a->backward_busy[lane][v], a->backward[v]);
  if (e->plan->overlap_all_to_all != ETT_EXCHANGE_BATCH)
    return seconds;
  double hidden = a->forward_hidden[v] + a->backward_hidden[v];
  return fmin(seconds, a->forward[v] + a->backward[v] - hidden);
}

double ett_update_least(const ett_evaluation *e, const ett_step_arrays *a,
                        double pipeline) {
  const ett_step_plan *p = e->plan;
  const ett_step_stage *s = &a->stage[0];
  double times = ett_messages_reduces_every(e) ? (double)p->micro_batches : 1;
  double total = 0, between = 0, first = 0, busy[ETT_LANES] = {0},
         own_busy[ETT_LANES] = {0};
  for (int v = 0; v < a->slots; v += p->pp) {
    const ett_slice_gradients *g = &a->gradients[v];
    total += ett_buckets_seconds(g->dense) + ett_buckets_seconds(g->expert);
    between += ett_buckets_seconds(ett_buckets_between(g->dense)) +
               ett_buckets_seconds(ett_buckets_between(g->expert));
    for (int l = 0; l < e->lanes; l++)
      if (e->collective[l] > 0)
        busy[l] += occupied_least(e, a, v, l);
  }
  if (s->gather_seconds > 0) { /* of the first slot, behind its first forward */
    const ett_layer_sums *own = &a->sums[0];
    double part = ett_slot_gathered(e, own) / ett_stage_gathered(e, s);
    for (int l = 0; l < e->lanes; l++)
      own_busy[l] = e->collective[l] > 0 ? a->forward_busy[l][0] : 0;
    first = p->overlap_parameters
                ? gather_exposed(p, s->gather_seconds * part,
                                 ett_messages_room(e, a->forward[0], own_busy))
                : s->gather_seconds;
  }
  if (ett_messages_overlaps_replicas(e))
    total -= between;
  if (!ett_messages_overlaps_gradients(e))
    return pipeline + total * times + s->optimizer_seconds + first;
  /* The last message starts after the last backward. Each lane carries its messages. */
  const ett_slice_gradients *g = &a->gradients[0];
  double last =
      g->dense.rest_time > g->expert.rest_time ? g->dense.rest_time : g->expert.rest_time;
  double least = pipeline + last + first;
  for (int l = 0; l < e->lanes; l++) {
    double carried =
        e->collective[l] * (total * times) + busy[l] * (double)p->micro_batches;
    least = carried > least ? carried : least;
  }
  return least + s->optimizer_seconds;
}

/* End of the last reduction of a stage if no other transfer uses its link. Blocking
 * reduce-scatters are left out. */
static double reduced_alone(const ett_evaluation *e, const ett_step_arrays *a, int rank,
                            const ett_pipeline_result *ends) {
  double last = 0;
  for (int v = next_to_finish(e->plan, a, rank, -1, ends); v >= 0;
       v = next_to_finish(e->plan, a, rank, v, ends)) {
    ett_slice_gradients g = a->gradients[v];
    if (ett_messages_overlaps_replicas(e)) {
      g.dense = ett_buckets_between(g.dense);
      g.expert = ett_buckets_between(g.expert);
    }
    double start = ends->last_backward_start[v], end = ends->last_backward_end[v];
    last = start > last ? start : last;
    last = ett_buckets_overlapped_end(g.dense, start, end, last);
    last = ett_buckets_overlapped_end(g.expert, start, end, last);
  }
  return last;
}

/* End of the last backward of a stage. */
static double finish_of(const ett_step_arrays *a, int pp, int rank,
                        const ett_pipeline_result *ends) {
  double finish = ends->last_backward_end[rank];
  for (int v = rank + pp; v < a->slots; v += pp)
    if (ends->last_backward_end[v] > finish)
      finish = ends->last_backward_end[v];
  return finish;
}

/* The messages of a stage after its pipeline. finish: end of its last backward. */
static void lay_messages(const ett_evaluation *e, const ett_step_arrays *a, int rank,
                         const ett_pipeline_result *ends, double finish) {
  const ett_step_plan *p = e->plan;
  ett_step_stage *s = &a->stage[rank];
  double times = ett_messages_reduces_every(e) ? (double)p->micro_batches : 1;
  double total = 0, experts = 0, between = 0, between_experts = 0; /* replicas */
  double forward_busy[ETT_LANES] = {0};
  for (int v = next_to_finish(p, a, rank, -1, ends); v >= 0;
       v = next_to_finish(p, a, rank, v, ends)) {
    const ett_slice_gradients *g = &a->gradients[v];
    double share = times > 1 ? a->runs[v] / times : 1; /* share of the micro-batches */
    total += share * (ett_buckets_seconds(g->dense) + ett_buckets_seconds(g->expert));
    experts += share * ett_buckets_seconds(g->expert);
    between += share * ett_buckets_seconds(ett_buckets_between(g->dense));
    between_experts += share * ett_buckets_seconds(ett_buckets_between(g->expert));
    for (int l = 0; l < e->lanes; l++)
      if (e->collective[l] > 0)
        forward_busy[l] += a->forward_busy[l][v];
  }
  s->gradient_seconds = s->gradient_exposed_seconds = total * times;
  s->expert_gradient_share = experts > 0 ? experts / total : 0;
  s->replica_share = between > 0 ? between / (total - experts) : 0;
  s->expert_replica_share = between_experts > 0 ? between_experts / experts : 0;
  if (ett_messages_overlaps_replicas(e)) {
    double last = reduced_alone(e, a, rank, ends);
    s->gradient_exposed_seconds =
        (total - between - between_experts) * times + (last > finish ? last - finish : 0);
  } else if (ett_messages_overlaps_gradients(e)) {
    double last = e->shares ? e->result.reduced[rank] : reduced_alone(e, a, rank, ends);
    s->gradient_exposed_seconds = last > finish ? last - finish : 0;
    if (s->gradient_seconds <
        s->gradient_exposed_seconds) /* other transfers slowed the reductions down */
      s->gradient_seconds = s->gradient_exposed_seconds;
  }
  s->gather_exposed_seconds =
      e->links.gather
          ? e->result.gather_wait[rank]
          : gather_exposed(
                p, s->gather_seconds,
                ett_messages_room(e, s->micro_batch_forward_seconds, forward_busy) /
                    p->vp);
}

void ett_update_lay(const ett_evaluation *e, const ett_step_arrays *a, int rank,
                    const ett_pipeline_result *ends) {
  ett_step_stage *s = &a->stage[rank];
  double finish = finish_of(a, e->plan->pp, rank, ends);
  s->forward_seconds -= ends->hidden_forward[rank];
  s->backward_seconds -= ends->hidden_backward[rank];
  s->all_to_all_overlapped_seconds +=
      ends->hidden_forward[rank] + ends->hidden_backward[rank];
  s->pipeline_seconds = finish;
  if (!a->alike[rank] || ett_messages_overlaps_gradients(e) ||
      ett_messages_overlaps_replicas(e) || e->links.gather) {
    lay_messages(e, a, rank, ends, finish);
    return;
  }
  s->gradient_seconds = s[-1].gradient_seconds;
  s->gradient_exposed_seconds = s[-1].gradient_exposed_seconds;
  s->expert_gradient_share = s[-1].expert_gradient_share;
  s->replica_share = s[-1].replica_share;
  s->expert_replica_share = s[-1].expert_replica_share;
  s->gather_exposed_seconds = s[-1].gather_exposed_seconds;
}
