--- The model's head, applied to the tokens of multi-token prediction with shared weights (DeepSeek-V3, section 2.2).
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "mtp_head", summary = "shared projection to the vocabulary, multi-token prediction",
  unquantised = true }

function op.parameters() return 0 end

--- Model FLOPs count the vocabulary without padding rows.
function op.model_flops(s, c) return gemm.flops(s, "forward") * c.vocab / (shapes.local_vocab(c) * c.tp) end

return gemm.linear(op, { place = "enter", inputs = "hidden", outputs = shapes.local_vocab })
