--- One forward, one backward, with a flush (Narayanan et al. 2021, section 2.2.1). C computes
--- the same orders itself (runtime/step/pipeline/order.h).
local schedule = { name = "1f1b",
  summary = "one forward, one backward, with a flush: at most pp micro-batches in flight",
  source = "Narayanan et al. 2021, section 2.2.1 (arXiv 2104.04473)" }

function schedule.order(stage, p)
  local units, m = {}, p.micro_batches
  local warm = math.min(m, p.pp - stage)
  for i = 1, warm do units[i] = { "F", i, 1 } end
  for i = 1, m do
    if warm + i <= m then units[#units + 1] = { "F", warm + i, 1 } end
    units[#units + 1] = { "B", i, 1 }
  end
  return units
end

return schedule
