--- x + gate y, with a gate of each image. In 16 bits: forward reads x and y and writes their sum; backward reads y and
--- the gradient and writes dy.
local shapes = require "ett.operator.shapes"
local op = { name = "gated_add", summary = "adds a gated block", residual = true,
  schema = { tokens = "count", width = "count" } }
function op.shape(c) return { tokens = shapes.norm_tokens(c), width = c.hidden } end
function op.flops(s, pass) return (pass == "backward" and 3.0 or 2.0) * s.tokens * s.width end
function op.bytes(s) return 6.0 * s.tokens * s.width end
function op.activation_bytes(s) return 2.0 * s.tokens * s.width end -- y, for the gradient of the gate
return op
