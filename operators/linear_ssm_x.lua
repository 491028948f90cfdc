--- Mamba's projection of x to B, C and the compressed time step (Gu & Dao 2023, section 3.2). Row-parallel: x is
--- sharded.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local op = { name = "linear_ssm_x", aliases = { "x_proj" }, summary = "Mamba's projection to B, C and the step" }

function op.shape(c)
  local d = mixer.dims(c, "mamba")
  return { tokens = shapes.tokens(c), in_features = d.inner, out_features = d.rank + 2 * d.state }
end

return gemm.define(op)
