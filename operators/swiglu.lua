--- Gated activation silu(gate) * up (Shazeer 2020); width is that of the output.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "swiglu", aliases = { "silu_mul", "geglu" }, family = "elementwise",
  summary = "gated activation silu(gate) * up" }

op.schema = { tokens = "count", width = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), width = shapes.local_ffn(c) } end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.width } end

-- Forward reads gate and up and writes y; backward reads gate, up and dy and writes both gradients.
memory.define(op, {
  forward = { reads = 2, writes = 1, flops = 6 },
  backward = { reads = 3, writes = 2, flops = 14 },
  saved = 2,
})

return op
