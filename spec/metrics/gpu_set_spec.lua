-- Metrics on traces small enough to do the sums by hand. All times in microseconds.
local maker = require "trace_maker"
local near = require "near"

local function all_reduce(elements, description)
  return { ["Collective name"] = "allreduce", ["In msg nelems"] = elements, ["Out msg nelems"] = elements,
    dtype = "Float", ["Group size"] = 2, ["Process Group Name"] = "1",
    ["Process Group Description"] = description or "dp",
    ["Process Group Ranks"] = "[0, 1]" }
end

local nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"

--- compute 100-300, 400-600; communication as given; copy 580-650. Host rows must not count.
local function recording(rank, first, second)
  local r = maker.new{ rank = rank, world = 2 }
  r:step(1, 0, 1000)
  r:host("user_annotation", "nccl:all_reduce", 50, 100)
  r:host("cpu_op", nccl, 10, 700)
  r:kernel("nccl:all_reduce", 90, 500, { cat = "gpu_user_annotation" })
  r:kernel("ProfilerStep#1", 100, 700, { cat = "gpu_user_annotation" })
  r:kernel("gemm", 100, 200, { launch = { ts = 60, dur = 5 } })
  r:kernel(nccl, first[1], first[2] - first[1], { stream = 20, args = all_reduce(1000), launch = { ts = 80, dur = 5 } })
  r:kernel("gemm", 400, 200, { launch = { ts = 90, dur = 5 } })
  r:kernel("Memcpy DtoH", 580, 70, { cat = "gpu_memcpy", launch = { ts = 95, dur = 5 } })
  r:kernel(nccl, second[1], second[2] - second[1],
    { stream = 20, args = all_reduce(2000), launch = { ts = 660, dur = 300 } })
  return r
end

local function pair() return { recording(0, { 250, 450 }, { 700, 800 }), recording(1, { 270, 452 }, { 690, 801 }) } end

describe("the GPU metrics on a hand-made trace", function()
  it("device_time: unions, overlap, idle", function()
    local r = maker.computed(pair(), "device_time").ranks["0"]
    near({ gpu_span_us = 700, busy_us = 650, idle_us = 50, comm_union_us = 300, comp_union_us = 400,
      mem_union_us = 70, overlap_comm_comp_us = 100, exposed_comm_us = 200, overlap_ratio_of_comm = 1 / 3,
      top_kernel_share = 400 / 700, comm_kernels = 2, comp_kernels = 2, mem_ops = 1 }, r)
    assert.same({ all_reduce = 2 }, r.comm_by_kernel_type)
  end)

  it("comm_comp_overlap: means over ranks, ratios of sums", function()
    local r = maker.computed(pair(), "comm_comp_overlap")
    -- Rank 1: communication 270-452 and 690-801 = 293; overlap 30 + 52 = 82.
    near({ comm_time_ms = (300 + 293) / 2 / 1000, comp_time_ms = 0.4, overlap_time_ms = (100 + 82) / 2 / 1000,
      overlap_ratio_of_comm = (100 + 82) / (300 + 293), overlap_ratio_of_comp = (100 + 82) / 800 }, r)
  end)

  it("coll_call_num: each call once", function()
    local r = maker.computed(pair(), "coll_call_num")
    near({ total_calls = 4, calls_per_rank = { ["0"] = 2, ["1"] = 2 } }, r)
    assert.same({ all_reduce = 4 }, r.calls_by_type)
    assert.same({ ["nccl:all_reduce"] = 1 }, r.annotations["0"])
  end)

  it("coll_call_num: an all-to-all that NCCL runs as SendRecv", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:host("user_annotation", "nccl:all_to_all", 0, 50, { tid = 3 })
    local name = "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"
    r:kernel(name, 100, 10, { launch = { ts = 20, dur = 5, tid = 3 } })
    r:kernel(name, 120, 10, { launch = { ts = 60, dur = 5, tid = 3 } })
    local found = maker.computed({ r }, "coll_call_num")
    assert.same({ all_to_all = 1, send_recv = 1 }, found.calls_by_type)
    assert.same({ send_recv = 2 }, found.calls_by_kernel_type)
  end)

  it("straggler_lag: lag, waits, transfer, who is last", function()
    local r = maker.computed(pair(), "straggler_lag")
    near({ num_collectives = 2, mean_lag_us = 15, p50_lag_us = 20, max_lag_us = 20, sum_transfer_us = 280,
      mean_end_spread_us = 1.5 }, r)
    assert.same({ ["0"] = 1, ["1"] = 1 }, r.last_arriver)
    near({ ["0"] = 20, ["1"] = 10 }, r.wait_us_per_rank)
  end)

  it("straggler_lag: a single rank waits for no other", function()
    assert.matches("at least two ranks", maker.reason({ pair()[1] }, "straggler_lag"))
  end)

  it("iter_time: one duration a step, the longest of its ranks", function()
    local ranks = {}
    for rank, times in ipairs{ { 100, 220, 300 }, { 110, 200, 310 } } do
      local r, at = maker.new{ rank = rank - 1, world = 2 }, 0
      for step, time in ipairs(times) do
        r:step(step, at, time)
        r:kernel("gemm", at + 10, 20)
        r:kernel("ProfilerStep#" .. step, at + 10, 20, { cat = "gpu_user_annotation" })
        at = at + time
      end
      ranks[rank] = r
    end
    local r = maker.computed(ranks, "iter_time")
    near({ num_iterations = 3, avg_iter_time_ms = (110 + 220 + 310) / 3 / 1000, min_iter_time_ms = 0.110,
      max_iter_time_ms = 0.310,
      std_iter_time_ms = math.sqrt(((110 - 640 / 3) ^ 2 + (220 - 640 / 3) ^ 2 + (310 - 640 / 3) ^ 2) / 2) / 1000 }, r)
  end)

  it("step_table and --step: intervals cut to the host's step", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:step(7, 0, 100):step(8, 100, 100)
    r:kernel("gemm", 50, 100)
    maker.with({ r }, function(folder)
      local steps = assert(maker.metric(folder, "step_table")).ranks["0"].per_step
      near(50, steps[1].comp_union_us)
      near(50, steps[2].comp_union_us)
      near(0.5, steps[1].idle_frac)
      local one = assert(maker.metric(folder, "device_time", { step = 8 })).ranks["0"]
      near({ comp_union_us = 50, gpu_span_us = 100 }, one)
      assert.equal(0, one.comp_kernels) -- it started in step 7
      assert.has_error(function() maker.metric(folder, "device_time", { step = 9 }) end)
      -- The window ends in step 8, which counts as a whole.
      steps = assert(maker.metric(folder, "step_table", { window = { 0.05, 0.12 } })).ranks["0"].per_step
      assert.equal(1, #steps)
      near({ comp_union_us = 50, idle_frac = 0.5 }, steps[1])
    end)
    for number = 7, 8 do -- copies on the device's track
      r:add{ cat = "gpu_user_annotation", name = "ProfilerStep#" .. number, pid = 0, tid = 7, ts = 100 * number - 650,
        dur = 10 * number, args = { device = 0, stream = 7 } }
    end
    maker.with({ r }, function(folder)
      local all = assert(maker.metric(folder, "step_table")).ranks["0"]
      assert.same({ 0.07, 0.08 }, all.gpu_step_ms)
      assert.same({ 0.08 }, assert(maker.metric(folder, "step_table", { step = 8 })).ranks["0"].gpu_step_ms)
    end)
    local again = maker.new{ rank = 0 } -- a later recording with a step of the same number
    again:host("user_annotation", "ProfilerStep#8", 2000, 100):kernel("gemm", 2010, 50)
    again:add{ cat = "gpu_user_annotation", name = "ProfilerStep#8", pid = 0, tid = 7, ts = 2010, dur = 50,
      args = { device = 0, stream = 7 } }
    local only = maker.computed({ r, again }, "step_table", { step = 8, window = { 1.9, 2.2 } }).ranks["0"]
    assert.same({ 1, { 0.05 } }, { #only.steps, only.gpu_step_ms })
    local slow = maker.new{ rank = 1 } -- the slowest rank of each step
    slow:step(7, 0, 80):step(8, 100, 130):kernel("gemm", 50, 100)
    assert.same({ { step = 7, max_step_ms = 0.1 }, { step = 8, max_step_ms = 0.13 } },
      maker.computed({ r, slow }, "step_table").steps)
  end)

  it("--window: cut to the window, counted where they start", function()
    local r = maker.computed(pair(), "device_time", { window = { 0.2, 0.4 } }).ranks["0"]
    near({ comm_union_us = 150, comp_union_us = 100, overlap_comm_comp_us = 50, gpu_span_us = 200, comm_kernels = 1,
      comp_kernels = 0 }, r)
  end)

  it("traffic_distribution: by the group's description, with bytes", function()
    local a, b = pair()[1], maker.new{ rank = 1, world = 2 }
    b:kernel(nccl, 100, 50, { args = all_reduce(500, "tp") })
    b:kernel(nccl, 200, 50, { args = all_reduce(500, "undefined") })
    local r = maker.computed({ a, b }, "traffic_distribution")
    near({ dp_bytes = 12000, tp_bytes = 2000, unknown_bytes = 2000 }, r)
    near({ dp_time_ms = 0.3, mode = "process groups", fractions = { dp = 0.75 } }, r)
    near({ calls = { dp = 2, tp = 1, unknown = 1 }, emb_bytes = 0.0 }, r)
  end)

  it("traffic_window: between dimensions", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:kernel(nccl, 100, 50, { args = all_reduce(500, "tp") })
    r:kernel(nccl, 160, 50, { args = all_reduce(500, "tp") })
    r:kernel(nccl, 240, 50, { args = all_reduce(500, "dp") })
    local found = maker.computed({ r }, "traffic_window")
    near({ windows = 1, mean_window_us = 30 }, found)
    assert.equal("tp -> dp", found.pairs[1].pair)
  end)

  it("device_time: only complete events are device rows", function()
    local r = maker.new{ rank = 0 }
    r:kernel("gemm", 100, 50, { launch = { ts = 90, dur = 5 } })
    for i, ph in ipairs{ "b", "e", "n", "i", "C" } do
      r:kernel("range", 100 * i, nil, { launch = { ts = 90, dur = 5 } })
      r.events[#r.events].ph = ph
    end
    local found = maker.computed({ r }, "device_time").ranks["0"]
    assert.same({ 1, 1, 50 }, { found.device_ops, found.comp_kernels, found.gpu_span_us })
  end)

  it("sm: coverage weighted by time", function()
    local r = maker.new{ rank = 0 }
    local function args(blocks, warps, occupancy)
      return { args = { ["blocks per SM"] = blocks, ["warps per SM"] = warps,
        ["est. achieved occupancy %"] = occupancy } }
    end
    r:kernel("a", 0, 100, args(0.5, 2, 10)):kernel("b", 100, 300, args(8.0, 6, 50))
    local found = maker.computed({ r }, "sm")
    near((0.5 * 100 + 1 * 300) / 400, found.mean_sm_coverage)
    near({ mean_warps_per_sm = 5, est_achieved_occupancy = 0.4 }, found.ranks["0"])
  end)

  it("sm: kernels that run at the same time cover a multiprocessor once", function()
    local r = maker.new{ rank = 0 }
    local function on(stream, blocks) return { stream = stream, args = { ["blocks per SM"] = blocks } } end
    r:step(1, 60, 100)
    r:kernel("a", 0, 100, on(7, 0.5)):kernel("b", 50, 100, on(8, 0.75)):kernel("c", 50, 50, on(9, 0.25))
    r:kernel("d", 180, 20, on(7, 3)):kernel("e", 190, 0, on(8, 3))
    maker.with({ r }, function(folder)
      near((0.5 * 50 + 1 * 50 + 0.75 * 50 + 1 * 20) / 200, assert(maker.metric(folder, "sm")).sm_coverage_over_span)
      near((1 * 40 + 0.75 * 50) / 100, assert(maker.metric(folder, "sm", { step = 1 })).sm_coverage_over_span)
    end)
  end)

  it("pipeline_bubble: device time outside the stage's ranges", function()
    local r = maker.new{ rank = 0 }
    r:host("user_annotation", "forward_step", 0, 20)
    r:host("user_annotation", "backward_step", 30, 20)
    r:kernel("gemm", 100, 100, { launch = { ts = 5, dur = 2 } })
    r:kernel("gemm", 300, 100, { launch = { ts = 35, dur = 2 } })
    r:kernel("adam", 450, 50, { launch = { ts = 60, dur = 2 } })
    local found = maker.computed({ r }, "pipeline_bubble")
    near({ method = "stage markers", total_time_ms = 0.4, bubble_time_ms = 0.2, bubble_ratio = 0.5 }, found)
    -- A range of the whole schedule is no unit, though kernels are launched in it directly.
    r:host("user_annotation", "forward_backward_step", 0, 55)
    r:kernel("send", 200, 10, { launch = { ts = 25, dur = 2 } })
    r:kernel("send", 400, 10, { launch = { ts = 52, dur = 2 } })
    near(0.2, maker.computed({ r }, "pipeline_bubble").bubble_time_ms)
    local device = maker.new{ rank = 0 }
    local ranges = { forward_step = { 0, 100 }, backward_step = { 300, 100 }, forward_backward_step = { 0, 400 } }
    for name, at in pairs(ranges) do
      device:add{ cat = "gpu_user_annotation", name = name, pid = 0, tid = 7, ts = at[1], dur = at[2],
        args = { device = 0, stream = 7 } }
    end
    device:kernel("gemm", 0, 100):kernel("gemm", 300, 100)
    near(0.5, maker.computed({ device }, "pipeline_bubble").bubble_ratio)
    -- A backward range that computes a forward pass again is a unit.
    local again = maker.new{ rank = 0 }
    again:host("user_annotation", "backward_step", 0, 100):host("user_annotation", "forward_one_chunk", 10, 20)
    again:host("user_annotation", "backward_one_chunk", 50, 20)
    again:kernel("gemm", 100, 50, { launch = { ts = 15, dur = 2 } })
    again:kernel("gemm", 170, 30, { launch = { ts = 80, dur = 2 } }):kernel("adam", 280, 20)
    near(0.12, maker.computed({ again }, "pipeline_bubble").bubble_time_ms)
    local bare = maker.new{ rank = 0 }
    bare:kernel("gemm", 0, 10):kernel("gemm", 100, 10)
    assert.matches("stage markers", maker.reason({ bare }, "pipeline_bubble"))
  end)

  it("pipeline_bubble: a send counts only inside the step that it starts in", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:step(1, 0, 1000):step(2, 1000, 3000)
    r:kernel("gemm", 0, 300):kernel("gemm", 1100, 1500):kernel("gemm", 3000, 900)
    r:kernel("ncclDevKernel_SendRecv(x)", 900, 2000, { stream = 9, args = { ["Collective name"] = "send" } })
    maker.with({ r }, function(folder)
      require("ett.base.folder").write(folder .. "/workload_card.yaml", "pp: 2\n")
      local found = assert(maker.metric(folder, "pipeline_bubble", { step = 1 }))
      near({ method = "send/recv kernels", total_time_ms = 1, bubble_time_ms = 0.1, bubble_ratio = 0.1 }, found)
    end)
  end)

  it("throughput_tokens and mfu from the workload card", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:step(1, 0, 500000):step(2, 500000, 500000)
    r:kernel("gemm", 10, 20)
    maker.with({ r }, function(folder)
      local result, reason = maker.metric(folder, "throughput_tokens")
      assert.is_nil(result)
      assert.matches("batch_size", reason)
      require("ett.base.folder").write(folder .. "/workload_card.yaml",
        "workload:\n  model:\n    iteration: 50\n    model_arch: {num_params: 1000000}\n"
        .. "  data: {batch_size: 4, seq_len: 100}\nexecutor:\n  plan: {dp_replicate: 1, dp_shard: 2, tp: 1, pp: 1}\n")
      local found = assert(maker.metric(folder, "throughput_tokens"))
      near(800, found.total_tokens) -- two steps recorded, whatever the card's 50 says
      near({ measured_duration_s = 1, throughput_tokens_per_s = 800 }, found)
      local mfu = assert(maker.metric(folder, "mfu", { peak_flops = 1e10 }))
      near(6e6 * 800 / 2 / 1 / 1e10, mfu.mfu)
      local _, why = maker.metric(folder, "mfu")
      assert.matches("peak", why)
      local on_cluster = assert(maker.metric(folder, "mfu",
        { cluster = require("ett.profile.cluster").get("dgx_h100") }))
      near({ mfu = 6e6 * 800 / 2 / 1 / 989.5e12, peak_from = "bf16 of H100-SXM-80GB, cluster dgx_h100" }, on_cluster)
    end)
  end)

  it("give the same for the events in any order of the file", function()
    local results = {}
    for trial = 1, 2 do
      local r = maker.new{ rank = 0, world = 1 }
      for i = 1, 2 do
        r:step(i, 1000 * i, 1000)
        r:host("gpu_user_annotation", "ProfilerStep#" .. i, 1000 * i, 100 * i)
      end
      r:kernel("a", 1000, 50, { launch = { ts = 900, dur = 5 } })
      r:kernel("known", 1200, 50, { stream = 8, launch = { ts = 1100, dur = 5 } }):kernel("unknown", 1200, 60)
      r:kernel("early", 1500, 50, { stream = 8, launch = { ts = 950, dur = 5 } })
      r:kernel("late", 1500, 60, { launch = { ts = 1400, dur = 5 } })
      for _, event in ipairs(r.events) do event.args.device = 0 end
      if trial == 2 then
        for i = 1, #r.events // 2 do
          local other = #r.events + 1 - i
          r.events[i], r.events[other] = r.events[other], r.events[i]
        end
      end
      maker.with({ r }, function(folder)
        local idle = assert(maker.metric(folder, "temporal_breakdown"))
        results[trial] = { idle.idle_host_ms, idle.idle_device_ms, idle.idle_unknown_ms,
          table.unpack(assert(maker.metric(folder, "step_table")).ranks["0"].gpu_step_ms) }
      end)
    end
    assert.same({ 0.15, 0.24, 0.0, 0.1, 0.2 }, results[1])
    assert.same(results[1], results[2])
  end)

  it("a step that a rank marks twice is the first of them, in any order of the file", function()
    for _, order in ipairs{ { 1, 2, 3 }, { 3, 2, 1 }, { 2, 3, 1 } } do
      local r, spans = maker.new{ rank = 0, world = 1 }, { { 100, 1000 }, { 100, 5 }, { 200, 100 } }
      for _, i in ipairs(order) do r:step(1, spans[i][1], spans[i][2]) end
      assert.same({ 1.0 }, maker.computed({ r:kernel("gemm", 150, 20) }, "iter_time").iter_times_ms)
    end
  end)

  it("a window is cut to the trace: time before and after it is not idle", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:host("cpu_op", "aten::mm", 0, 5):kernel("gemm", 10, 20):kernel("gemm", 50, 20):host("cpu_op", "last", 90, 10)
    maker.with({ r }, function(folder)
      for _, each in ipairs{ { 0, 1e300, 40, 100 }, { -1e300, 1e300, 40, 100 }, { -3, 0.02, 10, 20 },
        { 0.06, 0.5, 10, 40 }, { 0.02, 0.06, 20, 40 } } do
        local found = assert(maker.metric(folder, "device_time", { window = { each[1], each[2] } })).ranks["0"]
        assert.same({ each[3], each[4], each[4] - each[3] }, { found.busy_us, found.gpu_span_us, found.idle_us })
      end
      for _, metric in ipairs(require("ett.trace.metrics").names()) do -- nothing in it
        local result, why = maker.metric(folder, metric, { window = { 0.1, 1 } })
        assert.is_true(result ~= nil or type(why) == "string")
      end
    end)
  end)

  it("throughput_tokens: the card's iterations are those of the whole trace", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:kernel("gemm", 0, 400):kernel("gemm", 500, 500)
    maker.with({ r }, function(folder)
      require("ett.base.folder").write(folder .. "/workload_card.yaml", "batch_size: 4\nseq_len: 100\niterations: 10\n")
      near(4000 / 1e-3, assert(maker.metric(folder, "throughput_tokens")).throughput_tokens_per_s)
      local none, why = maker.metric(folder, "throughput_tokens", { window = { 0, 0.5 } })
      assert.is_nil(none)
      assert.matches("ProfilerStep# markers on the host track; the trace has none", why)
    end)
  end)

  it("a fault in a workload card is reported with its line by the metrics that read the card", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:step(1, 0, 500000):kernel("gemm", 10, 20)
    maker.with({ r }, function(folder)
      local function card(text)
        require("ett.base.folder").write(folder .. "/workload_card.yaml", text)
        return select(2, maker.metric(folder, "throughput_tokens"))
      end
      assert.matches("workload_card%.yaml: line 3: field 'batch_size' must be a positive integer, got 'twelve'",
        card "seq_len: 4\ndata:\n  batch_size: twelve\n")
      assert.matches("line 2: field 'seq_length' must be a positive integer, got %-4",
        card "batch: 4\nseq_length: -4\n")
      assert.matches("workload_card%.yaml: line 4: .*flow sequence that began on line 2", card "a: 1\nb: [\nc: 2\n")
      assert.is_table(maker.metric(folder, "iter_time"))
    end)
  end)

  it("token_to_expert_assignment from split sizes", function()
    local r = maker.new{ rank = 0, world = 2 }
    local name = "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"
    for i = 0, 1 do
      r:kernel(name, 100 * i, 50, { args = { ["Collective name"] = "all_to_allv", ["In split size"] = "[30, 10]",
        ["Out split size"] = "[5, 7]", ["In msg nelems"] = 40, dtype = "Float", ["Group size"] = 2 } })
    end
    local found = maker.computed({ r }, "token_to_expert_assignment").ranks["0"]
    assert.same({ 60, 20 }, found.sent)
    assert.same({ 10, 14 }, found.received)
    near(1.5, found.imbalance)
    -- PyTorch writes 30 of more sizes, then "...".
    local large, sizes = maker.new{ rank = 0, world = 64 }, ("4, "):rep(30) .. "..."
    large:kernel(name, 100, 50, { args = { ["Collective name"] = "all_to_allv", ["In split size"] = "[" .. sizes .. "]",
      ["Out split size"] = "[" .. sizes .. "]", ["In msg nelems"] = 256, dtype = "Float", ["Group size"] = 64 } })
    local function reason(recordings) return maker.reason(recordings, "token_to_expert_assignment") end
    assert.matches("1 of the 1 all%-to%-alls have only the first sizes", reason { large })
    local number = maker.new{ rank = 0, world = 2 } -- a number is no list
    number:kernel(name, 100, 50, { args = { ["Collective name"] = "all_to_allv", ["In split size"] = 4 } })
    assert.matches("none of the 1 all%-to%-alls has a non%-empty 'In split size'", reason { number })
    assert.matches("no all%-to%-all", reason(pair()))
  end)

  it("straggler_lag: clocks of the ranks of every group", function()
    local ranks = {}
    for rank = 0, 3 do
      local r, at = maker.new{ rank = rank, world = 4 }, 1000
      for i = 1, 30 do
        at = at + 2000 + (i * i * 7919) % 3470
        local start = (i * 13 + rank * 7) % 40
        r:kernel(nccl, at + start + (rank == 3 and 500 or 0), 100 - start, { args = { ["Group size"] = 2,
          ["Process Group Name"] = "tp" .. rank // 2 } })
      end
      ranks[rank + 1] = r
    end
    local found = maker.computed(ranks, "straggler_lag")
    assert.equal(2, found.groups)
    assert.same({ ["3"] = 500.0 }, found.clock_difference_us)
    assert.same({ ["0"] = 0, ["1"] = 0, ["2"] = 0, ["3"] = 0 }, found.offset_vs_first_rank)
  end)

  it("ttft and tpot from the engine's ranges", function()
    local r = maker.new{ rank = 0 }
    r:host("user_annotation", "execute_context_1(128_128)_generation_0(0)", 0, 100)
    r:kernel("prefill_gemm", 50, 450, { launch = { ts = 10, dur = 5 } })
    for i = 1, 3 do
      r:host("user_annotation", "execute_context_0(0)_generation_4(4)", 400 + 100 * i, 20)
      r:kernel("decode_gemm", 450 + 100 * i, 10 * i, { launch = { ts = 405 + 100 * i, dur = 5 } })
    end
    maker.with({ r }, function(folder)
      near(0.5, assert(maker.metric(folder, "ttft")).mean_ttft_ms)
      assert.equal(128, assert(maker.metric(folder, "ttft")).prefill_tokens)
      local tpot = assert(maker.metric(folder, "tpot"))
      near(0.11, tpot.mean_tpot_ms) -- ends 560, 670, 780
      assert.equal(3, tpot.decode_steps)
    end)
    assert.matches("ranges", maker.reason(pair(), "ttft"))
  end)

  it("temporal_breakdown: parts add up, idle has its cause", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 100, 100, { launch = { ts = 10, dur = 5 } })
    r:kernel("b", 250, 50, { launch = { ts = 20, dur = 5 } })    -- launched before the gap: the device waited
    r:kernel("c", 400, 100, { launch = { ts = 390, dur = 5 } })  -- launched in the gap: the host was late
    r:kernel("d", 520, 10)                                       -- launch not recorded
    local found = maker.computed({ r }, "temporal_breakdown").ranks["0"]
    near({ compute_ms = 0.26, idle_ms = 0.17, idle_device_ms = 0.05, idle_host_ms = 0.1, idle_unknown_ms = 0.02,
      span_ms = 0.43 }, found)
    for _, row in pairs(maker.computed(pair(), "temporal_breakdown").ranks) do
      near(row.span_ms, row.compute_ms + row.exposed_comm_ms + row.memory_ms + row.idle_ms)
    end
  end)

  it("kernel_breakdown: totals, shares, percentiles", function()
    local r = maker.new{ rank = 0 }
    for i = 1, 20 do r:kernel("small", 100 * i, i) end
    r:kernel("large", 5000, 790)
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "kernel_breakdown"))
      near({ name = "large", share = 0.79 }, found.kernels[1])
      near({ total_ms = 0.21, p50_us = 10, p95_us = 19 }, found.kernels[2])
      assert.equal(1, #assert(maker.metric(folder, "kernel_breakdown", { top = 1 })).kernels)
    end)
  end)

  it("collective_table: nccl-tests' bandwidths", function()
    local rows = maker.computed(pair(), "collective_table").collectives
    local GBps = 4000 * 2 / 382e-6 / 1e9 -- the factor 2 (n - 1) / n is 1 for two ranks
    assert.equal(2, #rows)
    near({ bytes = 4000, calls = 2, algbw_GBps = GBps, busbw_GBps = GBps }, rows[1])
  end)

  it("launch_stats: delay and queue", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 100, 100, { launch = { ts = 0, dur = 5 } })
    r:kernel("b", 200, 100, { launch = { ts = 50, dur = 5 } })
    r:kernel("c", 500, 2, { launch = { ts = 490, dur = 8 } })
    local found = maker.computed({ r }, "launch_stats").ranks["0"]
    near({ mean_delay_us = (100 + 150 + 10) / 3, p50_delay_us = 100, max_queue = 2, short_rows = 1 }, found)
    -- Queue over 0-502: 1 for 0-50, 2 for 50-200, 1 for 200-300, 0, 1 for 490-502.
    near((50 + 300 + 100 + 12) / 502, found.mean_queue)
  end)

  it("launch_stats: a CUDA graph is one launch", function()
    local r = maker.new{ rank = 0 }
    for graph = 0, 1 do
      local at = 1000 * graph
      r:host("cuda_runtime", "cudaGraphLaunch", at, 200, { args = { correlation = 50 + graph } })
      for i = 0, 9 do -- the kernels last 9 * 80 + 70 = 790 us
        r:kernel("gemm", at + 90 + 10 * graph + 80 * i, 70, { stream = 7 + i % 2, args = { correlation = 50 + graph } })
      end
    end
    r:kernel("alone", 1990, 5, { launch = { ts = 1980, dur = 8 } })
    r:kernel("no call", 2100, 5)
    local found = maker.computed({ r }, "launch_stats").ranks["0"]
    near({ rows = 22, launched = 3, without_launch = 1 }, found)
    assert.equal(1, found.short_rows) -- the kernel of 5 us; no graph, though each kernel is shorter than the call
    near({ mean_delay_us = (90 + 100 + 10) / 3, max_delay_us = 100, mean_launch_call_us = (200 + 200 + 8) / 3,
      max_queue = 1 }, found)
    near((880 + 890 + 15) / 1995, found.mean_queue) -- to the last kernel's end
  end)

  it("launch_stats: a kernel that ends before its launch call does not shorten the queue of others", function()
    local r = maker.new{ rank = 0 }
    r:kernel("early", 100, 20, { launch = { ts = 180, dur = 5 } }) -- a device clock behind the host's
    r:kernel("a", 200, 100, { launch = { ts = 100, dur = 5 } })
    local found = maker.computed({ r }, "launch_stats").ranks["0"]
    assert.equal(1, found.max_queue)
    near(1, found.mean_queue) -- 1 over 100-300
    near((100 - 80) / 2, found.mean_delay_us)
  end)

  it("queue_length: rows launched and not started, as a series", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 100, 100, { launch = { ts = 0, dur = 5 } })
    r:kernel("b", 200, 100, { launch = { ts = 150, dur = 5 } })
    r:kernel("c", 400, 100, { launch = { ts = 190, dur = 8 } })
    r:kernel("d", 300, 50, { stream = 9, launch = { ts = 310, dur = 8 } })
    r:kernel("e", 350, 20, { stream = 11 })
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "queue_length", { top = 4 }))
      -- Stream 7 over the span 100-500: 0 until 150, 1 until 190, 2 until 200, 1 until 400, then 0.
      local seven = found.streams["0 stream 7"]
      near({ mean = (40 + 20 + 200) / 400, empty_share = 150 / 400, most = 2 }, seven)
      near(0, found.streams["0 stream 9"].mean)
      assert.is_nil(found.streams["0 stream 11"])
      local points = {}
      for _, point in ipairs(found.series) do
        if point.stream == "0 stream 7" then points[#points + 1] = point end
      end
      for i, want in ipairs{ { 0, 0.6, 2 }, { 0.1, 1, 1 }, { 0.2, 1, 1 }, { 0.3, 0, 0 } } do
        near(want[1], points[i].from_ms)
        near(want[2], points[i].mean)
        assert.equal(want[3], points[i].most)
      end
      assert.equal(4, #points)
      -- A row that starts after the window counts for the time that it waits inside the window.
      found = assert(maker.metric(folder, "queue_length", { top = 1, window = { 0.2, 0.3 } }))
      near(1, found.streams["0 stream 7"].mean)
    end)
  end)

  it("memory_bandwidth: bytes and bandwidth of copies, in all and over time", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 0, 100)
    local function copy(name, ts, dur, bytes)
      r:add{ ph = "X", cat = "gpu_memcpy", name = name, pid = 0, tid = 7, ts = ts, dur = dur, args = { bytes = bytes,
        stream = 7, device = 0 } }
    end
    copy("HtoD", 100, 100, 1000000) -- 10 GB/s, a half in each part of the series
    copy("HtoD", 250, 50, 1000000) -- 20 GB/s
    copy("HtoD", 290, 10) -- no bytes stated
    copy("DtoH", 296, 4, -5)
    local found = maker.computed({ r }, "memory_bandwidth", { top = 2 })
    local up, down = found.kinds[1], found.kinds[2]
    assert.same({ "HtoD", 3, 2000000.0 }, { up.name, up.count, up.bytes })
    near({ GBps = 2000000 / 150e-6 / 1e9, least_GBps = 10, greatest_GBps = 20, total_ms = 0.16 }, up)
    assert.equal(require("ett.json").null, down.GBps)
    near(500000 / 150e-6 / 1e9, found.series[1].GBps)
    near(1500000 / 150e-6 / 1e9, found.series[2].GBps)
    assert.equal(2, #found.series)
    local without = maker.new{ rank = 0 }
    without:kernel("a", 0, 100)
    assert.matches("needs copies", maker.reason({ without }, "memory_bandwidth"))
    without.rank = 1
    assert.equal(2, #maker.computed({ r, without }, "memory_bandwidth", { top = 2 }).series)
  end)

  it("memory_bandwidth: the series has all bytes of the span, also at its ends and at borders of its parts", function()
    math.randomseed(11)
    for case = 1, 12 do
      local r, copies, parts, length = maker.new{ rank = 0 }, {}, 3 + case % 5, 840
      r:kernel("a", 0, 10)
      r:kernel("b", length - 10, 10)
      local function copy(ts, dur)
        local bytes = 1000 * math.random(1, 50)
        copies[#copies + 1] = { ts, ts + dur, bytes }
        r:kernel("HtoD", ts, dur, { cat = "gpu_memcpy", args = { bytes = bytes } })
      end
      copy(0, 0) -- without duration: at the start, at a border, at the end
      copy(length // parts, 0)
      copy(length, 0)
      copy(0, length) -- all parts
      copy(length - 1, 1)
      for _ = 1, 20 do
        local ts = math.random(0, length - 200)
        copy(ts, math.random(0, 200))
      end
      --- Bytes of [from, to) by the overlap with each copy; one without duration is in the part that it starts.
      local function moved(from, to, last)
        local sum = 0.0
        for _, each in ipairs(copies) do
          local a, b, bytes = table.unpack(each)
          if a == b then
            if a >= from and (a < to or last and a == to) then sum = sum + bytes end
          else
            sum = sum + bytes * math.max(0, math.min(b, to) - math.max(a, from)) / (b - a)
          end
        end
        return sum
      end
      maker.with({ r }, function(folder)
        local series = assert(maker.metric(folder, "memory_bandwidth", { top = parts })).series
        local whole, width = 0.0, length / parts
        assert.equal(parts, #series)
        for i, part in ipairs(series) do
          assert.near(moved((i - 1) * width, i * width, i == parts), part.GBps * width * 1e3, 1e-3)
          whole = whole + part.GBps * width * 1e3
        end
        local all = 0
        for _, each in ipairs(copies) do all = all + each[3] end
        near(all, whole)
        -- A window has the bytes of a copy that began before it.
        series = assert(maker.metric(folder, "memory_bandwidth", { top = 1, window = { 0.3, 0.5 } })).series
        assert.near(moved(300, 500), series[1].GBps * 200e3, 1e-3)
      end)
    end
  end)

  it("annotation_table: device time of ranges on the device, else of the host's", function()
    local host = maker.new{ rank = 0 }
    host:host("user_annotation", "outer", 0, 100)
    host:host("user_annotation", "inner", 40, 50)
    host:host("user_annotation", "idle", 200, 50)
    host:kernel("a", 110, 40, { launch = { ts = 10, dur = 5 } })
    host:kernel("b", 160, 30, { launch = { ts = 50, dur = 5 } })
    local list = maker.computed({ host }, "annotation_table").annotations
    assert.same({ "outer", "host", 1 }, { list[1].name, list[1].source, list[1].count })
    near({ total_ms = 0.08, busy_ms = 0.07 }, list[1])
    near({ name = "inner", busy_ms = 0.03 }, list[2])
    assert.equal(2, #list)
    host:add{ ph = "X", cat = "gpu_user_annotation", name = "outer", pid = 0, tid = 7, ts = 105, dur = 60,
      args = { device = 0, stream = 7 } }
    list = maker.computed({ host }, "annotation_table").annotations
    assert.same({ "outer", "device", 1 }, { list[1].name, list[1].source, #list })
    near({ total_ms = 0.06, busy_ms = 0.045 }, list[1])
  end)

  it("stream_idle: idle of each stream by cause", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 100, 50, { launch = { ts = 0, dur = 5 } })
    r:kernel("b", 200, 50, { launch = { ts = 160, dur = 5 } }) -- launched in the gap
    r:kernel("c", 300, 50, { launch = { ts = 170, dur = 5 } }) -- launched before it
    r:kernel("d", 380, 20)
    r:kernel("e", 120, 10, { stream = 9 })
    local list = maker.computed({ r }, "stream_idle").streams
    assert.same({ 7, 4, 9, 1 }, { list[1].stream, list[1].rows, list[2].stream, list[2].rows })
    near({ span_ms = 0.3, busy_ms = 0.17, host_ms = 0.05, device_ms = 0.05, unknown_ms = 0.03 }, list[1])
    near(0, list[2].idle_ms)
  end)

  it("kernel_counters: sums by kernel and by the operator of the launch of the same place", function()
    local fma, add = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
      "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
    local r = maker.new{ rank = 0 }
    for i, name in ipairs{ "gemm", "add", "gemm" } do
      r:host("cpu_op", name == "gemm" and "aten::mm" or "aten::add", 100 * i, 50)
      r:host("cuda_runtime", "cudaLaunchKernel", 100 * i + 10, 5)
      r:add{ ph = "X", cat = "cuda_profiler_range", name = name, pid = 0, tid = 7, ts = 1000 + 10 * i, dur = 5,
        args = { [fma] = name == "gemm" and 10 * i or 0, [add] = "7", other = 3 } }
    end
    local found = maker.computed({ r }, "kernel_counters")
    assert.same({ { name = "gemm", count = 2, flops = 94.0, [fma] = 40.0, [add] = 14.0 },
      { name = "add", count = 1, flops = 7.0, [fma] = 0.0, [add] = 7.0 } }, found.kernels)
    assert.same({ "aten::mm", 94.0 }, { found.operators[1].name, found.operators[1].flops })
    r:host("cuda_runtime", "cudaLaunchKernel", 900, 5) -- a launch without counters: no pairs
    maker.with({ r }, function(folder)
      assert.same({}, assert(maker.metric(folder, "kernel_counters")).operators)
      local cut = assert(maker.metric(folder, "kernel_counters", { window = { 0.92, 0.925 } }))
      assert.same({ 1, "add" }, { #cut.kernels, cut.kernels[1].name })
    end)
  end)

  it("--launched-only leaves out rows that no recorded call launched", function()
    local r = maker.new{ rank = 0 }
    r:kernel("before", 0, 50)
    r:kernel("a", 100, 100, { launch = { ts = 60, dur = 5 } })
    maker.with({ r }, function(folder)
      near(150, assert(maker.metric(folder, "device_time")).ranks["0"].busy_us)
      near(100, assert(maker.metric(folder, "device_time", { launched_only = true })).ranks["0"].busy_us)
    end)
    assert.matches("no device row has a launch call; the trace has no launch calls",
      maker.reason({ maker.new{ rank = 0 }:kernel("before", 0, 50) }, "device_time", { launched_only = true }))
  end)

  it("mfu: a stage of a pipeline that is idle at the ends of a step counts the whole step", function()
    local r = maker.new { rank = 0 }
    r:step(1, 0, 1000)
    r:kernel("first", 0, 600, { device = 0, args = { model_flops = 6e8 } })
    r:kernel("last", 400, 500, { device = 1, args = { model_flops = 6e8 } })
    maker.with({ r }, function(folder)
      near(6e8 / 1e-3 / 1e12, assert(maker.metric(folder, "mfu", { peak_flops = 1e12 })).mfu)
      near(6e8 / 0.6e-3 / 1e12, assert(maker.metric(folder, "mfu", { peak_flops = 1e12, window = { 0, 0.6 } })).mfu)
      assert.is_nil(assert(maker.metric(folder, "mfu", { peak_flops = 1e12 })).note)
      assert.matches("a share above 1", assert(maker.metric(folder, "mfu", { peak_flops = 1e11 })).note)
    end)
  end)

  it("mfu: a trace of forward passes counts 2 x parameters", function()
    for _, backward in ipairs{ false, true } do
      local r = maker.new{ rank = 0, world = 1 }
      r:step(1, 0, 1000):host("cpu_op", "aten::mm", 10, 20)
      if backward then r:host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 40, 20) end
      r:kernel("gemm", 100, 100)
      local found = maker.computed({ r }, "mfu", { peak_flops = 1e12, model_params = 1e6, batch_size = 2,
        seq_len = 10 })
      near((backward and 6 or 2) * 1e6 * 20 / 1e-3 / 1e12, found.mfu)
    end
  end)

  it("copies that run as kernels are copies", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:kernel("gemm", 100, 100):kernel("__amd_rocclr_copyBuffer", 300, 50)
    r:kernel("__amd_rocclr_fillBufferAligned", 400, 30)
    local found = maker.computed({ r }, "device_time").ranks["0"]
    near({ comp_union_us = 100, mem_union_us = 80, mem_ops = 2, kernels = 3 }, found)
  end)

  it("MTIA: rows of one category are compute, DMA or waiting", function()
    local r = maker.new{ rank = 0, world = 1 }
    for _, row in ipairs{ { "fc-dtype_Float", 100, 60 }, { "dma_request", 200, 30 }, { "event_wait", 300, 500 } } do
      r:add{ cat = "mtia_ccp_events", name = row[1], pid = 9, tid = 801, ts = row[2], dur = row[3],
        args = { stream = 102 } }
    end
    local found = maker.computed({ r }, "device_time").ranks["0"]
    near({ comp_union_us = 60, mem_union_us = 30, gpu_span_us = 130 }, found)
  end)

  it("the page of a trace without device rows counts no device", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:host("cpu_op", "aten::mm", 10, 20)
    local view <close> = maker.view({ r })
    local page = require("ett.trace.html").page(view)
    for _, rank in pairs(page.data.device_time.ranks) do assert.is_nil(rank.gpu_span_us) end
    assert.matches("gpu_span_us !== undefined", page:text(), 1, true)
  end)
end)

describe("the GPU metrics on an XLA trace of a GPU", function()
  it("count the kernels of the streams once, copies on the same line apart, and NCCL", function()
    local events = {}
    local function meta(name, value, tid)
      events[#events + 1] = { ph = "M", name = name, pid = 1, tid = tid, args = { name = value } }
    end
    meta("process_name", "/device:GPU:0")
    meta("thread_name", "Stream #13(MemcpyD2H,Memset,Compute)", 13)
    meta("thread_name", "Stream #14(MemcpyH2D)", 14)
    meta("thread_name", "XLA Ops", 3)
    local function add(name, tid, ts, dur) events[#events + 1] = { ph = "X", name = name, pid = 1, tid = tid, ts = ts,
      dur = dur } end
    add("gemm_fusion_dot_1", 13, 1000, 100)
    add("gemm_fusion_dot.1", 3, 1000, 110)
    add("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 13, 1200, 50)
    add("all-reduce.1", 3, 1200, 60)
    add("MemcpyD2H", 13, 1300, 10)
    add("MemcpyH2D", 14, 1000, 20)
    maker.with_xla(events, function(folder)
      local found = assert(maker.metric(folder, "device_time")).ranks["/device:GPU:0"]
      assert.same({ 4, 1, 1, 2 }, { found.device_ops, found.comp_kernels, found.comm_kernels, found.mem_ops })
      assert.same({ 100, 50, 30, 160 }, { found.comp_sum_us, found.comm_sum_us, found.mem_union_us, found.busy_us })
      assert.equal("all_reduce", assert(maker.metric(folder, "collective_table")).collectives[1].kind)
    end)
  end)
end)
