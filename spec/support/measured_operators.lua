--- Operators that back ends can run (those with a `kernel`), and the fields that their shapes need besides a decoder's
-- configuration.
local operator = require "ett.operator"

local measured = {}

--- Every bundled operator with a kernel.
function measured.list()
  local list = {}
  for _, op in ipairs(operator.list()) do if op.kernel then list[#list + 1] = op end end
  return list
end

--- Small values for the fields of mixers, images and indexers.
measured.fields = { linear_key_heads = 2, linear_value_heads = 4, linear_key_dim = 16, linear_value_dim = 16,
  patch_size = 4, index_heads = 16, index_head_dim = 16, index_top_k = 8, moe_latent = 16,
  conv_in = 8, conv_out = 16, conv_outputs = 64, conv_size = 9 }

--- A configuration with these fields.
function measured.configuration(c)
  for name, value in pairs(measured.fields) do c[name] = value end
  return c
end

return measured
