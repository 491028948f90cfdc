--- A square linear layer outside tensor parallelism: BERT's pooler and the transform of its language-model head.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "linear_transform", summary = "square linear layer of the stream's width, replicated" },
  { place = "outside", inputs = "hidden", outputs = "hidden", bias = 1 })
