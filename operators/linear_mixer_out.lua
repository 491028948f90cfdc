--- Output projection of a state-space or linear-attention mixer, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"

local function activation_bytes(s, dtype, stack)
  return mixer.whole(s, stack) and 0 or gemm.activation_bytes(s, dtype)
end

return mixer.linear({ name = "linear_mixer_out",
  summary = "output projection of a state-space or linear-attention mixer", region = "leave",
  activation_bytes = activation_bytes },
  { place = "inside", inputs = function(c) return mixer.dims(c).inner end, outputs = "hidden", bias = mixer.bias })
