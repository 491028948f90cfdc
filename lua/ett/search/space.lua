--- The space of a search: settings, the programs under them, and the parts of each program.
--
--   setting   one cluster, number of devices, and value of every varied field that is no degree or overlap
--   unit      one step program: tp, cp, ep, etp, micro-batch and what else a program depends on
--   part      degrees of a unit (pp, dp), with its chunks { schedule, vp }
--
-- C walks what is below a chunk (runtime/search): recompute, zero, overlaps of parameters, gradients and sends. A field
-- that has no effect takes one value only, so no plan is counted twice.
local cluster_module = require "ett.profile.cluster"
local parts = require "ett.profile.network.parts"
local error_module = require "ett.base.error"
local fields = require "ett.plan.fields"
local follows = require "ett.plan.follows"
local lower = require "ett.step.lower"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local rank_orders = require "ett.plan.ranks"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local values_module = require "ett.search.values"

local space = {}

--- Fields below a chunk, in C's order, with the values searched unless they are given.
space.walked = { { "recompute", { "none", "selective", "half", "full" } }, { "zero", { 0, 1, 2, 3 } },
  { "overlap_parameters", { false, true } }, { "overlap_gradients", { false, true } },
  { "overlap_sends", { false, true } } }

--- Fields of a unit or part that are searched unless they are given.
space.degrees = { "tp", "cp", "pp", "dp", "ep", "etp", "micro_batch", "rank_order", "sequence_parallel",
  "overlap_tensor", "overlap_all_to_all", "schedule", "vp" }

local grid = { "tp", "cp", "pp", "dp" } -- what divides the devices

local structural = { devices = true, cluster = true }
for _, name in ipairs(space.degrees) do structural[name] = true end
for _, walked in ipairs(space.walked) do structural[walked[1]] = true end

local function divisors(n)
  local list = {}
  for d = 1, math.floor(math.sqrt(n)) do
    if n % d == 0 then
      list[#list + 1] = d
      if d * d ~= n then list[#list + 1] = n // d end
    end
  end
  table.sort(list)
  return list
end

local function up_to(list, most)
  local kept = {}
  for _, value in ipairs(list) do if value <= most then kept[#kept + 1] = value end end
  return kept
end

--- Chunks a stage for the interleaved schedule: one for each number of layers a chunk.
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

--- The checked lists of the varied fields, and the checked plan of the others.
local function checked(given)
  local lists, first = {}, {}
  for name, value in pairs(given.plan) do first[name] = value end
  for _, name in ipairs(schema.keys(given.vary)) do
    local list = given.vary[name]
    if list == "all" then list = values_module.all(name, given, structural) end
    if list == values_module.default then goto next end
    if type(list) ~= "table" or #list == 0 then
      error_module.raise("plan", "search: vary: field '%s' must be a non-empty list of values, got %s", name,
        schema.describe(list))
    end
    if given.plan[name] ~= nil then
      error_module.raise("usage", "search: field '%s' is both fixed and varied", name)
    end
    if not structural[name] or fields.schema[name] then
      if not fields.schema[name] then
        local known = schema.keys(fields.schema)
        known[#known + 1], known[#known + 2] = "devices", "cluster"
        error_module.raise("plan", "search: vary: unknown field '%s'%s", name,
          error_module.suggestion(name, known))
      end
      lists[name] = {}
      for i, value in ipairs(list) do
        lists[name][i] = schema.check({ [name] = value }, { [name] = fields.schema[name] }, "search: vary",
          "plan")[name]
      end
      first[name] = list[1]
    end
    ::next::
  end
  local base = schema.check(first, fields.schema, "search: plan", "plan")
  local found = {}
  plan_module.check_fields(base, found)
  if #found > 0 then error_module.raise("plan", "search: plan: %s", table.concat(found, "; ")) end
  if not base.global_batch then
    error_module.raise("plan", "search: missing field 'global_batch' (sequences a step); micro-batches follow from it")
  end
  if base.micro_batches then
    error_module.raise("plan", "search: give global_batch, not micro_batches: the search chooses dp and micro_batch")
  end
  return base, lists
end

--- The settings: every combination of cluster, devices and the varied fields that no loop below takes.
local function settings_of(self, given, base)
  local names = {}
  for name in pairs(self.lists) do if not structural[name] then names[#names + 1] = name end end
  table.sort(names, function(a, b) return fields.position[a] < fields.position[b] end)
  local list = {}
  local function add(cluster, devices, depth, own)
    parts.refuse(cluster, "search")
    local name = names[depth]
    if not name then
      local plan = setmetatable({}, { __index = base })
      for field, value in pairs(own) do plan[field] = value end
      list[#list + 1] = { index = #list + 1, cluster = cluster, devices = devices, plan = plan, own = own,
        base = base, placement = cluster_module.placement(cluster) }
      return
    end
    for _, value in ipairs(self.lists[name]) do
      local copy = {}
      for field, v in pairs(own) do copy[field] = v end
      copy[name] = value
      add(cluster, devices, depth + 1, copy)
    end
  end
  for _, cluster in ipairs(given.clusters) do
    for _, devices in ipairs(given.devices) do add(cluster, devices, 1, {}) end
  end
  self.setting_fields = names
  return list
end

--- The values of a field: those given, else the default ones.
local function values(self, name, default)
  if self.lists[name] then return self.lists[name] end
  if self.fixed[name] ~= nil then return { self.fixed[name] } end
  return default
end

--- Numbers of chunks that a schedule is searched with.
local function counts_of(self, schedule, pp)
  local own = self.schedules:properties(schedule)
  if own.exact_chunks or own.chunks == 1 then return { own.chunks } end
  local counts = chunk_counts(self.layers, pp)
  if schedule ~= "interleaved" then table.insert(counts, 1, 1) end
  return counts
end

local function is_given(self, name) return self.lists[name] ~= nil or self.fixed[name] ~= nil end

--- The chunks of a part: every schedule with its numbers of chunks.
local function chunks_of(self, p)
  local key = ("%d"):format(p.pp)
  local known = self.chunks[key]
  if known then return known end
  local list = {}
  local default = p.pp == 1 and { "1f1b" } or { "1f1b", "interleaved", "gpipe" }
  for _, schedule in ipairs(values(self, "schedule", default)) do
    for _, vp in ipairs(values(self, "vp", counts_of(self, schedule, p.pp))) do
      list[#list + 1] = { schedule = schedule, vp = vp, own = not schedules.built_in[schedule],
        default = schedule == "interleaved" and not (is_given(self, "schedule") or is_given(self, "vp")) }
    end
  end
  self.chunks[key] = list
  return list
end

--- How many plans are below a chunk: what runtime/search counts.
local function below(self, p)
  local data, axes = p.dp * p.cp, self.axes
  local sharded = data > 1 or data * p.tp > p.ep * (p.etp or p.tp)
  local sends = p.pp > 1 and not p.serial_sends and #axes.overlap_sends or 1
  return #axes.recompute * (sharded and self.of_sharded or 1) * sends
end

local function cut(self, reason, plans)
  self.cut[reason] = (self.cut[reason] or 0) + plans
end

--- Judges the chunks of a pipeline by the rules of a plan. Returns { passing = the chunks that break no rule, counted =
--- their number and that of the stated ones that break a rule, broken = the number of the latter, first_rule }.
local function judged_chunks(self, setting, p, all, micro_batches)
  local key = ("%d %d %s"):format(p.pp, micro_batches, p.overlap_all_to_all)
  local known = self.judged[key]
  if known then return known end
  known = { passing = {}, counted = 0, broken = 0 }
  for _, chunk in ipairs(all) do
    p.schedule, p.vp = chunk.schedule, chunk.vp
    local rule = plan_rules.broken(p, self.model, setting.cluster, self.schedules)[1]
    if not rule then known.passing[#known.passing + 1] = chunk end
    if not (rule and chunk.default) then known.counted = known.counted + 1 end
    if rule and not chunk.default then
      known.broken, known.first_rule = known.broken + 1, known.first_rule or rule
    end
  end
  self.judged[key] = known
  return known
end

--- The chunks of a part that break no rule and pass the condition; counts the plans of all, `each` a chunk.
local function passing_chunks(self, setting, p, each, micro_batches)
  local all = chunks_of(self, p)
  p.schedule, p.vp = "1f1b", 1
  local part_rule = setting.broken:of(p)
  local known = not part_rule and judged_chunks(self, setting, p, all, micro_batches)
  local first, broken = part_rule or known.first_rule, part_rule and 0 or known.broken
  local counted = known and known.counted
  if part_rule then
    for _, chunk in ipairs(all) do broken = broken + (chunk.default and 0 or 1) end
    counted = broken
  end
  self.plans = self.plans + each * counted
  if broken > 0 then
    cut(self, "rule", each * broken)
    self.first_rule = self.first_rule or first
  end
  local passing = known and known.passing or {}
  if self.where and #passing > 0 then
    local left = {}
    for _, chunk in ipairs(passing) do
      p.schedule, p.vp = chunk.schedule, chunk.vp
      if self.where:chunk(p, setting) then left[#left + 1] = chunk else cut(self, "where", each) end
    end
    passing = left
  end
  p.schedule, p.vp = nil, nil
  return passing
end

--- Adds the part of a plan whose degrees are set to the unit of its program.
local function add_part(self, setting, p)
  local each, micro_batches = below(self, p), p.global_batch // (p.dp * p.micro_batch)
  local chunks = passing_chunks(self, setting, p, each, micro_batches)
  if #chunks == 0 then return end
  local key = setting.cluster.name .. " " .. lower.key(p, setting.placement, nil, setting.key_of)
  local unit = self.by_key[key]
  if not unit then
    unit = { key = key, parts = {}, plans = 0 }
    self.by_key[key] = unit
    self.units[#self.units + 1] = unit
  end
  local part = { setting = setting, chunks = chunks, micro_batches = micro_batches, plans = each * #chunks, tp = p.tp,
    cp = p.cp, pp = p.pp, dp = p.dp, ep = p.ep, etp = p.etp, micro_batch = p.micro_batch, rank_order = p.rank_order,
    sequence_parallel = p.sequence_parallel, overlap_tensor = p.overlap_tensor,
    overlap_all_to_all = p.overlap_all_to_all }
  unit.parts[#unit.parts + 1] = part
  unit.plans = unit.plans + part.plans
end

--- A function that sets a field of a plan to each of its values in turn: those given, else the default ones.
local function loops(self, setting, p)
  return function(name, default, visit)
    local list, all = values(self, name, default), setting.follows
    for i = 1, #list do
      local value = list[i]
      p[name] = value
      all:changed(name)
      visit(value)
    end
    p[name] = nil
  end
end

--- The orders of ranks that place a plan's ranks differently. Stages come before replicas by default only where dense
--- layers and experts agree on the next stage (ett.plan.rules).
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

--- The overlaps and expert degrees of a plan whose tp, cp, pp, dp and micro_batch are set.
local function add_flags(self, setting, p, over)
  local experts = self.model.hyper.experts
  -- Hiding costs no time in the model: shared experts beside an exchange are never slower than none.
  local exchange = self.beside and { "shared_experts", "batch" } or { "none", "batch" }
  over("ep", experts and up_to(divisors(experts), p.dp * p.cp * p.tp) or { 1 }, function(ep)
    over("etp", experts and ep > 1 and p.tp > 1 and { p.tp, 1 } or { p.tp }, function()
      local orders = orders_of(self, p)
      over("sequence_parallel", p.tp > 1 and { false, true } or { false }, function(shared)
        over("overlap_tensor", { shared and plan_rules.overlaps_tensor(p) }, function()
          over("overlap_all_to_all", ep > 1 and exchange or { "none" }, function()
            for i = 1, #orders do
              p.rank_order = orders[i]
              setting.follows:changed "rank_order"
              add_part(self, setting, p)
            end
            p.rank_order = nil
          end)
        end)
      end)
    end)
  end)
end

--- Whether degrees break a rule by themselves, whatever the other fields are; they count as one layout.
local function impossible(self, setting)
  local broken = setting.degrees_broken:of(setting.degrees)
  if not broken then return false end
  self.plans = self.plans + 1
  cut(self, "rule", 1)
  self.first_rule = self.first_rule or broken
  return true
end

--- Adds to a setting what follows from its plan while degrees and overlaps of it change.
local function add_follows(self, setting, p)
  local changing, degrees = {}, {}
  for _, name in ipairs(grid) do degrees[name] = true end
  for _, name in ipairs(space.degrees) do changing[name] = name ~= "schedule" and name ~= "vp" end
  local rules = plan_rules.functions(self.model, setting.cluster, self.schedules)
  local all = follows.new(changing)
  setting.follows, setting.broken = all, all:first(rules)
  setting.degrees_follow = follows.new(degrees)
  setting.degrees_broken = setting.degrees_follow:first(rules)
  setting.degrees = setmetatable({ micro_batch = 1, ep = 1, etp = 1, rank_order = rank_orders.default,
    sequence_parallel = false, overlap_tensor = false, overlap_all_to_all = "none", schedule = "1f1b", vp = 1,
    recompute = "none", zero = 0 }, { __index = p })
  setting.key_of = fields.program_keys(p, changing)
end

--- The parts of one setting.
local function add_setting(self, setting)
  local p = {} -- flat: its fields are read a million times
  for name in pairs(fields.schema) do p[name] = setting.plan[name] end
  add_follows(self, setting, p)
  local over = loops(self, setting, p)
  local devices, hyper = setting.devices, self.model.hyper
  local all = divisors(devices)
  local dps = self.lists.dp or self.fixed.dp and { self.fixed.dp }
  local dp_wanted
  if dps then
    dp_wanted = {}
    for _, dp in ipairs(dps) do dp_wanted[dp] = true end
  end
  over("tp", up_to(all, hyper.heads or devices), function(tp)
    over("cp", up_to(all, p.seq), function(cp)
      over("pp", up_to(all, self.layers + 2), function(pp)
        local dp = devices // (tp * cp * pp)
        if dp * tp * cp * pp ~= devices or dp_wanted and not dp_wanted[dp] then return end
        p.dp = dp
        setting.follows:changed "dp"
        for _, name in ipairs(grid) do setting.degrees_follow:changed(name) end
        if impossible(self, setting) then
          p.dp = nil
          return
        end
        local local_batch = p.global_batch % dp == 0 and p.global_batch // dp or 1
        over("micro_batch", divisors(local_batch), function()
          add_flags(self, setting, p, over)
        end)
        p.dp = nil
      end)
    end)
  end)
end

--- Units whose plans are likely to be fast come first: what they reach cuts the others. Those of one rank keep their
--- order.
local function sort_units(units)
  local classes, class_of, sorted = {}, {}, {}
  for _, unit in ipairs(units) do
    local part = unit.parts[1]
    local rank = { part.cp, part.micro_batch, math.abs(math.log(part.tp / part.setting.cluster.gpus_per_node, 2)),
      part.sequence_parallel and 0 or 1 }
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

--- Builds the space.
---@param given table { model, clusters = list, devices = list, plan = fixed fields, vary = { field = list }, where? }
---@return table { settings, units, axes, plans = number of them, cut = { rule =, where = } }
function space.new(given)
  local base, lists = checked(given)
  local fixed = {}
  for name in pairs(given.plan) do fixed[name] = base[name] end
  local self = { model = given.model, fixed = fixed, lists = lists, where = given.where, base = base,
    layers = plan_rules.middle_layers(given.model), beside = plan_rules.has_shared_experts(given.model),
    axes = {}, chunks = {}, units = {},
    schedules = schedules.memo(),
    by_key = {}, judged = {}, orders = {}, plans = 0, cut = {} }
  for _, walked in ipairs(space.walked) do self.axes[walked[1]] = values(self, walked[1], walked[2]) end
  local sum = 0
  for _, zero in ipairs(self.axes.zero) do sum = sum + (zero == 0 and 1 or #self.axes.overlap_parameters) end
  self.of_sharded = sum * #self.axes.overlap_gradients -- plans of weights that replicas share, for each recomputation
  -- Below, these are set field by field; the base holds defaults that would hide a missing one.
  for name in pairs(structural) do if name ~= "dp" then base[name] = nil end end
  base.dp = nil
  self.settings = settings_of(self, given, base)
  for _, setting in ipairs(self.settings) do add_setting(self, setting) end
  self.units = sort_units(self.units)
  self.by_key = nil
  return self
end

return space
