-- Changes of a trace that must not change a result, and changes with a known effect.
local maker = require "trace_maker"
local merged = require "ett.base.merged"
local metrics = require "ett.trace.metrics"
local trace_view = require "ett.trace.view"
local generator = require("random").integers

local nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"

--- Two steps of kernels on two streams with launches, collectives and copies.
local function recording(seed, rank)
  local random, r = generator(seed), maker.new{ rank = rank, world = 2 }
  local at = 200
  r:step(1, 0, 5000):step(2, 5000, 5200)
  for i = 1, 60 do
    local dur = 20 + random(100)
    r:kernel("gemm_" .. i % 7, at, dur, { launch = { ts = at - 50 - random(100), dur = 3 } })
    if i % 5 == 0 then
      r:kernel(nccl, at + random(60), 150, { stream = 20, launch = { ts = at - 40, dur = 4 },
        args = { ["Collective name"] = "allreduce", ["In msg nelems"] = 1000 * (i % 3 + 1), dtype = "Float",
          ["Group size"] = 2, ["Process Group Name"] = "0", ["Process Group Ranks"] = "[0, 1]" } })
    end
    if i % 9 == 0 then r:kernel("Memcpy HtoD", at + 10, 40, { cat = "gpu_memcpy", stream = 9 }) end
    at = at + dur + random(60)
  end
  return r
end

local names = { "device_time", "comm_comp_overlap", "coll_call_num", "temporal_breakdown", "step_table", "iter_time",
  "kernel_breakdown", "collective_table", "launch_stats", "traffic_distribution", "total_comm_time_s",
  "communication_fraction", "avg_comm_bandwidth_GBps" }

local function all(folder, options)
  local list = metrics.load_all(names)
  local given = merged({ args = metrics.args(list) }, options)
  local view <close> = assert(trace_view.open(folder, given))
  local out = {}
  for _, metric in ipairs(list) do out[metric.name] = assert(metrics.compute(metric, view)) end
  return out
end

local function results(recordings, options)
  local out
  maker.with(recordings, function(folder) out = all(folder, options) end)
  return out
end

local function changed(recordings, change)
  for _, each in ipairs(recordings) do
    for i, event in ipairs(each.events) do change(event, i) end
  end
  return recordings
end

describe("laws of the metrics", function()
  local function fresh() return { recording(1, 0), recording(2, 1) } end
  local before = results(fresh())

  it("shifting all times changes nothing", function()
    assert.same(before, results(changed(fresh(), function(event) event.ts = event.ts + 987654321 end)))
  end)

  it("shuffling the events changes nothing", function()
    local mixed = fresh()
    for k, each in ipairs(mixed) do
      local random = generator(77 + k)
      for i = #each.events, 2, -1 do
        local j = random(i) + 1
        each.events[i], each.events[j] = each.events[j], each.events[i]
      end
    end
    assert.same(before, results(mixed))
  end)

  it("renaming threads and streams changes nothing", function()
    assert.same(before, results(changed(fresh(), function(event)
      if event.args.stream then
        event.args.stream = event.args.stream + 100
        event.tid = event.args.stream
      else
        event.tid = event.tid + 5000
      end
    end)))
  end)

  it("host rows, annotations, flows and metadata add nothing", function()
    local noisy = fresh()
    for _, each in ipairs(noisy) do
      for i = 1, 50 do
        each:host("cpu_op", nccl, 30 * i, 500, { tid = 9 })
        each:host("python_function", "nccl_wrapper.py(1): all_reduce", 30 * i, 400, { tid = 8 })
        each:kernel("nccl:all_reduce", 40 * i, 100, { cat = "gpu_user_annotation", stream = 20 })
        each:add{ ph = "s", cat = "ac2g", name = "ac2g", id = i, pid = 100, tid = 1, ts = 30 * i }
        each:add{ ph = "f", cat = "ac2g", name = "ac2g", id = i, pid = 0, tid = 7, ts = 30 * i + 5, bp = "e" }
      end
      each:add{ ph = "M", name = "thread_name", pid = 0, tid = 20, ts = 0, args = { name = "stream 20 nccl" } }
    end
    assert.same(before, results(noisy))
  end)

  it("a run recorded in two pieces is one run", function()
    local out
    local folder = maker.folder()
    for rank, whole in ipairs(fresh()) do
      local pieces = { maker.new{ rank = rank - 1, world = 2 }, maker.new{ rank = rank - 1, world = 2 } }
      local cut, home = 0, {}
      for _, event in ipairs(whole.events) do cut = math.max(cut, event.ts) end
      cut = 1000000 + (cut - 1000000) // 2
      for _, event in ipairs(whole.events) do -- a launch stays with its row
        local id = event.args.correlation
        if id and event.args.stream then home[id] = event.ts < cut and 1 or 2 end
      end
      for _, event in ipairs(whole.events) do
        local piece = home[event.args.correlation or -1] or (event.ts < cut and 1 or 2)
        table.insert(pieces[piece].events, event)
      end
      for p, piece in ipairs(pieces) do piece:write(("%s/rank%d_part%d.json"):format(folder, rank - 1, p)) end
    end
    local ok, why = pcall(function() out = all(folder) end)
    maker.remove(folder)
    assert(ok, why)
    assert.same(before, out)
  end)

  it("more ranks that do the same leave means and ratios, and add up counts", function()
    local one = results{ recording(1, 0) }
    local four = results{ recording(1, 0), recording(1, 1), recording(1, 2), recording(1, 3) }
    for _, field in ipairs{ "comm_time_ms", "comp_time_ms", "overlap_time_ms", "overlap_ratio_of_comm" } do
      assert.near(one.comm_comp_overlap[field], four.comm_comp_overlap[field], 1e-12)
    end
    assert.same(one.device_time.ranks["0"], four.device_time.ranks["3"])
    assert.equal(4 * one.coll_call_num.total_calls, four.coll_call_num.total_calls)
    assert.equal(one.total_comm_time_s.total_comm_time_s, four.total_comm_time_s.total_comm_time_s)
    assert.same(one.iter_time, four.iter_time)
  end)

  it("the same rank recorded twice counts as two devices, with a warning", function()
    local out, warned
    require("ett.base.folder").within(function(folder)
      recording(1, 0):write(folder .. "/a.json")
      recording(1, 0):write(folder .. "/b.json")
      out = all(folder)
      local view <close> = assert(trace_view.open(folder, {}))
      for _, w in ipairs(view:warnings()) do warned = warned or w.code == "duplicate_rank" end
    end)
    local one = results{ recording(1, 0) }
    assert.is_true(warned)
    assert.same(one.device_time.ranks["0"], out.device_time.ranks["0#2"])
    for _, field in ipairs{ "comm_time_ms", "comp_time_ms", "overlap_time_ms", "overlap_ratio_of_comm" } do
      assert.near(one.comm_comp_overlap[field], out.comm_comp_overlap[field], 1e-12)
    end
    assert.equal(2 * one.coll_call_num.total_calls, out.coll_call_num.total_calls)
  end)

  it("adjoining windows add up to the whole", function()
    local parts = { results(fresh(), { window = { 0, 4.321 } }), results(fresh(), { window = { 4.321, 20 } }) }
    for _, rank in ipairs{ "0", "1" } do
      for _, field in ipairs{ "comm_union_us", "comp_union_us", "mem_union_us", "busy_us", "overlap_comm_comp_us",
        "comm_kernels", "comp_kernels", "mem_ops", "exposed_comm_us" } do
        local sum = parts[1].device_time.ranks[rank][field] + parts[2].device_time.ranks[rank][field]
        assert.near(before.device_time.ranks[rank][field], sum, 1e-6, field)
      end
    end
  end)

  it("parts add up: busy, overlap, idle", function()
    local whole, span, compute = before.temporal_breakdown, 0.0, 0.0
    for rank, r in pairs(before.device_time.ranks) do
      assert.near(r.comm_union_us, r.exposed_comm_us + r.overlap_comm_comp_us, 1e-6)
      assert.near(r.gpu_span_us, r.busy_us + r.idle_us, 1e-6)
      local t = whole.ranks[rank]
      span, compute = span + t.span_ms, compute + t.compute_ms
      assert.near(t.span_ms, t.compute_ms + t.exposed_comm_ms + t.memory_ms + t.idle_ms, 1e-9)
      assert.near(t.idle_ms, t.idle_host_ms + t.idle_device_ms + t.idle_unknown_ms + t.idle_outside_ms, 1e-9)
    end
    assert.near(span / 2, whole.span_ms, 1e-9)
    assert.near(compute / span, whole.compute_share, 1e-12)
  end)
end)
