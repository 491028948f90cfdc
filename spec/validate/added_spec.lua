-- The time that gradient all-reduces add to a step, from steps of sampled sizes.
local added = require "ett.validate.added"

--- Sizes whose steps follow a law, with noise: step and alone are multiplied by 1 + noise(i).
local function sizes(count, law, noise)
  math.randomseed(7)
  local list = {}
  for i = 1, count do
    local alone, bytes = 0.02 * 15 ^ math.random(), 2e6 * 18 ^ math.random()
    local step = alone + added.seconds(law, bytes, alone)
    list[i] = { alone = alone * (1 + noise(i, 1)), step = step * (1 + noise(i, 2)), bytes = bytes, true_step = step,
      true_alone = alone }
  end
  return list
end

--- The middle of predicted / true steps of the sizes.
local function level(list, law)
  local ratios = {}
  for i, size in ipairs(list) do
    ratios[i] = (size.true_alone + added.seconds(law, size.bytes, size.true_alone)) / size.true_step
  end
  table.sort(ratios)
  return ratios[(#ratios + 1) // 2], ratios[1], ratios[#ratios]
end

describe("the time that all-reduces add to a step", function()
  local law = { fixed = 2e-3, per_byte = 1.5e-9, per_second = 0.1 }

  it("is found from times without noise", function()
    local found = added.fit(sizes(24, law, function() return 0.0 end))
    for name, value in pairs(law) do assert.near(value, found[name], 0.01 * value) end
  end)

  it("is not negative in any part", function()
    local found = added.fit(sizes(24, { fixed = 0.0, per_byte = 0.0, per_second = 0.0 },
      function(i, k) return 0.03 * math.sin(7 * i + 3 * k) end))
    for _, value in pairs(found) do assert.is_true(value >= 0) end
  end)

  it("does not follow the sizes where noise hides it", function()
    -- A size in three has been measured at almost no added time.
    local list = sizes(24, law, function() return 0.0 end)
    for i = 1, 24, 3 do list[i].alone = 0.9999 * list[i].step end
    local middle, least, most = level(list, added.fit(list))
    assert.near(1.0, middle, 0.02)
    assert.is_true(least > 0.9 and most < 1.1)
  end)

  it("gives steps that are neither too fast nor too slow under noise", function()
    for seed = 1, 5 do
      local list = sizes(24, law, function(i, k) return 0.08 * math.sin(1e3 * math.sin(i * 12.9 + k * 78.2 + seed)) end)
      assert.near(1.0, level(list, added.fit(list)), 0.04)
    end
  end)
end)
