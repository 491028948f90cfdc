--- Up (and gate) projections of the experts on one rank, one product per expert.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "expert_linear1", aliases = { "grouped_linear1" }, family = "gemm",
  summary = "up (and gate) projections of the local experts", experts = true, region = "enter" }

function op.shape(c)
  local experts, tokens, ffn = shapes.experts(c)
  return { batch = experts, tokens = tokens, in_features = c.hidden, out_features = ffn * (c.gated_mlp and 2 or 1),
    bias = shapes.bias(c, "mlp_bias"), padded = c.mask_capacity and 1 or nil,
    separate = c.separate_gates and c.gated_mlp and not c.mask_capacity and 1 or nil }
end

function op.parts(c)
  local _, _, ffn = shapes.experts(c)
  return c.gated_mlp and { ffn, ffn } or {}
end

return gemm.define(op)
