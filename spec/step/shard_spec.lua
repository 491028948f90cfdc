--- Shards and their replicas, layers gathered ahead, weights that stay whole, offloading: memory and volumes by hand.
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local raised = require "raised"
local slices = require "ett.step.slices"
local sweep = require "ett.search.sweep"
local timeline = require "ett.step.timeline"

local model = model_module.new("llama", { layers = 8, hidden = 512, heads = 8, ffn = 1024, vocab = 1024 })
local layer, head = 4.0 * 512 * 512 + 3 * 512 * 1024 + 2 * 512, 1024.0 * 512
local parameters = 8 * layer + 2 * head + 512
local asked

local cluster = { name = "flat", path = "spec", gpus_per_node = 8, host = { bandwidth = 1e9, source = "spec" },
  links = { intra = { bandwidth = 1e11, source = "spec" }, inter = { bandwidth_per_gpu = 1e10,
    bandwidth_per_node = 8e10, source = "spec" } },
  device = { name = "D",
    peak_flops = { bf16 = 1e14, fp32 = 5e13, fp8 = 2e14, fp8_block = 2e14, mxfp8 = 2e14, nvfp4 = 4e14 },
    memory_bytes = 80e9, memory_bandwidth = 1e12 } }
local profile = {
  operator = function(_, _, _, _, pass) return exactly(pass == "backward" and 2e-3 or 1e-3) end,
  collective = function(_, kind, bytes, topology)
    asked[#asked + 1] = { kind = kind, bytes = bytes, ranks = topology.ranks, nodes = topology.nodes }
    return exactly(bytes * 1e-9 * (kind == "all_gather" and 1 or kind == "reduce_scatter" and 100 or 1e4))
  end,
}

local function given(plan, of)
  asked = {}
  local full = merged({ seq = 512, dp = 16, micro_batches = 2, fused_accumulation = true, bucket_bytes = 1e12 }, plan)
  return { model = model, cluster = of or cluster, profile = profile, plan = full }
end
local function run(plan)
  local all = given(plan)
  all.interval = false
  return estimate.new(all)
end

describe("shards over fewer ranks than the data-parallel group", function()
  it("hold the states of a shard, and are the first ranks of the group", function()
    for _, shard in ipairs { 1, 2, 4, 8, 16 } do
      local s = run({ zero = 1, shard = shard }).stages[1]
      assert.near(12 * parameters / shard, s.optimizer_bytes, 1)
      assert.near(parameters / shard * 2, run({ zero = 3, shard = shard }).stages[1].weight_bytes, 1)
    end
  end)

  it("reduce to shards, and shards over their replicas", function()
    for _, shard in ipairs { 2, 4, 8 } do
      local e = run { zero = 1, shard = shard }
      local bytes, found = 4 * parameters, {}
      for _, a in ipairs(asked) do found[a.kind] = a end
      assert.near(bytes, found.reduce_scatter.bytes, 1)
      assert.equal(shard, found.reduce_scatter.ranks)
      assert.equal(1, found.reduce_scatter.nodes)
      assert.near(bytes / shard, found.all_reduce.bytes, 1)
      assert.equal(16 / shard, found.all_reduce.ranks)
      assert.equal(2, found.all_reduce.nodes)
      assert.near(2 * parameters, found.all_gather.bytes, 1)
      assert.equal(shard, found.all_gather.ranks)
      assert.near(bytes * 100e-9 + bytes / shard * 1e-5, e.gradient_exposed_seconds, 1e-9 * e.step_seconds)
      assert.matches("reduce_scatter %(dp%) [^\n]*, with all_reduce over the replicas", tostring(e))
    end
    run { zero = 1, shard = 1 }
    assert.equal(1, #asked)
    assert.near(4 * parameters, asked[1].bytes, 1)
    assert.equal("all_reduce", asked[1].kind)
  end)

  it("as large as the group have no replicas", function()
    for zero = 1, 3 do
      assert.equal(run({ zero = zero }).step_seconds, run({ zero = zero, shard = 16 }).step_seconds)
      assert.equal(run({ zero = zero }).memory_bytes, run({ zero = zero, shard = 16 }).memory_bytes)
      assert.is_nil(tostring(run { zero = zero, shard = 16 }):find "replicas")
    end
  end)

  it("take context and data ranks, in either order of them", function()
    for _, order in ipairs { "tp-cp-ep-dp-pp", "tp-dp-ep-cp-pp" } do
      local e = run { zero = 1, dp = 4, cp = 4, shard = 8, rank_order = order }
      assert.near(12 * parameters / 8, e.stages[1].optimizer_bytes, 1)
    end
  end)
end)

describe("weights of products that are stored in 8 bits", function()
  it("are gathered in 8 bits, the other weights in 16", function()
    local function gathered(dtype, stack, more)
      local what = given { zero = 1, dp = 8, dtype = dtype, stack = stack }
      for name, value in pairs(more or {}) do what.plan[name] = value end
      what.units, asked = true, {}
      local e, demanded, moved = estimate.new(what), 0, 0
      for _, a in ipairs(asked) do
        if a.kind == "all_gather" then demanded = math.max(demanded, a.bytes) end
      end
      for _, m in ipairs(timeline.of(e).stages[1].messages) do
        moved = moved + (m.name == "all_gather" and m.bytes or 0)
      end
      return demanded, moved, e
    end
    local all, moved, e = gathered("bf16", "megatron")
    assert.near(all, moved, 1)
    local products = 0 -- weights of the layers' products
    for index, n in pairs(e.lowered.kinds[2].uses) do
      local o = e.lowered.operations[index]
      products = products + (o.family == "gemm" and e.lowered.kinds[2].count * n * o.dense_parameters or 0)
    end
    assert.is_true(products > 0 and 2 * products < all)
    for _, case in ipairs { { "bf16", "", 0 }, { "fp8", "", 0 }, { "fp8", ":quantised_weights=only", 1 },
      { "fp8", ":quantised_weights=single", 1 }, { "fp8_block", ":quantised_weights=only", 1 },
      { "mxfp8", ":quantised_weights=only", 0 }, { "mxfp8", ":quantised_weights=only:gathers_mxfp8", 1 },
      { "nvfp4", ":quantised_weights=only", 0 } } do
      local bytes, of_messages = gathered(case[1], "megatron" .. case[2])
      assert.near(all - case[3] * products, bytes, 1, case[1] .. case[2])
      assert.near(bytes, of_messages, 1, case[1] .. case[2])
    end
    -- ZeRO-3 gathers for both passes of two micro-batches. Layers without a backward pass are gathered once for each.
    local narrow = "megatron_fsdp:quantised_weights=only"
    for frozen_layers, passes in pairs { [0] = 2, [2] = 1 + 6 / 8 } do
      local more = { zero = 3, frozen_layers = frozen_layers, overlap_parameters = false, overlap_gradients = false }
      local _, wide, before = gathered("mxfp8", "megatron_fsdp", more)
      local _, eight, behind = gathered("mxfp8", narrow, more)
      assert.near(2 * passes * products, wide - eight, 1e-6 * wide)
      assert.near(2 * passes * products * 1e-9, before.step_seconds - behind.step_seconds, 1e-9 * before.step_seconds)
    end
  end)

  it("are stored in 8 bits under ZeRO-3, in shards and in gathered layers", function()
    -- Megatron FSDP, 8 ranks: bytes of a product's weight in the shards, whole on each rank, in a gathered layer, and
    -- of the other copy of the layer whose backward pass runs.
    local products = layer - 2 * 512
    for case, bytes in pairs { ["fp8 none"] = { 2, 0, 2, 0 }, ["fp8 beside"] = { 2, 0, 2, 0 },
      ["fp8 only"] = { 1, 0, 1, 1 }, ["fp8 single"] = { 1, 0, 1, 0 }, ["fp8_block only"] = { 1, 0, 1, 1 },
      ["mxfp8 only"] = { 2, 1 / 16, 1, 0 }, ["nvfp4 only"] = { 2, 0, 2, 0 } } do
      local dtype, how = case:match "(%S+) (%S+)"
      local plan = { zero = 3, dp = 8, dtype = dtype, stack = "megatron_fsdp:quantised_weights=" .. how }
      local s = run(plan).stages[1]
      local shards = (2 * (parameters - 8 * products) + bytes[1] * 8 * products) / 8
      assert.near(shards + bytes[2] * 8 * products, s.weight_bytes, 1, case)
      -- Two layers are gathered at once; the head is smaller.
      assert.near(2 * (2 * 2 * 512 + bytes[3] * products) + bytes[4] * products + 4 * layer, s.temporary_bytes, 1, case)
      plan.reshard = false -- all weights are whole once
      s = run(plan).stages[1]
      local whole = 2 * (parameters - 8 * products) + (bytes[1] + bytes[2]) * 8 * products
      assert.near(whole + bytes[4] * products + 4 * layer, s.weight_bytes + s.temporary_bytes, 1, case)
    end
    -- The only shards of PyTorch FSDP are those of fp32 weights, which the optimizer states hold.
    local narrow = run { zero = 3, dp = 8, dtype = "fp8", stack = "fsdp_eager:quantised_weights=only" }
    assert.equal(0, narrow.stages[1].weight_bytes)
    -- Neither are experts stored in 8 or 16 bits, of which each rank has its own.
    for _, how in ipairs { "none", "beside", "only", "single" } do
      local what = given { zero = 3, dp = 8, ep = 8, dtype = "fp8", stack = "fsdp_eager:quantised_weights=" .. how }
      what.model = model_module.new("mixtral", { layers = 2, hidden = 512, heads = 8, ffn = 1024, vocab = 1024,
        experts = 8, top_k = 2 })
      assert.equal(0, estimate.new(what).stages[1].weight_bytes, how)
    end
    -- Half of the weights in the host's memory, but for two layers.
    local s = run({ zero = 3, dp = 8, dtype = "fp8", offload_weights = 0.5,
      stack = "megatron_fsdp:quantised_weights=only" }).stages[1]
    local shards = (2 * (parameters - 8 * products) + 8 * products) / 8
    assert.near(shards * (0.5 + 0.5 * 2 * layer / parameters), s.weight_bytes, 1)
  end)
end)

describe("ranks that own whole tensors", function()
  it("send them in one message each after the update", function()
    local function sent(more, stack)
      local what = given({ zero = 1, stack = stack or "plain:owned_tensors=9", overlap_parameters = false })
      for name, value in pairs(more) do what.plan[name] = value end
      what.profile = { operator = profile.operator, collective = function(_, kind, bytes, topology)
        local seconds = kind == "all_gather" and 1e-3 + bytes * 1e-9 or 0.0
        asked[#asked + 1] = { kind = kind, bytes = bytes, ranks = topology.ranks }
        return exactly(seconds)
      end }
      local s, largest = estimate.new(what).stages[1], 0.0
      for _, a in ipairs(asked) do if a.kind == "all_gather" then largest = math.max(largest, a.bytes) end end
      return s, largest
    end
    -- 8 layers on 16 ranks: owners by the number of tensors of a layer, and by ranks of a shard.
    for case, owners in pairs { ["16 9"] = 16, ["16 1"] = 8, ["4 9"] = 4, ["16 0"] = 1 } do
      local shard, tensors = case:match "(%d+) (%d+)"
      for zero = 1, 2 do
        local s, bytes = sent({ zero = zero, shard = tonumber(shard) }, "plain:owned_tensors=" .. tensors)
        -- A gather moves (n - 1) / n of its bytes, an owner's broadcast all.
        local moved = 2 * parameters * (tensors == "0" and 1 or shard / (shard - 1))
        assert.near(owners * 1e-3 + moved * 1e-9, s.gather_seconds, 1e-9, case)
        assert.near(moved / owners, bytes, 1, case)
      end
    end
    local s = sent({ pp = 2, dp = 8 }, "plain:owned_tensors=1") -- 4 layers and the embedding
    assert.near(4e-3 + 8 / 7 * 2 * s.parameters * 1e-9, s.gather_seconds, 1e-9)
    assert.equal(0, sent({ zero = 3 }).gather_seconds)
    assert.equal(0, sent({ zero = 0 }).gather_seconds)
    local function layers_of(stack) return select(2, sent({ zero = 3 }, stack)) end
    assert.equal(layers_of "plain", layers_of "plain:owned_tensors=9")
  end)
end)

describe("weights under ZeRO-3", function()
  it("are gathered once without reshard, twice with it", function()
    local function gathered(e)
      for _, line in ipairs(e.collectives) do if line.name == "all_gather" then return line.seconds end end
    end
    local twice, once = run { zero = 3 }, run { zero = 3, reshard = false }
    assert.near(2 * gathered(once), gathered(twice), 1e-9)
    assert.near(2 * parameters, once.stages[1].weight_bytes + once.stages[1].temporary_bytes
      - 4 * math.max(layer, head + 512), 8)
  end)

  it("and gradients of stages move once a step under FSDP2, whatever the number of micro-batches", function()
    local function step(more, stack)
      return run(merged({ zero = 3, pp = 2, dp = 8, stack = stack or "fsdp_eager", overlap_gradients = false,
        overlap_parameters = false }, more))
    end
    local function passes(s) return s.micro_batch_forward_seconds + s.micro_batch_backward_seconds end
    for _, count in ipairs { 1, 4 } do
      local plain = step({ zero = 1, micro_batches = count }).stages[1]
      local s = step({ reshard = false, micro_batches = count }).stages[1]
      assert.near(4 * s.parameters * 100e-9, s.gradient_seconds, 1e-9)
      assert.near(2 * s.parameters * 1e-9, s.gather_seconds, 1e-9)
      assert.near(s.gather_seconds, s.gather_exposed_seconds, 1e-9)
      assert.near(passes(plain), passes(s), 1e-9)
      local beside = step({ reshard = false, micro_batches = count, overlap_gradients = true }).stages[1]
      assert.equal(s.gradient_exposed_seconds, beside.gradient_exposed_seconds) -- after the last backward pass
      local two = step({ zero = 2, micro_batches = count, overlap_gradients = true }).stages[1]
      for _, name in ipairs { "gradient_seconds", "gradient_exposed_seconds", "gather_seconds" } do
        assert.near(s[name], two[name], 1e-9, name)
      end
      -- Weights stay from a backward pass to the next forward pass.
      s = step({ reshard = true, micro_batches = count }).stages[1]
      assert.near(4 * s.parameters * 100e-9, s.gradient_seconds, 1e-9)
      assert.equal(0, s.gather_seconds)
      assert.near(passes(plain) + 2 * s.parameters * 1e-9, passes(s), 1e-9)
      s = step({ reshard = true, micro_batches = count }, "maxtext").stages[1]
      assert.near(count * 4 * s.parameters * 100e-9, s.gradient_seconds, 1e-9)
      assert.near(passes(plain) + 2 * 2 * s.parameters * 1e-9, passes(s), 1e-9)
    end
    for _, zero in ipairs { 2, 3 } do
      local what = given { zero = zero, pp = 2, dp = 8, stack = "fsdp_eager", reshard = false, micro_batches = 4 }
      what.units = true
      local e, moved = estimate.new(what), {}
      for _, m in ipairs(timeline.of(e).stages[1].messages) do moved[m.name] = (moved[m.name] or 0) + (m.bytes or 0) end
      assert.near(4 * e.stages[1].parameters, moved.reduce_scatter, 1)
      assert.near(2 * e.stages[1].parameters, moved.all_gather, 1)
    end
    -- Frozen weights are gathered, too.
    local s = step({ reshard = false, lora_rank = 4 }).stages[1]
    assert.near(2 * (s.parameters + s.frozen_parameters) * 1e-9, s.gather_seconds, 1e-9)
  end)

  it("are gathered `prefetch` layers ahead, and without overlap for prefetch 0", function()
    local function weights(e) return e.stages[1].temporary_bytes - 4 * layer end
    for depth = 1, 4 do
      assert.near(2 * layer * (1 + depth), weights(run { zero = 3, overlap_parameters = true, prefetch = depth }), 1)
    end
    local none = run { zero = 3, overlap_parameters = true, prefetch = 0 }
    assert.equal(run({ zero = 3 }).step_seconds, none.step_seconds)
  end)
end)

-- Layers of a pass, in its order: seconds, and seconds of the gather of their weights.
local function layers_of(e, slot, backward)
  local list, operations, p = {}, e.lowered.operations, e.plan
  for _, kind in ipairs(slices.layers(p, e.lowered.kinds)[slot]) do
    local seconds, weights = 0.0, 0.0
    for index, n in pairs(kind.uses) do
      local o = operations[index]
      local once = o.forward and o.forward.seconds or 0
      if not backward then
        seconds = seconds + n * once
      else
        local again = kind.place == "middle" and p.recompute == "full" and not o.never_again and once or 0
        seconds = seconds + n * ((o.backward and o.backward.seconds or 0) + again)
      end
      weights = weights + n * (o.dense_parameters + o.expert_parameters)
    end
    table.insert(list, backward and 1 or #list + 1, { seconds = seconds, weights = weights })
  end
  return list
end

-- Seconds of a pass, event by event: the gather of a layer starts after the gather and the start of the layer before.
-- Also: seconds of all gathers, of the first, and of those with no computing beside them.
local function passed(layers, seconds_of_byte, share)
  local gathered, ended, before, total, first, alone = 0.0, 0.0, nil, 0.0, nil, 0.0
  for _, l in ipairs(layers) do
    local seconds = 2 * l.weights * seconds_of_byte
    gathered = math.max(gathered, before and before.start or 0) + seconds
    -- The layer before loses a share of its device while the gather runs.
    if before then ended = ended + share * seconds end
    alone = alone + math.max(0, seconds - (before and before.seconds / (1 - share) or 0))
    l.start = math.max(ended, gathered)
    ended, before, total, first = l.start + l.seconds, l, total + seconds, first or seconds
  end
  return ended, total, first, alone
end

describe("layers whose weights are gathered one ahead", function()
  local stack = { plain = 0,
    megatron_fsdp = require("ett.operator.stack").get("megatron_fsdp").communication_share }
  local large = model_module.new("llama", { layers = 8, hidden = 512, heads = 8, ffn = 1024, vocab = 16384 })

  it("wait for gathers of their own sizes, and end with the computing of the last layer", function()
    for _, case in ipairs { {}, { pp = 2, dp = 8 }, { recompute = "full" }, { stack = "megatron_fsdp:graphs" } } do
      for _, slower in ipairs { 0.1, 1, 2, 10 } do
        local plan = merged({ zero = 3, overlap_parameters = true, overlap_gradients = false, stack = "plain" }, case)
        local all = given(plan)
        all.model, all.units, all.profile = large, true, { operator = profile.operator,
          collective = function(_, kind, bytes)
            return exactly(kind == "all_gather" and bytes * slower * 1e-9 or bytes * 1e-15)
          end }
        local e = estimate.new(all)
        local share, hidden = stack[plan.stack:match "^[^:]+"], 0.0
        for stage, units in ipairs(e.units) do
          for _, unit in ipairs(units) do
            local want, gathers, first = passed(layers_of(e, stage, unit[1] == "B"), slower * 1e-9, share)
            assert.near(want, unit.seconds, 1e-9, ("%s of stage %d, %g"):format(unit[1], stage, slower))
            hidden = hidden + (gathers - first) / #e.units
          end
        end
        for stage, own in ipairs(timeline.of(e).stages) do
          for _, unit in ipairs(own.units) do
            local _, _, _, alone = passed(layers_of(e, stage, unit.kind == "B"), slower * 1e-9, share)
            assert.near(alone, unit.parts[1].gathers.seconds, 1e-9, ("alone in stage %d, %g"):format(stage, slower))
          end
        end
        for _, line in ipairs(e.collectives) do
          -- Shorter than the layers beside them: all but the first are hidden.
          if line.name == "all_gather" and slower == 0.1 and not plan.pp then
            assert.near(hidden, line.overlapped_seconds, 1e-9)
          end
        end
      end
    end
  end)
end)

describe("layers whose weights are gathered several ahead", function()
  -- Gathers of the wide head and embedding are long, those of layers short.
  local wide = model_module.new("llama", { layers = 8, hidden = 512, heads = 8, ffn = 1024, vocab = 65536 })

  local function step(plan, depth, slower, own)
    local all = merged({ zero = 3, overlap_parameters = true, overlap_gradients = false, prefetch = depth }, plan)
    local what = given(all)
    what.model, what.units, what.profile = own or wide, true, { operator = profile.operator,
      collective = function(_, kind, bytes)
        return exactly(kind == "all_gather" and bytes * slower * 1e-9 or bytes * 1e-15)
      end }
    return estimate.new(what)
  end

  it("wait for a gather that starts when the layer so many before it starts", function()
    local shorter = 0
    for _, plan in ipairs { { stack = "plain" }, { stack = "plain", pp = 2, dp = 8 },
      { stack = "plain", recompute = "full" } } do
      for _, slower in ipairs { 0.05, 0.1, 1, 2 } do
        local before
        for _, depth in ipairs { 1, 2, 3, 20 } do
          local e = step(plan, depth, slower)
          for stage, units in ipairs(e.units) do
            for _, unit in ipairs(units) do
              local starts, gathered, ended = {}, 0.0, 0.0
              for i, l in ipairs(layers_of(e, stage, unit[1] == "B")) do
                gathered = math.max(gathered, starts[i - depth] or 0.0) + 2 * l.weights * slower * 1e-9
                starts[i] = math.max(ended, gathered)
                ended = starts[i] + l.seconds
              end
              assert.near(ended, unit.seconds, 1e-9, ("%s of stage %d, %d ahead"):format(unit[1], stage, depth))
            end
          end
          assert.is_true(e.step_seconds <= (before or e.step_seconds) * (1 + 1e-12))
          shorter = shorter + (before and e.step_seconds < 0.999 * before and 1 or 0)
          before = e.step_seconds
        end
      end
    end
    assert.is_true(shorter > 0)
  end)

  it("lose communication_share of the gathers beside them, as one ahead", function()
    local even = model_module.new("llama", { layers = 8, hidden = 512, heads = 8, ffn = 1024, vocab = 64 })
    for _, plan in ipairs { { stack = "megatron_fsdp:graphs" }, { stack = "megatron_fsdp:graphs", tp = 4, dp = 4 } } do
      for _, slower in ipairs { 0.1, 10 } do
        local one, two = step(plan, 1, slower, even).step_seconds, step(plan, 2, slower, even).step_seconds
        assert.is_true(two <= one * (1 + 1e-12))
        assert.near(one, two, 0.02 * one)
      end
    end
  end)
end)

describe("offloading", function()
  it("moves bytes to the host, except those of two layers in use", function()
    local plain = run({}).stages[1]
    local s = run({ offload_optimizer = 0.5 }).stages[1]
    assert.near(0.5 * plain.optimizer_bytes, s.optimizer_bytes, 1)
    assert.near(0.5 * plain.optimizer_bytes + 0.5 * 4 * parameters, s.host_bytes, 1) -- with gradients to update from
    assert.equal(plain.gradient_bytes, s.gradient_bytes)
    s = run({ offload_gradients = 1 }).stages[1]
    assert.near(4 * parameters, s.host_bytes, 1)
    assert.near(2 / 10 * 4 * parameters, s.gradient_bytes, 1)
    s = run({ offload_gradients = 1, offload_optimizer = 1, zero = 2 }).stages[1]
    assert.near(16 * parameters / 16, s.host_bytes, 1)
    assert.near(2 / 10 * 4 * parameters / 16, s.gradient_bytes, 1)
    assert.equal(0, s.optimizer_bytes)
    s = run({ offload_activations = 1 }).stages[1]
    assert.near(plain.activation_bytes, s.host_bytes, 1)
    s = run({ offload_weights = 1 }).stages[1]
    assert.near(2 * parameters, s.host_bytes, 1)
    assert.near(2 * 2 * layer, s.weight_bytes, 1)
  end)

  it("leaves two layers of one micro-batch on the device, and what recomputation repeats", function()
    local function stage(number, plan)
      return run(merged({ pp = 4, dp = 1, micro_batches = 8 }, plan)).stages[number]
    end
    for number = 1, 3 do
      -- Two layers a stage; the embedding stores the numbers of its tokens.
      local two = stage(2, { micro_batches = 1 }).activation_bytes
      local s = stage(number, { offload_activations = 1 })
      assert.near(two, s.activation_bytes, 1)
      assert.near(stage(number, {}).activation_bytes, s.host_bytes, 1)
      s = stage(number, { offload_activations = 0.25 })
      assert.near(0.75 * stage(number, {}).activation_bytes + 0.25 * two, s.activation_bytes, 1)
    end
    local full, s = stage(2, { recompute = "full" }), stage(2, { recompute = "full", offload_activations = 1 })
    local input = 2 * 512 * 512
    assert.near(3 * 2 * input, s.host_bytes, 1) -- three micro-batches in flight
    assert.near(2 * 2 * input, full.activation_bytes - s.activation_bytes, 1)
    -- The last stage has two layers and the head, whose logits are smaller or larger than a layer.
    for vocab, larger in pairs { [1024] = false, [32768] = true } do
      local what = given { pp = 4, dp = 1 }
      what.model = model_module.new("llama", merged(model.hyper, { vocab = vocab }))
      local stages = estimate.new(what).stages
      local one = stages[3].activation_bytes / 2 / 2 -- two micro-batches in flight
      local head_bytes = stages[4].activation_bytes - 2 * one
      what.plan.offload_activations = 1
      assert.equal(larger, head_bytes > one)
      assert.near(one + math.max(one, head_bytes), estimate.new(what).stages[4].activation_bytes, 1)
    end
  end)

  it("transfers the rank's shard of the weights under ZeRO-3", function()
    local plain = run({ zero = 3 }).stages[1]
    local s = run({ zero = 3, offload_weights = 1 }).stages[1]
    assert.near(plain.weight_bytes, s.host_bytes, 1)
    assert.near(2 * 2 * layer * plain.weight_bytes / (2 * parameters), s.weight_bytes, 1)
    local slow = merged(cluster, { host = { bandwidth = 1e8, source = "spec" } })
    assert.is_true(estimate.new(given({ dp = 1, offload_weights = 1 }, slow)).stages[1].offload_seconds > 0)
    assert.equal(0, estimate.new(given({ zero = 3, offload_weights = 1 }, slow)).stages[1].offload_seconds)
  end)

  it("lasts as long as its larger direction takes to transfer", function()
    local plain = run({ dp = 1 })
    local forward, backward = plain.stages[1].micro_batch_forward_seconds, plain.stages[1].micro_batch_backward_seconds
    local kept, weights = plain.stages[1].activation_bytes / 1e9, 2 * parameters / 1e9
    for _, shares in ipairs { { 1, 0 }, { 0, 1 }, { 1, 1 }, { 0.3, 0.7 } } do
      local e = run { dp = 1, offload_activations = shares[1], offload_weights = shares[2] }
      local out, back = shares[1] * kept, shares[2] * weights
      local wanted = math.max(0, math.max(out, back) - forward) + math.max(0, out + back - backward)
      assert.near(2 * wanted, e.stages[1].offload_seconds, 1e-9)
      assert.near(plain.step_seconds + 2 * wanted, e.step_seconds, 1e-9)
    end
    assert.matches("offload %(host%)", tostring(run { dp = 1, seq = 8192, offload_activations = 1 }))
  end)

  it("of gradients leaves behind backward passes", function()
    local backward = run({ dp = 1 }).stages[1].micro_batch_backward_seconds
    local slow = merged(cluster, { host = { bandwidth = 1e8, source = "spec" } })
    local e = estimate.new(given({ dp = 1, offload_gradients = 0.5 }, slow))
    assert.near(2 * (0.5 * 4 * parameters / 1e8 - backward), e.stages[1].offload_seconds, 1e-9)
    e = estimate.new(given({ zero = 2, offload_gradients = 0.5 }, slow)) -- a sixteenth
    assert.equal(0, e.stages[1].offload_seconds)
  end)

  it("lets the host update its weights, and transfers gradients and weights", function()
    local kernel = run({ dp = 1 }).stages[1].optimizer_seconds
    for _, memory in ipairs { 1e9, 1e12 } do
      local of = merged(cluster, { host = { bandwidth = 1e9, memory_bandwidth = memory, source = "spec" } })
      for _, shares in ipairs { { 1, 0 }, { 1, 1 }, { 0.25, 0.5 }, { 0, 1 } } do
        local plan = { dp = 1, offload_optimizer = shares[1], offload_gradients = shares[2] }
        local s = estimate.new(given(plan, of)).stages[1]
        local to = math.max(0, shares[1] - shares[2]) * 4
        local from = shares[1] * 2 + math.max(0, shares[2] - shares[1]) * 4
        local on_host = parameters * math.max(shares[1] * (2 * 12 + 4 + 2) / (0.15 * memory), to / 1e9, from / 1e9)
        assert.near((1 - shares[1]) * kernel, s.optimizer_kernel_seconds, 1e-9)
        assert.near(math.max((1 - shares[1]) * kernel, on_host), s.optimizer_seconds, 1e-6)
      end
    end
  end)
end)

describe("shards and offloading", function()
  it("are swept with the digits of single estimates", function()
    local over = { shard = { 2, 16 }, prefetch = { 0, 2 }, reshard = { true, false }, offload_activations = { 0, 0.5 },
      offload_optimizer = { 0, 1 } }
    local what = given { zero = 3, overlap_parameters = true }
    what.over = over
    local rows = sweep.new(what).rows
    assert.equal(32, #rows)
    for _, row in ipairs(rows) do
      local plan = { zero = 3, overlap_parameters = true }
      for name in pairs(over) do plan[name] = row[name] end
      local e = run(plan)
      assert.equal(e.step_seconds, row.step_seconds)
      assert.equal(e.memory_bytes, row.memory_bytes)
    end
  end)

  it("refuse what cannot be", function()
    local function message(plan, of)
      local what = given(plan, of)
      return raised(plan_module.new, what.plan, model, what.cluster)
    end
    assert.matches("shard = 3 must divide dp * cp = 16; nearest are 2 and 4", message { zero = 1, shard = 3 }, 1, true)
    assert.matches("shard needs zero of at least 1, got 0", message { shard = 4 }, 1, true)
    local bare = merged(cluster)
    bare.host = nil
    assert.matches("offload_weights needs a link to the host; flat has none (field 'host')",
      message({ offload_weights = 0.1 }, bare), 1, true)
    assert.matches("field 'offload_optimizer' must be a number from 0 to 1, got 2",
      message { offload_optimizer = 2 }, 1, true)
  end)
end)
