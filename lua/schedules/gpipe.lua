--- All forward, then all backward (Huang et al. 2019, GPipe). C computes the
--- same orders itself (runtime/step/pipeline/order.h).
local schedule = { name = "gpipe",
  summary = "all micro-batches forward, then all backward",
  source = "Huang et al. 2019, GPipe (arXiv 1811.06965)" }

function schedule.order(_, p)
  local units = {}
  for i = 1, p.micro_batches do units[i] = { "F", i, 1 } end
  for i = 1, p.micro_batches do units[#units + 1] = { "B", i, 1 } end
  return units
end

return schedule
