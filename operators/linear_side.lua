--- A product of the entry's sizes, side_in and side_out (default hidden). Every tensor rank computes it whole.
--- Examples: small products beside a layer's blocks (Gemma 3n), of a condition (DiT), projectors. side_bias: it has
--- biases. side_tied: the weights belong to another entry.
local gemm = require "ett.operator.gemm"
local merged = require "ett.base.merged"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_side", summary = "product of the entry's sizes, whole on each tensor rank" }

op.schema = merged(gemm.schema, { side_tied = "natural?" })

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), in_features = c.side_in or c.hidden, out_features = c.side_out or c.hidden,
    bias = c.side_bias and 1 or nil, side_tied = c.side_tied and 1 or nil }
end

function op.parameters(s) return s.side_tied and 0 or gemm.parameters(s) end

op.model_flops = gemm.replicated_flops

return gemm.define(op)
