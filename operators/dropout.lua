--- Dropout of attention probabilities or of a block's output, with a byte mask.
local dropout = require "ett.operator.dropout"
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "dropout", aliases = { "attention_dropout" }, family = "elementwise", selective = true,
  summary = "dropout of the attention probabilities, with a byte mask", compiled = "dropout" }

op.memory_bound = true -- training software draws four random numbers at a time (curand_uniform4)

op.schema = { rows = "count", cols = "count", mask = "natural?" }

--- Attention probabilities: batch * heads * seq rows of seq columns. stream: the residual stream, of which no later
--- operator stores a copy.
function op.shape(c)
  if c.stream then return { rows = shapes.norm_tokens(c), cols = c.hidden, mask = 1 } end
  local heads, _, rows = shapes.attention(c)
  return { rows = c.micro_batch * heads * rows, cols = c.seq }
end

function op.kernel_shape(s) return { rows = s.rows, cols = s.cols } end

--- Stores the mask, and the output for the product that reads it.
function op.activation_bytes(s, dtype)
  return s.rows * (s.cols + 0.0) * (s.mask and 1 or 1 + memory.width(dtype))
end

-- Random numbers dominate the forward pass: Philox 4x32-10 (Salmon et al. 2011) takes about 45 integer operations per
-- element, with indexing, scaling and comparison. Each counts as two FLOPs, since integer operations issue at half the
-- fp32 rate (CUDA programming guide, table of throughputs).
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 90 },
  backward = { reads = 1, writes = 1, flops = 2 },
  extra = function(s) return s.rows * (s.cols + 0.0) end,
  saved = 1,
})

op.cuda = dropout.cuda("dropout", [[
extern "C" __global__ void dropout_forward(const T *x, T *y, unsigned char *mask, long long n) {
  each_element(i, n) {
    bool keep = kept(i);
    mask[i] = keep;
    store(y, i, keep ? load(x, i) / 0.9f : 0.0f);
  }
}
]])

op.doubles = {
  dropout_forward = function(x, y, mask)
    for i, v in ipairs(x) do
      mask[i] = dropout.kept(i) and 1 or 0
      y[i] = mask[i] * v / 0.9
    end
  end,
  dropout_backward = dropout.backward,
}

function op.kernel(k, s, pass)
  local mask = k.tensor { s.rows, s.cols, dtype = "fp8", fill = "zero" } -- bytes
  local x, y = k.tensor { s.rows, s.cols }, k.tensor { s.rows, s.cols }
  launch.elements(k, "dropout_" .. pass, op.cuda, s.rows * s.cols, { x, y, mask })
end

function op.recorded() return { what = "dropout" } end

op.torch = [[
x = tensor(s.rows, s.cols)
return lambda: F.dropout(x, 0.1)
]]

return op
