--- Norms over the hidden dimension: layer_norm, and rms_norm (without mean and bias).
--
--   norm.define(op, { centred = true, flops = { 8, 14 } }) -- flops an element, forward and backward
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local function doubles() return require "ett.operator.doubles" end -- for tests of kernels alone

local norm = {}

-- Text in @{ } is used for a centred norm only.
local source = [[
extern "C" __global__ void NAME_forward(const T *x, const T *gain, @{const T *bias, }T *y, @{float *mean, }
                                        float *inverse, long long cols) {
  const long long row = blockIdx.x * cols;
  float m = 0.0f, squares = 0.0f;
@{  each_column(j, cols) m += load(x, row + j);
  m = block_sum(m) / cols;
  if (threadIdx.x == 0) mean[blockIdx.x] = m;
}  each_column(j, cols) squares += (load(x, row + j) - m) * (load(x, row + j) - m);
  float r = rsqrtf(block_sum(squares) / cols + 1e-5f);
  if (threadIdx.x == 0) inverse[blockIdx.x] = r;
  each_column(j, cols) store(y, row + j, (load(x, row + j) - m) * r * load(gain, j)@{ + load(bias, j)});
}

// With h = (x - mean) r and g = gain dy: dx = r (g - mean(g) - h mean(g h)); the first mean is of a centred norm.
extern "C" __global__ void NAME_backward(const T *x, const T *gain, const T *dy, @{const float *mean, }
                                         const float *inverse, T *dx, long long cols) {
  const long long row = blockIdx.x * cols;
  float m = 0.0f, mean_g = 0.0f, r = inverse[blockIdx.x], product = 0.0f;
@{  m = mean[blockIdx.x];
  each_column(j, cols) mean_g += load(gain, j) * load(dy, row + j);
  mean_g = block_sum(mean_g) / cols;
}  each_column(j, cols) product += load(gain, j) * load(dy, row + j) * (load(x, row + j) - m) * r;
  float mean_gh = block_sum(product) / cols;
  each_column(j, cols)
    store(dx, row + j, r * (load(gain, j) * load(dy, row + j) - mean_g - (load(x, row + j) - m) * r * mean_gh));
}

// Each block sums a band of rows of 32 columns, then adds it to the gradients of gain and bias.
extern "C" __global__ void NAME_weights(const T *x, const T *dy, @{const float *mean, }const float *inverse,
                                        float *dgain, @{float *dbias, }long long rows, long long cols) {
  long long j = blockIdx.x * 32ll + threadIdx.x;
  float gain = 0.0f, bias = 0.0f;
  if (j < cols)
    for (long long i = blockIdx.y * blockDim.y + threadIdx.y; i < rows; i += (long long)gridDim.y * blockDim.y) {
      float g = load(dy, i * cols + j);
      gain += g * (load(x, i * cols + j)@{ - mean[i]}) * inverse[i];
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
@{    atomicAdd(dbias + j, bias);
}  }
}
]]

--- The kernel arguments of a norm. Arguments marked true are dropped unless the norm is centred.
local function only(centred, list)
  local kept = {}
  for _, item in ipairs(list) do if centred or not item[2] then kept[#kept + 1] = item[1] end end
  return kept
end

local function doubles_of(name, centred)
  local function named(names, ...)
    local given, by_name = { ... }, {}
    for i, key in ipairs(only(centred, names)) do by_name[key] = given[i] end
    return by_name
  end
  return {
    [name .. "_forward"] = function(...)
      local a = named({ { "x" }, { "gain" }, { "bias", true }, { "y" }, { "mean", true }, { "inverse" } }, ...)
      local y, means, inverses = doubles().norm(a.x, a.gain, a.bias)
      doubles().set(a.y, y)
      if centred then doubles().set(a.mean, means) end
      doubles().set(a.inverse, inverses)
    end,
    [name .. "_backward"] = function(...)
      local a = named({ { "x" }, { "gain" }, { "dy" }, { "mean", true }, { "inverse" }, { "dx" } }, ...)
      doubles().set(a.dx, (doubles().norm_backward(a.x, a.gain, a.dy, a.mean, a.inverse)))
    end,
    [name .. "_weights"] = function(...)
      local a = named({ { "x" }, { "dy" }, { "mean", true }, { "inverse" }, { "dgain" }, { "dbias", true },
        { "rows" }, { "cols" } }, ...)
      for i = 1, a.rows * a.cols do
        local j, row = (i - 1) % a.cols + 1, (i - 1) // a.cols + 1
        a.dgain[j] = a.dgain[j] + a.dy[i] * (a.x[i] - (a.mean and a.mean[row] or 0.0)) * a.inverse[row]
        if a.dbias then a.dbias[j] = a.dbias[j] + a.dy[i] end
      end
    end,
  }
end

local single_operators = { torch = true, composite = true }

--- Bytes that an RMS norm of single PyTorch operators stores beyond its input in 16 bits: the input is in fp32, and the
--- normalised input is stored for the gain's gradient (rms_norm_composite in layer_norm.cpp; LlamaRMSNorm in
--- modeling_llama.py).
local function by_single_operators(s, dtype, stack, frozen)
  if not (stack and single_operators[stack.norm]) then return 0.0 end
  local width = memory.width(dtype)
  return (4 - width + ((s.gainless or frozen) and 0 or width)) * (s.tokens + 0.0) * s.hidden
end

function norm.define(op, facts)
  local centred = facts.centred
  op.family, op.centred = "norm", centred
  op.shape = op.shape or function(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end
  -- Forward reads x and writes y; backward reads x and dy and writes dx. Both access a few fp32 statistics per row.
  memory.define(op, {
    forward = { reads = 1, writes = 1, flops = facts.flops[1] },
    backward = { reads = 2, writes = 1, flops = facts.flops[2] },
    extra = function(s) return 8.0 * s.tokens end,
    saved = 1, saved_extra = not centred and by_single_operators or nil,
  })
  function op.recorded() return { what = centred and "layer_norm" or "rms_norm" } end
  op.cuda = source:gsub("NAME", op.name):gsub("@(%b{})", function(text) return centred and text:sub(2, -2) or "" end)
  op.doubles = doubles_of(op.name, centred)
  function op.kernel(k, s, pass)
    local function full() return k.tensor { s.tokens, s.hidden } end
    local function row(wanted) return wanted and k.tensor { s.tokens, dtype = "fp32", fill = "uniform" } end
    local function gradient(wanted) return wanted and k.tensor { s.hidden, dtype = "fp32", fill = "zero" } end
    local gain, x, mean, inverse = k.tensor { s.hidden }, full(), row(centred), row(true)
    if pass == "forward" then
      local bias, y = centred and k.tensor { s.hidden }, full()
      return launch.rows(k, op.name .. "_forward", op.cuda, s.tokens, s.hidden,
        only(centred, { { x }, { gain }, { bias, true }, { y }, { mean, true }, { inverse } }))
    end
    local dy, dx = full(), full()
    launch.rows(k, op.name .. "_backward", op.cuda, s.tokens, s.hidden,
      only(centred, { { x }, { gain }, { dy }, { mean, true }, { inverse }, { dx } }))
    local dgain, dbias = gradient(true), gradient(centred)
    k.kernel { name = op.name .. "_weights", source = op.cuda, block = { 32, 8 },
      grid = { (s.hidden + 31) // 32, math.min(64, s.tokens) },
      args = only(centred, { { x }, { dy }, { mean, true }, { inverse }, { dgain }, { dbias, true }, { s.tokens },
        { s.hidden } }) }
  end
  return op
end

return norm
