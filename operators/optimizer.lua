--- Adam over any set of parameters, as a plan gives it to one device.
local family = require "ett.operator.optimizer"
local int = require("ett.operator.shapes").int

local op = { name = "optimizer", aliases = { "adam" }, summary = "Adam update of the parameters of one device" }

-- Whole model on one device: embedding, layers, final norm, head.
family.stage(op, function(c)
  local vocab = require("ett.operator.shapes").local_vocab(c)
  return 2 * vocab * c.hidden + 2 * c.hidden, 4
end)

op.reference = {
  columns = { "num_layers", "hidden_size", "param_tensors", "params" }, names = { "optimizer" },
  shape = function(row)
    return { params = int(row.params), tensors = int(row.param_tensors), layers = int(row.num_layers),
      hidden = int(row.hidden_size) }
  end,
}

return op
