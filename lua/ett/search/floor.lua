--- Lower bounds of programs with experts that have not been lowered yet, including the time of exchanges.
--
-- A model is split in two parts: the exchanges of experts with everything between them, and the rest. The rest does
-- not depend on ep and etp, so one lowering serves many programs; the experts' part is small. Exchanges hide behind
-- computing (`hide` of runtime/step/program.c). More computing never shortens a layer. So terms that depend on the
-- whole layer, host waits and gradient accumulation, can be omitted.
local cluster_module = require "ett.profile.cluster"
local fields = require "ett.plan.fields"
local json = require "ett.json"
local lower = require "ett.step.lower"
local operator = require "ett.operator"
local step_core = require "ett.step"
local table_at = require "ett.base.table_at"

local floor = {}
local Floor = {}
Floor.__index = Floor

local function is_product(entry)
  return entry.op ~= nil and operator.products[operator.get(entry.op).family] or false
end

-- Position of the product that may hide a collective of a pattern (`beside` of ett.step.lower); 0: none.
local hidden_by = { tensor_enter = 1, context_exchange = 1, tensor_leave = -1, expert_enter = 0, expert_leave = 0,
  vocabulary_reduce = 0, expert_exchange = 0 }

--- Whether every collective of a layer is hidden by a product of its own part, or by none.
---@param among boolean[] of each entry: whether it belongs to the experts
local function separable(ops, among)
  for i, entry in ipairs(ops) do
    local way = entry.collective and hidden_by[entry.collective]
    if entry.collective and not way then return false end
    local k = i + (way or 0)
    while way and way ~= 0 and ops[k] and among[k] == among[i] and not is_product(ops[k]) do k = k + way end
    if way and way ~= 0 and (ops[k] or among[i]) and not (ops[k] and among[k] == among[i]) then return false end
  end
  return true
end

--- Splits the entries of a layer: `own` between exchanges of experts, and `others`. among[k]: whether entry k is in
--- `own`.
local function split_entries(entries)
  local parts, inside = { own = {}, others = {}, among = {} }, false
  for k, entry in ipairs(entries) do
    local exchange = entry.collective == "expert_exchange"
    parts.among[k] = exchange or inside
    inside = inside ~= exchange
    table.insert(parts.among[k] and parts.own or parts.others, entry)
  end
  return parts
end

--- The two parts of a model; nil without experts, or if a collective of one part may hide behind the other.
local function split(model)
  local experts, rest = { hyper = model.hyper, layers = {} }, { hyper = model.hyper, layers = {} }
  local layer_of = {} -- for each layer with experts, its index in the model
  local known = {} -- both parts of a list of entries
  for i, layer in ipairs(model.layers) do
    local ops = known[layer.ops] or split_entries(layer.ops)
    known[layer.ops] = ops
    local function part(list) return { name = layer.name, count = layer.count, place = layer.place, ops = list } end
    rest.layers[i] = part(ops.others)
    if #ops.own > 0 then
      if not separable(layer.ops, ops.among) then return nil end
      layer_of[#layer_of + 1], experts.layers[#layer_of + 1] = i, part(ops.own)
    end
  end
  if #layer_of == 0 then return nil end
  return { experts = experts, rest = rest, layer_of = layer_of }
end

-- Seconds of a part of the model that is not lowered yet.
local zero = { computing = 0.0, computing_again = 0.0 }

--- Lower bounds by kind of recomputation, from the seconds of the passes and of those that are repeated at least under
--- full recomputation.
local function by_kind(sum, again) return { none = sum, selective = sum, policy = sum, full = sum + again } end

---@param model table from ett.model
---@return table? nil: no such bounds exist for this model
function floor.new(model)
  local parts = split(model)
  return parts and setmetatable({ parts = parts, views = {}, known = {}, computing = {} }, Floor)
end

--- A view of times for one part of the model, so that its lowered operations are cached separately.
local function view_of(self, times, name)
  local views = self.views[times] or {}
  self.views[times] = views
  if not views[name] then
    local view = setmetatable({}, { __index = times })
    function view.of_plan() return view end
    views[name] = view
  end
  return views[name]
end

--- Seconds of a layer by pass and role, their sum, and those that full recomputation repeats.
local function layer_seconds(operations, uses)
  local passes, sum, again, computing, computing_again = { forward = {}, backward = {} }, 0.0, 0.0, 0.0, 0.0
  for index, n in pairs(uses) do
    local o = operations[index]
    for pass, by_role in pairs(o.name ~= "host" and o.name ~= "gradient_accumulation" and passes or {}) do
      local seconds = o[pass] and n * o[pass].seconds or 0.0
      by_role[o.role], sum = (by_role[o.role] or 0.0) + seconds, sum + seconds
      local computes, repeats = o.kind == "operator", pass == "forward" and not o.never_again
      if repeats then again = again + seconds end
      if computes then computing = computing + seconds end
      if computes and repeats then computing_again = computing_again + seconds end
    end
  end
  return { passes = passes, sum = sum, again = again, computing = computing, computing_again = computing_again }
end

--- The times of a part of the model, and the groups of ranks on which they depend.
---   layers                      seconds of each layer by pass and role
---   sum                         seconds of all layers
---   again                       seconds that full recomputation repeats at least
---   computing, computing_again  sum and again without collectives
local function seconds_of(self, name, p, times)
  local lowered, groups = lower.layers(self.parts[name], p, view_of(self, times:of_plan(p), name))
  local found, of, repeats = { layers = {}, sum = 0.0, again = 0.0, computing = 0.0, computing_again = 0.0 }, {},
    not p.recompute_layers
  for i, kind in ipairs(lowered.kinds) do
    local uses = kind.uses -- one table for equal layers
    of[uses] = of[uses] or layer_seconds(lowered.operations, uses)
    local one = of[uses]
    found.layers[i], found.sum = one.passes, found.sum + kind.count * one.sum
    found.computing = found.computing + kind.count * one.computing
    if repeats and kind.place == "middle" and not kind.stored then
      found.again = found.again + kind.count * one.again
      found.computing_again = found.computing_again + kind.count * one.computing_again
    end
  end
  return found, groups
end

--- The placements of groups under a plan as text.
local function placements(p, cluster, groups)
  local placed, texts = fields.to_c(p, cluster_module.placement(cluster), true), {}
  for i, group in ipairs(groups) do texts[i] = json.encode(step_core.place(placed, group)) end
  return table.concat(texts, " ")
end

--- A part of the model under a plan (seconds_of); nil if it must be lowered first, and `lowers` is false. Plans share
--- these seconds if their keys are equal and the part's groups have equal placements. These are few groups.
---@param part table of bare_plans
local function part_of(self, part, times, setting, lowers)
  local p, known = part.plan, table_at(self.known, part.key)
  local own = lower.key(p, setting.placement, function() return part.plan_key end)
  if known[own] then return known[own] end
  local parts = times:of_plan(p).parts
  local placed_alike = not parts and known.groups and placements(p, setting.cluster, known.groups)
  local found = placed_alike and known[placed_alike]
  if not (found or lowers) then return nil end
  if not found then
    found, known.groups = seconds_of(self, part.name, p, times)
    self.computing[part.key] = found
    if not parts then known[placed_alike or placements(p, setting.cluster, known.groups)] = found end
  end
  known[own] = found
  return found
end

--- Both parts of the model: { name, plan = a plan with its seconds, plan_key = the plan's key, key = of all that the
--- part's operators depend on }. Only waits for the host depend on overlap_all_to_all, apart from roles. Operators of
--- the rest do not depend on ep. etp may only decide whether the stream is split, and which ranks route its tokens.
local function bare_plans(p, times, setting)
  local experts = setmetatable({ overlap_all_to_all = "batch" }, { __index = p }) -- sets roles
  local stack = times:for_stack(p.stack).stack
  local by_etp = stack and (stack.splits_stream or stack.gathers_once)
  local rest = setmetatable({ ep = 1, etp = by_etp and p.etp or p.tp }, { __index = experts })
  local place = setting.cluster.name .. " "
  local key, rest_key = place .. "experts " .. setting.key_of(experts), place .. setting.key_of(rest)
  local of_experts = { name = "experts", plan = experts, plan_key = key, key = key }
  -- In other orders the place of a stage depends on ep and etp, too.
  local alone = p.pp == 1 or p.rank_order:sub(-2) == "pp"
  return of_experts, { name = "rest", plan = alone and rest or experts, plan_key = alone and rest_key or key,
    key = rest_key }
end

--- Upper bound of a layer's hidden all-to-all seconds. rest, own: seconds by role, of either part; repeats: of
--- the pass that full recomputation repeats, too.
local function hidden(rest, own, how, repeats)
  local function get(pass, role) return (rest[pass][role] or 0.0) + (own[pass][role] or 0.0) end
  local f, b, sum = get("forward", "exchange") / 2, get("backward", "exchange") / 2, 0.0
  if how == "shared_experts" then
    local forwards = repeats and 2 or 1
    for _, role in ipairs { "beside_dispatch", "beside_combine" } do
      sum = sum + forwards * math.min(f, get("forward", role)) + math.min(b, get("backward", role))
    end
  elseif how == "batch" then
    local function outside(pass)
      return get(pass, "outside") + get(pass, "beside_dispatch") + get(pass, "beside_combine")
    end
    sum = math.min(f, get("backward", "expert")) + math.min(f, outside "backward") + math.min(b, outside "forward")
      + math.min(b, get("forward", "expert"))
  end
  return sum
end

--- A function of overlap_all_to_all: a table from kinds of recomputation to a lower bound of the seconds of a
--- micro-batch's passes over all layers. nil: no bound.
---@param p table a clean plan
---@param times table from ett.step.times
---@param setting table of ett.search.space
---@param enough function(seconds by kind of recomputation) whether a bound suffices
---@param known_only boolean? only with parts that earlier plans needed, too; nil if they do not suffice
function Floor:of(p, times, setting, enough, known_only)
  if p.lora_rank or p.frozen_layers > 0 then return nil end
  local of_experts, of_rest = bare_plans(p, times, setting)
  local a, b = self.computing[of_rest.key] or zero, self.computing[of_experts.key] or zero
  local least = by_kind(a.computing + b.computing, a.computing_again + b.computing_again)
  if enough(least) then return function() return least end end
  local rest = part_of(self, of_rest, times, setting, not known_only)
  if not rest then return nil end
  least = by_kind(rest.sum + b.computing, rest.again + b.computing_again) -- experts hide no more than their exchanges
  if enough(least) then return function() return least end end
  local experts = part_of(self, of_experts, times, setting, not known_only)
  if not experts then return nil end
  local function of(how, repeats)
    local seconds, known = 0.0, {}
    for k, i in ipairs(self.parts.layer_of) do
      local outer, inner = rest.layers[i], experts.layers[k]
      local of_outer = table_at(known, outer)
      of_outer[inner] = of_outer[inner] or hidden(outer, inner, how, repeats)
      seconds = seconds + self.parts.rest.layers[i].count * of_outer[inner]
    end
    return seconds
  end
  local sum, again = rest.sum + experts.sum, rest.again + experts.again
  return function(how)
    local less = of(how, false)
    return by_kind(sum - less, math.max(0.0, again - (of(how, true) - less)))
  end
end

return floor
