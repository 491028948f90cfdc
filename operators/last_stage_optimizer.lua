--- Adam over the last pipeline stage: encoder layers, final norm and head.
local family = require "ett.operator.optimizer"
local shapes = require "ett.operator.shapes"

local op = { name = "last_stage_optimizer", summary = "Adam update of the last pipeline stage" }

return family.stage(op, function(c) return (shapes.local_vocab(c) + 2) * c.hidden, 3 end)
