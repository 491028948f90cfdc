--- Explains the step time of a plan: its bottleneck, gains from faster hardware, and its neighbours.
local by = require "ett.base.by"
local estimate = require "ett.step.estimate"
local faster = require "ett.step.faster"
local merged = require "ett.base.merged"
local plan_rules = require "ett.plan.rules"
local ranks = require "ett.plan.ranks"
local share = require "ett.base.share"
local searched = require "ett.search.searched"
local stacks = require "ett.operator.stack"
local what_if = require "ett.step.what_if"

local explain = {}

--- The plan of a row, as input of ett.plan.
function explain.plan(row, setting)
  local p = merged(setting.base, setting.own)
  for _, name in ipairs(searched.given) do if row[name] ~= nil then p[name] = row[name] end end
  p.micro_batches = nil
  return p
end

--- The operator family of an estimate's line; nil for other lines, such as the optimizer's.
local function family_of(name)
  local ok, op = pcall(require("ett.operator").get, name)
  return ok and op.family or nil
end

--- Seconds of a device by resource, averaged over pipeline stages; they sum to the step.
function explain.parts(e)
  local parts = { compute = 0.0, memory = 0.0, node = 0.0, network = 0.0, host = 0.0, bubble = e.idle_seconds }
  for _, line in ipairs(e.operators) do
    local part = line.name == "host" and "host" or faster.part_of(family_of(line.name))
    parts[part] = parts[part] + line.seconds
  end
  for _, line in ipairs(e.collectives) do
    local part = not line.nodes and "host" or line.nodes > 1 and "network" or "node"
    parts[part] = parts[part] + line.seconds
  end
  return parts
end

local part_order = { "compute", "memory", "node", "network", "host", "bubble" }

--- The bottleneck: the part with the largest gain, because devices and links also work while they wait for launches.
--- The bubble, which no rate shortens, if it has the largest share of the step.
---@param gains table[] of ett.step.what_if.gains
local function bottleneck(parts, gains)
  local best, most = nil, { percent = 0.0 }
  for _, name in ipairs(part_order) do if not best or parts[name] > parts[best] then best = name end end
  for _, own in ipairs(gains) do if own.percent < most.percent then most = own end end
  return best == "bubble" and best or most.part or best
end

local function next_values(list, value)
  local found = {}
  for i, v in ipairs(list) do if v == value then found = { list[i - 1], list[i + 1] } end end
  return found
end

--- The values of a field that a stack has.
local function values_of(stack, name)
  local list = {}
  for _, value in ipairs(searched.values[name]) do
    if stacks.has(stack, name, value) then list[#list + 1] = value end
  end
  return list
end

local function set_words(p, names)
  local words = {}
  for _, name in ipairs(names) do words[#words + 1] = ("%s=%s"):format(name, tostring(p[name])) end
  return table.concat(words, " ")
end

--- The plans that differ from p in one field; dp compensates for changed degrees.
local function changes(p, model)
  local list, stack = {}, stacks.get(p.stack)
  local function add(names, change)
    local q = what_if.plan(p, nil, change)
    if q and not what_if.is_foreign(p, q) then list[#list + 1] = { plan = q, words = set_words(q, names) } end
  end
  local function try_powers(name, names)
    for _, value in pairs(what_if.powers(p[name])) do add(names, { [name] = value }) end
  end
  for _, name in ipairs { "tp", "pp", "cp" } do try_powers(name, { name, "dp" }) end
  if model.hyper.experts then try_powers("ep", { "ep" }) end
  try_powers("micro_batch", { "micro_batch" })
  if p.recompute_layers then try_powers("recompute_layers", { "recompute_layers" }) end
  for _, name in ipairs { "recompute", "zero" } do -- in one order on all ranks of a job
    for _, value in pairs(next_values(values_of(stack, name), p[name])) do add({ name }, { [name] = value }) end
  end
  if p.pp > 1 then
    if p.schedule == "interleaved" then
      add({ "schedule" }, { schedule = "1f1b", vp = 1 })
      for _, value in pairs(what_if.powers(p.vp)) do
        if value >= 2 then add({ "vp" }, { vp = value }) end
      end
    else
      add({ "schedule", "vp" }, { schedule = "interleaved", vp = 2 })
    end
    if p.dp > 1 then
      add({ "rank_order" }, { rank_order = p.rank_order == ranks.default and ranks.stages_first or ranks.default })
    end
  end
  for _, name in ipairs { "reshard", "sequence_parallel", "overlap_tensor", "overlap_parameters", "overlap_gradients",
    "overlap_sends" } do
    local blocked = name == "overlap_sends" and not plan_rules.overlaps_sends(p)
    if not blocked then add({ name }, { [name] = not p[name] }) end
  end
  return list
end

--- The neighbours of a plan: { change =, step_seconds =, percent =, memory_bytes =, fits =, fit_percent = } each, the
--- fastest first; invalid ones name the violated rule.
local function neighbours(given, e, limit, shared)
  local list, all = {}, changes(e.plan, given.model)
  local rows = share.each(shared, #all, function(i)
    local change = all[i]
    local own, refused = what_if.estimate(merged(given, { plan = change.plan }))
    local row = { change = change.words, refused = refused }
    if own then
      row.step_seconds, row.memory_bytes = own.step_seconds, own.memory_bytes
      row.percent, row.fits = 100 * (own.step_seconds / e.step_seconds - 1), own.memory_bytes <= limit
      row.fit_percent = own.fit_percent
    end
    return row
  end)
  for _, row in ipairs(rows) do
    if row.step_seconds ~= e.step_seconds or row.memory_bytes ~= e.memory_bytes then list[#list + 1] = row end
  end
  table.sort(list, by(function(row) return row.step_seconds or math.huge end, "change"))
  return list
end

--- The estimate of a row.
---@param given table { model, setting, times, tokens?, interval? = false: without its interval, several times faster }
function explain.estimate(row, given)
  return estimate.new { model = given.model, cluster = given.setting.cluster, times = given.times,
    tokens = given.tokens, interval = given.interval, plan = explain.plan(row, given.setting) }
end

--- Explains a row of a search.
---@param given table { model, setting, times, share? }
---@return table { estimate, part_seconds, bottleneck, gains, neighbours }
function explain.new(row, given)
  local setting, times = given.setting, given.times
  local plan = explain.plan(row, setting)
  local e = explain.estimate(row, given)
  local parts = explain.parts(e)
  local asked = { model = given.model, cluster = setting.cluster, plan = plan, times = times }
  local gains = what_if.gains(asked, e.step_seconds, given.share)
  return { estimate = e, part_seconds = parts, bottleneck = bottleneck(parts, gains), gains = gains,
    neighbours = neighbours(asked, e, setting.memory_limit_bytes, given.share) }
end

explain.part_order = part_order

return explain
