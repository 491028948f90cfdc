--- The order of DualPipe and DualPipeV (github.com/deepseek-ai/DualPipe). A stage holds two chunks and pairs the
--- forward unit of one with the backward unit of the other.

--- Units of one stage, in eight phases.
---@param s table place = position of the stage, 1 is where micro-batches enter; behind = number of stages from it to
--- the turning point; near = the chunk (1 or 2) that micro-batches reach first; micro_batches = per chunk; after =
--- their number before the first of each chunk
return function(s)
  local place, behind, a, b = s.place, s.behind, s.near, 3 - s.near
  local units, weights = {}, {}
  local forward, backward = { s.after[1], s.after[2] }, { s.after[1], s.after[2] }
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
  for i = 1, s.micro_batches - 2 * behind - place do
    if i == 1 and behind == 0 then -- not overlapped at the turning point, for a smaller bubble
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
