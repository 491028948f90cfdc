--- One self-contained page about a trace: timeline, breakdown, steps, collectives, kernels (ett.report.page).
local host = require "ett.host"
local json = require "ett.json"
local lanes = require "ett.trace.page.lanes"
local metrics = require "ett.trace.metrics"
local pages = require "ett.report.page"
local stats = require "ett.trace.stats"

local html = {}

local wanted = { "device_time", "temporal_breakdown", "step_table", "iter_time", "collective_table",
  "kernel_breakdown", "straggler_lag", "traffic_distribution", "pipeline_bubble", "comm_comp_overlap",
  "coll_call_num" }

--- The rows that the page shows of collectives and of steps.
html.most_collectives, html.most_steps = 200, 400

--- Leaves out rows that the page does not show.
local function shorten(data)
  local table_of, steps = data.collective_table, data.step_table
  if table_of then
    table.sort(table_of.collectives, function(a, b) return a.total_ms > b.total_ms end)
    for i = #table_of.collectives, html.most_collectives + 1, -1 do table_of.collectives[i] = nil end
  end
  if steps then
    steps.steps = nil
    for _, rank in pairs(steps.ranks) do
      rank.steps, rank.step_ms = nil, nil
      for i = #rank.per_step, html.most_steps + 1, -1 do rank.per_step[i] = nil end
    end
  end
end

--- The metrics of the page, and the reasons of those that are missing.
local function add_metrics(data, view)
  data.unavailable = {}
  for _, name in ipairs(wanted) do
    local result, reason = metrics.compute(metrics.load(name), view)
    if result then data[name] = result else data.unavailable[name] = reason end
  end
  shorten(data)
end

local function add_warnings(data, view)
  local warnings = {}
  for i, w in ipairs(view:warnings()) do
    warnings[i] = { file = w.file or stats.null, offset = w.offset or stats.null, message = w.message or w.code,
      count = w.count or 1 }
  end
  data.warnings = json.array(warnings)
end

local function subtitle(view)
  if not view.trace then return "per-micro-batch timings" end
  local events, size, files = 0, 0, view.trace.files
  for _, file in ipairs(files) do events, size = events + file.event_count, size + file.bytes end
  return ("%d file%s, %d events, %.1f MB"):format(#files, #files == 1 and "" or "s", events, size / 1e6)
end

--- The page of a view (ett.report.page). `more` and `predicted`: see page/lanes.lua.
function html.page(view, more, predicted)
  local page = pages.new { title = view.path, subtitle = subtitle(view),
    scripts = { "lanes", host.root .. "/lua/ett/trace/page/page.js" } }
  add_metrics(page.data, view)
  if view.trace then
    add_warnings(page.data, view)
    page.data.timeline = lanes.timeline(page, view, more)
  elseif view.cache.pipeline then
    page.data.timeline = lanes.pipeline(page, view.cache.pipeline, predicted)
  end
  return page
end

return html
