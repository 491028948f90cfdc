--- Zero-bubble schedule H1: 1F1B with split backward; weight gradients fill the cool-down phase. Every stage stores as
--- many activations as the first stage of 1F1B.
local schedule = { name = "zb_h1", chunks = 1,
  summary = "1F1B with weight gradients in the cool-down (zero bubble, H1)",
  source = "Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 2.1 (arXiv 2401.10241)" }

function schedule.activations(_, p) return p.pp end

function schedule.order(stage, p)
  local units, m = {}, p.micro_batches
  local function add(kind, micro_batch) units[#units + 1] = { kind, micro_batch } end
  local warm = math.min(m, p.pp - stage)
  local forward, backward, weight = 0, 0, 0
  for _ = 1, warm do
    forward = forward + 1
    add("F", forward)
  end
  while backward < m do
    if forward < m then
      forward = forward + 1
      add("F", forward)
    end
    backward = backward + 1
    add("B", backward)
    -- Stage s delays its weight gradients by s - 1 micro-batches, so that input gradients leave early.
    if backward - weight > stage - 1 or backward == m then
      weight = weight + 1
      add("W", weight)
    end
  end
  while weight < m do
    weight = weight + 1
    add("W", weight)
  end
  return units
end

return schedule
