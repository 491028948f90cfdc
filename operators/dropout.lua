--- Dropout of attention probabilities or of a block's output, with a byte mask.
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "dropout", aliases = { "attention_dropout" }, family = "elementwise",
  summary = "dropout with a byte mask, over the attention probabilities" }

op.schema = { rows = "count", cols = "count" }

--- Attention probabilities: batch * heads * seq rows of seq columns.
function op.shape(c)
  local seq = shapes.divide("seq", c.seq, "cp", c.cp or 1)
  return { rows = c.micro_batch * shapes.local_heads(c) * seq, cols = c.seq }
end

function op.kernel_shape(s) return { rows = s.rows, cols = s.cols } end

-- Ten operations of the counter-based generator (Philox) an element.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 12 },
  backward = { reads = 1, writes = 1, flops = 2 },
  extra = function(s) return s.rows * (s.cols + 0.0) end,
  saved = 1,
  saved_extra = function(s) return s.rows * (s.cols + 0.0) end,
})

return op
