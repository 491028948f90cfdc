--- Vocabulary-parallel cross entropy over fp32 logits (Megatron; Shoeybi et al. 2019).
-- The reductions over tensor ranks (maximum, target logit, sum of exponents: one number a token
-- each) are collectives of the architecture, not of this operator.
local shapes = require "ett.operator.shapes"

local op = { name = "cross_entropy", aliases = { "parallel_cross_entropy_128", "parallel_cross_entropy" },
  family = "cross_entropy", summary = "cross entropy, vocabulary-parallel" }

op.schema = { tokens = "count", vocab = "count" }

function op.shape(c) return { tokens = shapes.tokens(c), vocab = shapes.local_vocab(c) } end

function op.features(s) return { s.tokens, s.vocab } end

function op.flops(s, pass) return (pass == "backward" and 3.0 or 6.0) * s.tokens * s.vocab end

--- Forward, in fp32: cast (2 + 4), maximum (4), subtract (8), exponent (8), sum (4), divide (8).
--- Backward: read and scale the kept probabilities (8) and cast the gradient (4 + 2).
function op.bytes(s, _, pass)
  return (pass == "backward" and 14.0 or 38.0) * s.tokens * s.vocab
end

--- Keeps the fp32 probabilities.
function op.activation_bytes(s) return 4.0 * s.tokens * s.vocab end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.vocab } end

op.reference = shapes.reference(op, { "mp", "b", "l" }, { "parallel_cross_entropy_128" })

return op
