--- The first product of a LoRA adapter: from the inputs of a frozen layer to the rank (Hu et al. 2021,
--- arXiv 2106.09685). ett.step.frozen computes the shape for each target layer.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "lora_a", summary = "LoRA adapter: product from inputs to the rank" },
  { place = "inside", inputs = "hidden", outputs = function(c) return c.lora_rank or 16 end })
