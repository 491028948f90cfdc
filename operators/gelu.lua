--- Gaussian error linear unit, tanh form (Hendrycks & Gimpel 2016).
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "gelu", aliases = {}, family = "elementwise", summary = "Gaussian error linear unit" }

op.schema = { tokens = "count", width = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), width = shapes.local_ffn(c) } end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.width } end

-- Forward reads x and writes y; backward reads x and dy and writes dx.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 10 },
  backward = { reads = 2, writes = 1, flops = 16 },
  saved = 1,
})
op.reference = shapes.reference(op, { "mp", "b", "l", "dim" }, { "gelu" })

return op
