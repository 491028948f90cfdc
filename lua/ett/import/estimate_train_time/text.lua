--- The result of a reference composition as text for people.
local tables = require "ett.report.table"
local time = require("ett.report").time

---@param r table of ett.import.estimate_train_time.predict
---@return string
return function(r)
  local parts = { { "part", "ms", "%" } }
  for _, part in ipairs { { "pipeline", r.pipeline_us },
    { "gradient all-reduce of the first stage", r.head_dp_allreduce_us }, { "slowest update", r.max_update_us } } do
    parts[#parts + 1] = { part[1], ("%.3f"):format(part[2] / 1e3), ("%.1f"):format(100 * part[2] / r.total_us) }
  end
  local stages = { { "stage", "layers", "forward ms", "backward ms" } }
  for i, name in ipairs { "head", "middle", "tail" } do
    stages[#stages + 1] = { name, ("%d"):format(r.layers_head_middle_tail[i]),
      ("%.3f"):format(r.afab_stage_fwd_with_p2p[i] / 1e3), ("%.3f"):format(r.afab_stage_bwd_with_p2p[i] / 1e3) }
  end
  local text = ("step time  %s (reference composition)\n\n%s\n\n%s"):format(time(r.total_us / 1e6),
    tables.text(parts, "lrr"), tables.text(stages, "lrrr"))
  for _, warning in ipairs(r.warnings) do text = text .. "\nwarning: " .. warning end
  return text
end
