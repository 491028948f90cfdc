--- The page of a predicted step: pipeline, breakdown, memory over time, and the most effective changes.
--
--   local e = estimate.new(what)           -- with units = true
--   require("ett.step.page").new(e, what):write "step.html"
local host = require "ett.host"
local json = require "ett.json"
local lanes = require "ett.report.page.lanes"
local memory = require "ett.step.memory"
local pages = require "ett.report.page"
local timeline = require "ett.step.timeline"

local page = {}

local kinds = { { "forward", "forward" }, { "backward", "backward" }, { "weight gradient", "weight" },
  { "compute", "compute" }, { "communication", "comm" }, { "waiting for weights", "wait" }, { "update", "update" } }
local unit_kinds = { F = 1, B = 2, W = 3 }
local unit_names = { F = "forward", B = "backward", W = "weight gradient" }
local compute, communication, waits, update = 4, 5, 6, 7

local tick = 1e-9
local function ticks(seconds) return math.floor(seconds / tick + 0.5) end

--- The parts of a unit for the timeline; units with equal parts share them.
local function parts_of(t, known, parts)
  if known[parts] then return known[parts] end
  local list = {}
  for _, part in ipairs(parts) do
    local kind = part.resource == "wait" and waits or part.resource == "compute" and compute or communication
    local label = t:label(part.name, kind, lanes.details("group", part.group, "ranks", part.degree, "pass", part.pass,
      "shape", timeline.shape_text(part.shape), "hidden", part.hidden > 0 and "a part of it runs beside a product",
      "runs", part.times > 1 and part.times), part.bytes and part.bytes * part.times)
    local resource = part.resource == "wait" and "compute" or part.resource
    list[#list + 1] = { label, resource, part.from / tick, part.length / tick }
  end
  known[parts] = list
  return list
end

--- The lane of a stage's units; each distinct list of parts is a class of labels.
local function add_units(t, stage, known)
  local start, duration, label, classes, lists = {}, {}, {}, {}, {}
  for i, unit in ipairs(stage.units) do
    start[i] = ticks(unit.start)
    duration[i] = ticks(unit.start + unit.seconds) - start[i]
    if not classes[unit.parts] then
      lists[#lists + 1] = unit.parts
      classes[unit.parts] = #lists
    end
    local chunk = unit.chunk > 1 and ("\nchunk: %d"):format(unit.chunk) or ""
    label[i] = t:label(("%s%d"):format(unit.kind, unit.micro_batch), unit_kinds[unit.kind],
      ("unit: %s\nmicro-batch: %d%s"):format(unit_names[unit.kind], unit.micro_batch, chunk), nil,
      classes[unit.parts])
  end
  for _, m in ipairs(stage.messages) do -- after the pipeline
    if m.exposed then
      local k = #start + 1
      start[k], duration[k] = ticks(m.start), ticks(m.start + m.seconds) - ticks(m.start)
      label[k] = t:label(m.name, m.lane == "update" and update or communication, lanes.details("group", m.group),
        m.bytes)
    end
  end
  local lane = t:lane { name = ("stage %d"):format(stage.number), start = start, duration = duration, label = label }
  for class, parts in ipairs(lists) do t:parts(lane, class, parts_of(t, known, parts)) end
  return lane
end

local lane_names = { sends = "card: sends", rest = "gradients, update" }

--- Lanes of a stage's messages. The host link has lanes only with offloading.
local function add_messages(t, e, stage)
  local by_lane = { sends = {}, rest = {}, ["to host"] = {}, ["from host"] = {} }
  for _, message in ipairs(stage.messages) do table.insert(by_lane[message.lane] or by_lane.rest, message) end
  for _, name in ipairs { "sends", "rest", "to host", "from host" } do
    local start, duration, label = {}, {}, {}
    for i, m in ipairs(by_lane[name]) do
      start[i] = ticks(m.start)
      duration[i] = ticks(m.start + m.seconds) - start[i]
      label[i] = t:label(m.name, m.lane == "update" and update or communication, lanes.details("group", m.group,
        "direction", m.direction, "micro-batch", m.micro_batch, "for", by_lane[m.lane] == nil and m.lane,
        "link", #e.lanes > 2 and m.link), m.bytes)
    end
    if lane_names[name] or #start > 0 then
      t:lane { name = lane_names[name] or "link " .. name, start = start, duration = duration, label = label }
    end
  end
end

--- The timeline of the page: one lane per stage, then the resources of each stage.
local function add_timeline(p, e)
  local made, known, numbers = timeline.of(e), {}, {}
  local t = lanes.new(p, { from = 0, to = math.max(1, ticks(made.seconds)), tick = tick, kinds = kinds })
  t:group { name = #made.stages > 1 and "pipeline" or nil }
  for s, stage in ipairs(made.stages) do numbers[s] = add_units(t, stage, known) end
  for s, stage in ipairs(made.stages) do
    t:group { name = ("resources of stage %d"):format(s), open = #made.stages <= 2 }
    t:resource("compute", numbers[s], "compute")
    for _, lane in ipairs(e.lanes) do t:resource(lane == "node" and "links of the node" or lane, numbers[s], lane) end
    add_messages(t, e, stage)
  end
  p.data.timeline = t:finish()
end

--- Rows of the breakdown: operators and collectives with the provenance of their times.
local function add_breakdown(data, e)
  local list = {}
  for _, lines in ipairs { e.operators, e.collectives } do
    for _, line in ipairs(lines) do
      list[#list + 1] = { name = line.name .. (line.group and (" (%s)"):format(line.group) or ""), kind = line.kind,
        seconds = line.seconds, forward = line.forward_seconds, backward = line.backward_seconds,
        recompute = line.recompute_seconds, hidden = line.overlapped_seconds, from = line.provenance }
    end
  end
  list[#list + 1] = { name = "idle", kind = "idle", seconds = e.idle_seconds }
  data.breakdown = json.array(list)
end

local stage_fields = { "layers", "forward_seconds", "backward_seconds", "recompute_seconds", "send_seconds",
  "gradient_exposed_seconds", "tied_embedding_seconds", "wait_seconds", "optimizer_seconds", "gather_exposed_seconds",
  "end_seconds", "pipeline_seconds", "memory_bytes", "memory_limit_bytes", "device" }

local function add_stages(data, e)
  local list = {}
  for i, s in ipairs(e.stages) do
    list[i] = { stage = i }
    for _, name in ipairs(stage_fields) do list[i][name] = s[name] end
  end
  data.stages, data.memory_kinds = json.array(list), json.array {}
  for k, line in ipairs(memory.kinds) do
    data.memory_kinds[k] = json.array { line[1], line[2] }
    for i, s in ipairs(e.stages) do list[i][line[1]] = s[line[1]] end
  end
end

local function plan_rows(e)
  local fields, default, list = require("ett.plan.fields").list, require("ett.plan").default, {}
  for _, field in ipairs(fields) do
    local value = e.plan[field[1]]
    if value ~= nil and type(value) ~= "table" then
      list[#list + 1] = json.array { field[1], tostring(value), field.help or "", value == default(e.plan, field) }
    end
  end
  return json.array(list)
end

--- The page of an estimate.
---@param e table made with units = true
---@param what table? the argument of estimate.new; without it the page has no list of changes
function page.new(e, what)
  local p = pages.new { title = ("%s on %d x %s"):format(e.model.name, e.devices, e.device),
    subtitle = ("%.2f B parameters, cluster %s, predicted by ett"):format(e.model.parameters / 1e9, e.cluster),
    scripts = { "lanes", "charts", host.root .. "/lua/ett/step/page/page.js" } }
  local data = p.data
  for _, name in ipairs { "step_seconds", "low_seconds", "high_seconds", "interval_percent", "tokens_per_second",
    "tokens_per_second_per_device", "mfu_percent", "bubble_percent", "memory_bytes", "memory_limit_bytes",
    "dollars_per_step", "dollars_per_billion_tokens", "run_tokens", "run_days", "run_dollars", "idle_percent",
    "kwh_per_step", "low_kwh_per_step", "high_kwh_per_step" } do
    data[name] = e[name]
  end
  data.fits = memory.answer(e.fits, e.fit_percent / 100) -- yes, no, or the chance
  add_timeline(p, e)
  add_breakdown(data, e)
  add_stages(data, e)
  data.plan, data.warnings, data.notes, data.wide = plan_rows(e), e.warnings, e.notes, e.wide_because
  if what then data.sensitivity = json.array(require("ett.step.page.sensitivity").of(e, what)) end
  return p
end

return page
