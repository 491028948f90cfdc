--- Activations of a layer against Korthikanti et al. 2022 (arXiv 2205.05198), table 2, by hand.
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local raised = require "raised"

--- Bytes that one more layer keeps: the difference of two models, so that embedding and head cancel.
local function layer_bytes(h, plan, arch)
  local function run(layers)
    return estimate.new { model = model_module.new(arch or "gpt", merged({ layers = layers }, h)), plan = plan,
      cluster = "dgx_h100", profile = false }.stages[1].activation_bytes
  end
  return (run(4) - run(2)) / 2
end

describe("activations of a GPT layer", function()
  -- heads, hidden, micro-batch of table 3: 22B, 175B, 530B, 1T
  for _, case in ipairs { { 64, 6144, 4 }, { 96, 12288, 1 }, { 128, 20480, 1 }, { 160, 25600, 1 } } do
    local a, h, b = table.unpack(case)
    local s, t = 2048, 8
    local hyper = { hidden = h, heads = a, ffn = 4 * h, vocab = 51200, max_positions = s, dropout = true,
      attention = "fused_softmax" }
    local plan = { seq = s, tp = t, micro_batch = b, micro_batches = 1, sequence_parallel = true, dtype = "fp16" }
    local sbh = 1.0 * s * b * h

    it(("are 34 sbh/t with selective recomputation, hidden %d"):format(h), function()
      plan.recompute = "selective"
      local wanted, got = 34 * sbh / t, layer_bytes(hyper, plan)
      assert.is_true(math.abs(got / wanted - 1) <= 0.01, ("wanted %.4g, got %.4g"):format(wanted, got))
    end)

    it(("are sbh/t (34 + 5as/h) without, hidden %d"):format(h), function()
      plan.recompute = "none"
      local wanted, got = sbh / t * (34 + 5 * a * s / h), layer_bytes(hyper, plan)
      assert.is_true(math.abs(got / wanted - 1) <= 0.01, ("wanted %.4g, got %.4g"):format(wanted, got))
    end)
  end

  it("keep queries, keys and values of flash attention under selective recomputation", function()
    local hyper = { hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 }
    local plan = { seq = 1024, micro_batches = 1, recompute = "selective" }
    local selective = layer_bytes(hyper, plan)
    plan.recompute = "none"
    assert.equal(4.0 * 16 * 1024, layer_bytes(hyper, plan) - selective) -- the log-sum-exp alone
  end)
end)

describe("an input that several operators read", function()
  -- Values of a token that a layer keeps, in bf16; inputs of the two norms, queries and keys included.
  local function values(arch, h, dtype)
    local function run(layers)
      return estimate.new { model = model_module.new(arch, merged({ layers = layers }, h)), cluster = "dgx_h100",
        plan = { seq = 1024, micro_batches = 1, dtype = dtype } }.stages[1].activation_bytes
    end
    return (run(3) - run(2)) / 1024 / 2
  end

  it("is kept once: the two norms of a parallel block, or the two products behind its one norm", function()
    local h = { hidden = 1024, heads = 16, ffn = 4096, vocab = 32000, parallel_block = true, position = "rope" }
    -- Stream; norms' outputs; queries, keys, values, statistics; attention's output; the MLP's two.
    assert.equal(1024 + 2 * 1024 + 3 * 1024 + 2 * 16 + 1024 + 2 * 4096, values("gpt", h))
    h.shared_norm = true
    assert.equal(1024 + 1024 + 3 * 1024 + 2 * 16 + 1024 + 2 * 4096, values("gpt", h))
  end)

  it("is kept once: both compressions of latent attention, router and shared experts", function()
    local h = { hidden = 1024, heads = 8, vocab = 32000, experts = 8, top_k = 2, moe_ffn = 512, shared_experts = 1,
      q_lora_rank = 256, kv_lora_rank = 128, qk_nope_head_dim = 64, qk_rope_head_dim = 32, v_head_dim = 64 }
    local attention = 1024 + 1024 + 2 * 256 + 2 * 128 + 8 * (96 + 96 + 64) + 2 * 8 + 8 * 64
    local experts = 2 * (1024 + 3 * 512 + 1024) -- of two copies: input, gate, up, product, output
    local feed = 1024 + 1024 + 2 * 8 + experts + 3 * 512 -- the router's fp32 probabilities; the shared expert's three
    assert.equal(attention + feed, values("mixtral", h))
    h.q_lora_rank = nil
    assert.equal(attention - 2 * 256 + feed, values("mixtral", h))
  end)
end)

-- NVIDIA 2026, arXiv 2603.07685, tables 3 and 4: 256 devices, GiB of one. They fit the third of four stages, with four
-- layers in each slice, fp32 gradients and the sharded optimizer.
describe("DeepSeek-V3 under Megatron-Core, as its report states", function()
  local function third(more)
    local split = { 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2 }
    return estimate.new { model = model_module.new("deepseek-v3", { mtp_layers = 0 }), cluster = "gb200_nvl72",
      profile = false, plan = merged({ seq = 4096, pp = 4, vp = 4, schedule = "interleaved", ep = 64, etp = 1, dp = 64,
      zero = 1, micro_batches = 32, fused_accumulation = true, split = split }, more) }.stages[3]
  end
  local function near(wanted, bytes, part)
    assert.is_true(math.abs(bytes / 2 ^ 30 / wanted - 1) < part, ("%g GiB, got %g"):format(wanted, bytes / 2 ^ 30))
  end
  local function held(more) return third(more).activation_bytes end

  it("has its weights, gradients, states and activations", function()
    local s = third { stack = "plain" }
    near(36.4, s.weight_bytes + s.gradient_bytes, 0.01)
    near(32.1, s.optimizer_bytes, 0.01)
    near(131.0, s.activation_bytes, 0.005) -- the outputs of experts included
  end)

  it("saves what it saves", function()
    local all = held { stack = "megatron_hybridep" }
    near(26.3, held { stack = "plain" } - all, 0.01) -- the outputs of experts
    near(30.4, all - held { stack = "megatron_hybridep", recompute = "selective",
      recompute_modules = { "mla_up_proj" } }, 0.015)
    local eight = { stack = "megatron_hybridep", dtype = "mxfp8" }
    near(16, all - held(eight), 0.04) -- "about"
    local before = held(eight)
    eight.recompute, eight.recompute_modules = "selective", { "moe_act" }
    near(3.8, before - held(eight), 0.02)
  end)
end)

describe("products of 8 bits", function()
  local h = { hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }
  local function values(stack, dtype)
    return layer_bytes(h, { seq = 1024, micro_batches = 1, dtype = dtype, stack = stack }, "llama") / 1024
  end

  it("keep inputs of 8 bits, but that of the output projection in 16, with attention", function()
    local attention = 2 * 3 * 1024 + 4 * 16 + 2 * 1024
    local inputs = 1024 + 1024 + 2816
    assert.equal(2 * 2 * 1024 + attention + inputs + 2 * 2 * 2816, values("megatron", "fp8"))
  end)

  it("leave out, with a recomputed norm, what its readers store: 8 bits for each product, 16 for a router", function()
    local latent = { kv_lora_rank = 128, q_lora_rank = 256, qk_nope_head_dim = 64, qk_rope_head_dim = 32,
      v_head_dim = 64 }
    local experts = { experts = 8, top_k = 2, moe_ffn = 512, shared_experts = 1 }
    local function saved(architecture, more, dtype, modules)
      local hyper = { kv_heads = not more.kv_lora_rank and 16 or nil, norm = "rms_norm", gated_mlp = true }
      for _, fields in ipairs { h, more } do
        for key, value in pairs(fields) do hyper[key] = value end
      end
      local function held(chosen, layers)
        hyper.layers = layers
        local model = model_module.new(architecture, hyper)
        local s = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 1,
          dtype = dtype, stack = "megatron", recompute = chosen and "selective" or "none",
          recompute_modules = chosen } }.stages[1]
        return s.activation_bytes
      end
      local function layer(chosen) return held(chosen, 4) - held(chosen, 3) end
      return (layer() - layer(modules)) / (1024 * 1024) -- of a token and a hidden value
    end
    local norms = { "layernorm" }
    for _, case in ipairs { { "llama", {}, 4, 2 }, { "llama", latent, 4, 2 + 1 }, -- queries and keys: two products
      { "mixtral", experts, 4, 1 + 2 + 1 } } do -- router and shared experts
      assert.near(case[3], saved(case[1], case[2], "bf16", norms), 1e-9)
      assert.near(case[4], saved(case[1], case[2], "fp8", norms), 1e-9)
    end
    -- The checkpoint of an MLP holds its input in 16 bits, unless the norm before it is recomputed, too.
    local inside = (2 * 2 + 1) * 2816 / 1024 -- gate, up and their product
    assert.near(inside, saved("llama", {}, "bf16", { "mlp" }) - 2816 / 1024, 1e-9)
    assert.near(inside - 1, saved("llama", {}, "fp8", { "mlp" }), 1e-9)
    assert.near(inside + 2, saved("llama", {}, "fp8", { "mlp", "layernorm" }), 1e-9)
  end)

  it("keep inputs of 16 bits under torchao", function()
    assert.equal(values("torchtitan", "bf16"), values("torchtitan", "fp8"))
    assert.is_true(values("fsdp_eager", "fp8") < values("fsdp_eager", "bf16"))
  end)

  it("keep the operands of an 8-bit attention in 8 bits", function()
    local stacks = require "ett.operator.stack"
    local stack, op = stacks.get "megatron", require("ett.operator").get "flash_attention"
    local s = { batch = 1, heads = 16, kv_heads = 4, seq_q = 64, seq_k = 64, head_dim = 32, causal = 1 }
    local wide = op.activation_bytes(s, "fp8", stack)
    local eight = setmetatable({ attention_dtype = "fp8" }, { __index = stack })
    assert.equal((16 + 4 + 4) * 32 * 64, wide - op.activation_bytes(s, "fp8", eight))
  end)
end)

describe("the loss", function()
  local stacks, op = require "ett.operator.stack", require("ett.operator").get "cross_entropy"
  local s = { tokens = 64, vocab = 1000 }

  it("keeps logits in their own type, or fp32 probabilities, and their gradient beside them", function()
    -- bytes of a logit: stored and temporary in bf16, then in fp32
    for kernel, wanted in pairs { fused = { 2, 0, 4, 0 }, compiled = { 2, 2, 4, 4 }, composer = { 2, 2, 4, 4 },
      native = { 4, 6, 4, 4 }, megatron = { 4, 2, 4, 0 }, torch = { 4, 8, 4, 8 }, shifted = { 4, 8, 4, 8 },
      linear = { 0, 0, 0, 0 }, recomputed = { 0, 0, 0, 0 } } do
      local stack, got = stacks.get("plain:cross_entropy=" .. kernel), {}
      for _, dtype in ipairs { "bf16", "fp32" } do
        got[#got + 1] = op.activation_bytes(s, dtype, stack) / s.tokens / s.vocab
        got[#got + 1] = op.working_bytes(s, dtype, stack) / s.tokens / s.vocab
      end
      assert.same(wanted, got, kernel)
    end
  end)

  it("without a stack is fused where its time is, else Megatron-LM's, and the memory names it", function()
    local logits = 1024 * 32000
    for cluster, wanted in pairs { dgx_h100 = { "fused", 2 }, perlmutter = { "megatron", 4 } } do
      local e = estimate.new { cluster = cluster, plan = { seq = 1024, micro_batches = 1 },
        model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }) }
      local named
      for _, line in ipairs(e.memory) do named = line.name == "logits" and line or named end
      assert.equal(wanted[2] * logits, named.bytes)
      assert.equal(("loss '%s', stack plain; without their gradient"):format(wanted[1]), named.source)
    end
    -- The time of the tables is that of the fused loss.
    local function seconds(stack)
      local e = estimate.new { cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 1, stack = stack },
        model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }) }
      for _, line in ipairs(e.operators) do if line.name == "cross_entropy" then return line.seconds end end
    end
    assert.equal(seconds "plain:cross_entropy=fused", seconds())
    assert.is_true(seconds() < seconds "plain:cross_entropy=megatron")
    -- 48 of 52 bytes: two compiled functions of native write a new tensor and copy it back.
    assert.near(48 / 52, seconds "plain:cross_entropy=native" / seconds "plain:cross_entropy=megatron", 0.01)
    assert.near(56 / 36, seconds "plain:cross_entropy=shifted" / seconds "plain:cross_entropy=torch", 0.03)
  end)

  it("holds no logits if a kernel computes them with the head, in chunks or again", function()
    local function run(loss, plan, hyper)
      local lines = {}
      local e = estimate.new { cluster = "dgx_h100", plan = merged({ seq = 2048, micro_batches = 1,
        stack = "transformers:kept_logits=4:cross_entropy=" .. loss }, plan or {}),
        model = model_module.new("llama", merged({ layers = 2, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 },
          hyper or {})) }
      for _, list in ipairs { e.memory, e.operators } do
        for _, line in ipairs(list) do lines[line.name] = line end
      end
      return lines
    end
    local whole, linear, again = run "fused", run "linear", run "recomputed"
    assert.same({ true, false, false }, { whole.logits ~= nil, linear.logits ~= nil, again.logits ~= nil })
    -- 2048 tokens in 32 chunks of 64: 32 gradients are cast to fp32 and added up, 14 bytes for each weight.
    assert.is_true(linear.lm_head.seconds > whole.lm_head.seconds)
    assert.near(whole.cross_entropy.seconds, linear.cross_entropy.seconds, 1e-9)
    local moved = 32 * 14 * 1024 * 32000
    local rate = moved / (linear.gradient_accumulation.seconds - whole.gradient_accumulation.seconds)
    assert.is_true(rate > 2e12 and rate < 3.35e12, rate)
    -- At work beyond the gradient of weight and input: the product in 16 bits and in fp32, and the logits of a chunk.
    assert.near(6 * 1024 * 32000 + 2 * 64 * 32000,
      linear["largest operator at work"].bytes - again["largest operator at work"].bytes, 1)
    -- 64 chunks of 32 tokens: the host launches a product forward, and two products, a cast and a sum backward.
    local narrow = { hidden = 256, ffn = 704 }
    local slow, short = run("linear", {}, narrow), run("fused", {}, narrow)
    local launches, device = 64 * 5 * 4e-5, slow.lm_head.seconds + slow.gradient_accumulation.seconds
    assert.near(launches - device, slow.host.seconds - short.host.seconds, 0.1 * (launches - device))
    -- The products of multi-token prediction hold no gradient of all logits either.
    assert.equal(run("linear")["largest operator at work"].bytes,
      run("linear", {}, { mtp_layers = 1 })["largest operator at work"].bytes)
    -- A frozen head has no gradient to add.
    local lora, usual = run("linear", { lora_rank = 8 }), run("fused", { lora_rank = 8 })
    assert.equal(usual.gradient_accumulation.seconds, lora.gradient_accumulation.seconds)
    -- Four products instead of three, and no kernel of the loss.
    assert.is_nil(again.cross_entropy)
    assert.near(again.lm_head.forward_seconds + whole.lm_head.backward_seconds, again.lm_head.backward_seconds, 1e-9)
  end)

  it("leaves logits allocated until the backward pass ends, where the program keeps them", function()
    local function bytes(stack, recompute, offload)
      local e = estimate.new { cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 2, stack = stack,
        recompute = recompute, offload_activations = offload }, model = model_module.new("llama", { layers = 4,
        hidden = 1024, heads = 16, ffn = 2816, vocab = 128 }) }
      for _, line in ipairs(e.memory) do
        if line.name == "logits" then return e.allocated_bytes, line.bytes, e.host_bytes end
      end
    end
    -- The loss of `plain` stores the 16-bit logits themselves.
    for stack, kept in pairs { ["transformers:kept_logits=4"] = 4, ["plain:kept_logits=2"] = 0,
      ["plain:kept_logits=4"] = 2 } do
      for _, recompute in ipairs { "none", "full" } do -- the peak is in a layer, after the loss
        local before, logits = bytes(stack:match "^%w+", recompute)
        local after, more = bytes(stack, recompute)
        assert.near(kept * 1024 * 128, after - before, 1)
        assert.near(kept * 1024 * 128, more - logits, 1)
        -- They are no saved tensors, so they do not move to the host.
        local left, _, host = bytes(stack:match "^%w+", recompute, 0.5)
        local left_more, _, same_host = bytes(stack, recompute, 0.5)
        assert.near(kept * 1024 * 128, left_more - left, 1)
        assert.equal(host, same_host)
      end
    end
  end)

  it("holds a third fp32 tensor for its gradient if PyTorch splits the vocabulary", function()
    local c = { tp = 8, micro_batch = 2, seq = 32, vocab = 8192, vocab_multiple = 1 }
    for tp, bytes in pairs { [1] = 8, [8] = 12 } do
      c.tp = tp
      local split = op.shape(c)
      assert.equal(64, split.tokens)
      assert.equal(8192 // tp, split.vocab)
      assert.equal(bytes * 64 * 8192 // tp, op.working_bytes(split, "bf16", stacks.get "transformers"))
      assert.equal(2 * 64 * 8192 // tp, op.working_bytes(split, "bf16", stacks.get "torchtitan"))
    end
  end)
end)

describe("the head's input under sequence parallelism", function()
  local hyper = { layers = 2, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }

  -- Stored bytes, and collectives of the head in the backward pass.
  local function head(stack, more)
    local e = estimate.new { model = model_module.new("llama", hyper), cluster = "dgx_h100", units = true,
      plan = merged({ tp = 4, seq = 1024, micro_batches = 1, sequence_parallel = true,
        stack = stack }, more) }
    local names, middle = {}, 0
    for _, kind in ipairs(e.lowered.kinds) do
      for _, item in ipairs(kind.order) do
        local o = e.lowered.operations[item[1]]
        if kind.place == "last" and o.backward and o.kind == "collective" then names[#names + 1] = o.name end
        if kind.place == "middle" and o.backward and o.name == "all_gather" then middle = middle + item[2] end
      end
    end
    table.sort(names)
    return e.stages[1].activation_bytes, names, middle
  end

  it("is stored whole where the stack keeps it, and is not gathered again", function()
    local whole, names, middle = head "torchtitan"
    local shard, again, layers = head "torchtitan:keeps_head_input=false"
    assert.near(2 * 1024 * 1024 * 3 / 4, whole - shard, 1)
    assert.same({ "reduce_scatter" }, names)
    assert.same({ "all_gather", "reduce_scatter" }, again)
    assert.equal(layers, middle)
    for _, more in ipairs { { sequence_parallel = false }, { tp = 1, sequence_parallel = false } } do
      assert.equal((head("torchtitan:keeps_head_input=false", more)), (head("torchtitan", more)))
    end
  end)
end)

describe("a layer of single PyTorch operators", function()
  local h, f = 1024, 2816
  local function values(stack, plan, norm)
    local all = merged({ seq = 1024, micro_batches = 1, stack = stack }, plan)
    return layer_bytes({ hidden = h, heads = 16, ffn = f, vocab = 32000, norm = norm }, all, "llama") / 1024
  end
  local attention, mlp = 2 * (3 * h + h) + 4 * 16, 2 * 3 * f

  it("stores inputs of RMS norms in fp32, normalised inputs, and silu of the gate", function()
    local fused, single = 2 * (2 * h + 2 * h) + attention + mlp, 2 * (4 * h + 2 * h + 2 * h) + attention + mlp + 2 * f
    for stack, wanted in pairs { plain = fused, megatron = fused, torchtitan = fused, fsdp_eager = single,
      transformers = single, gpt_neox = single - 2 * f, ["fsdp_eager:norm=fused:gated_mlp=1"] = fused } do
      assert.equal(wanted, values(stack), stack)
    end
    -- PyTorch's layer norm is one kernel.
    assert.equal(fused + 2 * f, values("fsdp_eager", nil, "layer_norm"))
  end)

  it("stores no normalised inputs if the norms' weights are frozen", function()
    local adapter = { lora_rank = 8, lora_targets = { "linear_qkv" } }
    -- Inputs of norms, of the adapters and of their second products; attention; gate, up and silu.
    assert.equal(2 * 4 * h + 2 * h + 2 * 3 * 8 + attention + 2 * 3 * f, values("transformers", adapter))
  end)

  it("stores the input alone of recomputed norms, and of recomputed activations gate and up", function()
    local modules = { recompute = "selective", recompute_modules = { "layernorm", "mlp_act" } }
    assert.equal(values("plain", modules), values("transformers", modules))
  end)
end)

describe("a soft cap", function()
  local h = { hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }

  -- Bytes that the model stores beyond those of the same model without the caps, and whether a step lists the operator.
  local function more(stack, hyper, plan)
    local function run(capped)
      local own = { layers = 2, logit_softcap = capped, attention_softcap = capped }
      for _, fields in ipairs { h, hyper } do
        for key, value in pairs(fields) do own[key] = value end
      end
      local all = merged({ seq = 1024, micro_batches = 1, stack = stack }, plan)
      return estimate.new { model = model_module.new("llama", own), cluster = "dgx_h100", plan = all }
    end
    local e, found = run(true), false
    for _, line in ipairs(e.operators) do found = found or line.name == "softcap" end
    return e.stages[1].activation_bytes - run(nil).stages[1].activation_bytes, found
  end

  it("stores the result of tanh beside the logits, unless the loss has it inside", function()
    assert.same({ 2.0 * 1024 * 32000, true }, { more("transformers", {}) })
    assert.same({ 2.0 * 1024 * 16000, true }, { more("transformers", {}, { tp = 2 }) })
    for _, stack in ipairs { "plain", "torchtitan" } do assert.same({ 0.0, false }, { more(stack, {}) }, stack) end
    assert.same({ 0.0, false }, { more(nil, {}) }) -- a plan without a stack has that of `plain`
  end)

  it("stores it beside the scores of attention that is not fused, and runs again with them", function()
    local scores = 2.0 * 2 * 16 * 1024 * 1024
    assert.equal(scores, (more("plain", { attention = "unfused" })))
    assert.equal(0.0, (more("plain", { attention = "unfused" }, { recompute = "selective" })))
  end)
end)

describe("one-hot masks of experts with a fixed capacity", function()
  it("stay both until the backward pass", function()
    local h = { hidden = 1024, heads = 8, ffn = 2048, vocab = 32000, experts = 8, top_k = 2 }
    local function of(stack, recompute, padded)
      return layer_bytes(h, { seq = 1024, micro_batch = 2, micro_batches = 1, recompute = recompute, stack = stack,
        capacity_factor = padded and 1.25 or nil, pad_to_capacity = padded or nil }, "mixtral")
    end
    local indices = "maxtext:one_hot_experts=none"
    -- 2560 places for 2 sequences of 1024 tokens.
    assert.equal(2 * 2.0 * 2 * 1024 * 2560, of("maxtext", "none", true) - of(indices, "none", true))
    assert.equal(2 * 2.0 * 2 * 1024 * 5120, of("maxtext:one_hot_experts=micro_batch", "none", true)
      - of(indices, "none", true))
    assert.equal(0, of("maxtext", "full", true) - of(indices, "full", true))
    assert.equal(0, of("maxtext", "none", false) - of(indices, "none", false))
  end)

  it("hold only the tokens that a tensor-parallel rank routes, by hand", function()
    local model = model_module.new("mixtral", { layers = 2, hidden = 1024, heads = 8, ffn = 2048, vocab = 32000,
      experts = 8, top_k = 2 })
    local function of(stack, seq, sequence_parallel)
      local e = estimate.new { model = model, cluster = "dgx_a100", plan = { tp = 2, seq = seq, micro_batch = 2,
        micro_batches = 1, recompute = "none", stack = stack, sequence_parallel = sequence_parallel,
        capacity_factor = 1, pad_to_capacity = true } }
      for _, line in ipairs(e.operators) do
        if line.name == "moe_permute" then return e.stages[1].activation_bytes, line.seconds end
      end
    end
    -- 2 layers, 2 masks in bf16; two sequences of 4096 tokens on two ranks.
    local bytes, time = of("megatron_deepspeed", 4096, true)
    local without = of("megatron_deepspeed:one_hot_experts=none", 4096, true)
    assert.equal(2 * 2 * 2.0 * 4096 * (4096 * 2), bytes - without)
    local _, same = of("megatron_deepspeed", 2048, false)
    assert.near(1, time / same, 1e-9)
    local of_sequences = of("megatron_deepspeed:one_hot_experts=sequence", 4096, true)
    assert.equal(2 * 2 * 2.0 * 2 * 2048 * (2048 * 2), of_sequences - without)
  end)
end)

describe("recompute = policy", function()
  it("keeps the outputs of attention and of every second product under torchtitan, by hand", function()
    local h = { hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816, vocab = 32000 }
    local function values(stack, recompute)
      return layer_bytes(h, { seq = 1024, micro_batches = 1, recompute = recompute, stack = stack }, "llama") / 1024
    end
    -- The layer's input, attention's output and statistics; queries, values, gate and the last product of seven.
    assert.equal(2 * (1024 + 1024 + 2 * 16 + 1024 + 256 + 2816 + 1024), values("torchtitan", "policy"))
    assert.equal((values("fsdp_eager", "none") + values("fsdp_eager", "full")) / 2, values("fsdp_eager", "policy"))
    -- Split over two ranks, all but the last product are shards, and two reduce-scatters are stored.
    local split = layer_bytes(h, { seq = 1024, micro_batches = 1, recompute = "policy", stack = "torchtitan", tp = 2,
      sequence_parallel = true }, "llama") / 1024
    assert.equal((1024 + 1024 + 2 * 16 + 1024 + 256 + 2816) + 2 * 1024 + 2 * 1024, split)
  end)

  it("repeats experts' products under torchtitan, and keeps what all-to-alls bring, by hand", function()
    local h = { hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816, vocab = 32000, experts = 8, top_k = 2 }
    local function values(ep, stack)
      return layer_bytes(h, { seq = 1024, micro_batches = 1, recompute = "policy", stack = stack or "torchtitan",
        dp = ep, ep = ep, zero = 3 }, "mixtral") / 1024
    end
    -- The layer's input, attention's output and statistics; queries and values of four products.
    local attention = 2 * (1024 + 1024 + 2 * 16 + 1024 + 256)
    assert.equal(attention, values(1))
    assert.equal(attention + 2 * 2 * 2 * 1024, values(2)) -- two copies go to the experts, and come back
    local repeats = "torchtitan:repeats_exchanges"
    assert.equal(attention, values(2, repeats))
    local hyper = merged({ layers = 4 }, h)
    local function recomputed(mode, stack)
      local e, seconds = estimate.new { cluster = "dgx_h100", model = model_module.new("mixtral", hyper), plan = {
        seq = 1024, micro_batches = 1, recompute = mode, stack = stack or "torchtitan", dp = 2, ep = 2, zero = 3 } }, {}
      for _, list in ipairs { e.operators, e.collectives } do
        for _, entry in ipairs(list) do seconds[entry.name] = entry.recompute_seconds end
      end
      return seconds
    end
    local half, full = recomputed "policy", recomputed "full"
    assert.is_true(full.expert_linear1 > 0 and full.all_to_all > 0)
    assert.equal(full.expert_linear1, half.expert_linear1)
    assert.near(full.linear_qkv / 6, half.linear_qkv, 1e-12) -- keys alone
    assert.equal(0.0, half.all_to_all)
    assert.equal(full.all_to_all, recomputed("policy", repeats).all_to_all)
  end)

  it("keeps the outputs that a plan names and repeats the rest, by hand", function()
    local h = { hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816, vocab = 32000 }
    local function plan(mode, keeps)
      return { seq = 1024, micro_batches = 1, recompute = mode, recompute_keeps = keeps, stack = "maxtext", dp = 2,
        zero = 3 }
    end
    -- The layer's input; queries, keys and values; attention's output and statistics. The last product runs once.
    local keeps = { "linear_qkv", "flash_attention", "linear_down" }
    assert.equal(2 * 1024 * (1024 + 1536 + 1024 + 2 * 16), layer_bytes(h, plan("policy", keeps), "llama"))
    local halved = plan("policy", { "linear_qkv" })
    halved.offload_activations = 0.5
    assert.equal(1024 * (1024 + 1536), layer_bytes(h, halved, "llama"))
    local function of(mode, names)
      local e, again = estimate.new { cluster = "tpu_v6e", model = model_module.new("llama", merged(h, { layers = 4 })),
        plan = plan(mode, names) }, {}
      for _, entry in ipairs(e.operators) do again[entry.name] = entry.recompute_seconds end
      return again, e.step_seconds, tostring(e)
    end
    local all, whole = of "full"
    local named, step, report = of("policy", keeps)
    assert.matches("policy recompute keeping linear_qkv and flash_attention and linear_down", report, 1, true)
    assert.equal(0, all.linear_down)
    assert.is_true(all.linear_qkv > 0 and all.flash_attention > 0 and all.linear_proj > 0)
    for _, name in ipairs { "linear_qkv", "flash_attention", "linear_down" } do assert.equal(0, named[name]) end
    for _, name in ipairs { "linear_proj", "linear_up", "rms_norm" } do assert.equal(all[name], named[name]) end
    assert.is_true(step < whole)
    -- A dense model has no experts; the head, and MaxText's last product of a layer, run once.
    local function warned(names) return select(3, of("policy", names)):match "recompute_keeps: [^\n]*" end
    assert.is_nil(warned { "linear_qkv", "flash_attention" })
    assert.equal("recompute_keeps: expert_linear1, lm_head, linear_down: no backward pass repeats it",
      warned { "expert_linear1", "linear_qkv", "lm_head", "linear_down" })
    local function refused(mode, names) return raised(of, mode, names) end
    assert.matches("recompute_keeps needs recompute = 'policy', got 'full'", refused("full", { "linear_qkv" }))
    assert.matches("unknown operator 'query'", refused("policy", { "query" }))
    assert.matches("has the value linear_qkv twice", refused("policy", { "linear_qkv", "linear_qkv" }))
    assert.matches("does not know the bytes of the output of optimizer", refused("policy", { "optimizer" }))
  end)

  it("stores the compressed queries and keys that a plan names, and repeats all, by hand", function()
    local h = { hidden = 1024, heads = 16, ffn = 2816, vocab = 32000, q_lora_rank = 384, kv_lora_rank = 128,
      qk_nope_head_dim = 64, qk_rope_head_dim = 32, v_head_dim = 64 }
    local function plan(mode, keeps)
      return { seq = 1024, micro_batches = 1, recompute = mode, recompute_keeps = keeps, stack = "maxtext", dp = 2,
        zero = 3 }
    end
    assert.equal(2 * 1024 * (1024 + 384 + 128), layer_bytes(h, plan("policy", { "mla_q", "mla_kv" }), "llama"))
    assert.equal(2 * 1024 * (1024 + 128 + (128 + 32)),
      layer_bytes(h, plan("policy", { "mla_kv", "linear_kv_down" }), "llama"))
    local function of(mode, keeps, hyper)
      local m = model_module.new("llama", merged(hyper or h, { layers = 4 }))
      local e, again = estimate.new { cluster = "tpu_v6e", model = m, plan = plan(mode, keeps) }, {}
      for _, entry in ipairs(e.operators) do again[entry.name] = entry.recompute_seconds end
      return again, tostring(e):match "recompute_keeps: [^\n]*"
    end
    local named, warning = of("policy", { "mla_q", "mla_kv" })
    assert.same({ of "full" }, { named, warning })
    local plain = { hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }
    assert.equal("recompute_keeps: mla_q, mla_kv: no layer has it",
      select(2, of("policy", { "mla_q", "mla_kv" }, plain)))
    assert.equal("recompute_keeps: lm_head: no backward pass repeats it; mla_q: no layer has it",
      select(2, of("policy", { "mla_q", "lm_head" }, plain)))
  end)

  it("keeps products after their sum, and repeats no messages beside them, by hand", function()
    local h = { hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816, vocab = 32000 }
    local function plan(stack, mode, keeps)
      return { seq = 1024, micro_batches = 1, recompute = mode, recompute_keeps = keeps, stack = stack, dp = 2, tp = 4,
        zero = 3, sequence_parallel = stack == "maxtext" }
    end
    -- The layer's input; queries, keys and values; the projection after a reduce-scatter, or after an all-reduce.
    local keeps = { "linear_qkv", "linear_proj" }
    assert.equal(2 * 1024 * (1024 + 1536 + 1024) / 4, layer_bytes(h, plan("maxtext", "policy", keeps), "llama"))
    assert.equal(2 * 1024 * (1024 + 1536 / 4 + 1024), layer_bytes(h, plan("torchtitan", "policy", keeps), "llama"))
    local function repeated(stack, mode, names, cp)
      local p, again = plan(stack, mode, names), {}
      p.cp = cp
      local m = model_module.new("llama", merged(h, { layers = 4 }))
      for _, o in ipairs(estimate.new { cluster = "dgx_h100", model = m, plan = p }.collectives) do
        if o.group == "tp" or o.group == "cp" then again[o.name .. " " .. o.group] = o.recompute_seconds end
      end
      return again
    end
    -- Each layer has two gathers, and two sums. The second follows the last product, and is never repeated.
    local full = repeated("maxtext", "full")
    local gathers, sums = full["all_gather tp"], full["reduce_scatter tp"]
    assert.is_true(gathers > 0 and sums > 0)
    for names, left in pairs { [{ "flash_attention" }] = { 1, 1 }, [{ "linear_proj" }] = { 1, 0 },
      [{ "linear_qkv" }] = { 1 / 2, 1 }, [{ "linear_qkv", "linear_up", "linear_proj" }] = { 0, 0 } } do
      local again = repeated("maxtext", "policy", names)
      assert.near(left[1] * gathers, again["all_gather tp"], 1e-12, names[1])
      assert.near(left[2] * sums, again["reduce_scatter tp"], 1e-12, names[1])
    end
    assert.is_true(repeated("torchtitan", "full")["all_reduce tp"] > 0)
    assert.equal(0, repeated("torchtitan", "policy", keeps)["all_reduce tp"])
    -- Attention gathers keys and values again for its backward pass.
    assert.is_true(repeated("maxtext", "policy", keeps, 2)["all_gather cp"] > 0)
    assert.equal(0, repeated("maxtext", "policy", { "flash_attention" }, 2)["all_gather cp"])
  end)

  it("of every second layer rebuilds a layer beside the others, or half a layer of an odd number", function()
    local function bytes(layers, recompute)
      local model = model_module.new("llama", { layers = 4 * layers, hidden = 1024, heads = 16, ffn = 2816,
        vocab = 32000 })
      local e = estimate.new { cluster = "dgx_h100", profile = false, model = model, plan = { seq = 1024, pp = 4,
        micro_batches = 8, recompute = recompute, stack = "plain" } }
      return e.stages[2].activation_bytes -- three micro-batches in flight
    end
    local layer = bytes(1, "none") / 3
    local input = (bytes(1, "full") - layer) / 2
    for layers = 1, 6 do
      local rebuilt = (layers % 2 == 1 and 0.5 or 1) * (layer - input)
      assert.near(3 * layers * (layer + input) / 2 + rebuilt, bytes(layers, "policy"), 1)
    end
  end)

  it("counts no layer of a slice that has no backward pass", function()
    local model = model_module.new("llama", { layers = 12, hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 })
    -- Two slices of six layers: in the first, one to five of them are repeated.
    local function bytes(frozen_layers, recompute)
      return estimate.new { cluster = "dgx_h100", profile = false, model = model, plan = { seq = 1024, pp = 2,
        micro_batches = 1, recompute = recompute, stack = "plain", frozen_layers = frozen_layers } }.stages[1]
        .activation_bytes
    end
    local layer = bytes(4, "none") - bytes(5, "none")
    local input = bytes(3, "full") - bytes(4, "full")
    for frozen_layers = 1, 5 do
      local layers = 6 - frozen_layers
      local rebuilt = (layers % 2 == 1 and 0.5 or 1) * (layer - input)
      local mean = bytes(frozen_layers, "none") - layers * (layer - input) / 2
      assert.near(mean + rebuilt, bytes(frozen_layers, "policy"), 1, frozen_layers)
    end
  end)
end)

describe("modules of selective recomputation", function()
  local mixture = { hidden = 1024, heads = 8, vocab = 32000, experts = 8, top_k = 2, moe_ffn = 512, q_lora_rank = 256,
    kv_lora_rank = 128, qk_nope_head_dim = 64, qk_rope_head_dim = 32, v_head_dim = 64 }
  local dense = { hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }
  local shared = merged({ shared_experts = 1 }, mixture)
  local tokens = 2.0 * 1024
  -- Module, model, operators that run again, values of a token that are made again (bytes each).
  for _, case in ipairs {
    { "core_attn", dense, "flash_attention", 16 * 4 }, -- the fp32 log-sum-exp
    { "layernorm", dense, "rms_norm", 2 * 1024 * 2 },
    { "mlp_act", dense, "swiglu", 2816 * 2 },
    { "mlp", dense, "linear_up swiglu linear_down", 3 * 2816 * 2 },
    { "moe_act", mixture, "swiglu", 2 * 512 * 2 },
    -- The fp32 probabilities; of two copies the experts' input, gate, up and product, and output.
    { "moe", mixture, "moe_router moe_permute expert_linear1 swiglu expert_linear2 moe_unpermute",
      8 * 4 + 2 * (1024 + 3 * 512 + 1024) * 2 },
    { "shared_experts", shared, "swiglu linear_up linear_down", 3 * 512 * 2 },
    { "mla_up_proj", mixture, "linear_q_up linear_kv_up rope", (8 * 96 + 8 * 128 + 8 * 32) * 2 },
  } do
    it(("run what %s names again, and do not keep what that makes"):format(case[1]), function()
      local function run(recompute, layers)
        local hyper = merged({ layers = layers }, case[2])
        return estimate.new { model = model_module.new(hyper.experts and "mixtral" or "llama", hyper),
          cluster = "dgx_h100", plan = { seq = 1024, micro_batch = 2, micro_batches = 1, recompute = recompute,
            recompute_modules = recompute == "selective" and { case[1] } or nil } }
      end
      local function layer_bytes_of(recompute)
        return run(recompute, 3).stages[1].activation_bytes - run(recompute, 2).stages[1].activation_bytes
      end
      assert.equal(tokens * case[4], layer_bytes_of "none" - layer_bytes_of "selective")
      local again = {}
      for _, line in ipairs(run("selective", 2).operators) do
        if line.recompute_seconds and line.recompute_seconds > 0 then again[#again + 1] = line.name end
      end
      assert.same(case[3], table.concat(again, " "))
    end)
  end

  it("include all of a mixture of experts: all-to-alls run again, hidden as before, only its input stays", function()
    local hyper = merged({ layers = 4 }, shared)
    local function run(layers, modules, more)
      hyper.layers = layers
      local plan = { seq = 1024, micro_batch = 2, micro_batches = 1, ep = 8, dp = 8,
        stack = "megatron:launch_seconds=0", -- a repeated module waits for its launches, whatever is hidden
        recompute = modules and "selective" or "none", recompute_modules = modules }
      for key, value in pairs(more or {}) do plan[key] = value end
      return estimate.new { model = model_module.new("mixtral", hyper), cluster = "dgx_h100", plan = plan }
    end
    local function seconds(e, name)
      for _, line in ipairs(e.collectives) do if line.name == name then return line.seconds end end
    end
    local modules = { "moe" }
    local once, twice = run(4), run(4, modules)
    assert.near(1.5 * seconds(once, "all_to_all"), seconds(twice, "all_to_all"), 1e-12)
    local inner = run(4, { "moe", "moe_act", "shared_experts" })
    assert.equal(twice.step_seconds, inner.step_seconds)
    assert.equal(twice.stages[1].activation_bytes, inner.stages[1].activation_bytes)
    local beside = { overlap_all_to_all = "shared_experts" }
    assert.is_true(run(4, modules, beside).step_seconds - run(4, nil, beside).step_seconds
      < 0.999 * (twice.step_seconds - once.step_seconds))
    local function layer(chosen, more)
      return run(4, chosen, more).stages[1].activation_bytes - run(3, chosen, more).stages[1].activation_bytes
    end
    -- The backward pass of the last layer makes all again beside what the layers hold.
    local saved = once.stages[1].activation_bytes - twice.stages[1].activation_bytes
    assert.near(3 * (layer(nil) - layer(modules)), saved, 1)
    local eight = { dtype = "fp8", recompute_modules = { "moe", "layernorm" } }
    local wide = { dtype = "fp8", recompute_modules = modules }
    -- The output of the first norm has two readers of 8 bits; that of the second is the input of the checkpoint.
    assert.near((2 + 2) * tokens * 1024, layer(modules, wide) - layer(modules, eight), 1)
  end)

  it("store what MaxText's policy minimal stores: the outputs of products, but not of attention's", function()
    local model = { hidden = 1024, heads = 16, ffn = 2816, vocab = 32000 }
    local function held(layers, tp)
      model.layers = layers
      return estimate.new { model = model_module.new("llama", model), cluster = "dgx_h100",
        plan = { seq = 1024, tp = tp, micro_batches = 1, stack = "maxtext", recompute = "selective",
          recompute_modules = { "core_attn", "layernorm", "mlp_act" } } }.stages[1].activation_bytes
    end
    -- Queries, keys and values, the two streams in, gate and up; all on one of the tensor-parallel ranks.
    for _, tp in ipairs { 1, 2, 8 } do
      assert.equal(1024 * 2.0 * (3 * 1024 + 2 * 1024 + 2 * 2816) / tp, held(3, tp) - held(2, tp))
    end
  end)

  it("are refused without selective recomputation, under unknown names, and twice", function()
    local model = model_module.new("llama", { layers = 2, hidden = 512, heads = 8, vocab = 1000 })
    local why = require("ett.plan").violations({ seq = 512, micro_batches = 1, recompute = "full",
      recompute_modules = { "mpl", "mlp", "mlp" } }, model, "dgx_h100")
    why = table.concat(why, "; ")
    assert.matches("recompute_modules needs recompute = 'selective', got 'full'", why)
    assert.matches("unknown module 'mpl'; did you mean 'mlp'", why)
    assert.matches("recompute_modules has the value mlp twice", why, 1, true)
  end)
end)

describe("a recomputed layer", function()
  local hidden = 1024
  local function run(arch, hyper, plan)
    return estimate.new { model = model_module.new(arch, merged({ hidden = hidden, heads = 16, ffn = 4096, vocab = 32000
      }, hyper)), cluster = "dgx_h100", plan = plan, profile = false, units = true }
  end

  it("holds the tokens that it reads: of an encoder or a decoder", function()
    local long, short = 8192, 512
    local plan = { seq = short, micro_batch = 2, micro_batches = 1, recompute = "full", stack = "plain" }
    local function held(encoder, decoder)
      return run("encoder_decoder", { encoder_layers = encoder, layers = decoder, encoder_seq = long }, plan)
    end
    local function of_stage(...) return held(...).stages[1].activation_bytes end
    assert.equal(2 * 2 * long * hidden, of_stage(4, 3) - of_stage(3, 3))
    assert.equal(2 * 2 * short * hidden, of_stage(3, 4) - of_stage(3, 3))
    local bytes = {}
    for _, kind in ipairs(held(3, 3).lowered.kinds) do bytes[kind.name] = kind.input_bytes / 2 / 2 / hidden end
    assert.equal(long, bytes["first encoder"])
    assert.equal(long + short, bytes["first decoder"]) -- the encoder's stream before its last norm, too
  end)

  it("of a decoder shares the encoder's output with the others of its stage, in each micro-batch in flight", function()
    local long = 4096
    for _, recompute in ipairs { "none", "selective", "policy", "full" } do
      for _, parallel in ipairs { false, true } do
        local model = model_module.new("encoder_decoder", { encoder_layers = 4, layers = 4, encoder_seq = long,
          hidden = hidden, heads = 16, ffn = 4096, vocab = 32000 })
        local function stages()
          return estimate.new { model = model, cluster = "dgx_h100", profile = false, plan = { seq = 512, pp = 4,
            micro_batch = 2, micro_batches = 8, recompute = recompute, tp = 2, sequence_parallel = parallel,
            stack = "plain" } }.stages
        end
        local shared = stages()
        for _, layer in ipairs(model.layers) do layer.shares = nil end
        local output = 2 * 2 * long * hidden / (parallel and 2 or 1)
        for i, stage in ipairs(stages()) do
          assert.equal(i > 2 and (5 - i) * output or 0, shared[i].activation_bytes - stage.activation_bytes, recompute)
        end
      end
    end
  end)

  it("holds all residual streams, and its own embedding", function()
    for _, streams in ipairs { 1, 4 } do
      local e = run("gemma3n", { layers = 3, altup_streams = streams, per_layer_width = 256 },
        { seq = 1024, micro_batches = 1, recompute = "full" })
      assert.equal(2 * 1024 * (streams * hidden + 256), e.lowered.kinds[2].input_bytes)
    end
  end)

  it("holds what the layer before sends, unless it states what it reads", function()
    local sends, reads = function(c) return 3 * c.seq end, function(c) return c.seq // 4 end
    local function bytes(more)
      local model = model_module.new(function(h)
        local ops = { "rms_norm", "linear_up", "swiglu", "linear_down" }
        return { layers = { { name = "embedding", place = "first", ops = { "embedding" }, sends = more.embedding },
          { name = "wide", ops = ops, sends = sends, reads = more.wide, count = h.layers },
          { name = "plain", ops = ops, count = 2 }, { name = "last", ops = ops } } }
      end, { layers = 2, hidden = hidden, heads = 16, ffn = 4096, vocab = 32000 })
      local e = estimate.new { model = model, cluster = "dgx_h100", profile = false, units = true,
        plan = { seq = 1024, micro_batches = 1, recompute = "policy", stack = "torchtitan" } }
      local full, half, unit = {}, {}, 2 * 1024 * hidden
      for i, kind in ipairs(e.lowered.kinds) do full[i], half[i] = kind.input_bytes / unit, kind.policy_bytes / unit end
      assert.same({ full[2] - full[3], full[3] - full[4] }, { half[2] - half[3], half[3] - half[4] })
      return { table.unpack(full, 2) }
    end
    assert.same({ 1, 3, 1 }, bytes {})
    assert.same({ 0.25, 3, 1 }, bytes { wide = reads })
    assert.same({ 2, 3, 1 }, bytes { embedding = function(c) return 2 * c.seq end })
  end)

  it("stands behind outputs of the tokens that a stage sends, where the stack keeps them", function()
    local function held(long)
      local hyper, plan = { encoder_layers = 4, layers = 4, encoder_seq = long }, { seq = 512, pp = 2,
        micro_batches = 4, recompute = "full" }
      plan.stack = "megatron_2021"
      local without = run("encoder_decoder", hyper, plan).stages[1].activation_bytes
      plan.stack = "megatron_deepspeed"
      return run("encoder_decoder", hyper, plan).stages[1].activation_bytes - without
    end
    assert.equal(2 * 2 * (4096 - 512) * hidden, held(4096) - held(512)) -- two micro-batches in flight
  end)
end)

describe("a step under ZeRO-3", function()
  it("gathers no more than the model has", function()
    local model = model_module.new("llama", { layers = 2, hidden = 1024, heads = 8, ffn = 2816, vocab = 128256 })
    local function held(zero)
      local s = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 1024, dp = 4, zero = zero,
        micro_batches = 1, overlap_parameters = true, prefetch = zero == 3 and 8 or nil } }.stages[1]
      return s.weight_bytes + s.temporary_bytes
    end
    assert.near(held(2), held(3), 1)
  end)

  it("holds one gathered layer, with overlap also the next one, and one layer's gradient", function()
    local model = model_module.new("llama", { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672,
      vocab = 128256 })
    local layer = 8192.0 * (8192 * 2 + 2 * 1024 + 3 * 28672) + 2 * 8192 -- q, o, k, v, three of the MLP, norms
    local head = 128256.0 * 8192 + 8192 -- larger than a layer
    for overlap, gathered in pairs { [false] = head, [true] = layer + head } do
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 4096, dp = 64, zero = 3,
        micro_batches = 1, overlap_parameters = overlap } }
      assert.near(2 * gathered + 4 * head, e.stages[1].temporary_bytes, 1e-6 * head)
    end
  end)

  it("holds embedding and head whole until the backward pass ends, where the stack does", function()
    local hyper = { layers = 4, hidden = 1024, heads = 8, ffn = 2816, vocab = 32000 }
    local layer, head = 4.0 * 1024 * 1024 + 3.0 * 1024 * 2816 + 2 * 1024, 32000.0 * 1024
    local function held(stack, more)
      local s = estimate.new { model = model_module.new("llama", hyper), cluster = "dgx_h100", plan = merged({
        seq = 512, dp = 64, zero = 3, micro_batches = 1, overlap_parameters = true, prefetch = 1,
        gradient_dtype = "bf16", stack = stack }, more) }.stages[1]
      return s.temporary_bytes / 2
    end
    -- Weights of both ends and of two layers; the gradients of the head with its norm, and of a layer.
    local ends = 2 * head + 1024
    for _, stack in ipairs { "fsdp_eager", "transformers_fsdp", "llm_foundry" } do
      assert.near(ends + 2 * layer + head + 1024 + layer, held(stack), 1, stack)
    end
    assert.near(head + 1024 + layer + head + 1024, held "fsdp_eager:whole_ends=false", 1)
    -- The embedding's backward pass is the last of a first stage: its gradient is not beside that of a layer.
    assert.near(head + 2 * layer + head, held("transformers_fsdp", { pp = 2 }), 1)
    hyper.tied_embeddings = true -- the head has the table's gradient before
    assert.near(head + 2 * layer + head + layer, held "fsdp_eager", 1024)
    hyper.tied_embeddings = nil
    local whole = { reshard = false }
    assert.near(held("fsdp_eager:whole_ends=false", whole) + layer, held("fsdp_eager", whole), 1)
  end)

  it("holds the largest neighbours that are gathered together, not the largest layer twice", function()
    local hyper = { layers = 8, hidden = 1024, heads = 8, kv_heads = 8, ffn = 2816, vocab = 1000, experts = 16,
      moe_ffn = 2816, top_k = 1 }
    local attention, mlp = 4.0 * 1024 * 1024 + 2 * 1024, 3.0 * 1024 * 2816
    local dense, sparse = attention + mlp, attention + 16 * mlp + 16 * 1024
    local function held(every, prefetch)
      hyper.moe_every = every
      return estimate.new { model = model_module.new("mixtral", hyper), cluster = "dgx_h100", profile = false,
        plan = { seq = 512, dp = 64, zero = 3, micro_batches = 1, overlap_parameters = true, prefetch = prefetch,
          gradient_dtype = "bf16" } }.stages[1].temporary_bytes / 2 - sparse -- the gradient of a layer
    end
    assert.near(2 * sparse, held(1, 1), 1)
    assert.near(sparse + dense, held(2, 1), 1)
    assert.near(2 * sparse + dense, held(2, 2), 1)
    assert.near(2 * (sparse + dense), held(2, 3), 1)
    assert.near(sparse + dense, held(4, 1), 1)
  end)

  it("holds single weights instead of layers if they are gathered by themselves", function()
    local model = model_module.new("llama", { layers = 4, hidden = 1024, heads = 8, ffn = 2816, vocab = 1000 })
    local function held(gathers_tensors)
      return estimate.new { model = model, cluster = "dgx_h100", profile = false,
        plan = { seq = 512, dp = 64, zero = 3, stack = "maxtext:gathers_tensors=" .. gathers_tensors,
          micro_batches = 1, overlap_parameters = true, prefetch = 1,
          gradient_dtype = "bf16" } }.stages[1].temporary_bytes / 2
    end
    local gate_up, down = 2.0 * 1024 * 2816, 1024.0 * 2816
    local layer = 4.0 * 1024 * 1024 + gate_up + down + 2 * 1024
    assert.near(2 * layer + layer, held "false", 1)
    assert.near(gate_up + down + gate_up, held "true", 1)
  end)
end)

describe("recompute_layers", function()
  local step_core = require "step_core"

  -- Layers of 1 s forward and 2 s backward: 100 bytes each, 10 of them the input, and 5 at work. Seconds of the
  -- repeated passes of a micro-batch, and bytes at the peak of one, for each stage.
  local function stages(layers, given)
    local program <close> = step_core.program {
      operations = { { forward = { 1 }, backward = { 2 }, activation_bytes = 100, working_bytes = 5 },
        given.last and { forward = { given.last }, never_again = true } },
      kinds = { { place = "middle", count = layers, uses = { 1, given.last and 1 }, input_bytes = 10 } },
      recompute_layers = given.recompute_layers, recompute_method = given.recompute_method }
    local plan = step_core.plan(merged({ seq = 1, recompute = "full", clip_gradients = false }, given))
    local list = {}
    for i, stage in ipairs(step_core.evaluated(program, plan).stages) do
      list[i] = { stage.recompute_seconds, stage.activation_bytes + stage.working_bytes }
    end
    return list
  end

  it("counts seconds and bytes of three layers, by hand", function()
    for _, case in ipairs {
      { nil, nil, 3, 125 }, -- inputs of three layers, 90 made again, 5 at work
      { 3, "block", 3, 125 }, { 4, "block", 3, 125 },
      { 2, "block", 2, 125 }, -- two inputs and the last layer; then 20 + 90 + 5
      { 1, "block", 1, 215 }, -- an input and two layers; then 10 + 90 + 5
      { 1, "every", 3, 125 },
      { 2, "every", 1, 215 }, -- while the second layer is repeated, the last one's 100 are free: 110 + 90 + 5
      { 3, "every", 1, 305 }, -- two layers and an input, with 90 made again
      { 4, "every", 0, 305 },
      { 1, "uniform", 3, 125 },
      { 2, "uniform", 3, 205 }, -- 20 and 95 for the last layer; then 10, and 190 for the two before it
      { 3, "uniform", 3, 305 }, -- 10, and 290 for all
    } do
      local count, method, seconds, bytes = table.unpack(case, 1, 4)
      assert.same({ { seconds, bytes } }, stages(3, { recompute_layers = count, recompute_method = method }),
        ("%s %s"):format(count, method))
    end
  end)

  it("begins anew in each slice", function()
    local plan = { pp = 2, vp = 2, schedule = "interleaved", micro_batches = 2, split = { 1, 3, 4, 2 },
      recompute_layers = 2 }
    local function seconds(method)
      local list = stages(10, merged(plan, { recompute_method = method }))
      return { list[1][1] / 2, list[2][1] / 2 }
    end
    assert.same({ 1 + 2, 2 + 2 }, seconds "block")
    assert.same({ 0 + 2, 1 + 1 }, seconds "every")
    assert.same({ 1 + 4, 3 + 2 }, seconds "uniform")
  end)

  it("repeats the last operations of each layer whose output the next layer of a group needs", function()
    -- 10 s behind the last stored tensor of a layer. Numbers of layers in the groups of three layers: 1 1 1, 2 1, 3.
    for count, outputs in ipairs { 0, 1, 2, 2 } do
      local seconds = stages(3, { recompute_layers = count, recompute_method = "uniform", last = 10 })[1][1]
      assert.equal(3 + 10 * outputs, seconds)
    end
    assert.equal(3, stages(3, { last = 10 })[1][1])
    for _, method in ipairs { "block", "every" } do
      assert.equal(1, stages(3, { recompute_layers = method == "block" and 1 or 2, recompute_method = method,
        last = 10 })[1][1])
    end
    -- Slices of 1, 3, 4 and 2 layers; 1 and 4 on the first stage.
    local list = stages(10, { pp = 2, vp = 2, schedule = "interleaved", micro_batches = 2, split = { 1, 3, 4, 2 },
      recompute_layers = 3, recompute_method = "uniform", last = 10 })
    assert.same({ 5 + 10 * (0 + 2), 5 + 10 * (2 + 1) }, { list[1][1] / 2, list[2][1] / 2 })
  end)

  local hyper = { layers = 8, hidden = 1024, heads = 8, vocab = 32000, experts = 8, top_k = 2,
    first_dense_layers = 3 }
  local function run(given)
    return estimate.new { model = model_module.new("mixtral", hyper), cluster = "dgx_h100", profile = false,
      plan = merged({ seq = 1024, micro_batches = 2, stack = "plain", recompute = "full" }, given) }
  end

  it("repeats the first layers whatever their kind, and its lines add up to the step", function()
    local function again(e, name)
      local all = 0.0
      for _, list in ipairs { e.operators, e.collectives } do
        for _, line in ipairs(list) do
          if not name or line.name == name then all = all + (line.recompute_seconds or 0.0) end
        end
      end
      return all
    end
    local full = run {}
    for count, kinds in pairs { [2] = { 2 / 3, 0 }, [3] = { 1, 0 }, [5] = { 1, 2 / 5 }, [8] = { 1, 1 } } do
      local e = run { recompute_layers = count }
      assert.near(kinds[1] * again(full, "linear_down"), again(e, "linear_down"), 1e-12)
      assert.near(kinds[2] * again(full, "expert_linear2"), again(e, "expert_linear2"), 1e-12)
      assert.near(e.stages[1].recompute_seconds, again(e), 1e-12)
    end
    assert.near(full.step_seconds, run { recompute_layers = 8 }.step_seconds, 1e-15)
    assert.equal(full.memory_bytes, run { recompute_layers = 8 }.memory_bytes)
    assert.matches("full recompute of at most 3 layers in a slice", tostring(run { recompute_layers = 3 }))
    local warned = "recompute_layers = %d: no slice has more than 8 to repeat, so 8 is used"
    assert.is_truthy(tostring(run { recompute_layers = 9 }):find(warned:format(9), 1, true))
    assert.is_nil(tostring(run { recompute_layers = 8 }):find(warned:format(8), 1, true))
  end)

  it("repeats the same layers as a list of their ids", function()
    local slices = { pp = 2, dp = 2, zero = 1, split = { 5, 3 }, overlap_gradients = true }
    for _, case in ipairs {
      { { recompute_layers = 2 }, {}, { 0, 1 } },
      { { recompute_layers = 2 }, slices, { 6, 0, 5, 1 } },
      { { recompute_layers = 2, recompute_method = "every" }, slices, { 1, 3, 6 } },
      { { recompute_layers = 3, frozen_layers = 2 }, {}, { 0, 2, 3, 4 } },
      { { frozen_layers = 1 }, {}, { 0, 1, 2, 3, 4, 5, 6, 7 } },
    } do
      local numbered = run(merged(case[2], case[1]))
      local listed = run(merged(case[2], { frozen_layers = case[1].frozen_layers, recompute_layer_ids = case[3] }))
      -- The order of sums differs.
      local function same(of, name)
        local expected = of(numbered)[name] or 0.0
        assert.near(expected, of(listed)[name] or 0.0, 1e-9 * expected)
      end
      for _, name in ipairs { "step_seconds", "low_seconds", "memory_bytes", "kwh_per_step" } do
        same(function(e) return e end, name)
      end
      for i in ipairs(numbered.stages) do
        for _, name in ipairs { "recompute_seconds", "activation_bytes", "working_bytes", "allocated_bytes" } do
          same(function(e) return e.stages[i] end, name)
        end
      end
      for i in ipairs(numbered.operators) do
        same(function(e) return e.operators[i] end, "recompute_seconds")
      end
    end
    -- One of five layers of the first slice, none of the second.
    local none, some = run(merged(slices, { recompute = "none" })), run(merged(slices, { recompute_layer_ids = { 4 } }))
    assert.is_true(some.stages[1].recompute_seconds > 0 and some.stages[2].recompute_seconds == 0)
    assert.is_true(some.stages[1].activation_bytes < none.stages[1].activation_bytes)
    assert.equal(none.stages[2].memory_bytes, some.stages[2].memory_bytes)
    assert.matches("full recompute of layer 4, ZeRO", tostring(some))
    assert.equal("recompute_layer_ids: layers 0 and 1 are frozen, so no backward pass repeats them",
      run({ frozen_layers = 2, recompute_layer_ids = { 1, 3, 0 } }).warnings[1])
    assert.equal("recompute_layer_ids: layer 1 is frozen, so no backward pass repeats it",
      run({ frozen_layers = 2, recompute_layer_ids = { 1, 3 } }).warnings[1])
    assert.equal("recompute_layer_ids: no layer is repeated, because all of them are frozen",
      run({ frozen_layers = 2, recompute_layer_ids = { 1 } }).warnings[1])
  end)

  it("needs full recomputation, in searches too", function()
    local plan = require "ett.plan"
    local function why(given)
      return table.concat(plan.violations(merged({ seq = 512, micro_batches = 1 }, given),
        model_module.new("mixtral", hyper), "dgx_h100"), "; ")
    end
    assert.matches("recompute_layers needs recompute = 'full', got 'none'", why { recompute_layers = 2 })
    assert.equal("", why { recompute = "full", recompute_layers = 2, recompute_method = "every" })
    assert.equal("", why { recompute = "full", recompute_layer_ids = { 7, 0 } })
    for sentence, given in pairs {
      ["recompute_layer_ids needs recompute = 'full', got 'none'"] = { recompute_layer_ids = { 0 } },
      ["recompute_layers and recompute_layer_ids exclude each other"] = { recompute = "full", recompute_layers = 1,
        recompute_layer_ids = { 0 } },
      ["recompute_layer_ids must name at least one layer"] = { recompute = "full", recompute_layer_ids = {} },
      ["recompute_layer_ids has the value 3 twice"] = { recompute = "full", recompute_layer_ids = { 3, 3 } },
      ["recompute_layer_ids must be at most 7, the last of the model's 8 layers, got 8"] = { recompute = "full",
        recompute_layer_ids = { 8 } },
      ["recompute_layer_ids must be layers, counted from 0, got 'x'; "
        .. "recompute_layer_ids must be layers, counted from 0, got 1.5"] = { recompute = "full",
        recompute_layer_ids = { "x", 1.5 } },
    } do
      assert.equal(sentence, why(given))
    end
    local found = require("ett.search.search").new { model = model_module.new("mixtral", hyper), cluster = "dgx_h100",
      devices = 2, plan = { seq = 1024, global_batch = 4, recompute_layers = 2, tp = 1, ep = 1, stack = "plain" },
      keep = 50 }
    assert.is_true(#found.rows > 1)
    for _, row in ipairs(found.rows) do assert.equal("full", row.recompute) end
    local best = found.best.estimate.plan
    local function seconds(count)
      return estimate.new { model = model_module.new("mixtral", hyper), cluster = "dgx_h100",
        plan = merged(best, { recompute_layers = count }) }.step_seconds
    end
    assert.equal(2, best.recompute_layers)
    assert.equal(found.rows[1].step_seconds, seconds(2))
    local listed = require("ett.search.search").new { model = model_module.new("mixtral", hyper), cluster = "dgx_h100",
      devices = 2, plan = { seq = 1024, global_batch = 4, recompute_layer_ids = { 0, 1 }, tp = 1, pp = 1, ep = 1,
        stack = "plain" }, keep = 50 }
    local numbered = require("ett.search.search").new { model = model_module.new("mixtral", hyper),
      cluster = "dgx_h100", devices = 2, plan = { seq = 1024, global_batch = 4, recompute_layers = 2, tp = 1, pp = 1,
        ep = 1, stack = "plain" }, keep = 50 }
    assert.is_true(#listed.rows > 1 and #listed.rows == #numbered.rows)
    assert.near(numbered.rows[1].step_seconds, listed.rows[1].step_seconds, 1e-9)
    for _, row in ipairs(listed.rows) do assert.equal("full", row.recompute) end
    assert.is_true(seconds(2) < seconds(8))
  end)
end)
