--- The second product of a LoRA adapter: from the rank to the outputs of a frozen layer (Hu et al. 2021,
--- arXiv 2106.09685). ett.step.frozen computes the shape for each target layer.
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "lora_b", summary = "LoRA adapter: product from the rank to outputs" },
  { place = "inside", inputs = function(c) return c.lora_rank or 16 end, outputs = "hidden" })
