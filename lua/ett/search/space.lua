--- The space of a search: settings, units, and for an opened unit its programs and their parts.
--
--   setting   a cluster, a number of devices, and a value of every varied field that is no degree or overlap
--   unit      tp, cp, ep, etp and micro-batch, in all settings that share programs
--   program   one step program, with its remaining inputs such as sequence_parallel
--   part      a setting, pp and dp under a program, with the chunks { schedule, vp }
--
-- A unit is opened by the process that searches it, so that several processes share this work.
--
-- C walks the fields below a chunk (runtime/search): recompute, zero, reshard, overlaps of parameters, gradients and
-- sends. A field without effect takes only one value, so no plan is counted twice.
local architecture = require "ett.model.architecture"
local cluster_module = require "ett.profile.cluster"
local divisors = require "ett.base.divisors"
local parts = require "ett.profile.network.parts"
local error_module = require "ett.base.error"
local fields = require "ett.plan.fields"
local follows = require "ett.plan.follows"
local lower = require "ett.step.lower"
local merged = require "ett.base.merged"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local rank_orders = require "ett.plan.ranks"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local searched = require "ett.search.searched"
local stacks = require "ett.operator.stack"
local values_module = require "ett.search.values"

local space = {}
local Space = {}
Space.__index = Space

-- Fields that are no settings of their own.
local structural = { devices = true, cluster = true }
for _, name in ipairs(searched.given) do structural[name] = true end

-- Fields that need certain values of a walked field (ett.plan.rules).
local needs = { shard = { "zero", function(zero) return zero > 0 end },
  recompute_modules = { "recompute", function(recompute) return recompute == "selective" end },
  recompute_keeps = { "recompute", function(recompute) return recompute == "policy" end },
  recompute_layers = { "recompute", function(recompute) return recompute == "full" end } }
needs.recompute_layer_ids = needs.recompute_layers

local function up_to(list, most)
  local kept = {}
  for _, value in ipairs(list) do if value <= most then kept[#kept + 1] = value end end
  return kept
end

--- Chunks per stage for the interleaved schedule: one for each number of layers per chunk.
local function chunk_counts(layers, pp)
  local list, seen = {}, {}
  for per_chunk = 1, layers // (2 * pp) + 1 do
    local vp = (layers + pp * per_chunk - 1) // (pp * per_chunk)
    if vp >= 2 and pp * vp <= layers + 2 and not seen[vp] then
      seen[vp] = true
      list[#list + 1] = vp
    end
  end
  table.sort(list)
  return list
end

local function refuse_doubles(name, list)
  local seen = {}
  for _, value in ipairs(list) do
    if seen[value] then
      error_module.raise("plan", "search: vary: field '%s' has the value %s twice", name, schema.describe(value))
    end
    seen[value] = true
  end
end

--- The checked lists of the varied fields, and the checked plan with the others.
local function checked(given)
  local lists, first = {}, merged(given.plan)
  for _, name in ipairs(schema.keys(given.vary)) do
    local list = given.vary[name]
    if list == "all" then list = values_module.all(name, given, structural) end
    if list == values_module.default then goto next end
    local clean = values_module.checked("search: vary", name, list, structural)
    refuse_doubles(name, clean)
    if given.plan[name] ~= nil or name == "tokens" and given.tokens then
      error_module.raise("usage", "search: field '%s' is both fixed and varied", name)
    end
    if fields.schema[name] then lists[name], first[name] = clean, list[1] end
    ::next::
  end
  local base = schema.check(first, fields.schema, "search: plan", "plan")
  local found = {}
  plan_module.check_fields(base, found)
  if #found > 0 then error_module.raise("plan", "search: plan: %s", table.concat(found, "; ")) end
  if not base.global_batch then
    error_module.raise("plan", "search: missing field 'global_batch' (sequences per step); it gives the micro-batches")
  end
  if base.micro_batches then
    error_module.raise("plan", "search: give global_batch, not micro_batches: the search chooses dp and micro_batch")
  end
  return base, lists
end

--- The settings: every combination of cluster, devices and varied fields that no other loop covers.
local function settings_of(self, given, base)
  local names = {}
  for name in pairs(self.lists) do if not structural[name] then names[#names + 1] = name end end
  table.sort(names, function(a, b) return fields.position[a] < fields.position[b] end)
  local list = {}
  local function add(cluster, devices, depth, own)
    parts.refuse(cluster, "search", ", or list plans on all parts for `ett sweep`")
    local name = names[depth]
    if not name then
      local plan = setmetatable(merged(own), { __index = base })
      plan.stack = plan.stack or cluster.stack
      local overlaps = self.fixed.overlap_sends or self.lists.overlap_sends -- allowed with one stage
      for _, field in ipairs(overlaps and {} or { "scatter_sends", "serial_sends" }) do
        plan[field] = fields.sends_of(plan, field)
      end
      list[#list + 1] = { index = #list + 1, cluster = cluster, devices = devices, plan = plan, own = own,
        base = base, placement = cluster_module.placement(cluster) }
      return
    end
    for _, value in ipairs(self.lists[name]) do
      add(cluster, devices, depth + 1, merged(own, { [name] = value }))
    end
  end
  for _, cluster in ipairs(given.clusters) do
    for _, devices in ipairs(given.devices) do add(cluster, devices, 1, {}) end
  end
  self.setting_fields = names
  return list
end

--- The values of a field: those given, else the defaults.
local function values(self, name, default)
  if self.lists[name] then return self.lists[name] end
  if self.fixed[name] ~= nil then return { self.fixed[name] } end
  return default
end

--- Numbers of chunks searched for a schedule.
local function counts_of(self, schedule, pp)
  local own, split = self.schedules:properties(schedule), self.base.split
  if split and schedule == "interleaved" then return { math.max(1, #split // pp) } end
  if own.exact_chunks or own.chunks == 1 then return { own.chunks } end
  local counts = chunk_counts(self.layers, pp)
  if schedule ~= "interleaved" then table.insert(counts, 1, 1) end
  return counts
end

local function is_given(self, name) return self.lists[name] ~= nil or self.fixed[name] ~= nil end

--- The chunks of a part: every schedule with each of its numbers of chunks. refuses: whether one has a `refuse`.
---@param names string the stack's pipeline_schedules
local function chunks_of(self, p, names)
  local key = ("%d %s"):format(p.pp, names)
  local known = self.chunks[key]
  if known then return known end
  local list = {}
  local default = {}
  for name in (p.pp == 1 and "1f1b" or names):gmatch "%S+" do default[#default + 1] = name end
  for _, schedule in ipairs(values(self, "schedule", default)) do
    local properties = self.schedules:properties(schedule)
    list.refuses = list.refuses or properties.refuse ~= nil
    for _, vp in ipairs(values(self, "vp", counts_of(self, schedule, p.pp))) do
      list[#list + 1] = { schedule = schedule, vp = vp, own = not schedules.built_in[schedule],
        copies = (properties.ways or 1) > 1, sends = schedule ~= "1f1b" and schedule ~= "gpipe",
        default = schedule == "interleaved" and not (is_given(self, "schedule") or is_given(self, "vp")) }
    end
  end
  self.chunks[key] = list
  return list
end

--- The values of the walked fields below a part.
---@param pp integer its pipeline stages
---@param chunk table
function space.axes_of(setting, pp, chunk)
  if pp == 1 then return setting.axes end
  return chunk.sends and setting.staged_axes or setting.sent_axes
end

-- The values of a list for which a condition holds; all, if it holds for none: then a rule refuses them.
local function kept(list, is_held)
  local left = {}
  for _, value in ipairs(list) do if is_held(value) then left[#left + 1] = value end end
  return left[1] ~= nil and left or list
end

local function is_off(value) return not value end

local function is_on(value) return value end

--- Axes that together hold the plans that a stack's software has, if replicas share weights. If there are several, ZeRO
--- 3 has the last. late: it gathers weights during computing at stage 3 only. paired: at stages 1 and 2 it does so only
--- beside overlap_gradients.
---@param apart boolean? ZeRO 2 and 3 are apart from other stages in any case, and each value of reshard for itself
function space.parted(axes, apart)
  if not (axes.late or axes.paired or apart) then return { axes } end
  local list = {}
  local function add(least, most, own)
    local zeros = {}
    for _, zero in ipairs(axes.zero) do if zero >= least and zero <= most then zeros[#zeros + 1] = zero end end
    if zeros[1] then list[#list + 1] = merged(axes, own, { zero = zeros }) end
  end
  local function add_lower(least, own)
    add(least, apart and 1 or 2, own)
    if apart then add(2, 2, own) end
  end
  local first = kept(axes.overlap_parameters, is_off)
  if not axes.paired then
    add_lower(0, { overlap_parameters = axes.late and first or nil })
  elseif first[1] then -- gathers in any case
    add(0, 0)
    add_lower(1, { overlap_gradients = kept(axes.overlap_gradients, is_on) })
  else
    add_lower(0, { overlap_parameters = first })
    local with = kept(axes.overlap_gradients, is_on)
    if #axes.overlap_parameters > 1 and with[1] then
      add_lower(1, { overlap_parameters = { true }, overlap_gradients = with })
    end
  end
  for _, own in ipairs(apart and axes.reshard or { axes.reshard }) do
    add(3, 3, { reshard = apart and { own } or own })
  end
  return list
end

--- Plans with weights shared by replicas, per recomputation.
local function count_sharded(axes)
  local sum = 0
  for _, own in ipairs(space.parted(axes)) do
    for _, zero in ipairs(own.zero) do
      sum = sum + (zero == 0 and 1 or #own.overlap_parameters) * (zero == 3 and #own.reshard or 1)
        * #own.overlap_gradients
    end
  end
  return sum
end

--- The values of the walked fields that a stack's software has, with one or several pipeline stages (space.parted).
---@param sends boolean? whether the schedule can overlap sends in all software
local function axes_under(self, stack, staged, sends)
  local exposed = staged and not sends and stack.overlapped_sends == "interleaved"
  local key = ("%s %s %s %s %s %s %s %s"):format(exposed, stack.overlapped_gathers, stack.gathers_need_reductions,
    staged and stack.overlaps_pipelines, staged and stack.pipeline_zero_stages, stack.zero_stages,
    stack.overlap_gradients, stack.overlap_parameters)
  local known = self.variants[key]
  if known then return known end
  local axes = merged(self.axes, { late = stack.overlapped_gathers == "3", paired = stack.gathers_need_reductions })
  for _, name in ipairs(searched.walked) do
    if not is_given(self, name) then
      axes[name] = kept(axes[name], function(value) return stacks.has(stack, name, value) end)
    end
  end
  if staged then
    axes.zero = kept(axes.zero, function(zero) return stack.pipeline_zero_stages:find(zero, 1, true) end)
    for _, name in ipairs(stack.overlaps_pipelines and {} or { "overlap_gradients", "overlap_sends" }) do
      axes[name] = kept(axes[name], is_off)
    end
    if exposed then axes.overlap_sends = kept(axes.overlap_sends, is_off) end
  end
  if axes.late and kept(axes.overlap_parameters, is_off)[1] then
    axes.zero = kept(axes.zero, function(zero) return zero == 0 or zero == 3 end)
  end
  self.variants[key], self.of_sharded[axes] = axes, count_sharded(axes)
  return axes
end

-- Classes of chunks with equal numbers of plans: with copies of weights on other stages or not, and by `sends`.
local chunk_classes = { { copies = false, sends = false }, { copies = false, sends = true },
  { copies = true, sends = false }, { copies = true, sends = true } }

local function class_of_chunk(chunk) return (chunk.copies and 3 or 1) + (chunk.sends and 1 or 0) end

--- Numbers of plans below a chunk of each class, as counted by runtime/search.
local function below(self, setting)
  local p, each = setting.p, {}
  for k, class in ipairs(chunk_classes) do
    local axes = space.axes_of(setting, p.pp, class)
    local whole = #axes.recompute * (p.pp > 1 and not p.serial_sends and #axes.overlap_sends or 1)
    each[k] = (class.copies or fields.replicated(p)) and whole * self.of_sharded[axes] or whole
  end
  return each
end

local function plans_of(each, counts)
  local sum = 0
  for k, count in ipairs(counts) do sum = sum + each[k] * count end
  return sum
end

local function count_chunk(counts, chunk)
  local k = class_of_chunk(chunk)
  counts[k] = counts[k] + 1
end

--- Checks the chunks of a pipeline against the plan rules. Returns { passing = the valid chunks, counted = numbers by
--- class of valid chunks and of given chunks that violate a rule, broken = numbers of the latter, first_rule, fewer }.
--- fewer: whether larger micro-batches may have more valid chunks.
local function judged_chunks(self, setting, p, all, micro_batches)
  local key = ("%d %d %d %s"):format(setting.index, p.pp, micro_batches, p.overlap_all_to_all)
  if all.refuses then -- its answer may depend on any degree
    key = ("%s %d %d %d %d %d %d"):format(key, p.tp, p.cp, p.dp, p.ep, p.etp or p.tp, p.micro_batch)
  end
  local known = self.judged[key]
  if known then return known end
  known = { passing = {}, counted = { 0, 0, 0, 0 }, broken = { 0, 0, 0, 0 } }
  for _, chunk in ipairs(all) do
    p.schedule, p.vp = chunk.schedule, chunk.vp
    local rule = plan_rules.broken(p, self.model, setting.cluster, self.schedules)[1]
    if not rule then known.passing[#known.passing + 1] = chunk end
    known.fewer = known.fewer or rule and (chunk.own or p.interleave_group ~= nil)
    if not (rule and chunk.default) then count_chunk(known.counted, chunk) end
    if rule and not chunk.default then
      count_chunk(known.broken, chunk)
      known.first_rule = known.first_rule or rule
    end
  end
  self.judged[key] = known
  return known
end

--- The chunks of a part that satisfy the rules and the condition, and whether larger micro-batches may have more of
--- them; counts the plans of all chunks (each: see `below`).
local function passing_chunks(self, opened, setting, p, each, micro_batches)
  local all = chunks_of(self, p, setting.schedules)
  local group, split = p.interleave_group, p.split -- only a chunk decides on them
  p.schedule, p.vp, p.interleave_group, p.split = "1f1b", 1, nil, nil
  local part_rule = setting.broken:of(p)
  p.interleave_group, p.split = group, split
  local known = not part_rule and judged_chunks(self, setting, p, all, micro_batches)
  local first, counted, broken
  if known then
    first, counted, broken = known.first_rule, known.counted, plans_of(each, known.broken)
  else
    first, counted = part_rule, { 0, 0, 0, 0 }
    for _, chunk in ipairs(all) do if not chunk.default then count_chunk(counted, chunk) end end
    broken = plans_of(each, counted)
  end
  opened.plans = opened.plans + plans_of(each, counted)
  if broken > 0 then opened.rule, opened.first_rule = opened.rule + broken, opened.first_rule or first end
  local passing, fewer = known and known.passing or {}, known and known.fewer
  if self.where and #passing > 0 then
    local left = {}
    for _, chunk in ipairs(passing) do
      p.schedule, p.vp = chunk.schedule, chunk.vp
      if self.where:chunk(p, setting) then
        left[#left + 1] = chunk
      else
        opened.where = opened.where + each[class_of_chunk(chunk)]
      end
    end
    passing, fewer = left, fewer or #left < #passing
  end
  p.schedule, p.vp = nil, nil
  return passing, fewer
end

--- Adds the part of a plan with fixed degrees to its program.
local function add_part(self, opened, setting, p)
  local each, micro_batches = below(self, setting), p.global_batch // (p.dp * p.micro_batch)
  local chunks, fewer = passing_chunks(self, opened, setting, p, each, micro_batches)
  if #chunks == 0 then return end
  local key = lower.key(p, setting.placement, setting.key_of)
  local sharded = setmetatable({ zero = 3, micro_batches = micro_batches }, { __index = p })
  local whole = fields.stay_whole(sharded) or fields.defers_gradients(sharded)
  key = key .. " " .. (whole and "whole" or p.reduce_dtype or p.gradient_dtype) -- as sharded_gradients
  local parts_of = opened.by_key[key]
  if not parts_of then
    parts_of = {}
    opened.by_key[key] = parts_of
    opened.programs[#opened.programs + 1] = parts_of
  end
  local part = searched.part_of(p)
  part.setting, part.chunks, part.fewer, part.micro_batches, part.plans = setting, chunks, fewer, micro_batches, 0
  for _, chunk in ipairs(chunks) do part.plans = part.plans + each[class_of_chunk(chunk)] end
  parts_of[#parts_of + 1] = part
end

local function set(setting, name, value)
  if setting.p[name] == value then return end
  setting.p[name] = value
  setting.follows:changed(name)
  setting.degrees_follow:changed(name)
end

--- Rank orders with different placements of a plan. By default, stages come before replicas only if dense layers and
--- experts agree on the next stage (ett.plan.rules).
local function orders_of(self, p)
  local id = 0
  for i, axis in ipairs(rank_orders.axes) do id = id | (p[axis] > 1 and 1 << i or 0) end
  if p.etp * p.ep == p.tp * p.cp then id = id | 1 end
  if self.orders[id] then return self.orders[id] end
  local second = p.etp * p.ep == p.tp * p.cp and rank_orders.stages_first or nil
  local orders, seen = {}, {}
  for _, order in ipairs(values(self, "rank_order", { rank_orders.default, second })) do
    local real = ""
    for axis in order:gmatch "%a+" do if p[axis] > 1 then real = real .. axis end end
    if not seen[real] then
      seen[real] = true
      orders[#orders + 1] = order
    end
  end
  self.orders[id] = orders
  return orders
end

--- Values of overlap_tensor. In the model it never costs time, with one exception: pipelines that launch two
--- micro-batches together. There it may lengthen the backward pass as much as it shortens the forward pass.
local function tensor_overlaps(p)
  local on = p.sequence_parallel and plan_rules.overlaps_tensor(p)
  return on and p.pp > 1 and p.ep > 1 and plan_rules.launches(p) and { true, false } or { on }
end

--- Adds the parts of a setting's plan with fixed degrees: its overlaps and rank orders.
local function add_flags(self, opened, setting)
  local p = setting.p
  -- In the model, overlap with shared experts is never slower than no overlap.
  local exchange = p.ep == 1 and { "none" } or { self.beside and "shared_experts" or "none", "batch" }
  local orders = orders_of(self, p)
  for _, shared in ipairs(values(self, "sequence_parallel", p.tp > 1 and { false, true } or { false })) do
    set(setting, "sequence_parallel", shared)
    for _, tensor in ipairs(values(self, "overlap_tensor", setting.tensor_overlaps(p))) do
      set(setting, "overlap_tensor", tensor)
      for _, how in ipairs(values(self, "overlap_all_to_all", exchange)) do
        set(setting, "overlap_all_to_all", how)
        for _, order in ipairs(orders) do
          set(setting, "rank_order", order)
          add_part(self, opened, setting, p)
        end
      end
    end
  end
end

--- The content of a unit: { programs = lists of parts; plans = number of layouts; rule, where = number of layouts
--- excluded by them; first_rule }.
function Space:open(unit)
  local opened = { programs = {}, by_key = {}, plans = 0, rule = 0, where = 0 }
  for _, place in ipairs(unit.places) do
    for _, name in ipairs(searched.unit) do set(place.setting, name, unit[name]) end
    for _, grid in ipairs(place.grids) do
      set(place.setting, "pp", grid.pp)
      set(place.setting, "dp", grid.dp)
      add_flags(self, opened, place.setting)
    end
  end
  return opened
end

--- The first rule violated by a layout, as a message.
function Space:first_rule()
  local at, rule = 0, self.impossible_rule
  while not rule and at < #self.units do
    at = at + 1
    rule = self:open(self.units[at]).first_rule
  end
  return rule
end

--- Adds memoised functions of the plan to a setting, for changing degrees and overlaps.
local function add_follows(self, setting, p)
  local changing, degrees = {}, {}
  local unsharded = setting.axes.zero[1] == 0 and p.shard == 1
  if unsharded then p.zero = 0 end -- both are valid where no weights have copies, which depends on etp
  for _, name in ipairs(searched.dividing) do degrees[name] = true end
  for _, name in ipairs(searched.part) do changing[name] = name ~= "micro_batches" or nil end
  local rules = plan_rules.functions(self.model, setting.cluster, self.schedules)
  local all = follows.new(changing)
  setting.follows, setting.broken = all, all:first(rules)
  setting.tensor_overlaps = follows.remember(tensor_overlaps, changing)
  setting.degrees_follow = follows.new(degrees)
  setting.degrees_broken = setting.degrees_follow:first(rules)
  setting.degrees = setmetatable({ micro_batch = 1, ep = 1, etp = 1, rank_order = rank_orders.default,
    sequence_parallel = false, overlap_tensor = false, overlap_all_to_all = "none", schedule = "1f1b", vp = 1,
    interleave_group = false, split = false, recompute = self.axes.recompute[1], zero = setting.axes.zero[1],
    shard = not unsharded and p.shard }, { __index = p })
  setting.key_of = fields.program_keys(p, changing, not lower.copies_table(self.model) and "pp" or nil)
  setting.family = setting.cluster.name .. " "
    .. setting.key_of(setmetatable({ tp = 1, cp = 1, pp = 1, dp = 1 }, { __index = setting.degrees }))
end

--- Whether the degrees violate a rule for any values of other fields; they count as one layout.
local function impossible(self, setting)
  local broken = setting.degrees_broken:of(setting.degrees)
  if not broken then return false end
  self.impossible, self.impossible_rule = self.impossible + 1, self.impossible_rule or broken
  return true
end

--- The pairs { pp, dp } for given tensor and context ranks.
local function grids_of(self, setting, tp, cp, all)
  local grids, wanted = {}, nil
  if is_given(self, "dp") then
    wanted = {}
    for _, dp in ipairs(values(self, "dp")) do wanted[dp] = true end
  end
  set(setting, "tp", tp)
  set(setting, "cp", cp)
  for _, pp in ipairs(values(self, "pp", setting.has_pipelines and up_to(all, self.layers + 2) or { 1 })) do
    local dp = setting.devices // (tp * cp * pp)
    if dp * tp * cp * pp == setting.devices and (not wanted or wanted[dp]) then
      set(setting, "pp", pp)
      set(setting, "dp", dp)
      if not impossible(self, setting) then grids[#grids + 1] = { pp = pp, dp = dp } end
    end
  end
  return grids
end

--- The ascending distinct values of grids, and the grids of each value.
local function grouped(grids, values_of)
  local list, by_value = {}, {}
  for _, grid in ipairs(grids) do
    for _, value in ipairs(values_of(grid)) do
      local own = by_value[value]
      if not own then
        own = {}
        by_value[value], list[#list + 1] = own, value
      end
      if own[#own] ~= grid then own[#own + 1] = grid end
    end
  end
  table.sort(list)
  return list, by_value
end

--- Adds a setting with its grids to the unit of its programs.
---@param degrees table tp, cp, micro_batch, ep and etp of the unit
local function add_place(self, setting, degrees, grids)
  local key = ("%s %d %d %d %d %d"):format(setting.family, degrees.tp, degrees.cp, degrees.micro_batch, degrees.ep,
    degrees.etp)
  local unit = self.by_key[key]
  if not unit then
    unit = degrees
    unit.places = {}
    self.by_key[key], self.units[#self.units + 1] = unit, unit
  end
  unit.places[#unit.places + 1] = { setting = setting, grids = grids }
end

--- Adds the units of a setting with given tensor and context ranks: one for each micro-batch, ep and etp.
local function add_units(self, setting, tp, cp, grids)
  local global_batch, experts = setting.p.global_batch, self.model.hyper.experts
  local micro_batches, of_micro_batch = grouped(grids, function(grid)
    local of_replica = global_batch % grid.dp == 0 and global_batch // grid.dp or 1
    return values(self, "micro_batch", divisors(of_replica))
  end)
  for _, micro_batch in ipairs(micro_batches) do
    local eps, of_ep = grouped(of_micro_batch[micro_batch], function(grid)
      return values(self, "ep", experts and up_to(divisors(experts), grid.dp * cp * tp) or { 1 })
    end)
    for _, ep in ipairs(eps) do
      for _, etp in ipairs(values(self, "etp", experts and ep > 1 and tp > 1 and { tp, 1 } or { tp })) do
        add_place(self, setting, { tp = tp, cp = cp, micro_batch = micro_batch, ep = ep, etp = etp }, of_ep[ep])
      end
    end
  end
end

-- The schedules of a stack's pipelines. Raises if the search needs them and they are none or unknown.
local function schedules_of(self, stack)
  local label, names = ("stack '%s': pipeline_schedules"):format(stack.name), stack.pipeline_schedules
  if names == "none" then return "1f1b" end -- for stages that the user asks for
  if is_given(self, "schedule") then return names end
  if not names:find "%S" then error_module.raise("model", "%s names no schedule, such as 1f1b", label) end
  for name in names:gmatch "%S+" do
    error_module.wrap(label, self.schedules.properties, self.schedules, name)
  end
  return names
end

local function add_setting(self, setting)
  local p = {} -- flat, because its fields are read a million times
  for name in pairs(fields.schema) do p[name] = setting.plan[name] end
  p.recompute = p.recompute_modules and "selective" or p.recompute_keeps and "policy"
    or (p.recompute_layers or p.recompute_layer_ids) and "full" or nil
  local stack = stacks.get(p.stack)
  setting.p, setting.schedules, setting.has_pipelines = p, schedules_of(self, stack), stack.pipeline_schedules ~= "none"
  setting.axes, setting.staged_axes = axes_under(self, stack, false), axes_under(self, stack, true, true)
  setting.sent_axes = axes_under(self, stack, true)
  -- Gradients of a single micro-batch may need less memory than those of several smaller ones (`beyond_passes` of
  -- runtime/step/step.c, `ett_messages_whole_gradients`).
  setting.single_saves = stack.frees_gradients or stack.defers_gradients
  -- Rules of the stack decide on these, if they have one value.
  for _, name in ipairs { "overlap_gradients", "overlap_parameters", "overlap_sends" } do
    if #setting.axes[name] == 1 then p[name] = setting.axes[name][1] end
  end
  add_follows(self, setting, p)
  local all, heads = divisors(setting.devices), architecture.reads(self.model).heads and self.model.hyper.heads
  for _, tp in ipairs(values(self, "tp", up_to(all, heads or setting.devices))) do
    for _, cp in ipairs(values(self, "cp", up_to(all, p.seq))) do
      add_units(self, setting, tp, cp, grids_of(self, setting, tp, cp, all))
    end
  end
end

-- Tensor ranks of a fast plan, where nodes are large: more ranks make the products of a layer small.
local usual_tp = 8

--- Sorts units so that probably fast plans come first and cut the others. Units of one rank keep their order.
local function sort_units(units)
  local classes, class_of, sorted = {}, {}, {}
  for _, unit in ipairs(units) do
    local usual = math.min(usual_tp, unit.places[1].setting.cluster.gpus_per_node)
    local rank = { unit.cp, unit.micro_batch, math.abs(math.log(unit.tp / usual, 2)) }
    local key = table.concat(rank, " ")
    local class = class_of[key]
    if not class then
      class = { rank = rank, units = {} }
      classes[#classes + 1], class_of[key] = class, class
    end
    table.insert(class.units, unit)
  end
  table.sort(classes, function(a, b)
    for i, x in ipairs(a.rank) do if x ~= b.rank[i] then return x < b.rank[i] end end
    return false
  end)
  for _, class in ipairs(classes) do table.move(class.units, 1, #class.units, #sorted + 1, sorted) end
  for i, unit in ipairs(sorted) do unit.index = i end
  return sorted
end

--- The stacks of the space's plans.
local function stacks_of(self, clusters)
  local list, names = {}, self.lists.stack or { self.base.stack }
  for _, cluster in ipairs(not names[1] and clusters or {}) do list[#list + 1] = stacks.get(cluster.stack) end
  for _, name in ipairs(names) do list[#list + 1] = stacks.get(name) end
  return list
end

--- The default values of a walked field that one of the stacks has.
local function values_of_stacks(list, name, default)
  local left = {}
  for _, value in ipairs(default) do
    for _, stack in ipairs(list) do
      if stacks.has(stack, name, value) then
        left[#left + 1] = value
        break
      end
    end
  end
  return left
end

--- Removes the values of walked fields that a given field excludes. If none is left, all stay: the rule refuses them.
local function remove_excluded(self)
  for name, need in pairs(needs) do
    local left = {}
    for _, value in ipairs(self.base[name] ~= nil and self.axes[need[1]] or {}) do
      if need[2](value) then left[#left + 1] = value end
    end
    if left[1] then self.axes[need[1]] = left end
  end
end

--- Builds the space.
---@param given table { model, clusters = list, devices = list, plan = fixed fields, vary = { field = list }, where? }
---@return table { settings, units, axes, impossible = layouts whose degrees alone violate a rule }
function space.new(given)
  local base, lists = checked(given)
  local fixed = {}
  for name in pairs(given.plan) do fixed[name] = base[name] end
  local self = setmetatable({ model = given.model, fixed = fixed, lists = lists, where = given.where, base = base,
    layers = plan_rules.middle_layers(given.model), beside = plan_rules.has_shared_experts(given.model),
    axes = {}, chunks = {}, units = {},
    schedules = schedules.memo(),
    by_key = {}, judged = {}, orders = {}, impossible = 0 }, Space)
  local software = stacks_of(self, given.clusters)
  for _, name in ipairs(searched.walked) do
    self.axes[name] = values(self, name, values_of_stacks(software, name, searched.values[name]))
  end
  remove_excluded(self)
  self.variants, self.of_sharded = {}, {}
  -- These fields are set one by one below; defaults in the base would hide a missing one.
  for name in pairs(structural) do base[name] = nil end
  self.settings = settings_of(self, given, base)
  for _, setting in ipairs(self.settings) do add_setting(self, setting) end
  self.units = sort_units(self.units)
  self.by_key = nil
  return self
end

return space
