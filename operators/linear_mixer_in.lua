--- Input projection of a state-space or linear-attention mixer, column-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"

--- Model FLOPs count B and C of Mamba-2 without the replicas of tensor ranks.
local function model_flops(s, c)
  local d = mixer.dims(c)
  return gemm.flops(s, "forward") * (1 - 2 * (d.replicas or 0) * (d.state or 0) / s.out_features)
end

return gemm.linear({ name = "linear_mixer_in",
  summary = "input projection of a state-space or linear-attention mixer", region = "enter",
  model_flops = model_flops },
  { place = "enter", inputs = "hidden", outputs = function(c) return mixer.dims(c).columns end, bias = mixer.bias })
