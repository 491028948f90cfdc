-- Plan fields without an effect: the estimate reports exactly these.
local estimate = require "ett.step.estimate"
local fields = require "ett.plan.fields"
local model = require "ett.model"
local times = require "ett.step.times"

local dense = model.new("llama", { layers = 4, hidden = 512, heads = 8, ffn = 2048, vocab = 1024 })
local mixture = model.new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1024, experts = 8,
  top_k = 2 })
local cluster = require("ett.profile.cluster").get "dgx_h100"
local of_cluster = times.new(cluster)

local function with(...)
  local p = { seq = 1024, micro_batches = 4 }
  for _, more in ipairs { ... } do for name, value in pairs(more) do p[name] = value end end
  return p
end

-- What a field may change, as text, and the warnings of the estimate.
local function outcome(of, plan, on)
  local e = estimate.new { model = of, cluster = on or cluster, times = of_cluster, plan = plan }
  local words = { e.step_seconds, e.memory_bytes, e.gradient_exposed_seconds, e.goodput_percent or 0,
    e.kwh_per_step or 0, e.co2_kg_per_step or 0, e.checkpoint_write_seconds or 0, e.dropped_tokens_percent or 0,
    e.varied_p99_seconds or 0 }
  for i, value in ipairs(words) do words[i] = ("%.10g"):format(value) end
  return table.concat(words, " "), table.concat(e.warnings, "\n")
end

local z3 = { dp = 4, zero = 3, overlap_parameters = true }
local skewed = { dp = 4, ep = 4, expert_skew = 0.8 }
-- Field, value; a plan under which it has no effect, and one under which it has.
local cases = {
  { "cp_method", "ring", {}, { cp = 4 } },
  { "cp_balanced", false, { cp = 2, cp_method = "ulysses" }, { cp = 2 } },
  { "cp_ulysses", 2, { cp_method = "ring" }, { cp = 4, cp_method = "ring" } },
  { "sequence_parallel", true, { dp = 2 }, { tp = 2 } },
  { "scatter_sends", true, { tp = 2 }, { tp = 2, pp = 2 } },
  { "scatter_sends", true, { tp = 2, pp = 2, sequence_parallel = true }, { tp = 2, pp = 2 } },
  { "overlap_tensor", true, { tp = 2 }, { tp = 2, sequence_parallel = true } },
  { "overlap_tensor", true, { tp = 4, dp = 2, ep = 4, etp = 1 }, { tp = 4, dp = 2, ep = 4, etp = 1,
    sequence_parallel = true }, mixture },
  { "zero", 1, { tp = 2 }, { dp = 2 } },
  { "zero", 1, { pp = 2 }, { pp = 2, schedule = "chimera" } },
  { "overlap_gradients", true, { pp = 2 }, { pp = 2, schedule = "chimera", bucket_bytes = 1e4 } },
  { "overlap_gradients", true, { pp = 2, dp = 4, zero = 3, stack = "torchtitan" },
    { pp = 2, dp = 4, zero = 3, stack = "maxtext", overlap_gradients = false } },
  { "prefetch", 4, { dp = 4, zero = 3 }, z3 },
  { "reshard", false, { dp = 4, zero = 2 }, z3 },
  { "bucket_bytes", 1e4, { dp = 4, zero = 3 }, { dp = 4, zero = 1, overlap_gradients = true } },
  { "gradient_all_reduce", true, { dp = 4 }, { dp = 4, zero = 1 } },
  { "reduce_dtype", "bf16", { tp = 2 }, { dp = 4 } },
  { "overlap_gradients", true, { pp = 2 }, { dp = 4, bucket_bytes = 1e4 } },
  { "overlap_parameters", true, { dp = 4 }, { dp = 4, zero = 1 } },
  { "overlap_sends", true, { dp = 2 }, { pp = 4 } },
  { "serial_sends", true, { dp = 2 }, { pp = 4 } },
  { "clip_gradients", false, { dp = 2 }, { pp = 4, dp = 2 } },
  { "post_validation", true, { pp = 4, clip_gradients = false }, { pp = 4, schedule = "zb_h1" } },
  { "slow_factor", 1.5, {}, { dp = 4, slow_share = 0.3 } },
  { "etp", 1, { tp = 2 }, { tp = 2, dp = 2, ep = 2 }, mixture },
  { "etp", 2, { tp = 4 }, { tp = 4 }, mixture },
  { "expert_skew", 0.8, { dp = 2 }, { dp = 4, ep = 4 }, mixture },
  { "capacity_factor", 1.1, { dp = 4, ep = 4 }, skewed, mixture },
  { "deduplicate_tokens", true, { dp = 8 }, { dp = 16, ep = 8, rank_order = "tp-cp-dp-ep-pp" }, mixture },
  { "restart_seconds", 5000, { failures_per_device_day = 0 }, { failures_per_device_day = 0.01 } },
  { "checkpoint_every_seconds", 50, { failures_per_device_day = 0 }, { failures_per_device_day = 0.01 } },
  { "device_storage_bandwidth", 1e6, { failures_per_device_day = 0 }, { failures_per_device_day = 0.01 } },
}

describe("fields of the software that a plan leaves open", function()
  it("are listed with their values if they have an effect and were not given", function()
    local function open(of, plan)
      return table.concat(estimate.new { model = of, cluster = cluster, times = of_cluster, plan = with(plan) }
        .left_open, ", ")
    end
    assert.equal("gradient_dtype fp32, fused_accumulation false, stack plain, recompute none, optimizer_bytes 12",
      open(dense, {}))
    assert.matches("optimizer_bytes 8", open(dense, { dtype = "fp32" }), 1, true)
    assert.equal("overlap_all_to_all none, stack plain, schedule 1f1b, overlap_gradients false, overlap_sends false",
      open(mixture, { dp = 2, ep = 2, pp = 2, gradient_dtype = "bf16", fused_accumulation = true, zero = 0,
        recompute = "full", optimizer_bytes = 12, deduplicate_tokens = false }))
    assert.matches("lora_targets linear_qkv,linear_proj,linear_up,linear_down", open(dense, { lora_rank = 8 }), 1, true)
    local given = estimate.new { model = dense, cluster = cluster, times = of_cluster,
      plan = with { lora_rank = 8, lora_targets = { "linear_qkv", "linear_proj" } } }
    assert.is_nil(table.concat(given.left_open, ", "):find "lora_targets")
    assert.matches("LoRA rank 8 on linear_qkv and linear_proj", tostring(given), 1, true)
  end)
end)

describe("a ZeRO stage that the plan's stack lacks", function()
  it("is reported with the stack that has it, if ranks share weights", function()
    local function said(plan)
      plan.stack = "megatron"
      return select(2, outcome(dense, with(plan)))
    end
    local sentence = "zero = 3: the stack megatron has only ZeRO 0, 1; stack=megatron_fsdp has it"
    assert.matches(sentence, said { dp = 2, zero = 3 }, 1, true)
    local _, older = outcome(dense, with { dp = 2, zero = 3, stack = "megatron_2021" })
    assert.matches("zero = 3: the stack megatron_2021 has only ZeRO 0, 1$", older)
    local _, kept = outcome(dense, with { dp = 2, zero = 2, stack = "fsdp_eager" }) -- SHARD_GRAD_OP
    assert.matches("zero = 2: the stack fsdp_eager has only ZeRO 0, 3; SHARD_GRAD_OP of PyTorch FSDP is "
      .. "zero=3 reshard=false", kept, 1, true)
    assert.is_nil(said({ dp = 2, zero = 1 }):find "the stack megatron has")
    assert.is_nil(said({ zero = 3 }):find "the stack megatron has")
    local _, whole = outcome(dense, with { dp = 2, zero = 0, stack = "torchtitan" }) -- DDP
    assert.is_nil(whole:find "the stack torchtitan has")
    local staged = { dp = 2, pp = 2, zero = 2, micro_batches = 4, stack = "megatron_deepspeed" }
    local refused = "zero = 2: the stack megatron_deepspeed has only ZeRO 0, 1 in pipelines"
    assert.matches(refused, select(2, outcome(dense, with(staged))), 1, true)
    staged.pp = 1
    assert.is_nil(select(2, outcome(dense, with(staged))):find(refused, 1, true))
  end)
end)

describe("fields without an effect", function()
  it("of a stack are reported where one-hot masks move the tokens", function()
    for _, field in ipairs { "pads_copies", "combine=bmm" } do
      local function run(more, of)
        return outcome(mixture, with({ capacity_factor = 1.25, pad_to_capacity = true, stack = "maxtext" .. more }, of))
      end
      local sentence = field:match "^[^=]+" .. " has no effect: products with one-hot masks move the tokens"
      local idle, said = run(":" .. field)
      assert.equal(run "", idle)
      assert.matches(sentence, said, 1, true)
      idle, said = run(":" .. field, { pad_to_capacity = false })
      assert.not_equal(run("", { pad_to_capacity = false }), idle)
      assert.is_nil(said:find(sentence, 1, true))
    end
  end)

  it("act on experts that tensor ranks hold whole", function()
    local plan = { tp = 2, ep = 1, etp = 1 }
    local whole, said = outcome(mixture, with(plan, { zero = 1 }))
    assert.not_equal(outcome(mixture, with(plan)), whole)
    assert.is_nil(said:find "zero has no effect")
  end)

  it("change nothing and are reported; they have an effect if their condition holds", function()
    for _, case in ipairs(cases) do
      local name, value, idle, acting, of = table.unpack(case)
      local field = { [name] = value }
      local needs = fields.list[fields.position[name]].needs[1]
      local sentence = ("%s has no effect: it needs %s"):format(name, needs)
      local other = name == "etp" and dense or of or dense -- a dense model has no experts
      local without, silent = outcome(other, with(idle))
      local result, said = outcome(other, with(idle, field))
      assert.equal(without, result, name)
      assert.is_nil(silent:find(sentence, 1, true))
      assert.is_truthy(said:find(sentence, 1, true), said)
      without = outcome(of or dense, with(acting))
      result, said = outcome(of or dense, with(acting, field))
      assert.not_equal(without, result, name)
      assert.is_nil(said:find(name .. " has no effect", 1, true), name)
    end
  end)

  it("are modules that no layer has", function()
    local function said(of, modules)
      return select(2, outcome(of, with { recompute = "selective", recompute_modules = modules }))
        :match "recompute_modules: [^\n]*"
    end
    assert.equal("recompute_modules: moe, mla_up_proj: no layer has it", said(dense, { "moe", "mlp", "mla_up_proj" }))
    assert.is_nil(said(dense, { "core_attn", "layernorm", "mlp_act" }))
    assert.is_nil(said(mixture, { "moe", "core_attn" }))
  end)

  it("need experts, failures and power of the model and the cluster", function()
    local p = { zero = 0, dp = 1, cp = 1, ep = 1, tp = 1, pp = 1, expert_skew = 0, etp = 2, pue = 1.2,
      restart_seconds = 5 }
    for name, field in pairs(fields.schema) do if p[name] == nil then p[name] = field.default end end
    assert.equal(3, #fields.idle(p, {}))
    assert.equal(0, #fields.idle(p, { experts = true, failures = true, power = true }))
  end)
end)
