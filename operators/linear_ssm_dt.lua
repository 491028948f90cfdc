--- Mamba's expansion of the compressed time step to one step per channel, with a bias (Gu & Dao 2023, section 3.6).
local mixer = require "ett.operator.mixer"

return mixer.linear({ name = "linear_ssm_dt", aliases = { "dt_proj" },
  summary = "Mamba: expands the compressed time step to channels",
  repeats = mixer.whole },
  { place = "inside", bias = 1, inputs = function(c) return mixer.dims(c, "mamba").rank end,
    outputs = function(c) return mixer.dims(c, "mamba").inner end })
