--- Layer normalisation over the hidden dimension (Ba et al. 2016).
local doubles = require "ett.operator.doubles"
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "layer_norm", family = "norm", summary = "layer normalisation",
  compiled = "layer_norm" }

op.schema = { tokens = "count", hidden = "count", bias = "natural?" }

--- bias 0: a gain alone (norm_bias = false).
function op.shape(c)
  return { tokens = shapes.norm_tokens(c), hidden = c.hidden, bias = c.norm_bias == false and 0 or nil }
end

function op.parameters(s) return (s.bias == 0 and 1 or 2) * s.hidden end

-- Forward reads x and writes y; backward reads x and dy, writes dx, and keeps fp32 statistics a row.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 8 },
  backward = { reads = 2, writes = 1, flops = 14 },
  extra = function(s) return 8.0 * s.tokens end,
  saved = 1,
})

op.cuda = [[
extern "C" __global__ void layer_norm_forward(const T *x, const T *gain, const T *bias, T *y, float *mean,
                                              float *inverse, long long cols) {
  const long long row = blockIdx.x * cols;
  float sum = 0.0f, squares = 0.0f;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x) sum += load(x, row + j);
  float m = block_sum(sum) / cols;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x) {
    float d = load(x, row + j) - m;
    squares += d * d;
  }
  float r = rsqrtf(block_sum(squares) / cols + 1e-5f);
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = m;
    inverse[blockIdx.x] = r;
  }
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    store(y, row + j, (load(x, row + j) - m) * r * load(gain, j) + load(bias, j));
}

// With h = (x - mean) r and g = gain dy: dx = r (g - mean(g) - h mean(g h)).
extern "C" __global__ void layer_norm_backward(const T *x, const T *gain, const T *dy, const float *mean,
                                               const float *inverse, T *dx, long long cols) {
  const long long row = blockIdx.x * cols;
  float m = mean[blockIdx.x], r = inverse[blockIdx.x], sum = 0.0f, product = 0.0f;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x) {
    float g = load(gain, j) * load(dy, row + j);
    sum += g;
    product += g * (load(x, row + j) - m) * r;
  }
  float mean_g = block_sum(sum) / cols, mean_gh = block_sum(product) / cols;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x) {
    float h = (load(x, row + j) - m) * r;
    store(dx, row + j, r * (load(gain, j) * load(dy, row + j) - mean_g - h * mean_gh));
  }
}

// Each block sums a band of rows of 32 columns, then adds it to the gradients of gain and bias.
extern "C" __global__ void layer_norm_weights(const T *x, const T *dy, const float *mean, const float *inverse,
                                              float *dgain, float *dbias, long long rows, long long cols) {
  long long j = blockIdx.x * 32ll + threadIdx.x;
  float gain = 0.0f, bias = 0.0f;
  if (j < cols)
    for (long long i = blockIdx.y * blockDim.y + threadIdx.y; i < rows; i += (long long)gridDim.y * blockDim.y) {
      float g = load(dy, i * cols + j);
      gain += g * (load(x, i * cols + j) - mean[i]) * inverse[i];
      bias += g;
    }
  __shared__ float gains[8][32], biases[8][32];
  gains[threadIdx.y][threadIdx.x] = gain;
  biases[threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y == 0 && j < cols) {
    for (int i = 1; i < 8; i++) {
      gain += gains[i][threadIdx.x];
      bias += biases[i][threadIdx.x];
    }
    atomicAdd(dgain + j, gain);
    atomicAdd(dbias + j, bias);
  }
}
]]

local function set(to, from) for i, v in ipairs(from) do to[i] = v end end

-- What each kernel computes, in double precision, with its arguments as lists.
op.doubles = {
  layer_norm_forward = function(x, gain, bias, y, mean, inverse)
    local out, means, inverses = doubles.norm(x, gain, bias)
    set(y, out)
    set(mean, means)
    set(inverse, inverses)
  end,
  layer_norm_backward = function(x, gain, dy, mean, inverse, dx)
    set(dx, (doubles.norm_backward(x, gain, dy, mean, inverse)))
  end,
  layer_norm_weights = function(x, dy, mean, inverse, dgain, dbias, rows, cols)
    for i = 1, rows * cols do
      local j, row = (i - 1) % cols + 1, (i - 1) // cols + 1
      dgain[j] = dgain[j] + dy[i] * (x[i] - mean[row]) * inverse[row]
      dbias[j] = dbias[j] + dy[i]
    end
  end,
}

function op.kernel(k, s, pass)
  local function full() return k.tensor { s.tokens, s.hidden } end
  local function statistic() return k.tensor { s.tokens, dtype = "fp32", fill = "uniform" } end
  local function gradient() return k.tensor { s.hidden, dtype = "fp32", fill = "zero" } end
  local gain, x, mean, inverse = k.tensor { s.hidden }, full(), statistic(), statistic()
  if pass == "forward" then
    return launch.rows(k, "layer_norm_forward", op.cuda, s.tokens, s.hidden,
      { x, gain, k.tensor { s.hidden }, full(), mean, inverse })
  end
  local dy = full()
  launch.rows(k, "layer_norm_backward", op.cuda, s.tokens, s.hidden, { x, gain, dy, mean, inverse, full() })
  k.kernel { name = "layer_norm_weights", source = op.cuda, grid = { (s.hidden + 31) // 32, math.min(64, s.tokens) },
    block = { 32, 8 }, args = { x, dy, mean, inverse, gradient(), gradient(), s.tokens, s.hidden } }
end

op.torch = [[
x, gain, bias = tensor(s.tokens, s.hidden), tensor(s.hidden), tensor(s.hidden)
return lambda: F.layer_norm(x, (s.hidden,), gain, bias)
]]

return op
