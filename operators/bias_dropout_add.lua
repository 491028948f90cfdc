--- Fused bias + dropout + residual addition, as Megatron runs it after each row-parallel linear.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "bias_dropout_add", aliases = { "bias_dropout_residual" }, family = "elementwise",
  summary = "fused bias, dropout and residual addition", compiled = "bias_dropout_add" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Forward reads the block's output and the residual, writes their sum and a byte mask; backward
-- reads the gradient and the mask and writes the block's gradient (the residual's passes through).
memory.define(op, {
  forward = { reads = 2, writes = 1, flops = 14 },
  backward = { reads = 1, writes = 1, flops = 2 },
  extra = function(s) return s.tokens * (s.hidden + 0.0) end,
  saved_extra = function(s) return s.tokens * (s.hidden + 0.0) end,
})

op.cuda = [[
// A counter-based generator: element i always draws the same number.
static __device__ bool kept(long long i) {
  unsigned long long z = 0x9e3779b97f4a7c15ull * (unsigned long long)(i + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (z >> 40) > 1677721; // 10 % are dropped
}
extern "C" __global__ void bias_dropout_add_forward(const T *x, const T *bias, const T *residual, T *y,
                                                    unsigned char *mask, long long cols, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x) {
    bool keep = kept(i);
    mask[i] = keep;
    float v = load(x, i) + load(bias, i % cols);
    store(y, i, load(residual, i) + (keep ? v / 0.9f : 0.0f));
  }
}

extern "C" __global__ void bias_dropout_add_backward(const T *dy, T *dx, const unsigned char *mask, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x)
    store(dx, i, mask[i] ? load(dy, i) / 0.9f : 0.0f);
}
]]

-- splitmix64, as the kernel counts it: integers wrap alike.
local function kept(i)
  local z = 0x9e3779b97f4a7c15 * i
  z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
  z = (z ~ (z >> 27)) * 0x94d049bb133111eb
  return z >> 40 > 1677721
end

-- What each kernel computes, in double precision, with its arguments as lists.
op.doubles = {
  bias_dropout_add_forward = function(x, bias, residual, y, mask, cols)
    for i, v in ipairs(x) do
      mask[i] = kept(i) and 1 or 0
      y[i] = residual[i] + mask[i] * (v + bias[(i - 1) % cols + 1]) / 0.9
    end
  end,
  bias_dropout_add_backward = function(dy, dx, mask)
    for i, v in ipairs(dy) do dx[i] = mask[i] ~= 0 and v / 0.9 or 0.0 end
  end,
}

function op.kernel(k, s, pass)
  local function full() return k.tensor { s.tokens, s.hidden } end
  local mask = k.tensor { s.tokens, s.hidden, dtype = "fp8", fill = "zero" } -- bytes
  local args = pass == "backward" and { full(), full(), mask }
    or { full(), k.tensor { s.hidden }, full(), full(), mask, s.hidden }
  launch.elements(k, "bias_dropout_add_" .. pass, op.cuda, s.tokens * s.hidden, args)
end

op.torch = [[
x, residual, bias = tensor(s.tokens, s.hidden), tensor(s.tokens, s.hidden), tensor(s.hidden)
return lambda: residual + F.dropout(x + bias, 0.1)
]]

return op
