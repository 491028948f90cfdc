#!/usr/bin/env ett
-- The sequence length from which context parallelism is faster than recomputation: the best plan of each kind, by
-- sequence.
local ett = require "ett"

local o = ett.options {
  model = { "string", default = "llama3-8b", help = "model by name" },
  cluster = { "string", default = "dgx_h100", help = "cluster by name or file" },
  devices = { "count", default = 32, help = "devices" },
  batch_tokens = { "count", default = 1048576, help = "tokens of a step" },
}

local rows = {}
for _, seq in ipairs { 8192, 32768, 131072 } do
  local row = { seq = seq }
  for name, where in pairs { context = "recompute == 'none'", recompute = "cp == 1 and recompute ~= 'none'" } do
    local s = ett.search { model = ett.model.new(o.model), cluster = o.cluster, devices = o.devices, keep = 1,
      where = where, plan = { seq = seq, global_batch = o.batch_tokens // seq } }
    row[name .. "_seconds"] = s.rows[1] and s.rows[1].step_seconds
    row[name .. "_cp"] = s.rows[1] and s.rows[1].cp
  end
  if (row.context_seconds or math.huge) >= (row.recompute_seconds or math.huge) then
    row.better = "recompute"
  else
    row.better = row.context_cp > 1 and "context" or "neither"
  end
  rows[#rows + 1] = row
end
return rows
