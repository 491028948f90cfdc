--- 1F1B over several model chunks per stage (Narayanan et al. 2021, section 2.2.2), in Megatron-LM's order. C computes
--- the same orders without this file (runtime/step/pipeline/order.h).
local schedule = { name = "interleaved",
  summary = "1F1B over vp model chunks a stage: a bubble vp times smaller",
  source = "Narayanan et al. 2021, section 2.2.2 (arXiv 2104.04473); Megatron-LM's order" }

--- A group of micro-batches passes through one chunk after the other; the last group may be smaller.
function schedule.order(stage, p)
  local m, total, group = p.micro_batches, p.micro_batches * p.vp, p.interleave_group or p.pp
  while m > group and m % group > 0 and m % group < p.pp do group = group + 1 end -- as in Megatron-LM
  local table_of = {} -- Megatron-LM's schedule table: micro-batch and chunk of the n-th unit
  for first = 1, m, group do
    for chunk = 1, p.vp do
      for i = first, math.min(m, first + group - 1) do table_of[#table_of + 1] = { i, chunk } end
    end
  end
  local function unit(kind, n)
    local entry = table_of[n]
    return { kind, entry[1], kind == "B" and p.vp + 1 - entry[2] or entry[2] }
  end
  local warm = p.pp - stage -- with one chunk: 1F1B
  if p.vp > 1 then warm = warm * 2 + (p.vp - 1) * group end
  warm = math.min(total, warm)
  local units = {}
  for n = 1, warm do units[n] = unit("F", n) end
  for n = 1, total do
    if warm + n <= total then units[#units + 1] = unit("F", warm + n) end
    units[#units + 1] = unit("B", n)
  end
  return units
end

return schedule
