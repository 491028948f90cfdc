--- Output projection of a state-space or linear-attention mixer, row-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_mixer_out", summary = "output projection of a state-space or linear-attention mixer" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = mixer.dims(c).inner, out_features = c.hidden,
    bias = c.ssm_bias and 1 or nil }
end

return gemm.define(op)
