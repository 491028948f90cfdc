#include "regress/serve/design.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

static const char *const names[ETT_FAMILY_COUNT] = {
    "raw",       "gemm",       "attention",  "rowwise", "embedding",
    "optimizer", "collective", "alpha_beta", "wave"};
static const int wanted[ETT_FAMILY_COUNT] = {0, 4, 7, 3, 4, 4, 1, 1, 0};

int ett_family_find(const char *name) {
  for (int i = 0; i < ETT_FAMILY_COUNT; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

const char *ett_family_name(ett_family family) {
  return (int)family >= 0 && family < ETT_FAMILY_COUNT ? names[family] : "?";
}

int ett_design_check(const ett_design *design, ett_err *err) {
  int family = (int)design->family;
  if (family < 0 || family >= ETT_FAMILY_COUNT)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "unknown family %d", family);
  int least = family == ETT_FAMILY_WAVE ? 3 : 1;
  if (design->dims < least || design->dims > ETT_DESIGN_DIMS)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "family '%s' takes %d to %d dimensions, got %d", names[family],
                       least, ETT_DESIGN_DIMS, design->dims);
  if (wanted[family] != 0 && design->dims != wanted[family])
    return ett_err_set(err, ETT_ERR_ARGUMENT, "family '%s' takes %d dimensions, got %d",
                       names[family], wanted[family], design->dims);
  if (!(design->multiprocessors > 0) || design->multiprocessors > 1e6)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "multiprocessors must be positive and at most 1e6, got %g",
                       design->multiprocessors);
  return 0;
}

int ett_design_row_check(const ett_design *design, const double *dims, ett_err *err) {
  for (int i = 0; i < design->dims; i++) {
    bool wave = design->family == ETT_FAMILY_WAVE;
    bool free_value = design->family == ETT_FAMILY_RAW || (wave && i >= 2) ||
                      (design->family == ETT_FAMILY_ATTENTION && i == 6);
    bool may_be_zero = wave && i < 2; /* FLOPs of a copy */
    if (!isfinite(dims[i]) || fabs(dims[i]) > 1e30 ||
        (!free_value && !(dims[i] > 0) && !(may_be_zero && dims[i] == 0)))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "dimension %d of family '%s' must be a %s number, got %g", i + 1,
                         names[design->family],
                         free_value    ? "finite"
                         : may_be_zero ? "nonnegative"
                                       : "positive",
                         dims[i]);
  }
  if (design->family == ETT_FAMILY_ATTENTION && !(dims[6] >= 0 && dims[6] <= 2))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the mask of family 'attention' must be 0 to 2, got %g", dims[6]);
  return 0;
}

/* Output position of a row; either part may be absent when only counting. */
typedef struct {
  double *columns;
  float *features;
  int column_count, feature_count;
} row;

static void column(row *r, double value) {
  if (r->columns)
    r->columns[r->column_count] = value;
  r->column_count++;
}

static void feature(row *r, double value) {
  if (r->features)
    r->features[r->feature_count] = (float)value;
  r->feature_count++;
}

static double blocks(double value, double tile) {
  return ceil(value / tile);
}

/* log2 of the largest power of two that divides x, limited to `most`. */
static double alignment(double x, double most) {
  double count = 0;
  if (!(x >= 1) || x > 9e15)
    return 0;
  uint64_t whole = (uint64_t)x;
  while (count < most && whole != 0 && (whole & 1) == 0) {
    whole >>= 1;
    count++;
  }
  return count;
}

/* The columns max(0, x - 2^p) for p from `from`, below `to`: every whole p, or with
 * halves = 1 every half. */
static void hinges(row *r, double x, int from, int to, int halves) {
  double power = ldexp(1, from), between = ldexp(M_SQRT2, from);
  for (int p = from; p < to; p++, power *= 2, between *= 2) {
    column(r, x > power ? x - power : 0);
    if (halves)
      column(r, x > between ? x - between : 0);
  }
}

static const double tiles[][2] = {
    {256, 128}, {128, 256}, {128, 128}, {64, 128}, {64, 64}};

static void gemm_columns(row *r, double sms, double batch, double m, double n, double k) {
  column(r, 2 * batch * m * n * k);
  for (int i = 0; i < 5; i++) {
    double count = blocks(m, tiles[i][0]) * blocks(n, tiles[i][1]) * batch;
    column(r, 2 * blocks(count, sms) * sms * tiles[i][0] * tiles[i][1] * k);
  }
  column(r, m * k * batch);
  column(r, k * n * batch);
  column(r, m * n * batch);
}

static void wave_features(row *r, double sms, double batch, double m, double n) {
  static const int which[2] = {0, 2};
  for (int i = 0; i < 2; i++) {
    const double *tile = tiles[which[i]];
    double count = blocks(m, tile[0]) * blocks(n, tile[1]) * batch;
    double waves = blocks(count, sms);
    feature(r, count / sms / waves);
    feature(r, m * n * batch / (waves * sms * tile[0] * tile[1]));
  }
}

static void gemm_row(const ett_design *d, const double *x, row *r) {
  double batch = x[0], m = x[1], n = x[2], k = x[3], sms = d->multiprocessors;
  column(r, 1);
  gemm_columns(r, sms, batch, m, n, k);
  if (d->backward) { /* dA = dC B' is m x k over n; dB = A' dC is k x n over m */
    gemm_columns(r, sms, batch, m, k, n);
    gemm_columns(r, sms, batch, k, n, m);
  }
  feature(r, log(m)), feature(r, log(k)), feature(r, log(n));
  feature(r, m), feature(r, k), feature(r, n);
  feature(r, log(m * k * n * batch));
  feature(r, log(m / n)), feature(r, log(k / n));
  feature(r, log(m * k * n / (m * k + k * n + m * n)));
  feature(r, log(batch)), feature(r, batch);
  wave_features(r, sms, batch, m, n);
  feature(r, alignment(n, 10)), feature(r, alignment(k, 10)),
      feature(r, alignment(m, 10));
  if (d->backward) {
    wave_features(r, sms, batch, m, k);
    wave_features(r, sms, batch, k, n);
  }
}

static void attention_row(const ett_design *d, const double *x, row *r) {
  double b = x[0], h = x[1], lq = x[3], lk = x[4], dim = x[5], sms = d->multiprocessors;
  double bh = b * h;
  /* Twice the pairs that the mask leaves. Without a mask, 0, these are all. */
  double area = lq * lk * (x[6] != 0 ? x[6] : 2), reach = area / lq;
  double by32 = blocks(dim, 32) * 32, by64 = blocks(dim, 64) * 64;
  double power = exp2(ceil(log2(dim)));
  double kernel = dim <= 96 ? by32 : dim <= 128 ? 128 : fmin(by32, fmax(256, dim));
  const double widths[4] = {dim, by32, by64, power};
  column(r, 1);
  for (int i = 0; i < 4; i++) {
    column(r, bh * area * widths[i]);
    column(r, bh * lq * widths[i]);
  }
  for (double tile = 64; tile <= 128; tile *= 2) {
    double waves = blocks(bh * blocks(lq, tile), sms) * sms * tile;
    for (int i = 0; i < 3; i++)
      column(r, waves * reach * widths[i]);
  }
  column(r, bh * area);
  column(r, bh * lq);
  feature(r, log(bh)), feature(r, b), feature(r, h), feature(r, lq), feature(r, dim);
  feature(r, log(lq)), feature(r, log(dim));
  feature(r, log(bh * area * dim)), feature(r, log(bh * lq * dim));
  feature(r, kernel / dim), feature(r, by64 / dim), feature(r, power / dim);
  feature(r, alignment(dim, 10)), feature(r, fmod(dim, 32));
  for (double tile = 64; tile <= 128; tile *= 2) {
    double count = bh * blocks(lq, tile);
    feature(r, count / sms / blocks(count, sms));
    feature(r, blocks(count, sms));
  }
  feature(r, log(h)), feature(r, bh), feature(r, kernel);
}

static void rowwise_row(const ett_design *d, const double *x, row *r) {
  (void)d;
  double rows = x[0], cols = x[1], aux = x[2], z = rows * cols;
  column(r, 1), column(r, z);
  hinges(r, z, 16, 32, 0);
  column(r, rows);
  hinges(r, rows, 16, 32, 0);
  feature(r, log(z)), feature(r, log(rows)), feature(r, log(cols));
  feature(r, rows), feature(r, cols);
  feature(r, alignment(cols, 10)), feature(r, alignment(rows, 10));
  feature(r, aux), feature(r, rows / aux), feature(r, log(rows / aux));
  feature(r, z);
}

/* Assumes tokens uniform over the whole vocabulary. `here` is the expected number of
 * tokens in this rank's part; they read `unique` distinct rows. */
static void embedding_row(const ett_design *d, const double *x, row *r) {
  (void)d;
  double m = x[0], dim = x[1], v = x[2], whole = x[3];
  double here = m * fmin(1, v / whole), unique = v * (1 - exp(-m / whole));
  column(r, 1), column(r, m), column(r, m * dim), column(r, here * dim);
  column(r, unique * dim), column(r, v * dim), column(r, here), column(r, unique);
  column(r, v), column(r, fmax(here - unique, 0) * dim), column(r, dim);
  column(r, here * here), column(r, m * here / whole);
  for (int p = 18; p < 29; p++) {
    column(r, fmin(here * dim, exp2(p)));
    column(r, fmin(unique * dim, exp2(p)));
    column(r, fmin(m * dim, exp2(p)));
  }
  feature(r, log(m * dim)), feature(r, log(m)), feature(r, log(dim));
  feature(r, m), feature(r, dim), feature(r, alignment(dim, 10)),
      feature(r, alignment(m, 10));
  feature(r, v), feature(r, v * dim), feature(r, log(v * dim));
  feature(r, here), feature(r, unique), feature(r, log(here * dim));
  feature(r, log(unique * dim)), feature(r, here / unique), feature(r, log(here));
}

/* Columns of embedding_row that depend on the table's size only. */
enum { TABLE_ELEMENTS = 5, TABLE_ROWS = 8 };

void ett_design_table(const ett_design *design, const double *dims, double *columns) {
  if (design->family != ETT_FAMILY_EMBEDDING)
    return;
  columns[TABLE_ELEMENTS] = dims[2] * dims[1];
  columns[TABLE_ROWS] = dims[2];
}

static void optimizer_row(const ett_design *d, const double *x, row *r) {
  (void)d;
  double params = x[0], tensors = x[1], layers = x[2], hidden = x[3];
  double square = layers * hidden * hidden;
  column(r, 1), column(r, layers), column(r, tensors), column(r, params);
  column(r, hidden * layers);
  hinges(r, params, 17, 32, 0);
  feature(r, log(params)), feature(r, log(tensors)), feature(r, params);
  feature(r, tensors), feature(r, hidden), feature(r, layers), feature(r, log(hidden));
  feature(r, params / tensors), feature(r, log(params / layers)),
      feature(r, params / square);
}

static void collective_row(const ett_design *d, const double *x, row *r) {
  (void)d;
  double z = x[0];
  column(r, 1), column(r, z);
  hinges(r, z, 20, 31, 1);
  feature(r, log(z)), feature(r, z);
  feature(r, alignment(z, 10)), feature(r, alignment(z, 40));
  static const double lattice[4] = {4096, 65536, 131072, 262144};
  for (int i = 0; i < 4; i++) { /* powers of two: all steps are exact */
    double cells = z / lattice[i];
    feature(r, cells - floor(cells));
  }
}

static double log_or_zero(double x) {
  return x > 0 ? log(x) : 0;
}

static void wave_row(const ett_design *d, const double *x, row *r) {
  column(r, 1), column(r, x[0]), column(r, x[1]);
  hinges(r, x[1], 20, 32, 0);
  feature(r, log_or_zero(x[0])), feature(r, log_or_zero(x[1]));
  feature(r, x[0] > 0 && x[1] > 0 ? log(x[0] / x[1]) : 0);
  for (int i = 2; i < d->dims; i++) {
    feature(r, x[i]);
    feature(r, alignment(x[i], 10));
  }
}

static void alpha_beta_row(const ett_design *d, const double *x, row *r) {
  (void)d;
  column(r, 1), column(r, x[0]);
  feature(r, log(x[0]));
}

static void raw_row(const ett_design *d, const double *x, row *r) {
  column(r, 1);
  for (int i = 0; i < d->dims; i++)
    feature(r, x[i]);
}

static void walk(const ett_design *design, const double *dims, row *r) {
  static void (*const rows[ETT_FAMILY_COUNT])(const ett_design *, const double *,
                                              row *) = {
      raw_row,       gemm_row,       attention_row,  rowwise_row, embedding_row,
      optimizer_row, collective_row, alpha_beta_row, wave_row}; /* by ett_family */
  rows[design->family](design, dims, r);
}

static row count(const ett_design *design) {
  double ones[ETT_DESIGN_DIMS];
  for (int i = 0; i < ETT_DESIGN_DIMS; i++)
    ones[i] = 1;
  row r = {0};
  walk(design, ones, &r);
  return r;
}

int ett_design_columns(const ett_design *design) {
  return count(design).column_count;
}

int ett_design_features(const ett_design *design) {
  return count(design).feature_count;
}

void ett_design_row(const ett_design *design, const double *dims, double *columns,
                    float *features) {
  row r = {columns, features, 0, 0};
  walk(design, dims, &r);
}

double ett_design_size(const ett_design *design, const double *dims) {
  const double *x = dims;
  switch (design->family) {
  case ETT_FAMILY_GEMM:
    return x[0] * x[1] * x[2] * x[3];
  case ETT_FAMILY_ATTENTION:
    return x[0] * x[1] * x[3] * x[4] * x[5];
  case ETT_FAMILY_ROWWISE:
  case ETT_FAMILY_EMBEDDING:
    return x[0] * x[1];
  case ETT_FAMILY_RAW: {
    double product = 1;
    for (int i = 0; i < design->dims; i++)
      product *= fmax(fabs(x[i]), 1e-300);
    return product;
  }
  case ETT_FAMILY_WAVE:
    return x[0] > 0 ? x[0] : x[1];
  default:
    return x[0];
  }
}

bool ett_design_ordered(const ett_design *design) {
  return design->family == ETT_FAMILY_COLLECTIVE ||
         design->family == ETT_FAMILY_ALPHA_BETA;
}

uint64_t ett_design_kernel(const ett_design *design, const double *dims) {
  if (ett_design_ordered(design)) { /* positive doubles order as their bits do */
    double whole = dims[0] < 9e15 ? nearbyint(dims[0]) : dims[0];
    uint64_t bits;
    memcpy(&bits, &whole, sizeof bits);
    return bits;
  }
  uint64_t hash = ett_mix64((uint64_t)design->family + 1);
  int counted = design->dims - (design->family == ETT_FAMILY_EMBEDDING);
  for (int i = 0; i < counted; i++) {
    double whole = nearbyint(dims[i]);
    uint64_t bits;
    if (fabs(whole - dims[i]) > 1e-6 || fabs(whole) > 9e15)
      memcpy(&bits, &dims[i], sizeof bits);
    else
      bits = (uint64_t)(int64_t)whole;
    hash = ett_mix64(hash ^ bits);
  }
  return hash;
}
