--- Softmax over the keys.
local scores = require "ett.operator.scores"

local op = { name = "softmax", family = "softmax", summary = "softmax over the keys", selective = true }

-- Forward reads the scores and writes the probabilities; backward reads both and writes the scores' gradient.
scores.define(op, "softmax", {
  forward = { reads = 1, writes = 1, flops = 5 },
  backward = { reads = 2, writes = 1, flops = 4 },
  saved = 1,
})
scores.softmax(op)

op.torch = [[
x = tensor(s.batch, s.heads, s.seq_q, s.seq_k)
return lambda: F.softmax(x, -1)
]]

return op
