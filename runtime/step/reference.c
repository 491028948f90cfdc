#include "step/reference.h"

#include <string.h>

static const int64_t VOCABULARY = 50257; /* a constant of the tool, whatever the model */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

static int check(const char *name, int64_t value, int64_t limit, ett_err *err) {
  if (value >= 1 && value <= limit)
    return 0;
  return ett_err_set(err, ETT_ERR_ARGUMENT,
                     "field '%s' must be an integer from 1 to %lld, got %lld", name,
                     (long long)limit, (long long)value);
}

static ett_reference_pieces cut(int64_t parameters, int64_t bucket) {
  ett_reference_pieces pieces = {0, 0};
  if (parameters > 0) {
    pieces.full = ceil_div(parameters, bucket) - 1;
    pieces.rest = parameters - pieces.full * bucket;
  }
  return pieces;
}

/* Both biases are divided by mp although only one of them is sharded; both norms count
 * twice the hidden size, also for an RMS norm; the up-projection is always 4 wide. */
static int64_t encoder_parameters(int64_t dim, int64_t mp) {
  int64_t norm = 2 * dim;
  return 2 * norm + 3 * dim * (dim + 1) / mp + dim * (dim + 1) / mp +
         4 * dim * (dim + 1) / mp + dim * (4 * dim + 1) / mp;
}

int ett_reference_lay_out(const ett_reference_plan *p, ett_reference_layout *layout,
                          ett_err *err) {
  const struct {
    const char *name;
    int64_t value, limit;
  } fields[] = {
      {"pp", p->pp, ETT_REFERENCE_LIMIT},
      {"mp", p->mp, ETT_REFERENCE_LIMIT},
      {"dp", p->dp, ETT_REFERENCE_LIMIT},
      {"b", p->b, ETT_REFERENCE_LIMIT},
      {"h", p->h, ETT_REFERENCE_LIMIT},
      {"l", p->l, ETT_REFERENCE_LIMIT},
      {"dim", p->dim, ETT_REFERENCE_LIMIT},
      {"steps_per_update", p->steps_per_update, ETT_REFERENCE_LIMIT},
      {"gpus_per_node", p->gpus_per_node, ETT_REFERENCE_LIMIT},
      {"comm_bucket", p->comm_bucket, INT64_MAX / 2},
      {"encoders", p->encoders, 1000},
  };
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (check(fields[i].name, fields[i].value, fields[i].limit, err) != 0)
      return -1;
  double elements = (double)p->b * (double)p->l * (double)p->dim;
  if (elements > 9e18)
    return ett_err_set(err, ETT_ERR_LIMIT, "b * l * dim must be below 9e18, got %g",
                       elements);

  memset(layout, 0, sizeof *layout);
  /* Embedding, head and three more count as five layers; the middle takes the floor for
   * every stage, so layers are lost or made up unless pp divides encoders + 5, and the
   * last stage of a deep pipeline gets a negative number. */
  int64_t slots = p->encoders + 5;
  layout->layers[ETT_REFERENCE_HEAD] = ceil_div(slots, p->pp) - 2;
  layout->layers[ETT_REFERENCE_MIDDLE] = slots / p->pp;
  layout->layers[ETT_REFERENCE_TAIL] = slots / p->pp - 3;

  int64_t encoder = encoder_parameters(p->dim, p->mp);
  int64_t vocabulary = ceil_div(VOCABULARY, 128 * p->mp) * 128;
  for (int i = 0; i < ETT_REFERENCE_STAGES; i++)
    layout->parameters[i] = layout->layers[i] * encoder;
  layout->parameters[ETT_REFERENCE_HEAD] += vocabulary * p->dim;
  layout->parameters[ETT_REFERENCE_TAIL] += vocabulary * p->dim + 2 * p->dim;
  for (int i = 0; i < ETT_REFERENCE_STAGES; i++) {
    /* comm_bucket counts elements, for the gathered shards too. */
    layout->all_reduce[i] = cut(layout->parameters[i], p->comm_bucket);
    layout->all_gather[i] = cut(floor_div(layout->parameters[i], p->dp), p->comm_bucket);
  }

  layout->mp_elements = p->b * p->l * p->dim;
  layout->mp_gpus = p->mp / p->gpus_per_node == 0 ? p->mp : p->gpus_per_node;
  layout->mp_nodes = p->mp / layout->mp_gpus == 0 ? 1 : p->mp / layout->mp_gpus;
  /* A whole job on one node still asks for two nodes when it fills the node. */
  int across = (double)p->mp * (double)p->dp * (double)p->pp >= (double)p->gpus_per_node;
  layout->p2p_elements = p->b * p->l * p->dim / p->mp;
  layout->p2p_nodes = across ? 2 : 1;
  layout->p2p_gpus = across ? 1 : 2;
  /* Takes every GPU of the node for one group, whatever dp is. */
  layout->dp_gpus = p->gpus_per_node / p->mp == 0 ? 1 : p->gpus_per_node / p->mp;
  layout->dp_nodes = p->dp / layout->dp_gpus == 0 ? 1 : p->dp / layout->dp_gpus;
  return 0;
}

static double pieces_time(ett_reference_pieces pieces, double full, double rest) {
  double time = pieces.full > 0 ? (double)pieces.full * full : 0;
  return pieces.rest > 0 ? time + rest : time;
}

static double largest(const double *values) {
  double best = values[0];
  for (int i = 1; i < ETT_REFERENCE_STAGES; i++)
    if (values[i] > best)
      best = values[i];
  return best;
}

void ett_reference_compose(const ett_reference_plan *plan,
                           const ett_reference_layout *layout,
                           const ett_reference_times *t, ett_reference_result *r) {
  memset(r, 0, sizeof *r);
  for (int64_t i = 0; i < t->encoder_count; i++) {
    r->encoder_fwd += t->encoder[i].fwd;
    r->encoder_bwd += t->encoder[i].bwd;
  }
  r->encoder_fwd += plan->fwd_syncs * t->mp_all_reduce;
  r->encoder_bwd += plan->bwd_syncs * t->mp_all_reduce;
  r->encoder_bwd += r->encoder_fwd; /* always recomputes in full */

  for (int i = 0; i < ETT_REFERENCE_STAGES; i++) {
    r->fwd[i] = r->encoder_fwd * (double)layout->layers[i];
    r->bwd[i] = r->encoder_bwd * (double)layout->layers[i];
  }
  r->fwd[ETT_REFERENCE_HEAD] =
      t->embedding.fwd + t->mp_all_reduce + r->fwd[ETT_REFERENCE_HEAD];
  r->bwd[ETT_REFERENCE_HEAD] += t->embedding.bwd;
  r->fwd[ETT_REFERENCE_TAIL] += t->norm.fwd + t->linear_final.fwd + t->cross_entropy.fwd;
  r->bwd[ETT_REFERENCE_TAIL] += t->norm.bwd + t->linear_final.bwd + t->cross_entropy.bwd;

  for (int i = 0; i < ETT_REFERENCE_STAGES; i++) {
    /* Who sends pays; with pp = 2 the middle stage, which is not there, counts too. */
    r->fwd_with_p2p[i] = r->fwd[i] + (i != ETT_REFERENCE_TAIL ? t->p2p : 0);
    r->bwd_with_p2p[i] = r->bwd[i] + (i != ETT_REFERENCE_HEAD ? t->p2p : 0);
    if (plan->dp > 1) {
      r->all_reduce[i] =
          pieces_time(layout->all_reduce[i], t->all_reduce_full, t->all_reduce_rest[i]);
      r->all_gather[i] =
          pieces_time(layout->all_gather[i], t->all_gather_full, t->all_gather_rest[i]);
      r->optimizer[i] = t->optimizer[i]; /* no data parallelism, no optimizer */
    }
    r->update[i] = r->all_gather[i] + r->optimizer[i];
  }
  r->pipeline = (double)(plan->steps_per_update - 1 + plan->pp) *
                (largest(r->fwd_with_p2p) + largest(r->bwd_with_p2p));
  r->head_all_reduce = r->all_reduce[ETT_REFERENCE_HEAD];
  r->max_update = largest(r->update);
  r->total = r->pipeline + r->head_all_reduce + r->max_update;
}
