--- Fused bias, dropout and residual addition, which Megatron runs after each row-parallel linear.
local dropout = require "ett.operator.dropout"
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "bias_dropout_add", aliases = { "bias_dropout_residual" }, family = "elementwise",
  summary = "fused bias, dropout and residual addition", compiled = "bias_dropout_add",
  residual = true }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Forward reads the block's output and the residual, writes their sum and a byte mask; backward
-- reads the gradient and the mask and writes the block's gradient.
memory.define(op, {
  forward = { reads = 2, writes = 1, flops = 14 },
  backward = { reads = 1, writes = 1, flops = 2 },
  extra = function(s) return s.tokens * (s.hidden + 0.0) end,
  saved_extra = function(s) return s.tokens * (s.hidden + 0.0) end,
})

--- The residual: the operator before wrote the other operand only.
function op.earlier_bytes(s, dtype) return (s.tokens + 0.0) * s.hidden * memory.width(dtype) end

--- Backward at the branch point of the residual stream: both gradients are added, as in residual_add.
function op.beside_bytes(s, pass) return pass == "backward" and 6.0 * s.tokens * s.hidden or 0.0 end

op.cuda = dropout.cuda("bias_dropout_add", [[
extern "C" __global__ void bias_dropout_add_forward(const T *x, const T *bias, const T *residual, T *y,
                                                    unsigned char *mask, long long cols, long long n) {
  each_element(i, n) {
    bool keep = kept(i);
    mask[i] = keep;
    float v = load(x, i) + load(bias, i % cols);
    store(y, i, load(residual, i) + (keep ? v / 0.9f : 0.0f));
  }
}
]])

op.doubles = {
  bias_dropout_add_forward = function(x, bias, residual, y, mask, cols)
    for i, v in ipairs(x) do
      mask[i] = dropout.kept(i) and 1 or 0
      y[i] = residual[i] + mask[i] * (v + bias[(i - 1) % cols + 1]) / 0.9
    end
  end,
  bias_dropout_add_backward = dropout.backward,
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
