--- Addition of a block's output to the residual stream.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "residual_add", aliases = { "res_add" }, family = "elementwise",
  summary = "residual addition" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Forward reads two operands and writes their sum; backward adds the two incoming gradients.
memory.define(op, {
  forward = { reads = 2, writes = 1, flops = 1 },
  backward = { reads = 2, writes = 1, flops = 1 },
})
op.reference = shapes.reference(op, { "b", "l", "dim" }, { "res_add" })

return op
