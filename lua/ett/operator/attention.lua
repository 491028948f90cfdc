--- Fused attention in CUDA C, for precisions that cuDNN's attention engines do not support (fp32).
--
-- A thread block computes one query (forward, dQ) or one key (dK, dV). Scores are computed tile by tile with an online
-- softmax (Milakov & Gimelshein 2018, Dao et al. 2022). No atomics are used: every run gives the same sums.
local error_module = require "ett.base.error"

local function doubles() return require "ett.operator.doubles" end -- for tests of kernels alone

local attention = {}

-- Largest head dimension: a block of at least 32 threads keeps DIMS elements in registers.
local MOST_DIM = 256

attention.cuda = [[
enum { DIMS = 8, TILE = 256 };

// The sizes, and strides of batch, head and position: q_ of q and dq, k_ of k, v, dk and dv, o_ of out and dout.
// group: query heads that share a key head. Under a causal mask query i sees keys 0 to i.
#define SIZES long long heads, long long group, long long rows, long long columns, long long dim, long long causal, \
  long long q_batch, long long q_head, long long q_row, long long k_batch, long long k_head, long long k_row, \
  long long o_batch, long long o_head, long long o_row

// The dimensions of the result that a thread holds: n counts them, c is the column.
#define each_own(n, c, dim) \
  for (long long n = 0, c = threadIdx.x; n < DIMS && c < (dim); n++, c += blockDim.x)

static __device__ float dot(const T *a, long long from, const T *b, long long to, long long dim) {
  float sum = 0.0f;
  for (long long c = 0; c < dim; c++) sum += load(a, from + c) * load(b, to + c);
  return sum;
}

extern "C" __global__ void attention_forward(const T *q, const T *k, const T *v, T *out, float *stats,
    SIZES) {
  __shared__ float weight[TILE];
  const long long i = blockIdx.x % rows, h = blockIdx.x / rows % heads, b = blockIdx.x / (rows * heads);
  const long long query = b * q_batch + h * q_head + i * q_row, keys = b * k_batch + h / group * k_head;
  const long long open = causal && i + 1 < columns ? i + 1 : columns;
  const float scale = rsqrtf((float)dim);
  float most = -3.4e38f, sum = 0.0f, mean[DIMS] = {0.0f};
  for (long long from = 0; from < open; from += blockDim.x) {
    const long long j = from + threadIdx.x, count = open - from < blockDim.x ? open - from : blockDim.x;
    float score = j < open ? scale * dot(q, query, k, keys + j * k_row, dim) : -3.4e38f;
    float top = fmaxf(most, block_max(score)), shrink = expf(most - top);
    float e = j < open ? expf(score - top) : 0.0f;
    sum = sum * shrink + block_sum(e);
    weight[threadIdx.x] = e;
    __syncthreads();
    each_own(n, c, dim) {
      float total = mean[n] * shrink;
      for (long long t = 0; t < count; t++) total += weight[t] * load(v, keys + (from + t) * k_row + c);
      mean[n] = total;
    }
    most = top;
    __syncthreads();
  }
  const long long to = b * o_batch + h * o_head + i * o_row;
  each_own(n, c, dim) store(out, to + c, mean[n] / sum);
  if (threadIdx.x == 0) stats[blockIdx.x] = most + logf(sum);
}

// With P = exp(scores - stats), r = rowsum(dO o O) and dS = P o (dO V' - r): dQ = scale dS K.
extern "C" __global__ void attention_queries(const T *q, const T *k, const T *v, const T *out, const T *dout,
    const float *stats, T *dq, SIZES) {
  __shared__ float slope[TILE];
  const long long i = blockIdx.x % rows, h = blockIdx.x / rows % heads, b = blockIdx.x / (rows * heads);
  const long long query = b * q_batch + h * q_head + i * q_row, keys = b * k_batch + h / group * k_head;
  const long long at = b * o_batch + h * o_head + i * o_row;
  const long long open = causal && i + 1 < columns ? i + 1 : columns;
  const float scale = rsqrtf((float)dim), r = dot(dout, at, out, at, dim), level = stats[blockIdx.x];
  float total[DIMS] = {0.0f};
  for (long long from = 0; from < open; from += blockDim.x) {
    const long long j = from + threadIdx.x, count = open - from < blockDim.x ? open - from : blockDim.x;
    float s = 0.0f;
    if (j < open) {
      float p = expf(scale * dot(q, query, k, keys + j * k_row, dim) - level);
      s = p * (dot(dout, at, v, keys + j * k_row, dim) - r);
    }
    slope[threadIdx.x] = s;
    __syncthreads();
    each_own(n, c, dim) {
      for (long long t = 0; t < count; t++) total[n] += slope[t] * load(k, keys + (from + t) * k_row + c);
    }
    __syncthreads();
  }
  each_own(n, c, dim) store(dq, query + c, scale * total[n]);
}

// dV = P' dO, dK = scale dS' Q, summed over the query heads of the key head.
extern "C" __global__ void attention_keys(const T *q, const T *k, const T *v, const T *out, const T *dout,
    const float *stats, T *dk, T *dv, SIZES) {
  __shared__ float weight[TILE], slope[TILE];
  const long long key_heads = heads / group;
  const long long j = blockIdx.x % columns, g = blockIdx.x / columns % key_heads;
  const long long b = blockIdx.x / (columns * key_heads), key = b * k_batch + g * k_head + j * k_row;
  const float scale = rsqrtf((float)dim);
  float total_k[DIMS] = {0.0f}, total_v[DIMS] = {0.0f};
  for (long long h = g * group; h < (g + 1) * group; h++)
    for (long long from = causal ? j : 0; from < rows; from += blockDim.x) {
      const long long i = from + threadIdx.x, count = rows - from < blockDim.x ? rows - from : blockDim.x;
      const long long queries = b * q_batch + h * q_head, outs = b * o_batch + h * o_head;
      float p = 0.0f, s = 0.0f;
      if (i < rows) {
        const long long query = queries + i * q_row, at = outs + i * o_row;
        p = expf(scale * dot(q, query, k, key, dim) - stats[(b * heads + h) * rows + i]);
        s = p * (dot(dout, at, v, key, dim) - dot(dout, at, out, at, dim));
      }
      weight[threadIdx.x] = p;
      slope[threadIdx.x] = s;
      __syncthreads();
      each_own(n, c, dim) {
        for (long long t = 0; t < count; t++) {
          total_v[n] += weight[t] * load(dout, outs + (from + t) * o_row + c);
          total_k[n] += slope[t] * load(q, queries + (from + t) * q_row + c);
        }
      }
      __syncthreads();
    }
  each_own(n, c, dim) {
    store(dk, key + c, scale * total_k[n]);
    store(dv, key + c, total_v[n]);
  }
}
]]

local function shape_of(q, heads, group, rows, columns, dim, causal)
  return { batch = #q // (heads * rows * dim), heads = heads, kv_heads = heads // group, seq_q = rows, seq_k = columns,
    head_dim = dim, causal = causal ~= 0 }
end

-- The kernels in double precision, for dense tensors.
attention.doubles = {
  attention_forward = function(q, k, v, out, stats, ...)
    local wanted, sums = doubles().attention(q, k, v, shape_of(q, ...))
    doubles().set(out, wanted)
    doubles().set(stats, sums)
  end,
  attention_queries = function(q, k, v, out, dout, stats, dq, ...)
    doubles().set(dq, (doubles().attention_backward(q, k, v, out, stats, dout, shape_of(q, ...))))
  end,
  attention_keys = function(q, k, v, out, dout, stats, dk, dv, ...)
    local _, by_keys, by_values = doubles().attention_backward(q, k, v, out, stats, dout, shape_of(q, ...))
    doubles().set(dk, by_keys)
    doubles().set(dv, by_values)
  end,
}

--- Strides of batch, head and position of a tensor [batch, seq, heads, dim] with `row` elements between positions. If
--- `row` is missing, the tensor is dense [batch, heads, seq, dim].
local function strides(heads, seq, dim, row)
  if row then return seq * row, dim, row end
  return heads * seq * dim, seq * dim, dim
end

local function threads(count) return math.max(32, math.min(MOST_DIM, (count + 31) // 32 * 32)) end

--- Launches k.attention (samplers/README.md). Tensors may be slices of wider tensors (`row`).
function attention.launch(k, a)
  local dim, heads, kv_heads = a.head_dim, a.heads, a.kv_heads or a.heads
  if dim > MOST_DIM then
    error_module.raise("argument", "attention in %s takes a head_dim of at most %d, got %d", k.dtype, MOST_DIM, dim)
  end
  if heads % kv_heads ~= 0 then
    error_module.raise("argument", "attention: kv_heads (%d) must divide heads (%d)", kv_heads, heads)
  end
  local sizes = { heads, heads // kv_heads, a.seq_q, a.seq_k, dim, a.causal and 1 or 0 }
  for _, tensor in ipairs { { heads, a.seq_q, a.q }, { kv_heads, a.seq_k, a.k }, { heads, a.seq_q, a.out } } do
    for _, stride in ipairs { strides(tensor[1], tensor[2], dim, tensor[3].row) } do sizes[#sizes + 1] = stride end
  end
  local function run(name, blocks, over, tensors)
    k.kernel { name = name, source = attention.cuda, label = "attention.lua", grid = blocks, block = threads(over),
      doubles = attention.doubles[name], args = table.move(sizes, 1, #sizes, #tensors + 1, tensors) }
  end
  local queries, keys = a.batch * heads * a.seq_q, a.batch * kv_heads * a.seq_k
  if a.pass ~= "backward" then
    return run("attention_forward", queries, a.seq_k, { a.q, a.k, a.v, a.out, a.stats })
  end
  run("attention_queries", queries, a.seq_k, { a.q, a.k, a.v, a.out, a.dout, a.stats, a.dq })
  run("attention_keys", keys, a.seq_q, { a.q, a.k, a.v, a.out, a.dout, a.stats, a.dk, a.dv })
end

return attention
