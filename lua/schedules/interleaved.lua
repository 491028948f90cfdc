--- 1F1B over several model chunks a stage (Narayanan et al. 2021, section 2.2.2), in Megatron-LM's
--- order. C computes the same orders itself (runtime/step/order.h).
local schedule = { name = "interleaved", summary = "1F1B over vp model chunks a stage: a bubble vp times smaller" }

--- Units of one stage, in order. Groups of pp micro-batches pass through chunk after chunk.
---@param stage integer 1 is the first
---@param p table a plan: pp, vp, micro_batches (a multiple of pp)
function schedule.order(stage, p)
  local group, total = p.pp * p.vp, p.micro_batches * p.vp
  local function unit(kind, n) -- the n-th forward or backward, from 0
    local chunk = n % group // p.pp
    if kind == "B" then chunk = p.vp - 1 - chunk end
    return { kind, n // group * p.pp + n % p.pp + 1, chunk + 1 }
  end
  local warm = p.pp - stage -- with one chunk: 1F1B
  if p.vp > 1 then warm = warm * 2 + (p.vp - 1) * p.pp end
  warm = math.min(total, warm)
  local units = {}
  for n = 0, warm - 1 do units[#units + 1] = unit("F", n) end
  for n = 0, total - 1 do
    if warm + n < total then units[#units + 1] = unit("F", warm + n) end
    units[#units + 1] = unit("B", n)
  end
  return units
end

return schedule
