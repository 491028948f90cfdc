--- Input projection of a state-space or linear-attention mixer, column-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"

return gemm.linear({ name = "linear_mixer_in",
  summary = "input projection of a state-space or linear-attention mixer" },
  { place = "enter", inputs = "hidden", outputs = function(c) return mixer.dims(c).columns end, bias = mixer.bias })
