--- A second lookup in the model's embedding table: the next tokens of multi-token prediction (DeepSeek-V3, section
--- 2.2), or the encoder's tokens of T5.
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "shared_embedding", family = "embedding",
  summary = "second lookup in the model's embedding table" }

-- copied: rows of the copy on the last pipeline stage. tied: the table is the embedding's; no copy on a single stage.
op.schema = { tokens = "count", vocab = "count", hidden = "count", copied = "count?", tied = "natural?" }

function op.shape(c)
  local vocab = shapes.local_vocab(c)
  return { tokens = shapes.tokens(c), vocab = vocab, hidden = c.hidden, copied = c.copied and vocab or nil,
    tied = 1 }
end

function op.parameters(s) return s.tied and 0 or (s.copied or 0) * s.hidden end
function op.flops(s, pass) return pass == "backward" and 1.0 * s.tokens * s.hidden or 0.0 end

--- Forward reads and writes one row per token; backward reads, adds and writes it.
function op.bytes(s, dtype, pass)
  local rows = width(dtype) * (s.tokens + 0.0) * s.hidden
  return pass == "backward" and 3 * rows or 2 * rows + 8.0 * s.tokens
end

function op.activation_bytes(s) return 8.0 * s.tokens end
function op.kernel_shape(s) return { rows = s.tokens, cols = s.hidden, vocab = s.vocab, whole_vocab = s.vocab } end

return op
