-- Metrics on traces small enough to do the sums by hand. All times in microseconds.
local maker = require "trace_maker"

local function near(want, got, slack)
  assert.is_number(got)
  assert.is_true(math.abs(want - got) <= (slack or 1e-9) * math.max(1, math.abs(want)),
    ("want %s, got %s"):format(want, got))
end

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
    maker.with(pair(), function(folder)
      local r = assert(maker.metric(folder, "device_time")).ranks["0"]
      near(700, r.gpu_span_us)
      near(650, r.busy_us)
      near(50, r.idle_us)
      near(300, r.comm_union_us)
      near(400, r.comp_union_us)
      near(70, r.mem_union_us)
      near(100, r.overlap_comm_comp_us)
      near(200, r.exposed_comm_us)
      near(1 / 3, r.overlap_ratio_of_comm)
      near(400 / 700, r.top_kernel_share)
      assert.equal(2, r.comm_kernels)
      assert.equal(2, r.comp_kernels)
      assert.equal(1, r.mem_ops)
      assert.same({ all_reduce = 2 }, r.comm_by_kernel_type)
    end)
  end)

  it("comm_comp_overlap: means over ranks, ratios of sums", function()
    maker.with(pair(), function(folder)
      local r = assert(maker.metric(folder, "comm_comp_overlap"))
      -- Rank 1: communication 270-452 and 690-801 = 293; overlap 30 + 52 = 82.
      near((300 + 293) / 2 / 1000, r.comm_time_ms)
      near(0.4, r.comp_time_ms)
      near((100 + 82) / 2 / 1000, r.overlap_time_ms)
      near((100 + 82) / (300 + 293), r.overlap_ratio_of_comm)
      near((100 + 82) / 800, r.overlap_ratio_of_comp)
    end)
  end)

  it("coll_call_num: each call once", function()
    maker.with(pair(), function(folder)
      local r = assert(maker.metric(folder, "coll_call_num"))
      assert.equal(4, r.total_calls)
      assert.same({ ["0"] = 2, ["1"] = 2 }, r.calls_per_rank)
      assert.same({ all_reduce = 4 }, r.calls_by_type)
      assert.same({ ["nccl:all_reduce"] = 1 }, r.annotations["0"])
    end)
  end)

  it("coll_call_num: an all-to-all that NCCL runs as SendRecv", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:host("user_annotation", "nccl:all_to_all", 0, 50, { tid = 3 })
    local name = "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"
    r:kernel(name, 100, 10, { launch = { ts = 20, dur = 5, tid = 3 } })
    r:kernel(name, 120, 10, { launch = { ts = 60, dur = 5, tid = 3 } })
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "coll_call_num"))
      assert.same({ all_to_all = 1, send_recv = 1 }, found.calls_by_type)
      assert.same({ send_recv = 2 }, found.calls_by_kernel_type)
    end)
  end)

  it("straggler_lag: lag, waits, transfer, who is last", function()
    maker.with(pair(), function(folder)
      local r = assert(maker.metric(folder, "straggler_lag"))
      assert.equal(2, r.num_collectives)
      near(15, r.mean_lag_us)
      near(20, r.p50_lag_us)
      near(20, r.max_lag_us)
      near(280, r.sum_transfer_us)
      near(1.5, r.mean_end_spread_us)
      assert.same({ ["0"] = 1, ["1"] = 1 }, r.last_arriver)
      near(20, r.wait_us_per_rank["0"])
      near(10, r.wait_us_per_rank["1"])
    end)
  end)

  it("straggler_lag: a single rank waits for no other", function()
    maker.with({ pair()[1] }, function(folder)
      local result, reason = maker.metric(folder, "straggler_lag")
      assert.is_nil(result)
      assert.matches("at least two ranks", reason)
    end)
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
    maker.with(ranks, function(folder)
      local r = assert(maker.metric(folder, "iter_time"))
      assert.equal(3, r.num_iterations)
      near((110 + 220 + 310) / 3 / 1000, r.avg_iter_time_ms)
      near(0.110, r.min_iter_time_ms)
      near(0.310, r.max_iter_time_ms)
      near(math.sqrt(((110 - 640 / 3) ^ 2 + (220 - 640 / 3) ^ 2 + (310 - 640 / 3) ^ 2) / 2) / 1000, r.std_iter_time_ms)
    end)
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
      near(50, one.comp_union_us)
      near(100, one.gpu_span_us)
      assert.equal(0, one.comp_kernels) -- it started in step 7
      assert.has_error(function() maker.metric(folder, "device_time", { step = 9 }) end)
      -- The window ends in step 8, which counts as a whole.
      steps = assert(maker.metric(folder, "step_table", { window = { 0.05, 0.12 } })).ranks["0"].per_step
      assert.equal(1, #steps)
      near(50, steps[1].comp_union_us)
      near(0.5, steps[1].idle_frac)
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
    maker.with({ r, again }, function(folder)
      local only = assert(maker.metric(folder, "step_table", { step = 8, window = { 1.9, 2.2 } })).ranks["0"]
      assert.same({ 1, { 0.05 } }, { #only.steps, only.gpu_step_ms })
    end)
  end)

  it("--window: cut to the window, counted where they start", function()
    maker.with(pair(), function(folder)
      local r = assert(maker.metric(folder, "device_time", { window = { 0.2, 0.4 } })).ranks["0"]
      near(150, r.comm_union_us)
      near(100, r.comp_union_us)
      near(50, r.overlap_comm_comp_us)
      near(200, r.gpu_span_us)
      assert.equal(1, r.comm_kernels)
      assert.equal(0, r.comp_kernels)
    end)
  end)

  it("traffic_distribution: by the group's description, with bytes", function()
    local a, b = pair()[1], maker.new{ rank = 1, world = 2 }
    b:kernel(nccl, 100, 50, { args = all_reduce(500, "tp") })
    b:kernel(nccl, 200, 50, { args = all_reduce(500, "undefined") })
    maker.with({ a, b }, function(folder)
      local r = assert(maker.metric(folder, "traffic_distribution"))
      near(12000, r.dp_bytes)
      near(2000, r.tp_bytes)
      near(2000, r.unknown_bytes)
      near(0.75, r.fractions.dp)
      near(0.3, r.dp_time_ms)
      assert.equal("process groups", r.mode)
    end)
  end)

  it("traffic_window: between dimensions", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:kernel(nccl, 100, 50, { args = all_reduce(500, "tp") })
    r:kernel(nccl, 160, 50, { args = all_reduce(500, "tp") })
    r:kernel(nccl, 240, 50, { args = all_reduce(500, "dp") })
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "traffic_window"))
      assert.equal(1, found.windows)
      near(30, found.mean_window_us)
      assert.equal("tp -> dp", found.pairs[1].pair)
    end)
  end)

  it("device_time: only complete events are device rows", function()
    local r = maker.new{ rank = 0 }
    r:kernel("gemm", 100, 50, { launch = { ts = 90, dur = 5 } })
    for i, ph in ipairs{ "b", "e", "n", "i", "C" } do
      r:kernel("range", 100 * i, nil, { launch = { ts = 90, dur = 5 } })
      r.events[#r.events].ph = ph
    end
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "device_time")).ranks["0"]
      assert.same({ 1, 1, 50 }, { found.device_ops, found.comp_kernels, found.gpu_span_us })
    end)
  end)

  it("sm: coverage weighted by time", function()
    local r = maker.new{ rank = 0 }
    local function args(blocks, warps, occupancy)
      return { args = { ["blocks per SM"] = blocks, ["warps per SM"] = warps,
        ["est. achieved occupancy %"] = occupancy } }
    end
    r:kernel("a", 0, 100, args(0.5, 2, 10)):kernel("b", 100, 300, args(8.0, 6, 50))
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "sm"))
      near((0.5 * 100 + 1 * 300) / 400, found.mean_sm_coverage)
      near(5, found.ranks["0"].mean_warps_per_sm)
      near(0.4, found.ranks["0"].est_achieved_occupancy)
    end)
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
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "pipeline_bubble"))
      assert.equal("stage markers", found.method)
      near(0.4, found.total_time_ms)
      near(0.2, found.bubble_time_ms)
      near(0.5, found.bubble_ratio)
    end)
    -- A range of the whole schedule is no unit, though kernels are launched in it directly.
    r:host("user_annotation", "forward_backward_step", 0, 55)
    r:kernel("send", 200, 10, { launch = { ts = 25, dur = 2 } })
    r:kernel("send", 400, 10, { launch = { ts = 52, dur = 2 } })
    maker.with({ r }, function(folder)
      near(0.2, assert(maker.metric(folder, "pipeline_bubble")).bubble_time_ms)
    end)
    local device = maker.new{ rank = 0 }
    local ranges = { forward_step = { 0, 100 }, backward_step = { 300, 100 }, forward_backward_step = { 0, 400 } }
    for name, at in pairs(ranges) do
      device:add{ cat = "gpu_user_annotation", name = name, pid = 0, tid = 7, ts = at[1], dur = at[2],
        args = { device = 0, stream = 7 } }
    end
    maker.with({ device:kernel("gemm", 0, 100):kernel("gemm", 300, 100) }, function(folder)
      near(0.5, assert(maker.metric(folder, "pipeline_bubble")).bubble_ratio)
    end)
    -- A backward range that computes a forward pass again is a unit.
    local again = maker.new{ rank = 0 }
    again:host("user_annotation", "backward_step", 0, 100):host("user_annotation", "forward_one_chunk", 10, 20)
    again:host("user_annotation", "backward_one_chunk", 50, 20)
    again:kernel("gemm", 100, 50, { launch = { ts = 15, dur = 2 } })
    again:kernel("gemm", 170, 30, { launch = { ts = 80, dur = 2 } }):kernel("adam", 280, 20)
    maker.with({ again }, function(folder)
      near(0.12, assert(maker.metric(folder, "pipeline_bubble")).bubble_time_ms)
    end)
    local bare = maker.new{ rank = 0 }
    bare:kernel("gemm", 0, 10):kernel("gemm", 100, 10)
    maker.with({ bare }, function(folder)
      local result, reason = maker.metric(folder, "pipeline_bubble")
      assert.is_nil(result)
      assert.matches("stage markers", reason)
    end)
  end)

  it("pipeline_bubble: a send counts only inside the step that it starts in", function()
    local r = maker.new{ rank = 0, world = 2 }
    r:step(1, 0, 1000):step(2, 1000, 3000)
    r:kernel("gemm", 0, 300):kernel("gemm", 1100, 1500):kernel("gemm", 3000, 900)
    r:kernel("ncclDevKernel_SendRecv(x)", 900, 2000, { stream = 9, args = { ["Collective name"] = "send" } })
    maker.with({ r }, function(folder)
      require("ett.base.folder").write(folder .. "/workload_card.yaml", "pp: 2\n")
      local found = assert(maker.metric(folder, "pipeline_bubble", { step = 1 }))
      assert.equal("send/recv kernels", found.method)
      near(1, found.total_time_ms)
      near(0.1, found.bubble_time_ms)
      near(0.1, found.bubble_ratio)
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
      near(1, found.measured_duration_s)
      near(800, found.throughput_tokens_per_s)
      local mfu = assert(maker.metric(folder, "mfu", { peak_flops = 1e10 }))
      near(6e6 * 800 / 2 / 1 / 1e10, mfu.mfu)
      local _, why = maker.metric(folder, "mfu")
      assert.matches("peak", why)
      local on_cluster = assert(maker.metric(folder, "mfu",
        { cluster = require("ett.profile.cluster").get("dgx_h100") }))
      near(6e6 * 800 / 2 / 1 / 989.5e12, on_cluster.mfu)
      assert.equal("bf16 of H100-SXM-80GB, cluster dgx_h100", on_cluster.peak_from)
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
      maker.with({ r:kernel("gemm", 150, 20) }, function(folder)
        assert.same({ 1.0 }, assert(maker.metric(folder, "iter_time")).iter_times_ms)
      end)
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
      assert.matches("workload_card%.yaml: line 3: field 'batch_size' must be a positive number, got 'twelve'",
        card "seq_len: 4\ndata:\n  batch_size: twelve\n")
      assert.matches("line 2: field 'seq_length' must be a positive number, got %-4",
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
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "token_to_expert_assignment")).ranks["0"]
      assert.same({ 60, 20 }, found.sent)
      assert.same({ 10, 14 }, found.received)
      near(1.5, found.imbalance)
    end)
    -- PyTorch writes 30 of more sizes, then "...".
    local large, sizes = maker.new{ rank = 0, world = 64 }, ("4, "):rep(30) .. "..."
    large:kernel(name, 100, 50, { args = { ["Collective name"] = "all_to_allv", ["In split size"] = "[" .. sizes .. "]",
      ["Out split size"] = "[" .. sizes .. "]", ["In msg nelems"] = 256, dtype = "Float", ["Group size"] = 64 } })
    maker.with({ large }, function(folder)
      local none, reason = maker.metric(folder, "token_to_expert_assignment")
      assert.is_nil(none)
      assert.matches("1 of the 1 all%-to%-alls have only the first sizes", reason)
    end)
    local number = maker.new{ rank = 0, world = 2 } -- a number is no list
    number:kernel(name, 100, 50, { args = { ["Collective name"] = "all_to_allv", ["In split size"] = 4 } })
    maker.with({ number }, function(folder)
      local _, reason = maker.metric(folder, "token_to_expert_assignment")
      assert.matches("none of the 1 all%-to%-alls has a non%-empty 'In split size'", reason)
    end)
    maker.with(pair(), function(folder)
      local _, reason = maker.metric(folder, "token_to_expert_assignment")
      assert.matches("no all%-to%-all", reason)
    end)
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
    maker.with(ranks, function(folder)
      local found = assert(maker.metric(folder, "straggler_lag"))
      assert.equal(2, found.groups)
      assert.same({ ["3"] = 500.0 }, found.clock_difference_us)
      assert.same({ ["0"] = 0, ["1"] = 0, ["2"] = 0, ["3"] = 0 }, found.offset_vs_first_rank)
    end)
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
    maker.with(pair(), function(folder)
      assert.matches("ranges", select(2, maker.metric(folder, "ttft")))
    end)
  end)

  it("temporal_breakdown: parts add up, idle has its cause", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 100, 100, { launch = { ts = 10, dur = 5 } })
    r:kernel("b", 250, 50, { launch = { ts = 20, dur = 5 } })    -- launched before the gap: the device waited
    r:kernel("c", 400, 100, { launch = { ts = 390, dur = 5 } })  -- launched in the gap: the host was late
    r:kernel("d", 520, 10)                                       -- launch not recorded
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "temporal_breakdown")).ranks["0"]
      near(0.26, found.compute_ms)
      near(0.17, found.idle_ms)
      near(0.05, found.idle_device_ms)
      near(0.1, found.idle_host_ms)
      near(0.02, found.idle_unknown_ms)
      near(0.43, found.span_ms)
    end)
    maker.with(pair(), function(folder)
      for _, row in pairs(assert(maker.metric(folder, "temporal_breakdown")).ranks) do
        near(row.span_ms, row.compute_ms + row.exposed_comm_ms + row.memory_ms + row.idle_ms)
      end
    end)
  end)

  it("kernel_breakdown: totals, shares, percentiles", function()
    local r = maker.new{ rank = 0 }
    for i = 1, 20 do r:kernel("small", 100 * i, i) end
    r:kernel("large", 5000, 790)
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "kernel_breakdown"))
      assert.equal("large", found.kernels[1].name)
      near(0.79, found.kernels[1].share)
      near(0.21, found.kernels[2].total_ms)
      near(10, found.kernels[2].p50_us)
      near(19, found.kernels[2].p95_us)
      assert.equal(1, #assert(maker.metric(folder, "kernel_breakdown", { top = 1 })).kernels)
    end)
  end)

  it("collective_table: nccl-tests' bandwidths", function()
    maker.with(pair(), function(folder)
      local rows = assert(maker.metric(folder, "collective_table")).collectives
      assert.equal(2, #rows)
      assert.equal(4000, rows[1].bytes)
      assert.equal(2, rows[1].calls)
      near(4000 * 2 / 382e-6 / 1e9, rows[1].algbw_GBps)
      near(rows[1].algbw_GBps, rows[1].busbw_GBps) -- factor 2 (n - 1) / n is 1 for two ranks
    end)
  end)

  it("launch_stats: delay and queue", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 100, 100, { launch = { ts = 0, dur = 5 } })
    r:kernel("b", 200, 100, { launch = { ts = 50, dur = 5 } })
    r:kernel("c", 500, 2, { launch = { ts = 490, dur = 8 } })
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "launch_stats")).ranks["0"]
      near((100 + 150 + 10) / 3, found.mean_delay_us)
      near(100, found.p50_delay_us)
      assert.equal(2, found.max_queue)
      assert.equal(1, found.short_rows)
      -- Queue over 0-502: 1 for 0-50, 2 for 50-200, 1 for 200-300, 0, 1 for 490-502.
      near((50 + 300 + 100 + 12) / 502, found.mean_queue)
    end)
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
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "launch_stats")).ranks["0"]
      assert.equal(22, found.rows)
      assert.equal(3, found.launched)
      assert.equal(1, found.without_launch)
      assert.equal(1, found.short_rows) -- the kernel of 5 us; no graph, though each kernel is shorter than the call
      near((90 + 100 + 10) / 3, found.mean_delay_us)
      near(100, found.max_delay_us)
      near((200 + 200 + 8) / 3, found.mean_launch_call_us)
      assert.equal(1, found.max_queue)
      near((880 + 890 + 15) / 1995, found.mean_queue) -- to the last kernel's end
    end)
  end)

  it("launch_stats: a kernel that ends before its launch call does not shorten the queue of others", function()
    local r = maker.new{ rank = 0 }
    r:kernel("early", 100, 20, { launch = { ts = 180, dur = 5 } }) -- a device clock behind the host's
    r:kernel("a", 200, 100, { launch = { ts = 100, dur = 5 } })
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "launch_stats")).ranks["0"]
      assert.equal(1, found.max_queue)
      near(1, found.mean_queue) -- 1 over 100-300
      near((100 - 80) / 2, found.mean_delay_us)
    end)
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
      near((40 + 20 + 200) / 400, seven.mean)
      near(150 / 400, seven.empty_share)
      assert.equal(2, seven.most)
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
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "memory_bandwidth", { top = 2 }))
      local up, down = found.kinds[1], found.kinds[2]
      assert.same({ "HtoD", 3, 2000000.0 }, { up.name, up.count, up.bytes })
      near(2000000 / 150e-6 / 1e9, up.GBps)
      near(10, up.least_GBps)
      near(20, up.greatest_GBps)
      near(0.16, up.total_ms)
      assert.equal(require("ett.json").null, down.GBps)
      near(500000 / 150e-6 / 1e9, found.series[1].GBps)
      near(1500000 / 150e-6 / 1e9, found.series[2].GBps)
      assert.equal(2, #found.series)
    end)
    local without = maker.new{ rank = 0 }
    without:kernel("a", 0, 100)
    maker.with({ without }, function(folder)
      assert.matches("needs copies", select(2, maker.metric(folder, "memory_bandwidth")))
    end)
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
          near(moved((i - 1) * width, i * width, i == parts), part.GBps * width * 1e3, 1e-6)
          whole = whole + part.GBps * width * 1e3
        end
        local all = 0
        for _, each in ipairs(copies) do all = all + each[3] end
        near(all, whole, 1e-9)
        -- A window has the bytes of a copy that began before it.
        series = assert(maker.metric(folder, "memory_bandwidth", { top = 1, window = { 0.3, 0.5 } })).series
        near(moved(300, 500), series[1].GBps * 200e3, 1e-6)
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
    maker.with({ host }, function(folder)
      local list = assert(maker.metric(folder, "annotation_table")).annotations
      assert.same({ "outer", "host", 1 }, { list[1].name, list[1].source, list[1].count })
      near(0.08, list[1].total_ms)
      near(0.07, list[1].busy_ms)
      assert.equal("inner", list[2].name)
      near(0.03, list[2].busy_ms)
      assert.equal(2, #list)
    end)
    host:add{ ph = "X", cat = "gpu_user_annotation", name = "outer", pid = 0, tid = 7, ts = 105, dur = 60,
      args = { device = 0, stream = 7 } }
    maker.with({ host }, function(folder)
      local list = assert(maker.metric(folder, "annotation_table")).annotations
      assert.same({ "outer", "device", 1 }, { list[1].name, list[1].source, #list })
      near(0.06, list[1].total_ms)
      near(0.045, list[1].busy_ms)
    end)
  end)

  it("stream_idle: idle of each stream by cause", function()
    local r = maker.new{ rank = 0 }
    r:kernel("a", 100, 50, { launch = { ts = 0, dur = 5 } })
    r:kernel("b", 200, 50, { launch = { ts = 160, dur = 5 } }) -- launched in the gap
    r:kernel("c", 300, 50, { launch = { ts = 170, dur = 5 } }) -- launched before it
    r:kernel("d", 380, 20)
    r:kernel("e", 120, 10, { stream = 9 })
    maker.with({ r }, function(folder)
      local list = assert(maker.metric(folder, "stream_idle")).streams
      assert.same({ 7, 4, 9, 1 }, { list[1].stream, list[1].rows, list[2].stream, list[2].rows })
      near(0.3, list[1].span_ms)
      near(0.17, list[1].busy_ms)
      near(0.05, list[1].host_ms)
      near(0.05, list[1].device_ms)
      near(0.03, list[1].unknown_ms)
      near(0, list[2].idle_ms)
    end)
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
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "kernel_counters"))
      assert.same({ { name = "gemm", count = 2, flops = 94.0, [fma] = 40.0, [add] = 14.0 },
        { name = "add", count = 1, flops = 7.0, [fma] = 0.0, [add] = 7.0 } }, found.kernels)
      assert.same({ "aten::mm", 94.0 }, { found.operators[1].name, found.operators[1].flops })
    end)
    r:host("cuda_runtime", "cudaLaunchKernel", 900, 5) -- a launch without counters: no pairs
    maker.with({ r }, function(folder)
      assert.same({}, assert(maker.metric(folder, "kernel_counters")).operators)
      local cut = assert(maker.metric(folder, "kernel_counters", { window = { 0.92, 0.925 } }))
      assert.equal(1, #cut.kernels)
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
    maker.with({ maker.new{ rank = 0 }:kernel("before", 0, 50) }, function(folder)
      local _, why = maker.metric(folder, "device_time", { launched_only = true })
      assert.matches("no device row has a launch call; the trace has no launch calls", tostring(why))
    end)
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
      maker.with({ r }, function(folder)
        local found = assert(maker.metric(folder, "mfu", { peak_flops = 1e12, model_params = 1e6, batch_size = 2,
          seq_len = 10 }))
        near((backward and 6 or 2) * 1e6 * 20 / 1e-3 / 1e12, found.mfu)
      end)
    end
  end)

  it("copies that run as kernels are copies", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:kernel("gemm", 100, 100):kernel("__amd_rocclr_copyBuffer", 300, 50)
    r:kernel("__amd_rocclr_fillBufferAligned", 400, 30)
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "device_time")).ranks["0"]
      near(100, found.comp_union_us)
      near(80, found.mem_union_us)
      assert.equal(2, found.mem_ops)
      assert.equal(3, found.kernels)
    end)
  end)

  it("MTIA: rows of one category are compute, DMA or waiting", function()
    local r = maker.new{ rank = 0, world = 1 }
    for _, row in ipairs{ { "fc-dtype_Float", 100, 60 }, { "dma_request", 200, 30 }, { "event_wait", 300, 500 } } do
      r:add{ cat = "mtia_ccp_events", name = row[1], pid = 9, tid = 801, ts = row[2], dur = row[3],
        args = { stream = 102 } }
    end
    maker.with({ r }, function(folder)
      local found = assert(maker.metric(folder, "device_time")).ranks["0"]
      near(60, found.comp_union_us)
      near(30, found.mem_union_us)
      near(130, found.gpu_span_us)
    end)
  end)

  it("the page of a trace without device rows counts no device", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:host("cpu_op", "aten::mm", 10, 20)
    maker.with({ r }, function(folder)
      local view <close> = assert(require("ett.trace.view").open(folder, {}))
      local page = require("ett.trace.html").page(view)
      for _, rank in pairs(page.data.device_time.ranks) do assert.is_nil(rank.gpu_span_us) end
      assert.matches("gpu_span_us !== undefined", page:text(), 1, true)
    end)
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
