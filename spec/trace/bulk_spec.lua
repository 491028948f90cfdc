-- ett.bulk against the same sums done one by one.
local bulk = require "ett.bulk"
local maker = require "trace_maker"
local stats = require "ett.trace.stats"
local generator = require("random").integers
local near = require "near"

local function recording(seed)
  local random, r = generator(seed), maker.new{ rank = 0 }
  for i = 1, 120 do
    local ts = 20 * i + random(300)
    local launch = random(4) > 0 and { ts = ts - random(200) + 3, dur = random(30) } or nil
    r:kernel("k" .. random(5), ts, random(60), { stream = random(3), launch = launch,
      args = random(3) > 0 and { ["blocks per SM"] = random(40) / 10 } or nil })
  end
  return r
end

describe("ett.bulk", function()
  for seed = 1, 6 do
    it("equals a loop over all rows, trace " .. seed, function()
      local t <close> = maker.trace({ recording(seed) }, { args = { "blocks per SM" } })
      local rows = t:events{ class = "kernel" }:sort("ts")
      local calls = rows:match(t:events{ class = "runtime" }, "correlation")
      local own = stats.columns(rows, { "ts", "dur", "end", "blocks per SM" })
      local call = stats.columns(calls, { "ts", "dur" })
      local delays, points, short, call_sum = {}, {}, 0, 0
      for i = 1, #rows do
        if call.ts[i] then
          delays[#delays + 1] = own.ts[i] - call.ts[i]
          points[#points + 1] = { call.ts[i], own["end"][i] }
          if own.dur[i] < call.dur[i] then short = short + 1 end
          call_sum = call_sum + call.dur[i]
        end
      end
      local sorted = stats.sorted(delays)
      local found = bulk.launches(rows, calls)
      near({ launched = #delays, short_rows = short, delay_sum = stats.sum(delays), call_sum = call_sum,
        delay_p50 = stats.percentile(sorted, 0.5), delay_p95 = stats.percentile(sorted, 0.95),
        delay_max = sorted[#sorted] }, found)
      -- The mean queue is the rows' waiting time over the whole time.
      local from, to, waiting, most = math.huge, -math.huge, 0, 0
      for _, p in ipairs(points) do
        local stop = math.max(p[1], p[2]) -- a row that ends before its call starts counts nowhere
        from, to, waiting = math.min(from, p[1]), math.max(to, stop), waiting + stop - p[1]
        local depth = 0
        for _, q in ipairs(points) do if q[1] <= p[1] and q[2] > p[1] then depth = depth + 1 end end
        most = math.max(most, depth)
      end
      near({ queue_mean = waiting / (to - from), queue_most = most }, found)
      -- Idle: of each gap, the first row that starts at its end.
      local gaps, causes = rows:intervals():gaps(), { host = 0, device = 0, unknown = 0 }
      for _, a, b in gaps:iter() do
        local start, launch
        for i = 1, #rows do
          if own.ts[i] >= b and own.ts[i] <= (start or own.ts[i]) then
            start = own.ts[i]
            if call.ts[i] then launch = math.min(launch or call.ts[i], call.ts[i]) end
          end
        end
        local cause = not launch and "unknown" or launch >= a and "host" or "device"
        causes[cause] = causes[cause] + b - a
      end
      assert.same({ causes.host, causes.device, causes.unknown }, { bulk.idle(rows, calls, gaps) })
      local cuts, covered = { from + 100000, to - 100000 }, 0
      for i = 1, #rows do
        for _, at in ipairs{ own.ts[i], own["end"][i] } do
          if at > cuts[1] and at < cuts[2] then cuts[#cuts + 1] = at end
        end
      end
      local low, high = cuts[1], cuts[2]
      table.sort(cuts)
      for k = 1, #cuts - 1 do
        local sum = 0
        for i = 1, #rows do
          local runs = own.ts[i] <= cuts[k] and cuts[k] < own["end"][i]
          sum = sum + (runs and math.min(1, own["blocks per SM"][i] or 0) or 0)
        end
        covered = covered + math.min(1, sum) * (cuts[k + 1] - cuts[k])
      end
      assert.near(covered, bulk.covered(rows, "blocks per SM", 1, low, high), 1e-3)
      for _, order in ipairs{ "ts", "dur" } do
        local weighted, ticks, picked = 0, 0, rows:sort(order)
        local columns = stats.columns(picked, { "dur", "blocks per SM" })
        for i = 1, #picked do
          local value = columns["blocks per SM"][i]
          if value then
            weighted, ticks = weighted + math.min(1, value) * columns.dur[i], ticks + columns.dur[i]
          end
        end
        local w, d = bulk.weighted(picked, "blocks per SM", 1)
        assert.near(weighted, w, 1e-6)
        assert.equal(ticks, d)
      end
    end)
  end

  it("gives zeros for empty selections", function()
    maker.with({ recording(1) }, function(folder)
      local t <close> = assert(require("ett.trace").open(folder, {}))
      local none = t:events{ name = "no such name" }
      assert.equal(0, bulk.launches(none, none).launched)
      assert.is_nil(bulk.launches(none, none).queue_mean)
      assert.has_error(function() bulk.launches(none, t:events{}) end)
      assert.has_error(function() bulk.weighted(none, "blocks per SM") end)
    end)
  end)
end)

describe("many names and many rows", function()
  local comm = require "ett.trace.comm"

  local function with_names(names, fn)
    local r = maker.new{ rank = 0, world = 1 }
    for i, name in ipairs(names) do
      r:kernel(name, 10 * i, 1 + i % 7, { args = { dtype = i % 3 > 0 and "Float" or nil, ["Group size"] = i % 2 } })
    end
    local t <close> = maker.trace({ r }, { args = { "dtype", "Group size" } })
    fn(t)
  end

  it("the words of the libraries leave no name of communication out", function()
    local names = { "gemm", "softmax_kernel", "x", "", "MCCL", "NcClKernel", "a_hCCl", "hcom_allReduce_", "rcclGather",
      "void mscclpp::executionKernel<int>", "cross_device_reduce_2stage", "cross_device_reduce", "moe_all_to_all",
      "moe_alltoall", "moe_all__to_all", "deep_ep::combine", "internode_ll::dispatch<1>", "notify_dispatch" }
    assert.is_table(comm.words())
    with_names(names, function(t)
      local function is_communication(name) return comm.library_of(name) ~= nil end
      assert.same(t:name_set(is_communication, "kernel"):list(),
        t:name_set(is_communication, "kernel", comm.words()):list())
      local tried = {}
      t:name_set(function(name) tried[#tried + 1] = name end, "kernel", comm.words())
      assert.is_true(#tried >= 12 and #tried < #names)
    end)
  end)

  it("a library whose pattern has no plain part turns the words off", function()
    local list = comm.libraries()
    comm.add{ name = "odd", patterns = { "^[ab]+%d" } }
    local words = comm.words()
    table.remove(list)
    assert.is_nil(words)
    assert.is_table(comm.words())
  end)

  it("numbered, top and sorted agree with loops in Lua", function()
    local names = {}
    for i = 1, 200 do names[i] = "k" .. (i * i) % 11 end
    with_names(names, function(t)
      local rows = t:events{ class = "kernel" }
      local numbers, firsts = rows:numbered{ "name", "arg:dtype", "arg:Group size" }
      local seen, count = {}, 0
      for i = 1, #rows do
        local key = ("%s|%s|%s"):format(rows:get(i, "name"), rows:get(i, "dtype"), rows:get(i, "Group size"))
        if not seen[key] then
          count = count + 1
          seen[key] = count
          assert.equal(i, firsts[count])
        end
        assert.equal(seen[key], numbers[i])
      end
      assert.equal(count, #firsts)
      local all = rows:stats{ by = { "name" }, order = "total" }
      local three, groups = rows:stats{ by = { "name" }, order = "total", top = 3 }
      assert.equal(#all, groups)
      assert.same({ all[1], all[2], all[3] }, three)
    end)
    local sorted = require("ett.bulk").sorted
    for _, list in ipairs{ { 3, -1, 2, -1, 0 }, { 2.5, -1e300, -0.0, 1e-300, math.huge, -math.huge }, {} } do
      local mine = table.move(list, 1, #list, 1, {})
      table.sort(mine)
      assert.same(mine, sorted(list))
    end
    assert.is_nil(sorted{ 1, 2.5 })
    assert.is_nil(sorted{ 1, "x" })
    assert.is_nil(sorted{ 0 / 0 })
  end)
end)
