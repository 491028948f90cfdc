--- A small product beside a layer's blocks. The layer's entry states its sizes, side_in and side_out (Gemma 3n:
--- low-rank residuals, per-layer inputs, coefficients of alternating updates). Replicated on every tensor rank.
--- side_tied: the weights belong to another entry.
local gemm = require "ett.operator.gemm"
local merged = require "ett.base.merged"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_side", summary = "small product beside a layer's blocks, replicated" }

op.schema = merged(gemm.schema, { side_tied = "natural?" })

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), in_features = c.side_in or c.hidden, out_features = c.side_out or c.hidden,
    side_tied = c.side_tied and 1 or nil }
end

function op.parameters(s) return s.side_tied and 0 or gemm.parameters(s) end

op.model_flops = gemm.replicated_flops

return gemm.define(op)
