--- Clusters of unlike nodes: steps against ranks laid one by one, and the law that two alike parts are one cluster.
local cluster_module = require "ett.profile.cluster"
local cluster_parts = require "cluster_parts"
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local raised = require "raised"
local sweep = require "ett.search.sweep"
local timeline = require "ett.step.timeline"

local model = model_module.new("llama", { layers = 8, hidden = 1024, heads = 8, ffn = 2816, vocab = 8000 })
local fast = cluster_parts.kind("fast", 1e15, 1e12, 80e9, 4e10)
local slow = cluster_parts.kind("slow", 1e14, 5e11, 8e9, 2e10)

local function both(list, more)
  return merged({ name = "both", summary = "both", source = "spec", parts = list, links = { inter = {
    bandwidth_per_gpu = 1e10, bandwidth_per_node = 1e10, source = "spec" } } }, more)
end
local mixed = both { { cluster = fast, nodes = 4 }, { cluster = slow, nodes = 4 } }

local function run(plan, cluster, units)
  local full = merged({ seq = 1024, micro_batches = 4 }, plan)
  return estimate.new { model = model, cluster = cluster or mixed, plan = full, units = units }
end

describe("clusters of unlike nodes", function()
  it("take as long as a rank-by-rank composition, each rank on its device", function()
    local found = cluster_parts.check(40, 11)
    assert.same({}, found.wrong)
    assert.is_true(found.refused > 3 and found.spread > 10 and found.unfit > 5)
  end)

  it("with two equal parts give the figures of one cluster", function()
    local one = cluster_module.get "dgx_h100"
    local two = both({ { cluster = "dgx_h100", nodes = 1 }, { cluster = "dgx_h100", nodes = 2 } },
      { links = { inter = one.links.inter } })
    for _, plan in ipairs { { pp = 4, tp = 2, dp = 3, micro_batches = 8 }, { dp = 24, zero = 3, micro_batch = 2 },
      { pp = 2, tp = 4, dp = 3, schedule = "chimera", micro_batches = 8, offload_activations = 0.5 },
      { pp = 4, dp = 6, schedule = "zb_h1", micro_batches = 8, tokens = 1e9, post_validation = true,
        recompute = "full" } } do
      local a, b = run(plan, one), run(plan, two)
      for _, name in ipairs { "step_seconds", "mfu_percent", "device_watts",
        "overhead_watts", "kwh_per_step", "dollars_per_step", "goodput_percent", "memory_bytes", "memory_limit_bytes",
        "idle_seconds", "run_dollars" } do
        if a[name] then assert.near(a[name], b[name], 1e-9 * a[name], name) end
      end
      for i, line in ipairs(a.operators) do
        local seconds, runs = 0.0, 0.0
        for _, own in ipairs(b.operators) do
          if own.name == line.name then seconds, runs = seconds + own.seconds, own.runs_per_micro_batch end
        end
        assert.near(line.seconds, seconds, 1e-9 * a.step_seconds, i)
        if line.runs_per_micro_batch then assert.near(line.runs_per_micro_batch, runs, 1e-9 * runs) end
      end
    end
  end)

  it("warn of a host's memory that is too small for the stages on it", function()
    local cluster = cluster_module.get(both { { cluster = "dgx_a100", nodes = 1 },
      { cluster = "dgx_a100_40gb", nodes = 1 } })
    local large = model_module.new("llama", { layers = 32, hidden = 16384, heads = 128, ffn = 65536, vocab = 32000 })
    local function warning(split, on)
      local e = estimate.new { cluster = on, model = large,
        plan = { seq = 512, micro_batches = 4, tp = 8, pp = 2, split = split, offload_optimizer = 1 } }
      for _, text in ipairs(e.warnings) do if text:find("host's memory", 1, true) then return e.stages, text end end
      return e.stages
    end
    local stages, text = warning({ 24, 8 }, cluster) -- the first stage is on dgx_a100, with 250 GB
    assert.is_true(stages[1].host_bytes > 125e9 and stages[1].host_bytes < 250e9 and stages[2].host_bytes < 125e9)
    assert.is_nil(text)
    stages, text = warning({ 4, 28 }, cluster)
    assert.equal(("%.2f GB of a device in its host's memory: a device of dgx_a100_40gb has 125.00 there"):format(
      stages[2].host_bytes / 1e9), text)
    assert.equal(text, select(2, warning({ 4, 28 }, "dgx_a100_40gb")))
  end)

  it("place stages as the rank map does", function()
    local function devices(plan)
      local list = {}
      for i, s in ipairs(run(plan).stages) do list[i] = table.concat(s.devices, "+") end
      return table.concat(list, " ")
    end
    assert.equal("fast fast slow slow", devices { pp = 4, dp = 2 })
    assert.equal("slow fast fast slow", devices { pp = 4, dp = 2, rank_map = { 6, 7, 0, 1, 2, 3, 4, 5 } })
    assert.equal("fast+slow fast+slow fast+slow fast+slow", devices { pp = 4, dp = 2,
      rank_order = "tp-cp-ep-pp-dp" })
    assert.equal("fast fast", devices { pp = 2, dp = 2 })
  end)

  it("fill the units of each stage with the operators of its device", function()
    local e = run({ pp = 4, dp = 2, schedule = "zb_h1" }, nil, true)
    for s, stage in ipairs(timeline.of(e).stages) do
      for _, unit in ipairs(stage.units) do
        local sum = 0.0
        for _, part in ipairs(unit.parts) do
          assert.not_equal("wait", part.resource)
          sum = sum + part.seconds
        end
        assert.near(unit.seconds, sum, 1e-9 * unit.seconds, s)
      end
    end
    assert.is_true(e.stages[3].forward_seconds > 3 * e.stages[2].forward_seconds)
    assert.matches("on 4 x fast and 4 x slow %(both%)", tostring(e))
    assert.matches("\n  3 +2 .* slow\n", tostring(e))
  end)

  it("have equal results in sweeps and single estimates", function()
    local large = model_module.new("llama", { layers = 8, hidden = 2048, heads = 16, ffn = 8192, vocab = 32000 })
    local tight = both { { cluster = fast, nodes = 4 },
      { cluster = cluster_parts.kind("small", 1e14, 5e11, 4e9, 2e10), nodes = 4 } }
    local s = sweep.new { model = large, cluster = tight, plan = { seq = 2048, global_batch = 16, zero = 1 },
      over = { pp = { 1, 2, 4 }, dp = { 1, 2, 4, 8 }, rank_order = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp" } } }
    local fits, larger = { [true] = 0, [false] = 0 }, 0
    for _, row in ipairs(s.rows) do
      local e = estimate.new { model = large, cluster = tight, plan = { seq = 2048, global_batch = 16, zero = 1,
        pp = row.pp, dp = row.dp, rank_order = row.rank_order } }
      assert.equal(e.step_seconds, row.step_seconds)
      assert.equal(e.fits, row.fits)
      -- The stage with the largest share of its devices' memory, not the one with most bytes.
      assert.same({ e.memory_bytes, e.memory_limit_bytes, e.fit_percent },
        { row.memory_bytes, row.memory_limit_bytes, row.fit_percent })
      local most = 0
      for _, stage in ipairs(e.stages) do most = math.max(most, stage.memory_bytes) end
      larger = larger + (most > e.memory_bytes and 1 or 0)
      fits[row.fits] = fits[row.fits] + 1
    end
    assert.is_true(fits[true] > 0 and fits[false] > 0 and larger > 0)
  end)

  it("have one object of times per stack and gathers, so that caches of times serve later plans", function()
    local times = require("ett.step.times").new(cluster_module.get(mixed))
    local function plan(stack, zero) return { stack = stack, zero = zero, dp = 4, cp = 1, ep = 1 } end
    local megatron, titan = plan("megatron", 1), plan("torchtitan", 3)
    local kept = { times:of_plan(plan(nil, 1)), times:of_plan(megatron), times:of_plan(titan),
      times:of_plan(plan("torchtitan", 0)) }
    collectgarbage()
    assert.equal(times, kept[1])
    assert.equal(times, times:for_stack(nil))
    assert.equal(kept[2], times:of_plan(megatron))
    assert.equal(kept[2], times:for_stack "megatron")
    assert.equal(kept[3], times:of_plan(titan))
    for k = 1, 4 do
      for j = 1, k - 1 do assert.not_equal(kept[j], kept[k]) end
      for i, own in ipairs(kept[k].parts) do
        assert.equal((kept[k].parts[1].stack or {}).name, (own.stack or {}).name)
        assert.equal(times.parts[i].cluster, own.cluster)
      end
    end
    assert.is_false(kept[4].parts[2].stack.gathers_slow)
  end)

  it("average prices, failures and the power of nodes over the devices in use", function()
    local function priced(price, failures, watts)
      local c = cluster_parts.kind("priced", 1e14, 1e12, 80e9, 1e10)
      c.price_per_gpu_hour, c.power = price, { node_watts = watts, source = "spec" }
      c.failures = failures and { per_device_day = failures, restart_seconds = 100 * price, source = "spec" }
      c.device.power_watts = 500
      return c
    end
    local e = run({ dp = 4 }, both { { cluster = priced(2, 0.01, 100), nodes = 3 },
      { cluster = priced(6, 0.05, 300), nodes = 9 } })
    assert.near(3, e.price_per_device_hour, 1e-12)
    assert.near(86400 / (4 * 0.02), e.failure_interval_seconds, 1e-6)
    assert.near(150, e.overhead_watts, 1e-9)
    local function said(p, second)
      e = run(p, both { { cluster = priced(2, 0.01, 100), nodes = 3 }, { cluster = second, nodes = 9 } })
      return table.concat(e.warnings, "\n"):find("these parts state no rate: fast; failures_per_device_day=N", 1, true)
    end
    assert.is_truthy(said({ dp = 4 }, fast))
    assert.is_nil(e.goodput_percent)
    for _, quiet in ipairs { said({ dp = 3 }, fast) or false, said({ dp = 4 }, priced(6, 0.05, 300)) or false,
      said({ dp = 4, failures_per_device_day = 0.01 }, fast) or false } do assert.is_false(quiet) end
  end)
end)

describe("files of parts and of a base", function()
  it("lie beside the file of the cluster", function()
    local folders = require "ett.base.folder"
    local folder = folders.temporary()
    finally(function() os.execute(("rm -r '%s'"):format(folder)) end)
    for name, device in pairs { new = "h100_sxm", old = "a100_sxm" } do
      folders.write(("%s/%s.lua"):format(folder, name), ([[return { name = %q, summary = "s", source = "spec",
        device = %q, gpus_per_node = 8, links = { intra = { bandwidth = 2e11, source = "spec" } } }]]):format(name,
        device))
    end
    folders.write(folder .. "/both.lua", [[return { name = "both", summary = "s", source = "spec",
      parts = { { cluster = "new.lua", nodes = 1 }, { cluster = "./old.lua", nodes = 1 } },
      links = { inter = { bandwidth_per_gpu = 1e10, bandwidth_per_node = 8e10, source = "spec" } } }]])
    local names = {}
    for i, part in ipairs(cluster_module.get(folder .. "/both.lua").parts) do names[i] = part.name end
    assert.same({ "new", "old" }, names)
    folders.write(folder .. "/like.lua", [[return { name = "like", summary = "s", source = "spec", device = "v100",
      gpus_per_node = 1, links = {}, profile = { base = "old.lua" } }]])
    local like = require("ett.profile.of_cluster").open(cluster_module.get(folder .. "/like.lua"))
    assert.equal("old", like:operator("gelu", { tokens = 4096, width = 4096 }, "fp16", "forward").scaled_from)
  end)
end)

describe("faults of clusters of unlike nodes", function()
  local function refusal(list, more) return raised(cluster_module.get, both(list, more)) end
  local other = cluster_parts.kind("other", 1e14, 1e12, 80e9, 1e10)
  other.gpus_per_node, other.links.intra = 8, { bandwidth = 1e11, source = "spec" }
  local few = cluster_parts.kind("few", 1e14, 1e12, 80e9, 1e10)
  few.nodes = 2
  local cases = {
    { "parts: a cluster has 2 to 8, got 1", { { cluster = fast, nodes = 1 } } },
    { "parts[2]: nodes of 'other' have 8 devices, others of this cluster 1", { { cluster = fast, nodes = 1 },
      { cluster = other, nodes = 1 } } },
    { "parts[1]: field 'nodes' must be a positive integer, got 0", { { cluster = fast, nodes = 0 },
      { cluster = slow, nodes = 1 } } },
    { "parts[2]: unknown cluster 'dgx_h10'; did you mean 'dgx_h100'", { { cluster = fast, nodes = 1 },
      { cluster = "dgx_h10", nodes = 1 } } },
    { "parts[1]: must be a table { cluster =, nodes = }, got 'fast'", { "fast", "slow" } },
    { "parts[1]: 3 nodes, but cluster 'few' has 2", { { cluster = few, nodes = 3 }, { cluster = slow, nodes = 1 } } },
    { "parts[1]: cluster 'both' has parts; a part must be a cluster without parts", { { cluster = mixed, nodes = 1 },
      { cluster = slow, nodes = 1 } } },
    { "field 'device' belongs to the clusters of the parts", mixed.parts, { device = "h100_sxm" } },
    { "field 'power' belongs to the clusters of the parts", mixed.parts, { power = { pue = 1.1, source = "spec" } } },
    { "'parts' need 'links' with 'inter' alone", mixed.parts, { links = {} } },
  }
  for _, case in ipairs(cases) do
    it("are reported: " .. case[1], function()
      assert.matches(case[1], refusal(case[2], case[3]), 1, true)
    end)
  end

  it("in plans on them are reported, too", function()
    local function why(plan, cluster) return raised(run, plan, cluster) end
    assert.matches("ranks 3 and 4 of one tensor%-parallel group are on unlike devices", why({ tp = 2, pp = 4,
      rank_map = { 0, 1, 2, 4, 3, 5, 6, 7 } }):gsub("ranks %d and %d", "ranks 3 and 4"))
    assert.matches("the plan needs 16 devices, both has 8", why { dp = 16 })
    assert.matches("dtype = 'fp8' needs a rate in the device's peak_flops; slow has", why({ dtype = "fp8" },
      both { { cluster = "dgx_h100", nodes = 1 }, { cluster = "dgx_a100", nodes = 1 } }):gsub("NVIDIA[%w%-]+", "slow"))
    for _, given in ipairs { { require("ett.profile.of_cluster").open, "a profile" },
      { require("ett.ledger.links").chip, "the ledger" } } do
      assert.equal(given[2] .. " needs a cluster of one kind of nodes; 'both' has 2 parts. Name the cluster of one "
        .. "part", raised(given[1], cluster_module.get(mixed)))
    end
    local times = require("ett.step.times").new(cluster_module.get(mixed))
    assert.matches("^a time of its own needs a cluster of one kind of nodes",
      raised(times.collective, times, "all_reduce", 1e6, { nodes = 1, gpus_per_node = 1 }, "bf16"))
    assert.matches("search needs a cluster of one kind of nodes; .* part, or list plans .* `ett sweep`",
      raised(require("ett").search, { model = model, cluster = mixed, devices = 4,
        plan = { global_batch = 8, seq = 1024 } }))
  end)
end)
