--- Zero-bubble schedule V: each stage holds one slice of the first half of the model and one of the second half, in
--- reverse order. The last slice is on the first stage. With equal units there is no bubble, with the activations of
--- 1F1B.
local schedule = { name = "zb_v", chunks = 2, exact_chunks = true,
  summary = "V-shaped placement with split backward: no bubble at equal units (zero bubble, V)",
  source = "Qi et al. 2023, section 6 (arXiv 2401.10241); order as PyTorch's ScheduleZBVZeroBubble" }

function schedule.slice(stage, chunk, p) return chunk == 1 and stage or 2 * p.pp + 1 - stage end

--- Largest number of forwards (of half a stage each) whose activations a stage stores.
function schedule.activations(_, p) return 2 * p.pp end

--- The order for at least 2 pp - 1 micro-batches, without the micro-batches beyond the step's.
function schedule.order(stage, p)
  local units, m = {}, math.max(2 * p.pp - 1, p.micro_batches)
  local made = { F = { 0, 0 }, B = { 0, 0 }, W = { 0, 0 } }
  local function add(kinds, chunk)
    for kind in kinds:gmatch "." do
      local i = made[kind][chunk] + 1
      made[kind][chunk] = i
      if i <= p.micro_batches then units[#units + 1] = { kind, i, chunk } end
    end
  end
  for _ = 1, 2 * (p.pp - stage) + 1 do add("F", 1) end
  for _ = 1, stage - 1 do
    add("F", 2)
    add("F", 1)
  end
  for _ = stage, p.pp do add("FBW", 2) end
  while made.F[2] < made.F[1] or made.F[1] < m do
    if made.F[1] < m then add("F", 1) end
    add("BW", 1)
    add("FBW", 2)
  end
  for _ = 1, stage - 1 do
    add("B", 1)
    add("B", 2)
  end
  for _ = stage, p.pp do add("BW", 1) end
  while made.W[2] < made.B[2] do add("W", 2) end
  while made.W[1] < made.B[1] do add("W", 1) end
  return units
end

return schedule
