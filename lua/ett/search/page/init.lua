--- The page of a search: plans as points, filters, a heat map, the best plans side by side, a summary to print.
--
--   local s = search.new(given)
--   require("ett.search.page").new(s, given.model):write "search.html"
local columns = require "ett.search.page.columns"
local explain = require "ett.search.explain"
local host = require "ett.host"
local json = require "ett.json"
local memory = require "ett.step.memory"
local merged = require "ett.base.merged"
local pages = require "ett.report.page"
local schema = require "ett.base.schema"
local sure = require "ett.search.sure"
local times_module = require "ett.step.times"
local words = require "ett.search.text"

local page = {}

--- Number of plans with a breakdown: the best by the first objective.
page.most_details = 300

--- Measures in display order; further ones follow.
local measure_order = { "step_seconds", "memory_bytes", "run_dollars", "dollars_per_billion_tokens", "run_days",
  "run_kwh", "kwh_per_billion_tokens", "tokens_per_second", "tokens_per_second_per_device" }

--- Names of the numbers of rows that are not fields. Rows of one cluster have the same; a cluster may lack a price.
local function measures_of(rows, fields)
  local is_field, list, seen, of_cluster = { devices = true, micro_batches = true }, {}, {}, {}
  for _, name in ipairs(fields) do is_field[name] = true end
  for _, row in ipairs(rows) do
    if not of_cluster[row.cluster] then
      of_cluster[row.cluster] = true
      for name, value in pairs(row) do
        if not is_field[name] and type(value) == "number" then seen[name] = true end
      end
    end
  end
  local function add(name)
    if seen[name] then seen[name], list[#list + 1] = nil, name end
  end
  for _, name in ipairs(measure_order) do add(name) end
  for _, name in ipairs(schema.keys(seen)) do add(name) end
  return list
end

--- The breakdown of a row, in the order of explain.part_order, its interval, and its memory by kind.
local function detail_of(e)
  local parts, list = explain.parts(e), {}
  for i, name in ipairs(explain.part_order) do list[i] = parts[name] end
  local kinds = {}
  for i, line in ipairs(e.memory or {}) do kinds[i] = json.array { line.name, line.bytes } end
  return { parts = json.array(list), low = e.low_seconds, high = e.high_seconds, mfu = e.mfu_percent,
    memory = json.array(kinds), plan = words.plan(e.plan) }
end

--- Adds the sources of a cluster: its own, its device's, its links' and its price's.
local function add_cluster_sources(list, c)
  list[#list + 1] = json.array { "cluster " .. c.name, c.source or c.summary or "" }
  if c.device and c.device.source then
    list[#list + 1] = json.array { "device " .. c.device.name, tostring(c.device.source) }
  end
  local links = c.links or {}
  for k, link in ipairs(c.tiers or { links.intra or false, links.inter or false }) do
    if link then list[#list + 1] = json.array { link.name or k == 1 and "intra" or "inter", link.source } end
  end
  if c.price_per_gpu_hour then
    list[#list + 1] = json.array { "price", ("%g dollars per device and hour%s"):format(c.price_per_gpu_hour,
      c.price_source and ", " .. c.price_source or "") }
  end
end

--- The provenances of an estimate's times with their shares: "80 % calibrated, 20 % assumed".
local function provenances_of(e)
  local known, total = {}, 0.0
  for _, lines in ipairs { e.operators, e.collectives } do
    for _, line in ipairs(lines) do
      local word = line.provenance or "assumed"
      known[word], total = (known[word] or 0.0) + line.seconds, total + line.seconds
    end
  end
  local texts = {}
  for _, word in ipairs(times_module.provenances) do
    if known[word] then texts[#texts + 1] = ("%.0f %% %s"):format(100 * known[word] / total, word) end
  end
  return table.concat(texts, ", ")
end

--- Sources behind the best plan: devices and clusters, provenance of times, notes. Clusters end after 24 lines.
local function sources_of(s)
  local list, seen = {}, {}
  for _, row in ipairs(s.rows) do
    if not seen[row.cluster] then
      seen[row.cluster] = true
      add_cluster_sources(list, s.clusters[row.cluster])
      if #list > 24 then break end
    end
  end
  list[#list + 1] = json.array { "times of the best plan", provenances_of(s.best.estimate) }
  return json.array(list)
end

--- The best plan as the summary shows it.
local function best_of(s, model)
  local x = s.best
  local e = x.estimate
  local neighbours = {}
  for _, n in ipairs(x.neighbours) do
    if n.step_seconds and #neighbours < 12 then
      neighbours[#neighbours + 1] = merged(n, { fits = memory.answer(n.fits, n.fit_percent / 100) })
    end
  end
  local kinds, notes = {}, {}
  for i, line in ipairs(e.memory or {}) do
    kinds[i] = { name = line.name, bytes = line.bytes, source = line.source }
  end
  for _, list in ipairs { e.warnings, e.notes } do
    for _, text in ipairs(list or {}) do notes[#notes + 1] = text end
  end
  return { step_seconds = e.step_seconds, low_seconds = e.low_seconds, high_seconds = e.high_seconds,
    interval_percent = e.interval_percent, mfu_percent = e.mfu_percent, memory_bytes = e.memory_bytes,
    memory_limit_bytes = e.memory_limit_bytes, fits = memory.answer(e.fits, e.fit_percent / 100),
    tokens_per_second = e.tokens_per_second, devices = e.devices,
    device = e.device, cluster = e.cluster, bottleneck = x.bottleneck, parts = x.part_seconds,
    gains = json.array(x.gains),
    neighbours = json.array(neighbours), memory = json.array(kinds), notes = json.array(notes),
    wide = e.wide_because,
    plan = words.plan(e.plan), parameters = e.model.parameters, model = model.name,
    sure = json.array(s.sure and sure.sentences(s.sure, "plan") or {}),
    dollars_per_billion_tokens = e.dollars_per_billion_tokens }
end

--- The page of a search's result.
---@param s table from ett.search
---@param model table the model that was searched for
function page.new(s, model)
  local rows, names = s.rows, {}
  for _, name in ipairs { "cluster", "devices" } do names[#names + 1] = name end
  for _, name in ipairs(s.fields) do
    if name ~= "cluster" and name ~= "devices" then names[#names + 1] = name end
  end
  local first = rows[1]
  local where = first and ("%d x %s"):format(first.devices, first.cluster) or "no cluster"
  local p = pages.new { title = ("Plans of %s, the best on %s"):format(s.model, where),
    subtitle = ("searched by %s, %d plans shown"):format(table.concat(s.objectives, ", "), #rows),
    scripts = { "charts", "points", host.root .. "/lua/ett/search/page/page.js" } }
  local data = p.data
  data.objectives, data.plans, data.ruled_out = json.array(s.objectives), s.plans, s.ruled_out
  data.first_rule = s.first_rule
  data.interrupted = s.interrupted
  data.part_names = json.array(explain.part_order)
  local order
  data.columns, order = columns.pack(p, rows, names, measures_of(rows, names))
  local place = {}
  for i, k in ipairs(order) do place[k] = i end
  data.best_places = json.array {}
  for k = 1, math.min(12, #rows) do data.best_places[k] = place[k] - 1 end
  if s.best then
    local details = {}
    for k = 1, math.min(page.most_details, #rows) do
      details[tostring(place[k] - 1)] = detail_of(s.estimate_of(rows[k]))
    end
    data.details, data.sources, data.best = p:pack_json(details), sources_of(s), best_of(s, model)
  end
  return p
end

return page
