--- Memory of a device, line by line, with the source of each.
local quantised = require "ett.operator.quantised"

local memory = {}

-- Mean error of memory that programs reserved: torchtitan's and BigScience's rows (README.md).
local error_share = 0.05

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

--- A note on a plan that barely fits, else nil.
function memory.note(e)
  local free = 1 - e.memory_bytes / e.memory_limit_bytes
  if not e.fits or free >= error_share then return nil end
  return ("%.1f %% of the memory is free, less than the error of the estimate (%.0f %%); `ett search --headroom %.2f` "
    .. "leaves more"):format(100 * free, 100 * error_share, error_share)
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
