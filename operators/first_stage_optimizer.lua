--- Adam over the first pipeline stage: embedding and encoder layers.
local family = require "ett.operator.optimizer"
local shapes = require "ett.operator.shapes"

local op = { name = "first_stage_optimizer", summary = "Adam update of the first pipeline stage" }

return family.stage(op, function(c) return shapes.local_vocab(c) * c.hidden, 1 end)
