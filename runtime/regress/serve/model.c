#include "regress/serve/model.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The block, all offsets from its start, all parts 8-byte aligned:
 *   head; x[columns]; forests + 1 times {trees, nodes, base_score, 0; roots; nodes};
 *   twin kernels; twin residuals. */
typedef struct {
  char magic[8];
  uint32_t version, order; /* order: 0x01020304 in the byte order of this machine */
  uint64_t length, checksum;
  int32_t family, backward, dims, columns, features, forests;
  uint64_t twins;
  double multiprocessors;
  ett_model_facts facts;
} head;

typedef struct {
  uint32_t trees, nodes;
  float base_score;
  uint32_t reserved;
} forest_head;

static const char magic[8] = {'e', 't', 't', 'm', 'o', 'd', 'l', '\n'};

static size_t align(size_t n) {
  return (n + 7) & ~(size_t)7;
}

/* The checksum of a block: of the bytes after its head, and of the head's facts. */
static uint64_t block_checksum(const head *h, const unsigned char *data, size_t length) {
  return XXH3_64bits(data + sizeof *h, length - sizeof *h) ^
         XXH3_64bits(&h->family, sizeof *h - offsetof(head, family));
}

static size_t forest_bytes(const ett_forest *f) {
  return sizeof(forest_head) + align(f->trees * sizeof(uint32_t)) +
         align(f->nodes * sizeof(ett_tree_node));
}

static void pack_forest(unsigned char *at, const ett_forest *f) {
  forest_head h = {f->trees, f->nodes, f->base_score, 0};
  memcpy(at, &h, sizeof h);
  at += sizeof h;
  if (f->trees)
    memcpy(at, f->roots, f->trees * sizeof(uint32_t));
  at += align(f->trees * sizeof(uint32_t));
  if (f->nodes)
    memcpy(at, f->node, f->nodes * sizeof(ett_tree_node));
}

int ett_model_pack(const ett_model *m, void **block, size_t *length, ett_err *err) {
  head h;
  memset(&h, 0, sizeof h);
  memcpy(h.magic, magic, 8);
  h.version = ETT_MODEL_VERSION;
  h.order = 0x01020304;
  h.family = (int32_t)m->design.family;
  h.backward = m->design.backward;
  h.dims = m->design.dims;
  h.multiprocessors = m->design.multiprocessors;
  h.columns = m->columns;
  h.features = m->features;
  h.forests = m->forests;
  h.twins = m->twins;
  h.facts = m->facts;
  size_t total = sizeof h + (size_t)m->columns * sizeof(double);
  for (int i = 0; i < m->forests; i++)
    total += forest_bytes(&m->forest[i]);
  total += forest_bytes(&m->difficulty) + (size_t)m->twins * 16;
  h.length = total;
  unsigned char *data = calloc(1, total);
  *block = NULL;
  if (!data)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for a model of %zu bytes", total);
  size_t at = sizeof h;
  memcpy(data + at, m->x, (size_t)m->columns * sizeof(double));
  at += (size_t)m->columns * sizeof(double);
  for (int i = 0; i <= m->forests; i++) {
    const ett_forest *f = i < m->forests ? &m->forest[i] : &m->difficulty;
    pack_forest(data + at, f);
    at += forest_bytes(f);
  }
  if (m->twins) {
    memcpy(data + at, m->twin_kernel, (size_t)m->twins * 8);
    memcpy(data + at + (size_t)m->twins * 8, m->twin_residual, (size_t)m->twins * 8);
  }
  h.checksum = block_checksum(&h, data, total);
  memcpy(data, &h, sizeof h);
  *block = data;
  *length = total;
  return 0;
}

static void free_forests(ett_model *model) {
  for (int i = 0; i < ETT_MODEL_FORESTS; i++)
    ett_forest_free(&model->forest[i]);
  ett_forest_free(&model->difficulty);
}

static int broken(void *block, ett_model *model, ett_err *err, const char *what) {
  free(block);
  free_forests(model);
  memset(model, 0, sizeof *model);
  return ett_err_set(err, ETT_ERR_FORMAT, "not a model of this version of ett: %s", what);
}

/* A view of the forest at *at; advances *at. */
static int view_forest(unsigned char *data, size_t length, size_t *at, int features,
                       ett_forest *f, ett_err *err) {
  forest_head h;
  memset(f, 0, sizeof *f);
  if (length - *at < sizeof h)
    return ett_err_set(err, ETT_ERR_FORMAT, "truncated");
  memcpy(&h, data + *at, sizeof h);
  *at += sizeof h;
  f->trees = h.trees;
  f->nodes = h.nodes;
  f->base_score = h.base_score;
  f->features = (uint32_t)features;
  size_t need = align((size_t)h.trees * sizeof(uint32_t)) +
                align((size_t)h.nodes * sizeof(ett_tree_node));
  if (need > length - *at)
    return ett_err_set(err, ETT_ERR_FORMAT, "truncated");
  f->roots = (uint32_t *)(void *)(data + *at);
  *at += align((size_t)h.trees * sizeof(uint32_t));
  f->node = (ett_tree_node *)(void *)(data + *at);
  *at += align((size_t)h.nodes * sizeof(ett_tree_node));
  return ett_forest_check(f, err);
}

static bool facts_are_sane(const ett_model_facts *f, int dims) {
  const double all[] = {
      f->shrink,       f->shrink_outside, f->twin_weight,   f->neighbours, f->floor,
      f->width_inside, f->width_twin,     f->width_outside, f->rows,       f->dropped,
      f->error_mean,   f->error_median,   f->mode_below,    f->mode_above};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!(all[i] >= 0) || !isfinite(all[i]))
      return false;
  for (int i = 0; i < dims; i++)
    if (!isfinite(f->least[i]) || !isfinite(f->most[i]))
      return false;
  return isfinite(f->size_least) && isfinite(f->size_most) && f->rows < 1e15 &&
         f->dropped < 1e15;
}

static bool coefficients_are_sane(const ett_model *model) {
  for (int i = 0; i < model->columns; i++)
    if (!(model->x[i] >= 0) || !isfinite(model->x[i]))
      return false;
  return true;
}

int ett_model_open(void *block, size_t length, bool is_signed, ett_model *model,
                   ett_err *err) {
  head h;
  unsigned char *data = block;
  memset(model, 0, sizeof *model);
  if (length < sizeof h)
    return broken(block, model, err, "too short");
  memcpy(&h, data, sizeof h);
  if (memcmp(h.magic, magic, 8) != 0 || h.order != 0x01020304)
    return broken(block, model, err, "another format");
  if (h.version != ETT_MODEL_VERSION)
    return broken(block, model, err, "another version");
  if (h.length != length)
    return broken(block, model, err, "truncated");
  if (is_signed && h.checksum != block_checksum(&h, data, length))
    return broken(block, model, err, "its checksum is wrong");
  model->design =
      (ett_design){(ett_family)h.family, h.backward != 0, h.multiprocessors, h.dims};
  ett_err why;
  if (ett_design_check(&model->design, &why) != 0)
    return broken(block, model, err, why.message);
  if (h.columns != ett_design_columns(&model->design) ||
      h.features != ett_design_features(&model->design) || h.forests < 0 ||
      h.forests > ETT_MODEL_FORESTS || h.twins > length / 16 ||
      !facts_are_sane(&h.facts, h.dims))
    return broken(block, model, err, "its counts are wrong");
  model->facts = h.facts;
  model->columns = h.columns;
  model->features = h.features;
  model->forests = h.forests;
  size_t at = sizeof h;
  if ((size_t)h.columns * sizeof(double) > length - at)
    return broken(block, model, err, "truncated");
  model->x = (const double *)(void *)(data + at);
  if (!coefficients_are_sane(model))
    return broken(block, model, err, "a negative coefficient");
  at += (size_t)h.columns * sizeof(double);
  for (int i = 0; i <= h.forests; i++) {
    ett_forest *f = i < h.forests ? &model->forest[i] : &model->difficulty;
    if (view_forest(data, length, &at, h.features, f, &why) != 0)
      return broken(block, model, err, why.message);
  }
  if (length - at != h.twins * 16)
    return broken(block, model, err, "truncated");
  model->twins = (uint32_t)h.twins;
  model->twin_kernel = (const uint64_t *)(void *)(data + at);
  model->twin_residual = (const double *)(void *)(data + at + h.twins * 8);
  for (uint32_t i = 0; i < model->twins; i++)
    if (!isfinite(model->twin_residual[i]))
      return broken(block, model, err, "a residual that is not finite");
  model->memory = block;
  model->length = length;
  return 0;
}

int ett_model_adopt(ett_model *model, ett_err *err) {
  if (!facts_are_sane(&model->facts, model->design.dims))
    return broken(model->memory, model, err, "its counts are wrong");
  if (!coefficients_are_sane(model))
    return broken(model->memory, model, err, "a negative coefficient");
  return 0;
}

void ett_model_close(ett_model *model) {
  free(model->memory);
  free_forests(model);
  memset(model, 0, sizeof *model);
}

/* Counts a row. After ETT_MODEL_FEW rows the forests are made faster, which takes as long
 * as some rows. If there is no memory for that, they give the same answers more slowly.
 */
static void count_row(ett_model *model) {
  ett_err why;
  if (model->predicted > ETT_MODEL_FEW || model->predicted++ < ETT_MODEL_FEW)
    return;
  for (int i = 0; i < model->forests; i++)
    (void)ett_forest_ready(&model->forest[i], &why);
  (void)ett_forest_ready(&model->difficulty, &why);
}

/* Mean of the forests' predictions. */
static double mean_correction(const ett_model *model, const float *features) {
  double sum = 0;
  for (int i = 0; i < model->forests; i++)
    sum += (double)ett_forest_predict(&model->forest[i], features);
  return model->forests ? sum / model->forests : 0;
}

/* Position of the first kernel >= `kernel`. */
static uint32_t lower_bound(const ett_model *model, uint64_t kernel) {
  uint32_t from = 0, to = model->twins;
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (model->twin_kernel[middle] < kernel)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

double ett_model_neighbours(const double *residual, size_t total, size_t at, size_t count,
                            size_t without) {
  double near[ETT_MODEL_NEIGHBOURS];
  size_t n = 0, half = (count + 1) / 2;
  size_t from = at > half ? at - half : 0, to = from + count + (without < total);
  if (to > total) {
    size_t left_out = without < total;
    to = total;
    from = to > count + left_out ? to - count - left_out : 0;
  }
  for (size_t i = from; i < to && n < ETT_MODEL_NEIGHBOURS; i++) {
    if (i == without)
      continue;
    size_t j = n++; /* insertion sort: n is small */
    while (j > 0 && near[j - 1] > residual[i]) {
      near[j] = near[j - 1];
      j--;
    }
    near[j] = residual[i];
  }
  if (n == 0)
    return 0;
  return n % 2 ? near[n / 2] : 0.5 * (near[n / 2 - 1] + near[n / 2]);
}

/* How far x lies outside [least, most], for ranges that a ratio cannot measure: the
 * distance in widths of the range, or for a range of one value in units. If all samples
 * have the same flag, the other value counts as one doubling. */
static double steps_outside(double distance, double least, double most) {
  double width = most - least;
  double unit = width > 0 ? width : most != 0 ? fmin(1, fabs(most)) : 1;
  return log2(1 + distance / unit);
}

/* log2 of the largest ratio by which a dimension leaves the samples' range. Excludes the
 * vocabulary of all ranks; includes this rank's share of it. */
static double how_far(const ett_model *model, const double *dims) {
  const ett_model_facts *f = &model->facts;
  double far = 0, size = ett_design_size(&model->design, dims);
  int ranged = model->design.dims - (model->design.family == ETT_FAMILY_EMBEDDING);
  for (int i = 0; i < ranged; i++) {
    double x = dims[i], least = f->least[i], most = f->most[i];
    if (x > most)
      far = fmax(far, most > 0 ? log2(x / most) : steps_outside(x - most, least, most));
    else if (x < least)
      far = fmax(far, x > 0 ? log2(least / x) : steps_outside(least - x, least, most));
  }
  if (size > f->size_most * 1.0001)
    far = fmax(far, log2(size / f->size_most));
  else if (size < f->size_least * 0.9999 && size > 0)
    far = fmax(far, log2(f->size_least / size));
  return isfinite(far) ? fmin(far, 60) : 60;
}

/* Samples of an embedding cover few vocabularies. For a vocabulary outside their range,
 * the model is evaluated at the nearest sampled one, with the same share for a rank. Then
 * ett_design_table sets the columns of the table's size to the real table. Returns the
 * dims to evaluate: `near`, or dims where nothing needs to change. */
static const double *sampled_table(const ett_model *model, const double *dims,
                                   double *near) {
  const ett_model_facts *f = &model->facts;
  if (model->design.family != ETT_FAMILY_EMBEDDING ||
      (dims[3] >= f->least[3] && dims[3] <= f->most[3]))
    return dims;
  near[0] = dims[0];
  near[1] = dims[1];
  near[3] = fmax(f->least[3], fmin(f->most[3], dims[3]));
  near[2] = dims[2] * near[3] / dims[3];
  return near;
}

/* Whether this kernel was sampled: position `at` of the twins holds it, and for
 * embeddings the vocabulary of all ranks is also in the samples' range. */
static bool is_measured(const ett_model *model, const double *dims, uint32_t at,
                        uint64_t kernel) {
  const ett_model_facts *f = &model->facts;
  if (at >= model->twins || model->twin_kernel[at] != kernel)
    return false;
  return model->design.family != ETT_FAMILY_EMBEDDING ||
         (dims[3] >= f->least[3] && dims[3] <= f->most[3]);
}

/* Fills a prediction without its interval, the features of its row, and the factor of the
 * interval. */
static int predict_value(ett_model *model, const double *dims, float *features,
                         ett_prediction *out, double *width, ett_err *err) {
  double columns[ETT_DESIGN_COLUMNS], near[ETT_DESIGN_DIMS];
  if (!model->memory)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "the regressor is closed");
  if (ett_design_row_check(&model->design, dims, err) != 0)
    return -1;
  count_row(model);
  const ett_model_facts *f = &model->facts;
  const double *asked = sampled_table(model, dims, near);
  ett_design_row(&model->design, asked, columns, features);
  if (asked != dims)
    ett_design_table(&model->design, dims, columns);
  double base = 1;
  if (f->has_base) {
    base = 0;
    for (int i = 0; i < model->columns; i++)
      base += columns[i] * model->x[i];
    if (!(base > 0))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "the regressor's base is %g for this shape; it must be positive",
                         base);
  }
  double outside = how_far(model, dims);
  double asked_outside = asked == dims ? outside : how_far(model, asked);
  uint64_t kernel = model->twins ? ett_design_kernel(&model->design, dims) : 0;
  uint32_t at = lower_bound(model, kernel);
  bool measured = is_measured(model, dims, at, kernel);
  double correction = mean_correction(model, features);
  correction *= asked_outside > 0 ? f->shrink_outside : f->shrink;
  double factor = f->width_inside;
  out->provenance = outside > 0 ? ETT_EXTRAPOLATED : ETT_INTERPOLATED;
  if (f->neighbours > 0 && model->twins && outside == 0) {
    /* The count comes from the file and is untrusted. */
    size_t count = (size_t)fmin(f->neighbours, ETT_MODEL_NEIGHBOURS);
    double near =
        ett_model_neighbours(model->twin_residual, model->twins, at, count, model->twins);
    correction += f->twin_weight * (near - correction);
  } else if (measured) {
    correction += f->twin_weight * (model->twin_residual[at] - correction);
    factor = f->width_twin;
  } else if (outside > 0) {
    factor = f->width_outside * (1 + outside);
  }
  if (measured && f->twin_weight >= 0.5)
    out->provenance = ETT_MEASURED;
  *width = factor;
  out->base = base;
  out->outside = measured ? 0 : outside;
  out->value =
      f->log_target ? base * exp(correction) : correction + (f->has_base ? base : 0);
  out->low = out->high = out->value;
  return 0;
}

/* Fails for a prediction that is no time. */
static int check_prediction(const ett_model *model, const ett_prediction *p,
                            ett_err *err) {
  if (isfinite(p->value) && isfinite(p->high) &&
      (p->value > 0 || !model->facts.log_target))
    return 0;
  return ett_err_set(err, ETT_ERR_ARGUMENT,
                     "the regressor predicts %g to %g for this shape", p->low, p->high);
}

int ett_model_value(ett_model *model, const double *dims, ett_prediction *out,
                    ett_err *err) {
  float features[ETT_DESIGN_FEATURES];
  double width;
  if (predict_value(model, dims, features, out, &width, err) != 0)
    return -1;
  return check_prediction(model, out, err);
}

int ett_model_predict(ett_model *model, const double *dims, ett_prediction *out,
                      ett_err *err) {
  float features[ETT_DESIGN_FEATURES];
  double width;
  if (predict_value(model, dims, features, out, &width, err) != 0)
    return -1;
  const ett_model_facts *f = &model->facts;
  double difficulty = f->floor;
  if (model->difficulty.trees)
    difficulty += exp((double)ett_forest_predict(&model->difficulty, features));
  double half = width * difficulty;
  if (f->log_target) {
    out->low = out->value * exp(-fmin(half + f->mode_below, 20));
    out->high = out->value * exp(fmin(half + f->mode_above, 20));
  } else {
    out->low = out->value - half;
    out->high = out->value + half;
  }
  return check_prediction(model, out, err);
}
