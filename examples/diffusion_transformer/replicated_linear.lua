--- A linear layer that every tensor rank computes whole; entries of the architecture set `inputs` and `outputs`.
local gemm = require "ett.operator.gemm"
return gemm.linear({ name = "replicated_linear", summary = "linear layer, whole on each tensor rank" },
  { place = "outside", inputs = "inputs", outputs = "outputs", bias = 1 })
