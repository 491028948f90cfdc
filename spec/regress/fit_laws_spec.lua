local regressor = require "ett.profile.regressor"
local fits = require("needs").fitting(it, pending)
local raised = require "raised"

-- Sizes of a collective and their times.
local function line(count, time, step)
  local rows, seconds = {}, {}
  for i = 1, count do
    rows[i] = { 1e8 + (step or 2e6) * i }
    seconds[i] = time(rows[i][1], i)
  end
  return rows, seconds
end

local function law(elements) return 3e-5 + elements / 2e10 end

local function near(expected, got, share)
  assert.is_true(math.abs(got / expected - 1) <= share, ("%g is not %g"):format(got, expected))
end

describe("a fit", function()
  fits("of constant times is that constant", function()
    local rows, seconds = line(60, function() return 7e-4 end)
    local r, outliers = regressor.fit { family = "collective", rows = rows, seconds = seconds }
    assert.are.equal(0, #outliers)
    for _, elements in ipairs { 1.02e8, 1.5e8, 2.2e8 } do near(7e-4, r:predict({ elements }).value, 0.002) end
  end)

  fits("of an exact law is that law, inside and far above", function()
    local rows, seconds = line(100, law)
    local r = regressor.fit { family = "collective", rows = rows, seconds = seconds }
    near(law(1.51e8), r:predict({ 1.51e8 }).value, 0.002)
    near(law(1.2e9), r:predict({ 1.2e9 }).value, 0.02)
  end)

  fits("does not depend on the order of rows, nor on how often each is given", function()
    local rows, seconds = line(80, function(x, i) return law(x) * (1 + 0.01 * math.sin(i)) end)
    local back, reversed, twice, doubled = {}, {}, {}, {}
    for i, row in ipairs(rows) do
      back[#rows + 1 - i], reversed[#rows + 1 - i] = row, seconds[i]
      twice[2 * i - 1], twice[2 * i], doubled[2 * i - 1], doubled[2 * i] = row, row, seconds[i], seconds[i]
    end
    local function fit(kind, x, y)
      return regressor.fit { kind = kind, family = "collective", rows = x, seconds = y }
    end
    local plain = fit("robust_linear", rows, seconds):predict({ 1.7e8 }).value
    near(plain, fit("robust_linear", back, reversed):predict({ 1.7e8 }).value, 1e-9)
    near(plain, fit("robust_linear", twice, doubled):predict({ 1.7e8 }).value, 1e-6)
    local one = fit("hybrid", rows, seconds):predict({ 1.7e8 }).value
    near(one, fit("hybrid", back, reversed):predict({ 1.7e8 }).value, 0.01)
    near(one, fit("hybrid", twice, doubled):predict({ 1.7e8 }).value, 0.01)
  end)

  fits("of kernels that no law explains serves the median of each kernel's samples", function()
    local rows, seconds, mix = {}, {}, require("ett.regress").mix
    for i = 1, 40 do
      for k = -1, 1 do
        rows[#rows + 1] = { 1, 256 * i, 1024, 1024 }
        seconds[#rows] = 1e-5 * i * (0.8 + 0.05 * (mix(i) % 8)) * (1 + 0.001 * k)
      end
    end
    local r = regressor.fit { family = "gemm", rows = rows, seconds = seconds, multiprocessors = 132 }
    for i = 2, #rows, 3 * 7 do
      local p = r:predict(rows[i])
      assert.equal("measured", p.provenance)
      near(seconds[i], p.value, 0.002)
    end
  end)

  fits("takes two rows, not one", function()
    assert.matches("at least 2 rows",
      raised(regressor.fit, { family = "collective", rows = { { 1e8 } }, seconds = { 1e-3 } }), 1, true)
    local r = regressor.fit { family = "collective", rows = { { 1e8 }, { 2e8 } }, seconds = { 1e-3, 2e-3 } }
    near(2e-3, r:predict({ 2e8 }).value, 0.05)
  end)
end)

describe("the gate of a family on a line", function()
  -- From row 70 of 100 on nothing was timed: a constant. Strays of it lie lower down, and of the law higher up.
  local strays = { [20] = true, [41] = true, [80] = true }
  local function two(x, i) return ((i >= 70) ~= (strays[i] or false)) and 1.17e-4 or law(x) end
  local rows, seconds = line(100, two, 5e5)

  fits("believes physics before numbers", function()
    local least = {}
    for i, row in ipairs(rows) do least[i] = row[1] / 5e11 end
    local r, outliers = regressor.fit { family = "collective", rows = rows, seconds = seconds, least_seconds = least }
    assert.are.equal(32, #outliers)
    for _, one in ipairs(outliers) do assert.truthy(one.reason:find "faster") end
    near(law(1.4525e8), r:predict({ 1.4525e8 }).value, 0.03)
  end)

  fits("still drops single rows of another mode", function()
    local x, y = line(100, function(e, i) return law(e) * (i % 20 == 0 and 50 or 1) end)
    local _, outliers = regressor.fit { family = "collective", rows = x, seconds = y }
    assert.are.equal(5, #outliers)
  end)
end)

describe("hinges of the base", function()
  -- A warp's rows are padded to a power of two: columns beyond it cost more, and the most rows were
  -- measured with those. A hinge in rows takes that for a slope.
  local function padded(rows, cols)
    return 4e-6 + rows * cols * (0.7 + 1.3 * 2 ^ math.ceil(math.log(cols, 2)) / cols) * 1e-12
  end
  fits("do not carry a few rows' slope above the samples", function()
    local x, y, above = {}, {}, {}
    for cols = 1024, 2048, 64 do
      for power = 0, 5 do
        local rows = 8 * 2 ^ power * cols
        if rows * cols >= 1.6e8 then
          above[#above + 1] = { rows, cols, cols }
        elseif power < 5 then
          x[#x + 1] = { rows, cols, cols }
          y[#y + 1] = padded(rows, cols) * (1 + 0.05 * math.sin(7 * (#y + 1)))
        end
      end
    end
    local r = regressor.fit { family = "rowwise", rows = x, seconds = y }
    local total = 0
    for _, row in ipairs(above) do total = total + math.abs(r:predict(row).value / padded(row[1], row[2]) - 1) end
    assert.is_true(total / #above < 0.1, total / #above) -- half of the time and more with every hinge
  end)
end)

describe("two regimes", function()
  -- Below a size another kernel runs, whose time falls again where the large one takes over.
  local function seconds(rows, cols)
    local z = rows * cols
    return z < 6e6 and 20e-6 + z * 60e-12 or 30e-6 + z * 2e-12 + cols * 10e-9
  end
  fits("do not bend the base above the samples", function()
    local x, y, above = {}, {}, {}
    for power = 10, 17 do
      for cols = 256, 2048, 128 do
        local rows = 2 ^ power
        if rows * cols >= 3e7 then
          above[#above + 1] = { rows, cols, cols }
        else
          x[#x + 1] = { rows, cols, cols }
          y[#y + 1] = seconds(rows, cols)
        end
      end
    end
    local r = regressor.fit { family = "rowwise", rows = x, seconds = y }
    local total = 0
    for _, row in ipairs(above) do total = total + math.abs(r:predict(row).value / seconds(row[1], row[2]) - 1) end
    assert.is_true(total / #above < 0.1, ("%.3f"):format(total / #above)) -- 0.14 with all rows alike
  end)
end)
