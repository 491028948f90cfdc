--- Gated activation silu(gate) * up (Shazeer 2020); width is that of the output.
local doubles = require "ett.operator.doubles"
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "swiglu", aliases = { "silu_mul", "geglu" }, family = "elementwise",
  summary = "gated activation silu(gate) * up", compiled = "swiglu" }

op.schema = { tokens = "count", width = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), width = shapes.local_ffn(c) } end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.width } end

-- Forward reads gate and up and writes y; backward reads gate, up and dy and writes both gradients.
memory.define(op, {
  forward = { reads = 2, writes = 1, flops = 6 },
  backward = { reads = 3, writes = 2, flops = 14 },
  saved = 2,
})

op.cuda = [[
extern "C" __global__ void swiglu_forward(const T *gate, const T *up, T *y, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x) {
    float g = load(gate, i);
    store(y, i, g / (1.0f + expf(-g)) * load(up, i));
  }
}

extern "C" __global__ void swiglu_backward(const T *gate, const T *up, const T *dy, T *dgate, T *dup,
                                           long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x) {
    float g = load(gate, i), d = load(dy, i), sigmoid = 1.0f / (1.0f + expf(-g));
    store(dgate, i, d * load(up, i) * sigmoid * (1.0f + g * (1.0f - sigmoid)));
    store(dup, i, d * g * sigmoid);
  }
}
]]

-- What each kernel computes, in double precision, with its arguments as lists.
op.doubles = {
  swiglu_forward = function(gate, up, y)
    for i, g in ipairs(gate) do y[i] = doubles.swiglu(g, up[i]) end
  end,
  swiglu_backward = function(gate, up, dy, dgate, dup)
    for i, g in ipairs(gate) do
      local _, by_gate, by_up = doubles.swiglu(g, up[i])
      dgate[i], dup[i] = dy[i] * by_gate, dy[i] * by_up
    end
  end,
}

function op.kernel(k, s, pass)
  local args = {}
  for i = 1, pass == "backward" and 5 or 3 do args[i] = k.tensor { s.tokens, s.width } end
  launch.elements(k, "swiglu_" .. pass, op.cuda, s.tokens * s.width, args)
end

op.torch = [[
gate, up = tensor(s.tokens, s.width), tensor(s.tokens, s.width)
return lambda: F.silu(gate) * up
]]

return op
