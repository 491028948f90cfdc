-- Replays of recorded runs: without a change equal to the recording; with a change equal to a run with that change.
local maker = require "trace_maker"
local replay = require "ett.trace.replay"
local trace_gpt = require "trace_gpt"

local args = require("ett.trace.metrics").load("critical_path").args
local raised = require "raised"

local function view_of(recordings) return maker.view(recordings, { args = args }) end

local function span_of(recordings)
  local view <close> = view_of(recordings)
  return (select(2, replay.recorded(replay.graph(view))))
end

--- Span of a replay with changes.
local function replayed(recordings, changes, options)
  local view <close> = view_of(recordings)
  local g = replay.graph(view)
  for _, text in ipairs(changes) do replay.change(g, view, text, options or {}) end
  return replay.run(g).span_ticks
end

--- A model whose kernels take `compute` microseconds, attention four times and sums twice as many.
local function model(given)
  return trace_gpt.new { hidden = 64, heads = 4, layers = 3, seq = 32, batch = 2, vocab = 512, tp = given.tp or 1,
    host_microseconds = given.host, times = function(name)
      if name == "all_reduce" then return 2 * given.compute * (given.transfer or 1) end
      if name == "flash_attention" then return 4 * given.compute * (given.attention or 1) end
      if name:find "^linear" or name == "lm_head" then return given.compute * (given.gemm or 1) end
      return given.compute
    end }
end

describe("a replay", function()
  it("without a change equals the recorded run, event by event", function()
    math.randomseed(3)
    for _ = 1, 8 do
      local gpt = model { tp = 1 << math.random(0, 2), host = math.random(6, 30), compute = math.random(3, 40) }
      local view <close> = view_of(gpt:recordings {
        late = function() return math.random() < 0.2 and math.random(1, 60) or 0 end })
      local g = replay.graph(view)
      local run = replay.run(g)
      assert.equal(0, run.left_out)
      for n, time in ipairs(run.time) do assert.equal(g.time[n], time) end
    end
  end)

  it("accepts ranks whose clocks differ by years", function()
    local recordings = {}
    for rank = 0, 1 do
      local r = maker.new { rank = rank, world = 2 }
      local from = 1.7e15 * rank
      for i = 1, 3 do r:kernel("gemm", from + 100 * i, 50, { launch = { ts = from + 90 * i, dur = 5 } }) end
      recordings[rank + 1] = r
    end
    local view <close> = view_of(recordings)
    local g = replay.graph(view)
    assert.equal(250000, select(2, replay.recorded(g)))
    assert.equal(250000, replay.run(g).span_ticks)
  end)

  it("with faster or slower kernels equals the run with such kernels, on the device and on the host", function()
    math.randomseed(1)
    local cases, moved = { { "attention*0.5", "attention", 0.5 }, { "attention*3", "attention", 3 },
      { "gemm*2", "gemm", 2 }, { "aten::linear*0.5", "gemm", 0.5 } }, 0
    for i = 1, 240 do
      local case, given = cases[i % 4 + 1], { tp = 1 << math.random(0, 1), host = math.random(6, 30),
        compute = math.random(3, 40) }
      local words = ("%s tp=%d host=%d compute=%d"):format(case[1], given.tp, given.host, given.compute)
      local before = model(given):recordings()
      given[case[2]] = case[3]
      local wanted = span_of(model(given):recordings())
      assert.near(wanted, replayed(before, { case[1] }), 0.005 * wanted, words)
      moved = moved + (math.abs(span_of(before) / wanted - 1) > 0.005 and 1 or 0)
    end
    assert.is_true(moved > 120, moved)
  end)

  --- Six kernels on stream 7. After each, a reduction on stream 20 waits for it. The second kernel starts just when the
  --- first reduction ends. The third reduction takes `third` us.
  local function reductions(third)
    local r, times = maker.new {}, { 52, 10, third, 10, 10, 10 }
    for i, time in ipairs(times) do
      local at = 100 * (i - 1)
      r:kernel("gemm", at + (i == 2 and 7 or 5), 50 - (i == 2 and 2 or 0), { launch = { ts = at, dur = 4 } })
      r:kernel("reduction", at + 55, time, { stream = 20, launch = { ts = at + 10, dur = 4 } })
    end
    return { r }
  end

  it("has kernels wait for another stream as recorded once, unless two such rows ran at the same time", function()
    -- Each reduction takes 20 times as long. The first ends at 55 + 1040; the second kernel, of 48 us, waited for it.
    assert.near(1000 * (1090 + 48 + 200 + 4 * (50 + 200)), replayed(reductions(10), { "reduction*20" }), 1)
    assert.near(1000 * (1090 + 48 + 200 + 2000 + 3 * 200), replayed(reductions(100), { "reduction*20" }), 1)
  end)

  it("with more bandwidth has shorter transfers, but waits as long for late ranks", function()
    local given = { tp = 2, host = 8, compute = 20 }
    local function late(rank, name) return rank == 1 and name == "linear_up" and 35 or 0 end
    local before = model(given):recordings { late = late }
    given.transfer = 0.25
    local wanted = span_of(model(given):recordings { late = late })
    assert.near(wanted, replayed(before, { "link*4" }), 0.01 * wanted)
    assert.near(wanted, replayed(before, { "link.intra*4" }), 0.01 * wanted)
    assert.has_error(function() replayed(before, { "link.inter*4" }) end)
    assert.near(wanted, replayed(before, { "tp=2->4" }, { ratio = function() return 0.25 end }), 0.01 * wanted)
  end)

  --- Replays a run without the lateness of rank 2, whose GELU is late by `late` us in these passes: spans of ranks.
  local function punctual(passes, late)
    local given = { tp = 4, host = 8, compute = 20 }
    local wanted = span_of(model(given):recordings())
    local before = model(given):recordings { late = function(rank, name, _, pass)
      return rank == 2 and name == "gelu" and passes[pass] and late or 0
    end }
    assert.is_true(span_of(before) > 1.1 * wanted, span_of(before) / wanted)
    local view <close> = view_of(before)
    local g = replay.graph(view)
    replay.change(g, view, "rank 2 not late", {})
    return wanted, replay.run(g).spans
  end

  it("without lateness of a rank is close to the run without it", function()
    -- The late rank's host still launches its last kernels late: the backward pass has no sums.
    local wanted, spans = punctual({ forward = true, backward = true }, 300)
    for _, rank in ipairs { 0, 1, 3 } do assert.near(wanted, spans[tostring(rank)], 0.02 * wanted, rank) end
    -- The part of each sleep that the device's queue hid is no lateness, and stays.
    wanted, spans = punctual({ forward = true }, 500)
    for rank = 0, 3 do assert.near(wanted, spans[tostring(rank)], 0.035 * wanted, rank) end
  end)

  it("without lateness lacks the late host's sleep: time before the collectives of two groups is cut once", function()
    local recordings = {}
    for rank = 0, 1 do
      local r, now = maker.new { rank = rank, world = 2 }, 0
      local function sum(group, stream, launched, to)
        r:all_reduce(group, launched + 5, to, { stream = stream, launch = { ts = launched, dur = 4 } })
      end
      for step = 0, 4 do
        local last = now + 10 + (step > 0 and 1000 or 0) -- the launch on the late rank, 1
        local host = rank == 1 and last or now + 10
        sum("tp", 7, host, last + 55)
        sum("dp", 9, host + 10, last + 106)
        r:host("cuda_runtime", "cudaDeviceSynchronize", host + 20, last + 110 - host - 20)
        r:kernel("norm", last + 120, 30, { launch = { ts = last + 115, dur = 4 } })
        r:host("cuda_runtime", "cudaDeviceSynchronize", last + 120, 35)
        now = last + 155
      end
      recordings[rank + 1] = r
    end
    local span = span_of(recordings)
    assert.near(span - 4 * 1000000, replayed(recordings, { "rank 1 not late" }), 20000)
    local both = replayed(recordings, { "rank 1 not late", "host*0.5" })
    assert.near(both, replayed(recordings, { "host*0.5", "rank 1 not late" }), 20000) -- the lateness of the changed run
    assert.has_error(function() replayed(recordings, { "rank 0 not late" }) end)
    local view <close> = view_of(recordings)
    local g = replay.graph(view)
    replay.change(g, view, "rank 1 not late", {})
    for n, delay in ipairs(g.delay) do assert.is_true(delay >= 0, g.name[n]) end
  end)

  --- Five steps: a kernel of 1 ms, and a call that waits for it. `watched`: another thread queries an event meanwhile.
  local function waiting(watched, second)
    local r = maker.new {}
    for i = 0, 4 do
      local at = 1020 * i
      r:kernel("gemm", at + 10, 1000, { launch = { ts = at, dur = 4 } })
      r:host("cuda_runtime", "cudaDeviceSynchronize", at + 5, 1008)
      if watched then r:host("cuda_runtime", "cudaEventQuery", at + 500, 2, { tid = 9 }) end
    end
    if second then -- another thread launches after the last wait of the first
      r:kernel("norm", 5120, 100, { launch = { ts = 5110, dur = 4, tid = 2 } })
    end
    return { r }
  end

  it("keeps the threads of a host apart: a watchdog's calls hold up no other thread", function()
    local function halved(...) return replayed(waiting(...), { "gemm*0.5" }) / span_of(waiting(...)) end
    assert.near(0.508, halved(false), 0.001)
    assert.equal(halved(false), halved(true))
    local view <close> = view_of(waiting(true))
    local path = replay.critical_path(replay.graph(view))
    assert.equal("kernel: gemm", path.parts[1].name)
  end)

  it("has a thread that launches kernels follow the thread that woke it", function()
    local before = waiting(false, true)
    assert.near(span_of(before) - 5 * 500000, replayed(before, { "gemm*0.5" }), 1000)
  end)

  it("ends a call after the calls inside it, whichever of the two waits", function()
    for _, names in ipairs { { "cudaDeviceSynchronize", "cuCtxGetCurrent" }, { "read", "cudaDeviceSynchronize" } } do
      local r = maker.new {}
      for i = 0, 4 do
        local at = 1020 * i
        r:kernel("gemm", at + 10, 1000, { launch = { ts = at, dur = 4 } })
        r:host("cuda_runtime", names[1], at + 5, 1010)
        r:host("cuda_runtime", names[2], at + 6, names[2] == "cuCtxGetCurrent" and 1 or 1007)
      end
      assert.near(0.508, replayed({ r }, { "gemm*0.5" }) / span_of { r }, 0.001, names[1])
    end
  end)

  it("recognises the calls that wait, also with CUPTI's versions in their names", function()
    local function halved(name, busy)
      local r = maker.new {}
      for i = 0, 4 do
        local at = 1020 * i
        r:kernel("gemm", at + 10, 1000, { launch = { ts = at, dur = 4 } })
        r:host("cuda_runtime", name, at + 5, 1008)
      end
      if busy then r:kernel("other", 9, 6000, { stream = 8, launch = { ts = -5, dur = 4 } }) end
      r:kernel("last", 7000, 1, { launch = { ts = 6990, dur = 4 } })
      return span_of { r } - replayed({ r }, { "gemm*0.5" })
    end
    for _, name in ipairs { "cudaStreamSynchronize_v3020", "cudaMemcpy_v3020", "cudaMemcpy_ptds_v7000", "hipMemcpyDtoH",
      "cuMemcpyDtoH_v2", "cudaMemcpy2D_v3020", "synchronizeStream", "cudaFree", "cudaFree_v3020", "hipFree" } do
      assert.near(2500000, halved(name), 1000, name)
    end
    for _, name in ipairs { "cudaMemcpyAsync_v3020", "cudaGetLastError", "cudaFreeAsync_v11020" } do
      assert.equal(0, halved(name), name)
    end
    assert.equal(0, halved("cudaFree", true)) -- a kernel still ran: it did not wait
  end)

  it("ends a copy's call with the copy, also if its last part was staged and the call recorded twice", function()
    local r = maker.new {}
    for i = 0, 4 do
      local at, link = 1020 * i, { correlation = 100 + i }
      r:host("cuda_runtime", "cudaMemcpy", at, 985, { args = link })
      r:host("cuda_runtime", "cudaMemcpy_v3020", at + 1, 983, { args = link })
      r:kernel("Memcpy HtoD", at + 10, 1000, { cat = "gpu_memcpy", args = link })
    end
    assert.near(span_of { r } - 2500000, replayed({ r }, { "Memcpy*0.5" }), 20000)
  end)

  it("with a faster host equals the run of that host", function()
    local given = { host = 40, compute = 5 }
    local before = model(given):recordings()
    given.host = 22 -- a call takes 2 or more of the 40; between calls are about 38
    local wanted = span_of(model(given):recordings())
    assert.near(wanted, replayed(before, { "host*0.5" }), 0.06 * wanted)
  end)

  it("accepts device clocks that are behind the clock of the host", function()
    local function halved(behind, change, wrong)
      local r = maker.new {}
      for i = 0, 9 do
        r:kernel("gemm", 1000 * i + 8 - behind, 50, { launch = { ts = 1000 * i, dur = 5 } })
        r:host("cuda_runtime", "cudaDeviceSynchronize", 1000 * i + 6, 55)
      end
      if wrong then r:kernel("gemm", 3000, 50, { stream = 8, launch = { ts = 9500, dur = 5 } }) end
      return replayed({ r }, { change }) / span_of { r }
    end
    assert.near(0.533, halved(0, "host*0.5"), 0.001)
    assert.near(halved(0, "host*0.5"), halved(80, "host*0.5"), 0.001)
    assert.near(halved(0, "gemm*0.5"), halved(80, "gemm*0.5"), 0.001)
    assert.near(halved(0, "host*0.5"), halved(0, "host*0.5", true), 0.001) -- a row 6.5 ms before "its" call
  end)

  it("changes the collectives of a single rank's trace, which no other rank matches", function()
    local function trace(ranks)
      local r = maker.new { rank = 0, world = 64 }
      r:kernel("gemm", 0, 500, { launch = { ts = -20, dur = 5 } })
      r:all_reduce("dp", 500, 900, { stream = 9, launch = { ts = -10, dur = 5 }, args = {
        ["In msg nelems"] = 4000000, ["Group size"] = 8, ["Process Group Ranks"] = ranks } })
      return { r }
    end
    local across, inside = trace "[0, 8, 16, 24, 32, 40, 48, 56]", trace "[0, 1, 2, 3, 4, 5, 6, 7]"
    for text, list in pairs { ["link*2"] = across, ["link.inter*2"] = across, ["link.intra*2"] = inside,
      ["all_reduce*0.5"] = across, ["ncclDevKernel*0.5"] = across, ["dp=8->16"] = across } do
      assert.equal(700000, replayed(list, { text }, { ratio = function() return 0.5 end }), text)
    end
    for text, list in pairs { ["link.inter*2"] = inside, ["link.intra*2"] = across, ["all_gather*2"] = across,
      ["dp=16->8"] = across } do
      assert.matches("changes nothing", raised(replayed, list, { text }, { ratio = function() return 0.5 end }), text)
    end
  end)

  it("that changes nothing names the longest parts of the critical path", function()
    local what_if = require "ett.loop.what_if"
    local r = maker.new { rank = 0, world = 8 }
    r:kernel("gemm", 0, 900, { launch = { ts = -20, dur = 5 } })
    r:kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 300, { stream = 9, launch = { ts = -10, dur = 5 } })
    r:kernel("norm", 900, 100, { launch = { ts = -5, dur = 4 } })
    local view <close> = view_of({ r })
    local result = what_if.run(view, { "link*2" })
    assert.equal(1, result.changes[1].ratio)
    assert.equal("kernel: gemm", result.critical_path[1].name)
    local text = table.concat(what_if.lines(result), "\n")
    assert.matches("longest parts:\n[^\n]*%d %%  kernel: gemm", text)
    text = table.concat(what_if.lines(what_if.run(view, { "gemm*0.5" })), "\n")
    assert.is_nil(text:find("critical path", 1, true))
  end)

  it("refuses missing and unreadable files", function()
    local before = model({ compute = 10 }):recordings()
    for text, words in pairs { ["quux"] = "cannot read", ["link.no*2"] = "unknown", ["gemm*0"] = "above 0",
      ["nothing_like_it*2"] = "changes nothing in this trace; names that it knows: .*'gemm'",
      ["rank 7 not late"] = "changes nothing in this trace; its ranks are 0$", ["dp=8->64"] = "needs a cluster",
      ["dp=8->46116860184273879048601842738790427387904"] = "must be 1 to 16777216" } do
      assert.matches(words, raised(replayed, before, { text }), text)
    end
    local device = maker.new { rank = 0 }
    device:kernel("gemm", 100, 50)
    for text, words in pairs { ["host*2"] = "no host calls were recorded", ["rank 0 host*2"] = "calls of this rank" } do
      assert.matches(words, raised(replayed, { device }, { text }), text)
    end
  end)
end)

describe("the critical path", function()
  it("of a recorded run is that of its replay, and needs no order of events", function()
    math.randomseed(5)
    local quick = 0
    for _ = 1, 8 do
      local gpt = model { tp = 1 << math.random(0, 2), host = math.random(6, 30), compute = math.random(3, 40) }
      local view <close> = view_of(gpt:recordings {
        late = function() return math.random() < 0.2 and math.random(1, 60) or 0 end })
      local g = replay.graph(view)
      local path = replay.critical_path(g)
      quick = quick + (g.order and 0 or 1)
      local again = replay.critical_path(g, replay.run(g))
      assert.same({ again.events, again.from, again.parts, again.ranks },
        { path.events, path.from, path.parts, path.ranks })
      g.delay[#g.time] = g.delay[#g.time] + 1000000000 -- changed: it is replayed
      assert.equal(replay.run(g).time[#g.time], replay.critical_path(g).run.time[#g.time])
    end
    assert.is_true(quick > 0)
  end)

  it("leads through the late rank and adds up to the run", function()
    local recordings = model({ tp = 2, host = 8, compute = 20 }):recordings { late = function(rank, name)
      return rank == 1 and name == "linear_qkv" and 500 or 0
    end }
    local view <close> = view_of(recordings)
    local g = replay.graph(view)
    local path = replay.critical_path(g)
    local sum, steps = 0, replay.steps(g, path)
    for _, part in ipairs(path.parts) do sum = sum + part.ticks end
    assert.equal(path.total_ticks, sum)
    for i, step in ipairs(steps) do -- from the end back, without a hole
      sum = sum - (step.to - step.from)
      assert.is_true(i == 1 or step.to == steps[i - 1].from)
    end
    assert.equal(0, sum)
    assert.equal("host of rank 1", path.parts[1].name)
    assert.is_true(path.parts[1].ticks >= view.trace.ticks_per_second // 1000000 * 500 * 3)
  end)

  it("begins with the first device row: calls before it are not on it", function()
    local r = maker.new {}
    r:host("cuda_runtime", "cudaMalloc", -5000, 100)
    r:host("cuda_runtime", "cudaGetDeviceCount", -1000, 10)
    for i = 0, 4 do r:kernel("gemm", 100 * i + 10, 60, { launch = { ts = 100 * i, dur = 5 } }) end
    local view <close> = view_of({ r })
    local g = replay.graph(view)
    local path = replay.critical_path(g)
    assert.equal(460000, path.total_ticks)
    assert.equal(select(2, replay.recorded(g)), path.total_ticks)
    local steps, ticks = replay.steps(g, path), 0
    for _, step in ipairs(steps) do ticks = ticks + step.to - step.from end
    assert.equal(path.total_ticks, ticks)
    local _, first = next(g.rows)
    assert.is_true(steps[#steps].from >= first[1].ts)
  end)

  it("is a lane of the page, in order and as long as itself", function()
    local view <close> = view_of(model({ tp = 2, host = 8, compute = 20 }):recordings())
    local lane
    local lanes, made = require "ett.trace.page.lanes", require "ett.report.page.lanes"
    local Timeline = getmetatable(made.new({ data = {} }, { from = 0, to = 1, tick = 1, kinds = {} })).__index
    local own = Timeline.lane
    Timeline.lane = function(self, given)
      if given.name == "waited for last" then lane = given end
      return own(self, given)
    end
    local page = require("ett.report.page").new { title = "t", subtitle = "s", scripts = { "lanes" } }
    lanes.timeline(page, view)
    Timeline.lane = own
    local sum, stop = 0, -math.huge
    for i, duration in ipairs(assert(lane).duration) do
      assert.is_true(lane.start[i] >= stop)
      sum, stop = sum + duration, lane.start[i] + duration
    end
    assert.equal(replay.critical_path(replay.graph(view)).total_ticks, sum)
  end)

  it("consists of the kernels if the device never waits", function()
    local view <close> = view_of(model({ host = 8, compute = 50 }):recordings())
    local path = replay.critical_path(replay.graph(view))
    assert.matches("^kernel: ", path.parts[1].name)
  end)
end)

describe("exposed_causes", function()
  it("charges waiting to the rank that came last, and the rest to the transfer", function()
    -- Three layers forward: the late rank is 300 us late at the first sum of each.
    local recordings = model({ tp = 2, host = 8, compute = 20 }):recordings { late = function(rank, name)
      return rank == 1 and name == "flash_attention" and 1000 or 0
    end }
    local result = maker.computed(recordings, "exposed_causes")
    assert.near(result.exposed_ms, result.waiting_ms + result.transfer_ms, 1e-9)
    assert.near(2 * 6 * 0.040, result.transfer_ms, 1e-9) -- two ranks, six sums of 40 us
    -- A sum over the devices, where temporal_breakdown has the mean.
    assert.near(result.exposed_ms, 2 * maker.computed(recordings, "temporal_breakdown").exposed_comm_ms, 1e-9)
    assert.near(result.waiting_ms, result.ranks["1"].caused_ms, 1e-9)
    assert.matches("rank 1 accounts for 100 %% of the waiting", result.headline)
  end)

  it("names no late rank for less than half a percent of waiting", function()
    local recordings = {}
    for rank = 0, 1 do
      recordings[rank + 1] = maker.new { rank = rank, world = 2 }
      recordings[rank + 1]:all_reduce("dp", 100 + 2 * rank, 600, { stream = 9 })
    end
    local result = maker.computed(recordings, "exposed_causes")
    assert.near(0.002, result.waiting_ms, 1e-9)
    assert.equal("0 % of the exposed communication is waiting for late ranks, 100 % transfer", result.headline)
    for _, recording in ipairs(recordings) do recording.events[1].args["Group size"] = 4 end
    assert.matches("transfer; 2 of 4 ranks of a group are not in the trace: waiting for them counts as transfer$",
      maker.computed(recordings, "exposed_causes").headline)
    for _, recording in ipairs(recordings) do
      recording.world, recording.events[1].args["Group size"] = 8, nil
    end
    assert.matches("transfer; the trace has 2 of 8 ranks: waiting for others counts as transfer$",
      maker.computed(recordings, "exposed_causes").headline) -- a group of two ranks or of eight
  end)

  it("shares the time of concurrent collectives, and tells groups with equal messages apart", function()
    local recordings = {}
    for rank = 0, 1 do
      local r = maker.new{ rank = rank, world = 2 }
      r:all_reduce("tp", 100 + 20 * rank, 200, { stream = 9 }) -- alone to 150, then with dp
      r:all_reduce("dp", 150, 250, { stream = 11 })
      r:all_reduce("dp", 300, 340, { stream = 11 }) -- alone
      recordings[rank + 1] = r
    end
    local result = maker.computed(recordings, "exposed_causes")
    assert.near(2 * 0.190 - 0.020, result.exposed_ms, 1e-9)
    assert.near(result.exposed_ms, result.waiting_ms + result.transfer_ms, 1e-9)
    assert.near(0, result.unexplained_ms, 1e-9)
    local by_group = {}
    for _, row in ipairs(result.collectives) do by_group[row.group] = row end
    assert.same({ 2, 4 }, { by_group.tp.count, by_group.dp.count })
    assert.near(0.020, by_group.tp.waiting_ms, 1e-9)
    assert.near(2 * (0.030 + 0.025), by_group.tp.transfer_ms, 1e-9)
    assert.near(2 * (0.025 + 0.050 + 0.040), by_group.dp.transfer_ms, 1e-9)
  end)
end)

it("collective_list has every collective with its skew, last rank and transfer", function()
  local recordings = model({ tp = 2, host = 8, compute = 20 }):recordings { late = function(rank, name)
    return rank == 1 and name == "flash_attention" and 1000 or 0
  end }
  local result = maker.computed(recordings, "collective_list")
  assert.equal(6, result.count)
  for _, row in ipairs(result.collectives) do
    assert.near(40, row.transfer_us, 1e-6)
    assert.near(row.longest_us, row.transfer_us + row.skew_us, 1e-6)
    assert.near(2 * 64 * 32 * 2 / 40e-6 / 1e9, row.algbw_GBps, 1e-9)
  end
  assert.equal("1", result.collectives[1].last_rank)
  assert.is_true(result.collectives[1].skew_us > 500)
end)
