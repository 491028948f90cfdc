--- Explains the step time of a plan: its bottleneck, gains from faster hardware, and its neighbours.
local by = require "ett.base.by"
local estimate = require "ett.step.estimate"
local faster = require "ett.step.faster"
local merged = require "ett.base.merged"
local plan_module = require "ett.plan"
local ranks = require "ett.plan.ranks"
local share = require "ett.base.share"
local space_module = require "ett.search.space"

local explain = {}

--- The plan of a row, as input of ett.plan.
function explain.plan(row, setting)
  local p = merged(setting.base, setting.own)
  for _, name in ipairs(space_module.degrees) do if row[name] ~= nil then p[name] = row[name] end end
  for _, walked in ipairs(space_module.walked) do p[walked[1]] = row[walked[1]] end
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

--- The resource with the largest share of the step.
function explain.binds(parts)
  local best
  for _, name in ipairs(part_order) do if not best or parts[name] > parts[best] then best = name end end
  return best
end

--- Relative gain of the step if one part of the machine is 10 % faster.
local function gains(given, e, times)
  return share.each(given.share, #faster.parts, function(i)
    local name = faster.parts[i]
    local own = estimate.new { model = given.model, cluster = given.cluster, plan = given.plan,
      times = faster.times(times, name), interval = false }
    return { part = name, step_seconds = own.step_seconds, gain = 1 - own.step_seconds / e.step_seconds }
  end)
end

local function next_values(list, value)
  local found = {}
  for i, v in ipairs(list) do
    if v == value then found = { list[i - 1], list[i + 1] } end
  end
  return found
end

local function powers(value)
  return { value % 2 == 0 and value // 2 or nil, value * 2 }
end

local function set_words(p, names)
  local words = {}
  for _, name in ipairs(names) do words[#words + 1] = ("%s=%s"):format(name, tostring(p[name])) end
  return table.concat(words, " ")
end

--- The plans that differ from p in one field; dp compensates for changed degrees.
local function changes(p, given)
  local list = {}
  local function add(names, change)
    local q = plan_module.reopened(p)
    change(q)
    q.micro_batches = nil
    list[#list + 1] = { plan = q, words = set_words(q, names) }
  end
  for _, name in ipairs { "tp", "pp", "cp" } do
    for _, value in pairs(powers(p[name])) do
      local dp = p.dp * p[name] / value
      if math.tointeger(dp) and dp >= 1 then
        add({ name, "dp" }, function(q)
          q[name], q.dp = value, math.tointeger(dp)
          if name == "tp" then
            q.etp = nil
            if value == 1 then q.sequence_parallel, q.overlap_tensor = false, false end
          end
          if name == "pp" and value == 1 then q.schedule, q.vp, q.overlap_sends = "1f1b", 1, false end
        end)
      end
    end
  end
  if given.model.hyper.experts then
    for _, value in pairs(powers(p.ep)) do add({ "ep" }, function(q) q.ep = value end) end
  end
  for _, value in pairs(powers(p.micro_batch)) do add({ "micro_batch" }, function(q) q.micro_batch = value end) end
  for _, value in pairs(next_values({ "none", "selective", "half", "full" }, p.recompute)) do
    add({ "recompute" }, function(q) q.recompute = value end)
  end
  for _, value in pairs(next_values({ 0, 1, 2, 3 }, p.zero)) do add({ "zero" }, function(q) q.zero = value end) end
  if p.pp > 1 then
    if p.schedule == "interleaved" then
      add({ "schedule" }, function(q) q.schedule, q.vp = "1f1b", 1 end)
      for _, value in pairs(powers(p.vp)) do
        if value >= 2 then add({ "vp" }, function(q) q.vp = value end) end
      end
    else
      add({ "schedule", "vp" }, function(q) q.schedule, q.vp = "interleaved", 2 end)
    end
    local other = p.rank_order == ranks.default and ranks.stages_first or ranks.default
    if p.dp > 1 then add({ "rank_order" }, function(q) q.rank_order = other end) end
  end
  for _, name in ipairs { "sequence_parallel", "overlap_tensor", "overlap_parameters", "overlap_gradients",
    "overlap_sends" } do
    add({ name }, function(q)
      q[name] = not p[name]
      if name == "sequence_parallel" and not q[name] then q.overlap_tensor = false end
    end)
  end
  return list
end

--- The neighbours of a plan: { change =, step_seconds =, percent =, memory_bytes =, fits = } each, the fastest first;
--- invalid ones name the violated rule.
local function neighbours(given, e, p, limit)
  local list, all = {}, changes(p, given)
  local rows = share.each(given.share, #all, function(i)
    local change = all[i]
    local ok, own = pcall(estimate.new, { model = given.model, cluster = given.cluster, plan = change.plan,
      times = given.times, interval = false })
    local row = { change = change.words }
    if ok then
      row.step_seconds, row.memory_bytes = own.step_seconds, own.memory_bytes
      row.percent, row.fits = 100 * (own.step_seconds / e.step_seconds - 1), own.memory_bytes <= limit
    else
      row.refused = tostring(own):gsub("; nearest passing plans.*", "")
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
---@return table { estimate, parts, binds, gains, neighbours }
function explain.new(row, given)
  local setting, times = given.setting, given.times
  local plan = explain.plan(row, setting)
  local e = explain.estimate(row, given)
  local parts = explain.parts(e)
  local asked = { model = given.model, cluster = setting.cluster, plan = plan, times = times,
    share = given.share }
  return { estimate = e, parts = parts, binds = explain.binds(parts), gains = gains(asked, e, times),
    neighbours = neighbours(asked, e, e.plan, setting.memory_limit_bytes) }
end

explain.part_order = part_order

return explain
