--- Decays and output gate of Kimi delta attention, two products of the compressed gates (arXiv 2510.26692, section 4).
--- Column-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_gate_up", summary = "decays and output gate of Kimi delta attention" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.linear_gate_rank or 128,
    out_features = mixer.dims(c, "gated_delta").inner, batch = 2 }
end

return gemm.define(op)
