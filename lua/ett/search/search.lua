--- Search for the optimal plan of a model over layouts, devices and clusters.
--
--   local s = search.new { model = model, cluster = "dgx_h100", devices = 512,
--     plan = { seq = 8192, global_batch = 1024 } }
--   s.rows[1].step_seconds, s.rows[1].tp
--
-- ett.search.space builds the space, ett.search.walk searches it, ett.search.keeper holds the best rows.
local collect_less = require "ett.base.collect_less"
local error_module = require "ett.base.error"
local explain = require "ett.search.explain"
local json = require "ett.json"
local journal_module = require "ett.search.journal"
local keeper_module = require "ett.search.keeper"
local objective = require "ett.search.objective"
local schema = require "ett.base.schema"
local searched = require "ett.search.searched"
local share_module = require "ett.base.share"
local space_module = require "ett.search.space"
local walk_module = require "ett.search.walk"
local where_module = require "ett.search.where"

local search = {}
local Search = { __name = "ett.search" }
Search.__index = Search

--- The arguments of search.new.
search.arguments = { model = "model", cluster = "any?", devices = "any?", plan = { "table", default = {} },
  vary = { "table", default = {} }, where = "any?", objective = { "any", default = "step_seconds" },
  tokens = { "positive", optional = true, most = 1 << 60 }, budget = "positive?", days = "positive?",
  kwh = "positive?", energy = { "boolean", default = false },
  headroom = { "nonnegative", default = 0, most = 0.99 }, keep = { "count", default = 100 },
  exhaustive = { "boolean", default = false },
  each = { "boolean", default = false }, journal = "string?", share = "any?", partial = { "boolean", default = false },
  profile = "profile?", times = "table?", progress = "function?" }

local function list_of(value)
  if type(value) == "table" and not value.path and not value.name and #value > 0 then return value end
  return { value }
end

local most_devices = 1 << 24

--- The checked clusters and numbers of devices of a search.
local function places(given)
  local clusters, devices, seen = {}, {}, {}
  for _, name in ipairs { "cluster", "devices" } do
    if given.vary[name] == "all" then
      error_module.raise("plan", "search: vary: '%s' needs values, such as %s", name, name == "cluster"
        and "cluster=dgx_h100,dgx_b200" or "devices=64..1024")
    elseif given.vary[name] ~= nil and given[name] ~= nil then
      error_module.raise("usage", "search: '%s' is both given and varied", name)
    end
  end
  local named = given.vary.cluster or given.cluster
  if named == nil then error_module.raise("argument", "search: missing argument 'cluster'") end
  for _, value in ipairs(list_of(named)) do
    local cluster = type(value) == "table" and value.path and value or require("ett.profile.cluster").get(value)
    if seen[cluster.name] then
      error_module.raise("argument", "search: cluster '%s' is given twice", cluster.name)
    end
    seen[cluster.name] = true
    clusters[#clusters + 1] = cluster
  end
  local wanted = given.vary.devices or given.devices
  wanted = wanted and list_of(wanted)
  if not wanted then error_module.raise("argument", "search: missing argument 'devices'") end
  for _, value in ipairs(wanted) do
    local n = math.tointeger(value)
    if not n or n < 1 or n > most_devices then
      error_module.raise("argument", "search: 'devices' must be integers from 1 to %d, got %s", most_devices,
        schema.describe(value))
    end
    devices[#devices + 1] = n
  end
  return clusters, devices
end

local function checked(given)
  given = schema.check(given, search.arguments, "ett.search", "argument")
  local clusters, devices = places(given)
  local own = require "ett.base.merged"(given, { clusters = clusters, devices = devices })
  own.objectives = type(given.objective) == "table" and given.objective or { given.objective }
  own.tokens = require("ett.step.cost").tokens("search", given.tokens, given.plan)
  if #own.objectives == 0 then
    error_module.raise("usage", "search: 'objective' is an empty list; give one objective or several")
  end
  own.wants_energy = given.kwh ~= nil
  for i, name in ipairs(own.objectives) do
    objective.get(name)
    own.wants_energy = own.wants_energy or name == "kwh"
    for k = 1, i - 1 do
      if own.objectives[k] == name then error_module.raise("usage", "search: objective '%s' is given twice", name) end
    end
  end
  return own
end

--- The fields of rows that may differ, in display order.
local function shown(space, own)
  local names = {}
  if #own.clusters > 1 then names[1] = "cluster" end
  if #own.devices > 1 then names[#names + 1] = "devices" end
  table.move(space.setting_fields, 1, #space.setting_fields, #names + 1, names)
  return table.move(searched.order, 1, #searched.order, #names + 1, names)
end

-- Number of units walked together. More units bring the order of bounds closer to that of the whole space. The first
-- batches are small, because their times cut later programs. With several ranks, at least `turns` batches per rank
-- remain.
local first_units, most_units, turns = 8, 128, 2

--- Splits units into lists for single ranks; programs of a list share operators.
local function neighbours(units)
  local list, last = {}, {}
  for _, unit in ipairs(units) do
    if not (last.tp == unit.tp and last.cp == unit.cp and last.micro_batch == unit.micro_batch) then
      last, list[#list + 1] = unit, {}
    end
    table.insert(list[#list], unit)
  end
  return list
end

--- The units of each batch, and `done`, the number of units up to its end. Neighbouring lists are dealt to the ranks in
--- turn, because the first units probably contain the fastest plans. The last batches shrink, so that the ranks finish
--- together.
local function batches(units, ranks)
  local lists, all, done, at = neighbours(units), {}, 0, 1
  while at <= #lists do
    local each = math.min(most_units, math.max(first_units, done))
    if ranks > 1 then each = math.max(1, math.min(each, (#units - done) // (turns * ranks))) end
    local own, smallest = {}, 1
    for rank = 1, ranks do own[rank] = {} end
    while at <= #lists and #own[smallest] < each do
      table.move(lists[at], 1, #lists[at], #own[smallest] + 1, own[smallest])
      at = at + 1
      for rank = ranks, 1, -1 do if #own[rank] <= #own[smallest] then smallest = rank end end
    end
    for _, batch in ipairs(own) do
      if #batch > 0 then all[#all + 1] = batch end
      done = done + #batch
      batch.done = done
    end
  end
  return all
end

--- The batches of this process: all in order, or those assigned within a job.
local function work_of(share, count)
  if share then
    local list = {}
    for i = 1, count do list[i] = i end
    return (share.work(false, list, {}, false))
  end
  local at = 0
  return { take = function()
    at = at + 1
    return at <= count and at or nil
  end, close = function() end }
end

--- Exchanges the rows of all ranks, so that every rank's keeper has all.
local function merge(share, keeper)
  local own = json.encode(keeper:all())
  share.any(false) -- sleeps until all ranks arrive
  for rank = 0, share.size() - 1 do
    for _, row in ipairs(json.decode(share.text_of(rank, own))) do keeper:offer(row) end
  end
end

-- Time after SIGTERM to explain the best plan and to write the rows.
local grace_seconds = 10

-- Counts summed over opened units: layouts, rule violations, failed conditions.
local totals = { "plans", "rule", "where" }

local function add(sum, more)
  for _, name in ipairs(totals) do sum[name] = sum[name] + more[name] end
end

--- Searches every unit of the space, together with other ranks of a job. Returns the kept rows, the walk, the totals.
local function settle(space, own)
  for _, setting in ipairs(space.settings) do objective.prepare(setting, own) end
  local keeper = keeper_module.new(own)
  local walk <close> = walk_module.new(space, keeper, own)
  local share = own.share or nil
  local journal
  if own.journal then
    local times = {}
    for i, cluster in ipairs(own.clusters) do times[i] = walk:times_of(cluster) end
    journal = journal_module.open(own.journal, space, own, times, share and share.rank() or 0)
  end
  local pending, sum = {}, { plans = 0, rule = 0, where = 0 }
  for _, unit in ipairs(space.units) do
    if not (journal and journal.done[unit.index]) then pending[#pending + 1] = unit end
  end
  if journal then
    for _, row in ipairs(journal.rows) do keeper:offer(row) end
    if not share or share.rank() == 0 then add(sum, journal) end
    if share then share.any(false) end -- until every rank has read the files
    journal:begin()
  end
  local list = batches(pending, share and share.size() or 1)
  local work = work_of(share, #list)
  walk.tell = share and work.tell
  local ok, raised = pcall(function()
    local at, news = work.take(nil, nil)
    while at do
      if share then walk:hear(news) end
      local units = list[at]
      for i, settled in ipairs(walk:units(units)) do
        add(sum, settled)
        if journal then journal:commit(units[i], settled) end
      end
      if own.progress then own.progress(units.done, #pending, keeper:all()[1], walk.counts) end
      at, news = work.take(nil, walk:news())
    end
  end)
  walk.interrupted = not ok
  if not ok and not (own.partial and not share and error_module.from(raised).kind == "interrupt"
    and #keeper:all() > 0) then
    error(raised, 0)
  end
  work.close()
  if journal then journal:close() end
  if share then
    merge(share, keeper)
    share.sum(walk.counts, walk_module.counted)
    share.sum(sum, totals)
  end
  if walk.interrupted then
    sum.plans = walk.counts.plans -- units without an end have no totals
    require("ett.host").interrupt_grace(grace_seconds)
  end
  sum.plans, sum.rule = sum.plans + space.impossible, sum.rule + space.impossible
  return keeper:all(), walk, sum
end

--- A function of a row, and of whether its interval is wanted (default true), that gives the row's estimate.
local function estimates(rows, space, walk)
  local setting_of = {}
  for _, row in ipairs(rows) do setting_of[row] = space.settings[row.setting] end
  return function(row, interval) return walk:estimate(row, setting_of[row], interval) end
end

--- Adds the energy of kept rows, where their devices state a power. Energy needs an estimate of each.
local function add_energy(rows, estimate_of, shared)
  local all = share_module.each(shared, #rows, function(i)
    local e = estimate_of(rows[i], false)
    return { run = e.run_kwh, tokens = e.kwh_per_step and e.kwh_per_step / e.tokens_per_step * 1e9 }
  end)
  for i, row in ipairs(rows) do row.run_kwh, row.kwh_per_billion_tokens = all[i].run, all[i].tokens end
end

--- Runs a search.
---@param given table { model, cluster = name, table or list of them, devices = number or list, plan = fixed fields,
---  vary = { field = list }, where?, objective = name or list (a Pareto front), tokens?, budget?, days?, kwh?,
---  energy? = true: every row has its energy, headroom, keep, each? = the best for every cluster, number of devices
---  and varied field, exhaustive,
---  journal? = folder, partial? = return the best so far after an interrupt,
---  share? = false: do not share with the ranks of a job, profile?, times?,
---  progress? = function(done, units, best, effort) }
function search.new(given)
  local own = checked(given)
  own.where = own.where and where_module.new(own.where) or nil -- not false
  if own.share == nil then own.share = share_module.join() end
  local _ <close> = collect_less()
  local space = space_module.new(own)
  local rows, walk, sum = settle(space, own)
  local result = { model = own.model.name, objectives = own.objectives, rows = rows, plans = sum.plans,
    estimate_of = estimates(rows, space, walk),
    ruled_out = { rule = sum.rule, where = sum.where }, first_rule = sum.rule > 0 and space:first_rule() or nil,
    effort = walk.counts, units = #space.units, fields = shown(space, own),
    interrupted = walk.interrupted or nil, clusters = {} }
  for _, cluster in ipairs(own.clusters) do result.clusters[cluster.name] = cluster end
  if rows[1] then
    local first = space.settings[rows[1].setting]
    result.best = explain.new(rows[1], { model = own.model, setting = first, tokens = own.tokens,
      times = walk:times_of(first.cluster), share = own.share or nil })
    if objective.list[own.objectives[1]].factor then
      result.sure = require("ett.search.sure").rows(rows, result.estimate_of, own.share or nil)
    end
    if own.energy then add_energy(rows, result.estimate_of, own.share or nil) end
  else
    result.nothing = require("ett.search.emptied").sentence(space, result, own, settle)
  end
  for _, row in ipairs(rows) do row.key, row.layout, row.setting, row.values = nil, nil, nil, nil end
  return setmetatable(result, Search)
end

function Search.__tostring(self) return require("ett.base.pretty").plain(require("ett.search.text").result(self)) end

function Search.__json(self)
  local x = self.best
  return { model = { name = self.model }, interrupted = self.interrupted, objectives = self.objectives,
    plans = self.plans, ruled_out = self.ruled_out,
    rows = json.array(self.rows), nothing = self.nothing, fields = self.fields, sure = self.sure,
    best = x and { estimate = x.estimate, part_seconds = x.part_seconds, bottleneck = x.bottleneck,
      gains = json.array(x.gains), neighbours = json.array(x.neighbours) } }
end

return setmetatable(search, { __call = function(_, given) return search.new(given) end })
