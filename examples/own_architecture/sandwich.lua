--- An architecture of your own: a llama layer with a norm on either side of each block (as Gemma 2 has), and a wide
--- layer after every `wide_every` of them. Fields of its own are declared in `schema`.
local blocks = require "ett.model.blocks"

local function layer(hyper, ffn)
  local with = { ffn = ffn }
  return blocks.join("rms_norm", blocks.enter, blocks.attention(hyper), blocks.leave, "rms_norm", "residual_add",
    "rms_norm", blocks.enter, { op = "linear_up", with = with }, { op = "swiglu", with = with },
    { op = "linear_down", with = with }, blocks.leave, "rms_norm", "residual_add")
end

return {
  schema = { wide_every = "count", wide_ffn = "count" },
  build = function(hyper)
    hyper.norm, hyper.position, hyper.gated_mlp = "rms_norm", "rope", true
    local layers = {}
    for i = 1, hyper.layers do
      local wide = i % hyper.wide_every == 0
      layers[i] = { name = wide and "wide" or "plain", count = 1,
        ops = layer(hyper, wide and hyper.wide_ffn or hyper.ffn) }
    end
    return blocks.decoder(hyper, table.unpack(layers))
  end,
}
