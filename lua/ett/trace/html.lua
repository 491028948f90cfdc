--- One self-contained page about a trace: timelines, breakdown, steps, collectives, kernels.
--
-- The page is lua/ett/trace/page.html with the data in place of DATA. It loads nothing else, and its
-- content security policy forbids that.
local json = require "ett.json"
local metrics = require "ett.trace.metrics"
local stats = require "ett.trace.stats"

local html = {}

local bins = 600
local most_lanes = 64

--- Share of each bin of [from, to) that an interval set covers, as integers 0…255.
local function coverage(set, from, to)
  local windows, step = {}, (to - from) / bins
  for i = 1, bins do
    windows[i] = { from + math.floor((i - 1) * step), from + math.floor(i * step) }
  end
  local shares = set:measure_in(windows)
  for i = 1, bins do
    local length = windows[i][2] - windows[i][1]
    shares[i] = length > 0 and math.floor(shares[i] / length * 255 + 0.5) or 0
  end
  return shares
end

local function timelines(view)
  local lanes, from, to = view:lane_list(), math.huge, -math.huge
  for _, lane in ipairs(lanes) do
    local a, b = lane:span()
    from, to = math.min(from, a), math.max(to, b)
  end
  local list = {}
  for i = 1, math.min(#lanes, most_lanes) do
    local lane = lanes[i]
    local K, C = lane:compute(), lane:comm()
    list[i] = { key = lane.key, compute = json.array(coverage(K, from, to)),
      exposed = json.array(coverage(C - K, from, to)), hidden = json.array(coverage(C & K, from, to)),
      memory = json.array(coverage(lane:memory() - (K | C), from, to)) }
  end
  local marks = {}
  if #lanes > 0 then
    for _, step in ipairs(view:steps()) do
      for _, span in pairs(step.spans) do
        if #marks < 200 then marks[#marks + 1] = { step.name, view:ms(span[1] - from), view:ms(span[2] - from) } end
      end
    end
  end
  return { lanes = json.array(list), marks = json.array(marks), span_ms = #lanes > 0 and view:ms(to - from) or 0,
    left_out = math.max(0, #lanes - most_lanes) }
end

--- The data of the page.
function html.data(view)
  local out = { path = view.path, unavailable = {} }
  local wanted = { "device_time", "temporal_breakdown", "step_table", "iter_time", "collective_table",
    "kernel_breakdown", "straggler_lag", "traffic_distribution", "pipeline_bubble", "comm_comp_overlap",
    "coll_call_num" }
  for _, name in ipairs(wanted) do
    local result, reason = metrics.compute(metrics.load(name), view)
    if result then out[name] = result else out.unavailable[name] = reason end
  end
  if view.trace then
    out.timeline = timelines(view)
    local files = {}
    for i, file in ipairs(view.trace.files) do
      files[i] = { path = file.path, rank = file.rank or stats.null, rank_source = file.rank_source, kind = file.kind,
        events = file.event_count, bytes = file.bytes }
    end
    out.files = json.array(files)
    local warnings = {}
    for i, w in ipairs(view.trace.warnings) do
      warnings[i] = { file = w.file or stats.null, offset = w.offset or stats.null, message = w.message or w.code,
        count = w.count or 1 }
    end
    out.warnings = json.array(warnings)
  end
  return out
end

--- Text of the page.
function html.page(view)
  local path = require("ett.host").root .. "/lua/ett/trace/page.html"
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local template = file:read("a")
  file:close()
  -- "<" is escaped: text of a trace must not end the script element.
  local data = json.encode(html.data(view)):gsub("<", "\\u003c")
  local before, after = template:match("^(.*)/%*DATA%*/null(.*)$")
  return before .. data .. after
end

--- Writes the page.
---@return boolean? ok, string? err
function html.write(view, path)
  local page, why = html.page(view)
  if not page then return nil, why end
  return require("ett.io").write(path, page)
end

return html
