/* Fused attention by cuDNN. The graph has the elementary operations that cuDNN's
 * attention engines recognise, as in NVIDIA's cudnn-frontend
 * (node/scaled_dot_product_flash_attention.h). The "unified" operations are not used: up
 * to cuDNN 9.20 the forward one takes no mask and the backward one has no engine
 * (JuliaGPU/CUDA.jl, pull request 3238). */
#include <float.h>
#include <math.h>

#include "samplers/cuda/dnn.h"

#ifndef ETT_HAVE_CUDNN

int ett_cuda_work_attention(ett_cuda_work *work, const ett_cuda_attention *attention,
                            ett_err *err) {
  (void)work;
  (void)attention;
  return ett_err_set(err, ETT_ERR_MISSING,
                     "this ett was built without cuDNN; install its headers and rebuild");
}

#else

enum {
  LEAST_VERSION = 90600,    /* since then the engines clear dQ's buffer */
  INFINITE_VERSION = 91000, /* since then masked scores are -infinity */
  LAST_BLOCKED_BWD = 91500  /* until then the backward pass needs blocks of 128 keys */
};

typedef ett_cuda_operand operand;

static cudnnDataType_t data_type(ett_cuda_dtype dtype) {
  return dtype == ETT_CUDA_FP16   ? CUDNN_DATA_HALF
         : dtype == ETT_CUDA_FP32 ? CUDNN_DATA_FLOAT
                                  : CUDNN_DATA_BFLOAT16;
}

/* One of the caller's tensors, [batch, heads, seq, width]. row: elements between the
 * positions of a [batch, seq, heads, width] tensor, or 0. exchanged: swaps the last two
 * dimensions, for products with K' and V'. */
static operand given(ett_cuda_graph *graph, const ett_cuda_work *work, int tensor,
                     long long batch, long long heads, long long seq, long long width,
                     long long row, int exchanged) {
  int64_t position = row ? row : width;
  int64_t dims[4] = {batch, heads, exchanged ? width : seq, exchanged ? seq : width};
  int64_t strides[4] = {seq * (row ? row : heads * width), row ? width : seq * width,
                        exchanged ? 1 : position, exchanged ? position : 1};
  return ett_cuda_dnn_bound(graph, dims, strides,
                            data_type(ett_cuda_work_tensor_dtype(work, tensor)),
                            (void *)ett_cuda_work_address(work, tensor));
}

static operand middle(ett_cuda_graph *graph, const operand *like) {
  return ett_cuda_dnn_virtual(graph, like->dims, CUDNN_DATA_FLOAT);
}

static operand unary(ett_cuda_graph *graph, cudnnPointwiseMode_t mode, const operand *x) {
  operand y = middle(graph, x);
  ett_cuda_dnn_pointwise(graph, mode, CUDNN_DATA_FLOAT, x, NULL, NULL, &y);
  return y;
}

static operand binary(ett_cuda_graph *graph, cudnnPointwiseMode_t mode, const operand *x,
                      const operand *b) {
  operand y = middle(graph, x);
  ett_cuda_dnn_pointwise(graph, mode, CUDNN_DATA_FLOAT, x, b, NULL, &y);
  return y;
}

/* Scores of keys after the query's position become the lowest number. */
static operand mask(ett_cuda_graph *graph, const operand *scores) {
  operand row = ett_cuda_dnn_virtual(graph, scores->dims, CUDNN_DATA_INT32);
  operand column = ett_cuda_dnn_virtual(graph, scores->dims, CUDNN_DATA_INT32);
  operand seen = ett_cuda_dnn_virtual(graph, scores->dims, CUDNN_DATA_BOOLEAN);
  int infinite = graph->dnn->cudnnGetVersion() >= INFINITE_VERSION;
  operand lowest = ett_cuda_dnn_scalar(graph, infinite ? -INFINITY : -FLT_MAX);
  operand masked = middle(graph, scores);
  ett_cuda_dnn_index(graph, 2, scores, &row);
  ett_cuda_dnn_index(graph, 3, scores, &column);
  ett_cuda_dnn_pointwise(graph, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, &row, &column,
                         NULL, &seen);
  ett_cuda_dnn_pointwise(graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, scores,
                         &lowest, &seen, &masked);
  return masked;
}

/* scale · Q K' */
static operand scores_of(ett_cuda_graph *graph, const operand *q, const operand *keys,
                         const operand *scale) {
  const int64_t dims[4] = {q->dims[0], q->dims[1], q->dims[2], keys->dims[3]};
  operand product = ett_cuda_dnn_virtual(graph, dims, CUDNN_DATA_FLOAT);
  ett_cuda_dnn_matmul(graph, q, keys, &product);
  return binary(graph, CUDNN_POINTWISE_MUL, &product, scale);
}

/* O = softmax(scores) V; stats = the logarithm of each row's sum of exponentials. */
static void forward(ett_cuda_graph *graph, const ett_cuda_work *work,
                    const ett_cuda_attention *a) {
  operand q =
      given(graph, work, a->q, a->batch, a->heads, a->seq_q, a->head_dim, a->q_row, 0);
  operand keys = given(graph, work, a->k, a->batch, a->kv_heads, a->seq_k, a->head_dim,
                       a->kv_row, 1);
  operand v = given(graph, work, a->v, a->batch, a->kv_heads, a->seq_k, a->head_dim,
                    a->kv_row, 0);
  operand o = given(graph, work, a->out, a->batch, a->heads, a->seq_q, a->head_dim,
                    a->out_row, 0);
  operand stats = given(graph, work, a->stats, a->batch, a->heads, a->seq_q, 1, 0, 0);
  operand scale = ett_cuda_dnn_scalar(graph, 1.0f / sqrtf((float)a->head_dim));
  operand scores = scores_of(graph, &q, &keys, &scale);
  if (a->causal)
    scores = mask(graph, &scores);
  operand greatest = middle(graph, &stats), sum = middle(graph, &stats);
  ett_cuda_dnn_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, &scores, &greatest);
  operand below = binary(graph, CUDNN_POINTWISE_SUB, &scores, &greatest);
  operand powers = unary(graph, CUDNN_POINTWISE_EXP, &below);
  ett_cuda_dnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, &powers, &sum);
  operand logarithm = unary(graph, CUDNN_POINTWISE_LOG, &sum);
  ett_cuda_dnn_pointwise(graph, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, &greatest,
                         &logarithm, NULL, &stats);
  /* The second product takes the precision of the tensors. */
  operand probabilities = ett_cuda_dnn_virtual(
      graph, scores.dims, data_type(ett_cuda_work_tensor_dtype(work, a->q)));
  ett_cuda_dnn_pointwise(graph, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, &powers, &sum,
                         NULL, &probabilities);
  ett_cuda_dnn_matmul(graph, &probabilities, &v, &o);
}

/* gradient = a·b, summed over the query heads that share a key head. */
static void gradient(ett_cuda_graph *graph, const operand *a, const operand *b,
                     const operand *out, cudnnDataType_t type) {
  if (a->dims[1] == out->dims[1]) {
    ett_cuda_dnn_matmul(graph, a, b, out);
    return;
  }
  const int64_t dims[4] = {out->dims[0], a->dims[1], out->dims[2], out->dims[3]};
  operand each = ett_cuda_dnn_virtual(graph, dims, type);
  ett_cuda_dnn_matmul(graph, a, b, &each);
  ett_cuda_dnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, &each, out);
}

/* With P = exp(scores - stats) and r = rowsum(dO o O):
 * dV = P' dO, dS = scale · P o (dO V' - r), dK = dS' Q, dQ = dS K. */
static void backward(ett_cuda_graph *graph, const ett_cuda_work *work,
                     const ett_cuda_attention *a) {
  long long b = a->batch, h = a->heads, g = a->kv_heads, d = a->head_dim;
  long long rows = a->seq_q, columns = a->seq_k;
  cudnnDataType_t type = data_type(ett_cuda_work_tensor_dtype(work, a->q));
  operand q = given(graph, work, a->q, b, h, rows, d, a->q_row, 0);
  operand keys = given(graph, work, a->k, b, g, columns, d, a->kv_row, 1);
  operand values = given(graph, work, a->v, b, g, columns, d, a->kv_row, 1);
  operand o = given(graph, work, a->out, b, h, rows, d, a->out_row, 0);
  operand dout = given(graph, work, a->dout, b, h, rows, d, a->out_row, 0);
  operand stats = given(graph, work, a->stats, b, h, rows, 1, 0, 0);
  operand dq = given(graph, work, a->dq, b, h, rows, d, a->q_row, 0);
  operand dk = given(graph, work, a->dk, b, g, columns, d, a->kv_row, 0);
  operand dv = given(graph, work, a->dv, b, g, columns, d, a->kv_row, 0);
  operand scale = ett_cuda_dnn_scalar(graph, 1.0f / sqrtf((float)d));
  operand one = ett_cuda_dnn_scalar(graph, 1.0f); /* replaces the dropout factor */

  operand products = binary(graph, CUDNN_POINTWISE_MUL, &dout, &o);
  operand sum = middle(graph, &stats), row_sum = ett_cuda_dnn_kept(graph, stats.dims);
  ett_cuda_dnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, &products, &sum);
  ett_cuda_dnn_pointwise(graph, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, &sum, &one, NULL,
                         &row_sum);

  operand scores = scores_of(graph, &q, &keys, &scale);
  operand below = binary(graph, CUDNN_POINTWISE_SUB, &scores, &stats);
  if (a->causal)
    below = mask(graph, &below);
  operand p = unary(graph, CUDNN_POINTWISE_EXP, &below);
  operand p_exchanged = ett_cuda_dnn_transposed(graph, &p, type);
  gradient(graph, &p_exchanged, &dout, &dv, type);

  operand dp = middle(graph, &scores);
  ett_cuda_dnn_matmul(graph, &dout, &values, &dp);
  operand centred = binary(graph, CUDNN_POINTWISE_SUB, &dp, &row_sum);
  operand weighted = binary(graph, CUDNN_POINTWISE_MUL, &centred, &p);
  operand ds = binary(graph, CUDNN_POINTWISE_MUL, &weighted, &scale);
  operand ds_exchanged = ett_cuda_dnn_transposed(graph, &ds, type);
  gradient(graph, &ds_exchanged, &q, &dk, type);

  /* As wide as dS, its partner in the product. */
  operand k = ett_cuda_dnn_transposed(graph, &keys, CUDNN_DATA_FLOAT);
  operand accumulated = ett_cuda_dnn_kept(graph, dq.dims);
  ett_cuda_dnn_matmul(graph, &ds, &k, &accumulated);
  ett_cuda_dnn_pointwise(graph, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, &accumulated,
                         NULL, NULL, &dq);
}

/* a·b·c·d, or LLONG_MAX. */
static long long product(long long a, long long b, long long c, long long d) {
  long long result;
  if (__builtin_mul_overflow(a, b, &result) ||
      __builtin_mul_overflow(result, c, &result) ||
      __builtin_mul_overflow(result, d, &result))
    return INT64_MAX;
  return result;
}

/* Number of elements from the first to the last of a tensor; -1 if the row is too
 * short. */
static long long elements(long long batch, long long heads, long long seq,
                          long long width, long long row) {
  if (row == 0)
    return product(batch, heads, seq, width);
  long long used = product(heads, width, 1, 1);
  if (row < used || row % 8 != 0)
    return -1;
  long long all = product(batch, seq, row, 1);
  return all == INT64_MAX ? all : all - row + used;
}

static int check(const ett_cuda_work *work, const ett_cuda_attention *a, ett_err *err) {
  if (a->batch <= 0 || a->heads <= 0 || a->kv_heads <= 0 || a->seq_q <= 0 ||
      a->seq_k <= 0 || a->head_dim <= 0 || a->heads % a->kv_heads != 0)
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "attention: sizes must be positive and kv_heads (%lld) must divide "
        "heads (%lld)",
        a->kv_heads, a->heads);
  ett_cuda_dtype dtype = ett_cuda_work_tensor_dtype(work, a->q);
  if (dtype != ETT_CUDA_FP16 && dtype != ETT_CUDA_BF16)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "attention: cuDNN's fused engines take fp16 and bf16 only");
  if (a->head_dim % 8 != 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "attention: head_dim must be a multiple of 8, got %lld",
                       a->head_dim);
  long long queries = elements(a->batch, a->heads, a->seq_q, a->head_dim, a->q_row);
  long long outputs = elements(a->batch, a->heads, a->seq_q, a->head_dim, a->out_row);
  long long keys = elements(a->batch, a->kv_heads, a->seq_k, a->head_dim, a->kv_row);
  if (queries < 0 || outputs < 0 || keys < 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "attention: a row must be a multiple of 8 and hold its heads, got "
                       "%lld, %lld and %lld",
                       a->q_row, a->kv_row, a->out_row);
  const struct {
    const char *name;
    int tensor, used;
    long long wanted;
  } operands[] = {
      {"q", a->q, 1, queries},
      {"k", a->k, 1, keys},
      {"v", a->v, 1, keys},
      {"out", a->out, 1, outputs},
      {"stats", a->stats, 1, product(a->batch, a->heads, a->seq_q, 1)},
      {"dout", a->dout, a->backward, outputs},
      {"dq", a->dq, a->backward, queries},
      {"dk", a->dk, a->backward, keys},
      {"dv", a->dv, a->backward, keys},
  };
  for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
    if (!operands[i].used)
      continue;
    if (ett_cuda_work_count(work, operands[i].tensor) < operands[i].wanted)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "attention: %s needs %lld elements, the tensor has %lld",
                         operands[i].name, operands[i].wanted,
                         ett_cuda_work_count(work, operands[i].tensor));
    if (ett_cuda_work_address(work, operands[i].tensor) % ETT_CUDA_DNN_ALIGNMENT != 0)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "attention: %s must begin at a multiple of %d bytes",
                         operands[i].name, ETT_CUDA_DNN_ALIGNMENT);
  }
  if (ett_cuda_work_tensor_dtype(work, a->stats) != ETT_CUDA_FP32)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "attention: stats must be fp32");
  return 0;
}

/* Whether the installed cuDNN computes the pass. cudnn-frontend pads the keys for the
 * versions that are wrong without; ett does not. */
static int check_version(size_t version, const ett_cuda_attention *a, ett_err *err) {
  if (version < LEAST_VERSION)
    return ett_err_set(err, ETT_ERR_MISSING,
                       "attention needs cuDNN 9.6 or newer, found %zu; install it",
                       version);
  if (a->backward && a->seq_k % 128 != 0 && version <= LAST_BLOCKED_BWD)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "attention: the backward pass with seq_k %lld, no multiple of "
                       "128, needs cuDNN 9.16 or newer, found %zu",
                       a->seq_k, version);
  return 0;
}

int ett_cuda_work_attention(ett_cuda_work *work, const ett_cuda_attention *attention,
                            ett_err *err) {
  if (check(work, attention, err) != 0)
    return -1;
  ett_cuda_graph *graph = ett_cuda_dnn_graph(work->device, err);
  if (!graph)
    return -1;
  if (check_version(graph->dnn->cudnnGetVersion(), attention, err) != 0) {
    graph->base.free(&graph->base);
    return -1;
  }
  if (attention->backward)
    backward(graph, work, attention);
  else
    forward(graph, work, attention);
  if (ett_cuda_dnn_finish(graph, "cuDNN has no attention engine for this shape", err) !=
      0)
    return -1;
  return ett_cuda_work_add(work, &graph->base, err);
}

#endif
