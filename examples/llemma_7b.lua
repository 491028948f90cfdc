#!/usr/bin/env ett
-- A training step of Llemma-7B (Azerbayev et al. 2023) as GPT-NeoX runs it on Perlmutter.
-- A GPT layer with RMS norms, rotary positions and fused attention; pipeline 4 x tensor 2 x data 2.
local ett = require "ett"

local o = ett.options {
  cluster = { "string", default = "perlmutter", help = "cluster by name or file" },
  pp = { "degree", default = 4, help = "pipeline stages" },
  tp = { "degree", default = 2, help = "tensor-parallel ranks" },
  dp = { "degree", default = 2, help = "data-parallel replicas" },
  micro_batch = { "count", default = 4, help = "sequences of one micro-batch" },
  micro_batches = { "count", default = 8, help = "micro-batches per step" },
  seq = { "count", default = 4096, help = "tokens of a sequence" },
  schedule = { "string", default = "1f1b", help = "gpipe, 1f1b, interleaved or a file of lua/schedules" },
  recompute = { "string", default = "full", help = "none, selective or full" },
}

local model = ett.model.list(
  { "rms_norm", "linear_qkv", "rope", "flash_attention", "linear_proj", "residual_add",
    "rms_norm", "linear_up", "gelu", "linear_down", "residual_add" },
  { layers = 32, hidden = 4096, heads = 32, ffn = 16384, vocab = 50257 })
model.name = "Llemma-7B"

-- DeepSpeed splits the list of modules, which includes embedding and head: 8, 9, 9 and 6 layers.
local split = o.schedule ~= "interleaved" and ett.plan.deepspeed_split(32, o.pp) or nil

return ett.estimate {
  model = model,
  cluster = o.cluster,
  plan = {
    pp = o.pp, tp = o.tp, dp = o.dp, micro_batch = o.micro_batch, micro_batches = o.micro_batches, seq = o.seq,
    schedule = o.schedule, recompute = o.recompute, dtype = "fp16", zero = 1, gradient_dtype = "fp16",
    bucket_bytes = 2.52e9, scatter_sends = true, serial_sends = true, split = split,
  },
}
