-- Every metric file says what it is, what it needs and in which units it answers.
local comm = require "ett.trace_comm"
local metrics = require "ett.trace_metrics"

local gpu_set = { "coll_call_num", "throughput_tokens", "iter_time", "comm_comp_overlap", "pipeline_bubble",
  "traffic_distribution", "straggler_lag", "mfu", "sm", "traffic_window", "token_to_expert_assignment", "ttft", "tpot" }
local tpu_set = { "wall_time_s", "total_compute_time_s", "total_comm_time_s", "avg_comm_kernel_time_s",
  "compute_utilization_proxy", "communication_fraction", "num_comm_kernels", "num_comm_kernels_w_size_and_time",
  "avg_comm_bandwidth_GBps", "allreduce_comm_time_s", "hockney_alpha_s", "hockney_beta_s_per_byte",
  "hockney_inverse_beta_Bps", "achieved_flops_from_trace_json", "total_model_flops_from_args", "flops_per_token_used",
  "estimated_total_tokens", "estimated_throughput_tokens_per_s" }
local further = { "device_time", "temporal_breakdown", "kernel_breakdown", "collective_table", "step_table",
  "launch_stats", "tpu_device_time" }

describe("the metric files", function()
  it("are all there", function()
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
    local folder = os.tmpname()
    os.remove(folder)
    os.execute(("mkdir -p %s/lua/ett/metrics"):format(folder))
    local file = io.open(folder .. "/lua/ett/metrics/half.lua", "w")
    file:write('return { name = "half", summary = "x", definitoin = "y", units = {}, needs = "", '
      .. 'compute = function() end }')
    file:close()
    local find = require "ett.find"
    local roots = find.roots
    find.roots = function() return { folder } end
    local ok, why = pcall(metrics.load, "half")
    find.roots = roots
    os.execute("rm -r " .. folder)
    assert.is_false(ok)
    assert.matches("half.lua: unknown field 'definitoin'; did you mean 'definition'%?", tostring(why))
  end)

  it("take communication libraries from Lua", function()
    assert.is_nil(comm.library_of("my_ring_exchange<float>"))
    comm.add{ name = "mine", patterns = { "^my_ring_exchange" }, kinds = { { "exchange", "AllToAll" } } }
    assert.equal("mine", comm.library_of("my_ring_exchange<float>").name)
    assert.equal("AllToAll", comm.kernel_type("my_ring_exchange<float>"))
    table.remove(comm.libraries())
  end)
end)
