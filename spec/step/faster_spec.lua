--- A part of the machine that is 10 % faster: every time of that part shrinks, wherever it is computed.
local cluster_module = require "ett.profile.cluster"
local estimate = require "ett.step.estimate"
local faster = require "ett.step.faster"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local times_module = require "ett.step.times"
local what_if = require "ett.step.what_if"

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

  it("launches kernels, moves offloaded bytes and updates faster on the host", function()
    local model, cluster = model_module.new("mixtral-8x7b", { layers = 4 }), cluster_module.get "dgx_h100"
    local function gain(plan, on)
      plan.seq, plan.micro_batches = plan.seq or 128, 4
      local given = { model = model, cluster = on or cluster, plan = plan, times = times_module.new(on or cluster) }
      local e = estimate.new(given)
      for _, own in ipairs(what_if.gains(given, e.step_seconds)) do
        if own.part == "host" then return own.step_seconds, e end
      end
    end
    for _, case in ipairs { { "megatron", { dp = 8, ep = 8 } }, { "megatron", { dp = 2, tp = 8, zero = 1 } },
      { "transformers", { dp = 8, zero = 3 }, 0.96 } } do
      local name, plan, most = table.unpack(case)
      plan.stack = name
      local less, e = gain(plan)
      local stack = require("ett.operator.stack").get(name)
      assert.is_true(less < (most or 0.95) * e.step_seconds, less / e.step_seconds)
      plan.stack = ("%s:launch_seconds=%.17g:expert_seconds=%.17g:gather_seconds=%.17g"):format(name,
        stack.launch_seconds / 1.1, stack.expert_seconds / 1.1, stack.gather_seconds / 1.1)
      assert.near(estimate.new({ model = model, cluster = cluster, plan = plan }).step_seconds, less, 1e-9 * less)
    end
    local host = merged(cluster.host, { bandwidth = 1.1 * cluster.host.bandwidth,
      memory_bandwidth = 1.1 * cluster.host.memory_bandwidth })
    local function both(on)
      return cluster_module.get { name = "two", summary = "spec", source = "spec",
        parts = { { cluster = on, nodes = 1 }, { cluster = "dgx_a100", nodes = 1 } },
        links = { inter = cluster.links.inter } }
    end
    for _, plan in ipairs { { dp = 8, zero = 1, offload_optimizer = 1 },
      { dp = 8, offload_activations = 1, seq = 4096 } } do
      local less, e = gain(plan)
      assert.is_true(less < 0.99 * e.step_seconds)
      local on = merged(cluster, { host = host })
      assert.near(estimate.new({ model = model, cluster = on, plan = plan }).step_seconds, less, 1e-9 * less)
      assert.near(less, (gain(plan, both(cluster))), 1e-9 * less) -- a part, alone in use
    end
    -- A host of unknown memory bandwidth updates faster, too.
    local assumed = cluster_module.get "dgx_b300"
    assert.is_nil(assumed.host.memory_bandwidth)
    local less, e = gain({ dp = 8, zero = 1, offload_optimizer = 1 }, assumed)
    assert.is_true(less < 0.99 * e.step_seconds)
    assert.equal(gain { dp = 8 }, select(2, gain { dp = 8 }).step_seconds)
    -- The copy of a table is a checked cluster, without a path that it does not have.
    for _, own in ipairs { both(cluster), cluster } do
      local copy = faster.cluster(own, "host")
      assert.equal(own.path, copy.path)
      assert.equal(copy, cluster_module.get(copy))
    end
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
