--- Mamba's projection of x to B, C and the compressed time step (Gu & Dao 2023, section 3.2). Row-parallel: x is
--- sharded.
local gemm = require "ett.operator.gemm"
local mixer = require "ett.operator.mixer"

local function outputs(c)
  local d = mixer.dims(c, "mamba")
  return d.rank + 2 * d.state
end

local function activation_bytes(s, dtype, stack)
  return mixer.whole(s, stack) and 0 or gemm.activation_bytes(s, dtype)
end

return mixer.linear({ name = "linear_ssm_x", aliases = { "x_proj" },
  summary = "Mamba: projects x to B, C and the compressed time step", region = "sum",
  activation_bytes = activation_bytes },
  { place = "inside", inputs = function(c) return mixer.dims(c, "mamba").inner end, outputs = outputs })
