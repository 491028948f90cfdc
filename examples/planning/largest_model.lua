#!/usr/bin/env ett
-- The largest dense model that trains at a given share of the peak on given devices: Llama's shape with more and more
-- layers.
local ett = require "ett"

local o = ett.options {
  cluster = { "string", default = "dgx_a100", help = "cluster by name or file" },
  devices = { "count", default = 32, help = "devices" },
  mfu = { "positive", default = 40, help = "least model FLOP/s, in percent of the peak" },
}

-- The shapes from the largest down; the first that passes is the answer.
for _, hidden in ipairs { 12288, 10240, 8192, 5120 } do
  for layers = hidden // 128 + 16, hidden // 128, -8 do
    local model = ett.model.new("llama", { layers = layers, hidden = hidden, heads = hidden // 128, kv_heads = 8,
      ffn = hidden * 7 // 2, vocab = 128256 })
    local s = ett.search { model = model, cluster = o.cluster, devices = o.devices, keep = 1,
      plan = { seq = 4096, global_batch = 256, cp = 1 }, where = "tp <= 8" }
    local best = s.best and s.best.estimate
    if best and best.mfu_percent >= o.mfu then
      return { layers = layers, hidden = hidden, parameters = best.model.parameters, mfu_percent = best.mfu_percent,
        plan = require("ett.search.text").plan(best.plan) }
    end
  end
end
