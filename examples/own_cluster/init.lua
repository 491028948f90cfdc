#!/usr/bin/env ett
-- A cluster of your own: lab.lua beside this script.
-- `ett predict --cluster lab.lua ...` uses the same file.
local ett = require "ett"

return ett.estimate {
  model = ett.model.new("llama", { layers = 22, hidden = 2048, heads = 32, kv_heads = 4, ffn = 5632, vocab = 32000 }),
  cluster = "lab",
  plan = { dp = 8, micro_batch = 4, micro_batches = 8, seq = 2048, zero = 1, overlap_gradients = true },
}
