--- Projects the concatenated residual stream and next token's embedding: multi-token prediction (DeepSeek-V3,
--- 2412.19437).
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_mtp", aliases = { "eh_proj" },
  summary = "multi-token prediction: projects stream and embedding" },
  { place = "outside", inputs = function(c) return 2 * c.hidden end, outputs = "hidden" })
