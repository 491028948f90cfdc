--- Context parallelism by three methods: volumes by hand, overlap against a walk along the ring, pieces counted one by
--- one.
local estimate = require "ett.step.estimate"
local exactly = require "exactly"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local raised = require "raised"
local sweep = require "ett.search.sweep"

local hyper = { layers = 2, hidden = 512, heads = 16, kv_heads = 4, ffn = 1024, vocab = 1024 }
local attention = { forward = 8e-3, backward = 20e-3 }
local asked, rate

local cluster = { name = "flat", path = "spec", gpus_per_node = 64,
  device = { name = "D", peak_flops = { bf16 = 1e14, fp32 = 5e13 }, memory_bytes = 80e9, memory_bandwidth = 1e12 } }
local profile = {
  operator = function(_, name, _, _, pass) return exactly(name == "flash_attention" and attention[pass] or 1e-3) end,
  collective = function(_, kind, bytes)
    asked[kind] = asked[kind] or {}
    table.insert(asked[kind], bytes)
    return exactly(bytes / rate)
  end,
}

local function given(plan)
  asked = {}
  local full = merged({ seq = 4096, micro_batches = 1, gradient_dtype = "fp32", fused_accumulation = true }, plan)
  return { model = model_module.new("llama", hyper), cluster = cluster, profile = profile, plan = full }
end

local function line_of(e, name)
  for _, line in ipairs(e.collectives) do if line.name == name and line.group == "cp" then return line end end
end

describe("the messages of a context group", function()
  -- Of a micro-batch and layer: two bytes, head dimension 32.
  local rows, kv, queries = 4096 / 4, 2 * 4 * 32, 16 * 32
  rate = 1e10

  it("are keys and values gathered and scattered", function()
    estimate.new(given { cp = 4 })
    assert.equal(2.0 * 4096 * kv, asked.all_gather[1])
  end)

  it("are blocks from rank to rank; backward with gradients and one step more", function()
    local e = estimate.new(given { cp = 4, cp_method = "ring" })
    local sizes = {}
    for _, bytes in ipairs(asked.send_recv) do sizes[bytes] = true end
    assert.same({ [2.0 * rows * kv] = true, [4.0 * rows * kv] = true }, sizes)
    assert.equal(2 * (3 + 3 + 1), line_of(e, "send_recv").runs_per_micro_batch)
  end)

  it("are queries, keys, values and output exchanged for heads", function()
    local e = estimate.new(given { cp = 4, cp_method = "ulysses" })
    local sizes = {}
    for _, bytes in ipairs(asked.all_to_all) do sizes[bytes] = true end
    assert.same({ [2.0 * rows * (queries + kv)] = true, [2.0 * rows * queries] = true }, sizes)
    assert.equal(2 * 4, line_of(e, "all_to_all").runs_per_micro_batch)
  end)
end)

--- Seconds of attention around a ring: every rank computes on a block while the next one arrives.
local function around(cp, compute, send)
  local clock, arrived = 0.0, 0.0
  for step = 1, cp do
    clock = math.max(clock, arrived)
    if step < cp then arrived = clock + send end
    clock = clock + compute / cp
  end
  return clock
end

describe("a ring", function()
  it("takes as long as a walk along it, in both passes", function()
    for _, cp in ipairs { 2, 4, 8 } do
      for _, bandwidth in ipairs { 1e7, 1e8, 2e8, 1e9 } do
        rate = bandwidth
        local block = 2.0 * 4096 / cp * 2 * 4 * 32
        local line = line_of(estimate.new(given { cp = cp, cp_method = "ring" }), "send_recv")
        local forward = around(cp, attention.forward, block / rate) - attention.forward
        local backward = around(cp, attention.backward, 2 * block / rate) - attention.backward + block / rate
        assert.near(2 * (forward + backward), line.seconds, 1e-9 * line.seconds, ("cp %d at %g B/s"):format(cp, rate))
      end
    end
  end)
end)

describe("PyTorch's context_parallel", function()
  local torch = { context_parallel = "torch", repeated_keys = true, dtype = "bf16", tp = 2, cp = 4, micro_batch = 3,
    seq = 4096, hidden = 1024, heads = 16, kv_heads = 4 }

  local function messages(method)
    torch.cp_method = method
    local list = {}
    for k, m in ipairs(require("ett.operator.collective").expand({ collective = "context_exchange" }, torch)) do
      list[k] = { m.name, m.pass, m.times, m.bytes, m.overlapped }
    end
    return list
  end

  it("passes gradients around a ring in fp32, with a head for each query head", function()
    local values = 3 * 1024 * 8 * 2 * 64.0 -- of a rank's keys and values: 8 query heads on a tensor rank
    local returned = { "send_recv", "backward", 1, 4 * values, false }
    assert.same({ { "all_gather", "forward", 1, 2 * 4 * values, true }, returned, { "send_recv", "backward", 3,
      4 * values, true }, { "all_gather", "backward", 1, 2 * 4 * values, true } }, messages "all_gather")
    assert.same({ { "send_recv", "forward", 3, 2 * values, true }, returned, { "send_recv", "backward", 3, 6 * values,
      true } }, messages "ring")
  end)

  it("gathers during the attention to the rank's own block", function()
    local cluster_module = require "ett.profile.cluster"
    local function lines(stack, heads)
      local e = estimate.new { model = model_module.new("llama", { layers = 3, hidden = 4096, heads = heads,
        kv_heads = 8, ffn = 8192, vocab = 32000 }), cluster = cluster_module.get "dgx_h100",
        plan = { seq = 65536, tp = 8, cp = 4, micro_batches = 1, stack = stack } }
      local found = {}
      for _, line in ipairs(e.operators) do found[line.name] = line end
      for _, line in ipairs(e.collectives) do
        if line.group == "cp" then found[line.name .. " of cp"] = line.seconds end
      end
      return found
    end
    for _, heads in ipairs { 8, 32 } do
      local gather = lines("plain:repeated_keys", heads)["all_gather of cp"] / 2 -- one of two in each layer
      local found, own = lines("plain:repeated_keys:context_parallel=torch", heads), 0.0
      for _, pass in ipairs { "forward_seconds", "backward_seconds" } do
        own = own + math.max(0.0, gather - found.flash_attention[pass] / 4)
      end
      assert.near(own, found["all_gather of cp"], 1e-9)
      assert.is_true(own > 0)
      -- In a compiler's graphs nothing overlaps; torchtitan_eager has none.
      local own_way, eager = lines("plain:repeated_keys:context_parallel=torch:overlaps_context=false", heads),
        lines("torchtitan_eager", heads)
      for name, seconds in pairs { ["all_gather of cp"] = 2 * gather,
        ["send_recv of cp"] = own_way["send_recv of cp"] } do
        assert.near(seconds, own_way[name], 1e-9)
        assert.near(seconds, lines("torchtitan", heads)[name], 1e-9)
        assert.is_true(eager[name] < seconds)
      end
    end
    -- torchtitan repeats keys and values. It drops gathers that would repeat the head's input, but none of keys.
    local repeated, once = lines("torchtitan", 32), lines("torchtitan:repeated_keys=false", 32)
    assert.is_true(repeated["all_gather of cp"] > 2 * once["all_gather of cp"])
  end)
end)

describe("a ring whose neighbours exchange tokens for heads", function()
  local operators = require "ett.operator"

  it("exchanges a rank's queries, keys, values and output, and passes on the keys of its heads", function()
    rate = 1e10
    local e = estimate.new(given { cp = 8, cp_ulysses = 2, cp_method = "ring" })
    local rows, sizes = 4096 / 8, {}
    for _, kind in ipairs { "all_to_all", "send_recv" } do
      for _, bytes in ipairs(asked[kind]) do sizes[("%s %.0f"):format(kind, bytes)] = true end
    end
    -- By hand: 16 query heads and 4 of keys, of 32 values; a ring of 4 ranks with 2 heads of keys for 1024 rows.
    local into, out, block = 2 * rows * (16 + 2 * 4) * 32, 2 * rows * 16 * 32, 2 * 2 * rows * 2 * 2 * 32
    assert.same({ [("all_to_all %.0f"):format(into)] = true, [("all_to_all %.0f"):format(out)] = true,
      [("send_recv %.0f"):format(block)] = true, [("send_recv %.0f"):format(2 * block)] = true }, sizes)
    assert.equal(2 * (3 + 3 + 1), line_of(e, "send_recv").runs_per_micro_batch)
    assert.equal(2 * 4, line_of(e, "all_to_all").runs_per_micro_batch)
    local one = estimate.new(given { cp = 1 }).model_flops_per_step
    assert.near(one, e.model_flops_per_step, 1e-9 * one)
  end)

  it("is Ulysses if one group has all ranks, and a plain ring if it has one", function()
    rate = 1e8
    local function step(plan) return estimate.new(given(plan)).step_seconds end
    assert.equal(step { cp = 4, cp_method = "ulysses" }, step { cp = 4, cp_method = "ring", cp_ulysses = 4 })
    assert.equal(step { cp = 4, cp_method = "ring" }, step { cp = 4, cp_method = "ring", cp_ulysses = 1 })
    assert.equal(step { cp = 4, stack = "megatron" }, step { cp = 4, stack = "megatron", cp_ulysses = 1 })
  end)

  it("holds keys of other ranks and their gradients in a backward pass, as Transformer Engine does", function()
    local op, stack = operators.get "flash_attention", require "ett.operator.stack"
    local function held(plan, name) -- in keys and values of all ranks
      local s = op.shape(merged({ micro_batch = 1, heads = 16, kv_heads = 4, hidden = 512, seq = 4096, tp = 1, cp = 8 },
        plan))
      local queries = 16 * 512 * (2 * 64 + 4 * 32)
      return (op.working_bytes(s, "bf16", stack.get(name or "megatron")) - queries) / (2 * 4 * 4096 * 64)
    end
    assert.equal(3, held { cp_method = "all_gather" })
    assert.equal(6 / 8, held { cp_method = "ring" })
    assert.equal(6 / 4, held { cp_method = "ring", cp_ulysses = 2 } * 2) -- half of the heads
    assert.equal(1, held({ cp_method = "all_gather" }, "torchtitan"))
  end)

  it("has one communicator more", function()
    local function bytes(ulysses)
      for _, line in ipairs(estimate.new(given { cp = 4, cp_method = "ring", cp_ulysses = ulysses }).memory) do
        if line.name:find "communicator" then return line.bytes end
      end
    end
    assert.equal(bytes(1), bytes(4))
    assert.equal(require("ett.operator.stack").get("plain").communicator_bytes, bytes(2) - bytes(1))
  end)

  it("gives a rank the same query-key pairs for every division", function()
    local op = operators.get "flash_attention"
    local function flops(plan)
      return op.flops(op.shape(merged({ micro_batch = 1, heads = 16, kv_heads = 4, hidden = 512, seq = 4096, tp = 1,
        cp = 8, cp_method = "ring" }, plan)), "forward")
    end
    for _, ulysses in ipairs { 2, 4 } do assert.equal(flops {}, flops { cp_ulysses = ulysses }) end
    assert.near(flops {}, flops { cp_ulysses = 8 }, 1e-3 * flops {})
  end)

  it("sends its exchanges over the links of neighbours, its blocks over those of the ring", function()
    local function seconds(order)
      local e = estimate.new { model = model_module.new("llama", { layers = 2, hidden = 4096, heads = 32, kv_heads = 8,
        ffn = 8192, vocab = 32000 }), cluster = "dgx_h100", plan = { seq = 32768, cp = 16, dp = 2, micro_batches = 1,
        cp_ulysses = 8, cp_method = "ring", stack = "plain:communication_share=0", rank_order = order } }
      return line_of(e, "all_to_all").seconds
    end
    -- With data ranks innermost, the eight neighbours are on two nodes.
    assert.is_true(seconds "dp-tp-cp-ep-pp" > 2 * seconds "tp-cp-ep-dp-pp")
  end)

  it("refuses what cannot be, and is swept with the digits of single estimates", function()
    local function message(plan)
      plan.seq, plan.micro_batches = 4096, 1
      return raised(function() return plan_module.new(plan, model_module.new("llama", hyper)) end)
    end
    assert.matches("cp_ulysses = 3 must divide cp = 8; nearest are 2 and 4",
      message { cp = 8, cp_ulysses = 3, cp_method = "ring" }, 1, true)
    assert.matches("cp = 32 must divide heads / tp under cp_method = 'ulysses' = 16; nearest is 16",
      message { cp = 32, stack = "plain:cp_method=ulysses" }, 1, true)
    assert.matches("cp_ulysses = 32 must divide heads / tp = 16; nearest is 16",
      message { cp = 32, cp_ulysses = 32, cp_method = "ring" }, 1, true)
    assert.matches("cp_ulysses = 2 needs cp_method = 'ring'", message { cp = 8, cp_ulysses = 2 }, 1, true)
    assert.equal(2, plan_module.new({ seq = 4096, cp = 8, cp_ulysses = 2, micro_batches = 1, stack = "megatron" },
      model_module.new("llama", hyper)).cp_ulysses)
    rate = 1e8
    local what = given { cp = 8, cp_method = "ring" }
    what.over = { cp_ulysses = { 1, 2, 4, 8 } }
    local rows = sweep.new(what).rows
    assert.equal(4, #rows)
    for _, row in ipairs(rows) do
      local e = estimate.new(given { cp = 8, cp_method = "ring", cp_ulysses = row.cp_ulysses })
      assert.same({ e.step_seconds, e.memory_bytes }, { row.step_seconds, row.memory_bytes })
    end
  end)
end)

--- Query-key pairs of each rank of a causal sequence, counted.
local function counted(seq, cp, balanced)
  local pieces, most = balanced and 2 * cp or cp, 0
  local length = seq // pieces
  for rank = 0, cp - 1 do
    local own, pairs_of_rank = balanced and { rank, pieces - 1 - rank } or { rank }, 0
    for _, piece in ipairs(own) do
      for i = piece * length, (piece + 1) * length - 1 do pairs_of_rank = pairs_of_rank + i + 0.5 end
    end
    most = math.max(most, pairs_of_rank)
  end
  return most
end

describe("the chunks of a causal sequence", function()
  it("give the busiest rank the counted number of query-key pairs", function()
    local op = require("ett.operator").get "flash_attention"
    for _, cp in ipairs { 2, 4, 8 } do
      for _, balanced in ipairs { true, false } do
        local shape = op.shape { micro_batch = 1, heads = 1, hidden = 32, seq = 256, tp = 1, cp = cp,
          cp_balanced = balanced }
        assert.near(2.0 * 64 * counted(256, cp, balanced), op.flops(shape, "forward"), 1e-6)
      end
    end
  end)

  it("take as long as the undivided sequence, or longer", function()
    local devices = require("ett.profile.cluster").get "dgx_h100"
    local function device_seconds(cp)
      local e = estimate.new { model = model_module.new("llama", { layers = 2, hidden = 4096, heads = 64, kv_heads = 8,
        ffn = 8192, vocab = 32000 }), cluster = devices, plan = { seq = 4096, micro_batches = 4, cp = cp } }
      for _, line in ipairs(e.operators) do if line.name == "flash_attention" then return cp * line.seconds end end
    end
    local one = device_seconds(1)
    for _, cp in ipairs { 2, 4, 8 } do
      assert.is_true(device_seconds(cp) > 0.99 * one)
      assert.is_true(device_seconds(cp) < 1.2 * one)
    end
  end)

  it("do not change the model's FLOPs", function()
    rate = 1e10
    local one = estimate.new(given { cp = 1 }).model_flops_per_step
    for _, plan in ipairs { { cp = 4 }, { cp = 4, cp_balanced = false }, { cp = 4, cp_method = "ulysses" } } do
      assert.near(one, estimate.new(given(plan)).model_flops_per_step, 1e-9 * one)
    end
  end)
end)

describe("cp_method", function()
  it("is that of the stack, unless the plan states it", function()
    rate = 1e8
    local function kinds(stack, method)
      local e, found = estimate.new(given { cp = 4, stack = stack, cp_method = method }), {}
      for _, line in ipairs(e.collectives) do if line.group == "cp" then found[#found + 1] = line.name end end
      return table.concat(found, " "), table.concat(e.left_open, ", "):match "cp_method [a-z_]+"
    end
    for stack, wanted in pairs { plain = "all_gather", megatron = "ring", megatron_moe = "ring", megatron_fsdp = "ring",
      maxtext = "all_gather", ["plain:cp_method=ulysses"] = "ulysses" } do
      local names, open = kinds(stack)
      assert.equal("cp_method " .. wanted, open)
      assert.equal(kinds("plain", wanted), names)
      assert.is_nil((select(2, kinds(stack, "ring"))))
      assert.equal("send_recv", (kinds(stack, "ring")))
    end
    local what = given { cp = 4 }
    what.over = { stack = { "plain", "megatron" } }
    for _, row in ipairs(sweep.new(what).rows) do
      assert.equal(estimate.new(given { cp = 4, stack = row.stack }).step_seconds, row.step_seconds)
    end
  end)

  it("refuses what cannot be", function()
    local function message(plan)
      return raised(function() return plan_module.new(plan, model_module.new("llama", hyper)) end)
    end
    assert.matches("cp = 32 must divide heads / tp under cp_method = 'ulysses' = 16; nearest is 16",
      message { seq = 4096, cp = 32, micro_batches = 1, cp_method = "ulysses" }, 1, true)
    assert.matches("'cp_method' must be one of all_gather, ring, ulysses, got 'rings'; did you mean 'ring'?",
      message { seq = 4096, cp = 2, micro_batches = 1, cp_method = "rings" }, 1, true)
    assert.matches("2 * cp = 4 must divide seq = 4098: a rank holds two chunks (cp_balanced = false: one)",
      message { seq = 4098, cp = 2, micro_batches = 1 }, 1, true)
    for _, plan in ipairs { { cp_balanced = false }, { cp_method = "ulysses" } } do
      plan.seq, plan.cp, plan.micro_batches = 4098, 2, 1
      assert.equal(2, plan_module.new(plan, model_module.new("llama", hyper)).cp)
    end
  end)
end)
