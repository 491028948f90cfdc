--- The layers of each slice of the model, and the messages of their weights.
local merged = require "ett.base.merged"
local modules = require "ett.operator.modules"
local operator = require "ett.operator"
local plan_fields = require "ett.plan.fields"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local step_core = require "ett.step"

local slices = {}

--- The places of layers that recomputation may repeat.
slices.is_repeated_place = { middle = true, prediction = true }

--- Seconds in which the update of a stage waits for the host; less than 1e-12 of the update is rounding of the sums.
function slices.host_seconds(s)
  local seconds = s.optimizer_seconds - s.optimizer_kernel_seconds - s.newton_seconds - s.newton_message_seconds
  return seconds > 1e-12 * s.optimizer_seconds and seconds or 0.0
end

--- The layers of every slice, first to last: lists of kinds.
---@param kinds table of a lowered program
function slices.layers(p, kinds)
  local list, middle, count = {}, {}, p.pp * p.vp
  for _, kind in ipairs(kinds) do
    if kind.place == "middle" then for _ = 1, kind.count do middle[#middle + 1] = kind end end
  end
  local split, at = p.split or step_core.split(#middle, count), 0
  for v = 1, count do
    list[v] = table.move(middle, at + 1, at + split[v], 1, {})
    at = at + split[v]
  end
  for _, kind in ipairs(kinds) do
    if kind.place ~= "middle" then
      local slice = kind.place == "first" and list[1] or list[kind.place == "prediction" and p.mtp_slice or count]
      for _ = 1, kind.count do
        if kind.place == "first" then table.insert(slice, 1, kind) else slice[#slice + 1] = kind end
      end
    end
  end
  return list
end

--- Whether a layer is repeated under recompute_layers = n, by method.
---@param number integer of the layer, from 1, among the layers of the slice that can be repeated
slices.is_repeated = { block = function(number, n) return number <= n end,
  every = function(number, n) return number % n == 0 end, uniform = function() return true end }

--- The layers of a model, each with `stored` if it is not among the layers that a plan repeats. A kind of which only
--- some layers are repeated is split.
---@param layers table[] of a model, or of ett.step.frozen
---@param ids integer[]? recompute_layer_ids
function slices.listed(layers, ids)
  if not ids then return layers end
  local listed, list, id = {}, {}, 0
  for _, number in ipairs(ids) do listed[number] = true end
  for _, layer in ipairs(layers) do
    if not slices.is_repeated_place[layer.place or "middle"] then
      list[#list + 1] = layer
    else
      local run
      for _ = 1, layer.count do
        local stored = not listed[id]
        if run and run.stored == stored then
          run.count = run.count + 1
        else
          run = merged(layer, { count = 1, stored = stored })
          list[#list + 1] = run
        end
        id = id + 1
      end
    end
  end
  return list
end

-- Whether a plan repeats some layers, or several layers from one stored input.
local function is_partial(p)
  return p.recompute == "full" and (p.recompute_layers or p.recompute_layer_ids) ~= nil
end

--- The parts of each layer of a slice that the backward pass repeats; nil if it repeats each layer by itself.
---@param layers table[] kinds, as in slices.layers
---@return table[]? { layers = 1 if it repeats the layer, else 0, outputs = 1 if it repeats all of it because the next
---  layer of its group needs its output, else 0, opens = whether the layer opens a group with one stored input }
function slices.repeated(p, layers)
  if not is_partial(p) then return nil end
  local number, list, before, n = 0, {}, 0, p.recompute_layers
  for i, kind in ipairs(layers) do
    local own = { layers = 0, outputs = 0 }
    list[i] = own
    if kind.place == "prediction" and not kind.forward_only then
      own.layers = not kind.stored and (not n or p.recompute_method == "uniform") and 1 or 0
      own.opens = true
    elseif kind.place == "middle" and not kind.forward_only then
      number = number + 1
      own.layers = not kind.stored and (not n or slices.is_repeated[p.recompute_method](number, n)) and 1 or 0
      own.opens = not n or p.recompute_method ~= "uniform" or (number - 1) % n == 0
      if not own.opens then list[before].outputs = 1 end
      before = i
    end
  end
  return list
end

--- The shares of the layers of each kind that backward passes repeat, for each part of the cluster: { [kind] =
--- { layers, outputs } }, means of slices.repeated; nil if they repeat each layer by itself.
---@param stages table[] of the result of program:evaluate
function slices.repeated_shares(p, lowered, stages)
  if not is_partial(p) then return nil end
  local shares = {}
  for part, own in ipairs(lowered.parts) do
    local layers, counts, repeated = slices.layers(p, own.kinds), {}, {}
    shares[part] = {}
    for slot, slice in ipairs(schedules.slices(p)) do
      if (stages[(slot - 1) % p.pp + 1].part or 1) == part then
        local again = slices.repeated(p, layers[slice])
        for i, kind in ipairs(layers[slice]) do
          local sum = repeated[kind] or { layers = 0, outputs = 0 }
          counts[kind], repeated[kind] = (counts[kind] or 0) + 1, sum
          sum.layers, sum.outputs = sum.layers + again[i].layers, sum.outputs + again[i].outputs
        end
      end
    end
    for kind, count in pairs(counts) do
      shares[part][kind] = { layers = repeated[kind].layers / count, outputs = repeated[kind].outputs / count }
    end
  end
  return shares
end

--- A warning if some of recompute_layer_ids are frozen; else nil.
local function frozen_ids(p)
  local frozen = {}
  for _, id in ipairs(p.recompute_layer_ids or {}) do
    if id < p.frozen_layers then frozen[#frozen + 1] = id end
  end
  table.sort(frozen)
  local last = table.remove(frozen)
  if not last then return nil end
  if #frozen == 0 then
    return ("recompute_layer_ids: layer %d is frozen, so no backward pass repeats it"):format(last)
  end
  return ("recompute_layer_ids: layers %s and %d are frozen, so no backward pass repeats them"):format(
    table.concat(frozen, ", "), last)
end

--- A warning if recompute_layers is larger than each slice.
---@param most integer layers to repeat of the largest slice
local function larger_than_slices(p, most)
  if (p.recompute_layers or 0) <= most then return nil end
  return ("recompute_layers = %d: no slice has more than %d to repeat, so %d is used"):format(p.recompute_layers, most,
    most)
end

--- A warning if recompute_layers is larger than each slice, or if recompute_layer_ids are frozen; else nil.
function slices.repeated_warning(p, lowered)
  if not is_partial(p) then return nil end
  local most, repeats = 0, false
  for _, layers in ipairs(slices.layers(p, lowered.kinds)) do
    local count = 0
    for i, again in ipairs(slices.repeated(p, layers)) do
      repeats = repeats or again.layers > 0
      if layers[i].place == "middle" and not layers[i].forward_only then count = count + 1 end
    end
    most = math.max(most, count)
  end
  if repeats then return p.recompute_layers and larger_than_slices(p, most) or frozen_ids(p) end
  if p.recompute_layer_ids then return "recompute_layer_ids: no layer is repeated, because all of them are frozen" end
  return ("recompute_layers = %d: no layer is repeated, because no slice has so many layers to repeat"):format(
    p.recompute_layers)
end

--- A warning if every second layer is recomputed and a chunk has a single layer to recompute; else nil. Programs
--- recompute such a layer or not (_checkpointed_forward of Megatron-Core, _apply_layer_sac of torchtitan).
function slices.warning(p, lowered)
  if p.recompute ~= "policy" or lowered.stack.operator_policy or p.recompute_keeps then return nil end
  for _, layers in ipairs(slices.layers(p, lowered.kinds)) do
    local count = 0
    for _, kind in ipairs(layers) do
      if kind.place == "middle" and not kind.forward_only then count = count + 1 end
    end
    if count == 1 then
      return "recompute = policy: chunks of one layer count the mean of none and full; programs recompute whole layers"
    end
  end
end

--- A warning if recompute_keeps names operators that no backward pass repeats, or tensors that no layer has; else nil.
function slices.never_repeated(p, lowered)
  local repeated, others, absent, text = {}, {}, {}, {}
  for _, kind in ipairs(p.recompute_keeps and lowered.kinds or {}) do
    for index in pairs(kind.place == "middle" and not kind.forward_only and kind.uses or {}) do
      local o = lowered.operations[index]
      if o.operator and not o.never_again then repeated[o.operator] = true end
    end
  end
  for _, name in ipairs(p.recompute_keeps or {}) do
    if modules.tensors[name] then
      if not lowered.tensors[name] then absent[#absent + 1] = name end
    elseif not repeated[operator.find(name)] then
      others[#others + 1] = name
    end
  end
  if others[1] then text[1] = table.concat(others, ", ") .. ": no backward pass repeats it" end
  if absent[1] then text[#text + 1] = table.concat(absent, ", ") .. ": no layer has it" end
  return text[1] and "recompute_keeps: " .. table.concat(text, "; ") or nil
end

--- A warning if recompute_modules names modules that no layer has; else nil.
function slices.absent_modules(p, model)
  local present, absent = {}, {}
  for _, layer in ipairs(p.recompute_modules and model.layers or {}) do
    for _, entry in ipairs(layer.ops) do
      local selective = entry.selective
      if selective == nil then
        selective = entry.op and not entry.module and operator.get(entry.op).selective
      end
      local own = selective and "core_attn" or entry.module or ""
      present[own], present[modules.within[own] or own] = true, true
    end
  end
  for _, name in ipairs(p.recompute_modules or {}) do
    if not present[name] then absent[#absent + 1] = name end
  end
  return absent[1] and ("recompute_modules: %s: no layer has it"):format(table.concat(absent, ", ")) or nil
end

--- The stage of each way of a schedule and slice, by "WAY SLICE"; ways are counted from 0.
---@param list integer[] schedules.slices(p)
function slices.stages(p, list)
  local stages = {}
  for slot, slice in ipairs(list) do
    stages[("%d %d"):format(((slot - 1) // p.pp) // p.vp, slice)] = (slot - 1) % p.pp + 1
  end
  return stages
end

--- Numbers of ranks that share dense weights and experts, and numbers of ranks that share a shard under ZeRO. In a
--- two-way schedule several stages hold `copies` of a slice; their ranks are counted, too.
function slices.sharing(p)
  local copies = schedules.ways(p.schedule)
  local data = p.dp * p.cp
  local expert_data, shard = data * p.tp // (p.ep * (p.etp or p.tp)), p.shard or data
  return { copies = copies, dense = data * copies, expert = expert_data * copies, dense_shard = shard * copies,
    expert_shard = expert_data * shard // data * copies }
end

--- Parameters of layers that several ranks hold: of dense layers and of experts, each with and without frozen
--- parameters.
---@param sharing table of slices.sharing
---@param gathered boolean? only the part of a weight that gathers move
function slices.shared_parameters(sharing, lowered, layers, gathered)
  local sums = { dense = 0.0, expert = 0.0, frozen_dense = 0.0, frozen_expert = 0.0 }
  local dense, expert = sharing.dense > 1, sharing.expert > 1
  for _, kind in ipairs(layers) do
    for index, n in pairs(kind.uses) do
      local o = lowered.operations[index]
      if gathered then n = n * (1 - o.spared_share) end
      if dense then
        sums.dense, sums.frozen_dense = sums.dense + n * o.dense_parameters, sums.frozen_dense + n * o.frozen_dense
      end
      if expert then
        sums.expert = sums.expert + n * o.expert_parameters
        sums.frozen_expert = sums.frozen_expert + n * o.frozen_expert
      end
    end
  end
  return sums
end

--- Parameters of the copies of the embedding's table that C removes from a stage, because the stage has the embedding
--- or another copy (find_tied in runtime/step/step.c).
---@param layers table[] kinds of all slices of the stage
function slices.removed_copies(lowered, layers)
  local owned, copies = false, 0
  for _, kind in ipairs(layers) do
    owned, copies = owned or kind.owns_table, copies + (kind.copies_table and 1 or 0)
  end
  return math.max(0, owned and copies or copies - 1) * lowered.table_parameters
end

--- The demand of a gather over `ranks` ranks on devices of these parts. Gathers of other layers have other bytes.
local function demand_of(demands, bytes, ranks, parts)
  local found
  for _, d in ipairs(demands) do
    if d.kind == "all_gather" and d.topology.ranks == ranks and d.parts == parts
      and (not found or math.abs(d.bytes - bytes) < math.abs(found.bytes - bytes)) then found = d end
  end
  return found
end

-- The gathers of the layers' weights, in the order of a pass. They share the seconds in proportion to their weights
-- (runtime/step/evaluation.h).
local function gathers_of(p, sharing, lowered, stage, demands, layers)
  local sums, width = slices.shared_parameters(sharing, lowered, layers, true), schema.wide_bytes(p.dtype)
  local gathers, groups, known = { seconds = 0.0, first = 0.0 }, {}, {}
  local function add(kind, ranks, members)
    local all = sums[kind] + sums["frozen_" .. kind]
    local d = all > 0 and demand_of(demands, all * width / #layers, ranks, stage.parts)
    if not d then return end
    local seconds = #layers * d.seconds
    groups[#groups + 1] = { kind = kind, each = seconds / all, degree = ranks, members = members }
    gathers.seconds = gathers.seconds + seconds
  end
  add("dense", sharing.dense_shard, "data")
  add("expert", sharing.expert_shard, "expert data")
  local function of(layer)
    local own, list = slices.shared_parameters(sharing, lowered, { layer }, true), {}
    for _, g in ipairs(groups) do
      local n = own[g.kind] + own["frozen_" .. g.kind]
      list[#list + 1] = n > 0 and { seconds = n * g.each, bytes = n * width, degree = g.degree, members = g.members }
        or nil
    end
    return list
  end
  for i, layer in ipairs(layers) do
    known[layer] = known[layer] or of(layer)
    for _, g in ipairs(known[layer]) do
      gathers[#gathers + 1] = g
      gathers.first = gathers.first + (i == 1 and g.seconds or 0.0)
    end
  end
  return gathers
end

--- The gathers of weights under ZeRO-3, for each slot (schedules.slices) and kind of unit: `F`, and `B` under reshard,
--- unless weights stay whole. nil: passes gather nothing.
--- { { seconds, bytes, degree, members }, … in the order of the pass, layer by layer, seconds = of all layers, first =
--- of the layer that the pass gathers first }.
---@param result table of program:evaluate
function slices.gathers(p, lowered, result)
  local list, sharing, layers, whole = {}, slices.sharing(p), {}, plan_fields.stay_whole(p)
  if p.zero < 3 or whole and not p.reshard then return nil end
  for part, own in ipairs(lowered.parts) do layers[part] = slices.layers(p, own.kinds) end
  for slot, slice in ipairs(schedules.slices(p)) do
    local stage, again = result.stages[(slot - 1) % p.pp + 1], {}
    local part = stage.part or 1
    local all = layers[part][slice]
    for i = #all, 1, -1 do again[#again + 1] = not all[i].forward_only and all[i] or nil end
    local function of(own) return gathers_of(p, sharing, lowered.parts[part], stage, result.demands, own) end
    list[slot] = { F = of(all), B = p.reshard and not whole and of(again) or nil }
  end
  return list
end

return slices
