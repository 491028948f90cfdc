--- Layers from a plain list of operator names (an encoder_function_list).
--
-- An operator declares whether a tensor-parallel region opens before it or closes behind it (`region`), whether it
-- holds experts and whether selective recomputation runs it again. An exchange of tokens surrounds the experts.
local blocks = require "ett.model.blocks"
local error_module = require "ett.base.error"
local operator = require "ett.operator"

return function(names, hyper)
  if type(names) ~= "table" or #names == 0 then
    error_module.raise("model", "encoder_function_list must be a non-empty list of operator names")
  end
  local ops = {}
  for i, given in ipairs(names) do
    local op = error_module.wrap(("encoder_function_list: entry %d"):format(i), operator.get, given)
    local exchange = op.experts and { collective = "expert_exchange" } or nil
    if op.region == "enter" then blocks.append(ops, exchange, blocks.enter) end
    ops[#ops + 1] = { op = op.name, selective = op.selective or false }
    if op.region == "leave" then blocks.append(ops, blocks.leave, exchange) end
    if op.family == "norm" then hyper.norm = hyper.norm or op.name end
  end
  hyper.position = hyper.position or "rope"
  return blocks.decoder(hyper, { name = "encoder", count = hyper.layers, ops = ops })
end
