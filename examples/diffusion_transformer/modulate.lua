--- x (1 + scale) + shift, with a scale and a shift of each image. In 16 bits: forward reads x and writes y; backward
--- reads x and dy and writes dx.
local shapes = require "ett.operator.shapes"
local op = { name = "modulate", summary = "scale and shift of each image",
  schema = { tokens = "count", width = "count" } }
function op.shape(c) return { tokens = shapes.norm_tokens(c), width = c.hidden } end
function op.flops(s, pass) return (pass == "backward" and 4.0 or 2.0) * s.tokens * s.width end
function op.bytes(s, _, pass) return (pass == "backward" and 6.0 or 4.0) * s.tokens * s.width end
function op.activation_bytes(s) return 2.0 * s.tokens * s.width end -- x, for the gradient of the scale
return op
