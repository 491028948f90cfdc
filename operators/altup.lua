--- Alternating updates of parallel residual streams (Baykal et al. 2023, arXiv 2301.13310): each stream is predicted
--- from all of them, and corrected by the layer's output. linear_side computes the coefficients.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "altup", family = "elementwise", summary = "alternating updates of residual streams" }

op.note = "timed by its bytes; no kernel of it was measured"
op.unmeasured = true

op.schema = { tokens = "count", hidden = "count", streams = "count" }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), hidden = c.hidden, streams = c.altup_streams or 2 }
end

-- A multiply-add for each pair of streams, then one for each stream; backward computes gradients of both factors.
function op.flops(s, pass)
  return (pass == "backward" and 4.0 or 2.0) * s.tokens * s.hidden * s.streams * (s.streams + 1)
end

-- Prediction reads and writes all streams; so does correction, which also reads the layer's output. Backward reads the
-- gradients, too.
function op.bytes(s, dtype, pass)
  local rows = pass == "backward" and 6.0 * s.streams + 2 or 4.0 * s.streams + 1
  return memory.width(dtype) * rows * s.tokens * s.hidden
end

--- The scale of the corrected stream.
function op.parameters(s) return s.hidden end

--- Stores the streams before both steps.
function op.activation_bytes(s, dtype) return memory.width(dtype) * 2.0 * s.streams * s.tokens * s.hidden end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.hidden, streams = s.streams } end

return op
