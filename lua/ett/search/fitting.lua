--- Finds changes that make a plan fit in memory.
local merged = require "ett.base.merged"
local schema = require "ett.base.schema"
local what_if = require "ett.step.what_if"

local fitting = {}

-- Changes that reduce memory, those with the lowest time cost first.
local changes = {
  { recompute = "selective" }, { zero = 1 }, { zero = 1, recompute = "selective" }, { recompute = "full" },
  { zero = 1, recompute = "full" }, { zero = 3 }, { zero = 3, recompute = "full" },
}

-- Factors for degrees, the fewest devices first.
local growths = { {}, { tp = 2 }, { pp = 2 }, { tp = 4 }, { pp = 4 }, { tp = 8 }, { pp = 8 }, { tp = 8, pp = 2 },
  { tp = 8, pp = 4 }, { tp = 8, pp = 8 } }

--- Description and memory of the first change that makes a plan fit, on the same number of devices or more; nil if none
--- does.
---@param plan table a plan that does not fit; micro_batches, not global_batch
function fitting.change(model, cluster, times, plan)
  local size = plan.micro_batch or 1
  if size > 1 and plan.micro_batches then
    local one = merged(plan, { micro_batch = 1, micro_batches = plan.micro_batches * size })
    local e = what_if.estimate { model = model, cluster = cluster, times = times, plan = one }
    if e and e.fits then return ("micro_batch=1 micro_batches=%d"):format(one.micro_batches), e.memory_bytes end
  end
  for _, more in ipairs(growths) do
    for _, change in ipairs(changes) do
      local p, words = merged(plan, change), {}
      for _, name in ipairs(schema.keys(change)) do words[#words + 1] = ("%s=%s"):format(name, change[name]) end
      for _, name in ipairs(schema.keys(more)) do
        p[name] = (p[name] or 1) * more[name]
        words[#words + 1] = ("%s=%d"):format(name, p[name])
      end
      local e = what_if.estimate { model = model, cluster = cluster, times = times, plan = p }
      if e and e.fits then return table.concat(words, " "), e.memory_bytes end
    end
  end
end

--- "with zero=1 it would fit, in 68.24 GB", or the advice to take more devices.
function fitting.sentence(model, cluster, times, plan)
  local words, bytes = fitting.change(model, cluster, times, plan)
  return words and ("with %s it would fit, in %.2f GB"):format(words, bytes / 1e9) or "give it more devices"
end

return fitting
