--- T5's relative position bias (Raffel et al. 2020, section 2.1): one number per head and distance bucket. The first
--- layer of a stack computes the bias of the scores; all other layers reuse it.
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "relative_position_bias", family = "embedding", summary = "T5's relative position bias of scores" }

op.schema = { heads = "count", buckets = "count", seq_q = "count", seq_k = "count" }

function op.shape(c)
  return { heads = shapes.local_heads(c), buckets = c.relative_buckets or 32,
    seq_q = shapes.divide("seq", c.seq, "cp", c.cp or 1), seq_k = c.seq }
end

local function scores(s) return (s.heads + 0.0) * s.seq_q * s.seq_k end

--- Backward sums the gradients of all scores per bucket.
function op.flops(s, pass) return pass == "backward" and scores(s) or 0.0 end
function op.bytes(s, dtype) return scores(s) * width(dtype) + 8.0 * s.seq_q * s.seq_k end
function op.parameters(s) return s.heads * s.buckets end
function op.activation_bytes(s, dtype) return scores(s) * width(dtype) end
function op.kernel_shape(s) return { rows = s.seq_q * s.seq_k, cols = s.heads } end

return op
