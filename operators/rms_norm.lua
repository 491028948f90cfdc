--- Root-mean-square normalisation over the hidden dimension (Zhang & Sennrich 2019).
local doubles = require "ett.operator.doubles"
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "rms_norm", aliases = { "rmsnorm" }, family = "norm",
  summary = "root-mean-square normalisation", compiled = "rms_norm" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

function op.parameters(s) return s.hidden end

-- Forward reads x and writes y; backward reads x and dy, writes dx, and keeps fp32 statistics a row.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 4 },
  backward = { reads = 2, writes = 1, flops = 8 },
  extra = function(s) return 8.0 * s.tokens end,
  saved = 1,
})

op.cuda = [[
extern "C" __global__ void rms_norm_forward(const T *x, const T *gain, T *y, float *inverse, long long cols) {
  const long long row = blockIdx.x * cols;
  float sum = 0.0f;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x) sum += load(x, row + j) * load(x, row + j);
  float r = rsqrtf(block_sum(sum) / cols + 1e-5f);
  if (threadIdx.x == 0) inverse[blockIdx.x] = r;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    store(y, row + j, load(x, row + j) * r * load(gain, j));
}

// dx = r (g dy - x r^2 mean(g dy x))
extern "C" __global__ void rms_norm_backward(const T *x, const T *gain, const T *dy, const float *inverse, T *dx,
                                             long long cols) {
  const long long row = blockIdx.x * cols;
  float r = inverse[blockIdx.x], sum = 0.0f;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    sum += load(gain, j) * load(dy, row + j) * load(x, row + j);
  float mean = block_sum(sum) / cols;
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    store(dx, row + j, r * (load(gain, j) * load(dy, row + j) - load(x, row + j) * r * r * mean));
}

// Each block sums a band of rows of 32 columns, then adds it to the gain's gradient.
extern "C" __global__ void rms_norm_gain(const T *x, const T *dy, const float *inverse, float *dgain, long long rows,
                                         long long cols) {
  long long j = blockIdx.x * 32ll + threadIdx.x;
  float sum = 0.0f;
  if (j < cols)
    for (long long i = blockIdx.y * blockDim.y + threadIdx.y; i < rows; i += (long long)gridDim.y * blockDim.y)
      sum += load(dy, i * cols + j) * load(x, i * cols + j) * inverse[i];
  __shared__ float partial[8][32];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && j < cols) {
    for (int i = 1; i < 8; i++) sum += partial[i][threadIdx.x];
    atomicAdd(dgain + j, sum);
  }
}
]]

local function set(to, from) for i, v in ipairs(from) do to[i] = v end end

-- What each kernel computes, in double precision, with its arguments as lists.
op.doubles = {
  rms_norm_forward = function(x, gain, y, inverse)
    local out, _, statistics = doubles.norm(x, gain)
    set(y, out)
    set(inverse, statistics)
  end,
  rms_norm_backward = function(x, gain, dy, inverse, dx)
    set(dx, (doubles.norm_backward(x, gain, dy, nil, inverse)))
  end,
  rms_norm_gain = function(x, dy, inverse, dgain, rows, cols)
    for i = 1, rows * cols do
      local j, row = (i - 1) % cols + 1, (i - 1) // cols + 1
      dgain[j] = dgain[j] + dy[i] * x[i] * inverse[row]
    end
  end,
}

function op.kernel(k, s, pass)
  local function full() return k.tensor { s.tokens, s.hidden } end
  local gain, x = k.tensor { s.hidden }, full()
  local inverse = k.tensor { s.tokens, dtype = "fp32", fill = "uniform" }
  if pass == "forward" then
    return launch.rows(k, "rms_norm_forward", op.cuda, s.tokens, s.hidden, { x, gain, full(), inverse })
  end
  local dy = full()
  launch.rows(k, "rms_norm_backward", op.cuda, s.tokens, s.hidden, { x, gain, dy, inverse, full() })
  k.kernel { name = "rms_norm_gain", source = op.cuda, grid = { (s.hidden + 31) // 32, math.min(64, s.tokens) },
    block = { 32, 8 },
    args = { x, dy, inverse, k.tensor { s.hidden, dtype = "fp32", fill = "zero" }, s.tokens, s.hidden } }
end

op.torch = [[
x, gain = tensor(s.tokens, s.hidden), tensor(s.hidden)
return lambda: gain * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)
]]

return op
