#!/usr/bin/env ett
-- A step of GPT-3 175B as Megatron-LM trained it on 64 A100: interleaved pipeline 8 x tensor 8.
-- With sequence parallelism and selective recomputation they measured 13.75 s, with recompute=full and
-- sequence_parallel=false 18.13 s (Korthikanti et al. 2022, table 5).
local ett = require "ett"

local o = ett.options {
  cluster = { "string", default = "dgx_a100", help = "cluster by name or file" },
  recompute = { "string", default = "selective", help = "none, selective or full" },
  sequence_parallel = { "boolean", default = true, help = "split norms and residuals over tensor ranks" },
  micro_batches = { "count", default = 64, help = "micro-batches per step" },
}

return ett.estimate {
  model = ett.model.new("gpt", { layers = 96, hidden = 12288, heads = 96, vocab = 51200, attention = "fused_softmax",
    dropout = true }),
  cluster = o.cluster,
  plan = {
    pp = 8, tp = 8, vp = 3, schedule = "interleaved", micro_batch = 1, micro_batches = o.micro_batches, seq = 2048,
    dtype = "fp16", gradient_dtype = "fp16", recompute = o.recompute, sequence_parallel = o.sequence_parallel,
    scatter_sends = not o.sequence_parallel,
  },
}
