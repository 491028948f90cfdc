--- RMS norm of a scan's output, gated by silu(z) (Mamba-2, gated delta net), inside the tensor-parallel region.
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"

local op = { name = "gated_norm", family = "norm", summary = "RMS norm of a scan's output, gated" }

op.schema = { tokens = "count", hidden = "count", gains = "count" }

--- gains: one per channel (Mamba-2), or one set for all heads (gated delta net).
function op.shape(c)
  local d = mixer.dims(c)
  return { tokens = mixer.tokens(c), hidden = d.inner, gains = d.value_dim or d.inner }
end

function op.parameters(s) return s.gains end

-- Forward reads x and z, writes y; backward reads x, z and dy, writes both gradients.
memory.define(op, { forward = { reads = 2, writes = 1, flops = 9 }, backward = { reads = 3, writes = 2, flops = 20 },
  saved = 2 })

return op
