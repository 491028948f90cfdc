--- Zero-bubble schedule H2: additional forwards in the warm-up fill the bubble before the first backward; weight
--- gradients fill the bubble at the end. Stages start and end at different times, so only steps without a common end
--- gain: `post_validation=true`.
local schedule = { name = "zb_h2", chunks = 1, exact_chunks = true,
  summary = "1F1B with longer warm-up and split backward: no bubble between steps (zero bubble, H2)",
  source = "Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 2.2 (arXiv 2401.10241)" }

function schedule.activations(_, p) return 2 * p.pp - 1 end

function schedule.order(stage, p)
  local units, m = {}, p.micro_batches
  local forward, backward, weight = 0, 0, 0
  local function add(kind, i)
    units[#units + 1] = { kind, i }
    return i
  end
  for _ = 1, math.min(m, 2 * (p.pp - stage) + 1) do forward = add("F", forward + 1) end
  while backward < m do
    backward = add("B", backward + 1)
    -- Stage s delays 2 (s - 1) weight gradients to the end, so that input gradients leave early.
    if backward - weight > 2 * (stage - 1) then weight = add("W", weight + 1) end
    if forward < m then forward = add("F", forward + 1) end
  end
  while weight < m do weight = add("W", weight + 1) end
  return units
end

return schedule
