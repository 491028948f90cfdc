#!/usr/bin/env ett
-- DiT-XL/2 on latents of 32 x 32 (256 tokens) with 8 H100 and the paper's batch of 256 images.
local ett = require "ett"

return ett.estimate {
  model = ett.model.new("dit", { layers = 28, hidden = 1152, heads = 16 }),
  cluster = "dgx_h100",
  plan = { dp = 8, micro_batch = 32, micro_batches = 1, seq = 256 },
}
