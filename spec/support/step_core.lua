--- Arguments of ett.step with default values for specs; ett.step itself has no defaults.
local core = require "ett.step"
local fields = require "ett.plan.fields"
local merged = require "ett.base.merged"

local step_core = {}

local function filled(given, defaults) return merged(defaults, given) end

--- A plan in the form that C reads: the declared defaults and the given fields, unchecked.
function step_core.plan(given)
  local defaults = { micro_batches = 1, gpus_per_node = 1, host_bandwidth = 0, host_rate = 0 }
  for _, field in ipairs(fields.list) do defaults[field[1]] = defaults[field[1]] or field.default end
  return filled(given, fields.to_c(filled(given, defaults), { gpus_per_node = 1 }))
end

--- A program.
function step_core.program(given)
  local all = filled(given, { boundary_bytes = 0, tied_embedding_bytes = 0, tied_frozen = false, element_bytes = 2,
    recompute_layers = 0, recompute_method = "block", gather = 0, lanes = 2, workspace_bytes = 0, context_bytes = 0,
    communicator_bytes = 0, output_bytes = 0, kept_logits = 0, gathers_tensors = false, whole_ends = false,
    master_shards = false, whole_stages = false,
    defers_gradients = false, frees_gradients = false, foreach_update = false, autocast = false, cast_bytes = 0,
    owned_tensors = 0,
    blocking_reductions = false,
    copies_gradients = false, kept_gradient_bytes = 0, allocator_share = 0, communication_share = 0,
    exchange_communication_share = given.communication_share or 0 })
  all.operations, all.kinds = {}, {}
  for i, operation in ipairs(given.operations) do
    all.operations[i] = operation == 1 and 1 or filled(operation, { dense_parameters = 0, expert_parameters = 0,
      frozen_dense = 0, frozen_expert = 0, spared_share = 0, quantised_bytes = 0, sharded_bytes = 0,
      scale_bytes = 0, activation_bytes = 0, dropped_bytes = 0, late_bytes = operation.activation_bytes or 0,
      working_bytes = 0, weight_working_bytes = 0, weight_share = 0, cached_shape = 0, cached_bytes = 0, flops = 0,
      selective = false, loss = false, waits_again = false, never_again = false,
      role = "outside", beside_seconds = 0, host = "none" })
  end
  for i, kind in ipairs(given.kinds) do
    all.kinds[i] = filled(kind, { input_bytes = 0, boundary = 1, policy_bytes = 0, shared_bytes = 0, remade_bytes = 0,
      forward_only = false, stored = false, owns_table = false, copies_table = false })
  end
  return core.program(all)
end

--- A pipeline.
function step_core.pipeline(given)
  return core.pipeline(filled(given, { schedule = "1f1b", stages = 1, chunks = 1, micro_batches = 1,
    blocking_sends = false, blocking_receives = false, keep_units = true, group = given.stages or 1 }))
end

--- A pipeline on its links.
function step_core.links(given)
  return core.links(filled(given, { schedule = "1f1b", stages = 1, chunks = 1, micro_batches = 1,
    blocking_sends = false, blocking_receives = false, keep_units = true, group = given.stages or 1,
    lanes = 2, collective = { 1, 0 }, reduces_every = false, share = 0 }))
end

--- Orders; without a placement chunk c of stage s holds slice (c - 1) * stages + s.
function step_core.orders(units, placement)
  placement = filled(placement or {}, { ways = 1, chunks = 1, slice = {} })
  for _, list in ipairs(units) do
    for _, unit in ipairs(list) do placement.chunks = math.max(placement.chunks, tonumber(unit[3]) or 1) end
  end
  for v = 1, #units * placement.chunks do placement.slice[v] = placement.slice[v] or v end
  return core.orders(units, placement)
end

--- The demands without a time.
function step_core.untimed(demands)
  local list, index = {}, demands:untimed_after(0)
  while index do
    list[#list + 1] = demands:get(index)
    index = demands:untimed_after(index)
  end
  return list
end

--- The step of a program under a plan.
---@param plan table of step_core.plan
---@param seconds_of (fun(demand: table): number)? of a message or update; nil: they take no time
---@param units boolean? the step has its units
function step_core.evaluated(program, plan, seconds_of, units)
  local demands <close> = core.demands()
  local workspace <close> = core.workspace()
  program:evaluate(plan, demands, workspace, units or false)
  for _, d in ipairs(step_core.untimed(demands)) do demands:set(d.index, seconds_of and seconds_of(d) or 0) end
  return program:evaluate(plan, demands, workspace, units or false)
end

--- A pipeline of a built-in schedule with its units as a custom order, of which every unit runs: neither a fast path
-- nor a repeated period.
function step_core.every_unit(p)
  local orders = {}
  for stage, list in ipairs(step_core.pipeline(p).units) do
    local order, chunks = {}, p.chunks or 1
    local warm = p.forward_hidden and 2 * (p.stages - stage) + (chunks - 1) * (p.group or p.stages) + 1 or #list
    for k, unit in ipairs(list) do
      local plain = { unit[1], unit[2], unit[3] }
      if k - 1 > warm and unit[1] == "B" and list[k - 1][1] == "F" then
        order[#order] = { order[#order], plain }
      else
        order[#order + 1] = plain
      end
    end
    orders[stage] = order
  end
  return step_core.pipeline(filled({ schedule = "custom", orders = step_core.orders(orders, { chunks = p.chunks }),
    keep_units = false }, p))
end

return setmetatable(step_core, { __index = core })
