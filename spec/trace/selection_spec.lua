--- Selections against loops in Lua over a random trace.
local trace = require "ett.trace"
local interval = require "ett.interval"

local function make(seed)
  local roll = require("random").integers(seed)
  local rows, text = {}, {}
  for i = 1, 400 do
    local host = roll(2) == 0
    local r = { name = "op" .. roll(6), cat = host and (roll(2) == 0 and "cpu_op" or "cuda_runtime") or "kernel",
      ts = roll(2000), dur = roll(80), pid = host and 900 or roll(2), tid = host and 900 + roll(2) or roll(3),
      correlation = roll(60), size = roll(3) > 0 and roll(5) * 64 or nil }
    rows[i] = r
    local form = '{"ph":"X","cat":"%s","name":"%s","ts":%d,"dur":%d,"pid":%d,"tid":%d,"args":{"correlation":%d,'
      .. '"share":%.1f,"note":"n%d"%s}}'
    text[i] = form:format(r.cat, r.name, r.ts, r.dur, r.pid, r.tid, r.correlation,
      i % 4 + 0.5, i % 3, r.size and (',"size":%d'):format(r.size) or "")
  end
  local path = os.tmpname()
  require("ett.base.folder").write(path,
    '{"distributedInfo":{"rank":4},"traceEvents":[' .. table.concat(text, ",") .. "]}")
  local t = assert(trace.open(path, { args = { "size", "share", "note" } }))
  os.remove(path)
  local least = math.huge
  for _, r in ipairs(rows) do least = math.min(least, r.ts) end
  for _, r in ipairs(rows) do
    r.ts, r.dur = (r.ts - least) * 1000, r.dur * 1000
    r.stop = r.ts + r.dur
    r.class = ({ kernel = "kernel", cpu_op = "cpu_op", cuda_runtime = "runtime" })[r.cat]
  end
  return t, rows
end

local function keep(rows, test)
  local out = {}
  for i, r in ipairs(rows) do if test(r, i) then out[#out + 1] = i end end
  return out
end

--- Positions of the rows of a selection in the file.
local function places(selection)
  local out = {}
  for _, row in ipairs((selection:columns { "row" })) do out[#out + 1] = row and row + 1 end
  return out
end

describe("selections", function()
  local t, rows
  setup(function() t, rows = make(7) end)
  teardown(function() t:close() end)

  it("hold the rows that pass the filter, in order", function()
    local checks = {
      { { class = "kernel" }, function(r) return r.class == "kernel" end },
      { { class = { "kernel", "runtime" }, pid = { 0, 900 } },
        function(r) return r.class ~= "cpu_op" and (r.pid == 0 or r.pid == 900) end },
      { { name = { "op1", "op4", "nothing" } }, function(r) return r.name == "op1" or r.name == "op4" end },
      { { category = "cpu_op", tid = 901 }, function(r) return r.cat == "cpu_op" and r.tid == 901 end },
      { { device = 1, stream = { 0, 2 } },
        function(r) return r.class == "kernel" and r.pid == 1 and r.tid ~= 1 end },
      { { rank = 4, min_dur = 40000 }, function(r) return r.dur >= 40000 end },
      { { rank = 3 }, function() return false end },
      { { window = { 500000, 700000 } }, function(r)
        return r.ts < 700000 and (r.dur > 0 and r.stop > 500000 or r.dur == 0 and r.ts >= 500000)
      end },
      { { starts_in = { 500000, 700000 } }, function(r) return r.ts >= 500000 and r.ts < 700000 end },
      { { has_arg = "size" }, function(r) return r.size ~= nil end },
      { { arg = { size = 128 }, class = "kernel" }, function(r) return r.size == 128 and r.class == "kernel" end },
      { { arg = { share = 1.5, note = "n2" } }, function(_, i) return i % 4 == 1 and i % 3 == 2 end },
    }
    for _, check in ipairs(checks) do
      local want = keep(rows, check[2])
      assert.same(want, places(t:events(check[1])))
      assert.same(want, places(t:events():where(check[1])))
    end
    assert.has_error(function() t:events { klass = "kernel" } end)
    assert.has_error(function() t:events { class = "kernels" } end)
  end)

  it("take no name set of another trace", function()
    local other <close> = make(7) -- equal numbers of strings, so that only the trace differs
    local set = other:name_set({ "op0" })
    assert.has_error(function() return t:events { names = set } end, "filter 'names' is a name set of another trace")
    assert.has_error(function() return set | t:name_set({ "op1" }) end)
  end)

  it("take name sets, with their algebra", function()
    local odd = t:name_set(function(name) return tonumber(name:match("%d")) % 2 == 1 end)
    local low = t:name_set({ "op0", "op1", "op2" })
    assert.same(keep(rows, function(r) return tonumber(r.name:match("%d")) % 2 == 1 end),
      places(t:events { names = odd }))
    assert.same(keep(rows, function(r) return r.name == "op3" or r.name == "op5" end),
      places(t:events { names = odd - low }))
    assert.same(keep(rows, function(r) return r.name == "op4" end), places(t:events { except_names = odd | low }))
    assert.is_true(odd:has "op1")
    assert.equal(3, #odd)
  end)

  it("combine, sort, add up and unite", function()
    local a, b = t:events { class = "kernel" }, t:events { window = { 0, 600000 } }
    local function both(r) return r.class == "kernel", r.ts < 600000 end
    assert.same(keep(rows, function(r) local x, y = both(r) return x or y end), places(a + b))
    assert.same(places(a + b), places(a:sort("dur") + b))
    assert.same(keep(rows, function(r) local x, y = both(r) return x and y end), places(a & b))
    assert.same(keep(rows, function(r) local x, y = both(r) return x and not y end), places(a - b))
    local starts = (a:sort("ts"):columns { "ts" })
    for i = 2, #starts do assert.is_true(starts[i - 1] <= starts[i]) end
    local total, list = 0, {}
    for _, i in ipairs(keep(rows, function(r) return r.class == "kernel" end)) do
      total = total + rows[i].dur
      list[#list + 1] = { rows[i].ts, rows[i].stop }
    end
    assert.equal(total, a:total())
    assert.is_true(interval.new(list) == a:intervals())
    local x, y = a:intervals(), b:intervals()
    assert.is_true((x & y) | (x - y) == x)
    assert.equal(x:measure() + y:measure(), (x | y):measure() + (x & y):measure())
    assert.is_true((x & y):measure() > 0)
    assert.same({ (x & y):measure(), (x & y):measure() }, { x:measure(y), y:measure(x) })
    local windows, froms, tos = {}, {}, {}
    for i = 1, 20 do
      windows[i] = { 50000 * i - 7000, 51000 * i }
      froms[i], tos[i] = windows[i][1], windows[i][2]
    end
    assert.same(x:measure_in(windows), x:measure_in(froms, tos))
    assert.equal(x:clip(froms[3], tos[3]):measure(), x:measure_in(froms, tos)[3])
    assert.has_error(function() x:measure_in(froms, { tos[1] }) end,
      "bad argument #2 to 'measure_in' (must be a list of integers, got nil at 2)")
  end)

  it("group and count as a loop does", function()
    local groups, order = {}, {}
    for i, r in ipairs(rows) do
      local key = r.class .. "/" .. r.name
      if not groups[key] then
        groups[key] = {}
        order[#order + 1] = key
      end
      table.insert(groups[key], i)
    end
    local got = t:events():group { "class", "name" }
    assert.equal(#order, #got)
    for _, g in ipairs(got) do assert.same(groups[g.class .. "/" .. g.name], places(g.events)) end
    for _, s in ipairs(t:events():stats { by = { "class", "name" }, percentiles = { 50, 95 } }) do
      local durations, sum = {}, 0
      for _, i in ipairs(groups[s.class .. "/" .. s.name]) do
        durations[#durations + 1] = rows[i].dur
        sum = sum + rows[i].dur
      end
      table.sort(durations)
      local n, squares = #durations, 0
      for _, d in ipairs(durations) do squares = squares + (d - sum / n) ^ 2 end
      assert.same({ n, sum, durations[1], durations[n], durations[math.ceil(0.5 * n)], durations[math.ceil(0.95 * n)] },
        { s.count, s.total, s.min, s.max, s.p50, s.p95 })
      assert.is_true(math.abs(s.std - math.sqrt(squares / n)) < 1e-6)
    end
    for _, bad in ipairs { 0 / 0, -1, 101, math.huge } do
      assert.error_matches(function() t:events():stats { percentiles = { bad } } end,
        "percentiles must be 0 to 100, got ")
    end
    for wanted, options in pairs { ["'percentiles' must be a table, got number"] = { percentiles = 5 },
      ["'percentiles' must hold numbers, got table"] = { percentiles = { {} } },
      ["'order' must be one of key, total, count, got 'size'"] = { order = "size" } } do
      assert.error_matches(function() t:events():stats(options) end, "field " .. wanted)
    end
    local sizes = {}
    for _, g in ipairs(t:events():stats { by = "arg:size" }) do sizes[g.size or "none"] = g.count end
    for value, count in pairs(sizes) do
      assert.equal(#keep(rows, function(r) return (r.size or "none") == value end), count)
    end
  end)

  it("gives the smallest value with that share at or below it", function()
    local hundred = t:events():slice(1, 100)
    local durations = (hundred:sort("dur"):columns { "dur" })
    local percents = { 1, 7, 14, 28, 29, 50, 55, 56, 57, 95, 99, 100 }
    local found = hundred:stats { percentiles = percents }[1]
    for _, p in ipairs(percents) do assert.equal(durations[p], found["p" .. p], p) end
  end)

  it("holds rows by their places, with holes", function()
    local all = t:events()
    local picked = all:pick { 3, false, 1, 3 }
    assert.same({ { 3, false, 1, 3 }, 4 }, { places(picked), #picked })
    assert.equal(rows[1].dur + 2 * rows[3].dur, picked:total())
    assert.equal(0, #all:pick {})
    for _, bad in ipairs { 0, 401, true, "x" } do
      assert.error_matches(function() all:pick { bad } end, "must hold places of rows, or false")
    end
  end)

  it("match by an arg whose numbers and texts are different values", function()
    local path, events = os.tmpname(), {}
    for i = 1, 40 do
      events[i] = ('{"ph":"X","cat":"%s","name":"n%d","ts":%d,"dur":1,"args":{"id":%s}}'):format(
        i > 20 and "kernel" or "cpu_op", i, i, i > 20 and i - 20 or ('"t%d"'):format(i))
    end
    require("ett.base.folder").write(path, '{"traceEvents":[' .. table.concat(events, ",") .. "]}")
    local mixed <close> = assert(trace.open(path, { args = { "id" } }))
    os.remove(path)
    local kernels, ops = mixed:events { class = "kernel" }, mixed:events { class = "cpu_op" }
    assert.equal(0, #kernels:having(ops, "arg:id"))
  end)

  it("groups integers and floats by their exact order, and adds durations beyond 64 bits up to their limit", function()
    local function opened(events)
      local path = os.tmpname()
      require("ett.base.folder").write(path, '{"traceEvents":[' .. table.concat(events, ",") .. "]}")
      local one = assert(trace.open(path, { args = { "size" }, profile_mode = "tpu" }))
      os.remove(path)
      return one
    end
    local texts = { "9007199254740992", "9007199254740993", "9007199254740992.0", "-1.5", "-1" }
    for first = 1, #texts do
      local given = {}
      for i = 1, #texts do
        given[i] = ('{"ph":"X","cat":"kernel","name":"a","ts":%d,"dur":2500000000000,"args":{"size":%s}}'):format(i,
          texts[(first + i) % #texts + 1])
      end
      local one <close> = opened(given)
      local sizes = {}
      for i, g in ipairs(one:events():group "arg:size") do sizes[i] = g.size end
      assert.same({ -1.5, -1 }, { sizes[1], sizes[2] })
      assert.equal(9007199254740993, sizes[5])
      assert.equal(math.maxinteger, one:events():total())
      local all = one:events():stats()[1]
      assert.equal(math.maxinteger, all.total)
      assert.equal(2.5e18, all.mean)
    end
  end)

  it("group by every column that get reads", function()
    for _, field in ipairs { "ts", "dur", "end", "row" } do
      for _, group in ipairs(t:events():group { field }) do
        for i = 1, #group.events do assert.equal(group[field], group.events:get(i, field)) end
      end
    end
  end)

  it("nest by track: the innermost enclosing row is the parent", function()
    for _, slack in ipairs { 0, 20000 } do
      local ordered, parents = t:events():nested(slack)
      local order = places(ordered)
      assert.equal(#rows, #order)
      for k, i in ipairs(order) do
        local best
        for j = 1, k - 1 do -- rows before it in the order may hold it
          local o, r = rows[order[j]], rows[i]
          local holds = o.tid == r.tid and o.pid == r.pid and o.stop > r.ts and o.stop + slack >= r.stop
          for b = j + 1, k - 1 do -- a row that left the stack cannot return
            local later = rows[order[b]]
            holds = holds and not (later.tid == o.tid and later.pid == o.pid
              and (o.stop <= later.ts or o.stop + slack < later.stop))
          end
          if holds then best = j end
        end
        assert.equal(best or 0, parents[k])
      end
    end
  end)

  it("unite the rows of each home, from the first start to the last end", function()
    local kernels, calls = t:events { class = "kernel" }, t:events { class = "runtime" }
    local matched = kernels:match(calls)
    local set, count = kernels:hulls(matched)
    local spans, list = {}, {}
    for k, home in ipairs(places(matched)) do
      local r = rows[places(kernels)[k]]
      if home then
        spans[home] = spans[home] or { r.ts, r.stop }
        spans[home] = { math.min(spans[home][1], r.ts), math.max(spans[home][2], r.stop) }
      end
    end
    for _, span in pairs(spans) do list[#list + 1] = span end
    assert.is_true(#list > 10)
    assert.equal(#list, count)
    assert.equal(interval.new(list), set)
  end)

  it("unite the rows of the ranges of each name in one pass, as name by name", function()
    local kernels, calls = t:events { class = "kernel" }, t:events { class = "runtime" }
    local matched, ops, names = kernels:match(calls), t:events { class = "cpu_op" }, 0
    local found = kernels:named_hulls(matched, ops)
    for _, group in ipairs(ops:group { "name" }) do
      local set, count = kernels:hulls(matched:enclosing(group.events))
      local own = found[group.name] or { interval.new {}, 0 }
      assert.same({ count, set:measure() }, { own[2], own[1]:measure() })
      assert.equal(set, own[1])
      names, found[group.name] = names + (count > 0 and 1 or 0), nil
    end
    assert.is_true(names > 1)
    assert.is_nil(next(found))
    assert.same({}, kernels:named_hulls(matched, t:events { class = "memset" }))
    assert.has_error(function() kernels:named_hulls(calls, ops) end)
  end)

  it("match by correlation; find enclosing and preceding rows", function()
    local kernels, calls = t:events { class = "kernel" }, t:events { class = "runtime" }
    local ops = t:events { class = "cpu_op" }
    local matched = places(kernels:match(calls))
    for k, i in ipairs(keep(rows, function(r) return r.class == "kernel" end)) do
      local want = keep(rows, function(r) return r.class == "runtime" and r.correlation == rows[i].correlation end)[1]
      assert.equal(want or false, matched[k])
    end
    local outer, before = places(calls:enclosing(ops)), places(calls:preceding(ops))
    for k, i in ipairs(keep(rows, function(r) return r.class == "runtime" end)) do
      local best, last
      for j, o in ipairs(rows) do
        if o.class == "cpu_op" and o.tid == rows[i].tid and o.ts <= rows[i].ts then
          local function later(p)
            return not p or o.ts > rows[p].ts or (o.ts == rows[p].ts and o.stop < rows[p].stop)
          end
          if later(last) then last = j end
          if o.stop >= rows[i].stop and later(best) then best = j end
        end
      end
      -- of several that start and end together any one will do
      local function same(a, b)
        if not a or not b then return not a and not b end
        return rows[a].ts == rows[b].ts and rows[a].stop == rows[b].stop
      end
      assert.is_true(same(best, outer[k]))
      assert.is_true(same(last, before[k]))
    end
    assert.equal(#kernels, #kernels:match(calls))
    assert.equal(#keep(matched, function(x) return x end), #kernels:match(calls):present())
    local having = {}
    for k, place in ipairs(places(kernels)) do having[#having + 1] = matched[k] and place or nil end
    assert.same(having, places(kernels:having(calls)))
  end)
end)

describe("laws of a trace", function()
  local function write(list, rank)
    return require("ett.base.folder").write(os.tmpname() .. ".json",
      ('{"distributedInfo":{"rank":%d},"traceEvents":['):format(rank or 0) .. table.concat(list, ",") .. "]}")
  end

  local function busy(list)
    local path = write(list)
    local t <close> = assert(trace.open(path))
    os.remove(path)
    local device = t:events { class = "kernel" }
    return device:intervals():measure(), device:total(), #device
  end

  local function events(shift, order, thread)
    local list = {}
    for i = 1, 200 do
      local k = order and (i * 77) % 200 + 1 or i
      list[i] = ('{"ph":"X","cat":"kernel","name":"k%d","ts":%d,"dur":%d,"pid":0,"tid":%s}'):format(k % 5,
        shift + k * 37 % 1000, 10 + k % 30, thread and ('"%s%d"'):format(thread, k % 3) or tostring(k % 3))
    end
    return list
  end

  it("keep united time, sums and counts when it is shifted, shuffled, renamed", function()
    local want = { busy(events(1000)) }
    assert.same(want, { busy(events(1661203462598738)) })
    assert.same(want, { busy(events(1000, true)) })
    assert.same(want, { busy(events(1000, false, "thread")) })
  end)
end)
