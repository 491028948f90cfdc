#!/usr/bin/env ett
-- A step of Mixtral 8x7B on 64 H100: eight experts over eight ranks, two of them for each token.
local ett = require "ett"

local o = ett.options {
  cluster = { "string", default = "dgx_h100", help = "cluster by name or file" },
  ep = { "degree", default = 8, help = "expert-parallel ranks, inside dp" },
  pp = { "degree", default = 4, help = "pipeline stages" },
  dp = { "degree", default = 16, help = "data-parallel replicas" },
  dtype = { "string", default = "bf16", help = "bf16 or fp8" },
}

return ett.estimate {
  model = ett.model.new("mixtral", { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336,
    vocab = 32000, experts = 8, top_k = 2 }),
  cluster = o.cluster,
  plan = {
    pp = o.pp, dp = o.dp, ep = o.ep, micro_batch = 1, micro_batches = 16, seq = 4096, dtype = o.dtype, zero = 1,
    overlap_gradients = true, overlap_parameters = true, recompute = "selective",
  },
}
