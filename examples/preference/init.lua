#!/usr/bin/env ett
-- DPO of Llama 3 8B on 8 H100. A pair has a chosen and a rejected sequence, so a micro-batch of two pairs is four.
local ett = require "ett"

return ett.estimate {
  model = ett.model.new("with_reference", { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336,
    vocab = 128256 }),
  cluster = "dgx_h100",
  plan = { dp = 8, micro_batch = 4, micro_batches = 4, seq = 1024, zero = 3, recompute = "full",
    stack = "transformers_fsdp" },
}
