--- Laws of the two models of time: the metered run on links, and the corrected simple model.
local ledger = require "ett.ledger"
local merged = require "ett.base.merged"
local near = require "near"
local simple = require "ett.ledger.simple_transformer"
local timing = require "ett.ledger.timing"
local transformer = require "ett.ledger.transformer"
local violations = require "ett.ledger.violations"

local function metered(degrees)
  local L = ledger.new()
  local m = merged({ batch_size = 64.0, seq_len = 1024.0, num_experts = 1.0, dataset_size = 1e9, num_layers = 8.0,
    d_model = 1024.0, d_ffn = 4096.0, num_heads = 16.0, d_head = 64.0, p_data = 1.0, p_pipe = 1.0, p_exp = 1.0,
    p_seq = 1.0, p_tensor_int = 1.0, p_tensor_ext = 1.0 }, degrees)
  transformer.describe(L, m)
  return L
end

local function options(changes)
  return merged({ flops = 1e14, utilization = 0.5, bytes = 2, memory = 1e12, node_chips = 8, overlap = 1, links = {
    intra = { bytes_per_second = 1e11, name = "intra" }, inter = { bytes_per_second = 1e10, name = "inter" } } },
    changes)
end

describe("a metered run in time", function()
  it("is FLOP over speed on one device, with no traffic", function()
    local L = metered {}
    local t = timing.of(L, options { memory = 1e30 })
    local counts = L:totals()
    local flop = counts.flop_forward + counts.flop_backward
    assert.is_true(math.abs(t.seconds / (flop / 0.5e14) - 1) < 1e-12)
    near({ network_seconds = 0, bound_by = "compute" }, t)
  end)

  local wide = metered { p_data = 4.0, p_tensor_int = 4.0, p_pipe = 2.0 }

  it("moves every word of the ledger once", function()
    local slow = { bytes_per_second = 1 }
    local t = timing.of(wide, options { links = { intra = slow, inter = slow } })
    local rx = 0
    for _, e in ipairs(wide:entries()) do
      for _, part in ipairs(e.axes) do
        rx = rx + math.max(part.rx_forward + part.rx_backward, part.tx_forward + part.tx_backward)
      end
    end
    assert.is_true(math.abs(t.network_seconds / (rx * 2 / 32) - 1) < 1e-12)
  end)

  it("places inner axes in the node and the others on the network", function()
    local t = timing.of(wide, options())
    assert.equal("intra", t.places.TENSOR_INT.link)
    assert.equal("intra", t.places.PIPE.link)
    assert.equal("inter", t.places.DATA.link)
    assert.equal("inter", timing.of(wide, options { node_chips = 2 }).places.TENSOR_INT.link)
  end)

  it("hides traffic as far as overlap allows", function()
    local last
    for _, overlap in ipairs { 0, 0.3, 0.7, 1 } do
      local t = timing.of(wide, options { overlap = overlap })
      assert.is_true(not last or t.seconds <= last)
      last = t.seconds
      for _, p in ipairs(t.phases) do
        local busy = math.max(p.compute_seconds, p.memory_seconds)
        assert.is_true(p.seconds >= math.max(busy, p.network_seconds) * (1 - 1e-12))
        assert.is_true(p.seconds <= (busy + p.network_seconds) * (1 + 1e-12))
        if overlap == 0 then assert.is_true(math.abs(p.seconds - busy - p.network_seconds) <= 1e-12 * p.seconds) end
      end
    end
  end)

  it("takes twice as long to move words of twice the size, in memory and on the network", function()
    local a, b = timing.of(wide, options()), timing.of(wide, options { bytes = 4 })
    assert.is_true(math.abs(b.network_seconds / a.network_seconds - 2) < 1e-12)
    assert.is_true(math.abs(b.memory_seconds / a.memory_seconds - 2) < 1e-12)
    assert.equal(a.compute_seconds, b.compute_seconds)
  end)

  it("passes memory once in a forward pass, three times in a step, four times with checkpointing", function()
    local function seconds(changes) return timing.of(wide, options(changes)).memory_seconds end
    local forward = seconds { forward_only = true }
    near(3 * forward, seconds())
    near(4 * forward, seconds { checkpointing = true })
  end)

  it("holds whole weights and gradients, a share of the optimizer, and layers in flight", function()
    local m = { batch_size = 64.0, seq_len = 1024.0, num_experts = 1.0, dataset_size = 1e9, num_layers = 8.0,
      d_model = 1024.0, d_ffn = 4096.0, num_heads = 16.0, d_head = 64.0, p_data = 4.0, p_pipe = 2.0, p_exp = 1.0,
      p_seq = 1.0, p_tensor_int = 4.0, p_tensor_ext = 1.0, no_multi_query_attn = true }
    local function memory(given)
      for name, value in pairs(given or {}) do m[name] = value end
      local L = ledger.new()
      return transformer.memory(m, transformer.describe(L, m), { bytes = 2, gradient_bytes = 4, optimizer_bytes = 12,
        samples = 2, gpipe = m.gpipe })
    end
    local r = memory()
    local weights = 8 * (4 + 2 * 4) * 1024 ^ 2 / (2 * 4)
    near({ weights = 2 * weights, gradients = 4 * weights, optimizer = 12 * weights / 4 }, r)
    -- A layer: its input, whole; queries, keys, values, mixed values and 4096 wide, a quarter of each.
    local input, layer = 1024 * 1024, 1024 * (1024 + 4 * 1024 / 4 + 4096 / 4)
    assert.equal((2 * 4 * layer + layer) * 2 * 2, r.activations) -- 2 stages in flight, 4 layers each
    assert.equal(r.weights + r.gradients + r.optimizer + r.activations, r.total)
    assert.equal((2 * 4 * input + layer) * 2 * 2, memory({ activation_checkpointing = true }).activations)
    assert.equal((8 * 4 * input + layer) * 2 * 2, memory({ gpipe = true }).activations) -- 8 microbatches
  end)

  it("counts the latency of every microbatch of a run on a cluster", function()
    local run = require "ett.ledger.run"
    local function seconds(latency, more)
      local o = merged({ batch_size = 64, seq_len = 256, num_experts = 1, dataset_size = 64 * 256 * 10, num_layers = 8,
        d_model = 2048, d_head = 64, p_data = 2, p_pipe = 1, p_exp = 1, p_seq = 1, p_tensor_int = 2, p_tensor_ext = 1,
        overlap = 0, net_precision_bytes = 2, utilization = 0.5, optimizer_bytes = 12,
        cluster = { name = "late", summary = "test", source = "test", device = "h100_sxm", gpus_per_node = 8, nodes = 1,
          links = { intra = { bandwidth = 4e11, latency = latency, source = "test" } } } }, more)
      local r = run.new(o)
      return r.time.seconds, r
    end
    local function added(more)
      local _, r = seconds(1e-6, more)
      local seconds_of_a_hop = (seconds(1e-3, more) - seconds(1e-6, more)) / (1e-3 - 1e-6)
      return seconds_of_a_hop, r.time.memory_microbatch_samples
    end
    local hops, samples = added()
    assert.equal(4, samples)
    -- Ten batches: the hops of DATA once for each layer, those of TENSOR_INT once for each layer and microbatch too.
    local more_hops, same_samples = added { dataset_size = 64 * 256 * 20 }
    assert.equal(samples, same_samples)
    assert.is_true(math.abs(more_hops / hops - 2) < 1e-6)
    local single = added { skip_efficiency_check = true } -- microbatches of one sample: four times as many
    assert.is_true(single > 2 * hops and single < 4 * hops, single / hops)
  end)

  it("names the resource that binds", function()
    assert.equal("network", timing.of(wide, options { links = { intra = { bytes_per_second = 1e6 } } }).bound_by)
    assert.equal("memory", timing.of(wide, options { memory = 1e8 }).bound_by)
    assert.equal("compute", timing.of(wide, options { flops = 1e9 }).bound_by)
  end)
end)

describe("the corrected simple model", function()
  local function described(changes, version)
    local L = ledger.new()
    local o = {}
    for _, set in ipairs { simple.parameters, simple.corrections, { n_layers = 16, d_model = 1024, batch_size = 64,
      microbatch_size = 4, seq_len = 512 }, changes or {} } do
      for name, value in pairs(set) do o[name] = value + 0.0 end
    end
    return simple.describe(L, o, version or "corrected"), L
  end

  it("has no traffic when all degrees are 1", function()
    local r = described()
    for _, phase in pairs(r.phases) do assert.equal(0, phase.network) end
    assert.equal(0, r.bubble)
  end)

  it("refuses values without meaning", function()
    local texts, _, L = {}, described { overlap = 2, latency_seconds = -1, node_latency_seconds = -2,
      gradient_bytes = -3, optimizer_bytes = -4 }
    for i, violation in ipairs(violations.list(L)) do texts[i] = violation.text end
    assert.same({ "overlap must be at most 1, got 2", "latency_seconds must be at least 0, got -1",
      "node_latency_seconds must be at least 0, got -2", "gradient_bytes must be at least 0, got -3",
      "optimizer_bytes must be at least 0, got -4" }, texts)
  end)

  it("sends and receives the words of an all-reduce twice, at the rate and latency of its link", function()
    -- 4 replicas: 2 x 16 layers x 1024 x 5120 weights, 2 bytes a gradient. Of them 3 / 4 are sent and received, twice.
    local bytes = 2 * 16 * 1024 * 5120 * 2
    local function gradient(changes)
      return described(merged({ dp = 4, node_network = 8e11, chip_network = 2e10, node_chips = 4,
        latency_seconds = 1e-3, node_latency_seconds = 1e-5 }, changes)).phases.gradient.network
    end
    local function expect(value, seconds) assert.is_true(math.abs(value / seconds - 1) < 1e-12, value) end
    expect(gradient(), 4 * bytes * 3 / 4 / 8e11 + 6 * 1e-5)
    expect(gradient { node_chips = 2 }, 4 * bytes * 3 / 4 / 2e10 + 6 * 1e-3)
  end)

  it("sums outer activations over tensor ranks on the node's link, and over the chosen experts on theirs", function()
    local mixed = { tp = 2, n_experts = 4, node_chips = 2, node_network = 8e11, chip_network = 2e10 }
    local words = 4 * 512 * 1024 -- of a microbatch, a byte each; a token visits one or two of four experts
    near(4 * words / 4 / 2 / 8e11, described(merged(mixed, { n_routed_experts = 1 })).external)
    near(4 * words / 2 * 3 / 4 / 2e10, described(merged(mixed, { n_routed_experts = 2 })).external)
  end)

  it("adds in the public versions the exchanges with one chosen expert to the bubble", function()
    local function bubble(network, version)
      return described({ pp = 2, pipeline_interleaving = 2, n_experts = 4, chip_network = network }, version).bubble
    end
    -- The bubble has 16 / 4 layers, one of them at a stage's end. Each of 4 ranks sends its words of one byte twice.
    local cross = 2 * 4 * 512 * 1024 / 4 / 1e10
    for version, ends in pairs { head = 1, readme = 2 } do
      near((ends + 3 * 2 * 3 / 4) * cross / 2, bubble(1e10, version) - bubble(2e10, version))
    end
  end)

  it("gives each chip its share of a node's network", function()
    local links = require "ett.ledger.links"
    local function shared(inter)
      return links.chip { name = "shared", summary = "test", source = "test", device = "h100_sxm",
        gpus_per_node = 8, nodes = 4,
        links = { intra = { bandwidth = 4e11, latency = 2e-6, source = "test" }, inter = inter } }
    end
    local one = shared { bandwidth_per_gpu = 5e10, bandwidth_per_node = 5e10, latency = 5e-6, source = "test" }
    near({ network = 2 * 5e10 / 8, node_network = 8e11, latency_seconds = 5e-6, node_latency_seconds = 2e-6 }, one)
    assert.equal(1e11, shared({ bandwidth_per_gpu = 5e10, bandwidth_per_node = 8e11, source = "test" }).network)
    local _, why = pcall(links.chip, { name = "lone", summary = "test", source = "test", device = "h100_sxm",
      gpus_per_node = 1, links = {} })
    assert.equal("cluster 'lone': the ledger needs 'links' with 'intra' or 'inter'; it has none", tostring(why))
  end)

  it("counts precision for memory as for the network", function()
    local wide = { pp = 2, dp = 2, tp = 2, tp2 = 2 }
    local a = described(wide)
    wide.precision_bits = 16
    local b = described(wide)
    assert.is_true(math.abs(b.phases.full.memory / a.phases.full.memory - 2) < 1e-12)
    assert.is_true(math.abs(b.phases.full.network / a.phases.full.network - 2) < 1e-12)
    assert.is_true(math.abs(b.phases.full.compute / a.phases.full.compute - 2) < 1e-12)
  end)

  it("never has less time than any resource needs, nor than the FLOP at peak", function()
    for _, pp in ipairs { 1, 2, 4 } do
      for _, tp in ipairs { 1, 4 } do
        for _, overlap in ipairs { 0, 0.5, 1 } do
          local r = described { pp = pp, tp = tp, dp = 2, overlap = overlap, chip_network = 1e10, node_network = 1e10 }
          local sum = 0
          for _, phase in pairs(r.phases) do
            assert.is_true(phase.seconds >= math.max(phase.compute, phase.memory, phase.network) * (1 - 1e-12))
            sum = sum + phase.seconds
          end
          assert.is_true(math.abs(sum / r.batch - 1) < 1e-12)
          assert.is_true(r.utilization <= 0.6 + 1e-12)
        end
      end
    end
  end)

  it("divides memory by ZeRO stages, and trades activations for compute", function()
    local stages = {}
    for zero = 0, 3 do stages[zero] = described({ dp = 4, zero = zero }).memory end
    assert.equal(stages[0].optimizer / 4, stages[1].optimizer)
    assert.equal(stages[1].gradients / 4, stages[2].gradients)
    near({ weights = stages[2].weights / 4, activations = stages[0].activations }, stages[3])
    local kept, again = described { pp = 4 }, described { pp = 4, recompute = 1 }
    assert.is_true(again.memory.activations < kept.memory.activations)
    assert.is_true(math.abs(again.phases.full.compute / kept.phases.full.compute - 8 / 6) < 1e-12)
    local gpipe = described { pp = 4, gpipe = 1 }
    assert.is_true(gpipe.memory.activations > kept.memory.activations) -- 16 microbatches instead of 4
    assert.equal(kept.batch, gpipe.batch)
  end)

  it("gives the same numbers compiled", function()
    local program = simple.compile("corrected")
    local given = { n_layers = 16, d_model = 1024, batch_size = 64, microbatch_size = 4, seq_len = 512, pp = 4, dp = 2,
      tp = 2, tp2 = 4, n_experts = 2, chip_network = 1e10, latency_seconds = 1e-6, node_chips = 4, zero = 1 }
    local out = program:evaluate(given)
    local r, L = described(given)
    near({ batch_seconds = r.batch, utilization = r.utilization, memory_bytes = r.memory.total }, out)
    for _, check in ipairs(L:checks()) do assert.equal(1, check.ok, check.subject) end
    assert.equal(1, out.feasible)
    given.tp = 7
    assert.equal(0, program:evaluate(given).feasible)
  end)
end)

describe("three views of one step", function()
  local views_module = require "ett.search.views"
  local function views(plan, name, hyper)
    local model = merged({ layers = 8, hidden = 2048, heads = 16, vocab = 32000, ffn = 8192 }, hyper)
    local p = merged({ seq = 2048, pp = 2, tp = 4, dp = 2, micro_batch = 2, micro_batches = 8 }, plan)
    local result = views_module.new { model = require("ett.model").new(name or "gpt", model), plan = p,
      cluster = "dgx_h100" }
    return result.views, result.reasons
  end
  local parts = { "compute", "other", "tensor", "pipeline", "data", "other_traffic", "optimizer", "bubble" }

  it("leave no second of ett predict unnamed", function()
    for _, case in ipairs { {}, { { cp = 2 } }, { { recompute = "full", zero = 3 } },
      { { ep = 2 }, "mixtral", { experts = 8, top_k = 2, kv_heads = 8 } } } do
      local seen, sum = views(table.unpack(case)), 0
      for _, part in ipairs(parts) do sum = sum + seen[3][part .. "_seconds"] end
      assert.is_true(math.abs(sum / seen[3].step_seconds - 1) < 1e-6)
    end
  end)

  it("give grouped queries their own keys and values", function()
    local layers, d, h, c, tokens = 8, 2048, 16, 128, 2 * 8 * 2 * 2048
    local whole = views({}, "llama", { kv_heads = h })
    for kv, held in pairs { [4] = 4, [8] = 8, [2] = 4 } do -- four tensor ranks hold at least a head each
      local grouped, reasons = views({}, "llama", { kv_heads = kv })
      -- Two projections: a product and a sum over d forward, four times the product backward; the
      -- second replica's gradients are added to the first's.
      local less = 2 * layers * (h - held) * c * (tokens * (d + d - 1 + 4 * d) + d)
      assert.is_true(math.abs((whole[1].flop - grouped[1].flop) / less - 1) < 1e-12)
      assert.is_true(grouped[1].memory_bytes < whole[1].memory_bytes)
      assert.is_true(grouped[1].data_seconds < whole[1].data_seconds)
      assert.equal(whole[1].tensor_seconds, grouped[1].tensor_seconds)
      local said
      for _, reason in ipairs(reasons) do said = said or reason.text:match("grouped queries %(%d+ of 16 heads%).*") end
      assert.equal(kv == 2, said:find("on each of 4 tensor ranks", 1, true) ~= nil)
    end
  end)

  it("repeat the forward pass's traffic with recompute, and hold every expert", function()
    local plain, again = views(), views { recompute = "full" }
    assert.is_true(math.abs(again[2].tensor_seconds / plain[2].tensor_seconds - 1.5) < 1e-12)
    assert.is_true(again[1].memory_bytes < plain[1].memory_bytes)
    local function mixture(experts) return views({ ep = 2 }, "mixtral", { experts = experts, top_k = 2 }) end
    local few, many = mixture(8), mixture(16)
    -- Four experts more on each rank: 16-bit weights, fp32 gradients, 12 bytes of optimizer.
    local more = 8 / 2 * (16 - 8) / 2 * 3 * 2048 * 8192 / 4 * (2 + 4 + 12)
    assert.is_true(math.abs((many[1].memory_bytes - few[1].memory_bytes) / more - 1) < 1e-12)
    assert.is_true(math.abs((many[2].memory_bytes - few[2].memory_bytes) / more - 1) < 1e-12)
  end)
end)
