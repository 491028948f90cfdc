--- Figures of a sweep of optimize: degrees and utilisation, phases, limiting resources.
local svg = require "ett.report.svg"

local figures = {}

local order = { "boundary", "sustained_dp", "steady_and_bubble", "full", "bubble", "gradient", "optimizer" }
local labels = { boundary = "boundary", sustained_dp = "sustained, with reduction",
  steady_and_bubble = "sustained without reduction, bubble", full = "steady state", bubble = "bubble",
  gradient = "gradient reduction", optimizer = "optimizer" }

--- Names of phases in execution order.
function figures.phase_names(phases)
  local names = {}
  for _, name in ipairs(order) do if phases[name] then names[#names + 1] = name end end
  return names
end

local degrees = { { "pp", "pipeline" }, { "dp", "data" }, { "tp_hidden", "tensor (hidden)" },
  { "tp_residual", "tensor (residual)" }, { "tp", "tensor (inner)" }, { "tp2", "tensor (outer)" } }

--- Degrees (log, left axis) and utilisation (right axis) against devices, annotated with days.
function figures.degrees(results, title)
  local series = {}
  for _, degree in ipairs(degrees) do
    local points = {}
    for _, r in ipairs(results) do
      if r.layout[degree[1]] then points[#points + 1] = { r.devices, r.layout[degree[1]] } end
    end
    if #points > 0 then series[#series + 1] = { label = degree[2], points = points } end
  end
  local utilization, marks = {}, {}
  for _, r in ipairs(results) do utilization[#utilization + 1] = { r.devices, r.utilization } end
  series[#series + 1] = { label = "utilization", points = utilization, right = true, dashed = true, color = "#000000" }
  for _, level in ipairs { 0.75, 0.5, 0.25, 0.1 } do
    for i = 2, #results do
      if results[i - 1].utilization >= level and results[i].utilization < level then
        marks[#marks + 1] = { x = results[i].devices, y = results[i].utilization, right = true,
          text = ("%.0f %%, %.0f days"):format(results[i].utilization * 100, results[i].days) }
      end
    end
  end
  return svg.chart { title = title .. ": best degrees and utilization", x = { label = results[1].unit, log = true },
    y = { label = "degree", log = true }, y2 = { label = "utilization of peak", low = 0, high = 1 }, series = series,
    marks = marks }
end

function figures.phases(results, title)
  local areas = {}
  for _, name in ipairs(figures.phase_names(results[1].phases)) do
    local points = {}
    for i, r in ipairs(results) do points[i] = { r.devices, r.phases[name].fraction } end
    areas[#areas + 1] = { label = labels[name], points = points }
  end
  return svg.chart { title = title .. ": fraction of a batch by phase", x = { label = results[1].unit, log = true },
    y = { label = "fraction of batch time", low = 0, high = 1 }, areas = areas }
end

local resource_color = { compute = 0, memory = 2, network = 1 }

--- Each resource's share of the longest phase, and the limiting resource.
function figures.resources(results, title)
  local series, longest, most = {}, nil, -1
  for _, name in ipairs(figures.phase_names(results[1].phases)) do
    local sum = 0
    for _, r in ipairs(results) do sum = sum + r.phases[name].fraction end
    if sum > most then longest, most = name, sum end
  end
  for _, resource in ipairs { "compute", "network", "memory" } do
    local points = {}
    for i, r in ipairs(results) do
      local phase = r.phases[longest]
      points[i] = { r.devices, phase.seconds > 0 and phase[resource] / phase.seconds or 0 }
    end
    series[#series + 1] = { label = resource, points = points, color = svg.colors[resource_color[resource] + 1] }
  end
  local bands = {}
  for i, r in ipairs(results) do
    local bound, last = r.phases[longest].bound_by, bands[#bands]
    if not last or last.label ~= bound .. " binds" then
      bands[#bands + 1] = { label = bound .. " binds", from = r.devices, to = r.devices,
        color = resource_color[bound] or 3 }
      if last then last.to = r.devices end
    elseif i == #results then
      last.to = r.devices
    end
  end
  return svg.chart { title = ("%s: resources of the longest phase (%s)"):format(title, labels[longest]),
    x = { label = results[1].unit, log = true }, y = { label = "fraction of the phase's time", low = 0, high = 1 },
    series = series, bands = bands }
end

--- Writes the three figures, also their folder; returns their paths. Raises if a file cannot be written.
function figures.write(prefix, results, title)
  local paths, folder, start = {}, prefix:match "^(.*/)([^/]*)$"
  for _, name in ipairs { "degrees", "phases", "resources" } do
    local file = ("%s-%s.svg"):format(start or prefix, name)
    require("ett.base.folder").write_in(folder or ".", file, figures[name](results, title))
    paths[#paths + 1] = (folder or "") .. file
  end
  return paths
end

return figures
