--- Plots of measured against predicted times as SVG: one for each table and pass, and a page with all of them.
--
--   local plots = fit_plot.render(results, outliers)   -- results: ett.holdout, with points
--   fit_plot.write("figures", plots)                                          -- { "figures/index.html", … }
--
-- The rows are held out (ett.holdout: a fifth of the kernels): the model was not fitted to them.
local folders = require "ett.base.folder"
local svg = require "ett.report.svg"

local fit_plot = {}

local width, height = 720, 780
--- Interval bars are drawn for at most this many points; more would hide the points.
fit_plot.most_bars = 120

local function microseconds(seconds) return seconds * 1e6 end
local function percent(fraction) return ("%.2f %%"):format(100 * fraction) end

local function topology_text(nodes, gpus)
  return ("%d node%s of %d device%s"):format(nodes, nodes == 1 and "" or "s", gpus, gpus == 1 and "" or "s")
end

function fit_plot.key(path, line, seconds) return ("%s\0%d\0%.17g"):format(path, line, seconds) end

--- "rms_norm backward, fp16, NVIDIAA100-SXM4-80GB"; a collective has its topology instead of the pass.
function fit_plot.title(result)
  local entry = result.entry
  local what = entry.name
  if not entry.collective then
    what = what .. " " .. result.pass
  elseif entry.nodes then
    what = what .. " on " .. topology_text(entry.nodes, entry.gpus)
  else
    what = what .. " on several topologies"
  end
  return ("%s, %s, %s"):format(what, entry.dtype, entry.gpu)
end

-- Reasons of dropped rows, by file, line and time (each pass of a file has its own model).
local function set_aside(outliers)
  local lines = {}
  for _, row in ipairs(outliers or {}) do
    if row.line then lines[fit_plot.key(row.path, row.line, row.seconds)] = row.reason end
  end
  return lines
end

local function point_of(result, p, bars, low, high, reason)
  local measured, predicted = microseconds(p.seconds), microseconds(p.predicted)
  local point = { measured, predicted }
  if bars then
    point.low, point.high = math.max(low, microseconds(p.low)), math.min(high, microseconds(p.high))
  end
  if reason or math.abs(p.predicted / p.seconds - 1) > 0.1 then
    point.text = ("line %d of %s: measured %.4g us, predicted %.4g us%s"):format(p.line, result.path:match("[^/]+$"),
      measured, predicted, reason and ", " .. reason or "")
  end
  return point
end

-- The line y = factor x within a square plot range.
local function ratio_line(factor, low, high)
  local from, to = math.max(low, low / factor), math.min(high, high / factor)
  return { { from, factor * from }, { to, factor * to } }
end

--- The chart of one result as SVG text.
---@param result table of ett.holdout.run, with points and entry
---@param lines table reasons of the rows that the outlier filter dropped, by fit_plot.key
function fit_plot.chart(result, lines)
  local least, most, clouds, by_group, aside = math.huge, 0, {}, {}, {}
  for _, p in ipairs(result.points) do
    for _, seconds in ipairs { p.seconds, p.predicted } do
      least, most = math.min(least, microseconds(seconds)), math.max(most, microseconds(seconds))
    end
  end
  local low, high = svg.decades(least, most)
  local bars = #result.points <= fit_plot.most_bars
  local held_aside = 0
  for _, p in ipairs(result.points) do
    local reason = lines[fit_plot.key(result.path, p.line, p.seconds)] or p.dropped and "dropped from the fit"
    if reason then
      aside[#aside + 1] = point_of(result, p, bars, low, high, reason)
      if p.held_out then held_aside = held_aside + 1 end
    else
      local group = p.group or ""
      if not by_group[group] then
        by_group[group] = { points = {}, label = p.group and p.group:gsub("_", " x ") or "held-out rows" }
        clouds[#clouds + 1] = by_group[group]
      end
      table.insert(by_group[group].points, point_of(result, p, bars, low, high))
    end
  end
  if #aside > 0 then
    clouds[#clouds + 1] = { label = "dropped by the outlier filter", shape = "cross", color = "#d55e00",
      points = aside }
    for i = 1, #clouds - 1 do -- only the crosses have their colour
      local k = (i - 1) % (#svg.colors - 1) + 1
      clouds[i].color = svg.colors[k >= 2 and k + 1 or k]
    end
  end
  local notes = { ("held out, a fifth of the kernels: %d rows; error median %s, 90th percentile %s"):format(
    result.rows, percent(result.median), percent(result.ninety)),
    ("the 90 %% interval contains %.1f %% of them"):format(100 * result.coverage) .. (#aside > 0
      and ("; crosses: %d row%s dropped by the outlier filter, %d of them held out"):format(#aside,
        #aside == 1 and "" or "s", held_aside) or "") }
  notes[3] = result.fault
  return svg.chart { title = fit_plot.title(result), notes = notes, width = width, height = height,
    x = { label = "measured, us", log = true, low = low, high = high, minor = true },
    y = { label = "predicted, us" .. (bars and ", with its 90 % interval" or ""), log = true, low = low, high = high,
      minor = true },
    series = { { label = "equal", points = ratio_line(1, low, high), color = "#555", thickness = "1" },
      { label = "+-10 %", points = ratio_line(1.1, low, high), color = "#888", thickness = "1", dashed = true },
      { points = ratio_line(1 / 1.1, low, high), color = "#888", thickness = "1", dashed = true } },
    scatter = clouds }
end

local function link(name)
  return (name:gsub("[^%w%.%-_]", function(c) return ("%%%02X"):format(c:byte()) end))
end

local style = [[
:root { color-scheme: light dark; font-family: sans-serif }
body { max-width: 76em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse }
th, td { padding: 0.2em 0.8em; text-align: right; border-bottom: 1px solid #8888 }
th:first-child, td:first-child { text-align: left }
figure { display: inline-block; margin: 1em 0.5em 0 0; width: 36em; max-width: 100% }
img { width: 100%; background: #fff }]]

local function page(plots)
  local out, figures = {}, {}
  local function add(format, ...) out[#out + 1] = format:format(...) end
  out[1] = "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head><meta charset=\"utf-8\"/>"
    .. "<title>ett fit: measured against predicted</title>\n<style>\n" .. style .. "\n</style></head>\n<body>"
  add("<h1>Measured against predicted</h1>\n<p>Rows of a fifth of the kernels, held out by seed %d, as predicted by "
    .. "the model that the profile serves, fitted to the rest.</p>", require("ett.profile.holdout").seed)
  add("<table>\n<tr><th>table</th><th>held-out rows</th><th>median error</th><th>90th percentile</th>"
    .. "<th>covered</th></tr>")
  for _, plot in ipairs(plots) do
    local r, title = plot.result, svg.escape(fit_plot.title(plot.result))
    if plot.text then
      add('<tr><td><a href="%s">%s</a></td><td>%d</td><td>%s</td><td>%s</td><td>%.1f %%</td></tr>', link(plot.name),
        title, r.rows, percent(r.median), percent(r.ninety), 100 * r.coverage)
      figures[#figures + 1] = ('<figure><a href="%s"><img src="%s" alt="%s"/></a></figure>'):format(link(plot.name),
        link(plot.name), title)
    else
      add('<tr><td>%s</td><td colspan="4">%s</td></tr>', title, svg.escape(r.fault))
    end
  end
  out[#out + 1] = "</table>\n" .. table.concat(figures, "\n") .. "\n</body>\n</html>\n"
  return table.concat(out, "\n")
end

--- Draws every result: { { name = "….svg", text = SVG or nil (no held-out rows), result = } … }; the index page is
--- last. Files are named after the tables; further tables of the same name get a number.
---@param results table[] of ett.holdout.run with points
---@param outliers table[]? dropped rows: { path=, line=, seconds=, reason= }, of Profile:report
function fit_plot.render(results, outliers)
  local plots, taken, lines = {}, {}, set_aside(outliers)
  for _, result in ipairs(results) do
    local stem = result.path:match("([^/]+)%.csv$") .. (result.entry.collective and "" or "_" .. result.pass)
    local name, count = stem .. ".svg", 1
    while taken[name] do
      count = count + 1
      name = ("%s-%d.svg"):format(stem, count)
    end
    taken[name] = true
    local text = result.rows > 0 and fit_plot.chart(result, lines) or nil
    plots[#plots + 1] = { name = name, text = text, result = result }
  end
  plots[#plots + 1] = { name = "index.html", text = page(plots) }
  return plots
end

--- Writes the plots; each file is written atomically. Creates the folder; raises if that fails.
---@return string[] paths
function fit_plot.write(folder, plots)
  local paths = {}
  for _, plot in ipairs(plots) do
    if plot.text then paths[#paths + 1] = folders.write_in(folder, plot.name, plot.text) end
  end
  return paths
end

return fit_plot
