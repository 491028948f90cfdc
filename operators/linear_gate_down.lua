--- Compression of the residual stream to the two low-rank gates of Kimi delta attention: decays and output gate (arXiv
--- 2510.26692, section 4). Each tensor rank computes all of it.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_gate_down", summary = "compressed gates of Kimi delta attention" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = 2 * (c.linear_gate_rank or 128),
    stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

return gemm.define(op)
