--- A part of the machine that is 10 % faster: every time of that part shrinks, wherever it is computed.
local cluster_module = require "ett.profile.cluster"
local estimate = require "ett.step.estimate"
local faster = require "ett.step.faster"
local model_module = require "ett.model"
local times_module = require "ett.step.times"

--- The step's seconds, and with the part 10 % faster; the seconds of collectives in `group`.
local function seconds(model, cluster, plan, part, group)
  local times = times_module.new(cluster)
  local function run(own)
    return estimate.new { model = model, cluster = cluster, plan = plan, times = own, interval = false }
  end
  local e, of_group = run(times), 0.0
  for _, line in ipairs(e.collectives) do of_group = of_group + (line.group == group and line.seconds or 0) end
  return e.step_seconds, run(faster.times(times, part)).step_seconds, of_group
end

describe("a faster part", function()
  it("shortens the exchanges of a dispatcher's own kernels with the links of a node", function()
    local plan = { dp = 8, ep = 8, seq = 4096, micro_batches = 4, stack = "megatron_hybridep" }
    local model = model_module.new("mixtral-8x7b", { layers = 4 })
    local whole, less, exchange = seconds(model, cluster_module.get "dgx_h100", plan, "node", "ep")
    assert.is_true(exchange > 0)
    assert.is_true(whole - less > 0.9 * exchange * (1 - 1 / faster.gain), whole - less)
  end)

  it("shortens messages between the parts of a cluster with the network", function()
    local cluster = cluster_module.get { name = "two", summary = "spec", source = "spec",
      parts = { { cluster = "dgx_h100", nodes = 1 }, { cluster = "dgx_a100", nodes = 1 } },
      links = { inter = { bandwidth_per_gpu = 5e9, bandwidth_per_node = 20e9, source = "spec" } } }
    local plan = { tp = 8, dp = 2, seq = 4096, micro_batches = 2, zero = 1 }
    local model = model_module.new("llama3-8b", { layers = 8 })
    local whole, less, gradients = seconds(model, cluster, plan, "network", "dp")
    assert.is_true(gradients > 0)
    assert.is_true(whole - less > 0.9 * gradients * (1 - 1 / faster.gain), whole - less)
  end)
end)
