--- x + gate y, with a gate of each sample (adaptive layer norm of diffusion transformers: Peebles & Xie 2023, arXiv
--- 2212.09748). Forward reads x and y and writes their sum; backward reads y and the gradient and writes dy.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "gated_add", family = "elementwise", residual = true, adaptive = true,
  summary = "adds a block's output times a gate of each sample" }

op.schema = { tokens = "count", hidden = "count" }

function op.shape(c) return { tokens = shapes.norm_tokens(c), hidden = c.hidden } end

-- Stores y, for the gradient of the gate.
return memory.define(op, { forward = { reads = 2, writes = 1, flops = 2 },
  backward = { reads = 2, writes = 1, flops = 3 }, saved = 1 })
