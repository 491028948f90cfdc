--- How far off is a step if it is estimated with the stack of other software? Prints the half-width that such plans
--- need: the test of `uncompared` in in_step.step_spread.
--
--   ett run spec/bench/support/fit_other_software.lua
--
-- Each published step is estimated with the stacks that resemble its software, and with factors fitted without its
-- source. Its attention kernel and its graphs are kept, as a planner knows them. Every software counts once, and so
-- does every source of one software.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local in_step, spread = require "ett.profile.in_step", require "ett.step.spread"
local median = require "ett.base.median"
local published, left = require "published", require "published_left_out"
local stacks = require "ett.operator.stack"

local software = { ["megatron-bridge"] = "megatron", nemo = "megatron", ["mlperf-nemo"] = "megatron",
  ["megatron-lm"] = "megatron" }

-- The stacks of other software that a planner might name, by software.
local similar = {
  megatron = { "plain", "megatron_2021", "megatron_deepspeed", "torchtitan" },
  ["megatron-deepspeed"] = { "megatron_2021", "megatron", "plain" },
  ["megatron-lm-zero-bubble"] = { "megatron_deepspeed", "megatron", "plain" },
  ["llm-foundry"] = { "fsdp_eager", "torchtitan", "transformers" },
  torchtitan = { "fsdp_eager", "llm_foundry", "megatron_fsdp" },
  ["fms-fsdp"] = { "torchtitan", "fsdp_eager", "llm_foundry" },
  ["nemo-automodel"] = { "torchtitan", "llm_foundry", "megatron_fsdp" },
  internevo = { "megatron", "fsdp_eager", "llm_foundry", "torchtitan", "plain" },
  maxtext = { "torchtitan", "plain", "megatron" }, paxml = { "torchtitan", "plain", "megatron" },
}

-- The step of a row under another stack: { software, source, measured over estimated, low and high of the kernels
-- alone, share without `uncompared` }.
local function estimated(row, name, kernels)
  local own = published.stack
  function published.stack(of)
    local stack, kept = published.factors.onto(stacks.get(name)), own(of)
    stack.attention, stack.attention_dtype = kept.attention, kept.attention_dtype
    stack.graphed, stack.blocking, stack.compared = kept.graphed, kept.blocking, "none"
    if kept.graphs then stacks.capture(stack) end
    return stack
  end
  local ok, e = pcall(published.estimate, row)
  published.stack = own
  if not ok then return nil end
  return { software = software[row.framework] or row.framework, source = published.source(row), low = kernels.low,
    high = kernels.high, share = math.sqrt(kernels.share ^ 2 - in_step.step_spread.uncompared ^ 2),
    ratio = (row.step_median or row.step_seconds) / e.step_seconds }
end

local function steps()
  local list, widened, kernels = {}, spread.widened, {}
  function spread.widened(step, low, high, share)
    kernels.low, kernels.high, kernels.share = 1 - low / step, high / step - 1, share
    return widened(step, low, high, share)
  end
  for _, row in ipairs(assert(published.rows())) do
    if published.is_fitted(row) then
      published.factors.apply(left.factors[published.source(row)])
      for _, name in ipairs(similar[software[row.framework] or row.framework]) do
        list[#list + 1] = estimated(row, name, kernels)
      end
    end
  end
  spread.widened = widened
  return list
end

-- Weights of the steps: every software counts once, and every source of it.
local function weigh(list)
  local counts, sources = {}, {}
  for _, s in ipairs(list) do
    local key = s.software .. s.source
    if not counts[key] then sources[s.software] = (sources[s.software] or 0) + 1 end
    counts[key] = (counts[key] or 0) + 1
  end
  for _, s in ipairs(list) do s.weight = 1 / counts[s.software .. s.source] / sources[s.software] end
end

-- Mean interval score and share of steps inside.
local function score(list, width)
  local total, inside, weights = 0.0, 0.0, 0.0
  for _, s in ipairs(list) do
    local share = math.sqrt(s.share ^ 2 + width ^ 2)
    local low = 1 - math.sqrt(s.low ^ 2 + (in_step.faster * share) ^ 2)
    local high = 1 + math.sqrt(s.high ^ 2 + (in_step.slower * share) ^ 2)
    local outside = math.max(0.0, low - s.ratio, s.ratio - high)
    total = total + s.weight * (high - low + 20 * outside)
    inside = inside + (outside == 0 and s.weight or 0)
    weights = weights + s.weight
  end
  return total / weights, inside / weights
end

local list, best, width = steps(), math.huge, nil
weigh(list)
local errors = {}
for _, s in ipairs(list) do
  errors[s.software] = errors[s.software] or {}
  table.insert(errors[s.software], math.abs(1 / s.ratio - 1))
end
for _, name in ipairs(require("ett.base.schema").keys(errors)) do
  print(("%-24s %4d estimates, median error %.1f %%"):format(name, #errors[name], 100 * median(errors[name])))
end
for value = 0, 50 do
  local own = score(list, value / 100)
  if own < best then best, width = own, value / 100 end
end
for _, value in ipairs { 0, width, in_step.step_spread.uncompared } do
  local mean, inside = score(list, value)
  print(("uncompared %.2f: score %.3f, inside %.1f %%"):format(value, mean, 100 * inside))
end
