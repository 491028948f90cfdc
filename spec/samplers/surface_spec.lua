local sample = require "ett.sample"
local space = require "ett.sampling.space"

--- A fixed irregular sequence in [0, 1).
local function spread(i, d) return space.halton(i, d, 3) end

describe("a surface through measurements", function()
  local function truth(a, b) return math.sin(2 * a) + 0.5 * b * b end
  local points, values, n = {}, {}, 60
  for i = 1, n do
    local a, b = 3 * spread(i, 1), 2 * spread(i, 2)
    points[#points + 1], points[#points + 2], values[i] = a, b, truth(a, b)
  end
  local surface = assert(sample.surface(points, 2, values))

  it("predicts between its points and is less sure far from them", function()
    local worst = 0
    for i = 100, 160 do
      local a, b = 0.2 + 2.6 * spread(i, 1), 0.2 + 1.6 * spread(i, 2)
      worst = math.max(worst, math.abs(surface:predict { a, b } - truth(a, b)))
    end
    assert.is_true(worst < 0.1, tostring(worst))
    local _, near = surface:predict { points[1], points[2] }
    local _, far = surface:predict { 12, 9 }
    assert.is_true(far > 10 * near)
  end)

  it("a design takes the most informative shapes, each once", function()
    -- Two known points, then a cluster of candidates far from every point: one of them teaches about all of them.
    local shapes = { points[1], points[2], points[3], points[4], 9, 9, 9.1, 9, 9, 9.1 }
    local design <close> = assert(sample.design { 1, 1, 1, 1, 1 })
    assert.is_true(design:add(surface, shapes))
    local before = design:deviations(1)
    local first = design:next()
    assert.is_true(first >= 3)
    local after = design:deviations(1)
    for i = 3, 5 do assert.is_true(after[i] < 0.5 * before[i]) end
    for i = 1, 5 do assert.is_true(after[i] <= before[i] + 1e-9) end
    local seen = { [first] = true }
    design:shut(1)
    for _ = 1, 3 do
      local i = design:next()
      assert.is_true(i ~= 1 and not seen[i])
      seen[i] = true
    end
    assert.is_nil(design:next())
  end)

  it("a design takes the given shapes", function()
    local shapes = { points[1], points[2], 9, 9, 9.1, 9 }
    local design <close> = assert(sample.design { 1, 1, 1 })
    assert(design:add(surface, shapes))
    local before = design:deviations(1)
    design:take(2)
    assert.is_true(design:deviations(1)[3] < 0.5 * before[3])
    assert.is_true(design:next() ~= 2 and design:next() ~= 2)
    assert.is_nil(design:next())
    assert.is_false((pcall(design.take, design, 4)))
  end)

  it("a design's deviation is that of a surface with the shape among its points", function()
    local scales = surface:scales()
    local shapes = { 4, 1, 3.5, 2.5 }
    local design <close> = assert(sample.design { 1, 1 })
    assert(design:add(surface, shapes))
    local at = design:next()
    local more, more_values = table.move(points, 1, #points, 1, {}), table.move(values, 1, n, 1, {})
    more[#more + 1], more[#more + 2] = shapes[2 * at - 1], shapes[2 * at]
    more_values[n + 1] = surface:predict { shapes[2 * at - 1], shapes[2 * at] }
    -- Centre and spread of the points move with a new one, and the lengths are in units of them.
    local with = assert(sample.surface(more, 2, more_values, scales))
    local other = 3 - at
    local _, deviation = with:predict { shapes[2 * other - 1], shapes[2 * other] }
    assert.is_true(math.abs(design:deviations(1)[other] / deviation - 1) < 0.1)
  end)

  it("estimates the error of the whole grid: below the present one, at least the noise", function()
    local shapes = {}
    for i = 0, 6 do for j = 0, 6 do shapes[#shapes + 1], shapes[#shapes + 2] = i / 2, j / 3 end end
    local few = assert(sample.surface(table.move(points, 1, 24, 1, {}), 2, table.move(values, 1, 12, 1, {})))
    local design <close> = assert(sample.design((function()
      local ones = {}
      for i = 1, #shapes / 2 do ones[i] = 1 end
      return ones
    end)()))
    assert(design:add(few, shapes))
    local noise, now, grid = select(2, few:scales()), 0, 0
    local noisier = few:grid_deviation(shapes, 10)
    for i, deviation in ipairs(few:grid_deviation(shapes, 1)) do
      assert.is_true(deviation >= noise and noisier[i] >= deviation - 1e-12)
      now, grid = now + math.sqrt(design:deviations(1)[i] ^ 2 + noise ^ 2), grid + deviation
    end
    assert.is_true(grid < now)
  end)

  it("a rough surface follows steps that a smooth one treats as noise", function()
    local x, y, count = {}, {}, 250
    for i = 1, count do
      local a, b = spread(i, 1), spread(i, 2)
      x[#x + 1], x[#x + 2], y[i] = a, b, 2 * a + 2 * b + 0.3 * ((math.floor(3 * a) + math.floor(3 * b)) % 2)
    end
    local smooth, rough = assert(sample.surface(x, 2, y)), assert(sample.surface(x, 2, y, nil, nil, true))
    local off_smooth, off_rough = 0, 0
    local left_smooth, left_rough = smooth:leave_one_out(), rough:leave_one_out()
    for i = 1, count do
      off_smooth, off_rough = off_smooth + math.abs(left_smooth[i] - y[i]), off_rough + math.abs(left_rough[i] - y[i])
    end
    assert.is_true(off_rough < 0.9 * off_smooth, ("%g %g"):format(off_rough, off_smooth))
    assert.is_true(select(2, rough:scales()) < 0.6 * select(2, smooth:scales()))
    local again = assert(sample.surface(x, 2, y, (rough:scales()), nil, true))
    assert.equal(rough:predict { 0.3, 0.3 }, (again:predict { 0.3, 0.3 }))
    local function without_rough() sample.surface(x, 2, y, (rough:scales())) end
    assert.error_matches(without_rough, "wrong number of scales for this surface")
  end)

  it("refuses points that are not numbers, with or without scales", function()
    for _, bad in ipairs { 0 / 0, math.huge } do
      for _, case in ipairs { { { bad, 1, 2 }, { 1, 2, 3 } }, { { 0, 1, 2 }, { 1, bad, 3 } } } do
        for _, scales in ipairs { false, { 1, 0.01 } } do
          local none, err = sample.surface(case[1], 1, case[2], scales or nil)
          assert.is_nil(none)
          assert.equal("cannot fit a surface to these points", err.message)
        end
      end
    end
  end)

  it("a design refuses impossible requests", function()
    local none, err = sample.design {}
    assert.is_nil(none)
    assert.matches("1 to 4000 shapes, got 0", err.message)
    local design = assert(sample.design { 1, 1 })
    assert.error_matches(function() design:add(surface, { 1, 2 }) end, "wrong number of features for each shape")
    assert.error_matches(function() design:shut(3) end, "expected a shape of the design")
    design:close()
    assert.error_matches(function() design:next() end, "the design is closed")
  end)

  it("gives the leave-one-out values of fits without the point", function()
    local held = surface:leave_one_out()
    assert.equal(n, #held)
    -- The closed form against the definition, at fixed lengths: a surface of all points but one is
    -- searched anew, so lengths move a little.
    local rest_points, rest_values = {}, {}
    for i = 1, n do
      if i ~= 20 then
        rest_points[#rest_points + 1], rest_points[#rest_points + 2] = points[2 * i - 1], points[2 * i]
        rest_values[#rest_values + 1] = values[i]
      end
    end
    local without = assert(sample.surface(rest_points, 2, rest_values))
    local direct = without:predict { points[39], points[40] }
    assert.is_true(math.abs(direct - held[20]) < 0.02, ("%g %g"):format(direct, held[20]))
  end)

  it("gives a doubtful point less weight", function()
    local off = table.move(values, 1, n, 1, {})
    off[20] = off[20] + 0.3
    local doubt = {}
    for i = 1, n do doubt[i] = i == 20 and 1e4 or 1.0 end
    local place = { points[39], points[40] }
    local misled = assert(sample.surface(points, 2, off))
    local heedless = assert(sample.surface(points, 2, off, nil, doubt))
    local wrong, right = misled:predict(place) - values[20], heedless:predict(place) - values[20]
    assert.is_true(math.abs(right) < 0.5 * math.abs(wrong),
      ("off by %g with doubt, %g without"):format(right, wrong))
    local again = assert(sample.surface(points, 2, off, (heedless:scales()), doubt))
    assert.equal(heedless:predict(place), (again:predict(place)))
  end)

  it("gives the same digits again", function()
    local again = assert(sample.surface(points, 2, values))
    assert.equal(surface:predict { 1, 1 }, (again:predict { 1, 1 }))
  end)

  it("refuses points without a surface", function()
    local none, err = sample.surface({ 1 }, 1, { 1 })
    assert.is_nil(none)
    assert.matches("2 to 5000 points", err.message)
    assert.error_matches(function() sample.surface({ 1, 2, 3 }, 2, { 1, 2 }) end,
      "expected `width` features for each value")
    assert.error_matches(function() sample.surface({ 1, 2 }, 1, { 1, 2 }, nil, { 1 }) end,
      "expected one factor for each point")
    none, err = sample.surface({ 1, 2 }, 1, { 1, 2 }, nil, { 1, 0 })
    assert.is_nil(none)
    assert.matches("point 2 of a surface: its noise factor must be positive, got 0", err.message)
  end)
end)
