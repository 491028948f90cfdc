/* Kinds that reduce along a row: layer_norm, rms_norm, softmax, cross_entropy,
 * embedding, router. */
#include "samplers/cpu/vec.h"

static ett_cpu_operand index_operand(const char *name, int64_t count, int64_t limit) {
  return (ett_cpu_operand){name, ETT_CPU_INDEX, count, limit, 0};
}

/* layer_norm: y = (x - mean) rstd g + b over cols (Ba et al. 2016). Backward gives dx and
 * adds to dg and db. d = {rows, cols}. */
SHAPES(layer_norm_forward, IN("x", "ab"), IN("gain", "b"), IN("bias", "b"),
       OUT("y", "ab"), OUT("mean", "a"), OUT("rstd", "a"));
SHAPES(layer_norm_backward, IN("x", "ab"), IN("gain", "b"), IN("dy", "ab"),
       IN("mean", "a"), POSITIVE("rstd", "a"), OUT("dx", "ab"), UPDATED("dgain", "b"),
       UPDATED("dbias", "b"));

static void layer_norm_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                           const double *scalar) {
  (void)scalar;
  const int64_t cols = d[1];
  const float *restrict g = op[1];
  for (int64_t r = 0; r < d[0]; r++) {
    const float *restrict x = (const float *)op[0] + r * cols;
    if (pass == ETT_CPU_FORWARD) {
      const float *restrict b = op[2];
      float *restrict y = (float *)op[3] + r * cols;
      float sum = 0, square = 0;
      for (int64_t i = 0; i < cols; i++)
        sum += x[i];
      const float mean = sum / (float)cols;
      for (int64_t i = 0; i < cols; i++)
        square += (x[i] - mean) * (x[i] - mean);
      const float rstd = 1.0f / sqrtf(square / (float)cols + 1e-5f);
      for (int64_t i = 0; i < cols; i++)
        y[i] = (x[i] - mean) * rstd * g[i] + b[i];
      ((float *)op[4])[r] = mean;
      ((float *)op[5])[r] = rstd;
      continue;
    }
    const float *restrict dy = (const float *)op[2] + r * cols;
    const float mean = ((const float *)op[3])[r], rstd = ((const float *)op[4])[r];
    float *restrict dx = (float *)op[5] + r * cols;
    float *restrict dg = op[6], *restrict db = op[7];
    float s1 = 0, s2 = 0;
    for (int64_t i = 0; i < cols; i++) {
      float h = (x[i] - mean) * rstd, t = dy[i] * g[i];
      s1 += t;
      s2 += t * h;
      dg[i] += dy[i] * h;
      db[i] += dy[i];
    }
    s1 /= (float)cols;
    s2 /= (float)cols;
    for (int64_t i = 0; i < cols; i++)
      dx[i] = rstd * (dy[i] * g[i] - s1 - (x[i] - mean) * rstd * s2);
  }
}

/* rms_norm: y = x / rms(x) g (Zhang and Sennrich 2019). d = {rows, cols}. */
SHAPES(rms_norm_forward, IN("x", "ab"), IN("gain", "b"), OUT("y", "ab"),
       OUT("rstd", "a"));
SHAPES(rms_norm_backward, IN("x", "ab"), IN("gain", "b"), IN("dy", "ab"),
       POSITIVE("rstd", "a"), OUT("dx", "ab"), UPDATED("dgain", "b"));

static void rms_norm_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                         const double *scalar) {
  (void)scalar;
  const int64_t cols = d[1];
  const float *restrict g = op[1];
  for (int64_t r = 0; r < d[0]; r++) {
    const float *restrict x = (const float *)op[0] + r * cols;
    if (pass == ETT_CPU_FORWARD) {
      float *restrict y = (float *)op[2] + r * cols;
      float square = 0;
      for (int64_t i = 0; i < cols; i++)
        square += x[i] * x[i];
      const float rstd = 1.0f / sqrtf(square / (float)cols + 1e-5f);
      for (int64_t i = 0; i < cols; i++)
        y[i] = x[i] * rstd * g[i];
      ((float *)op[3])[r] = rstd;
      continue;
    }
    const float *restrict dy = (const float *)op[2] + r * cols;
    const float rstd = ((const float *)op[3])[r];
    float *restrict dx = (float *)op[4] + r * cols;
    float *restrict dg = op[5];
    float s = 0;
    for (int64_t i = 0; i < cols; i++) {
      float h = x[i] * rstd;
      s += dy[i] * g[i] * h;
      dg[i] += dy[i] * h;
    }
    s /= (float)cols;
    for (int64_t i = 0; i < cols; i++)
      dx[i] = rstd * (dy[i] * g[i] - x[i] * rstd * s);
  }
}

/* softmax: scaled, over cols, of batch x rows rows. visible: 1 all columns, 2 causal (row
 * i sees columns <= i). d = {batch, rows, cols, visible}. */
SHAPES(softmax_forward, IN("x", "abc"), OUT("y", "abc"));
SHAPES(softmax_backward, IN("y", "abc"), IN("dy", "abc"), OUT("dx", "abc"));

static void softmax_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                        const double *scalar) {
  const float scale = scalar ? (float)scalar[0] : 1.0f;
  const int64_t cols = d[2];
  for (int64_t r = 0; r < d[0] * d[1]; r++) {
    const int64_t reach = r % d[1] + 1;
    const int64_t open = d[3] == 2 && reach < cols ? reach : cols;
    if (pass == ETT_CPU_FORWARD) {
      softmax_row((const float *)op[0] + r * cols, (float *)op[1] + r * cols, open, cols,
                  scale);
      continue;
    }
    const float *restrict y = (const float *)op[0] + r * cols;
    const float *restrict dy = (const float *)op[1] + r * cols;
    float *restrict dx = (float *)op[2] + r * cols;
    float s = 0;
    for (int64_t i = 0; i < open; i++)
      s += y[i] * dy[i];
    for (int64_t i = 0; i < open; i++)
      dx[i] = scale * y[i] * (dy[i] - s);
    for (int64_t i = open; i < cols; i++)
      dx[i] = 0;
  }
}

/* cross_entropy: loss = log sum exp(x) - x[target] per row; backward
 * dx = (softmax(x) - onehot) * scalar[0] (default 1/rows). lse is kept for the backward.
 * A target equal to vocab belongs to another tensor rank: nothing is subtracted.
 * d = {rows, vocab}. */
static int cross_entropy_operands(const int64_t *d, ett_cpu_pass pass,
                                  ett_cpu_operand *out) {
  int64_t n = d[0] * d[1];
  out[0] = operand("logits", ETT_CPU_INPUT, n);
  out[1] = index_operand("targets", d[0], d[1] + 1);
  if (pass == ETT_CPU_FORWARD) {
    out[2] = operand("loss", ETT_CPU_OUTPUT, d[0]);
    out[3] = operand("lse", ETT_CPU_OUTPUT, d[0]);
    return 4;
  }
  out[2] = operand("lse", ETT_CPU_POSITIVE, d[0]);
  out[3] = operand("dlogits", ETT_CPU_OUTPUT, n);
  return 4;
}

static void cross_entropy_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                              const double *scalar) {
  const int64_t cols = d[1];
  const int32_t *target = op[1];
  const float weight = scalar ? (float)scalar[0] : 1.0f / (float)d[0];
  for (int64_t r = 0; r < d[0]; r++) {
    const float *restrict x = (const float *)op[0] + r * cols;
    if (pass == ETT_CPU_FORWARD) {
      float top = -3.4e38f, sum = 0;
      for (int64_t i = 0; i < cols; i++)
        top = x[i] > top ? x[i] : top;
      for (int64_t i = 0; i < cols; i++)
        sum += ett_expf(x[i] - top);
      const float lse = top + logf(sum);
      ((float *)op[3])[r] = lse;
      ((float *)op[2])[r] = target[r] < cols ? lse - x[target[r]] : lse;
      continue;
    }
    const float lse = ((const float *)op[2])[r];
    float *restrict dx = (float *)op[3] + r * cols;
    for (int64_t i = 0; i < cols; i++)
      dx[i] = weight * ett_expf(x[i] - lse);
    if (target[r] < cols)
      dx[target[r]] -= weight;
  }
}

/* embedding: y[r] = table[ids[r]]; backward adds dy into dtable. d = {rows, cols,
 * vocab}. */
static int embedding_operands(const int64_t *d, ett_cpu_pass pass, ett_cpu_operand *out) {
  const int64_t touched = (d[0] < d[2] ? d[0] : d[2]) * d[1];
  out[0] = index_operand("ids", d[0], d[2]);
  if (pass == ETT_CPU_FORWARD) {
    out[1] = operand("table", ETT_CPU_INPUT, d[2] * d[1]);
    out[1].touched = touched;
    out[2] = operand("y", ETT_CPU_OUTPUT, d[0] * d[1]);
    return 3;
  }
  out[1] = operand("dy", ETT_CPU_INPUT, d[0] * d[1]);
  out[2] = operand("dtable", ETT_CPU_UPDATED, d[2] * d[1]);
  out[2].touched = touched;
  return 3;
}

static void embedding_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                          const double *scalar) {
  (void)scalar;
  const int32_t *id = op[0];
  const int64_t cols = d[1];
  for (int64_t r = 0; r < d[0]; r++) {
    if (pass == ETT_CPU_FORWARD) {
      memcpy((float *)op[2] + r * cols, (const float *)op[1] + id[r] * cols,
             (size_t)cols * sizeof(float));
      continue;
    }
    const float *restrict dy = (const float *)op[1] + r * cols;
    float *restrict row = (float *)op[2] + id[r] * cols;
    for (int64_t i = 0; i < cols; i++)
      row[i] += dy[i];
  }
}

/* router: softmax over experts, the top_k kept with their indices and renormalised;
 * backward goes through the kept probabilities. d = {rows, experts, top_k}. */
static int router_operands(const int64_t *d, ett_cpu_pass pass, ett_cpu_operand *out) {
  if (pass == ETT_CPU_FORWARD) {
    out[0] = operand("logits", ETT_CPU_INPUT, d[0] * d[1]);
    out[1] = operand("probabilities", ETT_CPU_OUTPUT, d[0] * d[1]);
    out[2] = operand("weights", ETT_CPU_OUTPUT, d[0] * d[2]);
    out[3] = operand("experts", ETT_CPU_OUTPUT, d[0] * d[2]);
    return 4;
  }
  out[0] = operand("probabilities", ETT_CPU_POSITIVE, d[0] * d[1]);
  out[1] = operand("weights", ETT_CPU_POSITIVE, d[0] * d[2]);
  out[2] = index_operand("experts", d[0] * d[2], d[1]);
  out[3] = operand("dweights", ETT_CPU_INPUT, d[0] * d[2]);
  out[4] = operand("dlogits", ETT_CPU_OUTPUT, d[0] * d[1]);
  return 5;
}

static void router_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                       const double *scalar) {
  (void)scalar;
  const int64_t experts = d[1], top_k = d[2] < d[1] ? d[2] : d[1];
  for (int64_t r = 0; r < d[0]; r++) {
    if (pass == ETT_CPU_FORWARD) {
      float *p = (float *)op[1] + r * experts, *w = (float *)op[2] + r * d[2];
      int32_t *e = (int32_t *)op[3] + r * d[2];
      softmax_row((const float *)op[0] + r * experts, p, experts, experts, 1.0f);
      float sum = 0;
      for (int64_t k = 0; k < top_k; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < experts; i++) {
          int taken = 0;
          for (int64_t j = 0; j < k; j++)
            taken |= e[j] == i;
          if (!taken && (best < 0 || p[i] > p[best]))
            best = i;
        }
        e[k] = (int32_t)best;
        w[k] = p[best];
        sum += w[k];
      }
      for (int64_t k = 0; k < top_k; k++)
        w[k] /= sum;
      continue;
    }
    /* w_k = p_k / sum over the kept; p = softmax(logits): the logits' other terms cancel,
     * so dlogit_k = w_k (dw_k - sum_j w_j dw_j) for kept experts and 0 elsewhere. */
    const float *w = (const float *)op[1] + r * d[2],
                *dw = (const float *)op[3] + r * d[2];
    const int32_t *e = (const int32_t *)op[2] + r * d[2];
    float *dx = (float *)op[4] + r * experts, s = 0;
    memset(dx, 0, (size_t)experts * sizeof(float));
    for (int64_t k = 0; k < top_k; k++)
      s += w[k] * dw[k];
    for (int64_t k = 0; k < top_k; k++)
      dx[e[k]] += w[k] * (dw[k] - s);
  }
}

const ett_cpu_kind ETT_CPU_NAMED(ett_cpu_rows)[] = {
    LISTED(layer_norm, "rows", "cols"),
    LISTED(rms_norm, "rows", "cols"),
    LISTED(softmax, "batch", "rows", "cols", "visible"),
    COMPUTED(cross_entropy, "rows", "vocab"),
    COMPUTED(embedding, "rows", "cols", "vocab"),
    COMPUTED(router, "rows", "experts", "top_k"),
    {NULL, {NULL}, NULL, NULL, NULL, NULL, 0},
};
