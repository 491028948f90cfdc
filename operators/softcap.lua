--- Soft cap c tanh(x / c) of logits or of attention scores (Gemma 2, arXiv 2408.00118), timed as one kernel.
local loss = require "ett.operator.loss"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "softcap", family = "elementwise", summary = "soft cap of logits or attention scores" }

op.schema = { tokens = "count", width = "count", scores = "natural?" }

--- scores: attention scores, batch * heads * seq rows of seq columns; else logits.
function op.shape(c)
  if not c.scores then return { tokens = shapes.tokens(c), width = shapes.local_vocab(c) } end
  local heads, _, rows = shapes.attention(c)
  return { tokens = c.micro_batch * heads * rows, width = c.seq, scores = 1 }
end

--- A loss that is compiled with the cap of the logits, or has it in its kernel (Liger), computes tanh again.
function op.inside(s, stack)
  local kernel = stack.cross_entropy
  return not s.scores and (kernel == "fused" or kernel == "compiled" or loss.kernels[kernel] or false)
end

-- Stores the result of tanh (modeling_gemma2.py).
memory.define(op, { columns = "width", forward = { reads = 1, writes = 1, flops = 8 },
  backward = { reads = 2, writes = 1, flops = 3 }, saved = 1 })

return op
