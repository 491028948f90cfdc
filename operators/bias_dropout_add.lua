--- Fused bias + dropout + residual addition, as Megatron runs it after each row-parallel linear.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "bias_dropout_add", aliases = { "bias_dropout_residual" }, family = "elementwise",
  summary = "fused bias, dropout and residual addition" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Forward reads the block's output and the residual, writes their sum and a byte mask; backward
-- reads the gradient and the mask and writes the block's gradient (the residual's passes through).
memory.define(op, {
  forward = { reads = 2, writes = 1, flops = 14 },
  backward = { reads = 1, writes = 1, flops = 2 },
  extra = function(s) return s.tokens * (s.hidden + 0.0) end,
  saved_extra = function(s) return s.tokens * (s.hidden + 0.0) end,
})

return op
