--- Output projection of a state-space or linear-attention mixer, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"

return gemm.linear({ name = "linear_mixer_out",
  summary = "output projection of a state-space or linear-attention mixer", region = "leave" },
  { place = "inside", inputs = function(c) return mixer.dims(c).inner end, outputs = "hidden", bias = mixer.bias })
