--- DeepSeek-V3's schedule: micro-batches enter at both ends, and a stage runs the forward of one together with the
--- backward of another.
local schedule = { name = "dualpipe", chunks = 1, exact_chunks = true, ways = 2, pairs = true,
  summary = "both ways at once, forward and backward in pairs, weights held twice (DeepSeek-V3)",
  source = "DeepSeek-AI 2024, section 3.2.1 (arXiv 2412.19437); order as github.com/deepseek-ai/DualPipe" }

--- The slice that a chunk of a stage holds.
function schedule.slice(stage, chunk, p) return chunk == 1 and stage or p.pp + 1 - stage end

--- Activations of that many forwards are kept at most.
function schedule.activations(_, p) return p.pp + 1 end

--- What a plan must change, or nil.
function schedule.refuse(p)
  if p.pp % 2 > 0 then return ("needs an even pp, got %d"):format(p.pp) end
  if p.micro_batches % 2 > 0 then return ("needs an even number of micro_batches, got %d"):format(p.micro_batches) end
  if p.micro_batches >= 2 * p.pp then return nil end
  return ("needs micro_batches of at least 2 pp = %d, got %d"):format(2 * p.pp, p.micro_batches)
end

--- Units of one stage, in order, in eight steps.
---@param stage integer 1 is the first
---@param p table a plan: pp, micro_batches
function schedule.order(stage, p)
  local half = p.pp // 2
  local place = math.min(stage, p.pp + 1 - stage) -- from the nearer end
  local behind = half - place -- stages to the middle
  local a, b = 1, 2 -- chunks: from the nearer end, from the other
  if stage > half then a, b = 2, 1 end
  local units, forward, backward, weights = {}, { 0, p.micro_batches // 2 }, { 0, p.micro_batches // 2 }, {}
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
  for i = 1, p.micro_batches // 2 - 2 * half + place do
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
