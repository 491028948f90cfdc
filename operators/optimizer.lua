--- Adam over the parameters that a plan assigns to one device.
local family = require "ett.operator.optimizer"
local shapes = require "ett.operator.shapes"

local op = { name = "optimizer", aliases = { "adam" }, summary = "Adam update of the parameters of one device" }

-- Whole model on one device: embedding, layers, final norm, head.
family.stage(op, function(c)
  local vocab = shapes.local_vocab(c)
  return 2 * vocab * c.hidden + 2 * c.hidden, 4
end)

return op
