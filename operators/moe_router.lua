--- Router of a mixture of experts: fp32 scores, top-k choice and the permutation of tokens.
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "moe_router", aliases = { "router", "moe" }, family = "router",
  summary = "expert scores, top-k and token permutation" }

op.schema = { tokens = "count", hidden = "count", experts = "count", top_k = "count" }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), hidden = c.hidden, experts = c.experts, top_k = c.top_k }
end

function op.features(s) return { s.tokens, s.hidden, s.experts, s.top_k } end

function op.flops(s, pass)
  local scores = 2.0 * s.tokens * s.hidden * s.experts
  return (pass == "backward" and 2.0 or 1.0) * (scores + 8.0 * s.tokens * s.experts)
end

--- Tokens read for the scores, then gathered into expert order (read once, written top_k times)
--- and, after the experts, scattered back (read top_k times, written once).
function op.bytes(s, dtype, pass)
  local row = (s.tokens + 0.0) * s.hidden * width(dtype)
  local moves = row * (1 + 2 * (1 + s.top_k))
  return (pass == "backward" and 1.5 or 1.0) * (moves + 4.0 * 4 * s.tokens * s.experts)
end

function op.parameters(s) return s.hidden * s.experts end

--- Keeps its input, the fp32 probabilities, and top_k copies of each token in expert order.
function op.activation_bytes(s, dtype)
  return (s.tokens + 0.0) * s.hidden * width(dtype) * (1 + s.top_k) + 4.0 * s.tokens * s.experts
end

function op.kernel_shape(s)
  return { rows = s.tokens, cols = s.hidden, experts = s.experts, top_k = s.top_k }
end

return op
