--- Gated short convolution: y = c * convolution(b * x) over a few tokens of each channel (LFM2, arXiv 2511.23404).
local memory = require "ett.operator.memory"
local mixer = require "ett.operator.mixer"

local op = { name = "short_conv", family = "elementwise",
  summary = "causal convolution of each channel between two gates" }

op.note = "timed by its bytes; no kernel of it was measured"
op.unmeasured = true

op.schema = { tokens = "count", channels = "count", taps = "count", bias = "natural?" }

function op.shape(c)
  local d = mixer.dims(c, "short_conv")
  return { tokens = mixer.tokens(c), channels = d.channels, taps = c.conv_kernel or 3, bias = d.convolution_bias }
end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.channels, taps = s.taps } end

--- One multiply-add per tap and two gates. Backward: gradients of inputs and taps, and two gradients of each gate.
function op.flops(s, pass)
  return (s.tokens + 0.0) * s.channels * (pass == "backward" and 4 * s.taps + 6 or 2 * s.taps + 2)
end

function op.parameters(s) return s.channels * (s.taps + (s.bias or 0)) end

-- Forward reads both gates and x, writes y. Backward also reads dy and writes three gradients.
return memory.define(op, { forward = { reads = 3, writes = 1 }, backward = { reads = 4, writes = 3 }, saved = 3 })
