--- Searches: the optimum is that of brute force, bounds hold, and conditions and limits have their effect.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local fields = require "ett.plan.fields"
local floor = require "ett.search.floor"
local lower = require "ett.step.lower"
local merged = require "ett.base.merged"
local plan_module = require "ett.plan"
local search = require "ett.search.search"
local slow_samples = require "slow_samples"
local spaces = require "search_spaces"
local step_core = require "ett.step"

local model = require("ett.model").new("llama", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 })

local cluster = require("ett.profile.cluster").get "dgx_h100"
local raised = require "raised"
local times = require("ett.step.times").new(cluster)

local function small(changes)
  local given = { model = model, cluster = cluster, times = times, devices = 8,
    plan = { seq = 1024, global_batch = 16, cp = 1 } }
  for name, value in pairs(changes or {}) do given[name] = value or nil end
  if given.vary and given.vary.devices and not (changes and changes.devices) then given.devices = nil end
  return search.new(given)
end

describe("a search", function()
  it("finds the optimum that evaluating every plan finds", function()
    local found = 0
    for _, seed in ipairs { 8, 20, 28, 39 } do
      local given = spaces.new(seed)
      local best = spaces.brute_force(given)
      local rows = search.new(given).rows
      assert.equal(best, rows[1] and rows[1].step_seconds, "seed " .. seed)
      found = found + (best and 1 or 0)
    end
    assert.is_true(found == 4)
  end)

  it("keeps the same rows without bounds", function()
    local bounded, all = small { keep = 30 }, small { keep = 30, exhaustive = true }
    assert.equal(30, #bounded.rows)
    assert.same(all.rows, bounded.rows)
    assert.is_true(bounded.effort.evaluated < all.effort.evaluated)
    -- Full recomputation moves fewer activations to the host: it may be faster than none.
    local given = { model = require("ett.model").new("llama", { layers = 12, hidden = 768, heads = 12, ffn = 3072,
      vocab = 30522 }), cluster = "dgx_b200", times = false, devices = 16, keep = 41,
      plan = { seq = 1024, global_batch = 128, offload_activations = 1, cp = 1, pp = 2, tp = 4 },
      vary = { micro_batch = { 1, 2 }, vp = { 1, 2, 3 }, zero = { 1, 2 } } }
    bounded = small(given)
    given.exhaustive = true
    assert.same(small(given).rows, bounded.rows)
  end)

  it("keeps the ZeRO stages that move a shard to or from the host, where lower stages move all", function()
    for _, name in ipairs { "offload_gradients", "offload_weights" } do
      local given = { keep = 12, plan = { seq = 1024, global_batch = 32, cp = 1, [name] = 1 },
        vary = { zero = { 0, 1, 2, 3 }, schedule = { "1f1b", "zb_v" }, recompute = { "none" } } }
      local bounded = small(given)
      given.exhaustive = true
      assert.same(small(given).rows, bounded.rows)
    end
  end)

  it("bounds programs of experts where nodes are no multiple of the groups", function()
    local given = { model = require("ett.model").new("mixtral", { layers = 8, hidden = 512, heads = 8, vocab = 1000,
      ffn = 1024, experts = 8, top_k = 2 }), cluster = "gb200_nvl72", times = false, devices = 64, keep = 20,
      plan = { seq = 1024, global_batch = 64, pp = 2, recompute = "none", zero = 1, schedule = "1f1b" },
      vary = { tp = { 1, 2, 4, 8 }, cp = { 1, 2 }, ep = { 1, 2 }, micro_batch = { 1, 2, 4 } } }
    local bounded = small(given)
    given.exhaustive = true
    assert.same(small(given).rows, bounded.rows)
  end)

  it("keeps plans that fit where the same plans with overlap_all_to_all=batch do not", function()
    local given = { model = require("ett.model").new("mixtral", { layers = 8, hidden = 2048, heads = 16, kv_heads = 8,
      ffn = 4096, vocab = 32000, experts = 8, top_k = 2 }), cluster = "dgx_a100", times = false, devices = 36, keep = 4,
      objective = "memory_bytes", plan = { seq = 1024, global_batch = 144, pp = 1, tp = 1, recompute = "none",
        schedule = "1f1b" }, vary = { micro_batch = { 1, 2 }, zero = { 3, 0 } } }
    local bounded = small(given)
    given.exhaustive = true
    assert.same(small(given).rows, bounded.rows)
  end)

  it("keeps a single micro-batch that needs less memory than two smaller ones", function()
    local device = cluster.device.memory_bytes
    local given = { devices = 1, headroom = 1 - 3.77e9 / device, plan = { seq = 128, global_batch = 2, zero = 0,
      recompute = "none", stack = "torchtitan" }, times = false,
      model = require("ett.model").new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 }) }
    local rows = small(given).rows
    assert.equal(1, #rows)
    assert.equal(2, rows[1].micro_batch)
  end)

  it("keeps plans of a schedule that the condition excludes for smaller micro-batches", function()
    local given = { model = require("ett.model").new("llama", { layers = 8, hidden = 8192, heads = 64, kv_heads = 8,
      ffn = 28672, vocab = 32000 }), devices = 16, where = "schedule == 'gpipe' or micro_batch > 1",
      plan = { seq = 4096, global_batch = 64, pp = 2, tp = 8, cp = 1, recompute = "none", zero = 0 },
      vary = { micro_batch = { 1, 2, 4 }, schedule = { "gpipe", "1f1b" } } }
    local bounded = small(given)
    given.exhaustive = true
    local all = small(given)
    assert.same(all.rows, bounded.rows)
    assert.is_true(#all.rows > 0)
  end)

  it("leaves overlap_tensor out where it costs time: pairs of micro-batches that wait for launches", function()
    local given = { model = require("random_plans").mixture(6), cluster = "gb200_nvl72", times = false, devices = 40,
      plan = { stack = "torchtitan", pp = 5, tp = 2, cp = 2, ep = 4, etp = 2, seq = 2048, global_batch = 16,
        micro_batch = 1, schedule = "1f1b", recompute = "none", zero = 0, deduplicate_tokens = true,
        overlap_all_to_all = "batch", sequence_parallel = true, bucket_bytes = 1e12, clip_gradients = false } }
    local found = small(given).rows[1]
    given.plan.overlap_tensor = true
    local slower = small(given).rows[1]
    given.plan.overlap_tensor = false
    assert.same({ false, small(given).rows[1].step_seconds }, { found.overlap_tensor, found.step_seconds })
    assert.is_true(slower.step_seconds > found.step_seconds)
  end)

  it("does not look for the stack's files again for each layout", function()
    local stacks, calls = require "ett.operator.stack", 0
    local get = stacks.get
    stacks.get = function(...)
      calls = calls + 1
      return get(...)
    end
    local _ <close> = setmetatable({}, { __close = function() stacks.get = get end })
    local function calls_with(global_batch)
      calls = 0
      small { times = false, devices = 64, plan = { seq = 1024, global_batch = global_batch, stack = "megatron" } }
      return calls
    end
    calls_with(64)
    assert.is_true(calls_with(1024) < calls_with(64) + 20) -- more micro-batches, the same degrees
  end)

  it("tries the ZeRO stages and the overlaps of the stack, unless the plan states others", function()
    local function tried(plan, name)
      plan.seq, plan.global_batch, plan.pp, plan.tp, plan.cp, plan.recompute = 1024, 16, 1, 1, 1, "none"
      local seen, list = {}, {}
      for _, row in ipairs(small { plan = plan, keep = 1000, exhaustive = true }.rows) do seen[row[name]] = true end
      for value in pairs(seen) do list[#list + 1] = tostring(value) end
      table.sort(list)
      return table.concat(list, " ")
    end
    for stack, stages in pairs { megatron = "0 1", torchtitan = "3", fsdp_eager = "0 3", plain = "0 1 2 3" } do
      local reshards = (stages == "3" or stages == "0 3") and "false true" or "true" -- SHARD_GRAD_OP
      assert.equal(stages .. "; " .. reshards, tried({ stack = stack }, "zero") .. "; "
        .. tried({ stack = stack }, "reshard"), stack)
      assert.equal("2", tried({ stack = stack, zero = 2 }, "zero"))
    end
    local sends = small { plan = { seq = 1024, global_batch = 16, pp = 2, tp = 1, cp = 1, recompute = "none",
      stack = "megatron" }, keep = 1000, exhaustive = true }
    local overlapping = {}
    for _, row in ipairs(sends.rows) do
      overlapping[row.schedule] = overlapping[row.schedule] or row.overlap_sends
    end
    assert.same({ { ["1f1b"] = false, interleaved = true }, sends.plans }, { overlapping, sends.effort.plans })
    local both = small { plan = { seq = 1024, global_batch = 16, pp = 1, tp = 1, cp = 1, recompute = "none" },
      vary = { stack = { "gpt_neox", "megatron" } }, keep = 1000, exhaustive = true }
    for _, row in ipairs(both.rows) do
      assert.is_true(require("ett.operator.stack").has_stage(require("ett.operator.stack").get(row.stack), row.zero))
    end
    assert.equal("true", tried({ stack = "torchtitan" }, "overlap_gradients"))
    assert.equal("false", tried({ stack = "torchtitan", overlap_gradients = false }, "overlap_gradients"))
    assert.equal("false true", tried({ stack = "fsdp_eager" }, "overlap_parameters")) -- none where nothing is sharded
  end)

  it("overlaps reductions of gradients in no pipeline of DeepSpeed", function()
    local function tried(overlaps, where, stack)
      local plan = { seq = 1024, global_batch = 16, tp = 1, cp = 1, recompute = "none", zero = 1,
        bucket_bytes = 1e7, stack = stack or "megatron_deepspeed" }
      local given, seen = { plan = plan, keep = 1000, exhaustive = true, where = where,
        vary = { pp = { 1, 2 }, overlap_gradients = overlaps } }, {}
      for _, row in ipairs(small(given).rows) do
        seen[("pp=%d %s"):format(row.pp, tostring(row.overlap_gradients))] = true
      end
      return table.concat(require("ett.base.schema").keys(seen), ", ")
    end
    for _, overlaps in ipairs { { false, true }, { true, false }, {} } do
      assert.matches("pp=1 true, pp=2 false$", tried(overlaps[1] ~= nil and overlaps or nil))
      assert.matches("pp=2 true$", tried(overlaps[1] ~= nil and overlaps or nil, nil, "megatron"))
    end
    assert.equal("pp=1 true", tried { true })
    assert.equal("pp=1 false, pp=2 false", tried({ false, true }, "not overlap_gradients"))
    assert.equal("pp=1 true", tried({ true, false }, "overlap_gradients"))
  end)

  it("copies the gradients of ZeRO-3 as estimates do", function()
    for _, stack in ipairs { "plain", "transformers_fsdp" } do -- the latter adds up those of several micro-batches
      local found = small { plan = { seq = 1024, global_batch = 16, pp = 1, tp = 1, cp = 1, recompute = "none",
        stack = stack }, vary = { zero = { 0, 3 }, micro_batch = { 1, 2 }, reduce_dtype = { "bf16", "fp32" } },
        where = "zero > 0 and dp > 1", keep = 40, exhaustive = true }
      assert.is_true(#found.rows >= 4, #found.rows)
      for _, row in ipairs(found.rows) do
        assert.equal(found.estimate_of(row).step_seconds, row.step_seconds)
      end
    end
  end)

  it("gathers weights during computing at DeepSpeed's stage 3 only, and pipelines as DeepSpeed does", function()
    local function tried(plan, stack, where)
      local given, seen = { plan = plan, keep = 10000, exhaustive = true, where = where }, {}
      plan.seq, plan.global_batch, plan.tp, plan.cp, plan.recompute, plan.stack = 1024, 16, 1, 1, "none", stack
      for _, row in ipairs(small(given).rows) do
        if row.dp > 1 then
          seen[("%s%s%d%s%s"):format(row.pp > 1 and row.schedule or "", row.pp > 1 and " " or "", row.zero,
            row.overlap_parameters and " ahead" or "", row.overlap_sends and " sends" or "")] = true
        end
      end
      return table.concat(require("ett.base.schema").keys(seen), ", ")
    end
    assert.equal("0, 1, 2, 3 ahead", tried({ pp = 1 }, "transformers"))
    assert.equal("0 ahead, 3 ahead", tried({ pp = 1, overlap_parameters = true }, "gpt_neox"))
    assert.equal("1f1b 0, 1f1b 1", tried({ pp = 2 }, "megatron_deepspeed"))
    assert.equal("1f1b 2", tried({ pp = 2, zero = 2 }, "megatron_deepspeed"))
    assert.matches("gpipe 1 ahead sends", tried({ pp = 2 }, "plain"))
    for _, stack in ipairs { "megatron", "megatron_2021", "megatron_fsdp", "megatron_moe" } do
      assert.is_nil(tried({ pp = 2 }, stack):find "gpipe")
    end
    assert.matches("^gpipe", tried({ pp = 2, schedule = "gpipe" }, "megatron"))
    -- Megatron-LM gathers ahead only if it also overlaps reductions.
    assert.equal("0, 1", tried({ pp = 1, overlap_gradients = false }, "megatron"))
    assert.equal("1 ahead", tried({ pp = 1 }, "megatron", "overlap_parameters and overlap_gradients"))
    assert.equal("", tried({ pp = 1 }, "megatron", "overlap_parameters and not overlap_gradients"))
    local alone = { pp = 1, zero = 1, overlap_parameters = true, overlap_gradients = false }
    assert.equal("1 ahead", tried(alone, "megatron"))
  end)

  it("keeps ZeRO-1 where ZeRO-3 needs more memory", function()
    local given = { model = require("ett.model").new("llama4-scout", { layers = 4 }), cluster = "dgx_a100",
      times = false, devices = 4, headroom = 0.2, plan = { seq = 4096, global_batch = 12, tp = 2, pp = 2, cp = 1,
        ep = 1, etp = 1, micro_batch = 1, recompute = "selective", sequence_parallel = true, schedule = "1f1b" } }
    local kept -- the row of ZeRO-1; that of ZeRO-2 takes as long but for rounding
    for _, row in ipairs(small(given).rows) do kept = kept or row.zero == 1 and row end
    given.vary = { zero = { 1 } }
    assert.same(small(given).rows[1].step_seconds, kept.step_seconds)
  end)

  it("gives interleaved plans the group of a single estimate, in any order of the schedules", function()
    for _, list in ipairs { { "1f1b", "interleaved" }, { "interleaved", "gpipe" } } do
      local given = { devices = 6, plan = { seq = 1024, global_batch = 64, cp = 1, pp = 3, tp = 1, recompute = "none" },
        vary = { schedule = list } }
      local seen = false
      for _, row in ipairs(small(given).rows) do
        local plan = { seq = 1024, global_batch = 64 }
        for _, name in ipairs { "pp", "dp", "vp", "schedule", "micro_batch", "zero", "overlap_parameters",
          "overlap_gradients", "overlap_sends", "rank_order" } do plan[name] = row[name] end
        local e = require("ett.step.estimate").new { model = model, cluster = cluster, times = times, plan = plan }
        assert.equal(e.step_seconds, row.step_seconds)
        assert.equal(e.memory_bytes, row.memory_bytes)
        seen = seen or row.schedule == "interleaved" and row.micro_batches % row.pp > 0
      end
      assert.is_true(seen)
    end
  end)

  it("evaluates a condition again in the space that explains why nothing fits", function()
    local nothing = search.new({ model = require("ett.model").new("llama4-scout", { layers = 4 }), cluster = "tpu_v5e",
      devices = 2, where = "tp <= 2 or zero > 1", plan = { global_batch = 36, seq = 512 },
      vary = { schedule = { "1f1b" }, zero = { 0 } } }).nothing
    assert.matches("no estimate is within the 16.* of a device", nothing)
  end)

  it("takes where = false as no condition", function()
    assert.is_true(#small({ plan = { seq = 1024, global_batch = 16, pp = 1 }, where = false }).rows > 0)
  end)

  it("keeps to fields that need a schedule, ZeRO or recomputation", function()
    local function rows_of(plan, vary)
      for name, value in pairs { seq = 1024, global_batch = 16, cp = 1, tp = 1 } do plan[name] = plan[name] or value end
      local rows = small { plan = plan, vary = vary }.rows
      assert.is_true(#rows > 0)
      return rows
    end
    for _, row in ipairs(rows_of { shard = 2, pp = 1 }) do assert.is_true(row.zero > 0) end
    for _, row in ipairs(rows_of({ pp = 1 }, { shard = { 2, 4 } })) do assert.is_true(row.zero > 0) end
    for _, row in ipairs(rows_of { recompute_modules = { "mlp" } }) do assert.equal("selective", row.recompute) end
    for _, row in ipairs(rows_of { recompute_keeps = { "linear_qkv" } }) do assert.equal("policy", row.recompute) end
    for _, row in ipairs(rows_of { interleave_group = 2, pp = 2 }) do assert.equal("interleaved", row.schedule) end
    for _, row in ipairs(rows_of { split = { 1, 0, 2, 1 }, pp = 2 }) do assert.equal(2, row.vp) end
    local groups = {}
    for _, row in ipairs(rows_of({ pp = 2, global_batch = 20, micro_batch = 1 }, { interleave_group = { 2, 3, 4 } })) do
      groups[row.interleave_group] = true
    end
    assert.same({ [3] = true }, groups) -- 5 micro-batches: 2 and 4 leave a last group of 1
    assert.matches("shard needs zero of at least 1", small { plan = { seq = 1024, global_batch = 16, shard = 2,
      zero = 0 } }.nothing)
    local stages = {}
    for _, row in ipairs(small { plan = { seq = 1024, global_batch = 16, cp = 1, shard = 1 },
      vary = { tp = { 1, 8 }, pp = { 1 }, zero = { 2 } } }.rows) do
      stages[row.dp] = row.zero
    end
    assert.same({ [1] = 0, [8] = 2 }, stages)
    assert.matches("needs recompute = 'selective', got 'full'", small { plan = { seq = 1024, global_batch = 16,
      recompute_modules = { "mlp" }, recompute = "full" } }.nothing)
  end)

  it("distinguishes plans by schedule and number of chunks", function()
    local s = small { where = "tp == 1 and pp == 2 and micro_batch == 1 and recompute == 'none' and zero == 0",
      vary = { rank_order = { "tp-cp-ep-dp-pp" } } }
    local seen = {}
    for i, row in ipairs(s.rows) do seen[i] = row.schedule .. " " .. row.vp end
    table.sort(seen)
    assert.same({ "1f1b 1", "gpipe 1", "interleaved 2" }, seen)
  end)

  it("searches both orders of stages and replicas, with the digits of single estimates", function()
    local s = small { devices = 32, where = "pp > 1 and dp > 1", keep = 1000 }
    local seen = {}
    for _, row in ipairs(s.rows) do
      if not seen[row.rank_order] then
        local plan = { seq = 1024, global_batch = 16 }
        for _, name in ipairs(s.fields) do plan[name] = row[name] end
        local e = require("ett.step.estimate").new { model = model, cluster = "dgx_h100", plan = plan }
        assert.equal(e.step_seconds, row.step_seconds)
      end
      seen[row.rank_order] = true
    end
    assert.same({ ["tp-cp-ep-dp-pp"] = true, ["tp-cp-ep-pp-dp"] = true }, seen)
  end)

  it("takes all values of a field", function()
    local one = { pp = 1, dp = 1, tp = 8 }
    local function values_of(name, more)
      local plan = { seq = 1024, global_batch = 16, cp = 1, recompute = "none", zero = 0, micro_batch = 1 }
      for field, value in pairs(more or one) do plan[field] = value end
      local values = {}
      for _, row in ipairs(small { plan = plan, vary = { [name] = "all" } }.rows) do values[row[name]] = true end
      return require("ett.base.schema").keys(values)
    end
    assert.same({ "bf16", "fp16", "fp32", "fp8", "tf32" }, values_of "dtype")
    assert.same(require("ett.base.find").names "lua/stacks", values_of "stack")
    assert.same({ "0", "0.25", "0.5", "0.75", "1" }, values_of "offload_optimizer")
    assert.same({ "tp-cp-ep-dp-pp" }, values_of "rank_order") -- all are alike on 8 tensor ranks
    assert.same({ "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp" }, values_of("rank_order", { pp = 2, dp = 2, tp = 2 }))
    assert.equal(small().plans, small { vary = { tp = "all" } }.plans)
    assert.error_matches(function() small { vary = { bucket_bytes = "all" } } end,
      "'bucket_bytes' has no list of all values; give some, such as bucket_bytes=A,B,C")
    assert.error_matches(function() small { vary = { dtyp = "all" } } end, "unknown field 'dtyp'; did you mean 'dtype'")
    assert.error_matches(function() small { vary = { devices = "all" } } end, "'devices' needs values")
    assert.error_matches(function() small { devices = 8, vary = { devices = { 4, 8 } } } end,
      "'devices' is both given and varied")
    assert.error_matches(function() small { vary = { cluster = { "dgx_h100" } } } end,
      "'cluster' is both given and varied")
    assert.error_matches(function() small { devices = 1 << 25 } end, "'devices' must be integers from 1 to 16777216")
  end)

  it("begins with the usual number of tensor ranks where nodes are larger", function()
    local gb200 = require("ett.profile.cluster").get "gb200_nvl72"
    local wide = require("ett.model").new("llama", { layers = 4, hidden = 1536, heads = 24, vocab = 32000 })
    local units = require("ett.search.space").new({ model = wide, clusters = { gb200 }, devices = { 72 }, vary = {},
      plan = { seq = 1024, global_batch = 72 } }).units
    assert.equal(8, units[1].tp)
  end)

  it("counts every plan of its space once", function()
    local s = small()
    local e = s.effort
    assert.equal(s.plans, e.plans + s.ruled_out.rule + s.ruled_out.where)
    assert.equal(e.plans, e.forbidden + e.too_large + e.bounded + e.evaluated + e.refused)
  end)

  it("gives rows the digits of single estimates, and rows that ett.plan accepts", function()
    local s = small { keep = 5 }
    for _, row in ipairs(s.rows) do
      local plan = { seq = 1024, global_batch = 16 }
      for _, name in ipairs(s.fields) do plan[name] = row[name] end
      local e = require("ett.step.estimate").new { model = model, cluster = "dgx_h100", plan = plan }
      assert.equal(e.step_seconds, row.step_seconds)
      assert.equal(e.memory_bytes, row.memory_bytes)
      assert.equal(8, e.devices)
    end
  end)

  it("keeps only plans for which a condition holds", function()
    local free = small { keep = 300 }
    local s = small { where = "tp <= 2 and (zero == 1 or zero == 2) and schedule ~= 'gpipe'", keep = 300 }
    local wanted = 0
    for _, row in ipairs(free.rows) do
      if row.tp <= 2 and (row.zero == 1 or row.zero == 2) and row.schedule ~= "gpipe" then wanted = wanted + 1 end
    end
    assert.is_true(#s.rows > 0 and #s.rows >= wanted)
    for _, row in ipairs(s.rows) do
      assert.is_true(row.tp <= 2 and (row.zero == 1 or row.zero == 2) and row.schedule ~= "gpipe")
    end
    local by_function = small { where = function(p) return p.tp <= 2 and (p.zero == 1 or p.zero == 2)
      and p.schedule ~= "gpipe" end, keep = 300 }
    assert.same(s.rows, by_function.rows)
    local inside = small { where = "tp * pp == gpus_per_node and devices == nodes * gpus_per_node", devices = 16,
      keep = 300 }
    assert.is_true(#inside.rows > 0)
    for _, row in ipairs(inside.rows) do assert.equal(8, row.tp * row.pp) end
  end)

  it("gives the front of step and memory", function()
    local front = small { objective = { "step_seconds", "memory_bytes" } }.rows
    local all = small { objective = { "step_seconds", "memory_bytes" }, exhaustive = true }.rows
    assert.same(all, front)
    assert.is_true(#front > 2)
    for i = 2, #front do
      assert.is_true(front[i].step_seconds > front[i - 1].step_seconds)
      assert.is_true(front[i].memory_bytes < front[i - 1].memory_bytes)
    end
    assert.equal(small().rows[1].step_seconds, front[1].step_seconds)
  end)

  it("keeps the fastest plan among those of equal values", function()
    for _, objectives in ipairs { { "devices", "seq" }, { "devices", "memory_bytes" } } do
      local given = { objective = objectives, devices = { 4, 8 }, vary = { seq = { 1024, 2048 } },
        plan = { global_batch = 16, cp = 1 } }
      local bounded = small(given)
      given.exhaustive = true
      assert.same(small(given).rows, bounded.rows)
      if objectives[2] == "seq" then
        local fastest = small { devices = 4, plan = { global_batch = 16, cp = 1, seq = 2048 } }.rows[1]
        assert.equal(1, #bounded.rows)
        assert.equal(fastest.step_seconds, bounded.rows[1].step_seconds)
      end
    end
  end)
end)

describe("money, energy, days and memory", function()
  local plan = { seq = 1024, global_batch = 16, cp = 1, schedule = "1f1b", vp = 1, zero = 1, tp = 1 }
  for _, name in ipairs { "kwh", "dollars", "days", "devices", "memory_bytes" } do
    it(("by %s: the same rows without bounds, and the digits of estimates"):format(name), function()
      local given = { plan = plan, tokens = 1e11, objective = name, keep = 5, devices = { 4, 8 } }
      local bounded = small(given)
      given.exhaustive = true
      local all = small(given)
      assert.same(all.rows, bounded.rows)
      local row, e = bounded.rows[1], bounded.best.estimate
      assert.equal(e.run_days, row.run_days)
      assert.equal(e.run_dollars, row.run_dollars)
      if name == "kwh" then assert.near(e.run_kwh, row.run_kwh, 1e-9 * row.run_kwh) end
      if name == "devices" then assert.equal(4, row.devices) end
    end)
  end

  it("by kwh: the same rows without bounds where ranks have unequal work", function()
    local experts = require("ett.model").new("mixtral", { layers = 4, hidden = 512, heads = 8, ffn = 1024,
      vocab = 32000, experts = 8, top_k = 2 })
    for _, case in ipairs { { experts, { expert_skew = 1 } }, { model, { cp = 4, cp_balanced = false } } } do
      local own = merged({ seq = 4096, global_batch = 16, cp = 1, schedule = "1f1b" }, case[2])
      local given = { model = case[1], plan = own, tokens = 1e11, objective = "kwh", keep = 5 }
      local bounded = small(given)
      given.exhaustive = true
      assert.same(small(given).rows, bounded.rows)
      assert.near(bounded.best.estimate.run_kwh, bounded.rows[1].run_kwh, 1e-9 * bounded.rows[1].run_kwh)
    end
  end)

  it("have the checkpoints of whole steps and short runs, with the digits of estimates", function()
    local own = merged({ failures_per_device_day = 0.5, restart_seconds = 60, device_storage_bandwidth = 1e8 }, plan)
    for _, case in ipairs { { 1, 1e11 }, { 1e4, 1e7 }, { false, 1e6 } } do
      own.checkpoint_every_seconds = case[1] or nil
      local given = { plan = own, tokens = case[2], objective = "days", keep = 5 }
      local bounded = small(given)
      given.exhaustive = true
      assert.same(small(given).rows, bounded.rows)
      local row, e = bounded.rows[1], bounded.best.estimate
      assert.near(e.run_days, row.run_days, 1e-9 * row.run_days)
      assert.near(e.goodput_percent, row.goodput_percent, 1e-9 * e.goodput_percent)
    end
  end)

  it("include devices that vary, with the digits of estimates", function()
    for _, given in ipairs { { jitter = 0.05 }, { slow_share = 0.02, slow_factor = 1.5 },
      { rank_slowdown = { 0.5, 0.5, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5 } } } do
      for name, value in pairs(plan) do given[name] = value end
      local s = small { plan = given, tokens = 1e11, objective = "days", keep = 5 }
      local all = small { plan = given, tokens = 1e11, objective = "days", keep = 5, exhaustive = true }
      assert.same(all.rows, s.rows)
      local row, e = s.rows[1], s.best.estimate
      assert.near(e.run_days, row.run_days, 1e-9 * row.run_days)
      assert.near(e.run_dollars, row.run_dollars, 1e-9 * row.run_dollars)
      assert.near(e.dollars_per_billion_tokens, row.dollars_per_billion_tokens, 1e-9 * row.dollars_per_billion_tokens)
      assert.is_true(math.abs(row.run_days / (e.run_steps * row.step_seconds / 86400) - 1) > 0.01)
      s = small { plan = given, tokens = 1e11, objective = "kwh", keep = 5 }
      assert.same(small({ plan = given, tokens = 1e11, objective = "kwh", keep = 5, exhaustive = true }).rows, s.rows)
      assert.near(s.best.estimate.run_kwh, s.rows[1].run_kwh, 1e-9 * s.rows[1].run_kwh)
    end
  end)

  it("meets the limits of a run", function()
    local free = small { plan = plan, tokens = 1e11, devices = { 1, 2, 4, 8 }, objective = "devices" }
    local days = free.rows[#free.rows].run_days
    for _, row in ipairs(free.rows) do days = math.min(days, row.run_days) end
    local s = small { plan = plan, tokens = 1e11, devices = { 1, 2, 4, 8 }, objective = "devices", days = 2 * days }
    assert.is_true(#s.rows > 0)
    for _, row in ipairs(s.rows) do assert.is_true(row.run_days <= 2 * days) end
  end)

  it("finds the fastest run under the limit of exactly its days, also with frozen weights", function()
    local given = { plan = { seq = 1024, global_batch = 16, cp = 1, frozen_layers = 3 }, tokens = 1e11,
      objective = "days", keep = 1 }
    local first = small(given).rows[1]
    given.days = first.run_days
    assert.same(first, small(given).rows[1])
  end)
end)

describe("the probability that the best plan is the best", function()
  it("names rows that are not clearly worse than the best, and what to measure", function()
    local s = small()
    local sum = 0
    for i = 1, s.sure.compared_rows do sum = sum + s.rows[i].best_percent end
    assert.near(100, sum, 2)
    assert.equal(s.rows[1].best_percent, s.sure.best_percent)
    assert.is_true(#s.sure.alike > 0 and #s.sure.measure_first.line > 0)
  end)
end)

describe("the outline of a plan", function()
  it("has the plan's memory, and a lower bound of its time", function()
    local checked, tight, tight_floors, known = 0, 0, 0, 0
    local demands, workspace = step_core.demands(), step_core.workspace()
    local own = require("ett.model").new("mixtral", { layers = 8, hidden = 1024, heads = 8, vocab = 32000, ffn = 2048,
      experts = 4, top_k = 2 })
    local floors, all = floor.new(own), setmetatable({}, { __index = function() return true end })
    local function placement() return require("ett.profile.cluster").placement(cluster) end
    local state = 7
    local function pick(list)
      state = state * 48271 % 2147483647
      return list[state % #list + 1]
    end
    for _ = 1, 250 do
      local given = { seq = 1024, tp = pick { 1, 2, 4 }, pp = pick { 1, 2, 4 }, dp = pick { 1, 2, 4, 8 },
        ep = pick { 1, 2 }, cp = pick { 1, 2 }, micro_batches = pick { 4, 8, 16 }, micro_batch = pick { 1, 2 },
        schedule = pick { "1f1b", "interleaved", "gpipe" }, vp = pick { 1, 2 }, recompute = pick { "none", "selective",
          "policy", "full" }, zero = pick { 0, 1, 2, 3 }, overlap_parameters = pick { false, true },
        overlap_gradients = pick { false, true }, overlap_sends = pick { false, true },
        overlap_all_to_all = pick { "none", "batch" } }
      given.etp = given.ep > 1 and pick { 1, given.tp } or nil
      given.sequence_parallel = given.tp > 1 and pick { false, true }
      given.overlap_tensor, given.fused_accumulation = given.sequence_parallel, given.dp <= 2
      local found, p = plan_module.violations(given, own, cluster)
      if #found == 0 then
        local lowered = lower.program(own, p, times)
        local c_plan = fields.to_c(p, placement())
        local _, low_pipeline, low_step = lowered.program:outline(c_plan, demands, workspace)
        local step, memory, _, pipeline = lowered.program:totals(c_plan, demands, workspace)
        if not step then
          times:answer(demands, p.dtype, own.hyper.hidden)
          step, memory, _, pipeline = lowered.program:totals(c_plan, demands, workspace)
        end
        assert.is_true(low_step <= step * (1 + 1e-9), "with untimed demands")
        local same_memory, least_pipeline, least_step = lowered.program:outline(c_plan, demands, workspace)
        assert.equal(memory, same_memory)
        assert.is_true(low_pipeline <= least_pipeline * (1 + 1e-9))
        assert.is_true(least_pipeline <= pipeline * (1 + 1e-9))
        assert.is_true(least_step <= step * (1 + 1e-9))
        local at, partial = { cluster = cluster, placement = placement(), key_of = fields.program_keys(p, all) }, {}
        local function of(known_only)
          return floors:of(p, times, at, function(seconds) partial[#partial + 1] = seconds end, known_only)
        end
        local is_known = of(true) ~= nil
        local least = of()(p.overlap_all_to_all)
        assert.same(least, of(true)(p.overlap_all_to_all))
        known, partial[#partial + 1] = known + (is_known and 1 or 0), least
        local passes
        for _, seconds in ipairs(partial) do
          passes = p.micro_batches / p.pp * seconds[p.recompute]
          assert.is_true(passes <= pipeline * (1 + 1e-9))
        end
        if p.pp == 1 and p.recompute == "none" and p.zero < 2 and p.dp < 4
          and p.overlap_all_to_all == "none" then
          assert.near(pipeline, passes, 1e-9 * pipeline)
          tight_floors = tight_floors + 1
        end
        checked = checked + 1
        if least_step > 0.8 * step then tight = tight + 1 end
        lowered.program:close()
      end
    end
    demands:close()
    workspace:close()
    assert.is_true(checked > 40, checked)
    assert.is_true(tight > checked / 2, tight)
    assert.is_true(tight_floors > 0)
    assert.is_true(known > 0 and known < checked, known)
  end)

  it("is no longer than a step whose frozen layers hide messages in forward passes alone", function()
    local ett, oracle = require "ett", require "search_oracle"
    local own = ett.cluster.get "tpu_v7x"
    local c = { model = ett.model.new("vit-l-16", { layers = 4 }), cluster = own,
      times = require("ett.step.times").new(own),
      lists = { zero = { 2, 3 }, frozen_layers = { 2, 4 }, dp = { 2, 4, 8 } },
      plan = { dtype = "fp16", global_batch = 8, seq = 512, micro_batch = 1, tp = 2, sequence_parallel = true,
        overlap_tensor = true, overlap_gradients = true, overlap_parameters = true } }
    local rows = ett.sweep({ model = c.model, cluster = own, times = c.times, plan = c.plan, over = c.lists }).rows
    for _, row in ipairs(rows) do oracle.check_bounds(c, row) end
    assert.equal(12, #rows)
  end)

  it("is no longer than a step whose hidden messages take the links of others", function()
    local ett, oracle = require "ett", require "search_oracle"
    local function check(c)
      c.times, c.lists = require("ett.step.times").new(c.cluster), { dp = { 16 } }
      c.plan.overlap_gradients, c.plan.overlap_parameters, c.plan.sequence_parallel = true, true, true
      c.plan.seq = 4096
      oracle.check_bounds(c, ett.sweep({ model = c.model, cluster = c.cluster, times = c.times, plan = c.plan,
        over = c.lists }).rows[1])
    end
    check { model = ett.model.new "deepseek-v3", cluster = cluster, plan = { tp = 16, ep = 256, etp = 1, zero = 1,
      micro_batch = 2, micro_batches = 32, recompute = "selective", overlap_all_to_all = "batch",
      overlap_tensor = true } }
    check { model = ett.model.new "llama3-8b", cluster = ett.cluster.get "perlmutter", plan = { tp = 32, cp = 2,
      zero = 3, micro_batch = 1, micro_batches = 8, recompute = "full" } }
  end)
end)

describe("the lower bound of a program", function()
  it("knows what the tensor ranks of experts decide under MaxText and torchtitan", function()
    local own = require("ett.model").new("mixtral", { layers = 2, hidden = 256, heads = 8, vocab = 1024, ffn = 512,
      experts = 4, top_k = 2 })
    local floors, all = floor.new(own), setmetatable({}, { __index = function() return true end })
    local at = { cluster = cluster, placement = require("ett.profile.cluster").placement(cluster) }
    local sums = {}
    local function check(stack, etp)
      local p = plan_module.new({ seq = 512, tp = 4, dp = 2, etp = etp, micro_batches = 1, stack = stack,
        sequence_parallel = stack ~= "maxtext" }, own)
      at.key_of = fields.program_keys(p, all)
      local lowered = lower.program(own, p, times)
      local passes = 0.0
      for _, kind in ipairs(lowered.kinds) do
        for index, n in pairs(kind.uses) do
          local o = lowered.operations[index]
          n = (o.name == "gradient_accumulation" or o.name == "host") and 0 or n -- not part of the bound
          passes = passes + kind.count * n * ((o.forward and o.forward.seconds or 0.0)
            + (o.backward and o.backward.seconds or 0.0))
        end
      end
      lowered.program:close()
      sums[#sums + 1] = floors:of(p, times, at, function() return false end)("none").none
      assert.near(passes, sums[#sums], 1e-9 * passes)
    end
    for _, stack in ipairs { "maxtext", "torchtitan" } do
      for _, etp in ipairs { 4, 1, 4 } do check(stack, etp) end
      assert.is_true(math.abs(sums[#sums - 1] / sums[#sums] - 1) > 0.01)
    end
  end)

  it("includes the repeated forward pass of full recomputation", function()
    local own = require("ett.model").new("mixtral", { layers = 2, hidden = 256, heads = 8, vocab = 1024, ffn = 512,
      experts = 4, top_k = 2 })
    local all = setmetatable({}, { __index = function() return true end })
    local at = { cluster = cluster, placement = require("ett.profile.cluster").placement(cluster) }
    local p = plan_module.new({ seq = 512, tp = 2, dp = 4, ep = 2, micro_batches = 1 }, own)
    at.key_of = fields.program_keys(p, all)
    local floors, enough = floor.new(own), {}
    local function of() return floors:of(p, times, at, function(seconds)
      enough[#enough + 1] = seconds.full
      return false
    end)("none") end
    local least, lowered, again = of(), lower.program(own, p, times), 0.0
    for _, kind in ipairs(lowered.kinds) do
      for index, n in pairs(kind.place == "middle" and kind.uses or {}) do
        local o = lowered.operations[index]
        again = again + kind.count * n * (o.forward and o.name ~= "host" and o.forward.seconds or 0.0)
      end
    end
    assert.near(again, least.full - least.none, 1e-9 * again)
    assert.equal(least.none, least.policy)
    local passes = require("ett.search").passes(lowered.program).none
    assert.near(passes.full - passes.none, again, 1e-9 * again)
    lowered.program:close()
    -- Operators alone exclude later plans, before others of their messages are known.
    assert.equal(0, enough[1])
    assert.same(least, of())
    assert.is_true(enough[3] > 0 and enough[3] < least.full)
  end)

  it("holds for the program that gathers weights, which is lowered only if the other one is not excluded", function()
    local walk, shorter = require "ett.search.walk", { 0, 0, 0 }
    local mixture = require("ett.model").new("mixtral", { layers = 2, hidden = 256, heads = 8, vocab = 1024, ffn = 512,
      experts = 4, top_k = 2 })
    for _, stack in ipairs { "plain", "transformers", "fsdp_eager", "torchtitan", "llm_foundry", "megatron_fsdp" } do
      for k, own in ipairs { model, mixture, model, mixture } do
        local passes, less = {}, nil
        for _, zero in ipairs { 0, 2, 3 } do
          local lowered = lower.program(own, plan_module.new({ seq = 512, tp = k > 2 and 2 or 1, dp = 4,
            micro_batch = k, micro_batches = 1, ep = k == 2 and 4 or 1, stack = stack, zero = zero }, own), times)
          passes[#passes + 1] = require("ett.search").passes(lowered.program).none
          less = less or walk.accumulation_seconds(lowered)
          lowered.program:close()
        end
        for kind, seconds in pairs(passes[1]) do
          for zero = 2, 3 do
            assert.is_true(passes[zero][kind] >= (seconds - less) * (1 - 1e-12), stack .. " " .. kind)
            shorter[zero] = shorter[zero] + (passes[zero][kind] < seconds and 1 or 0)
          end
        end
      end
    end
    assert.is_true(shorter[2] > 0 and shorter[3] > 0)
    local program, all, gathering, refused_from = lower.program, 0, 0, math.huge
    lower.program = function(own, p, of)
      all, gathering = all + 1, gathering + (p.zero == 3 and 1 or 0)
      if p.zero == 3 and gathering >= refused_from then require("ett.base.error").raise("model", "no time") end
      return program(own, p, of)
    end
    local _ <close> = setmetatable({}, { __close = function() lower.program = program end })
    local given = { keep = 2, plan = { seq = 1024, global_batch = 16 }, devices = 32 }
    local rows = small(given).rows
    assert.is_true(gathering > 0 and gathering < 0.4 * all, gathering .. " of " .. all)
    given.exhaustive = true
    assert.same(small(given).rows, rows)
    -- Plans that the other program excludes are not counted again if the program that gathers weights is refused.
    given.exhaustive, given.devices, gathering, refused_from = nil, { 8, 32 }, 0, 5
    local s = small(given)
    assert.is_true(s.effort.refused > 0)
    assert.equal(s.plans, s.effort.plans + s.ruled_out.rule + s.ruled_out.where)
  end)

  it("lowers the experts once for plans that place their ranks alike", function()
    local own = require("ett.model").new("mixtral", { layers = 4, hidden = 256, heads = 8, vocab = 1024, ffn = 512,
      experts = 8, top_k = 2 })
    local all = setmetatable({}, { __index = function() return true end })
    local at = { cluster = cluster, placement = require("ett.profile.cluster").placement(cluster) }
    local function seconds(floors, pp, order)
      local p = plan_module.new({ seq = 512, tp = 1, pp = pp, dp = 16 // pp, ep = 4, micro_batches = 4,
        rank_order = order }, own)
      at.key_of = fields.program_keys(p, all)
      return floors:of(p, times, at, function() return false end)("none").none
    end
    local calls, layers, floors = 0, lower.layers, floor.new(own)
    lower.layers = function(...)
      calls = calls + 1
      return layers(...)
    end
    local _ <close> = setmetatable({}, { __close = function() lower.layers = layers end })
    assert.equal(seconds(floors, 2), seconds(floors, 4))
    assert.equal(2, calls) -- the rest of the model and the experts
    -- Stages between the experts' ranks: with four stages the ranks are on two nodes.
    local order = "tp-cp-pp-ep-dp"
    local near, far = seconds(floors, 2, order), seconds(floors, 4, order)
    assert.is_true(far > near)
    assert.equal(seconds(floor.new(own), 4, order), far)
  end)

  it("lowers the rest of a model once where nodes are no multiple of the groups", function()
    local gb200, calls, layers = require("ett.profile.cluster").get "gb200_nvl72", 0, lower.layers
    local own = require("ett.model").new("mixtral", { layers = 4, hidden = 256, heads = 16, vocab = 1024, ffn = 512,
      experts = 8, top_k = 2 })
    local floors, own_times = floor.new(own), require("ett.step.times").new(gb200)
    lower.layers = function(...)
      calls = calls + 1
      return layers(...)
    end
    local _ <close> = setmetatable({}, { __close = function() lower.layers = layers end })
    for _, pp in ipairs { 2, 4 } do
      local p = plan_module.new({ seq = 512, tp = 16, pp = pp, dp = 8 // pp, ep = 4, etp = 1, micro_batches = 4 }, own)
      floors:of(p, own_times, { cluster = gb200, placement = require("ett.profile.cluster").placement(gb200),
        key_of = fields.program_keys(p, setmetatable({}, { __index = function() return true end }), "pp") },
        function() return false end)
    end
    assert.equal(2, calls) -- the rest and the experts
  end)

  it("is not used without experts, or if experts may hide other collectives", function()
    local layer = { name = "moe", count = 1, place = "middle", ops = { { op = "linear_up" },
      { collective = "tensor_leave" }, { collective = "expert_exchange" }, { op = "expert_linear1" },
      { collective = "expert_exchange" } } }
    local own = { hyper = {}, layers = { layer } }
    assert.is_table(floor.new(own))
    table.insert(layer.ops, 4, { collective = "expert_leave" }) -- no product hides those around experts
    table.insert(layer.ops, 6, { collective = "expert_enter" })
    assert.is_table(floor.new(own))
    layer.ops[1], layer.ops[2] = { collective = "tensor_enter" }, { op = "linear_up" }
    assert.is_table(floor.new(own))
    layer.ops[2] = { op = "residual_add" }
    assert.is_nil(floor.new(own))
    layer.ops[1] = { collective = "all_reduce", group = "tp" }
    assert.is_nil(floor.new(own))
    assert.is_nil(floor.new(model))
  end)
end)

local function says(text, wanted) assert.is_truthy(tostring(text):find(wanted, 1, true), tostring(text)) end

describe("the table of a search", function()
  it("names a plan whose words give the same estimate, lists included", function()
    local s = small { plan = { seq = 1024, global_batch = 16, split = { 1, 3 }, pp = 2, vp = 1 } }
    says(s, " split=1,3")
  end)

  it("warns of the samples of the best plan", function()
    local function lines(profile)
      local s = small { model = slow_samples.model(), cluster = slow_samples.cluster, times = false, profile = profile }
      return select(2, require("ett.search.text").result(s):gsub("\n  warning: "
        .. slow_samples.warning:gsub("%p", "%%%0"), ""))
    end
    assert.equal(1, lines(slow_samples.profile()))
    assert.equal(0, lines())
  end)

  it("lists the columns that do not fit a narrow terminal", function()
    local s = small()
    local rows = require("ett.search.text").rows
    assert.matches("best in 100$", rows(s, 3, 1000)[1])
    local narrow = rows(s, 10, 60)
    for i = 1, #narrow - 1 do assert.is_true(#narrow[i] <= 60, narrow[i]) end
    assert.matches("^not shown: .*ov%-", narrow[#narrow])
  end)

  it("keeps the column in which two rows differ if others can be left out", function()
    local function row(recompute, sends)
      return { tp = 1, pp = 2, dp = 4, micro_batch = 1, recompute = recompute, zero = recompute == "full" and 1 or 0,
        schedule = recompute == "full" and "1f1b" or "gpipe", overlap_sends = sends, step_seconds = 1,
        memory_bytes = 1e9, cluster = "c" }
    end
    local rows = { row("none", true), row("none", false), row("full", true) }
    local lines = require("ett.search.text").rows({ rows = rows, clusters = { c = { device = { memory_bytes = 2e9 } } },
      fields = { "tp", "pp", "dp", "micro_batch", "recompute", "zero", "schedule", "overlap_sends" } }, 3, 55)
    assert.matches("mb +recomp +ov%-sends", lines[1])
    assert.matches("none +yes", lines[2])
    assert.matches("none +- ", lines[3])
    assert.equal("not shown: zero, schedule", lines[5])
  end)
end)

describe("an impossible search", function()
  local function refused(changes, message) says(raised(small, changes), message) end

  it("names the error in a condition, and its position", function()
    refused({ where = "tq <= 8" }, "where 'tq <= 8': unknown name 'tq' at character 1; did you mean")
    refused({ where = "speed > 1" }, "at character 1; known are the fields of a plan, devices, cluster, nodes")
    refused({ where = "tp <= " }, "where 'tp <= ': the expression is incomplete")
    refused({ where = "tp" }, "where 'tp': must be true or false, got 8 (with tp = 8)")
    refused({ where = "'x'" }, "where ''x'': must be true or false, got 'x'")
    refused({ where = "schedule < 3" }, "where 'schedule < 3': attempt to compare string with number")
    refused({ where = " " }, "where ' ': an expression is missing")
  end)

  it("names unknown fields and objectives, and missing arguments", function()
    refused({ vary = { tq = { 1 } } }, "search: vary: unknown field 'tq'")
    refused({ objective = "speed" }, "search: unknown objective 'speed'")
    refused({ objective = {} }, "search: 'objective' is an empty list; give one objective or several")
    refused({ objective = { "days", "days" } }, "search: objective 'days' is given twice")
    refused({ objective = "days" }, "the objective 'days' needs the tokens of the run")
    refused({ tokens = 1e12, plan = { seq = 1024, global_batch = 64, tokens = 2e12 } },
      "search: tokens = 1e+12 contradicts the plan's tokens = 2e+12")
    refused({ tokens = 1e12, vary = { tokens = { 1e12, 2e12 } } }, "search: field 'tokens' is both fixed and varied")
    refused({ plan = { seq = 1024 } }, "missing field 'global_batch'")
    refused({ plan = { seq = 1024, global_batch = 64, tp = 2 }, vary = { tp = { 1 } } },
      "field 'tp' is both fixed and varied")
    refused({ vary = { zero = { 0, 1, 1 } } }, "search: vary: field 'zero' has the value 1 twice")
    local label = "stack 'megatron:pipeline_schedules=%s': pipeline_schedules"
    for names, why in pairs { [""] = " names no schedule, such as 1f1b", ["1f1b x"] = ": unknown schedule 'x'" } do
      refused({ plan = { seq = 1024, global_batch = 64, stack = "megatron:pipeline_schedules=" .. names } },
        label:format(names) .. why)
    end
  end)

  it("names the limits that exclude all plans, and the nearest valid plan", function()
    says(small { plan = { seq = 1024, global_batch = 63, tp = 1, pp = 1, cp = 1 } }.nothing,
      "each one violates a rule; the first violation: dp * micro_batch = 8")
    local third = small { plan = { seq = 1024, global_batch = 64, micro_batch = 3 } }
    says(third.nothing, "must divide global_batch = 64; nearest global_batch are 63 and 66; the fastest plan without "
      .. "micro_batch: ")
    says(small { plan = { seq = 1024, global_batch = 64, zero = 0, shard = 4 } }.nothing,
      "shard needs zero of at least 1, got 0; the fastest plan without zero: ")
    local places = small { cluster = { "dgx_h100", "dgx_a100" }, vary = { devices = { 4, 8 } }, tokens = 1e12,
      days = 0.001 }
    assert.matches("the least is .* days: seq=1024 .*, on 8 x dgx_[ah]100$", places.nothing)
    local where = small { where = "tp > 100" }
    says(where.nothing, "no layout: --where 'tp > 100' refuses all")
    says(small { plan = { seq = 1024, global_batch = 64, rank_slowdown = { true, 1, 1, 1, 1, 1, 1, 1 } } }.nothing,
      "rank_slowdown: number 1 must be above 0 and at most 1000, got true")
    says(where.nothing, "; the fastest plan without it: seq=1024 ")
    local below = small { where = "zero > 7" }
    says(below.nothing, "no layout: --where 'zero > 7' refuses all valid ones; the fastest plan without it: seq=1024 ")
    local mixed = small { model = require("random_plans").mixture(4), plan = { seq = 1024, global_batch = 64, tp = 1,
      overlap_all_to_all = "batch", zero = 3, ep = 2 } }
    says(mixed.nothing, "overlap_all_to_all = batch cannot be combined with full recompute or ZeRO-3; the fastest plan "
      .. "without ")
    says(require("ett.search.text").effort(small { where = "zero < 2" }), " of the others fail --where")
    local late = small { tokens = 1e12, days = 0.001 }
    says(late.nothing, "no plan meets the limit of days, 0.001; the least is")
    local both = small { tokens = 1e9, vary = { devices = { 8, 16 } } }
    local few, many = both.rows[1].devices == 8 and both.rows[1] or nil, both.rows[1]
    for _, row in ipairs(both.rows) do few = few or row.devices == 8 and row end
    local between = (few.run_days + many.run_days) / 2 -- more than 16 devices need, less than 8
    local joint = small { tokens = 1e9, vary = { devices = { 8, 16 } }, days = between,
      budget = few.run_dollars * 1.0001 }
    assert.is_true(many.run_dollars > few.run_dollars * 1.0001)
    says(joint.nothing, "each limit alone can be met, but not days, budget together; under the other limits the least "
      .. "of ")
    local large = small { headroom = 0.99, plan = { seq = 1024, global_batch = 64, tp = 1, pp = 1, cp = 1, zero = 0 } }
    says(large.nothing, "no estimate is within the 0.8 GB of a device less the headroom of 99 %; the least is")
    says(large.nothing, "; the fastest plan without the headroom: seq=1024 ")
    local each = small { tokens = 1e12, days = 0.001, budget = 0.01, objective = "memory_bytes" }
    says(each.nothing, "no plan meets the limit of days, 0.001; the least is")
    says(each.nothing, "; no plan meets the limit of budget, 0.01; the least is")
    says(small { vary = { devices = { 2, 3 } }, plan = { seq = 1024, global_batch = 64, cp = 4 } }.nothing,
      "cp = 4 on 2, 3 devices: ")
    says(small { devices = 2, plan = { seq = 1024, global_batch = 64, cp = 4 } }.nothing, "; the nearest number is 4;")
  end)

  it("names the limit to drop if no plan fits in memory", function()
    local wide = require("ett.model").new("llama", { layers = 8, hidden = 16384, heads = 128, vocab = 32000 })
    local function nothing(given)
      given.model, given.plan = wide, given.plan or { seq = 1024, global_batch = 64 }
      return small(given).nothing
    end
    says(nothing { where = "tp == 1 and zero < 2 and pp == 1" },
      "; the fastest plan without --where 'tp == 1 and zero < 2 and pp == 1': seq=1024 ")
    says(nothing { plan = { seq = 1024, global_batch = 64, tp = 1, zero = 0, pp = 1 } },
      "; the fastest plan without pp, tp, zero: seq=1024 ")
    local plan = nothing { devices = 1 }:match "; the fastest plan on (%d+) devices: seq=1024 "
    local fewer = small { model = wide, devices = tonumber(plan) // 2 }
    assert.equal(0, #fewer.rows)
    assert.is_true(#small({ model = wide, devices = tonumber(plan) }).rows > 0)
  end)
end)
