-- ett.sequence against the same sums done one by one.
local interval = require "ett.interval"
local sequence = require "ett.sequence"

local sorts = 4

--- Random collectives of a rank in order of start; some last 0 ticks, some overlap.
local function random_list(count)
  local list, now = {}, math.random(100)
  for i = 1, count do
    now = now + math.random(0, 30)
    list[i] = { start = now, stop = now + math.random(0, 60), sort = i <= sorts and i or math.random(sorts) }
  end
  return list
end

local function columns_of(list)
  local starts, ends, numbers = {}, {}, {}
  for i, each in ipairs(list) do starts[i], ends[i], numbers[i] = each.start, each.stop, each.sort end
  return sequence.new(starts, ends, numbers)
end

local function intervals_of(list)
  local out = {}
  for i, each in ipairs(list) do out[i] = { each.start, each.stop } end
  return interval.new(out)
end

local function kept(list, keep)
  local out = {}
  for _, each in ipairs(list) do if keep[each.sort] then out[#out + 1] = each end end
  return out
end

describe("ett.sequence", function()
  before_each(function() math.randomseed(3) end)

  it("selects, sums and splits by sort", function()
    for _ = 1, 8 do
      local list = random_list(math.random(sorts, 40))
      local s, keep = columns_of(list), { true, false, true, false }
      local mine, ticks, longer, counts = kept(list, keep), 0, 0, { 0, 0, 0, 0 }
      for _, each in ipairs(mine) do
        ticks = ticks + each.stop - each.start
        longer = longer + (each.stop > each.start and 1 or 0)
      end
      for _, each in ipairs(list) do counts[each.sort] = counts[each.sort] + 1 end
      assert.equal(intervals_of(mine), s:intervals(keep))
      assert.same({ ticks + 0.0, #mine }, { s:sum(keep) })
      assert.same({ ticks + 0.0, longer }, { s:sum(keep, true) })
      local n, positive, whole, own = s:totals()
      assert.same(counts, n)
      assert.equal(longer, positive[1] + positive[3])
      assert.equal(ticks, own[1] + own[3])
      assert.equal(ticks, whole[1] + whole[3])
      local parts = s:split({ 2, false, 2, 1 }, 2)
      assert.equal(#mine, #parts[2])
      for i, each in ipairs(mine) do assert.same({ each.start, each.stop, each.sort }, { parts[2]:at(i) }) end
      for _, each in ipairs(s:durations()[4]) do ticks = ticks + each end
      assert.equal(ticks, s:sum { true, false, true, true })
    end
    assert.has_error(function() columns_of(random_list(4)):split({ 3 }, 2) end)
    assert.has_error(function() columns_of(random_list(4)):at(5) end)
  end)

  it("gives the spread of groups over several sequences", function()
    local lists, parts, times = { random_list(90), random_list(70) }, {}, { {}, {} }
    local homes = { { 1, 2, false, 1 }, { 2, 2, 1, 1 } }
    for k, list in ipairs(lists) do
      parts[k] = { columns_of(list), homes[k] }
      for _, each in ipairs(list) do
        local home = homes[k][each.sort]
        if home then table.insert(times[home], each.stop - each.start) end
      end
    end
    for g, found in ipairs(sequence.spreads(parts, 2)) do
      local sorted, total = times[g], 0
      table.sort(sorted)
      for _, ticks in ipairs(sorted) do total = total + ticks end
      assert.same({ count = #sorted, total = total + 0.0, min = sorted[1] + 0.0, max = sorted[#sorted] + 0.0,
        p50 = sorted[math.floor(0.5 * #sorted) + 1] + 0.0, p95 = sorted[math.floor(0.95 * #sorted) + 1] + 0.0 }, found)
    end
    assert.same({ { count = 0 } }, sequence.spreads({}, 1))
  end)

  it("finds where the kind changes", function()
    local s = sequence.new({ 10, 20, 30, 40 }, { 15, 28, 35, 45 }, { 1, 2, 3, 1 })
    local from, to, gaps = s:changes { 1, 1, 2 }
    assert.same({ { 1, 2 }, { 2, 1 }, { 2, 5 } }, { from, to, gaps })
  end)

  it("takes own ticks beside the times", function()
    local s = sequence.new({ 10, 20 }, { 15, 28 }, { 1, 2 }, { 4.5, 3 })
    assert.same({ { 5, 8 }, { 4.5, 3.0 } }, { select(3, s:totals()) })
    assert.equal(7.5, (s:sum()))
    assert.error_matches(function() sequence.new({ 10 }, { 15 }, nil, {}) end, "'own%[1%]' must be a number, got nil")
  end)

  --- The same collectives on three ranks; rank r's recording lacks the first missing[r] and its clock is ahead.
  local function ranks(missing, clocks)
    local lists, whole = {}, {}
    local base = random_list(30)
    for r = 1, 3 do
      lists[r] = {}
      for i, each in ipairs(base) do
        local one = { start = each.start + math.random(0, 9), stop = each.stop + 9 + math.random(0, 9),
          sort = (each.sort + r) % sorts + 1 }
        whole[i] = whole[i] or {}
        whole[i][r] = one
        if i > missing[r] then
          table.insert(lists[r], { start = one.start + clocks[r], stop = one.stop + clocks[r], sort = one.sort })
        end
      end
      table.sort(lists[r], function(a, b) return a.start < b.start end)
    end
    return lists, whole
  end

  it("charges waiting to the rank that was last", function()
    for _, clocks in ipairs { { 0, 0, 0 }, { 0, 500, -70 } } do
      local missing = { 2, 0, 5 }
      local lists, columns = ranks(missing, clocks), {}
      for r, list in ipairs(lists) do columns[r] = columns_of(list) end
      local m = sequence.matches(columns, { 0, 2, -3 }, { false, clocks[2], clocks[3] })
      assert.equal(25, #m)
      local lags, lagged, waits, last, lowest = m:lags(), {}, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }
      local exposed, transfers, spread, matches = interval.new { { 50, 90 }, { 120, 300 }, { 620, 700 } }, 0, 0, {}
      local charged = {}
      for r = 1, 3 do charged[r] = { by_rank = { 0, 0, 0 }, waiting_of = {}, waiting = 0, transfer = 0 } end
      for i = 1, #m do
        local first_start, last_start, first_end, last_end, low, high = math.huge, -math.huge, math.huge, -math.huge
        local longest = 0
        for r = 1, 3 do
          local start, stop = m:at(r, i)
          assert.same({ lists[r][i + 5 - missing[r]].start, lists[r][i + 5 - missing[r]].stop }, { start, stop })
          longest, start, stop = math.max(longest, stop - start), start - clocks[r], stop - clocks[r]
          if start > last_start then low = r end
          if start >= last_start then high = r end
          first_start, last_start = math.min(first_start, start), math.max(last_start, start)
          first_end, last_end = math.min(first_end, stop), math.max(last_end, stop)
        end
        matches[i] = { longest = longest, start = first_start, transfer = first_end - last_start, late = low }
        lagged[i], spread, transfers = last_start - first_start, spread + last_end - first_end,
          transfers + first_end - last_start
        last[high], lowest[low] = last[high] + 1, lowest[low] + 1
        for r = 1, 3 do
          local start, stop, sort = m:at(r, i)
          local middle = math.max(start, math.min(stop, last_start + clocks[r]))
          local parts = exposed:measure_in { { start, middle }, { middle, stop } }
          local mine = charged[r]
          waits[r] = waits[r] + last_start - (start - clocks[r])
          mine.waiting, mine.transfer = mine.waiting + parts[1], mine.transfer + parts[2]
          mine.by_rank[low] = mine.by_rank[low] + parts[1]
          mine.waiting_of[sort] = (mine.waiting_of[sort] or 0) + parts[1]
          local starts, until_last = m:waits(r)
          assert.equal(start, starts[i])
          assert.equal(math.min(last_start, first_end) - (start - clocks[r]), until_last[i])
        end
      end
      assert.same({ lagged, spread, transfers, last, lowest, waits }, { lags.lags, lags.end_spread, lags.transfer,
        lags.last, lags.last_lowest, lags.waits })
      for r = 1, 3 do
        local found = m:charge(r, exposed)
        assert.same({ charged[r].waiting, charged[r].transfer, charged[r].by_rank },
          { found.waiting, found.transfer, found.by_rank })
        for sort, ticks in pairs(charged[r].waiting_of) do assert.equal(ticks, found.waiting_of[sort]) end
      end
      table.sort(matches, function(a, b)
        if a.longest ~= b.longest then return a.longest > b.longest end
        return a.start < b.start
      end)
      for i, found in ipairs(m:longest(3)) do
        assert.same({ matches[i].longest, matches[i].start, matches[i].transfer, matches[i].late },
          { found.longest, found.start, found.transfer, found.late })
      end
    end
    assert.equal(0, #sequence.matches({ columns_of(random_list(4)) }, { 9 }, {}))
  end)
end)
