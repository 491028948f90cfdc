-- The TPU metrics on a hand-made trace of two chips. Times in microseconds.
local maker = require "trace_maker"
local stats = require "ett.trace.stats"

local function chip(events, pid, number)
  local function meta(name, value, tid) events[#events + 1] = { ph = "M", name = name, pid = pid, tid = tid,
    args = { name = value } } end
  meta("process_name", "/device:TPU:" .. number)
  meta("thread_name", "XLA Modules", 2)
  meta("thread_name", "XLA Ops", 3)
  events[#events + 1] = { ph = "X", name = "jit_step(1)", pid = pid, tid = 2, ts = 1000, dur = 1000,
    args = { run_id = "1" } }
  local function op(name, category, ts, dur, args)
    args.hlo_category = category
    args.device_duration_ps = ("%d"):format(math.floor(dur * 1e6 + 0.5))
    events[#events + 1] = { ph = "X", name = name, pid = pid, tid = 3, ts = ts, dur = dur, args = args }
  end
  op("fusion.1", "convolution fusion", 1000, 400, { model_flops = "4000000",
    long_name = "%fusion.1 = f32[8] fusion(f32[8] %a)" })
  -- JAX calls an all-reduce psum; a fusion whose name holds "reduce" is no communication.
  op("psum.7", "all-reduce", 1400, 100, { model_flops = "0", shape_with_layout = "bf16[1000,50]{1,0:T(8,128)}",
    long_name = "%psum.7 = bf16[1000,50]{1,0} all-reduce(bf16[1000,50] %x), replica_groups=[1,2]<=[2]" })
  op("multiply_reduce_fusion", "loop fusion", 1500, 50, { model_flops = "1000000" })
  op("reduce.3", "reduce", 1550, 50, { model_flops = "0" })
  op("psum.8", "all-reduce", 1700, 190, { shape_with_layout = "bf16[2000,50]{1,0:T(8,128)}",
    long_name = "%psum.8 = bf16[2000,50]{1,0} all-reduce(bf16[2000,50] %x), replica_groups=[1,2]<=[2]" })
  op("all-gather.1", "all-gather", 1900, 100, { shape_with_layout = "f32[100]{0}" })
end

local function with_trace(fn)
  local events = {}
  chip(events, 3, 0)
  chip(events, 4, 1)
  events[#events + 1] = { ph = "M", name = "process_name", pid = 900, args = { name = "/host:CPU" } }
  events[#events + 1] = { ph = "X", name = "all-reduce host thing", pid = 900, tid = 1, ts = 10, dur = 5000 }
  maker.with_xla(events, fn)
end

local function value(folder, name, options)
  local result, reason = maker.metric(folder, name, options)
  assert(result, reason)
  return result[name], result
end

describe("the TPU metrics on a hand-made trace", function()
  it("classify rows by category, per chip", function()
    with_trace(function(folder)
      assert.near(0.001, value(folder, "wall_time_s"), 1e-12)
      assert.near(390e-6, value(folder, "total_comm_time_s"), 1e-12)
      assert.near(500e-6, value(folder, "total_compute_time_s"), 1e-12)
      assert.near(290e-6, value(folder, "allreduce_comm_time_s"), 1e-12)
      assert.near(0.39, value(folder, "communication_fraction"), 1e-12)
      assert.near(0.5, value(folder, "compute_utilization_proxy"), 1e-12)
      assert.equal(6, value(folder, "num_comm_kernels"))
      assert.equal(6, value(folder, "num_comm_kernels_w_size_and_time"))
      assert.near(130e-6, value(folder, "avg_comm_kernel_time_s"), 1e-12)
      -- (100 000 + 200 000 + 400 bytes) / 390 us
      assert.near(300400 / 390e-6 / 1e9, value(folder, "avg_comm_bandwidth_GBps"), 1e-9)
      local _, whole = value(folder, "wall_time_s")
      assert.same({ "/device:TPU:0", "/device:TPU:1" }, stats.keys(whole.per_device))
    end)
  end)

  local function view_of(folder, ...)
    local metrics = require "ett.trace.metrics"
    return assert(require("ett.trace.view").open(folder, { args = metrics.args(metrics.load_all { ... }) }))
  end

  --- A folder with two cores whose rows are { name, category, from, to, shape, text after the name, number of the core
  --- (0) }, in microseconds.
  local function with_core(rows, fn)
    local events = {}
    local function meta(name, label, pid, tid)
      events[#events + 1] = { ph = "M", name = name, pid = pid, tid = tid, args = { name = label } }
    end
    for core = 0, 1 do
      meta("process_name", "/device:TPU:" .. core, 3 + core)
      meta("thread_name", "XLA Ops", 3 + core, 3)
    end
    for _, row in ipairs(rows) do
      local name, category, from, to, shape, text, core = table.unpack(row, 1, 7)
      events[#events + 1] = { ph = "X", name = name, pid = 3 + (core or 0), tid = 3, ts = from, dur = to - from,
        args = { hlo_category = category or nil, shape_with_layout = shape, device_duration_ps = ("%d"):format(
          (to - from) * 1000000), long_name = text and ("%%%s = %s %s"):format(name, shape or "()", text) or nil } }
    end
    maker.with_xla(events, fn)
  end

  local half = "bf16[1024,1024]{1,0:T(8,128)(2,1)}" -- 2 MiB
  local gathered = "bf16[2048,1024]{1,0:T(8,128)(2,1)}" -- 4 MiB
  local gather = {
    { "fusion.1", "loop fusion", 0, 100 },
    { "all-gather-start.3", "all-gather-start", 100, 101, ("(%s, %s)"):format(half, gathered),
      "all-gather-start(" .. half .. " %p.1), channel_id=1, replica_groups=[1,2]<=[2], dimensions={0}" },
    { "fusion.2", "convolution fusion", 101, 401 },
    { "all-gather-done.7", "all-gather-done", 598, 600, gathered,
      ("all-gather-done((%s, %s) %%all-gather-start.3)"):format(half, gathered) },
    { "fusion.3", "loop fusion", 600, 700 },
  }

  it("give an asynchronous collective the time from its start to its end", function()
    with_core(gather, function(folder)
      local view <close> = view_of(folder, "collective_table", "device_time", "tpu_device_time")
      local lane = view:lanes()[1]
      local all = lane:collectives()
      assert.same({ 1, "all_gather", "all-gather", 4 << 20, 2 }, { #all, all[1].kind, all[1].kernel_type, all[1].bytes,
        all[1].group_size })
      assert.same({ 100.0, 600.0 }, { view:us(all[1].ts), view:us(all[1].stop) })
      assert.same({ 500.0, 500.0, 700.0 }, { view:us(lane:comm():measure()), view:us((lane:comm_sum())),
        view:us(lane:busy():measure()) })
      local overlap = assert(maker.metric(folder, "comm_comp_overlap"))
      assert.same({ 0.5, 0.5, 0.3, 0.6 }, { overlap.comm_time_ms, overlap.comp_time_ms, overlap.overlap_time_ms,
        overlap.overlap_ratio_of_comm })
      local parts = assert(maker.metric(folder, "temporal_breakdown"))
      assert.same({ 0.5, 0.2, 0.0 }, { parts.compute_ms, parts.exposed_comm_ms, parts.idle_ms })
      assert.near((4 << 20) / 500e-6 / 1e9, value(folder, "avg_comm_bandwidth_GBps"), 1e-9)
      assert.near(500e-6, value(folder, "total_comm_time_s"), 1e-12)
      assert.near(500e-6, value(folder, "avg_comm_kernel_time_s"), 1e-12)
      assert.same({ 1, 1, 1, 1 }, { value(folder, "num_comm_kernels"), overlap.num_comm_kernels,
        value(folder, "num_comm_kernels_w_size_and_time"),
        select(2, value(folder, "avg_comm_kernel_time_s")).num_comm_kernels })
      local core = assert(maker.metric(folder, "tpu_device_time")).cores["/device:TPU:0"]
      assert.near(0.5, core.collectives["all-gather|4194304"].ms, 1e-12)
      assert.equal(1, #view:warnings()) -- unknown_rank
    end)
  end)

  local function whole_us(ms) return math.floor(ms * 1000 + 0.5) end

  it("cut an asynchronous collective by a window that holds neither of its rows", function()
    with_core(gather, function(folder)
      local result = assert(maker.metric(folder, "comm_comp_overlap", { window = { 0.35, 0.45 } }))
      assert.same({ 100, 51, 51 }, { whole_us(result.comm_time_ms),
        whole_us(result.comp_time_ms), whole_us(result.overlap_time_ms) })
      local first = assert(maker.metric(folder, "coll_call_num", { window = { 0, 0.35 } }))
      local second = maker.metric(folder, "coll_call_num", { window = { 0.35, 0.7 } })
      assert.same({ 1, 0 }, { first.total_calls, second and second.total_calls or 0 })
    end)
  end)

  it("pair the halves by operand, else by name, else by opcode", function()
    local small, large = "f32[16]{0}", "f32[64]{0}"
    local function row(name, category, from, shape, text) return { name, category, from, from + 1, shape, text } end
    with_core({
      -- Two in flight, ended in the same order; the operand decides, not the number. One runs a second time.
      row("all-reduce-start.1", "all-reduce-start", 0, small, "all-reduce-start(f32[16]{0} %a)"),
      row("all-reduce-start.2", "all-reduce-start", 10, large, "all-reduce-start(f32[64]{0} %b)"),
      row("all-reduce-done.2", "all-reduce-done", 20, small, "all-reduce-done(f32[16]{0} %all-reduce-start.1)"),
      row("all-reduce-done.1", "all-reduce-done", 30, large, "all-reduce-done(f32[64]{0} %all-reduce-start.2)"),
      row("all-reduce-start.1", "all-reduce-start", 40, small, "all-reduce-start(f32[16]{0} %a)"),
      row("all-reduce-done.2", "all-reduce-done", 45, small, "all-reduce-done(f32[16]{0} %all-reduce-start.1)"),
      -- A wrapper, with an update; without a category; without percent signs.
      row("reduce-scatter-start.4", "async-start", 50, "((f32[64]{0}), f32[32]{0}, s32[]{:S(2)})",
        "async-start(f32[64]{0} %c), calls=%async_computation"),
      row("reduce-scatter-update.4", "async-update", 55, "((f32[64]{0}), f32[32]{0}, s32[]{:S(2)})",
        "async-update(((f32[64]{0}), f32[32]{0}, s32[]{:S(2)}) %reduce-scatter-start.4)"),
      row("reduce-scatter-done.4", "async-done", 60, "f32[32]{0}",
        "async-done(((f32[64]{0}), f32[32]{0}, s32[]{:S(2)}) %reduce-scatter-update.4)"),
      row("all-to-all-start", false, 70, nil, "async-start(f32[64]{0} %d), calls=%async_computation"),
      row("all-to-all-done", false, 79, nil, "async-done(all-to-all-start), calls=%async_computation"),
      -- Slices are no communication.
      row("slice-start", "async-start", 80, "((s8[64]{0}), s8[32]{0}, s32[])", "async-start(s8[64]{0} %e)"),
      row("slice-done", "async-done", 89, "s8[32]{0}", "async-done(((s8[64]{0}), s8[32]{0}, s32[]) %slice-start)"),
      -- By name, then by opcode.
      row("collective-permute-start.5", "collective-permute-start", 90), row("collective-permute-start.6",
        "collective-permute-start", 92),
      row("collective-permute-done.6", "collective-permute-done", 94),
      row("collective-permute-done.8", "collective-permute-done", 97),
    }, function(folder)
      local view <close> = view_of(folder, "collective_table")
      local found = {}
      for i, each in ipairs(view:lanes()[1]:collectives()) do
        found[i] = { each.kind, view:us(each.ts), view:us(each.stop), each.result_bytes }
      end
      assert.same({ { "all_reduce", 0.0, 21.0, 64 }, { "all_reduce", 10.0, 31.0, 256 },
        { "all_reduce", 40.0, 46.0, 64 }, { "reduce_scatter", 50.0, 61.0, 128 }, { "all_to_all", 70.0, 80.0 },
        { "send_recv", 90.0, 98.0 }, { "send_recv", 92.0, 95.0 } }, found)
      assert.near(2e-6, value(folder, "total_compute_time_s"), 1e-12) -- the slices
    end)
  end)

  it("replay asynchronous collectives of several cores", function()
    local shape = "f32[64]{0}"
    local start, done = "all-reduce-start(f32[64]{0} %a), replica_groups=[1,2]<=[2]",
      "all-reduce-done(f32[64]{0} %all-reduce-start)"
    with_core({
      { "fusion", "loop fusion", 0, 100, shape, nil, 0 }, { "slow", "loop fusion", 0, 300, shape, nil, 1 },
      { "all-reduce-start", "all-reduce-start", 100, 101, shape, start, 0 },
      { "all-reduce-start", "all-reduce-start", 300, 301, shape, start, 1 },
      { "all-reduce-done", "all-reduce-done", 101, 600, shape, done, 0 },
      { "all-reduce-done", "all-reduce-done", 301, 600, shape, done, 1 },
    }, function(folder)
      local replay = require "ett.trace.replay"
      local view <close> = view_of(folder, "critical_path")
      local g = replay.graph(view)
      assert.equal(600.0, view:us(replay.run(g).span_ticks))
      replay.change(g, view, "slow*0.5", {})
      -- The late core starts at 150 and ends its transfer 300 later; the other core waits for it.
      for _, ticks in pairs(replay.run(g).spans) do assert.near(450.0, view:us(ticks), 1.001) end
      assert.equal(2, replay.change(replay.graph(view), view, "all_reduce*0.5", {}))
    end)
  end)

  it("read the bytes of messages without their contexts", function()
    local context = ", u32[]{:S(2)}, token[])"
    with_core({
      { "send.1", "send", 0, 1, "(f32[1024]{0:T(1024)}" .. context, "send(f32[1024]{0:T(1024)} %a, token[] %t)" },
      { "recv.2", "recv", 1, 2, "(f32[256]{0:T(256)}" .. context, "recv(token[] %t), channel_id=2" },
      { "recv-done.2", "recv-done", 39, 40, "(f32[256]{0:T(256)}, token[])",
        "recv-done((f32[256]{0:T(256)}" .. context .. " %recv.2), channel_id=2" },
      { "send-done.1", "send-done", 50, 60, "token[]",
        "send-done((f32[1024]{0:T(1024)}" .. context .. " %send.1)" },
    }, function(folder)
      local view <close> = view_of(folder, "collective_table")
      local all = view:lanes()[1]:collectives()
      assert.same({ "send", 4096, 60.0, "recv", 1024, 39.0 }, { all[1].kind, all[1].bytes, view:us(all[1].dur),
        all[2].kind, all[2].bytes, view:us(all[2].dur) })
    end)
  end)

  it("count half a collective with its own time and without bytes, and name it", function()
    with_core({
      { "all-gather-done.1", "all-gather-done", 0, 10, gathered,
        ("all-gather-done((%s, %s) %%all-gather-start.1)"):format(half, gathered) },
      { "fusion.1", "loop fusion", 10, 20 },
      { "all-gather-start.2", "all-gather-start", 20, 21, ("(%s, %s)"):format(half, gathered),
        "all-gather-start(" .. half .. " %p)" },
      { "async-collective-start.1", "custom fusion", 30, 31 },
      { "async-collective-done.1", "custom fusion", 40, 45 },
    }, function(folder)
      local calls = assert(maker.metric(folder, "coll_call_num"))
      assert.equal(2, calls.total_calls)
      assert.near(11e-6, value(folder, "total_comm_time_s"), 1e-12)
      assert.is_nil((maker.metric(folder, "avg_comm_bandwidth_GBps")))
      local view <close> = view_of(folder)
      local codes = {}
      for i, w in ipairs(view:warnings()) do codes[i] = { w.code, w.count } end
      assert.same({ { "unknown_rank", 1 }, { "async_half", 2 }, { "async_wrapper", 2 } }, codes)
    end)
  end)

  it("tell communication without args of the metric's own", function()
    with_trace(function(folder)
      local view <close> = assert(require("ett.trace.view").open(folder))
      assert.equal(390.0, view:us(view:lanes()[1]:comm():measure()))
    end)
  end)

  it("count FLOPs and estimate tokens", function()
    with_trace(function(folder)
      assert.near(1e7, value(folder, "total_model_flops_from_args"), 1e-3)
      assert.near(5e6 / 450e-6, value(folder, "achieved_flops_from_trace_json"), 1)
      assert.near(6000, value(folder, "flops_per_token_used", { model_params = 1000 }), 1e-9)
      assert.near(1e7 / 6000, value(folder, "estimated_total_tokens", { model_params = 1000 }), 1e-9)
      assert.near(1e7 / 6000 / 0.001, value(folder, "estimated_throughput_tokens_per_s", { model_params = 1000 }), 1e-6)
      assert.near(5e9 / 1e12, value(folder, "mfu", { peak_flops = 1e12 }), 1e-12)
      local result, reason = maker.metric(folder, "estimated_total_tokens")
      assert.is_nil(result)
      assert.matches("model%-params", reason)
    end)
  end)

  it("fit Hockney where the sizes decide it", function()
    with_trace(function(folder)
      -- T = 2 alpha + S beta: 100 us at 1e5 bytes, 190 us at 2e5 -> beta 0.9 ns/byte, alpha 5 us.
      local alpha, whole = value(folder, "hockney_alpha_s")
      assert.near(5e-6, alpha, 1e-10)
      assert.near(0.9e-9, value(folder, "hockney_beta_s_per_byte"), 1e-14)
      assert.near(1 / 0.9e-9, value(folder, "hockney_inverse_beta_Bps"), 1e4)
      assert.matches("two sizes", whole.identifiability)
      local result, reason = maker.metric(folder, "hockney_alpha_s", { collective = "all_gather", n_chips = 2 })
      assert.is_nil(result)
      assert.matches("not identifiable", reason)
    end)
  end)
end)
