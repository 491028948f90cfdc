/* Kinds built on dense products: linear, bmm, gemm, attention. OpenBLAS computes the
 * products. */
#include "samplers/cpu/vec.h"

#include <cblas.h>

static void gemm(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha,
                 const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                 float *c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
              tb ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha,
              a, (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

/* linear: y[m][n] = x[m][k] w[n][k]^T, `batch` times; backward dx = dy w and
 * dw += dy^T x: the weight gradient accumulates, as over micro-batches.
 * d = {batch, m, n, k}. */
SHAPES(linear_forward, IN("x", "abd"), IN("w", "acd"), OUT("y", "abc"));
SHAPES(linear_backward, IN("x", "abd"), IN("w", "acd"), IN("dy", "abc"), OUT("dx", "abd"),
       UPDATED("dw", "acd"));

static void linear_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                       const double *scalar) {
  (void)scalar;
  const int64_t m = d[1], n = d[2], k = d[3];
  for (int64_t i = 0; i < d[0]; i++) {
    const float *x = (const float *)op[0] + i * m * k;
    const float *w = (const float *)op[1] + i * n * k;
    if (pass == ETT_CPU_FORWARD) {
      gemm(0, 1, m, n, k, 1, x, k, w, k, 0, (float *)op[2] + i * m * n, n);
      continue;
    }
    const float *dy = (const float *)op[2] + i * m * n;
    gemm(0, 0, m, k, n, 1, dy, n, w, k, 0, (float *)op[3] + i * m * k, k);
    gemm(1, 0, n, k, m, 1, dy, n, x, k, 1, (float *)op[4] + i * n * k, k);
  }
}

/* gemm: c = op(a) op(b), `batch` times; the k.gemm of an operator; equal in both passes.
 * d = {batch, m, n, k, layout}. layout: 1 no operand is transposed, 2 b, 3 a, 4 both;
 * plus 4 to add to c. */
static int gemm_operands(const int64_t *d, ett_cpu_pass pass, ett_cpu_operand *out) {
  (void)pass;
  out[0] = operand("a", ETT_CPU_INPUT, d[0] * d[1] * d[3]);
  out[1] = operand("b", ETT_CPU_INPUT, d[0] * d[3] * d[2]);
  out[2] = operand("c", d[4] > 4 ? ETT_CPU_UPDATED : ETT_CPU_OUTPUT, d[0] * d[1] * d[2]);
  return 3;
}

static void gemm_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                     const double *scalar) {
  (void)pass, (void)scalar;
  const int64_t m = d[1], n = d[2], k = d[3], layout = (d[4] - 1) % 4;
  const int ta = layout >= 2, tb = layout % 2;
  for (int64_t i = 0; i < d[0]; i++)
    gemm(ta, tb, m, n, k, 1, (const float *)op[0] + i * m * k, ta ? m : k,
         (const float *)op[1] + i * k * n, tb ? k : n, d[4] > 4 ? 1 : 0,
         (float *)op[2] + i * m * n, n);
}

/* bmm: c[i] = a[i] b[i]; backward da = dc b^T, db = a^T dc. d = {batch, m, n, k}. */
SHAPES(bmm_forward, IN("a", "abd"), IN("b", "adc"), OUT("c", "abc"));
SHAPES(bmm_backward, IN("a", "abd"), IN("b", "adc"), IN("dc", "abc"), OUT("da", "abd"),
       OUT("db", "adc"));

static void bmm_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                    const double *scalar) {
  (void)scalar;
  const int64_t m = d[1], n = d[2], k = d[3];
  for (int64_t i = 0; i < d[0]; i++) {
    const float *a = (const float *)op[0] + i * m * k;
    const float *b = (const float *)op[1] + i * k * n;
    if (pass == ETT_CPU_FORWARD) {
      gemm(0, 0, m, n, k, 1, a, k, b, n, 0, (float *)op[2] + i * m * n, n);
      continue;
    }
    const float *dc = (const float *)op[2] + i * m * n;
    gemm(0, 1, m, k, n, 1, dc, n, b, n, 0, (float *)op[3] + i * m * k, k);
    gemm(1, 0, k, n, m, 1, a, k, dc, n, 0, (float *)op[4] + i * k * n, n);
  }
}

/* attention: softmax(q k^T / sqrt(head_dim)) v on a packed projection
 * qkv[batch*max(seq_q, seq_k)][(heads + 2 kv_heads) head_dim]. Queries are the last seq_q
 * rows of each sequence, keys the last seq_k. Backward recomputes the probabilities, as
 * flash attention does (Dao et al. 2022). visible: 1 all keys, 2 causal. d = {batch,
 * seq_q, seq_k, heads, kv_heads, head_dim, visible}. */
static int64_t attention_rows(const int64_t *d) {
  return d[1] > d[2] ? d[1] : d[2];
}

static int attention_operands(const int64_t *d, ett_cpu_pass pass, ett_cpu_operand *out) {
  const int64_t packed = d[0] * attention_rows(d) * (d[3] + 2 * d[4]) * d[5];
  const int64_t mixed = d[0] * d[1] * d[3] * d[5];
  out[0] = operand("qkv", ETT_CPU_INPUT, packed);
  if (pass == ETT_CPU_FORWARD) {
    out[1] = operand("o", ETT_CPU_OUTPUT, mixed);
    out[2] = operand("scratch", ETT_CPU_SCRATCH, d[1] * d[2]);
    return 3;
  }
  out[1] = operand("o", ETT_CPU_INPUT, mixed);
  out[2] = operand("do", ETT_CPU_INPUT, mixed);
  out[3] = operand("dqkv", ETT_CPU_OUTPUT, packed);
  out[4] = operand("scratch", ETT_CPU_SCRATCH, 2 * d[1] * d[2]);
  return 5;
}

static void probabilities(const int64_t *d, const float *q, const float *k, int64_t width,
                          float *restrict p) {
  const int64_t rows = d[1], cols = d[2];
  const float scale = 1.0f / sqrtf((float)d[5]);
  gemm(0, 1, rows, cols, d[5], 1, q, width, k, width, 0, p, cols);
  for (int64_t r = 0; r < rows; r++) {
    float *x = p + r * cols;
    int64_t open = d[6] == 2 ? cols - rows + r + 1 : cols;
    if (open < 0)
      open = 0;
    softmax_row(x, x, open, cols, scale);
  }
}

static void attention_run(const int64_t *d, ett_cpu_pass pass, void *const *op,
                          const double *scalar) {
  (void)scalar;
  const int64_t sq = d[1], sk = d[2], heads = d[3], kv_heads = d[4], hd = d[5];
  const int64_t width = (heads + 2 * kv_heads) * hd, mixed = heads * hd;
  const int64_t rows = attention_rows(d), first_q = (rows - sq) * width,
                first_k = (rows - sk) * width;
  const float scale = 1.0f / sqrtf((float)hd);
  for (int64_t b = 0; b < d[0]; b++) {
    const float *base = (const float *)op[0] + b * rows * width;
    if (pass == ETT_CPU_BACKWARD)
      memset((float *)op[3] + b * rows * width, 0,
             (size_t)(rows * width) * sizeof(float));
    for (int64_t h = 0; h < heads; h++) {
      const int64_t kv = h * kv_heads / heads, at = b * sq * mixed + h * hd;
      const float *q = base + first_q + h * hd;
      const float *k = base + first_k + (heads + kv) * hd, *v = k + kv_heads * hd;
      if (pass == ETT_CPU_FORWARD) {
        float *p = op[2];
        probabilities(d, q, k, width, p);
        gemm(0, 0, sq, hd, sk, 1, p, sk, v, width, 0, (float *)op[1] + at, mixed);
        continue;
      }
      const float *o = (const float *)op[1] + at, *dout = (const float *)op[2] + at;
      float *dbase = (float *)op[3] + b * rows * width;
      float *dq = dbase + first_q + h * hd;
      float *dk = dbase + first_k + (heads + kv) * hd, *dv = dk + kv_heads * hd;
      float *p = op[4], *ds = p + sq * sk;
      probabilities(d, q, k, width, p);
      gemm(1, 0, sk, hd, sq, 1, p, sk, dout, mixed, 1, dv, width);
      gemm(0, 1, sq, sk, hd, 1, dout, mixed, v, width, 0, ds, sk);
      for (int64_t r = 0; r < sq; r++) {
        float dot = 0;
        for (int64_t i = 0; i < hd; i++)
          dot += o[r * mixed + i] * dout[r * mixed + i];
        const float *restrict pr = p + r * sk;
        float *restrict dr = ds + r * sk;
        for (int64_t i = 0; i < sk; i++)
          dr[i] = pr[i] * (dr[i] - dot);
      }
      gemm(0, 0, sq, hd, sk, scale, ds, sk, k, width, 0, dq, width);
      gemm(1, 0, sk, hd, sq, scale, ds, sk, q, width, 1, dk, width);
    }
  }
}

const ett_cpu_kind ETT_CPU_NAMED(ett_cpu_matrix)[] = {
    LISTED(linear, "batch", "m", "n", "k"),
    COMPUTED(gemm, "batch", "m", "n", "k", "layout"),
    LISTED(bmm, "batch", "m", "n", "k"),
    COMPUTED(attention, "batch", "seq_q", "seq_k", "heads", "kv_heads", "head_dim",
             "visible"),
    {NULL, {NULL}, NULL, NULL, NULL, NULL, 0},
};
