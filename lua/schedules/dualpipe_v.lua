--- DeepSeek-V3's schedule folded to half the stages: a V of two slices a stage, with the pairs of DualPipe.
local schedule = { name = "dualpipe_v", chunks = 2, exact_chunks = true, pairs = true,
  summary = "V-shaped placement, forward and backward in pairs: DualPipe on half the stages",
  source = "github.com/deepseek-ai/DualPipe, dualpipev.py; order as PyTorch's ScheduleDualPipeV" }

--- The slice that a chunk of a stage holds.
function schedule.slice(stage, chunk, p) return chunk == 1 and stage or 2 * p.pp + 1 - stage end

--- Activations of that many forwards are kept at most.
function schedule.activations(_, p) return 2 * p.pp + 1 end

--- What a plan must change, or nil.
function schedule.refuse(p)
  if p.micro_batches >= 2 * p.pp then return nil end
  return ("needs micro_batches of at least 2 pp = %d, got %d"):format(2 * p.pp, p.micro_batches)
end

--- Units of one stage, in order, in eight steps.
---@param stage integer 1 is the first
---@param p table a plan: pp, micro_batches
function schedule.order(stage, p)
  local place, behind, a, b = stage, p.pp - stage, 1, 2
  local units, forward, backward, weights = {}, { 0, 0 }, { 0, 0 }, {}
  local function F(chunk)
    forward[chunk] = forward[chunk] + 1
    return { "F", forward[chunk], chunk }
  end
  local function B(chunk, split) -- split: its weight gradient runs later
    backward[chunk] = backward[chunk] + 1
    local unit = { split and "B" or "BW", backward[chunk], chunk }
    if split then weights[#weights + 1] = unit end
    return unit
  end
  local done = 0
  local function W()
    done = done + 1
    return { "W", weights[done][2], weights[done][3] }
  end
  local function add(unit) units[#units + 1] = unit end
  for _ = 1, 2 * behind do add(F(a)) end
  for _ = 1, place do
    add(F(a))
    add(F(b))
  end
  for _ = 1, behind do
    add(B(b, true))
    add(W())
    add(F(b))
  end
  for i = 1, p.micro_batches - 2 * p.pp + place do
    if i == 1 and behind == 0 then -- the turn is not overlapped, for a smaller bubble
      add(F(a))
      add(B(b))
    else
      add { F(a), B(b) }
    end
    add { F(b), B(a) }
  end
  for _ = 1, behind do
    add(B(b))
    add { F(b), B(a) }
  end
  local split = false
  for i = 0, place - 1 do -- the second half is split
    split = split or i == place // 2 and place % 2 == 0
    add(B(b, split))
    split = split or i == place // 2
    add(B(a, split))
  end
  for _ = 1, behind do
    add(W())
    add(B(a, true))
  end
  for _ = 1, place do add(W()) end
  return units
end

return schedule
