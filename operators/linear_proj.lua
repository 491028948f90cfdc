--- Attention output projection, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"

--- The input in 16 bits: attention stores the same tensor for its own backward pass, so a quantised copy would come on
--- top (Megatron-Core, attention.py: set_save_original_input).
local function activation_bytes(s, dtype) return gemm.activation_bytes(s, schema.wide(dtype)) end

return gemm.linear({ name = "linear_proj", summary = "attention output projection, row-parallel", region = "leave",
  activation_bytes = activation_bytes },
  { place = "inside", inputs = function(c) return shapes.local_heads(c) * shapes.head_dim(c) end, outputs = "hidden",
    bias = { "attention_bias" } })
