-- The TPU metrics on a hand-made trace of two chips. Times in microseconds.
local json = require "ett.json"
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
  local folder = maker.folder()
  local file = io.open(folder .. "/host.trace.json", "w")
  file:write(json.encode{ displayTimeUnit = "ns", metadata = { ["highres-ticks"] = true },
    traceEvents = json.array(events) })
  file:close()
  local ok, why = pcall(fn, folder)
  maker.remove(folder)
  if not ok then error(why, 0) end
end

local function value(folder, name, options)
  local result, reason = maker.metric(folder, name, options)
  assert(result, reason)
  return result[name], result
end

describe("the TPU metrics on a hand-made trace", function()
  it("go by category, per chip", function()
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

  it("count an asynchronous collective once, by its end", function()
    local events = {}
    chip(events, 3, 0)
    for i, category in ipairs{ "all-gather", false } do
      for k, part in ipairs{ "-start", "-done" } do
        local shape = k == 1 and "(f32[100]{0}, f32[200]{0})" or "f32[200]{0}"
        events[#events + 1] = { ph = "X", name = "all-gather" .. part, pid = 3, tid = 3, ts = 1600 + 20 * i + 10 * k,
          dur = 5, args = { hlo_category = category and category .. part or nil, shape_with_layout = shape,
            long_name = ("%%ag = %s all-gather%s(f32[100]{0} %%x), replica_groups=[1,2]<=[2]"):format(shape, part) } }
      end
    end
    for i, part in ipairs{ "send", "send-done", "recv", "recv-done" } do
      events[#events + 1] = { ph = "X", name = part, pid = 3, tid = 3, ts = 1665 + 5 * i, dur = 5,
        args = { hlo_category = part } }
    end
    local folder = maker.folder()
    local file = io.open(folder .. "/host.trace.json", "w")
    file:write(json.encode{ displayTimeUnit = "ns", metadata = { ["highres-ticks"] = true },
      traceEvents = json.array(events) })
    file:close()
    local ok, why = pcall(function()
      local calls = assert(maker.metric(folder, "coll_call_num"))
      assert.same({ 7, 1, 1 }, { calls.total_calls, calls.calls_by_kernel_type.send,
        calls.calls_by_kernel_type["recv-done"] })
      for _, row in ipairs(assert(maker.metric(folder, "collective_table")).collectives) do
        if row.bytes == 800 then
          assert.equal(2, row.calls)
        else
          assert.is_true(row.kind ~= "all_gather" or row.bytes == 400)
        end
      end
      assert.near(430e-6, value(folder, "total_comm_time_s"), 1e-12) -- all rows
    end)
    maker.remove(folder)
    if not ok then error(why, 0) end
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
