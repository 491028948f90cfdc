--- The model's head, applied to the tokens of multi-token prediction with shared weights (DeepSeek-V3, section 2.2).
local gemm = require "ett.operator.gemm"
local loss = require "ett.operator.loss"
local merged = require "ett.base.merged"
local shapes = require "ett.operator.shapes"

local op = { name = "mtp_head", summary = "shared projection to the vocabulary, multi-token prediction",
  unquantised = true,
  chunk = loss.chunk, repeats = loss.repeats, working_bytes = loss.head_bytes }

-- tied: the head's weights are the embedding's.
op.schema = merged(gemm.schema, { tied = "natural?" })

function op.parameters() return 0 end

--- Model FLOPs count the vocabulary without padding rows.
function op.model_flops(s, c) return gemm.flops(s, "forward") * c.vocab / (shapes.local_vocab(c) * c.tp) end

gemm.linear(op, { place = "enter", inputs = "hidden", outputs = shapes.local_vocab })

local shape = op.shape
function op.shape(c) return merged(shape(c), { tied = c.tied_embeddings and 1 or nil }) end

return op
