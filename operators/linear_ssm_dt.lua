--- Mamba's expansion of the compressed time step to one step per channel, with a bias (Gu & Dao 2023, section 3.6).
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_ssm_dt", aliases = { "dt_proj" }, summary = "Mamba's expansion of the step to channels" }

function op.shape(c)
  local d = mixer.dims(c, "mamba")
  return { tokens = shapes.tokens(c), in_features = d.rank, out_features = d.inner, bias = 1 }
end

return gemm.define(op)
