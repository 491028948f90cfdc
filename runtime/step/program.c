#include "step/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ett_program *ett_program_new(size_t operations, size_t kinds, ett_err *err) {
  if (operations < 1 || operations > 100000 || kinds < 1 || kinds > 100000 ||
      operations * kinds > 10000000) {
    ett_err_set(err, ETT_ERR_LIMIT,
                "a program holds 1 to 100000 operations and layer kinds");
    return NULL;
  }
  ett_program *p = calloc(1, sizeof *p);
  if (p) {
    p->operation_count = operations;
    p->kind_count = kinds;
    p->slowdown = 1;
    p->operations = calloc(operations, sizeof *p->operations);
    p->kinds = calloc(kinds, sizeof *p->kinds);
    p->sums = calloc(kinds, sizeof *p->sums);
    p->uses = calloc(operations * kinds, sizeof *p->uses);
    p->policy_uses = calloc(operations * kinds, sizeof *p->policy_uses);
  }
  if (!p || !p->operations || !p->kinds || !p->sums || !p->uses || !p->policy_uses) {
    ett_program_free(p);
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a step program");
    return NULL;
  }
  return p;
}

void ett_program_free(ett_program *p) {
  if (!p)
    return;
  ett_program_free(p->next);
  for (size_t i = 0; p->operations && i < p->operation_count; i++)
    free(p->operations[i].points);
  free(p->operations);
  free(p->kinds);
  free(p->sums);
  free(p->uses);
  free(p->policy_uses);
  free(p);
}

static int check_amount(const char *name, double value, ett_err *err) {
  if (isfinite(value) && value >= 0)
    return 0;
  return ett_err_set(err, ETT_ERR_ARGUMENT,
                     "field '%s' must be a number of at least 0, got %g", name, value);
}

int ett_operation_check(const ett_operation *o, ett_err *err) {
  int status = ett_time_check(o->forward, "the forward pass", err);
  if (status == 0)
    status = ett_time_check(o->backward, "the backward pass", err);
  const struct {
    const char *name;
    double value;
  } amounts[] = {{"dense_parameters", o->dense_parameters},
                 {"expert_parameters", o->expert_parameters},
                 {"frozen_dense", o->frozen_dense},
                 {"frozen_expert", o->frozen_expert},
                 {"matrix_parameters", o->matrix_parameters},
                 {"newton_seconds", o->newton_seconds},
                 {"largest_newton_seconds", o->largest_newton_seconds},
                 {"spared_share", o->spared_share},
                 {"scale_bytes", o->scale_bytes},
                 {"activation_bytes", o->activation_bytes},
                 {"dropped_bytes", o->dropped_bytes},
                 {"late_bytes", o->late_bytes},
                 {"working_bytes", o->working_bytes},
                 {"weight_working_bytes", o->weight_working_bytes},
                 {"weight_share", o->weight_share},
                 {"cached_bytes", o->cached_bytes},
                 {"beside_seconds", o->beside_seconds},
                 {"flops", o->flops}};
  for (size_t i = 0; i < sizeof amounts / sizeof *amounts && status == 0; i++)
    status = check_amount(amounts[i].name, amounts[i].value, err);
  const struct {
    const char *name;
    ett_demand_time time;
  } further[] = {
      {"split", o->split}, {"split_weight", o->split_weight}, {"repeated", o->repeated}};
  for (size_t i = 0; i < sizeof further / sizeof *further && status == 0; i++) {
    ett_demand_time t = further[i].time;
    if (!(isfinite(t.seconds) && isfinite(t.low) && isfinite(t.high)))
      return ett_err_set(err, ETT_ERR_ARGUMENT, "field '%s' must hold finite seconds",
                         further[i].name);
  }
  for (int l = 0; l < ETT_LANES && status == 0; l++)
    if (!(o->lanes[l] >= 0 && o->lanes[l] <= 1))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "field 'lanes' must hold shares from 0 to 1, got %g",
                         o->lanes[l]);
  if (status == 0 && !(isfinite(o->quantised_bytes) && isfinite(o->sharded_bytes)))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "field '%s' must be a finite number",
                       isfinite(o->quantised_bytes) ? "sharded_bytes"
                                                    : "quantised_bytes");
  if (status == 0 && (o->cached_shape < 0 || o->cached_shape > ETT_CACHED_SHAPES))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'cached_shape' must be 0 to %d, got %d", ETT_CACHED_SHAPES,
                       o->cached_shape);
  for (size_t i = 0; i < o->point_count && status == 0; i++) {
    status = check_amount("points", o->points[i].seconds, err);
    if (status == 0)
      status = check_amount("points", o->points[i].operators, err);
    if (status == 0)
      status = check_amount("points", o->points[i].exchanges, err);
  }
  if (status == 0 && o->weight_share > 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'weight_share' must be at most 1, got %g", o->weight_share);
  if (status == 0 && o->spared_share > 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'spared_share' must be at most 1, got %g", o->spared_share);
  return status;
}

int ett_program_check(const ett_program *p, ett_err *err) {
  for (size_t k = 0; k < p->kind_count; k++) {
    const ett_layer_kind *kind = &p->kinds[k];
    if (kind->count < 1 || kind->count > 1000000)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "field 'count' must be 1 to 1000000, got %lld",
                         (long long)kind->count);
    if (check_amount("input_bytes", kind->input_bytes, err) != 0 ||
        check_amount("policy_bytes", kind->policy_bytes, err) != 0 ||
        check_amount("remade_bytes", kind->remade_bytes, err) != 0 ||
        check_amount("shared_bytes", kind->shared_bytes, err) != 0 ||
        check_amount("boundary", kind->boundary, err) != 0)
      return -1;
  }
  if (p->element_bytes < 1 || p->element_bytes > 8)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "an element has 1 to 8 bytes, got %d",
                       p->element_bytes);
  const struct {
    const char *name;
    double value;
  } amounts[] = {{"workspace_bytes", p->workspace_bytes},
                 {"context_bytes", p->context_bytes},
                 {"communicator_bytes", p->communicator_bytes},
                 {"output_bytes", p->output_bytes},
                 {"kept_logits", p->kept_logits},
                 {"owned_tensors", p->owned_tensors},
                 {"kept_gradient_bytes", p->kept_gradient_bytes},
                 {"allocator_share", p->allocator_share},
                 {"boundary_bytes", p->boundary_bytes}};
  for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
    if (check_amount(amounts[i].name, amounts[i].value, err) != 0)
      return -1;
  if (p->recompute_layers < 0 || p->recompute_layers > 1000000)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'recompute_layers' must be 0 to 1000000, got %lld",
                       (long long)p->recompute_layers);
  if (p->gather < 0 || (size_t)p->gather > p->operation_count)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'gather' must be 0 to %zu, the operations, got %d",
                       p->operation_count, p->gather);
  if (p->lanes < 1 || p->lanes > ETT_LANES)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "field 'lanes' must be 1 to %d, got %d",
                       ETT_LANES, p->lanes);
  struct {
    const char *name;
    double value;
  } shares[] = {{"communication_share", p->communication_share},
                {"exchange_communication_share", p->exchange_communication_share}};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
    if (!(shares[i].value >= 0 && shares[i].value < 1))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "field '%s' must be at least 0 and below 1, got %g",
                         shares[i].name, shares[i].value);
  return check_amount("tied_embedding_bytes", p->tied_embedding_bytes, err);
}

int64_t ett_program_middle_layers(const ett_program *p) {
  int64_t layers = 0;
  for (size_t i = 0; i < p->kind_count; i++)
    if (p->kinds[i].place == ETT_PLACE_MIDDLE)
      layers += p->kinds[i].count;
  return layers;
}

static double pick(ett_demand_time time, ett_variation variation) {
  return variation == ETT_AT_LOW    ? time.low
         : variation == ETT_AT_HIGH ? time.high
                                    : time.seconds;
}

static double least(double a, double b) {
  return a < b ? a : b;
}

/* Seconds of a layer by role: of its passes, of its input gradients alone, and of the
 * forward runs that ETT_RECOMPUTE_POLICY repeats. For all roles together: the additional
 * seconds of the operators of a slow device in each pass. */
typedef struct role_seconds {
  double forward[ETT_ROLES], backward[ETT_ROLES], input[ETT_ROLES];
  double policy[ETT_ROLES], selected[ETT_ROLES]; /* repeated, by ett_recompute */
  double longer_forward, longer_backward, longer_weight, longer_repeated;
  /* Of a device that is not slow; of the operations whose repeated run waits again. */
  double plain_forward[ETT_ROLES], plain_backward[ETT_ROLES], plain_input[ETT_ROLES];
  double again[ETT_ROLES], plain_again[ETT_ROLES];
} role_seconds;

/* Seconds of all-to-alls that hide behind shared experts in one pass. */
static double hidden_by_shared(const double pass[ETT_ROLES], double share) {
  double each = (1 - share) * pass[ETT_ROLE_EXCHANGE] / 2;
  return least(each, pass[ETT_ROLE_BESIDE_DISPATCH]) +
         least(each, pass[ETT_ROLE_BESIDE_COMBINE]);
}

/* Seconds of a layer's all-to-alls that hide.
 *
 * Shared experts depend only on the layer's input. In both passes their up projection
 * runs beside the dispatch and their down projection beside the combine (Megatron-Core,
 * moe_shared_expert_overlap). In a pair of micro-batches, each of the four all-to-alls
 * runs beside an independent part of the other micro-batch, in this order (DeepSeek-V3,
 * arXiv 2412.19437, figures 4 and 5; Megatron-Core, combined 1F1B):
 *
 *   computing      attention F | experts B   | experts F   | attention B
 *   communication  combine B   | dispatch F  | dispatch B  | combine F
 *
 * F is forward, B backward (input and weight gradients); attention is all computing
 * outside the routed experts. The longer part of each column is exposed by the
 * difference. Computing slows down by `share` during communication: if x seconds of
 * communication and y seconds of computing overlap, min((1 - share) x, y) are hidden. A
 * split backward pass has only the input gradients of shared experts. */
static void hide(ett_layer_sums *s, const role_seconds *of, double share) {
  const double *forward = of->forward, *backward = of->backward;
  double f = (1 - share) * forward[ETT_ROLE_EXCHANGE] / 2;
  double b = (1 - share) * backward[ETT_ROLE_EXCHANGE] / 2;
  s->split_exchange =
      hidden_by_shared(backward, share) - hidden_by_shared(of->input, share);
  s->forward_hidden[ETT_EXCHANGE_SHARED_EXPERTS] = hidden_by_shared(forward, share);
  s->backward_hidden[ETT_EXCHANGE_SHARED_EXPERTS] = hidden_by_shared(backward, share);
  double outside_forward = forward[ETT_ROLE_OUTSIDE] + forward[ETT_ROLE_BESIDE_DISPATCH] +
                           forward[ETT_ROLE_BESIDE_COMBINE];
  double outside_backward = backward[ETT_ROLE_OUTSIDE] +
                            backward[ETT_ROLE_BESIDE_DISPATCH] +
                            backward[ETT_ROLE_BESIDE_COMBINE];
  s->forward_hidden[ETT_EXCHANGE_BATCH] =
      least(f, backward[ETT_ROLE_EXPERT]) + least(f, outside_backward);
  s->backward_hidden[ETT_EXCHANGE_BATCH] =
      least(b, outside_forward) + least(b, forward[ETT_ROLE_EXPERT]);
}

static void keep_most(double *most, double value) {
  if (value > *most)
    *most = value;
}

void ett_keep_two(double most[2], double value) {
  double other = value < most[0] ? value : most[0];
  keep_most(&most[0], value);
  keep_most(&most[1], other);
}

static int is_prediction(const ett_layer_kind *kind) {
  return kind->place == ETT_PLACE_PREDICTION;
}

/* Whether a kind of layer can be recomputed. Embedding, head and layers without a
 * backward pass cannot. */
static int is_repeated(const ett_layer_kind *kind) {
  return (kind->place == ETT_PLACE_MIDDLE || is_prediction(kind)) &&
         !kind->forward_only && !kind->stored;
}

/* Without policy_bytes, half of the layers are recomputed and hold their input. */
static void fill_layer_bytes(ett_layer_sums *s, const ett_layer_kind *kind) {
  double all = s->activation_bytes[ETT_RECOMPUTE_NONE];
  double full = s->activation_bytes[ETT_RECOMPUTE_FULL];
  if (kind->place != ETT_PLACE_MIDDLE && !is_prediction(kind))
    return;
  s->layer_bytes[ETT_RECOMPUTE_NONE] = s->layer_bytes[ETT_RECOMPUTE_SELECTIVE] = all;
  keep_most(&s->layer_bytes[ETT_RECOMPUTE_FULL], all - full);
  if (!is_prediction(kind))
    keep_most(&s->layer_bytes[ETT_RECOMPUTE_POLICY],
              all - (kind->policy_bytes > 0 ? kind->policy_bytes : full));
  if (is_repeated(kind))
    s->remade_bytes = kind->remade_bytes;
  for (int w = 0; w < 2; w++) {
    s->working_bytes[ETT_RECOMPUTE_SELECTIVE][w] += s->remade_bytes;
    for (int r = ETT_RECOMPUTE_FULL; r < ETT_RECOMPUTES; r++)
      s->working_bytes[r][w] += s->layer_bytes[r];
  }
}

static ett_variation variation_of(const ett_program *p, size_t operation) {
  return operation == p->varied ? p->variation : ETT_AT_TIME;
}

static double shorter(double wait, double longer) {
  return wait > 0 ? fmax(0, wait - longer) : 0;
}

/* Wait for the host in a forward pass, if operators take `slower` times as long: `longer`
 * additional seconds. hidden: share of the all-to-alls that they hide beyond those that a
 * device hides that is not slow. */
static double forward_wait(const ett_operation *o, double wait, double longer,
                           double slower, double hidden) {
  if (o->point_count == 0)
    return shorter(wait, longer);
  double most = 0;
  for (size_t i = 0; i < o->point_count; i++)
    most = fmax(most, o->points[i].seconds - (slower - 1) * o->points[i].operators +
                          hidden * o->points[i].exchanges);
  return most;
}

/* Shortens one of n waits for the host by the additional time of slower operators, less
 * the all-to-alls that slower shared experts hide in addition. */
static void shorten(const ett_program *p, const ett_operation *o, const role_seconds *of,
                    double n, double *forward, double *backward, double *split,
                    double *weight, double *repeated) {
  double share = p->exchange_communication_share, of_forward = 0, of_backward = 0;
  double of_input = 0, of_repeated = 0;
  if (o->hides_exchanges) {
    of_forward =
        hidden_by_shared(of->forward, share) - hidden_by_shared(of->plain_forward, share);
    of_backward = hidden_by_shared(of->backward, share) -
                  hidden_by_shared(of->plain_backward, share);
    of_input =
        hidden_by_shared(of->input, share) - hidden_by_shared(of->plain_input, share);
    of_repeated =
        hidden_by_shared(of->again, share) - hidden_by_shared(of->plain_again, share);
  }
  double exchanges = of->forward[ETT_ROLE_EXCHANGE];
  double input = shorter(*backward + *split - *weight,
                         (of->longer_backward - of->longer_weight - of_input) / n);
  *forward = forward_wait(o, *forward, (of->longer_forward - of_forward) / n, p->slowdown,
                          exchanges > 0 ? of_forward / exchanges : 0);
  *backward = shorter(*backward, (of->longer_backward - of_backward) / n);
  *weight = shorter(*weight, of->longer_weight / n);
  *repeated = shorter(*repeated, (of->longer_repeated - of_repeated) / n);
  *split = input + *weight - *backward;
}

/* Adds the seconds of one operation in a layer to those of its role, as for a device that
 * is not slow. */
static void add_plain(role_seconds *of, const ett_operation *o, double forward,
                      double backward) {
  of->plain_forward[o->role] += forward;
  of->plain_backward[o->role] += backward;
  of->plain_input[o->role] += (1 - o->weight_share) * backward;
  if (o->selective && !o->never_again && o->waits_again)
    of->plain_again[o->role] += forward;
}

/* Adds the weights of n runs of an operation. */
static void add_weights(const ett_operation *o, double n, ett_layer_sums *s) {
  s->dense_parameters += n * o->dense_parameters;
  s->expert_parameters += n * o->expert_parameters;
  s->frozen_dense += n * o->frozen_dense;
  s->frozen_expert += n * o->frozen_expert;
  s->spared.dense += n * o->spared_share * o->dense_parameters;
  s->spared.expert += n * o->spared_share * o->expert_parameters;
  s->spared.frozen_dense += n * o->spared_share * o->frozen_dense;
  s->spared.frozen_expert += n * o->spared_share * o->frozen_expert;
  struct ett_quantised *q = &s->quantised[o->expert_parameters + o->frozen_expert > 0];
  q->whole += n * o->quantised_bytes;
  q->sharded += n * o->sharded_bytes;
  q->scales += n * o->scale_bytes;
  if (o->frozen_dense + o->frozen_expert > 0) {
    q->frozen_sharded += n * o->sharded_bytes;
    q->frozen_scales += n * o->scale_bytes;
  }
  if (n > 0)
    ett_matrices_add(&s->matrices[o->expert_parameters > 0],
                     &(ett_matrices){o->matrix_parameters, o->newton_seconds,
                                     o->largest_newton_seconds},
                     n);
  if (o->spared_share > 0)
    s->layer_copies += n * (o->quantised_bytes - o->sharded_bytes - o->scale_bytes);
}

/* Adds the runs of an operation in one layer of kind k. */
static void add_operation(const ett_program *p, size_t k, size_t i, ett_layer_sums *s,
                          role_seconds *of) {
  const ett_operation *o = &p->operations[i];
  double n = p->uses[k * p->operation_count + i];
  ett_variation v = variation_of(p, i);
  double slower = o->kind == ETT_OPERATOR && !o->host ? p->slowdown : 1;
  double once = slower * pick(o->forward, v), back = slower * pick(o->backward, v);
  double split = pick(o->split, v), weight = pick(o->split_weight, v);
  double repeated = pick(o->repeated, v);
  if (o->host == ETT_HOST_AHEAD && p->slowdown != 1)
    shorten(p, o, of, n, &once, &back, &split, &weight, &repeated);
  double forward = n * once, backward = n * back;
  add_plain(of, o, n * pick(o->forward, v), n * pick(o->backward, v));
  of->longer_forward += (slower - 1) * n * pick(o->forward, v);
  of->longer_backward += (slower - 1) * n * pick(o->backward, v);
  of->longer_weight += (slower - 1) * n * o->weight_share * pick(o->backward, v);
  const ett_layer_kind *kind = &p->kinds[k];
  double again = is_repeated(kind) && !is_prediction(kind) && !o->never_again
                     ? p->policy_uses[k * p->operation_count + i]
                     : 0;
  double runs = again * once;
  s->forward += forward;
  s->backward += backward;
  of->forward[o->role] += forward;
  of->backward[o->role] += backward;
  of->input[o->role] += (1 - o->weight_share) * backward;
  of->policy[o->role] += runs;
  s->recompute[ETT_RECOMPUTE_POLICY] += runs;
  *(o->never_again ? &s->left_out : &s->recompute[ETT_RECOMPUTE_FULL]) += forward;
  s->recompute[ETT_RECOMPUTE_SELECTIVE] += n * repeated;
  int selected = o->selective && !o->never_again;
  if (selected) {
    of->longer_repeated += o->waits_again ? (slower - 1) * n * pick(o->forward, v) : 0;
    s->recompute[ETT_RECOMPUTE_SELECTIVE] += forward;
    of->selected[o->role] += forward;
    of->again[o->role] += o->waits_again ? forward : 0;
  }
  /* A collective has one pass. */
  double ahead = forward > 0 ? o->beside_seconds : 0, behind = o->beside_seconds - ahead;
  for (int l = 0; l < p->lanes; l++) {
    s->forward_lane[l] += o->lanes[l] * (forward + n * ahead);
    (o->never_again ? s->left_out_lane : s->repeated[ETT_RECOMPUTE_FULL].lane)[l] +=
        o->lanes[l] * (forward + n * ahead);
    s->repeated[ETT_RECOMPUTE_SELECTIVE].lane[l] +=
        selected ? o->lanes[l] * (forward + n * ahead) : 0;
    s->repeated[ETT_RECOMPUTE_POLICY].lane[l] += o->lanes[l] * (runs + again * ahead);
    s->backward_lane[l] += o->lanes[l] * (backward + n * behind);
  }
  s->weight += o->weight_share * backward + n * weight;
  s->split += n * split;
  add_weights(o, n, s);
  if (o->cached_shape > 0)
    s->cached_shapes |= UINT64_C(1) << (o->cached_shape - 1);
  s->activation_bytes[ETT_RECOMPUTE_NONE] += n * o->activation_bytes;
  s->activation_bytes[ETT_RECOMPUTE_SELECTIVE] +=
      n * (o->activation_bytes - (o->selective ? o->dropped_bytes : 0));
  s->late_bytes += n * o->late_bytes;
  s->loss_bytes += o->loss ? n * o->activation_bytes : 0;
  s->flops += n * o->flops;
  keep_most(&s->working_bytes[0][0], o->working_bytes + o->weight_working_bytes);
  keep_most(&s->working_bytes[0][1], o->working_bytes);
}

static void repeat_nothing(ett_layer_sums *s, ett_recompute recompute) {
  s->recompute[recompute] = 0;
  s->activation_bytes[recompute] = s->activation_bytes[ETT_RECOMPUTE_NONE];
  memset(&s->repeated[recompute], 0, sizeof s->repeated[recompute]);
}

/* Fills what a recomputed layer holds and repeats. Of a part of the layers, only
 * ETT_RECOMPUTE_UNIFORM also repeats those of multi-token prediction, one by one
 * (Megatron-Core, multi_token_prediction.py, _checkpointed_forward). */
static void fill_recomputed(const ett_program *p, ett_layer_sums *s,
                            const ett_layer_kind *kind) {
  double *bytes = s->activation_bytes;
  if (is_repeated(kind)) {
    s->repeated[ETT_RECOMPUTE_FULL].hidden =
        s->forward_hidden[ETT_EXCHANGE_SHARED_EXPERTS];
    bytes[ETT_RECOMPUTE_FULL] = kind->input_bytes;
  } else {
    repeat_nothing(s, ETT_RECOMPUTE_FULL);
    repeat_nothing(s, ETT_RECOMPUTE_SELECTIVE);
  }
  bytes[ETT_RECOMPUTE_POLICY] =
      (bytes[ETT_RECOMPUTE_NONE] + bytes[ETT_RECOMPUTE_FULL]) / 2;
  if (is_repeated(kind) && kind->policy_bytes > 0)
    bytes[ETT_RECOMPUTE_POLICY] = kind->policy_bytes;
  if (!is_prediction(kind))
    return;
  repeat_nothing(s, ETT_RECOMPUTE_POLICY);
  if (p->recompute_layers > 0 && p->recompute_method != ETT_RECOMPUTE_UNIFORM)
    repeat_nothing(s, ETT_RECOMPUTE_FULL);
}

/* Weights that are gathered at a time: those of the layer, or of each of its operations.
 */
static void fill_gathered(const ett_program *p, size_t k, ett_layer_sums *s) {
  if (p->whole_ends && p->kinds[k].place != ETT_PLACE_MIDDLE &&
      !is_prediction(&p->kinds[k])) {
    s->ends_gathered = s->layer_gathered;
    s->ends_trained = s->layer_trained;
    s->layer_gathered = s->layer_trained = 0;
    return;
  }
  s->first_gathered = s->last_gathered = s->pair_gathered = s->layer_gathered;
  if (!p->gathers_tensors)
    return;
  s->first_gathered = s->last_gathered = s->pair_gathered = 0;
  s->layer_gathered = s->layer_trained = 0;
  for (size_t i = 0; i < p->operation_count; i++) {
    const ett_operation *o = &p->operations[i];
    double trained = o->dense_parameters + o->expert_parameters;
    double weights =
        (trained + o->frozen_dense + o->frozen_expert) * (1 - o->spared_share);
    double uses = p->uses[k * p->operation_count + i];
    if (uses == 0 || weights == 0)
      continue;
    if (s->first_gathered == 0)
      s->first_gathered = weights;
    keep_most(&s->pair_gathered, weights + s->last_gathered);
    if (uses > 1)
      keep_most(&s->pair_gathered, 2 * weights);
    s->last_gathered = weights;
    keep_most(&s->layer_gathered, weights);
    keep_most(&s->layer_trained, trained);
  }
}

static ett_layer_sums sums_of(const ett_program *p, size_t k) {
  ett_layer_sums s;
  memset(&s, 0, sizeof s);
  role_seconds of = {.longer_forward = 0};
  for (size_t i = 0; i < p->operation_count; i++)
    if (p->uses[k * p->operation_count + i] != 0)
      add_operation(p, k, i, &s, &of);
  for (int r = 1; r < ETT_RECOMPUTES; r++)
    memcpy(s.working_bytes[r], s.working_bytes[0], sizeof s.working_bytes[0]);
  hide(&s, &of, p->exchange_communication_share);
  double share = p->exchange_communication_share;
  s.repeated[ETT_RECOMPUTE_SELECTIVE].hidden = hidden_by_shared(of.selected, share);
  s.repeated[ETT_RECOMPUTE_POLICY].hidden = hidden_by_shared(of.policy, share);
  fill_recomputed(p, &s, &p->kinds[k]);
  fill_layer_bytes(&s, &p->kinds[k]);
  s.layer_trained = s.dense_parameters + s.expert_parameters;
  s.layer_parameters = s.layer_trained + s.frozen_dense + s.frozen_expert;
  s.layer_gathered = s.layer_parameters - s.spared.dense - s.spared.expert -
                     s.spared.frozen_dense - s.spared.frozen_expert;
  fill_gathered(p, k, &s);
  if (p->kinds[k].forward_only) {
    s.idle_layers = 1;
    s.idle_dense = s.dense_parameters + s.frozen_dense;
    s.idle_expert = s.expert_parameters + s.frozen_expert;
    s.spared.idle_dense = s.spared.dense + s.spared.frozen_dense;
    s.spared.idle_expert = s.spared.expert + s.spared.frozen_expert;
  }
  s.owns_table = p->kinds[k].owns_table;
  s.table_copies = p->kinds[k].copies_table;
  s.boundary = p->kinds[k].boundary;
  s.shared_bytes = p->kinds[k].shared_bytes;
  if (p->gather > 0) {
    size_t i = (size_t)p->gather - 1;
    s.gather_forward = pick(p->operations[i].forward, variation_of(p, i));
    s.gather_backward = pick(p->operations[i].backward, variation_of(p, i));
  }
  return s;
}

static uint64_t mix(uint64_t h, uint64_t value) {
  h = (h ^ value) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

/* Hashes what the messages of gradients and weights, and the updates depend on. */
static void hash_weights(ett_program *p) {
  uint64_t first = p->kind_count, second = 1;
  for (size_t k = 0; k <= p->kind_count; k++) {
    const ett_layer_sums *s = &p->sums[k];
    double values[25] = {p->tied_embedding_bytes, p->owned_tensors, p->tied_frozen,
                         p->element_bytes,        p->whole_stages,  p->defers_gradients};
    if (k < p->kind_count) {
      const double own[] = {s->dense_parameters,      s->expert_parameters,
                            s->frozen_dense,          s->frozen_expert,
                            s->idle_layers,           s->idle_dense,
                            s->idle_expert,           s->owns_table,
                            s->table_copies,          (double)p->kinds[k].place,
                            (double)p->kinds[k].count};
      memcpy(values, own, sizeof own);
      memcpy(&values[11], &s->spared, sizeof s->spared);
      memcpy(&values[17], s->matrices, 2 * sizeof *s->matrices);
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
      uint64_t bits;
      memcpy(&bits, &values[i], sizeof bits);
      first = mix(first, bits);
      second = mix(second, first + bits);
    }
  }
  p->weights[0] = first;
  p->weights[1] = second;
}

void ett_program_finish(ett_program *p) {
  static _Atomic uint64_t editions;
  p->edition = ++editions;
  for (size_t k = 0; k < p->kind_count; k++)
    p->sums[k] = sums_of(p, k);
  hash_weights(p);
  memset(p->cached_bytes, 0, sizeof p->cached_bytes);
  for (size_t i = 0; i < p->operation_count; i++)
    if (p->operations[i].cached_shape > 0)
      p->cached_bytes[p->operations[i].cached_shape - 1] += p->operations[i].cached_bytes;
}

double ett_program_cached(const ett_program *p, uint64_t shapes) {
  double bytes = 0;
  for (; shapes != 0; shapes &= shapes - 1)
    bytes += p->cached_bytes[__builtin_ctzll(shapes)];
  return bytes;
}

void ett_program_vary(ett_program *p, size_t operation, ett_variation variation) {
  p->varied = operation;
  p->variation = variation;
  ett_program_finish(p);
}

void ett_split_even(int64_t layers, int slices, int64_t *split) {
  int64_t base = layers / slices, left = layers % slices;
  for (int v = 0; v < slices; v++)
    split[v] = base;
  for (int v = 1; v < slices - 1 && left > 0; v++, left--)
    split[v]++;
  if (left > 0)
    split[0]++;
}

void ett_weights_add(ett_weights *to, const ett_weights *of, double n) {
  to->dense += n * of->dense;
  to->expert += n * of->expert;
  to->frozen_dense += n * of->frozen_dense;
  to->frozen_expert += n * of->frozen_expert;
  to->idle_dense += n * of->idle_dense;
  to->idle_expert += n * of->idle_expert;
}

static void add_layers(ett_layer_sums *to, const ett_layer_sums *of, double n,
                       int lanes) {
  to->forward += n * of->forward;
  to->backward += n * of->backward;
  to->weight += n * of->weight;
  to->split += n * of->split;
  to->split_exchange += n * of->split_exchange;
  for (int r = 0; r < ETT_RECOMPUTES; r++) {
    to->repeated[r].hidden += n * of->repeated[r].hidden;
    for (int l = 0; l < lanes; l++)
      to->repeated[r].lane[l] += n * of->repeated[r].lane[l];
  }
  for (int o = 0; o < ETT_EXCHANGE_OVERLAPS; o++) {
    to->forward_hidden[o] += n * of->forward_hidden[o];
    to->backward_hidden[o] += n * of->backward_hidden[o];
  }
  for (int l = 0; l < lanes; l++) {
    to->forward_lane[l] += n * of->forward_lane[l];
    to->backward_lane[l] += n * of->backward_lane[l];
  }
  to->dense_parameters += n * of->dense_parameters;
  to->expert_parameters += n * of->expert_parameters;
  to->frozen_dense += n * of->frozen_dense;
  to->frozen_expert += n * of->frozen_expert;
  to->idle_layers += n * of->idle_layers;
  to->idle_dense += n * of->idle_dense;
  to->idle_expert += n * of->idle_expert;
  to->owns_table += n * of->owns_table;
  to->table_copies += n * of->table_copies;
  ett_weights_add(&to->spared, &of->spared, n);
  for (int i = 0; i < 2; i++) {
    to->quantised[i].whole += n * of->quantised[i].whole;
    to->quantised[i].sharded += n * of->quantised[i].sharded;
    to->quantised[i].scales += n * of->quantised[i].scales;
    to->quantised[i].frozen_sharded += n * of->quantised[i].frozen_sharded;
    to->quantised[i].frozen_scales += n * of->quantised[i].frozen_scales;
    if (n > 0)
      ett_matrices_add(&to->matrices[i], &of->matrices[i], n);
  }
  to->cached_shapes |= of->cached_shapes;
  to->flops += n * of->flops;
  if (of->boundary > 0)
    to->boundary = of->boundary;
  to->gather_forward = of->gather_forward;
  to->gather_backward = of->gather_backward;
  to->late_bytes += n * of->late_bytes;
  to->loss_bytes += n * of->loss_bytes;
  for (int r = 0; r < ETT_RECOMPUTES; r++) {
    to->recompute[r] += n * of->recompute[r];
    to->activation_bytes[r] += n * of->activation_bytes[r];
    for (int i = 0; i < 2 && i < n; i++)
      ett_keep_two(to->largest_bytes[r], of->activation_bytes[r]);
    /* The activations of a layer are freed before the backward pass of the layer before.
     */
    for (int w = 0; w < 2; w++) {
      to->working_bytes[r][w] -= n * of->activation_bytes[r];
      keep_most(&to->working_bytes[r][w], of->working_bytes[r][w]);
    }
  }
  keep_most(&to->shared_bytes, of->shared_bytes);
  keep_most(&to->remade_bytes, of->remade_bytes);
  keep_most(&to->layer_parameters, of->layer_parameters);
  keep_most(&to->layer_trained, of->layer_trained);
  keep_most(&to->layer_gathered, of->layer_gathered);
  double before = to->last_gathered;
  if (n > 1 && of->last_gathered > before)
    before = of->last_gathered;
  keep_most(&to->pair_gathered, of->pair_gathered);
  keep_most(&to->pair_gathered, before + of->first_gathered);
  to->ends_gathered += n * of->ends_gathered;
  keep_most(&to->ends_trained, of->ends_trained);
  to->last_gathered = of->last_gathered;
  keep_most(&to->layer_copies, of->layer_copies);
  for (int r = 0; r < ETT_RECOMPUTES; r++)
    keep_most(&to->layer_bytes[r], of->layer_bytes[r]);
}

/* A slice with an odd number of layers of which every second is recomputed. Some programs
 * recompute the first layer and some do not: torchtitan's _apply_layer_sac continues its
 * count over the chunks of a rank, Megatron-Core's _checkpointed_forward begins at the
 * first layer of each chunk. If the last layer is recomputed, its activations are added
 * to all that the slice holds. If not, a recomputed layer replaces a freed one. The mean
 * is half a layer. Returns `copy`, changed. */
static const ett_layer_sums *in_odd_slice(const ett_layer_sums *of,
                                          ett_layer_sums *copy) {
  const int r = ETT_RECOMPUTE_POLICY;
  *copy = *of;
  copy->layer_bytes[r] /= 2;
  for (int w = 0; w < 2; w++)
    copy->working_bytes[r][w] -= copy->layer_bytes[r];
  return copy;
}

/* Layers of a slice that have the same stored input, up to one layer. remade: bytes that
 * the backward pass makes again for them. last: the kind of that layer. */
typedef struct layer_group {
  double remade;
  const ett_layer_sums *last;
} layer_group;

/* A layer of kind k under recompute_layers, the number-th of its slice that can be
 * recomputed. Adds it to `group`. It needs the output of the layer before it in the
 * group, so it also counts the operations that recomputation leaves out of a last layer.
 * Returns `copy`, changed. */
static const ett_layer_sums *in_part(const ett_program *p, size_t k,
                                     const ett_layer_sums *of, int64_t number,
                                     layer_group *group, ett_layer_sums *copy) {
  const int full = ETT_RECOMPUTE_FULL, none = ETT_RECOMPUTE_NONE;
  int64_t n = p->recompute_layers;
  *copy = *of;
  if (p->recompute_method == ETT_RECOMPUTE_UNIFORM) {
    int opens = (number - 1) % n == 0;
    group->remade =
        opens ? of->layer_bytes[full] : group->remade + of->activation_bytes[none];
    if (!opens) {
      copy->activation_bytes[full] = 0;
      copy->recompute[full] += group->last->left_out;
      for (int l = 0; l < p->lanes; l++)
        copy->repeated[full].lane[l] += group->last->left_out_lane[l];
    }
    group->last = &p->sums[k];
    copy->layer_bytes[full] = group->remade;
    for (int w = 0; w < 2; w++)
      copy->working_bytes[full][w] = of->working_bytes[none][w] + group->remade;
  } else if (p->recompute_method == ETT_RECOMPUTE_BLOCK ? number > n : number % n != 0) {
    copy->recompute[full] = copy->layer_bytes[full] = 0;
    copy->activation_bytes[full] = of->activation_bytes[none];
    memset(&copy->repeated[full], 0, sizeof copy->repeated[full]);
    memcpy(copy->working_bytes[full], of->working_bytes[none],
           sizeof copy->working_bytes[full]);
  }
  return copy;
}

int ett_program_slowed(const ett_program *p, double factor, int slices,
                       const int64_t *split, int prediction, ett_layer_sums *kinds,
                       ett_layer_sums *sums, int64_t *layers, ett_err *err) {
  ett_program slow = *p;
  slow.slowdown = factor;
  slow.sums = kinds;
  for (size_t k = 0; k < p->kind_count; k++)
    kinds[k] = sums_of(&slow, k);
  return ett_program_slices(&slow, slices, split, prediction, sums, layers, err);
}

/* The number of whole layers that are recomputed among `room` middle layers, of which the
 * first `left` are of kind k. */
static int64_t repeated_layers(const ett_program *p, size_t k, int64_t left,
                               int64_t room) {
  int64_t repeated = 0;
  for (; room > 0 && k < p->kind_count;
       left = ++k < p->kind_count ? p->kinds[k].count : 0) {
    if (p->kinds[k].place != ETT_PLACE_MIDDLE)
      continue;
    int64_t n = left < room ? left : room;
    if (is_repeated(&p->kinds[k]) && p->kinds[k].policy_bytes == 0)
      repeated += n;
    room -= n;
  }
  return repeated;
}

int ett_program_slice_of(const ett_layer_kind *kind, int slices, int prediction) {
  return kind->place == ETT_PLACE_FIRST ? 0
         : is_prediction(kind)          ? prediction
                                        : slices - 1;
}

/* Fails if a split does not hold the middle layers of a program, or holds some behind
 * those of multi-token prediction. */
static int check_split(const ett_program *p, int slices, const int64_t *split,
                       int prediction, ett_err *err) {
  int64_t middle = ett_program_middle_layers(p), given = 0;
  int predicts = 0;
  for (size_t k = 0; k < p->kind_count; k++)
    predicts |= is_prediction(&p->kinds[k]);
  for (int v = 0; v < slices; v++) {
    if (split[v] < 0 || (predicts && v > prediction && split[v] > 0))
      return ett_err_set(err, ETT_ERR_ARGUMENT, "slice %d holds %lld layers%s", v + 1,
                         (long long)split[v],
                         split[v] < 0 ? "" : " behind multi-token prediction");
    given += split[v];
  }
  if (given != middle)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the split holds %lld layers, the model has %lld",
                       (long long)given, (long long)middle);
  if (prediction < 0 || prediction >= slices)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "field 'prediction' must be 0 to %d, got %d", slices - 1,
                       prediction);
  return 0;
}

/* The sums of slice v. Clears those of the slices up to it that are not clear yet. */
static ett_layer_sums *cleared(ett_layer_sums *sums, int v, int *clear) {
  for (; *clear <= v; ++*clear)
    memset(&sums[*clear], 0, sizeof *sums);
  return &sums[v];
}

int ett_program_slices(const ett_program *p, int slices, const int64_t *split,
                       int prediction, ett_layer_sums *sums, int64_t *layers,
                       ett_err *err) {
  if (check_split(p, slices, split, prediction, err) != 0)
    return -1;
  memcpy(layers, split, (size_t)slices * sizeof *layers);
  int v = 0, odd = 0, clear = 0,
      alike = -1; /* alike: a slice with only `n` layers of kind k */
  int64_t room = split[0], n = 0, number = 0; /* number: as in in_part, of slice v */
  layer_group group = {.remade = 0};
  for (size_t k = 0; k < p->kind_count; k++) {
    const ett_layer_kind *kind = &p->kinds[k];
    if (kind->place != ETT_PLACE_MIDDLE) {
      int at = ett_program_slice_of(kind, slices, prediction);
      add_layers(cleared(sums, at, &clear), &p->sums[k], (double)kind->count, p->lanes);
      layers[at] += kind->count;
      continue;
    }
    alike = -1;
    for (int64_t left = kind->count; left > 0; left -= n, room -= n) {
      while (room == 0)
        room = split[++v];
      int whole = room == split[v] && left >= room && v > 0 && v < slices - 1;
      if (whole && alike >= 0 && n == room) {
        if (clear == v)
          clear++;
        *cleared(sums, v, &clear) = sums[alike];
        continue;
      }
      cleared(sums, v, &clear);
      if (room == split[v]) {
        odd = repeated_layers(p, k, left, room) % 2 == 1;
        number = 0;
      }
      n = left < room ? left : room;
      ett_layer_sums half, part;
      const ett_layer_sums *of = &p->sums[k];
      if (odd && is_repeated(kind) && kind->policy_bytes == 0)
        of = in_odd_slice(of, &half);
      if (p->recompute_layers == 0 || !is_repeated(kind))
        add_layers(&sums[v], of, (double)n, p->lanes);
      else
        for (int64_t i = 0; i < n; i++)
          add_layers(&sums[v], in_part(p, k, of, ++number, &group, &part), 1, p->lanes);
      alike = whole ? v : -1;
    }
  }
  cleared(sums, slices - 1, &clear);
  for (v = 0; v < slices; v++) {
    if (sums[v].boundary == 0) /* slices without layers forward their input */
      sums[v].boundary = v > 0 ? sums[v - 1].boundary : 1;
    sums[v].late_bytes += sums[v].shared_bytes;
    for (int r = 0; r < ETT_RECOMPUTES; r++)
      sums[v].activation_bytes[r] += sums[v].shared_bytes;
  }
  return 0;
}
