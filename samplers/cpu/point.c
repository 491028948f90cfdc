/* Element-wise kinds: see the table `kinds`. */
#include "samplers/cpu/vec.h"

#include <time.h>

/* gelu: y = x/2 (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2/pi) (Hendrycks and
 * Gimpel 2016). d = {rows, cols}. */
SHAPES(gelu_forward, IN("x", "ab"), OUT("y", "ab"));
SHAPES(gelu_backward, IN("x", "ab"), IN("dy", "ab"), OUT("dx", "ab"));

static void gelu_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                     const double *scalar) {
  (void)scalar;
  const int64_t n = d[0] * d[1];
  const float c = 0.7978845608f, a = 0.044715f;
  const float *restrict x = op[0];
  if (pass == ETT_CPU_FORWARD) {
    float *restrict y = op[1];
    for (int64_t i = 0; i < n; i++) {
      float t = ett_tanhf(c * (x[i] + a * x[i] * x[i] * x[i]));
      y[i] = 0.5f * x[i] * (1.0f + t);
    }
    return;
  }
  const float *restrict dy = op[1];
  float *restrict dx = op[2];
  for (int64_t i = 0; i < n; i++) {
    float t = ett_tanhf(c * (x[i] + a * x[i] * x[i] * x[i]));
    float slope = 0.5f * x[i] * (1.0f - t * t) * c * (1.0f + 3.0f * a * x[i] * x[i]);
    dx[i] = dy[i] * (0.5f * (1.0f + t) + slope);
  }
}

/* swiglu: y = silu(x[:, :cols]) * x[:, cols:] (Shazeer 2020). d = {rows, cols}, cols
 * being the width of y. */
SHAPES(swiglu_forward, IN("x", "2ab"), OUT("y", "ab"));
SHAPES(swiglu_backward, IN("x", "2ab"), IN("dy", "ab"), OUT("dx", "2ab"));

static void swiglu_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                       const double *scalar) {
  (void)scalar;
  const int64_t rows = d[0], cols = d[1];
  for (int64_t r = 0; r < rows; r++) {
    const float *restrict gate = (const float *)op[0] + r * 2 * cols;
    const float *restrict up = gate + cols;
    if (pass == ETT_CPU_FORWARD) {
      float *restrict y = (float *)op[1] + r * cols;
      for (int64_t i = 0; i < cols; i++)
        y[i] = gate[i] * ett_sigmoidf(gate[i]) * up[i];
      continue;
    }
    const float *restrict dy = (const float *)op[1] + r * cols;
    float *restrict dgate = (float *)op[2] + r * 2 * cols;
    float *restrict dup = dgate + cols;
    for (int64_t i = 0; i < cols; i++) {
      float s = ett_sigmoidf(gate[i]);
      dup[i] = dy[i] * gate[i] * s;
      dgate[i] = dy[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
    }
  }
}

/* add: forward y = a + b; backward the gradients of both branches are added.
 * d = {rows, cols}. */
SHAPES(add_both, IN("a", "ab"), IN("b", "ab"), OUT("y", "ab"));

static void add_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                    const double *scalar) {
  (void)pass, (void)scalar;
  const int64_t n = d[0] * d[1];
  const float *a = op[0], *b = op[1];
  float *y = op[2]; /* may alias a or b at the same index */
#pragma GCC ivdep
  for (int64_t i = 0; i < n; i++)
    y[i] = a[i] + b[i];
}

/* scale: forward y = alpha x, backward dx = alpha dy; alpha = scalar[0] or 1.25. Serves
 * dropout's arithmetic, casts and plain copies. d = {rows, cols}. */
SHAPES(scale_both, IN("x", "ab"), OUT("y", "ab"));

static void scale_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                      const double *scalar) {
  (void)pass;
  const int64_t n = d[0] * d[1];
  const float alpha = scalar ? (float)scalar[0] : 1.25f;
  const float *x = op[0];
  float *y = op[1];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; i++)
    y[i] = alpha * x[i];
}

/* mask_fill: scores above the diagonal become -10000 (forward) and their gradients 0.
 * d = {batch, seq_q, seq_k}. */
SHAPES(mask_fill_forward, IN("x", "abc"), OUT("y", "abc"));
SHAPES(mask_fill_backward, IN("dy", "abc"), OUT("dx", "abc"));

static void mask_fill_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                          const double *scalar) {
  (void)scalar;
  const float fill = pass == ETT_CPU_FORWARD ? -10000.0f : 0.0f;
  for (int64_t b = 0; b < d[0]; b++)
    for (int64_t i = 0; i < d[1]; i++) {
      const float *restrict x = (const float *)op[0] + (b * d[1] + i) * d[2];
      float *restrict y = (float *)op[1] + (b * d[1] + i) * d[2];
      const int64_t open = i + 1 < d[2] ? i + 1 : d[2];
      for (int64_t j = 0; j < open; j++)
        y[j] = x[j];
      for (int64_t j = open; j < d[2]; j++)
        y[j] = fill;
    }
}

/* rope: rotary embedding of the query and key heads of a packed projection
 * x[batch*seq][(heads + 2 kv_heads) head_dim], in place, halves rotated against each
 * other (Su et al. 2021, the "rotate half" form). Backward is the inverse rotation.
 * table: cos then sin, [seq][head_dim/2] each. d = {batch, seq, heads, kv_heads,
 * head_dim}. */
static int rope_operands(const int64_t *d, ett_cpu_pass pass, ett_cpu_operand *out) {
  (void)pass;
  out[0] = operand("x", ETT_CPU_UPDATED, d[0] * d[1] * (d[2] + 2 * d[3]) * d[4]);
  out[1] = operand("table", ETT_CPU_INPUT, 2 * d[1] * (d[4] / 2 + 1));
  return 2;
}

static void rope_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                     const double *scalar) {
  (void)scalar;
  const int64_t seq = d[1], rotated = d[2] + d[3], half = d[4] / 2;
  const int64_t width = (d[2] + 2 * d[3]) * d[4];
  const float *cosine = op[1], *sine = cosine + seq * half;
  const float sign = pass == ETT_CPU_FORWARD ? 1.0f : -1.0f;
  for (int64_t row = 0; row < d[0] * seq; row++) {
    const float *restrict c = cosine + row % seq * half;
    const float *restrict s = sine + row % seq * half;
    for (int64_t h = 0; h < rotated; h++) {
      float *restrict lo = (float *)op[0] + row * width + h * d[4];
      float *restrict hi = lo + half;
      for (int64_t i = 0; i < half; i++) {
        float a = lo[i], b = hi[i], si = sign * s[i];
        lo[i] = a * c[i] - b * si;
        hi[i] = b * c[i] + a * si;
      }
    }
  }
}

/* dropout: keeps each element with probability 0.9 and scales it by 1/0.9; the mask is a
 * hash of the position (a counter-based generator). With addition (kind
 * bias_dropout_add): y = residual + dropout(x + bias). d = {rows, cols}. */
enum { KEPT_OF_65536 = 58982 };
static const float keep_scale = 65536.0f / KEPT_OF_65536;

static inline uint32_t kept(uint32_t position) {
  position *= 0x9e3779b1u;
  position ^= position >> 15;
  position *= 0x85ebca77u;
  return (position >> 16) < KEPT_OF_65536;
}

static int dropout_operands(const int64_t *d, ett_cpu_pass pass, ett_cpu_operand *out) {
  (void)pass;
  out[0] = operand("x", ETT_CPU_INPUT, d[0] * d[1]);
  out[1] = operand("y", ETT_CPU_OUTPUT, d[0] * d[1]);
  out[2] = operand("mask", ETT_CPU_UPDATED, (d[0] * d[1] + 3) / 4);
  return 3;
}

static void dropout_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                        const double *scalar) {
  (void)scalar;
  const int64_t n = d[0] * d[1];
  const float *restrict x = op[0];
  float *restrict y = op[1];
  unsigned char *restrict mask = op[2];
  if (pass == ETT_CPU_FORWARD)
    for (int64_t i = 0; i < n; i++)
      mask[i] = (unsigned char)kept((uint32_t)i);
  for (int64_t i = 0; i < n; i++)
    y[i] = mask[i] ? x[i] * keep_scale : 0.0f;
}

static int bias_dropout_add_operands(const int64_t *d, ett_cpu_pass pass,
                                     ett_cpu_operand *out) {
  int n = dropout_operands(d, pass, out);
  if (pass == ETT_CPU_FORWARD) {
    out[n++] = operand("bias", ETT_CPU_INPUT, d[1]);
    out[n++] = operand("residual", ETT_CPU_INPUT, d[0] * d[1]);
  } else {
    out[n++] = operand("dbias", ETT_CPU_UPDATED, d[1]);
  }
  return n;
}

static void bias_dropout_add_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                                 const double *scalar) {
  if (pass == ETT_CPU_BACKWARD)
    dropout_run(d, pass, op, scalar);
  for (int64_t r = 0; r < d[0]; r++) {
    const int64_t at = r * d[1];
    float *restrict y = (float *)op[1] + at;
    if (pass == ETT_CPU_BACKWARD) {
      float *restrict dbias = op[3];
      for (int64_t i = 0; i < d[1]; i++)
        dbias[i] += y[i];
      continue;
    }
    const float *restrict x = (const float *)op[0] + at;
    const float *restrict bias = op[3], *restrict residual = (const float *)op[4] + at;
    unsigned char *restrict mask = (unsigned char *)op[2] + at;
    for (int64_t i = 0; i < d[1]; i++) {
      mask[i] = (unsigned char)kept((uint32_t)(at + i));
      y[i] = residual[i] + (mask[i] ? (x[i] + bias[i]) * keep_scale : 0.0f);
    }
  }
}

/* adam: decoupled weight decay (Loshchilov and Hutter 2019) on count parameters; clears
 * the gradients for the next step's accumulation. scalar = {rate, beta1, beta2, epsilon,
 * decay, step} or NULL. There is no backward. */
SHAPES(adam_both, UPDATED("weights", "a"), UPDATED("gradients", "a"),
       UPDATED("first", "a"), UPDATED("second", "a"));

static void adam_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                     const double *scalar) {
  (void)pass;
  static const double defaults[] = {1e-3, 0.9, 0.999, 1e-8, 0.01, 1};
  const double *p = scalar ? scalar : defaults;
  const float b1 = (float)p[1], b2 = (float)p[2], eps = (float)p[3];
  const float rate = (float)(p[0] / (1 - pow(p[1], p[5])));
  const float unbias = (float)(1 / (1 - pow(p[2], p[5])));
  const float decay = (float)(1 - p[0] * p[4]);
  float *restrict w = op[0];
  float *restrict g = op[1];
  float *restrict m = op[2], *restrict v = op[3];
  for (int64_t i = 0; i < d[0]; i++) {
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    w[i] = decay * w[i] - rate * m[i] / (sqrtf(v[i] * unbias) + eps);
    g[i] = 0;
  }
}

/* sleep: waits d[0] microseconds; an operator of known duration for tests. */
SHAPES(sleep_both, OUT("nothing", "1"));

static void sleep_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                      const double *scalar) {
  (void)pass, (void)op, (void)scalar;
  struct timespec left = {d[0] / 1000000, d[0] % 1000000 * 1000};
  while (nanosleep(&left, &left) != 0) {
  }
}

const ett_cpu_kind ETT_CPU_NAMED(ett_cpu_point)[] = {
    LISTED(gelu, "rows", "cols"),
    LISTED(swiglu, "rows", "cols"),
    ALIKE(add, 0, "rows", "cols"),
    ALIKE(scale, 0, "rows", "cols"),
    COMPUTED(dropout, "rows", "cols"),
    COMPUTED(bias_dropout_add, "rows", "cols"),
    LISTED(mask_fill, "batch", "seq_q", "seq_k"),
    COMPUTED(rope, "batch", "seq", "heads", "kv_heads", "head_dim"),
    ALIKE(adam, 0, "count"),
    ALIKE(sleep, 1, "microseconds"),
    {NULL, {NULL}, NULL, NULL, NULL, NULL, 0},
};
