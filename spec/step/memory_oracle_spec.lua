--- Parameters, states and stored activations of random models and plans against a count by hand, and laws of memory.
local architecture = require "ett.model.architecture"
local estimate = require "ett.step.estimate"
local memory_oracle = require "memory_oracle"
local model_module = require "ett.model"
local plan_module = require "ett.plan"
local random_plans = require "random_plans"
local simulator = require "pipeline_simulator"

local profile = random_plans.profile()

--- The estimate of a plan; nil if a rule refuses it.
local function run(model, p)
  if #plan_module.violations(p, model, random_plans.flat) > 0 then return nil end
  return estimate.new { model = model, cluster = random_plans.flat, profile = profile, plan = p, interval = false }
end

local function model_of(kind, h, more) return model_module.new(kind, random_plans.with(h, more or {})) end

local function text(t)
  local words = {}
  for key, value in pairs(t) do
    words[#words + 1] = key .. "=" .. (type(value) == "table" and table.concat(value, ",") or tostring(value))
  end
  table.sort(words)
  return table.concat(words, " ")
end

--- Calls each(kind, h, p, e) for `count` random models and plans.
local function cases(count, seed, each)
  local random, tried = random_plans.generator(seed), 0
  while tried < count do
    local kind, h = memory_oracle.model(random)
    local p = memory_oracle.plan(random, h)
    local e = run(model_of(kind, h), p)
    if e then
      tried = tried + 1
      each(kind, h, p, e)
    end
  end
end

describe("the memory of a stage", function()
  it("is what a count by hand gives", function()
    cases(120, 31, function(_, h, p, e)
      for i, wanted in ipairs(memory_oracle.stages(h, p)) do
        for name, value in pairs(wanted) do
          local got = e.stages[i][name]
          -- Of activations, a part of a token of an expert is left out.
          local part = name == "activation_bytes" and 1e-4 or 1e-9
          assert.is_true(math.abs(got - value) <= part * value,
            ("stage %d: %s: wanted %.6g, got %.6g: %s; %s"):format(i,
            name, value, got, text(h), text(p)))
        end
      end
    end)
  end)

  it("sums up to the model's parameters, and the fullest stage is the one that is named", function()
    local several = 0
    cases(60, 32, function(kind, h, p)
      local model = model_of(kind, h, { vocab = 32768, tied_embeddings = false, mtp_layers = 0 })
      local e = run(model, random_plans.with(p, { tp = 1, etp = 1, sequence_parallel = false, frozen_layers = 0 }))
      if not e then return end
      local sum, most = 0, 0
      for _, s in ipairs(e.stages) do
        sum = sum + s.parameters - s.expert_parameters + s.expert_parameters * p.ep
        most = math.max(most, s.memory_bytes)
      end
      assert.equal(architecture.parameters(model), sum)
      assert.equal(most, e.stages[e.fullest_stage].memory_bytes)
      assert.equal(most, e.memory_bytes)
      several = several + (#e.stages > 1 and 1 or 0)
    end)
    assert.is_true(several > 10)
  end)
end)

describe("the embedding's table", function()
  --- The stages that hold it, and the copies beside the embedding. Those of the embedding need none.
  local function holders(h, p)
    local s, owners, found, slices = simulator.schedule(p.schedule, p), {}, {}, p.pp * p.vp
    local predicted = h.mtp_layers and (p.mtp_slice or slices)
    for stage, chunks in ipairs(s.slice) do
      for _, slice in ipairs(chunks) do owners[stage] = owners[stage] or slice == 1 end
    end
    local copies, first = 0, nil
    for stage, chunks in ipairs(s.slice) do
      local reads, reduces = false, false -- one way of the schedule reduces
      for chunk, slice in ipairs(chunks) do
        local own = slice == predicted or h.tied_embeddings and slice == slices
        reads, reduces = reads or own, reduces or own and chunk <= p.vp
        if slice == 1 and chunk <= p.vp then first = first or stage end
      end
      if reads and not owners[stage] then copies, found[stage] = copies + 1, reduces or nil end
    end
    if next(found) and not p.frozen_layers then found[first] = true else found = {} end
    return found, copies, s.ways
  end

  it("is on the stages of its lookups and of a tied head, once, and they reduce its gradient", function()
    local random, groups = random_plans.generator(36), {}
    cases(100, 39, function(kind, h, p)
      local slices = p.pp * (p.vp or 1)
      if not p.mtp_slice then
        p.schedule = p.vp and random { "interleaved", "zb_v" } or random { "1f1b", "zb_h1", "chimera", "dualpipe" }
      end
      local model = model_of(kind, h)
      local e = run(model, p)
      if not e or slices == 1 then return end
      local found, copies, ways = holders(h, random_plans.with(p, { vp = e.plan.vp }))
      local sum = 0
      for i, s in ipairs(e.stages) do
        assert.equal(found[i] or false, s.tied_embedding_seconds > 0, ("stage %d: %s; %s"):format(i, text(h), text(p)))
        sum = sum + s.parameters - s.expert_parameters
      end
      groups[copies] = (groups[copies] or 0) + 1
      if p.frozen_layers then return end
      local rows = (h.vocab + 128 * p.tp - 1) // (128 * p.tp) * 128 -- on a rank
      local one = run(model, random_plans.with(p, { pp = 1, vp = 1, schedule = "gpipe", split = false,
        mtp_slice = false }))
      if not one then return end
      local whole = one.stages[1].parameters - one.stages[1].expert_parameters
      assert.equal(ways * whole + copies * rows * h.hidden, sum, text(h) .. "; " .. text(p))
    end)
    assert.is_true(groups[0] > 10 and groups[1] > 10 and groups[2] > 1, ("%d %d %d"):format(groups[0], groups[1],
      groups[2] or 0))
  end)
end)

describe("the largest memory allocated on a device", function()
  local stacks = { "plain", "megatron", "torchtitan", "fsdp_eager", "megatron_deepspeed", "maxtext", "megatron_fsdp" }

  local function allocated(e)
    local most = 0
    for _, s in ipairs(e.stages) do most = math.max(most, s.allocated_bytes) end
    return most
  end

  it("never falls with more work, and never grows with more shards or recomputation", function()
    local random, held, software = random_plans.generator(33), 0, require "ett.operator.stack"
    cases(60, 34, function(kind, h, p)
      p.stack, p.overlap_parameters, p.reshard = random(stacks), random { true, false }, random { true, false }
      p.fused_accumulation, p.schedule = random { true, false }, p.vp and p.schedule or random { "1f1b", "zb_h1" }
      local e = run(model_of(kind, h), p)
      local function law(smaller, larger, what)
        if not (smaller and larger) then return end
        held = held + 1
        assert.is_true(allocated(smaller) <= allocated(larger) * (1 + 1e-12), ("%s: %.6g > %.6g: %s; %s"):format(what,
          allocated(smaller), allocated(larger), text(h), text(p)))
      end
      local function with(changes, more) return run(model_of(kind, h, more), random_plans.with(p, changes)) end
      for _, field in ipairs { "micro_batch", "seq", "micro_batches" } do
        law(e, with { [field] = 2 * p[field] }, field)
      end
      if h.experts and (p.expert_skew or 0) == 0 and not p.capacity_factor then
        law(e, with { expert_skew = 0.5 }, "expert_skew")
        law(with { capacity_factor = 1.0, expert_skew = 1 }, with { capacity_factor = 1.5, expert_skew = 1 },
          "capacity")
        law(with { capacity_factor = 1.5, expert_skew = 1 },
          with { capacity_factor = 1.5, expert_skew = 1, pad_to_capacity = true }, "padding")
      end
      law(e, with({}, { layers = h.layers + 1 }), "layers")
      law(e, with({}, { vocab = 2 * h.vocab }), "vocab")
      -- PyTorch's pipeline stages keep whole weights and gradients under ZeRO-2 and 3.
      local whole = p.pp > 1 and (p.stack == "torchtitan" or p.stack == "fsdp_eager")
      local casts = p.gradient_dtype == "bf16" and software.get(p.stack).master_shards -- reduced gradients are in fp32
      if p.zero < 3 and not ((whole or casts) and p.zero == 1) then law(with { zero = p.zero + 1 }, e, "zero") end
      law(with { recompute = p.recompute == "none" and "selective" or "full" }, e, "recompute")
      law(with { tp = 2 * p.tp, etp = p.etp, sequence_parallel = true }, e, "tp")
      law(with { dp = 2 * p.dp }, e, "dp")
      -- With unlike experts the busiest of more ranks has a larger share.
      if (p.expert_skew or 0) == 0 then law(with { ep = 2 * p.ep }, e, "ep") end
    end)
    assert.is_true(held > 350, ("%d comparisons"):format(held))
  end)

  it("never falls with longer sequences under any stack, nor with gradients in freed memory", function()
    local random, held, software = random_plans.generator(35), 0, require "ett.operator.stack"
    for _, stack in ipairs(software.names()) do
      local frees = software.get(stack).frees_gradients
      cases(8, 36, function(kind, h, p)
        local q = random_plans.with(p, { stack = stack, dp = 1, cp = 1, ep = 1, zero = 0,
          micro_batches = p.vp and p.micro_batches or 1, gradient_dtype = random { "bf16", "bf16", "fp32" },
          optimizer_bytes = random { 4, 12, 12 } })
        local model, before = model_of(kind, h), 0
        for _, seq in ipairs { 256, 512, 1024, 2048, 4096 } do
          q.seq = seq
          local e = run(model, q)
          local bytes = e and e.memory_bytes or before
          local what = ("seq %d: %.6g: %s; %s"):format(seq, bytes, text(h), text(q))
          assert.is_true(before <= bytes * (1 + 1e-12), what)
          held, before = held + (e and 1 or 0), bytes
          local kept = frees and e and run(model, random_plans.with(q, { stack = stack .. ":frees_gradients=false" }))
          if kept then assert.is_true(bytes <= kept.memory_bytes * (1 + 1e-12), what) end
        end
      end)
    end
    assert.is_true(held > 500, ("%d estimates"):format(held))
  end)
end)
