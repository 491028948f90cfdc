--- Charts as SVG text: lines and points on linear or logarithmic axes, a right axis, stacked areas.
--
--   svg.chart { title=, notes = { line, ... }, width=, height=,
--     x = { label=, log=true, low=, high=, minor=true }, y = { label=, log=true }, y2 = { label= },
--     series = { { label=, points = { {x, y}, ... }, right=true, dashed=true, color=, thickness= } },
--     scatter = { { label=, color=, shape = "circle" | "cross",
--       points = { {x, y, low=, high= (a bar), text= (shown by a browser that points at it)}, ... } } },
--     areas = { { label=, points = { {x, y}, ... } } },        -- stacked, fractions of 1
--     bands = { { label=, from=, to= } },                     -- named stretches of x
--     marks = { { x=, y=, text=, right= } } }
-- The same input gives the same text. Points that are not finite (or not positive on a log axis) are omitted. A chart
-- contains no script and sets its own colours, so it looks the same on light and dark pages.
local svg = {}

svg.colors = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000" }
local usual_width, usual_height = 860, 480
local left, right, bottom = 80, 80, 100

--- Text that XML 1.0 accepts: invalid UTF-8 and forbidden characters become U+FFFD.
local function characters(text)
  local out, at = {}, 1
  while at <= #text do
    local good, bad = utf8.len(text, at)
    local last = good and #text or bad - 1
    out[#out + 1] = text:sub(at, last)
    if not good then out[#out + 1] = "\u{FFFD}" end
    at = last + 2
  end
  return (table.concat(out):gsub("[%z\1-\8\11-\31\127]", "\u{FFFD}"):gsub("\xC2[\x80-\x9F]", "\u{FFFD}")
    :gsub("\xEF\xBF[\xBE\xBF]", "\u{FFFD}"))
end

local function escape(text)
  return (characters(tostring(text)):gsub("[&<>\"']", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
    ['"'] = "&quot;", ["'"] = "&#39;" }))
end
svg.escape = escape

local function finite(value) return value == value and math.abs(value) ~= math.huge end

local function tick_text(value)
  if value == 0 then return "0" end
  local size = math.abs(value)
  if size >= 1e5 or size < 1e-3 then return (("%.0e"):format(value):gsub("e%+?(%-?)0*(%d)", "e%1%2")) end
  return (("%.5g"):format(value))
end

local function decades(low, high)
  local a, b = math.floor(math.log(low, 10) + 1e-9), math.ceil(math.log(high, 10) - 1e-9)
  return a, a == b and a + 1 or b
end

--- The powers of ten around positive values: a range for two axes that share one.
function svg.decades(low, high)
  local a, b = decades(low, high)
  return 10.0 ^ a, 10.0 ^ b
end

--- A scale from data to [0, 1] with ticks; every value of `values` fits.
local function scale_of(axis, values)
  local low, high = math.huge, -math.huge
  for _, value in ipairs(values) do
    if finite(value) and (not axis.log or value > 0) then low, high = math.min(low, value), math.max(high, value) end
  end
  if low > high then low, high = 1, 10 end
  local scale = { ticks = {} }
  if axis.log then
    local a, b = decades(axis.low or low, axis.high or high)
    for k = a, b do
      for _, factor in ipairs(axis.minor and b - a <= 2 and k < b and { 1, 2, 5 } or { 1 }) do
        scale.ticks[#scale.ticks + 1] = factor * 10.0 ^ k
      end
    end
    function scale.at(value) return (math.log(value, 10) - a) / (b - a) end
    return scale
  end
  low, high = axis.low or math.min(low, 0), axis.high or high
  if high <= low then high = low + 1 end
  local step = 10 ^ math.floor(math.log((high - low) / 5, 10))
  for _, factor in ipairs { 5, 2, 1 } do
    if (high - low) / (step * factor) >= 4 then
      step = step * factor
      break
    end
  end
  high = axis.high or math.ceil(high / step - 1e-9) * step
  for k = 0, math.floor((high - low) / step + 1e-9) do scale.ticks[#scale.ticks + 1] = low + k * step end
  function scale.at(value) return (value - low) / (high - low) end
  return scale
end

local function collect(chart)
  local xs, ys, y2s = {}, {}, {}
  for _, set in ipairs { chart.series or {}, chart.areas or {}, chart.scatter or {} } do
    for _, series in ipairs(set) do
      for _, point in ipairs(series.points) do
        xs[#xs + 1] = point[1]
        local into = series.right and y2s or ys
        into[#into + 1] = point[2]
      end
    end
  end
  for _, band in ipairs(chart.bands or {}) do xs[#xs + 1], xs[#xs + 2] = band.from, band.to end
  if chart.areas then ys[#ys + 1] = 1 end
  return xs, ys, y2s
end

local function draw_mark(add, shape, x, y, colors, inside)
  if shape == "cross" then
    add('<path d="M%.2f %.2fl8 8m0 -8l-8 8" %s stroke-width="2">%s</path>', x - 4, y - 4, colors, inside or "")
  else
    add('<circle cx="%.2f" cy="%.2f" r="2.5" %s fill-opacity="0.6">%s</circle>', x, y, colors, inside or "")
  end
end

--- Draws bands, ticks of the axes and their grid lines.
local function draw_grid(g)
  local chart, add, px, py = g.chart, g.add, g.px, g.py
  for i, band in ipairs(chart.bands or {}) do
    add('<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" fill-opacity="0.12"/>', px(band.from), g.top,
      px(band.to) - px(band.from), g.low - g.top, svg.colors[(band.color or i - 1) % #svg.colors + 1])
    add('<text x="%.2f" y="%d" text-anchor="middle" fill="#444">%s</text>', (px(band.from) + px(band.to)) / 2,
      g.top + 14, escape(band.label))
  end
  for _, tick in ipairs(g.x.ticks) do
    add('<path d="M%.2f %dV%d" stroke="#ddd"/><text x="%.2f" y="%d" text-anchor="middle">%s</text>', px(tick), g.top,
      g.low, px(tick), g.low + 16, tick_text(tick))
  end
  for _, tick in ipairs(g.y.ticks) do
    add('<path d="M%d %.2fH%d" stroke="#ddd"/><text x="%d" y="%.2f" text-anchor="end">%s</text>', left, py(tick),
      g.right, left - 6, py(tick) + 4, tick_text(tick))
  end
  for _, tick in ipairs(g.y2 and g.y2.ticks or {}) do
    add('<text x="%d" y="%.2f">%s</text>', g.right + 6, py(tick, g.y2) + 4, tick_text(tick))
  end
end

local function draw_areas(g)
  local base = {}
  for i, area in ipairs(g.chart.areas or {}) do
    local upper, lower = {}, {}
    for k, point in ipairs(area.points) do
      local from = base[k] or 0
      base[k] = from + point[2]
      upper[k] = ("%.2f,%.2f"):format(g.px(point[1]), g.py(base[k]))
      table.insert(lower, 1, ("%.2f,%.2f"):format(g.px(point[1]), g.py(from)))
    end
    local color = area.color or svg.colors[(i - 1) % #svg.colors + 1]
    g.add('<polygon points="%s %s" fill="%s" fill-opacity="0.75"/>', table.concat(upper, " "), table.concat(lower, " "),
      color)
    g.legend[#g.legend + 1] = { area.label, color }
  end
end

local function draw_series(g)
  for i, series in ipairs(g.chart.series or {}) do
    local color, scale = series.color or svg.colors[(i - 1) % #svg.colors + 1], series.right and g.y2 or g.y
    local path, pen = {}, "M"
    for _, point in ipairs(series.points) do
      local log_y = (series.right and g.chart.y2 or g.chart.y).log
      if finite(point[2]) and (not log_y or point[2] > 0) then
        path[#path + 1] = ("%s%.2f %.2f"):format(pen, g.px(point[1]), g.py(point[2], scale))
        pen = "L"
      end
    end
    g.add('<path d="%s" fill="none" stroke="%s" stroke-width="%s"%s/>', table.concat(path), color,
      series.thickness or "2", series.dashed and ' stroke-dasharray="6 4"' or "")
    if series.label then g.legend[#g.legend + 1] = { series.label, color, series.dashed } end
  end
end

--- Draws clouds of points: circles, or crosses; with bars where a point has low and high.
local function draw_scatter(g)
  local chart, add = g.chart, g.add
  local function shown(axis, value) return value and finite(value) and (not axis.log or value > 0) end
  for i, cloud in ipairs(chart.scatter or {}) do
    local color = cloud.color or svg.colors[(i - 1) % #svg.colors + 1]
    add('<g class="%s" fill="%s" stroke="%s">', cloud.shape == "cross" and "cross" or "circle", color, color)
    for _, p in ipairs(cloud.points) do
      if shown(chart.x, p[1]) and shown(chart.y, p[2]) then
        local x, y = g.px(p[1]), g.py(p[2])
        if shown(chart.y, p.low) and shown(chart.y, p.high) then
          add('<path class="bar" d="M%.2f %.2fV%.2f" stroke-opacity="0.4"/>', x, g.py(p.low), g.py(p.high))
        end
        draw_mark(add, cloud.shape, x, y, "", p.text and "<title>" .. escape(p.text) .. "</title>")
      end
    end
    add("</g>")
    g.legend[#g.legend + 1] = { cloud.label, color, shape = cloud.shape or "circle" }
  end
end

--- Draws marked points, the frame and the labels of the axes.
local function draw_frame(g)
  local chart, add = g.chart, g.add
  for _, mark in ipairs(chart.marks or {}) do
    local at_y = g.py(mark.y, mark.right and g.y2 or g.y)
    add('<circle cx="%.2f" cy="%.2f" r="4" fill="#fff" stroke="#000"/><text x="%.2f" y="%.2f">%s</text>', g.px(mark.x),
      at_y, g.px(mark.x) + 7, at_y - 6, escape(mark.text))
  end
  add('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#000"/>', left, g.top, g.right - left,
    g.low - g.top)
  add('<text x="%d" y="%d" text-anchor="middle">%s</text>', g.width // 2, g.low + 36, escape(chart.x.label or ""))
  local middle = (g.low + g.top) // 2
  add('<text transform="translate(20 %d) rotate(-90)" text-anchor="middle">%s</text>', middle,
    escape(chart.y.label or ""))
  if g.y2 then
    add('<text transform="translate(%d %d) rotate(90)" text-anchor="middle">%s</text>', g.width - 20, middle,
      escape(chart.y2.label or ""))
  end
end

--- Draws the legend below the chart, four entries a row.
local function draw_legend(g)
  local at = left
  for i, entry in ipairs(g.legend) do
    if (i - 1) % 4 == 0 then at = left end
    local y_of = g.height - 44 + (i - 1) // 4 * 20
    if entry.shape then
      draw_mark(g.add, entry.shape, at + 10, y_of, ('fill="%s" stroke="%s"'):format(entry[2], entry[2]))
    else
      g.add('<path d="M%d %dh20" stroke="%s" stroke-width="4"%s/>', at, y_of, entry[2],
        entry[3] and ' stroke-dasharray="6 4"' or "")
    end
    g.add('<text x="%d" y="%d">%s</text>', at + 26, y_of + 4, escape(entry[1]))
    at = at + (g.right - left) // 4
  end
end

function svg.chart(chart)
  local out = {}
  local width, height = chart.width or usual_width, chart.height or usual_height
  local xs, ys, y2s = collect(chart)
  local g = { chart = chart, width = width, height = height, top = 46 + 17 * #(chart.notes or {}),
    low = height - bottom, right = width - right, x = scale_of(chart.x, xs), y = scale_of(chart.y, ys),
    y2 = chart.y2 and scale_of(chart.y2, y2s), legend = {} }
  function g.add(format, ...) out[#out + 1] = select("#", ...) > 0 and format:format(...) or format end
  function g.px(value) return left + g.x.at(value) * (width - left - right) end
  function g.py(value, scale) return g.low - (scale or g.y).at(value) * (g.low - g.top) end
  g.add('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" '
    .. 'font-size="12">', width, height, width, height)
  g.add('<rect width="%d" height="%d" fill="#fff"/>', width, height)
  g.add('<text x="%d" y="24" font-size="16" text-anchor="middle">%s</text>', width // 2, escape(chart.title or ""))
  for i, line in ipairs(chart.notes or {}) do
    g.add('<text x="%d" y="%d" text-anchor="middle" fill="#444">%s</text>', width // 2, 26 + 17 * i, escape(line))
  end
  for _, draw in ipairs { draw_grid, draw_areas, draw_series, draw_scatter, draw_frame, draw_legend } do draw(g) end
  g.add("</svg>\n")
  return table.concat(out, "\n")
end

return svg
