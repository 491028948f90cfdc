--- Input projection of a state-space or linear-attention mixer, column-parallel over tensor ranks.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_mixer_in", summary = "input projection of a state-space or linear-attention mixer" }

function op.shape(c)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = mixer.dims(c).columns,
    bias = c.ssm_bias and 1 or nil, stored_tokens = c.sequence_parallel and shapes.norm_tokens(c) or nil }
end

return gemm.define(op)
