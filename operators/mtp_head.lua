--- The model's head, applied to the tokens of multi-token prediction with shared weights (DeepSeek-V3, section 2.2).
local gemm = require "ett.operator.gemm"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"

local op = { name = "mtp_head", summary = "shared projection to the vocabulary, multi-token prediction",
  unquantised = true }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = shapes.local_vocab(c),
    stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

--- The input, in 16 bits.
function op.activation_bytes(s, dtype) return gemm.activation_bytes(s, schema.wide(dtype)) end

function op.parameters() return 0 end

--- Model FLOPs count the vocabulary without padding rows.
function op.model_flops(s, c) return gemm.flops(s, "forward") * c.vocab / (shapes.local_vocab(c) * c.tp) end

return gemm.define(op)
