--- Vocabulary-parallel token embedding: each tensor rank looks up the rows it holds.
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "embedding", aliases = {}, family = "embedding",
  summary = "token embedding, vocabulary-parallel" }

op.schema = { tokens = "count", vocab = "count", hidden = "count" }

function op.shape(c)
  return { tokens = shapes.tokens(c), vocab = shapes.local_vocab(c), hidden = c.hidden }
end

function op.features(s) return { s.tokens, s.vocab, s.hidden } end

--- A lookup does no arithmetic; the backward pass adds each token's gradient to its row.
function op.flops(s, pass) return pass == "backward" and 1.0 * s.tokens * s.hidden or 0.0 end

--- Forward reads and writes one row a token. Backward clears the dense gradient of the table,
--- then reads, adds and writes one row a token.
function op.bytes(s, dtype, pass)
  local rows = width(dtype) * (s.tokens + 0.0) * s.hidden
  if pass == "backward" then return 3 * rows + width(dtype) * (s.vocab + 0.0) * s.hidden end
  return 2 * rows + 8.0 * s.tokens
end

function op.parameters(s) return s.vocab * s.hidden end
function op.activation_bytes(s) return 8.0 * s.tokens end
function op.kernel_shape(s) return { rows = s.tokens, cols = s.hidden, vocab = s.vocab } end

op.reference = shapes.reference(op, { "mp", "b", "l", "dim" }, { "embedding" })

return op
