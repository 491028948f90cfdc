#!/usr/bin/env ett
-- Llama-3 8B on unlike nodes: the two stages on A100 have fewer layers than those on H100.
-- `split=8,8,8,8` gives all four stages as many.
local ett = require "ett"
local o = ett.options { split = { "list", default = { 12, 11, 5, 4 }, help = "layers of each of the four stages" } }

return ett.estimate {
  model = ett.model.new("llama", { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 128256 }),
  cluster = "both",
  plan = { pp = 4, tp = 8, seq = 4096, global_batch = 32, zero = 1, sequence_parallel = true, split = o.split },
}
