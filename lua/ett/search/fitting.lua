--- Finds changes that make a plan fit in memory. It keeps the layout if it can, else the number of devices; else it
--- adds as few devices as possible. Of several layouts on one number of devices it takes the fastest.
local by = require "ett.base.by"
local merged = require "ett.base.merged"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"
local what_if = require "ett.step.what_if"

local fitting = {}

-- Changes that reduce memory, those with the lowest time cost first; the last that no rule refuses takes the least
-- memory. `zero`: at least this stage, or the stack's highest. `quantised`: the stack's quantised_weights.
local changes = {
  { recompute = "selective" }, { zero = 1 }, { zero = 1, recompute = "selective" },
  { quantised = "only" }, { quantised = "only", zero = 1, recompute = "selective" },
  { quantised = "single", zero = 1, recompute = "selective" },
  { recompute = "full" }, { zero = 1, recompute = "full" }, { quantised = "only", zero = 1, recompute = "full" },
  { quantised = "single", zero = 1, recompute = "full" },
  { zero = 3 }, { zero = 2, recompute = "selective", quantised = "single" },
  { zero = 3, recompute = "selective", quantised = "single" }, { zero = 3, recompute = "full" },
  { zero = 3, recompute = "full", quantised = "single" },
}

local strength = { none = 0, selective = 1, policy = 2, full = 3 }

-- Most devices of a hint, as a multiple of the plan's.
local most_growth = 128

local function saves_quantised(stack, how)
  return stack.quantised_weights == "beside" or stack.quantised_weights == "only" and how == "single"
end

-- The fields of a change that a plan lacks; false removes one. recompute_method = uniform repeats all layers already.
---@param pp integer pipeline stages of the layout
---@param base table fields that are set in any case
---@param change table of `changes`
local function missing(p, pp, base, change)
  local own, stack = merged(base), stacks.get(p.stack)
  if change.recompute and strength[change.recompute] > strength[p.recompute] then own.recompute = change.recompute end
  local chosen = change.recompute == "full"
    and (p.recompute_layers and p.recompute_method ~= "uniform" or p.recompute_layer_ids)
  for _, name in ipairs((own.recompute or chosen) and what_if.of_recompute or {}) do
    if p[name] ~= nil then own[name] = false end
  end
  for zero = p.zero + 1, change.zero and 3 or 0 do
    if stacks.has_stage(stack, zero, pp) and (own.zero or 0) < change.zero then own.zero = zero end
  end
  if change.quantised and saves_quantised(stack, change.quantised) and schema.dtype_bytes[p.dtype] < 2 then
    own.stack = ("%s:quantised_weights=%s"):format(p.stack:gsub(":quantised_weights=[^:]*", ""), change.quantised)
  end
  return own
end

-- A plan with changed fields.
local function changed(plan, change)
  local q = merged(plan, change)
  for name, value in pairs(change) do if value == false then q[name] = nil end end
  return q
end

-- The recompute_layers of a uniform method with the least memory, halved from the plan's; nil: the plan's own, or no
-- such method. Small groups store many inputs, and large ones hold many layers at once when they are repeated.
local function least_group(self, layout)
  local p, best, least = self.clean, nil, math.huge
  local size = p.recompute_layers and p.recompute_method == "uniform" and p.recompute_layers or 0
  while size > 0 do
    local e = what_if.estimate { model = self.model, cluster = self.cluster, times = self.times,
      plan = changed(self.plan, merged(layout, { recompute_layers = size, micro_batches = false,
        global_batch = p.global_batch })) }
    if e and e.memory_bytes < least then best, least = size, e.memory_bytes end
    size = size // 2
  end
  return best ~= p.recompute_layers and best or nil
end

-- Candidates for one layout, each a table of fields.
---@param layout table tp, pp, dp
---@param group integer? recompute_layers
local function candidates(p, layout, group)
  local own = { recompute_layers = group }
  local one, sharded = merged(own, { micro_batch = 1 }), merged(own, { sequence_parallel = true })
  local list, base = { {}, group and own }, own
  if p.micro_batch > 1 then list[#list + 1], base = one, merged(base, one) end
  if layout.tp > 1 and not p.sequence_parallel then list[#list + 1], base = sharded, merged(base, sharded) end
  list[#list + 1] = base
  for _, change in ipairs(changes) do list[#list + 1] = missing(p, layout.pp, base, change) end
  return list
end

-- Layouts of `devices` devices with tp and pp multiplied by powers of 2, the smallest factors first. tp is at most the
-- size of a node, unless the plan has more.
local function layouts(p, devices, node)
  local list, tp = {}, p.tp
  while tp == p.tp or tp <= node do
    local pp = p.pp
    while devices // (tp * pp * p.cp) > 0 do
      if devices % (tp * pp * p.cp) == 0 then
        list[#list + 1] = { tp = tp, pp = pp, dp = devices // (tp * pp * p.cp) }
      end
      pp = 2 * pp
    end
    tp = 2 * tp
  end
  table.sort(list, by(function(layout) return layout.tp * layout.pp end, "-tp"))
  return list
end

-- Estimates the plan with a layout and fields. Returns the fields that differ from the plan's and the estimate; nil if
-- a rule refuses them, false if the plan does not fit.
---@param self table { model, cluster, times, plan, clean (the plan with its defaults), known }
local function tried(self, layout, fields)
  local clean, change = self.clean, {}
  for name, value in pairs(merged(layout, fields)) do if value ~= clean[name] then change[name] = value end end
  local of_micro_batch = layout.dp * (fields.micro_batch or clean.micro_batch)
  if clean.global_batch % of_micro_batch ~= 0 then return nil end
  local micro_batches = clean.global_batch // of_micro_batch
  if self.plan.micro_batches and micro_batches ~= self.plan.micro_batches then change.micro_batches = micro_batches end
  local q = merged(changed(clean, change), { micro_batches = micro_batches })
  if #plan_rules.broken(q, self.model, self.cluster, self.known) > 0 or what_if.is_foreign(clean, q) then return nil end
  local e = what_if.estimate { model = self.model, cluster = self.cluster, times = self.times,
    plan = changed(self.plan, change) }
  if e and e.fits then return change, e end
  return e and false
end

-- The fields without those that the plan does not need to fit. Smaller groups of layers cost no time, so they stay
-- rather than others.
local function needed(self, layout, fields)
  local names = schema.keys(fields)
  table.sort(names, by(function(name) return fields[name] and name == "recompute_layers" and 1 or 0 end,
    function(name) return name end))
  for _, name in ipairs(names) do
    local fewer = merged(fields)
    fewer[name] = nil
    if tried(self, layout, fewer) then fields = fewer end
  end
  return fields
end

-- The first candidate of a layout that fits: its fields that differ from the plan's, and its estimate.
local function first_change(self, layout)
  local list, least = candidates(self.clean, layout, least_group(self, layout)), nil
  for i = #list, 1, -1 do -- the last allowed candidate takes the least memory: if it does not fit, none does
    if least == nil then least = tried(self, layout, list[i]) end
  end
  if not least then return nil end
  for _, fields in ipairs(list) do
    if tried(self, layout, fields) then return tried(self, layout, needed(self, layout, fields)) end
  end
end

-- The change with the fastest step on a number of devices, and its estimate. The plan's own layout, which is the first
-- one of its own devices, comes before faster ones.
local function best_change(self, devices, is_own)
  local best, e
  for i, layout in ipairs(layouts(self.clean, devices, self.cluster.gpus_per_node)) do
    local change, other = first_change(self, layout)
    if change and not (best and e.step_seconds <= other.step_seconds) then best, e = change, other end
    if best and is_own and i == 1 then break end
  end
  return best, e
end

--- A change that makes a plan fit: its words ("with tp=8 and without recompute_layers"), its memory, and the number of
--- devices if that differs. nil if there is none. The global batch stays.
---@param plan table a plan that does not fit, as it was given
function fitting.change(model, cluster, times, plan)
  local broken, clean = plan_module.violations(plan, model, cluster)
  if #broken > 0 then return nil end
  local self = { model = model, cluster = cluster, times = times, plan = plan, clean = clean, known = schedules.memo() }
  local devices, growth = plan_module.devices(clean), 1
  local best, e
  while not best and growth <= most_growth do
    best, e = best_change(self, growth * devices, growth == 1)
    growth = 2 * growth
  end
  if not best then return nil end
  local words, all = {}, plan_module.devices(e.plan)
  for _, name in ipairs(schema.keys(best)) do
    if best[name] ~= false then words[#words + 1] = ("%s=%s"):format(name, best[name]) end
  end
  words = { words[1] and "with " .. table.concat(words, " ") }
  for _, name in ipairs(schema.keys(best)) do
    if best[name] == false then words[#words + 1] = "without " .. name end
  end
  return table.concat(words, " and "), e.memory_bytes, all > devices and all or nil
end

--- "with zero=1 it would fit, in 68.24 GB", or "with tp=8 it would fit on 8 devices, in 61.20 GB". If nothing fits: the
--- advice to take more devices.
function fitting.sentence(model, cluster, times, plan)
  local words, bytes, devices = fitting.change(model, cluster, times, plan)
  return words and ("%s it would fit%s, in %.2f GB"):format(words, devices and (" on %d devices"):format(devices)
    or "", bytes / 1e9) or "give it more devices"
end

return fitting
