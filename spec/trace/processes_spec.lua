-- Several recordings of one rank in a folder, as a profiler with a schedule leaves them. Times in microseconds.
local maker = require "trace_maker"
local near = require "near"
local raised = require "raised"

local nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"

--- A recording of two steps of 100 us from `at` on: kernels cover 80 of each.
local function recording(rank, at, first_step)
  local r = maker.new{ rank = rank, world = 2 }
  for i = 0, 1 do
    r:step(first_step + i, at + 100 * i, 100)
    r:kernel("gemm", at + 100 * i, 60)
    r:kernel(nccl, at + 100 * i + 80 - (rank or 0), 20 + (rank or 0), { stream = 20 })
  end
  return r
end

describe("several recordings of one rank", function()
  it("are windows: the time between them is neither span nor idle", function()
    for _, rank in ipairs{ 0, false } do -- with a rank in the file, and only by the file's name
      maker.with({ ["host_71.1700000000001.pt.trace.json"] = recording(rank or nil, 0, 1),
        ["host_71.1700000000002.pt.trace.json"] = recording(rank or nil, 90000, 3) }, function(folder)
        local ranks = assert(maker.metric(folder, "device_time")).ranks
        assert.same({ "0" }, require("ett.trace.stats").keys(ranks))
        near({ gpu_span_us = 400, busy_us = 320, idle_us = 80, gaps_gt_1ms_us = 0 }, ranks["0"])
        local parts = assert(maker.metric(folder, "temporal_breakdown"))
        assert.equal(0.2, parts.idle_share)
        local view <close> = assert(require("ett.trace.view").open(folder, {}))
        for _, w in ipairs(view:warnings()) do assert.equal("unknown_rank", w.code) end
        assert.equal(0, parts.idle_outside_ms)
        -- A window over the gap holds the second half of the first recording and the first of the second.
        local cut = assert(maker.metric(folder, "device_time", { window = { 0.1, 90.1 } })).ranks["0"]
        near({ gpu_span_us = 200, idle_us = 40 }, cut)
      end)
    end
  end)

  it("are of one device: files of another one are of another run, with a warning", function()
    for first, warned in pairs { ["A100"] = true, ["V100"] = false } do
      local recordings = { ["a.json"] = recording(0, 0, 1), ["b.json"] = recording(0, 90000, 3) }
      for name, each in pairs(recordings) do
        function each.document(r)
          local out = maker.document(r)
          out.deviceProperties = { { id = 0, name = name == "a.json" and first or "V100" } }
          return out
        end
      end
      maker.with(recordings, function(folder)
        local view <close> = assert(require("ett.trace.view").open(folder, {}))
        assert.equal(warned and 2 or 1, #view:processes())
        local list = view:warnings()
        assert.equal(warned and "duplicate_rank" or nil, list[1] and list[1].code)
      end)
    end
  end)

  it("separate their steps if the step numbers restart", function()
    maker.with({ ["rank0.1.pt.trace.json"] = recording(0, 0, 1), ["rank0.2.pt.trace.json"] = recording(0, 90000, 1) },
      function(folder)
        assert.equal(4, assert(maker.metric(folder, "iter_time")).num_iterations)
        local steps = assert(maker.metric(folder, "step_table"))
        assert.equal(4, #steps.steps)
        assert.equal(4, #steps.ranks["0"].per_step)
        local why = raised(maker.metric, folder, "device_time", { step = 2 })
        assert.matches("step 2 was recorded 2 times; choose one with %-%-window 0.1:0.2 or 90.1:90.2", why)
        local one = assert(maker.metric(folder, "device_time", { step = 2, window = { 50, 100 } })).ranks["0"]
        assert.equal(100, one.gpu_span_us)
      end)
  end)

  it("are matched over the ranks one by one", function()
    local all = {}
    for rank = 0, 1 do
      for number = 1, 3 do
        all[("rank%d.%d.pt.trace.json"):format(rank, number)] = recording(rank, 50000 * number, 2 * number)
      end
    end
    -- Rank 1 lost the first collective of its second recording.
    local events = all["rank1.2.pt.trace.json"].events
    for i, event in ipairs(events) do
      if event.name == nccl then
        table.remove(events, i)
        break
      end
    end
    maker.with(all, function(folder)
      local lag = assert(maker.metric(folder, "straggler_lag", { tolerance_us = 10 }))
      near({ num_collectives = 5, groups = 3, max_lag_us = 1 }, lag)
    end)
  end)
end)

describe("metrics of several recordings", function()
  --- Two kernels with launches, a decode step around each launch, a tp and a dp collective, from `at` on.
  local function one(at)
    local r = maker.new{ rank = 0, world = 2 }
    for i = 0, 1 do
      r:host("user_annotation", "execute_context_0(0)_generation_2(2)", at + 200 * i, 100)
      r:kernel("gemm", at + 200 * i + 100, 100, { launch = { ts = at + 200 * i + 50, dur = 5 } })
      r:kernel(nccl, at + 400 + 100 * i, 60, { stream = 20, args = { ["Group size"] = 2,
        ["Process Group Description"] = i == 0 and "tp" or "dp" } })
    end
    return r
  end

  local function both(fn)
    maker.with({ ["rank0.1.pt.trace.json"] = one(0), ["rank0.2.pt.trace.json"] = one(90000) }, fn)
  end

  it("leave out the time between them", function()
    both(function(folder)
      for _, stream in ipairs(assert(maker.metric(folder, "stream_idle")).streams) do
        assert.near(stream.idle_ms / stream.span_ms, stream.idle_share, 1e-12)
      end
      local tpot = assert(maker.metric(folder, "tpot"))
      assert.same({ 4, 0.2, 0.2 }, { tpot.decode_steps, tpot.mean_tpot_ms, tpot.max_tpot_ms })
      local windows = assert(maker.metric(folder, "traffic_window"))
      assert.same({ 2, 40 }, { windows.windows, windows.mean_window_us }) -- tp -> dp of each recording
      -- 150 us in the queue twice, from 50 to 400.
      assert.near(300 / 350, assert(maker.metric(folder, "launch_stats")).ranks["0"].mean_queue, 1e-9)
    end)
  end)

  it("are replayed one by one", function()
    local replay = require "ett.trace.replay"
    both(function(folder)
      local view <close> = assert(require("ett.trace.view").open(folder, {}))
      local g = replay.graph(view)
      assert.equal(920, view:us(select(2, replay.recorded(g)))) -- 100 to 560 twice
      local path = replay.critical_path(g)
      assert.equal(920, view:us(path.total_ticks)) -- from the first row on, not from its launch at 50
      replay.change(g, view, "host*1000", {})
      assert.equal(2 * (460 + 195 * 999), view:us(replay.run(g).span_ticks)) -- 195 us between the two calls
    end)
  end)
end)

describe("a file merged from several ranks", function()
  it("is named in a warning, because its correlation ids are of several processes", function()
    local one, merged = maker.new{ rank = 0 }, maker.new{ rank = 0 }
    for i, r in ipairs{ one, merged } do
      r:kernel("gemm", 100, 50, { launch = { ts = 90, dur = 5 } })
      r:kernel("gemm", 200, 50, { launch = { ts = 190, dur = 5 } })
      for _, event in ipairs(r.events) do
        if i == 2 and event.ts > 1000180 then event.pid = "[TP01] " .. event.pid end
      end
    end
    for count, r in pairs{ [0] = one, [1] = merged } do
      local view <close> = maker.view({ r })
      local list = view:warnings()
      assert.equal(count, #list)
      if count > 0 then assert.matches("calls are of 2 processes, as in a file merged", list[1].message) end
    end
  end)
end)

it("a warning has a code that the page of its folder explains", function()
  local tree, codes, unknown = require "tree", 0, {}
  local page = tree.read "lua/ett/trace/README.md"
  for _, path in ipairs(tree.files "^lua/ett/trace/.*%.lua$") do
    for code in tree.read(path):gmatch '%f[%w]code = "([%w_]+)"' do
      codes = codes + 1
      if not page:find("\n| `" .. code .. "` |", 1, true) then unknown[#unknown + 1] = code end
    end
  end
  assert.is_true(codes > 0)
  assert.same({}, unknown)
end)

it("a file whose times are not microseconds is named in a warning, because no GPU has such short kernels", function()
  for us, count in pairs { [40] = 0, [0.04] = 1 } do
    local r = maker.new { rank = 0 }
    for i = 1, 30 do r:kernel("gemm", 100 * i, us) end
    local view <close> = maker.view({ r })
    local list = view:warnings()
    assert.equal(count, #list)
    if count > 0 then assert.matches("^its 30 kernels take 0.04 us on average", list[1].message) end
  end
end)
