#!/usr/bin/env ett
-- An operator of your own: relu2.lua beside this script, used by its name in a list of operators.
-- Nothing is rebuilt and no list is edited. It has no samples, so its time is assumed from its bytes and marked as
-- assumed.
local ett = require "ett"

local model = ett.model.list(
  { "rms_norm", "linear_qkv", "rope", "flash_attention", "linear_proj", "residual_add",
    "rms_norm", "linear_up", "relu2", "linear_down", "residual_add" },
  { layers = 24, hidden = 2048, heads = 16, vocab = 50257 })
model.name = "primer"

return ett.estimate { model = model, cluster = "perlmutter",
  plan = { dp = 4, micro_batch = 4, micro_batches = 4, seq = 2048 } }
