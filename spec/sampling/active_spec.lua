--- Active sampling on synthetic times: chosen shapes, and the stopping rule.
local active = require "ett.sampling.active"
local merged = require "ett.base.merged"
local surfaces = require "ett.sampling.surfaces"
local campaign = require "ett.sampling.campaign"
local find = require "ett.base.find"

find.set_script_folder(require("ett.host").root .. "/spec/samplers/fixture")

local side = { start = 8, stop = 160, step = 8 }
local coarse = { start = 8, stop = 152, step = 16 }

local function target_of(shapes)
  return campaign.resolve({ name = "small", samples = { { operator = "spec_linear", shapes = shapes } } }).targets[1]
end

--- Runs a chooser over 400 shapes, or a grid of another side, to its end; seconds_of(shape, position). Also what it
--- measured, in order.
local function run_chooser(seconds_of, target_error, options, rows)
  local target = target_of { rows = rows or side, inner = rows or side, outer = 8 }
  local list, chosen = {}, {}
  for i = 1, target.total do list[i] = i end
  local given = merged({ target_error = target_error, dtype = "fp32" }, options)
  local chooser = active.chooser(target, list, given)
  for at in chooser.next do
    chosen[#chosen + 1] = at
    local s = target.shape(target.values(at))
    chooser.add(s, { forward = { seconds = seconds_of(s, at) } })
  end
  return chooser, chosen, target
end

--- A factor within `size` of 1, of a position.
local function noise(at, size)
  local mix = require("ett.regress").mix
  return 1 + size * ((mix(at) >> 11) / 2.0 ^ 52 - 1)
end

local function smooth(s) return 1e-6 + 2e-11 * s.rows * s.inner end

--- Seconds of a forward pass by the chooser's surface.
local function predicted(chooser, op, s)
  local value = chooser.surfaces:surface(surfaces.key(op, "forward")):predict(surfaces.features(op, s))
  return surfaces.roofline(op, s, "fp32", "forward") * math.exp(value)
end

describe("active sampling", function()
  local even_count -- shapes that the grid's own error takes on even times

  it("ends when the rest of the grid would not help", function()
    -- Noise of 10 % on every measurement: no target below it can be met, and the grid would not do better.
    for _, target_error in ipairs { "grid", 0.001 } do
      local chooser, chosen, target = run_chooser(function(s, at) return smooth(s) * noise(at, 0.1) end, target_error)
      even_count = even_count or #chosen
      assert.equal("grid", chooser.done)
      assert.is_true(chooser.excess <= 1.1 and #chosen < target.total / 3, tostring(#chosen))
      -- What it knows is nearer to the truth than a measurement is.
      local sum = 0
      for i = 1, target.total do
        local s = target.shape(target.values(i))
        local seconds = predicted(chooser, target.operator, s)
        sum = sum + math.abs(seconds / smooth(s) - 1)
      end
      assert.is_true(sum / target.total < 0.03, tostring(sum / target.total))
    end
  end)

  it("continues if the rest of the grid would lower the error", function()
    -- Steps as from tiles: the time of one tile gives little information about the next.
    local function stepped(s) return smooth(s) * (1 + 0.6 * (s.rows // 56 % 2) + 0.4 * (s.inner // 48 % 2)) end
    local _, rough = run_chooser(stepped, "grid")
    assert.is_true(#rough > 1.5 * even_count, ("%d %d"):format(#rough, even_count))
  end)

  it("ends on a small grid after its share, unless the rest would lower the error", function()
    local function even(s, at) return smooth(s) * noise(at, 0.1) end
    local most = 0
    for _, target_error in ipairs { "grid", 0.001 } do
      local chooser, chosen, target = run_chooser(even, target_error, { visits = active.visits }, coarse)
      assert.equal(100, target.total)
      assert.equal("grid", chooser.done)
      assert.is_true(chooser.excess <= active.grid_excess and #chosen <= target.total / 3, tostring(#chosen))
      assert.is_true(#chosen >= active.least_share * target.total, tostring(#chosen))
      most = math.max(most, #chosen)
    end
    local function stepped(s) return smooth(s) * (1 + 0.6 * (s.rows // 56 % 2) + 0.4 * (s.inner // 48 % 2)) end
    local _, rough = run_chooser(stepped, "grid", { visits = active.visits }, coarse)
    assert.is_true(#rough > 1.25 * most, ("%d %d"):format(#rough, most))
  end)

  it("reports an error bound that its own measurements confirm", function()
    local function even(s, at) return smooth(s) * noise(at, 0.1) end
    local chooser, chosen, target = run_chooser(even, 0.08, nil, coarse)
    assert.equal("target", chooser.done)
    assert.is_true(chooser.error <= 0.08 and #chosen < 50)
    local seen, errors = {}, {}
    for _, at in ipairs(chosen) do seen[at] = true end
    for i = 1, target.total do
      if not seen[i] then
        local s = target.shape(target.values(i))
        local seconds = predicted(chooser, target.operator, s)
        errors[#errors + 1] = math.abs(seconds / (smooth(s) * noise(i, 0.1)) - 1)
      end
    end
    table.sort(errors)
    assert.is_true(errors[(#errors + 1) // 2] <= chooser.error)
  end)

  it("measures a fixed number of shapes for trees, unless a target is met or impossible", function()
    local function noisy(s, at) return smooth(s) * noise(at, 0.1) end
    local chooser, chosen = run_chooser(noisy, "grid", { trees = true })
    assert.equal("spent", chooser.done)
    assert.equal(math.ceil(active.spend * 20), #chosen) -- the root of 400
    local met, fewer = run_chooser(noisy, 0.2, { trees = true })
    assert.equal("target", met.done)
    assert.is_true(#fewer < #chosen and met.error <= 0.2)
    assert.equal("grid", (run_chooser(noisy, 0.001, { trees = true }, { start = 8, stop = 120, step = 8 })).done)
  end)

  it("skips kernels that another operator measured", function()
    local known = {}
    local _, first = run_chooser(smooth, 0.02, { trees = true, known = known })
    assert.equal(#first, #known)
    local seen = {}
    for _, at in ipairs(first) do seen[at] = true end
    local _, second = run_chooser(smooth, 0.02, { trees = true, known = known })
    for k = 1, 8 do assert.is_nil(seen[second[k]]) end
    assert.equal(#first + #second, #known)
  end)

  it("takes results with a note of their back end", function()
    local target = target_of { rows = { 8, 16, 32, 64 }, inner = { 8, 16 }, outer = 8 }
    local chooser = active.chooser(target, { 1, 2, 3, 4, 5, 6, 7, 8 }, { target_error = 0.05, dtype = "fp32" })
    chooser.add(target.shape(target.values(chooser.next())), { forward = { seconds = 1e-6 }, note = "by its range" })
    assert.same({ "gemm forward" }, chooser.keys)
  end)

  it("starts at the corners", function()
    local _, chosen, target = run_chooser(smooth, 0.02)
    local corners = {}
    for k = 1, 8 do
      local s = target.shape(target.values(chosen[k]))
      if (s.rows == 8 or s.rows == 160) and (s.inner == 8 or s.inner == 160) then corners[#corners + 1] = k end
    end
    assert.equal(4, #corners)
  end)

  it("measures shapes of one kernel once", function()
    -- Each of 20 kernels three times over.
    local base = target_of { rows = side, inner = 16, outer = 8 }
    local thrice = setmetatable({ total = 60, values = function(i) return base.values((i - 1) % 20 + 1) end },
      { __index = base })
    local list, seen = {}, {}
    for i = 1, 60 do list[i] = i end
    local chooser = active.chooser(thrice, list, { target_error = 1e-9, dtype = "fp32" })
    for _ = 1, 20 do
      local at = chooser.next()
      assert.is_nil(seen[(at - 1) % 20])
      seen[(at - 1) % 20] = true
      local s = thrice.shape(thrice.values(at))
      chooser.add(s, { forward = { seconds = smooth(s) * noise(at, 0.1) } })
    end
  end)
end)
