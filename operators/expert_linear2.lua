--- Down projections of the experts on one rank, one product an expert.
-- Routing is taken as balanced: each rank's experts together see as many token copies as the
-- rank sent out, top_k for each of its tokens.
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "expert_linear2", aliases = { "grouped_linear2" }, family = "gemm",
  summary = "down projections of the local experts", experts = true, region = "leave" }

function op.shape(c)
  local etp = c.etp or c.tp
  local experts = shapes.divide("experts", c.experts, "ep", c.ep or 1)
  local ffn = shapes.divide("moe_ffn", c.moe_ffn or c.ffn, "etp", etp)
  -- Copies per tensor group of experts: a group of etp ranks shares its tokens.
  local copies = shapes.tokens(c) * c.top_k * etp // c.tp
  return { batch = experts, tokens = math.max(1, (copies + experts - 1) // experts),
    in_features = ffn, out_features = c.hidden, bias = shapes.bias(c, "mlp_bias") }
end

return gemm.define(op)
