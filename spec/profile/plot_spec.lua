--- Plots of ett fit: points are at their coordinates, and the files are complete, well-formed and harmless.
local fit_plot = require "ett.profile.plot"
local merged = require "ett.base.merged"
local raised = require "raised"
local svg = require "ett.report.svg"
local xml = require "xml"

local entry = { gpu = "NVIDIAA100-SXM4-80GB", name = "gelu", dtype = "fp16",
  path = "d/NVIDIAA100-SXM4-80GB_gelu_fp16.csv" }

local function result(points, more)
  return merged({ path = entry.path, entry = entry, pass = "forward", points = points, rows = #points, median = 0.0123,
    ninety = 0.045, coverage = 0.91 }, more)
end

local function point(line, seconds, predicted, more)
  return merged({ row = line - 1, line = line, seconds = seconds, predicted = predicted, low = 0.8 * predicted,
    high = 1.25 * predicted, held_out = true }, more)
end

--- Positions of a chart's decades: a function from page coordinates to microseconds, read off the ticks' own texts.
local function scales(root)
  local function fit(anchor, coordinate)
    local seen = {}
    for _, text in ipairs(xml.all(root, "text")) do
      local value = tonumber(text.text)
      if value and text.attributes["text-anchor"] == anchor then
        local offset = anchor == "end" and 4 or 0 -- a label stands a little below its line
        seen[#seen + 1] = { tonumber(text.attributes[coordinate]) - offset, math.log(value, 10) }
      end
    end
    local a, b = seen[1], seen[#seen]
    return function(at) return 10 ^ (a[2] + (at - a[1]) * (b[2] - a[2]) / (b[1] - a[1])) end
  end
  return fit("middle", "x"), fit("end", "y")
end

local function marks(root, class)
  local found = {}
  for _, group in ipairs(xml.all(root, "g")) do
    if group.attributes.class == class then
      for _, node in ipairs(group) do if node.attributes.class ~= "bar" then found[#found + 1] = node end end
    end
  end
  return found
end

describe("ett.profile.plot", function()
  local points = { point(2, 12e-6, 13e-6), point(3, 150e-6, 140e-6), point(4, 2.5e-3, 2.6e-3),
    point(5, 9e-3, 80e-6, { held_out = false, dropped = true }) }

  it("draws every point at its times, on axes of equal range", function()
    local root = xml.read(fit_plot.chart(result(points), {}))
    local x, y = scales(root)
    local circles = marks(root, "circle")
    assert.equal(3, #circles)
    for i, circle in ipairs(circles) do
      assert.near(points[i].seconds * 1e6, x(tonumber(circle.attributes.cx)), 0.002 * points[i].seconds * 1e6)
      assert.near(points[i].predicted * 1e6, y(tonumber(circle.attributes.cy)), 0.002 * points[i].predicted * 1e6)
    end
    local frame = xml.all(root, "rect")[2].attributes
    local left, top = tonumber(frame.x), tonumber(frame.y)
    local across, down = tonumber(frame.width), tonumber(frame.height)
    assert.near(10, x(left), 0.01)
    assert.near(10, y(top + down), 0.01)
    assert.near(x(left + across), y(top), 10)
    assert.near(10000, y(top), 10)
  end)

  it("draws the diagonal and ten per cent on either side", function()
    local root = xml.read(fit_plot.chart(result(points), {}))
    local x, y = scales(root)
    local factors = {}
    for _, path in ipairs(xml.all(root, "path")) do
      local x1, y1, x2, y2 = path.attributes.d:match("^M([%d.]+) ([%d.]+)L([%d.]+) ([%d.]+)$")
      if x1 then
        local from, to = y(tonumber(y1)) / x(tonumber(x1)), y(tonumber(y2)) / x(tonumber(x2))
        assert.near(from, to, 0.005)
        factors[#factors + 1] = from
      end
    end
    assert.equal(3, #factors)
    table.sort(factors)
    for i, factor in ipairs { 1 / 1.1, 1, 1.1 } do assert.near(factor, factors[i], 0.005) end
  end)

  it("lists the rows that the gate dropped, with line and reason", function()
    local lines = { [fit_plot.key(entry.path, 3, 150e-6)] = "far from the fit and from its neighbours" }
    local root = xml.read(fit_plot.chart(result(points), lines))
    assert.equal(2, #marks(root, "circle"))
    local crosses = marks(root, "cross")
    assert.equal(2, #crosses)
    local x, y = scales(root)
    for i, p in ipairs { points[2], points[4] } do
      local at_x, at_y = crosses[i].attributes.d:match("^M([%d.]+) ([%d.]+)l8 8")
      assert.near(p.seconds * 1e6, x(at_x + 4), 0.002 * p.seconds * 1e6)
      assert.near(p.predicted * 1e6, y(at_y + 4), 0.002 * p.predicted * 1e6)
    end
    assert.matches("line 3 of NVIDIAA100-SXM4-80GB_gelu_fp16.csv: measured 150 us, predicted 140 us, "
      .. "far from the fit and from its neighbours", xml.all(crosses[1], "title")[1].text, 1, true)
    assert.matches("2 rows dropped by the outlier filter, 1 of them held out", fit_plot.chart(result(points), lines), 1,
      true)
  end)

  it("draws readable intervals, inside the frame", function()
    local function bars(list)
      local root = xml.read(fit_plot.chart(result(list), {}))
      local _, y = scales(root)
      local found = {}
      for _, path in ipairs(xml.all(root, "path")) do
        if path.attributes.class == "bar" then
          local low, high = path.attributes.d:match("^M[%d.]+ ([%d.]+)V([%d.]+)$")
          found[#found + 1] = { y(tonumber(low)), y(tonumber(high)) }
        end
      end
      return found
    end
    local found = bars { point(2, 12e-6, 13e-6), point(3, 15e-6, 14e-6, { low = 1e-9, high = 1.0 }) }
    assert.near(13 * 0.8, found[1][1], 0.1)
    assert.near(13 * 1.25, found[1][2], 0.1)
    assert.near(10, found[2][1], 0.01)
    assert.near(100, found[2][2], 0.2)
    local many = {}
    for i = 1, fit_plot.most_bars + 1 do many[i] = point(i + 1, 1e-5 + i * 1e-7, 1e-5 + i * 1e-7) end
    assert.equal(0, #bars(many))
  end)

  it("prints operator, precision, device, topology and pass, escaped", function()
    assert.equal("gelu forward, fp16, NVIDIAA100-SXM4-80GB", fit_plot.title(result(points)))
    local wire = { gpu = "A<1>&\"\1\xff", name = "allreduce", dtype = "fp16", nodes = 2, gpus = 4,
      collective = "all_reduce", path = "A_allreduce_fp16_2_4.csv" }
    local r = result(points, { entry = wire, path = wire.path })
    assert.matches("allreduce on 2 nodes of 4 devices, fp16, A<1>", fit_plot.title(r), 1, true)
    local root = xml.read(fit_plot.chart(r, {}))
    assert.matches('A<1>&"\u{FFFD}\u{FFFD}', xml.all(root, "text")[1].text, 1, true)
    for _, plot in ipairs(fit_plot.render({ r }, {})) do xml.read(plot.text) end
  end)

  it("distinguishes topologies of one file", function()
    local generic = { gpu = "A", name = "allreduce", dtype = "fp16", collective = "all_reduce",
      path = "A_allreduce_fp16.csv" }
    local root = xml.read(fit_plot.chart(result({ point(2, 1e-5, 1e-5, { group = "1_4" }),
      point(3, 2e-5, 2e-5, { group = "2_4" }) }, { entry = generic, path = generic.path }), {}))
    local groups, labels = {}, {}
    for _, g in ipairs(xml.all(root, "g")) do groups[#groups + 1] = g.attributes.fill end
    for _, text in ipairs(xml.all(root, "text")) do labels[text.text] = true end
    assert.equal(2, #groups)
    assert.is_true(groups[1] ~= groups[2] and labels["1 x 4"] and labels["2 x 4"])
  end)

  it("writes a page of all plots, and says what could not be drawn", function()
    local plots = fit_plot.render({ result(points), result({}, { rows = 0, pass = "backward", fault = "void: <why>" }),
      result(points) }, {})
    assert.equal("NVIDIAA100-SXM4-80GB_gelu_fp16_forward.svg", plots[1].name)
    assert.is_nil(plots[2].text)
    assert.equal("NVIDIAA100-SXM4-80GB_gelu_fp16_forward-2.svg", plots[3].name)
    local page = xml.read(plots[4].text)
    assert.equal(2, #xml.all(page, "img"))
    assert.matches("void: &lt;why&gt;", plots[4].text, 1, true)
    for _, plot in ipairs(plots) do
      for _, bad in ipairs { "<script", "javascript:", "onload", "http://[^w]" } do
        assert.is_nil((plot.text or ""):find(bad))
      end
    end
    local folder = require("command").folder()
    local paths = fit_plot.write(folder .. "/deep/er", plots)
    assert.equal(3, #paths)
    for _, path in ipairs(paths) do xml.read(assert(require("ett.io").read(path))) end
    os.execute(("rm -r '%s'"):format(folder))
    assert.matches("cannot make folder '/dev/null/plots'", raised(fit_plot.write, "/dev/null/plots", plots), 1, true)
  end)
end)

describe("decades", function()
  it("enclose the values that they were made from", function()
    for _, pair in ipairs { { 3, 40 }, { 10, 100 }, { 5, 5 }, { 1e-3, 1e7 }, { 10, 10 } } do
      local low, high = svg.decades(pair[1], pair[2])
      assert.is_true(low <= pair[1] * (1 + 1e-9) and high >= pair[2] * (1 - 1e-9) and high > low)
      for _, value in ipairs { low, high } do assert.near(0, math.log(value, 10) % 1, 1e-9) end
    end
  end)
end)
