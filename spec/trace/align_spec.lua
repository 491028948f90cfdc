local align = require "ett.trace.align"

--- Collectives that end every 100 ticks; starts lag by `lag`.
local function recording(first, last, lag, kernel)
  local list = {}
  for i = first, last do
    list[#list + 1] = { ts = 100 * i + lag + (i * i) % 7, stop = 100 * i + 90 + (i * i * 37) % 53,
      kernel_type = kernel or "all_reduce" }
  end
  return list
end

describe("ett.trace.align", function()
  it("finds the offset of a rank whose recording starts late", function()
    for missing = 0, 9 do
      local result = assert(align.match({ recording(1, 40, 0), recording(1 + missing, 40, 5) }, { tolerance = 10 }))
      assert.equal(-missing, result.offsets[2])
      assert.equal(40 - missing, #result.matches)
      for _, match in ipairs(result.matches) do assert.equal(match[1].stop, match[2].stop) end
    end
  end)

  it("finds the offset that trying all of them finds", function()
    local bulk, median = require "ett.bulk", require "ett.base.median"
    local function tried(a, b, offset, by_spread)
      local values, like, count = {}, 0, 0
      for i = math.max(1, 1 - offset), math.min(#a.ends, #b.ends - offset) do
        count = count + 1
        values[count] = b.ends[i + offset] - a.ends[i]
        if a.types[i] == b.types[i + offset] then like = like + 1 end
      end
      if count < math.max(1, math.min(#a.ends, #b.ends) / 2) or like < 0.9 * count then return nil end
      local clock = by_spread and median(values) or 0
      for i, value in ipairs(values) do values[i] = math.abs(value - clock) end
      return median(values), clock
    end
    local random = math.random
    math.randomseed(17)
    local function sequence(count)
      local ends, types, at = {}, {}, random(50)
      for i = 1, count do
        at = at + random(40)
        ends[i], types[i] = at, random(30) == 1 and 2 or 1
      end
      return { ends = ends, types = types }
    end
    for try = 1, 60 do
      local a, b, by_spread = sequence(random(24)), sequence(random(24)), try % 2 == 0
      local reach = math.min(#a.ends, #b.ends) - 1 + math.abs(#a.ends - #b.ends)
      local best, second
      for away = 0, reach do
        for _, offset in ipairs(away == 0 and { 0 } or { -away, away }) do
          local value, clock = tried(a, b, offset, by_spread)
          if value and (not best or value < best.median) then
            second, best = best and best.median, { offset = offset, median = value, clock = clock }
          elseif value and (not second or value < second) then
            second = value
          end
        end
      end
      local found = bulk.align(a, b, by_spread)
      assert.same(best and { best.offset, best.median, second or "none", by_spread and best.clock or "none" },
        found and { found.offset, found.median, found.second or "none", found.clock or "none" })
    end
    assert.has_error(function() bulk.align({ ends = { 1 }, types = {} }, { ends = {}, types = {} }) end)
  end)

  it("finds a rank whose recording starts early", function()
    local result = assert(align.match({ recording(4, 40, 0), recording(1, 38, 5) }, { tolerance = 10 }))
    assert.equal(3, result.offsets[2])
    assert.equal(35, #result.matches)
  end)

  it("refuses when ends never agree, unless forced", function()
    local far = {}
    for i, each in ipairs(recording(1, 20, 0)) do
      far[i] = { ts = each.ts, stop = each.stop + 5000 + (i * 7919) % 4000, kernel_type = "all_reduce" }
    end
    local result, reason, tried = align.match({ recording(1, 20, 0), far }, { tolerance = 50 })
    assert.is_nil(result)
    assert.equal("ends", reason)
    assert.is_true(tried.medians[2] > 50)
    assert.is_table(align.match({ recording(1, 20, 0), far }, { tolerance = 50, mode = "force" }))
  end)

  it("takes a constant difference of clocks out when asked", function()
    local function late(first, shift)
      local list = recording(first, 40, 5)
      for _, each in ipairs(list) do each.ts, each.stop = each.ts + shift, each.stop + shift end
      return list
    end
    for _, shift in ipairs{ -123457, 999983 } do
      assert.is_nil((align.match({ recording(1, 40, 0), late(4, shift) }, { tolerance = 10 })))
      local result = assert(align.match({ recording(1, 40, 0), late(4, shift) }, { tolerance = 10, mode = "clocks" }))
      assert.equal(-3, result.offsets[2])
      assert.equal(shift, result.clocks[2])
      assert.equal(37, #result.matches)
      for _, match in ipairs(result.matches) do
        assert.equal(match[1].stop, match[2].stop)
        assert.equal(match[1].ts + 5, match[2].ts)
        assert.equal("all_reduce", match[2].kernel_type)
      end
    end
    -- Ends that come like clockwork do not say by how many collectives a rank is late.
    local regular = {}
    for i = 1, 40 do regular[i] = { ts = 100 * i, stop = 100 * i + 90, kernel_type = "all_reduce" } end
    local _, reason = align.match({ regular, regular }, { tolerance = 10, mode = "clocks" })
    assert.matches("too regular", reason)
  end)

  it("notices a constant difference of clocks within the tolerance", function()
    local function irregular(first, shift) -- 150 ticks and more between collectives
      local list, at = {}, 0
      for i = 1, 40 do
        at = at + 150 + (i * i * i * 7919) % 347
        if i >= first then
          local stop = at + 90 + shift + i % 3
          list[#list + 1] = { ts = stop - 60, stop = stop, kernel_type = "all_reduce" }
        end
      end
      return list
    end
    for _, shift in ipairs{ -900, 600 } do -- more than the time between collectives
      local result = assert(align.match({ irregular(1, 0), irregular(4, shift) }, { tolerance = 1000 }))
      assert.equal(-3, result.offsets[2])
      assert.near(shift, result.clocks[2], 2)
      for _, ticks in ipairs(align.lags(result, 2).transfers) do assert.is_true(ticks > 0) end
    end
    local small = assert(align.match({ irregular(1, 0), irregular(1, 35) }, { tolerance = 1000 }))
    assert.is_nil(small.clocks[2])
    assert.near(35, small.suspected[2], 2)
    local none = assert(align.match({ irregular(1, 0), irregular(1, 0) }, { tolerance = 1000 }))
    assert.is_nil(none.suspected[2])
  end)

  it("refuses different kernels", function()
    local result, reason = align.match({ recording(1, 9, 0), recording(1, 9, 0, "send_recv") }, { tolerance = 50 })
    assert.is_nil(result)
    assert.matches("different kernels", reason)
  end)

  it("measures lag, wait and transfer", function()
    local match = { { ts = 10, stop = 50 }, { ts = 30, stop = 52 }, { ts = 30, stop = 51 } }
    local lags = align.lags({ matches = { match } }, 3)
    assert.same({ 20 }, lags.lags)
    assert.same({ 20 }, lags.transfers)
    assert.same({ 2 }, lags.end_spreads)
    assert.same({ 20, 0, 0 }, lags.waits)
    assert.same({ 3 }, lags.last)
    assert.same({ 2 }, lags.last_lowest)
  end)
end)
