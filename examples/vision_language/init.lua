#!/usr/bin/env ett
-- Fine-tuning of LLaVA-1.5 7B on 8 H100: the vision tower is frozen, the projector and the language model are trained.
local ett = require "ett"

return ett.estimate {
  model = ett.model.new("llava", { layers = 32, hidden = 4096, heads = 32, ffn = 11008, vocab = 32000 }),
  cluster = "dgx_h100",
  plan = { dp = 8, micro_batch = 4, micro_batches = 4, seq = 2048, zero = 3, frozen_layers = 23 },
}
