--- Gaussian error linear unit, tanh form (Hendrycks & Gimpel 2016).
local doubles = require "ett.operator.doubles"
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "gelu", family = "elementwise", summary = "Gaussian error linear unit",
  compiled = "gelu" }

op.schema = { tokens = "count", width = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), width = shapes.local_ffn(c) } end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.width } end

-- Forward reads x and writes y; backward reads x and dy and writes dx.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 10 },
  backward = { reads = 2, writes = 1, flops = 16 },
  saved = 1,
})

op.cuda = [[
static __device__ float cdf_argument(float x) { return 0.79788456f * (x + 0.044715f * x * x * x); }

extern "C" __global__ void gelu_forward(const T *x, T *y, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x)
    store(y, i, 0.5f * load(x, i) * (1.0f + tanhf(cdf_argument(load(x, i)))));
}

extern "C" __global__ void gelu_backward(const T *x, const T *dy, T *dx, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x) {
    float v = load(x, i), t = tanhf(cdf_argument(v));
    float slope = 0.5f * v * (1.0f - t * t) * 0.79788456f * (1.0f + 0.134145f * v * v);
    store(dx, i, load(dy, i) * (0.5f * (1.0f + t) + slope));
  }
}
]]

-- What each kernel computes, in double precision, with its arguments as lists.
op.doubles = {
  gelu_forward = function(x, y)
    for i, v in ipairs(x) do y[i] = doubles.gelu(v) end
  end,
  gelu_backward = function(x, dy, dx)
    for i, v in ipairs(x) do dx[i] = dy[i] * doubles.gelu_slope(v) end
  end,
}

function op.kernel(k, s, pass)
  local x, y = k.tensor { s.tokens, s.width }, k.tensor { s.tokens, s.width }
  local args = pass == "backward" and { x, k.tensor { s.tokens, s.width }, y } or { x, y }
  launch.elements(k, "gelu_" .. pass, op.cuda, s.tokens * s.width, args)
end

op.torch = [[
x = tensor(s.tokens, s.width)
return lambda: F.gelu(x, approximate="tanh")
]]

return op
