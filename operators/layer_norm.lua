--- Layer normalisation over the hidden dimension (Ba et al. 2016).
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "layer_norm", aliases = { "layernorm" }, family = "norm", summary = "layer normalisation" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

function op.parameters(s) return 2 * s.hidden end

-- Forward reads x and writes y; backward reads x and dy, writes dx, and keeps fp32 statistics a row.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 8 },
  backward = { reads = 2, writes = 1, flops = 14 },
  extra = function(s) return 8.0 * s.tokens end,
  saved = 1,
})
op.reference = shapes.reference(op, { "b", "l", "dim" }, { "layernorm" })

return op
