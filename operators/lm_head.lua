--- Projection to the vocabulary, column-parallel. A tied head has no parameters beyond the embedding's.
local gemm = require "ett.operator.gemm"
local loss = require "ett.operator.loss"
local shapes = require "ett.operator.shapes"

local op = { name = "lm_head", summary = "projection to the vocabulary, column-parallel", unquantised = true,
  chunk = loss.chunk, repeats = loss.repeats, working_bytes = loss.head_bytes }

op.schema = { tokens = "count", in_features = "count", out_features = "count", bias = "natural?",
  stored_tokens = "count?", batch = "count?", tied = "natural?" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = shapes.local_vocab(c),
    bias = c.head_bias and 1 or nil, stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil,
    tied = c.tied_embeddings and 1 or nil }
end

--- Model FLOPs count the vocabulary without padding rows.
function op.model_flops(s, c) return gemm.flops(s, "forward") * c.vocab / (shapes.local_vocab(c) * c.tp) end

function op.parameters(s) return s.tied and (s.bias or 0) * s.out_features or gemm.parameters(s) end

return gemm.define(op)
