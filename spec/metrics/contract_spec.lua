--- Every metric file states its definition, its inputs and its units.
local comm = require "ett.trace.comm"
local maker = require "trace_maker"
local metrics = require "ett.trace.metrics"
local raised = require "raised"

local gpu_set = { "coll_call_num", "throughput_tokens", "iter_time", "comm_comp_overlap", "pipeline_bubble",
  "traffic_distribution", "straggler_lag", "mfu", "sm", "traffic_window", "token_to_expert_assignment", "ttft", "tpot" }
local tpu_set = { "wall_time_s", "total_compute_time_s", "total_comm_time_s", "avg_comm_kernel_time_s",
  "compute_utilization_proxy", "communication_fraction", "num_comm_kernels", "num_comm_kernels_w_size_and_time",
  "avg_comm_bandwidth_GBps", "allreduce_comm_time_s", "hockney_alpha_s", "hockney_beta_s_per_byte",
  "hockney_inverse_beta_Bps", "achieved_flops_from_trace_json", "total_model_flops_from_args", "flops_per_token_used",
  "estimated_total_tokens", "estimated_throughput_tokens_per_s" }
local further = { "device_time", "temporal_breakdown", "kernel_breakdown", "collective_table", "step_table",
  "launch_stats", "queue_length", "tpu_device_time", "operator_table",
  "exposed_causes", "critical_path", "collective_list", "memory_bandwidth", "annotation_table", "stream_idle",
  "kernel_counters" }

describe("the metric files", function()
  it("are all present", function()
    local names = {}
    for _, name in ipairs(metrics.names()) do names[name] = true end
    for _, set in ipairs{ gpu_set, tpu_set, further } do
      for _, name in ipairs(set) do assert.is_true(names[name], name) end
    end
  end)

  it("state definition, needs and units", function()
    for _, name in ipairs(metrics.names()) do
      local metric = metrics.load(name)
      assert.equal(name, metric.name)
      assert.is_true(#metric.definition > 20, name .. ": definition")
      assert.is_true(#metric.needs > 5, name .. ": needs")
      assert.is_true(next(metric.units) ~= nil, name .. ": units")
      assert.is_nil(metric.summary:match("^%u%l.*%.$"), name .. ": summary is a phrase")
    end
  end)

  it("say for the public names why a public tool gives another number", function()
    for _, set in ipairs{ gpu_set, tpu_set } do
      for _, name in ipairs(set) do assert.is_string(metrics.load(name).differs, name) end
    end
  end)

  it("give lists as lists in JSON, empty ones too", function()
    local json = require "ett.json"
    local recordings = {}
    for rank = 0, 1 do
      local r = maker.new{ rank = rank, world = 2 }
      r:step(1, 0, 1000)
      r:kernel("gemm", 100, 100, { launch = { ts = 90, dur = 5 } })
      r:kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 300 + rank, 300 - rank, { stream = 20 })
      recordings[rank + 1] = r:host("cpu_op", "aten::relu", 900, 100)
    end
    local lists = {}
    local function walk(path, value, empty)
      if type(value) ~= "table" then return end
      if #value > 0 then lists[path] = true end
      if empty and next(value) == nil and lists[path] then assert.equal("[]", json.encode(value):match("%S+"), path) end
      for key, each in pairs(value) do walk(path .. "." .. (math.type(key) and "n" or key), each, empty) end
    end
    maker.with(recordings, function(folder)
      for _, options in ipairs{ {}, { window = { 0.85, 0.86 } } } do -- nothing in the window
        for _, name in ipairs(metrics.names()) do walk(name, (maker.metric(folder, name, options)), options.window) end
      end
    end)
    assert.is_true(lists["kernel_breakdown.kernels"] and lists["step_table.ranks.0.per_step"])
  end)

  it("take --step and --window, every one", function()
    local r = maker.new{ rank = 0, world = 1 }
    for step = 1, 3 do
      local at = 1000 * step
      r:step(step, at, 1000)
      for i = 0, 3 do r:kernel("gemm", at + 200 * i + 50, 100, { launch = { ts = at + 200 * i, dur = 5 } }) end
      r:all_reduce("0", at + 500, at + 800, { stream = 20 })
    end
    maker.with({ r }, function(folder)
      for _, name in ipairs(metrics.names()) do
        local whole, why = maker.metric(folder, name)
        local step, why_step = maker.metric(folder, name, { step = 2 })
        local window, why_window = maker.metric(folder, name, { window = { 1, 2 } }) -- the same time
        assert.equal(whole == nil, step == nil, ("%s: %s / %s"):format(name, why, why_step))
        assert.same(step, window, ("%s: %s"):format(name, why_window))
        if whole and not name:find("avg_") and not name:find("utilization") and not name:find("fraction") then
          assert.is_not.same(whole, step, name)
        end
      end
    end)
  end)

  it("give the TPU set's value under the metric's own name", function()
    for _, name in ipairs(tpu_set) do assert.is_string(metrics.load(name).units[name], name) end
  end)

  it("ask for each arg once", function()
    local args, seen = metrics.args(metrics.load_all(metrics.names())), {}
    for _, arg in ipairs(args) do
      assert.is_nil(seen[arg])
      seen[arg] = true
    end
    assert.is_true(seen["Collective name"])
    assert.is_true(seen["blocks per SM"])
  end)

  it("are refused with a sentence when a field is missing or unknown", function()
    local folder, find = require("command").folder(), require "ett.base.find"
    local roots = find.roots
    for fields, wanted in pairs {
      ["units = {}, definitoin = 'y'"] = "unknown field 'definitoin'; did you mean 'definition'?",
      ["units = { x = 3 }, definition = 'y'"] = "units: the unit of 'x' must be a string, got 3",
      ["units = {}, definition = 'y', args = { 3 }"] = "field 'args': value 1 must be a string, got 3",
    } do
      require("ett.base.folder").write_with_folder(folder .. "/lua/ett/metrics/half.lua",
        ('return { name = "half", summary = "x", %s, needs = "", compute = function() end }'):format(fields))
      find.roots = function() return { folder } end
      local ok, why = pcall(metrics.load, "half")
      find.roots = roots
      assert.is_false(ok)
      assert.matches("half.lua: " .. wanted, tostring(why), 1, true)
    end
    os.execute("rm -r " .. folder)
  end)

  it("must return plain data", function()
    local function fault(value)
      local metric = { name = "mine", compute = function() return value end }
      return raised(metrics.compute, metric, {}):gsub("^[^:]+:%d+", "")
    end
    assert.equal(": 'compute' must return a table, got nil", (fault(nil)))
    assert.equal(": 'compute' must return a table, got 7", (fault(7)))
    assert.equal(": 'compute' must return plain data, got a function in field 'b'", (fault { a = { b = print } }))
    for _, number in ipairs { 0 / 0, 1 / 0 } do
      assert.matches("^: 'compute' must return finite numbers, or null for an unknown one, got .* in field 'b'$",
        (fault { a = { b = number } }))
    end
    local own = {}
    own.own = own
    assert.equal(": 'compute' must return tables with names or integers as keys, got 0.5",
      (fault { a = { [0.5] = 3 } }))
    assert.equal(": 'compute' must return at most 32 levels of tables, field 'own' has more", (fault(own)))
    assert.same({ a = 1 }, metrics.compute({ name = "mine", compute = function() return { a = 1 } end }, {}))
  end)

  it("convert numbers of ticks, and nothing else", function()
    local r = maker.new { rank = 0 }
    r:kernel("k", 100, 10)
    local view <close> = maker.view({ r })
    local busy = view:lanes()[1]:busy()
    assert.equal(10.0, view:us(busy:measure()))
    for _, name in ipairs { "s", "ms", "us" } do
      assert.matches("^view:s, :ms and :us take a number of ticks, got ", raised(view[name], view, busy))
    end
  end)

  it("must return a number for each device, or nil", function()
    local r = maker.new { rank = 0, world = 1 }
    r:kernel("gemm", 100, 100)
    local view = maker.view({ r })
    for value, wanted in pairs { text = "got 'text'", [{}] = "got a table",
      [1 / 0] = "got inf" } do
      local metric = require("ett.trace.totals").metric { name = "mine", unit = "us",
        value = function() return value end }
      assert.matches("_spec.lua:%d+: 'value' must return a finite number, or nil if it is unknown, " .. wanted,
        raised(metrics.compute, metric, view))
    end
    view:close()
  end)

  it("refuse a library of kernel names with an unknown field, or with a pattern that is none", function()
    local function fault(library) return raised(comm.add, library) end
    assert.matches("unknown field 'paterns'; did you mean 'patterns'%?", fault{ name = "mine", paterns = { "x" } })
    assert.matches("patterns%[2%] must be a Lua pattern, got '%(x'", fault{ name = "mine", patterns = { "x", "(x" } })
    assert.matches("kinds%[1%] must be { PATTERN, KIND }", fault{ name = "mine", patterns = { "x" }, kinds = { "x" } })
  end)

  it("take communication libraries from Lua", function()
    assert.is_nil(comm.library_of("my_ring_exchange<float>"))
    comm.add{ name = "mine", patterns = { "^my_ring_exchange" }, kinds = { { "exchange", "all_to_all" } } }
    assert.equal("mine", comm.library_of("my_ring_exchange<float>").name)
    assert.equal("all_to_all", comm.kernel_type("my_ring_exchange<float>"))
    require("ett.base.find").set_script_folder "/tmp" -- finds all files again
    assert.equal("mine", comm.library_of("my_ring_exchange<float>").name)
    table.remove(comm.libraries())
  end)
end)
