--- Addition of a block's output to the residual stream.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "residual_add", family = "elementwise",
  summary = "residual addition", compiled = "add" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Forward reads two operands and writes their sum; backward adds the two incoming gradients.
memory.define(op, {
  forward = { reads = 2, writes = 1, flops = 1 },
  backward = { reads = 2, writes = 1, flops = 1 },
})

op.cuda = [[
extern "C" __global__ void residual_add(const T *a, const T *b, T *sum, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x)
    store(sum, i, load(a, i) + load(b, i));
}
]]

-- What each kernel computes, in double precision, with its arguments as lists.
op.doubles = {
  residual_add = function(a, b, sum)
    for i, v in ipairs(a) do sum[i] = v + b[i] end
  end,
}

-- The backward pass adds the two incoming gradients: the same kernel.
function op.kernel(k, s)
  local a, b, sum = k.tensor { s.tokens, s.hidden }, k.tensor { s.tokens, s.hidden }, k.tensor { s.tokens, s.hidden }
  launch.elements(k, "residual_add", op.cuda, s.tokens * s.hidden, { a, b, sum })
end

op.torch = [[
a, b = tensor(s.tokens, s.hidden), tensor(s.tokens, s.hidden)
return lambda: a + b
]]

return op
