--- Contents of figures and of the 3-D picture. spec/trace/html_slow_spec.lua shows the picture in a browser.
local figures = require "ett.ledger.figures"
local optimize = require "ett.ledger.optimize"
local picture = require "ett.ledger.picture"
local raised = require "raised"
local svg = require "ett.report.svg"

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

it("ett.svg draws every series, escapes text and omits points that a log axis cannot show", function()
  local function draw()
    return svg.chart { title = "a < b & c", x = { label = "n", log = true }, y = { label = "v", log = true },
      series = { { label = "one", points = { { 1, 1 }, { 10, 0 }, { 100, 50 } } },
        { label = "two", points = { { 1, 2 } } } } }
  end
  local text = draw()
  assert.truthy(text:find("a &lt; b &amp; c", 1, true))
  assert.equal(2, count(text, 'stroke%-width="2"'))
  assert.falsy(text:find("nan", 1, true))
  assert.falsy(text:find("inf", 1, true))
  assert.equal(text, draw())
  local zeros = svg.chart { title = "zeros", x = { label = "n" }, y = { label = "v" },
    series = { { label = "one", points = { { 1, 0 }, { 2, 0 } } } } }
  assert.falsy(zeros:find("nan", 1, true) or zeros:find("inf", 1, true))
end)

describe("the figures of a sweep", function()
  local results = optimize.new({ model = "pods" }):sweep(optimize.counts(64, 16384, 1))

  it("show degrees, phases and the binding resource", function()
    assert.equal(9, #results)
    local degrees = figures.degrees(results, "pods")
    assert.truthy(degrees:find("utilization of peak", 1, true))
    assert.truthy(degrees:find("pods of 32 H100", 1, true))
    local points = degrees:match 'd="([^"]*)"[^>]*dasharray' -- of the utilization
    assert.equal(9, count(points, "[ML]"))
    local resources = figures.resources(results, "pods")
    assert.truthy(resources:find("compute binds", 1, true))
    assert.truthy(resources:find("network binds", 1, true))
    assert.equal(3, count(figures.phases(results, "pods"), "<polygon"))
  end)

  it("have phases that fill the batch", function()
    for _, result in ipairs(results) do
      local sum = 0
      for _, phase in pairs(result.phases) do sum = sum + phase.fraction end
      assert.is_true(math.abs(sum - 1) < 1e-12)
    end
  end)
end)

describe("the picture of a batch", function()
  --- Products and flashes of a build, counted over its frames.
  local function tally(built)
    local seen = { compute = 0, send = 0 }
    for _, frame in ipairs(built.frames) do
      for _, index in ipairs(frame.flash or {}) do
        local kind = built.boxes[index + 1][1]
        seen[kind] = seen[kind] + 1
      end
    end
    return seen
  end

  it("highlights every product once forward and once backward", function()
    for _, o in ipairs { { layers = 4, pp = 2, dp = 2, tp = 1, microbatches = 4 },
      { layers = 3, pp = 3, dp = 1, tp = 2, microbatches = 2, batch = 4 },
      { layers = 1, pp = 1, dp = 1, tp = 1, microbatches = 1 } } do
      local seen = tally(picture.build(o))
      assert.equal(o.layers * 2 * 2 * o.dp * o.tp * o.microbatches, seen.compute)
      local stages = (o.pp - 1) * 2 * o.dp * o.microbatches
      local tensor = o.tp > 1 and o.layers * 2 * o.dp * o.microbatches or 0
      local data = o.dp > 1 and o.layers * 2 * o.dp * o.tp or 0
      assert.equal(stages + tensor + data, seen.send)
    end
  end)

  it("leaves only the weights at the end", function()
    local built = picture.build {}
    local standing = {}
    for _, frame in ipairs(built.frames) do
      for _, index in ipairs(frame.gone or {}) do standing[index] = nil end
      for _, index in ipairs(frame.come or {}) do standing[index] = true end
    end
    for index in pairs(standing) do assert.equal("weight", built.boxes[index + 1][1]) end
  end)

  it("refuses what does not divide, all at once", function()
    local why = raised(picture.build, { layers = 5, pp = 2, hidden = 15, tp = 2 })
    assert.matches("layers = 5 must be divisible by pp = 2", why, 1, true)
    assert.matches("hidden = 15 must be divisible by tp = 2", why, 1, true)
    assert.matches("layers x dp x tp x microbatches = 8192 must be at most 4096 to be drawn",
      raised(picture.build, { layers = 64, dp = 4, tp = 8, batch = 64 }), 1, true)
  end)

  it("is one file that loads no other file", function()
    local page = picture.page {}
    for _, word in ipairs { "src=", "href=", "@import", "url(", "http:", "https:" } do
      assert.falsy(page:find(word, 1, true), word)
    end
    assert.equal(1, count(page, "</script"))
  end)
end)
