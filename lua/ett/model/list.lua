--- Layers from a plain list of operator names (an encoder_function_list).
--
-- The `region` of an operator file says whether a tensor-parallel region opens before it or closes after it, or ranks
-- add its results. The file also says whether it holds experts; an all-to-all exchange encloses them.
local blocks = require "ett.model.blocks"
local error_module = require "ett.base.error"
local mixers = require "ett.model.mixers"
local operator = require "ett.operator"

--- Whether the list has a gated activation such as swiglu; the linear before it then has twice the width.
local function set_gate(ops, hyper)
  for _, entry in ipairs(ops) do
    local op = entry.op and operator.get(entry.op)
    if op and op.gated then
      if hyper.gated_mlp == false then
        error_module.raise("model", "encoder_function_list: '%s' is gated, which contradicts %s", op.name,
          hyper.activation == "gelu" and "activation = 'gelu'" or "gated_mlp = false")
      end
      hyper.gated_mlp = true
    end
  end
end

--- usual_norm: the final norm if neither the hyper-parameters nor the list name one.
return function(names, hyper, usual_norm)
  if type(names) ~= "table" or #names == 0 then
    error_module.raise("model", "encoder_function_list must be a non-empty list of operator names")
  end
  local ops, width = {}, nil -- width: of activations between products of experts
  for i, given in ipairs(names) do
    local op = error_module.wrap(("encoder_function_list: entry %d"):format(i), operator.get, given)
    local exchange = op.experts and { collective = "expert_exchange" } or nil
    if op.region == "enter" then blocks.append(ops, exchange, blocks.enter) end
    if op.experts then width = op.region == "enter" and blocks.expert_width(hyper) or nil end
    ops[#ops + 1] = { op = op.name, with = not op.experts and width or nil }
    if op.region == "leave" then blocks.append(ops, blocks.leave, exchange) end
    if op.region == "sum" then blocks.append(ops, mixers.sums()) end
    if op.family == "norm" then hyper.norm = hyper.norm or op.name end
  end
  hyper.norm = hyper.norm or usual_norm
  set_gate(ops, hyper)
  hyper.position = hyper.position or "rope"
  return blocks.decoder(hyper, { name = "encoder", count = hyper.layers, ops = ops })
end
