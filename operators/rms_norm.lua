--- Root-mean-square normalisation over the hidden dimension (Zhang & Sennrich 2019).
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "rms_norm", aliases = { "RMSlayernorm", "rmsnorm" }, family = "norm",
  summary = "root-mean-square normalisation" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

function op.parameters(s) return s.hidden end

-- Forward reads x and writes y; backward reads x and dy, writes dx, and keeps fp32 statistics a row.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 4 },
  backward = { reads = 2, writes = 1, flops = 8 },
  extra = function(s) return 8.0 * s.tokens end,
  saved = 1,
})
op.reference = shapes.reference(op, { "b", "l", "dim" }, { "RMSlayernorm" })

return op
