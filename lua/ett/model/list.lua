--- Layers from a plain list of operator names, such as the reference's encoder_function_list.
--
-- Tensor-parallel regions are found, not declared: one opens before a column-parallel linear
-- (linear_qkv, linear_up, expert_linear1) and closes after the row-parallel one that follows
-- (linear_proj, linear_down, expert_linear2); an exchange of tokens surrounds experts.
local blocks = require "ett.model.blocks"
local error_module = require "ett.base.error"
local operator = require "ett.operator"

local opens = { linear_qkv = true, linear_up = true, expert_linear1 = true }
local closes = { linear_proj = true, linear_down = true, expert_linear2 = true }
local core = { flash_attention = true, softmax = true, masked_softmax = true, fill_mask = true, bmm_qk = true,
  bmm_pv = true, dropout = true }

return function(names, hyper)
  if type(names) ~= "table" or #names == 0 then
    error_module.raise("model", "encoder_function_list must be a non-empty list of operator names")
  end
  local ops = {}
  for i, given in ipairs(names) do
    local name = error_module.wrap(("encoder_function_list: entry %d"):format(i), operator.canonical, given)
    if name == "expert_linear1" then ops[#ops + 1] = { collective = "expert_exchange" } end
    if opens[name] then ops[#ops + 1] = blocks.enter end
    ops[#ops + 1] = { op = name, selective = core[name] or false }
    if closes[name] then ops[#ops + 1] = blocks.leave end
    if name == "expert_linear2" then ops[#ops + 1] = { collective = "expert_exchange" } end
    if name == "layer_norm" or name == "rms_norm" then hyper.norm = hyper.norm or name end
  end
  hyper.position = hyper.position or "rope"
  return blocks.decoder(hyper, { name = "encoder", count = hyper.layers, ops = ops })
end
