--- Image patches to vectors: a convolution whose stride equals its width, hence one product (Dosovitskiy et al. 2021).
local gemm = require "ett.operator.gemm"
local shapes = require "ett.operator.shapes"

local op = { name = "patch_embedding", summary = "patches of an image as vectors" }

function op.shape(c)
  shapes.need(c, op.name, "patch_size")
  return { tokens = shapes.norm_tokens(c), in_features = (c.image_channels or 3) * c.patch_size * c.patch_size,
    out_features = c.hidden, bias = 1 }
end

return gemm.define(op)
