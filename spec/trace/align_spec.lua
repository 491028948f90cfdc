local align = require "ett.trace.align"
local sequence = require "ett.sequence"

--- A sequence of { { start, end }, … }, all with one type of kernel.
local function of_times(times, type)
  local starts, ends = {}, {}
  for i, each in ipairs(times) do starts[i], ends[i] = each[1], each[2] end
  return sequence.new(starts, ends):typed { type or 1 }
end

--- Collectives that end every 100 ticks; starts lag by `lag`, all times by `shift`.
local function recording(first, last, lag, type, shift)
  local list = {}
  for i = first, last do
    list[#list + 1] = { 100 * i + lag + (i * i) % 7 + (shift or 0), 100 * i + 90 + (i * i * 37) % 53 + (shift or 0) }
  end
  return of_times(list, type)
end

--- Start and end of a match on a rank in the first rank's time.
local function times_at(result, rank, i)
  local start, stop = result.matches:at(rank, i)
  return start - (result.clocks[rank] or 0), stop - (result.clocks[rank] or 0)
end

describe("ett.trace.align", function()
  it("finds the offset of a rank whose recording starts late", function()
    for missing = 0, 9 do
      local result = assert(align.match({ recording(1, 40, 0), recording(1 + missing, 40, 5) }, { tolerance = 10 }))
      assert.equal(-missing, result.offsets[2])
      assert.equal(40 - missing, #result.matches)
      for i = 1, #result.matches do
        assert.equal(select(2, times_at(result, 1, i)), select(2, times_at(result, 2, i)))
      end
    end
  end)

  it("finds the same offset as a search over all offsets", function()
    local median = require "ett.base.median"
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
    local function sample(count)
      local ends, types, at = {}, {}, random(50)
      for i = 1, count do
        at = at + random(40)
        ends[i], types[i] = at, random(30) == 1 and 2 or 1
      end
      return { ends = ends, types = types, sequence = sequence.new(ends, ends, types):typed { 1, 2 } }
    end
    for try = 1, 60 do
      local a, b, by_spread = sample(random(24)), sample(random(24)), try % 2 == 0
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
      local found = a.sequence:align(b.sequence, by_spread)
      assert.same(best and { best.offset, best.median, second or "none", by_spread and best.clock or "none" },
        found and { found.offset, found.median, found.second or "none", found.clock or "none" })
    end
    assert.has_error(function() sequence.new({ 1 }, {}) end)
    assert.has_error(function() sequence.new({ 1 }, { 2 }, { 0 }) end)
  end)

  it("finds a rank whose recording starts early", function()
    local result = assert(align.match({ recording(4, 40, 0), recording(1, 38, 5) }, { tolerance = 10 }))
    assert.equal(3, result.offsets[2])
    assert.equal(35, #result.matches)
  end)

  it("refuses when ends never agree, unless forced", function()
    local far = {}
    for i, _, start, stop in recording(1, 20, 0):iter() do far[i] = { start, stop + 5000 + (i * 7919) % 4000 } end
    far = of_times(far)
    local result, reason, tried = align.match({ recording(1, 20, 0), far }, { tolerance = 50 })
    assert.is_nil(result)
    assert.equal("ends", reason)
    assert.is_true(tried.medians[2] > 50)
    assert.is_table(align.match({ recording(1, 20, 0), far }, { tolerance = 50, mode = "force" }))
  end)

  it("subtracts a constant difference of clocks if asked to", function()
    local function late(first, shift) return recording(first, 40, 5, 1, shift) end
    for _, shift in ipairs{ -123457, 999983 } do
      assert.is_nil((align.match({ recording(1, 40, 0), late(4, shift) }, { tolerance = 10 })))
      local result = assert(align.match({ recording(1, 40, 0), late(4, shift) }, { tolerance = 10, mode = "clocks" }))
      assert.equal(-3, result.offsets[2])
      assert.equal(shift, result.clocks[2])
      assert.equal(37, #result.matches)
      for i = 1, #result.matches do
        local start, stop = times_at(result, 1, i)
        assert.same({ start + 5, stop }, { times_at(result, 2, i) })
      end
    end
    -- Ends that come like clockwork do not say by how many collectives a rank is late.
    local regular = {}
    for i = 1, 40 do regular[i] = { 100 * i, 100 * i + 90 } end
    regular = of_times(regular)
    local _, reason = align.match({ regular, regular }, { tolerance = 10, mode = "clocks" })
    assert.matches("too regular", reason)
  end)

  it("notices a constant difference of clocks within the tolerance", function()
    local function irregular(first, shift, last) -- 150 ticks and more between collectives
      local list, now = {}, 0
      for i = 1, last or 40 do
        now = now + 150 + (i * i * i * 7919) % 347
        if i >= first then
          local stop = now + 90 + shift + i % 3
          list[#list + 1] = { stop - 60, stop }
        end
      end
      return of_times(list)
    end
    for _, shift in ipairs{ -900, 600 } do -- more than the time between collectives
      local result = assert(align.match({ irregular(1, 0), irregular(4, shift) }, { tolerance = 1000 }))
      assert.equal(-3, result.offsets[2])
      assert.near(shift, result.clocks[2], 2)
      assert.equal(#result.matches, #result.matches:transfers()[1])
    end
    local small = assert(align.match({ irregular(1, 0), irregular(1, 35) }, { tolerance = 1000 }))
    assert.is_nil(small.clocks[2])
    assert.near(35, small.suspected[2], 2)
    for last, shift in pairs { [40] = 0, [7] = 35 } do -- no difference; too few collectives to show one
      local none = assert(align.match({ irregular(1, 0), irregular(1, shift, last) }, { tolerance = 1000 }))
      assert.is_nil(none.suspected[2])
    end
  end)

  it("refuses offsets that no sequence has", function()
    local a = recording(1, 9, 0)
    for _, offset in ipairs { math.mininteger, math.maxinteger, 1 << 40 } do
      assert.error_matches(function() a:align(a, false, offset) end, "must hold offsets of items")
    end
    assert.equal(0, a:align(a, false, 0).median)
  end)

  it("refuses different kernels", function()
    local result, reason = align.match({ recording(1, 9, 0), recording(1, 9, 0, 2) }, { tolerance = 50 })
    assert.is_nil(result)
    assert.matches("different kernels", reason)
  end)
end)
