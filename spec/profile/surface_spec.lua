--- The regressor of CPU tables: held-out error and interval, outliers that it drops and reports, and its cache.
local ett_io = require "ett.io"
local regress = require "ett.regress"
local surface = require "ett.profile.surface"

--- n rows of a made-up rowwise kernel; noise: relative, uniform.
local function made(n, seed, noise)
  local rows, seconds = {}, {}
  for i = 1, n do
    local function unit(k) return (regress.mix(1000 * seed + 10 * i + k) >> 11) / 2.0 ^ 53 end
    local r, c = math.floor(2 ^ (5 + 6 * unit(1))), math.floor(2 ^ (6 + 6 * unit(2)))
    table.move({ r, c, 1 }, 1, 3, #rows + 1, rows)
    seconds[i] = (3e-7 + 2e-10 * r * c + 1e-9 * r) * (1 + noise * (2 * unit(3) - 1))
  end
  return { family = "rowwise", dims = 3, rows = rows, seconds = seconds }
end

describe("ett.profile.surface", function()
  it("has its reported coverage and error on new rows", function()
    local covered, asked, said, seen = 0, 0, 0.0, 0.0
    for seed = 1, 12 do
      local model = surface.fit(made(40, seed, 0.15))
      said = said + model:facts().error_mean / 12
      local fresh = made(60, seed + 500, 0.15)
      local value, low, high = model:predict_rows(fresh.rows)
      for i, t in ipairs(fresh.seconds) do
        asked = asked + 1
        if low[i] <= t and t <= high[i] then covered = covered + 1 end
        seen = seen + math.abs(value[i] / t - 1) / (12 * 60)
      end
    end
    assert.is_true(covered / asked > 0.85 and covered / asked < 0.99, covered / asked)
    assert.is_true(said > 0.9 * seen and said < 1.6 * seen, ("said %.4f seen %.4f"):format(said, seen))
  end)

  it("keeps equal rows in one fold, so that copies do not lower the error", function()
    local given = made(20, 3, 0.3)
    local doubled = { family = given.family, dims = 3, rows = {}, seconds = {} }
    for _ = 1, 2 do
      table.move(given.rows, 1, #given.rows, #doubled.rows + 1, doubled.rows)
      table.move(given.seconds, 1, 20, #doubled.seconds + 1, doubled.seconds)
    end
    -- A fold that split twins would know each row from its copy: an error near nothing.
    assert.is_true(surface.fit(doubled):facts().error_mean > 0.5 * surface.fit(given):facts().error_mean)
  end)

  it("drops a row of another mode and names it", function()
    local given = made(50, 4, 0.02)
    local clean = surface.fit(given)
    local truth = given.seconds[17]
    given.seconds[17] = 40 * truth
    local model, outliers = surface.fit(given)
    assert.equal(1, #outliers)
    assert.equal(17, outliers[1].row)
    assert.equal(40 * truth, outliers[1].seconds)
    assert.is_string(outliers[1].reason)
    assert.equal(49, model:facts().rows)
    assert.equal(1, model:facts().dropped)
    local d = { given.rows[49], given.rows[50], given.rows[51] }
    assert.near(truth, model:predict(d).value, 0.1 * truth)
    assert.is_true(model:facts().error_mean < 2 * clean:facts().error_mean)
  end)

  it("gives rows measured under noise less weight, also after saving", function()
    local given, disturbed = made(60, 8, 0.02), {}
    local clean = surface.fit(given)
    for i = 1, 60, 4 do -- a quarter was measured while memory was slow
      given.seconds[i], disturbed[i] = 1.4 * given.seconds[i], true
    end
    local misled = surface.fit(given)
    given.disturbed = disturbed
    local model = surface.fit(given)
    local function error_of(one)
      local fresh, sum = made(40, 99, 0.0), 0.0
      local values = one:predict_rows(fresh.rows)
      for i, value in ipairs(values) do sum = sum + math.abs(value / fresh.seconds[i] - 1) / 40 end
      return sum
    end
    assert.is_true(error_of(model) < 0.5 * error_of(misled),
      ("clean %.3f, marked %.3f, not marked %.3f"):format(error_of(clean), error_of(model), error_of(misled)))
    local path = os.tmpname()
    assert(model:save(path))
    local again = assert(surface.load(path))
    os.remove(path)
    assert.equal(model:predict({ 64, 128, 1 }).value, again:predict({ 64, 128, 1 }).value)
  end)

  it("fits equal rows, and few rows", function()
    local one = { family = "rowwise", dims = 3, rows = {}, seconds = {} }
    for i = 1, 12 do
      table.move({ 64, 128, 1 }, 1, 3, #one.rows + 1, one.rows)
      one.seconds[i] = 1e-5
    end
    local a = surface.fit(one):predict { 64, 128, 1 }
    assert.near(1e-5, a.value, 1e-8)
    assert.is_true(a.low <= a.value and a.value <= a.high)
    local model = surface.fit(made(8, 5, 0.1))
    assert.is_true(model:facts().error_mean == model:facts().error_mean)
  end)

  it("finds the start time of a call, also for shapes below its samples", function()
    local given = made(60, 11, 0.04)
    for i = 1, 60 do
      local rows, cols = given.rows[3 * i - 2], given.rows[3 * i - 1]
      given.seconds[i] = given.seconds[i] + 2e-6
      assert.is_true(rows >= 32 and cols >= 64)
    end
    local model = surface.fit(given)
    for _, d in ipairs { { 16, 64, 1 }, { 8, 32, 1 }, { 4, 8, 1 } } do
      local truth = 2.3e-6 + 2e-10 * d[1] * d[2] + 1e-9 * d[1]
      local answer = model:predict(d)
      assert.equal("extrapolated", answer.provenance)
      assert.near(truth, answer.value, 0.15 * truth) -- times in proportion to the work: 1.7 to 36 times too short
    end
  end)

  it("finds no start time in kernels that are slow for other reasons", function()
    local given = made(40, 12, 0.0)
    local function seconds_of(rows, cols) -- small ones are slower
      return 2e-10 * rows * cols * (rows * cols > 3e4 and 1 or 1.5) + 1e-9 * rows
    end
    for i = 1, 40 do
      local noise = (regress.mix(i) >> 11) / 2.0 ^ 53 - 0.5
      given.seconds[i] = seconds_of(given.rows[3 * i - 2], given.rows[3 * i - 1]) * (1 + 0.06 * noise)
    end
    local model = surface.fit(given)
    for _, d in ipairs { { 32, 32, 1 }, { 16, 64, 1 } } do
      local truth = seconds_of(d[1], d[2])
      assert.near(truth, model:predict(d).value, 0.2 * truth)
    end
  end)

  it("times attention under masks that were not sampled", function()
    local function seconds_of(d) return 6e-6 + 2e-11 * d[1] * d[2] * d[4] * d[5] * d[6] * (d[7] == 0 and 2 or d[7]) end
    for sampled = 0, 1 do
      local given = { family = "attention", dims = 7, rows = {}, seconds = {} }
      for i = 1, 60 do
        local heads, seq = 4 * (1 + i % 4), 128 * (1 + i % 8)
        local d = { 1 + i % 3, heads, heads, seq, seq, i % 2 == 0 and 64 or 128, sampled }
        table.move(d, 1, 7, #given.rows + 1, given.rows)
        given.seconds[i] = seconds_of(d)
      end
      local model = surface.fit(given)
      for _, mask in ipairs { 1 - sampled, 1.75 } do
        local d = { 2, 8, 8, mask > 1 and 128 or 512, 512, 64, mask }
        local answer = model:predict(d)
        assert.near(seconds_of(d), answer.value, 0.05 * seconds_of(d))
        assert.near(mask > 1 and math.log(sampled == 1 and 1.75 or 3.5, 2) or 1, answer.outside, 1e-9)
        assert.is_true(answer.high < 1.5 * answer.low, ("%g to %g"):format(answer.low, answer.high))
      end
    end
  end)

  it("drops no outlier if only rows of one kernel would remain", function()
    local two = { family = "rowwise", dims = 3, rows = {}, seconds = {} }
    for i = 1, 11 do
      table.move({ i <= 9 and 64 or 640, 64, 1 }, 1, 3, #two.rows + 1, two.rows)
      two.seconds[i] = (i <= 9 and 1e-5 or 1e-2) * (1 + 1e-3 * i)
    end
    local model, outliers = surface.fit(two)
    assert.same({}, outliers)
    assert.equal(11, model:facts().rows)
    assert.is_true(model:facts().error_mean > 0)
    assert.is_string(model:text())
  end)

  it("needs 8 shapes, whatever their repeats", function()
    local path = os.tmpname()
    assert(ett_io.write(path, "# ett: samples\n# backend: cpu\n"))
    local data = { gpu = "cpu", family = "rowwise", dims = 3, rows = {}, seconds = {}, pass = "forward",
      entry = { path = path } }
    for i = 1, 20 do
      table.move({ 64 + i % 7, 128, 1 }, 1, 3, #data.rows + 1, data.rows)
      data.seconds[i] = 1e-5 * (1 + 1e-2 * i)
    end
    local choose = require("ett.profile.fit").choose
    assert.same({ nil, "7 shapes (20 rows); at least 8 are needed: measure more shapes", n = 2 },
      table.pack(choose(data)))
    data.rows[1] = 1000
    assert.equal("surface", choose(data).kind)
    os.remove(path)
  end)

  describe("kept", function()
    local path = os.tmpname()
    teardown(function() os.remove(path) end)

    it("gives the same digits back", function()
      local model = surface.fit(made(40, 6, 0.1))
      assert(model:save(path))
      local again = assert(surface.load(path))
      assert.same(model:facts(), again:facts())
      for i = 1, 30 do
        local d = { 2 ^ (i % 7) + i, 64 * i, 1 }
        assert.same(model:predict(d), again:predict(d))
      end
    end)

    it("is not used when a byte of it is wrong", function()
      assert(surface.fit(made(12, 7, 0.1)):save(path))
      local bytes = assert(ett_io.read(path))
      for at = 1, #bytes, 7 do
        assert(ett_io.write(path, bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 1) .. bytes:sub(at + 1)))
        local none, err = surface.load(path)
        assert.is_nil(none)
        assert.is_string(err.message)
      end
      for _, text in ipairs { "", "ett surface 1", bytes:sub(1, #bytes // 2) } do
        assert(ett_io.write(path, text))
        assert.is_nil((surface.load(path)))
      end
      local none, err = surface.load(path .. ".none")
      assert.is_nil(none)
      assert.is_string(err.message)
    end)
  end)
end)
