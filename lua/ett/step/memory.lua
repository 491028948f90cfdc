--- Memory of a device, line by line, with the source of each.
local quantised = require "ett.operator.quantised"

local memory = {}

-- Measured peaks over estimates: { share of the peaks below, ratio }. They are the last line of `ett bench fits`: the
-- peaks of `published`, the literature and `fits`, without the held-out ones. Each source has the same weight.
local ratios = { { 0, 0.699 }, { 0.05, 0.8 }, { 0.1, 0.906 }, { 0.25, 0.978 }, { 0.5, 1.028 }, { 0.75, 1.169 },
  { 0.9, 1.276 }, { 0.95, 1.489 }, { 1, 2.021 } }
local low_ratio, high_ratio = ratios[2][2], ratios[#ratios - 1][2]
local certain = 0.95 -- a chance from which no note is needed

local function of_stack(text) return function(stack) return ("%s, stack %s"):format(text, stack.name) end end

local function of_weights(stack, stage, p)
  if quantised.format_of(p) then return "model and plan; frozen weights in " .. p.frozen_weights end
  return "model and plan" .. (stage.quantised_bytes ~= 0 and ", quantised as the stack " .. stack.name or "")
end

local function of_loss(stack)
  return ("loss '%s', stack %s; without their gradient"):format(stack.cross_entropy, stack.name)
end

--- { field of a stage (bytes), name of the line, source: a text or a function of stack, stage and plan }.
memory.kinds = {
  { "weight_bytes", "weights", of_weights },
  { "gradient_bytes", "gradients", "model and plan" },
  { "optimizer_bytes", "optimizer states", "model and plan" },
  { "activation_bytes", "activations in flight", "operators, recomputation and schedule" },
  { "loss_bytes", "logits", of_loss },
  { "temporary_bytes", "gathered layer, its gradient", "ZeRO stage of the plan" },
  { "working_bytes", "largest operator at work", "operators: gradients of inputs, outputs and weights" },
  { "update_bytes", "update", "fp32 copies of 16-bit gradients, temporary tensors" },
  { "cached_bytes", "cached gradients", of_stack "kept allocated" },
  { "workspace_bytes", "workspaces of libraries", of_stack "assumed" },
  { "fragment_bytes", "rounding and fragments", of_stack "share of activations and temporaries" },
  { "communicator_bytes", "communicators", of_stack "buffers of each group" },
  { "context_bytes", "context of the driver", of_stack "measured" },
}

--- The lines of one stage of an estimate, without lines of zero bytes.
---@param stack table the software (ett.operator.stack)
---@param p table the plan
---@return table[] { { name, field, bytes, source }, … }
function memory.lines(stage, stack, p)
  local list, logits = {}, math.min(stage.loss_bytes, stage.activation_bytes)
  for _, line in ipairs(memory.kinds) do
    local bytes, source = stage[line[1]], line[3]
    if line[1] == "activation_bytes" then bytes = bytes - logits end
    if line[1] == "loss_bytes" then bytes = logits end
    if bytes > 0 then
      list[#list + 1] = { field = line[1], name = line[2], bytes = bytes,
        source = type(source) == "function" and source(stack, stage, p) or source }
    end
  end
  return list
end

--- The chance that a peak estimated as `bytes` is at most `limit` bytes: a share from 0 to 1.
function memory.chance(bytes, limit)
  local ratio = limit / bytes
  if ratio < ratios[1][2] then return 0.0 end
  for i = 2, #ratios do
    local a, b = ratios[i - 1], ratios[i]
    if ratio < b[2] then return a[1] + (b[1] - a[1]) * (ratio - a[2]) / (b[2] - a[2]) end
  end
  return 1.0
end

--- Whether a plan fits, as text: "yes", "no", or its chance if that is uncertain.
function memory.answer(fits, chance)
  if chance < certain and chance > 1 - certain then return ("%.0f %%"):format(100 * chance) end
  return fits and "yes" or "no"
end

--- The headroom of a search whose plans fit with a chance of at least 95 %.
memory.certain_headroom = math.ceil(100 * (1 - 1 / high_ratio)) / 100

--- A note on a plan whose fit is uncertain, else nil.
function memory.note(e)
  if not memory.answer(e.fits, e.fit_percent / 100):find("%", 1, true) then return nil end
  return ("the plan fits with a chance of %.0f %%. 90 %% interval of the memory: %.1f to %.1f GB. `ett search "
    .. "--headroom %.2f` finds plans with at least %.0f %%"):format(e.fit_percent, e.memory_low_bytes / 1e9,
    e.memory_high_bytes / 1e9, memory.certain_headroom, 100 * certain)
end

--- Adds the lines of the fullest stage to an estimate, and the values that PyTorch would report.
function memory.add(e, stack)
  local most, share = 1, 0.0
  for i, stage in ipairs(e.stages) do
    local own = stage.memory_bytes / (stage.memory_limit_bytes or e.memory_limit_bytes)
    if own > share then most, share = i, own end
  end
  local fullest = e.stages[most]
  e.memory_bytes = fullest.memory_bytes
  e.memory_limit_bytes = fullest.memory_limit_bytes or e.memory_limit_bytes
  e.memory_low_bytes, e.memory_high_bytes = low_ratio * e.memory_bytes, high_ratio * e.memory_bytes
  e.fit_percent = 100 * memory.chance(e.memory_bytes, e.memory_limit_bytes)
  e.host_bytes = 0.0
  for _, stage in ipairs(e.stages) do e.host_bytes = math.max(e.host_bytes, stage.host_bytes) end
  e.fullest_stage, e.memory = most, memory.lines(fullest, stack, e.plan)
  e.allocated_bytes, e.reserved_bytes = fullest.allocated_bytes, fullest.allocated_bytes + fullest.fragment_bytes
end

--- A warning if a stage offloads more than its host's memory: "731.52 GB of a device in its host's memory: a device of
--- dgx_h100 has 250.00 there". It names the stage with the most bytes; nil if all stages fit.
function memory.warning(stages, cluster)
  local text, bytes = nil, 0.0
  for _, s in ipairs(stages) do
    for k, part in ipairs(cluster.parts or { cluster }) do
      local most = (not cluster.parts or s.parts >> k - 1 & 1 == 1) and part.host and part.host.memory_bytes
      if most and s.host_bytes > math.max(most, bytes) then
        bytes = s.host_bytes
        text = ("%.2f GB of a device in its host's memory: a device of %s has %.2f there"):format(bytes / 1e9,
          part.name, most / 1e9)
      end
    end
  end
  return text
end

return memory
