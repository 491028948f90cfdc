--- Projects the concatenated residual stream and next token's embedding: multi-token prediction (DeepSeek-V3,
--- 2412.19437).
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_mtp", aliases = { "eh_proj" }, summary = "joins stream and next embedding" }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), in_features = 2 * c.hidden, out_features = c.hidden }
end

return gemm.define(op)
