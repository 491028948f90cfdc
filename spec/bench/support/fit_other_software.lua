--- How far off is a step if it is estimated with the stack of other software? Fits the half-width that such plans
--- need: `uncompared` in in_step.step_spread.
--
--   ett run spec/bench/support/fit_other_software.lua
--
-- Each published step is estimated with the stacks that resemble its software, and with factors fitted without its
-- source. Its attention kernel and its graphs are kept, as a planner knows them. Every software counts once, and so
-- does every source of one software.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/bench/support/?.lua"
local in_step = require "ett.profile.in_step"
local interval_score = require "interval_score"
local median = require "ett.base.median"
local published = require "published"
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
-- alone, share }.
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
    high = kernels.high, share = kernels.share, own_run = kernels.own_run, ratio = interval_score.ratio(row, e) }
end

local function steps()
  return interval_score.steps(function(row, kernels, add)
    for _, name in ipairs(similar[software[row.framework] or row.framework]) do add(estimated(row, name, kernels)) end
  end)
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

local list = steps()
weigh(list)
local errors = {}
for _, s in ipairs(list) do
  errors[s.software] = errors[s.software] or {}
  table.insert(errors[s.software], math.abs(1 / s.ratio - 1))
end
for _, name in ipairs(require("ett.base.schema").keys(errors)) do
  print(("%-24s %4d estimates, median error %.1f %%"):format(name, #errors[name], 100 * median(errors[name])))
end
for _, value in ipairs { 0, interval_score.best(list), in_step.step_spread.uncompared } do
  local mean, inside = interval_score.of(list, value)
  print(("uncompared %.2f: score %.3f, inside %.1f %%"):format(value, mean, 100 * inside))
end
