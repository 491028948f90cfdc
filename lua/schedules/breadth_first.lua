--- All micro-batches through a chunk before the next chunk, backwards in reverse.
local schedule = { name = "breadth_first", summary = "all micro-batches through one model chunk after the other",
  source = "Lamy-Poirier 2023, Breadth-First Pipeline Parallelism, section 3 (arXiv 2211.05953)" }

function schedule.activations(_, p) return p.micro_batches * p.vp end

function schedule.order(_, p)
  local units = {}
  for chunk = 1, p.vp do
    for i = 1, p.micro_batches do units[#units + 1] = { "F", i, chunk } end
  end
  for chunk = p.vp, 1, -1 do
    for i = 1, p.micro_batches do units[#units + 1] = { "B", i, chunk } end
  end
  return units
end

return schedule
