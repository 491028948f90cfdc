--- Image patches to vectors: a convolution whose stride equals its width, hence one product (Dosovitskiy et al. 2021).
local gemm = require "ett.operator.gemm"

return gemm.linear({ name = "patch_embedding", summary = "embedding of image patches" },
  { place = "outside", needs = { "patch_size" }, outputs = "hidden", bias = 1,
    inputs = function(c) return (c.image_channels or 3) * c.patch_size * c.patch_size end })
