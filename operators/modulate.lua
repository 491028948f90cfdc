--- x (1 + scale) + shift, with a scale and a shift of each sample (adaptive layer norm of diffusion transformers:
--- Peebles & Xie 2023, arXiv 2212.09748). Forward reads x and writes y; backward reads x and dy and writes dx.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "modulate", family = "elementwise", adaptive = true, summary = "scale and shift of each sample" }

op.schema = { tokens = "count", hidden = "count" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Stores x, for the gradient of the scale.
return memory.define(op, { forward = { reads = 1, writes = 1, flops = 2 },
  backward = { reads = 2, writes = 1, flops = 4 }, saved = 1 })
