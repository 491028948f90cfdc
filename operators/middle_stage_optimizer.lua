--- Adam over a middle pipeline stage: encoder layers only.
local family = require "ett.operator.optimizer"

local op = { name = "middle_stage_optimizer", summary = "Adam update of the middle pipeline stage" }

return family.stage(op, function() return 0, 0 end)
