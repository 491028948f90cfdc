--- Two pipelines in opposite directions over the same stages: each stage holds two slices, each slice is on two stages.
--- The units of one pipeline fill the bubbles of the other.
local schedule = { name = "chimera", chunks = 1, exact_chunks = true, ways = 2,
  summary = "two pipelines in opposite directions, weights held twice: half the bubble of 1F1B",
  source = "Li and Hoefler 2021, Chimera, section 3.1, direct concatenation (arXiv 2107.06925)" }

--- The slice that a chunk of a stage holds: chunk 1 of the way down, chunk 2 of the way up.
function schedule.slice(stage, chunk, p) return chunk == 1 and stage or p.pp + 1 - stage end

function schedule.refuse(p)
  if p.pp % 2 == 0 then return nil end
  return ("needs an even pp, got %d"):format(p.pp)
end

function schedule.activations(_, p) return p.pp end

--- Units by their start, at equal lengths. The j-th micro-batch of a way enters its pipeline at 2 j, in blocks of pp
--- micro-batches that follow every 2 pp.
function schedule.order(stage, p)
  local units, start = {}, {}
  for i = 1, p.micro_batches do -- odd ones go down, even ones up
    local way, j = (i - 1) % 2 + 1, (i - 1) // 2
    local position = way == 1 and stage - 1 or p.pp - stage
    local enters = j // (p.pp // 2) * 2 * p.pp + j % (p.pp // 2) * 2
    local forward, backward = { "F", i, way }, { "B", i, way }
    start[forward], start[backward] = enters + position, enters + 2 * p.pp - 1 - position
    units[#units + 1] = forward
    units[#units + 1] = backward
  end
  table.sort(units, function(a, b) return start[a] < start[b] end)
  return units
end

return schedule
