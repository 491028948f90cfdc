--- Down projections of the experts on one rank, one product per expert.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "expert_linear2", aliases = { "grouped_linear2" }, family = "gemm",
  summary = "down projections of the local experts", experts = true, region = "leave" }

function op.shape(c)
  local experts, tokens, ffn = shapes.experts(c)
  return { batch = experts, tokens = tokens, in_features = ffn, out_features = c.hidden,
    bias = shapes.bias(c, "mlp_bias"), padded = c.mask_capacity and 1 or nil }
end

return gemm.define(op)
