#!/usr/bin/env ett
-- An architecture of your own: sandwich.lua beside this script, with hyper-parameters that it declares itself.
local ett = require "ett"

return ett.estimate {
  model = ett.model.new("sandwich", { layers = 24, hidden = 3072, heads = 24, kv_heads = 8, ffn = 8192, vocab = 128256,
    wide_every = 6, wide_ffn = 16384 }),
  cluster = "dgx_h100",
  plan = { tp = 2, pp = 2, dp = 4, micro_batch = 2, micro_batches = 16, seq = 4096, zero = 1 },
}
