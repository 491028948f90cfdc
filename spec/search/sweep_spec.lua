--- Sweeps: refusals, and that a fault of one plan does not stop the others.
local estimate = require "ett.step.estimate"
local merged = require "ett.base.merged"
local slow_samples = require "slow_samples"
local sweep = require "ett.search.sweep"

local model = require("ett.model").new("llama", { layers = 8, hidden = 512, heads = 8, vocab = 1000 })
local raised = require "raised"

local function run(over, plan)
  plan = plan or {}
  plan.seq, plan.micro_batches = not over.seq and 512 or nil, not over.micro_batches and 4 or nil
  return sweep.new { model = model, cluster = "perlmutter", profile = false, plan = plan, over = over }
end

describe("a sweep", function()
  it("accepts every plan field; each row equals the single prediction", function()
    local values = { seq = { 512, 1024 }, micro_batches = { 4, 8 }, global_batch = { 8, 16 },
      dtype = { "bf16", "fp32" }, stack = { "megatron", "fsdp_eager", "plain" },
      gradient_dtype = { "fp32", "bf16" }, reduce_dtype = { "fp32", "bf16" },
      schedule = { "1f1b", "gpipe", "zb_h1" }, etp = { 1, 2 },
      optimizer_bytes = { 12, 8 }, bucket_bytes = { 500e6, 1e6 }, split = { { 4, 4 }, { 3, 5 } }, mtp_slice = { 1, 2 },
      overlap_all_to_all = { "none", "batch" }, vp = { 2, 4 }, ep = { 1, 2 }, micro_batch = { 1, 2 }, tp = { 1, 2 },
      cp = { 1, 2 }, cp_ulysses = { 1, 2 }, pp = { 1, 2 }, dp = { 2, 4 }, interleave_group = { 2, 4 },
      expert_skew = { 0, 1 }, expert_shares = { { 0.4, 0.3, 0.2, 0.1 }, { 0.25, 0.25, 0.25, 0.25 } },
      muon_steps = { 3, 5 }, data_seconds = { 0, 9 }, stall_seconds = { 0, 1 },
      capacity_factor = { 1, 2 }, tokens = { 1e9, 1e10 }, price_per_device_hour = { 1, 2 }, pue = { 1.1, 1.3 },
      grams_co2_per_kwh = { 20, 400 }, failures_per_device_day = { 0.001, 0.01 }, restart_seconds = { 60, 600 },
      checkpoint_every_seconds = { 600, 6000 }, device_storage_bandwidth = { 1e8, 1e9 },
      jitter = { 0.01, 0.02 }, slow_share = { 0.01, 0.1 }, slow_factor = { 1.1, 1.3 }, rank_slowdown = { {}, {} },
      shard = { 4, 8 },
      prefetch = { 0, 2 }, offload_activations = { 0, 0.5 }, offload_optimizer = { 0, 0.5 },
      offload_gradients = { 0, 1 }, offload_weights = { 0, 0.5 }, lora_rank = { 8, 64 },
      lora_dropout = { 0, 0.1 }, frozen_layers = { 0, 5 },
      recompute_modules = { { "core_attn" }, { "layernorm", "moe_act" } },
      recompute_layer_ids = { { 0 }, { 1, 6 } },
      recompute_layers = { 1, 3 }, recompute_keeps = { { "linear_qkv" }, { "linear_qkv", "flash_attention" } },
      lora_targets = { { "linear_qkv" }, { "linear_qkv", "linear_proj" } } }
    for i = 1, 32 do values.rank_slowdown[1][i], values.rank_slowdown[2][i] = 1, i == 5 and 1.5 or 1 end
    local outlook = { tokens = "run_days", price_per_device_hour = "dollars_per_step", pue = "kwh_per_step",
      grams_co2_per_kwh = "co2_kg_per_step", failures_per_device_day = "goodput_percent",
      restart_seconds = "goodput_percent", checkpoint_every_seconds = "goodput_percent",
      device_storage_bandwidth = "goodput_percent", jitter = "varied_p99_seconds",
      slow_share = "varied_p99_seconds", slow_factor = "varied_p99_seconds", rank_slowdown = "varied_p50_seconds" }
    local upwards, downwards = {}, {}
    for rank = 0, 31 do upwards[rank + 1], downwards[rank + 1] = rank, rank % 2 * 16 + rank // 2 end
    values.rank_map = { upwards, downwards }
    values.rank_order = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-ep-cp-tp-pp" }
    local mixture = require("ett.model").new("mixtral", { layers = 8, hidden = 512, heads = 8, vocab = 1000,
      ffn = 1024, experts = 4, top_k = 2, mtp_layers = 1 })
    for _, field in ipairs(require("ett.plan.fields").list) do
      local name = field[1]
      local list = values[name] or field[2] == "boolean" and { false, true } or field.one_of
      local plan = { seq = 512, pp = 2, dp = 4, tp = 2, ep = 2, cp = 2, micro_batches = 4 }
      if name == "vp" then plan.schedule, plan.pp = "interleaved", 2 end
      if name == "interleave_group" then plan.schedule, plan.vp = "interleaved", 2 end
      if name == "serial_sends" then plan.overlap_sends = false end
      if name == "global_batch" then plan.micro_batches = nil end
      if outlook[name] == "goodput_percent" then plan.failures_per_device_day = 0.001 end
      if name:find "^muon" then plan.optimizer = "muon" end
      if name == "shard" then plan.zero = 1 end
      if name == "mtp_slice" then plan.split = { 8, 0 } end
      if name == "pad_to_capacity" then plan.capacity_factor = 1.5 end
      if name == "cp_ulysses" then plan.cp_method, plan.cp, plan.dp = "ring", 4, 2 end
      if name == "capacity_factor" then plan.expert_skew = 1 end
      if name == "lora_rank" then plan.lora_targets = { "linear_qkv" } end
      if name == "lora_targets" then plan.lora_rank = 8 end
      if name == "lora_dropout" then plan.lora_rank, plan.lora_targets = 8, { "linear_qkv" } end
      if name == "frozen_weights" then
        plan.lora_rank, plan.lora_targets, plan.tp, plan.ep = 8, { "linear_qkv" }, 1, 1
      end
      if name == "recompute_modules" then plan.recompute = "selective" end
      if name == "recompute_keeps" then plan.recompute = "policy" end
      if name == "recompute_layers" or name == "recompute_layer_ids" then plan.recompute = "full" end
      if name == "recompute_method" then plan.recompute, plan.recompute_layers = "full", 2 end
      if name == "slow_factor" then plan.slow_share = 0.01 end
      plan[name] = nil
      local cluster = name:match "^offload" and "dgx_h100" or "perlmutter" -- with a link to the host
      local s = sweep.new { model = mixture, cluster = cluster, plan = plan, over = { [name] = list } }
      assert.equal(#list, #s.rows, name)
      assert.is_nil(tostring(s):find("table: 0x", 1, true), name)
      for _, row in ipairs(s.rows) do
        local one = merged(plan)
        one[name] = row[name]
        local e = estimate.new { model = mixture, cluster = cluster, plan = one }
        assert.equal(e.step_seconds, row.step_seconds, name)
        assert.equal(e.memory_bytes, row.memory_bytes, name)
        local more = outlook[name]
        if more then
          assert.is_number(row[more], name)
          assert.equal(e[more], row[more], name)
          assert.not_equal(s.rows[1][more], s.rows[2][more], name)
        end
      end
    end
  end)

  it("has the digits of single predictions where several fields change the operators", function()
    local new = require("ett.model").new
    local dense = { tp = { 1, 2 }, cp = { 1, 2 }, micro_batch = { 1, 2 }, sequence_parallel = { false, true },
      recompute = { "none", "selective", "full" }, stack = { "megatron_deepspeed", "megatron", "transformers_fsdp" } }
    -- Plans that differ in micro-batch share gradients and updates, but no sends.
    local staged = { pp = { 1, 2 }, micro_batch = { 1, 2, 4 }, dp = { 2, 4 }, zero = { 0, 1 },
      recompute = { "none", "full" } }
    -- The host has no gradients that stay whole between several micro-batches.
    local deferred = { tp = { 1, 2 }, micro_batch = { 1, 2, 4 }, zero = { 2, 3 }, offload_gradients = { 0, 1 },
      reduce_dtype = { "fp32", "bf16" }, stack = { "transformers_fsdp" } }
    local experts = { tp = { 1, 2 }, ep = { 2, 4 }, micro_batch = { 1, 2 }, recompute = { "policy", "selective" },
      expert_skew = { 0, 1 }, stack = { "megatron_moe", "torchtitan" } }
    for _, one in ipairs {
      { new("llama", { layers = 4, hidden = 512, heads = 8, kv_heads = 4, vocab = 1000 }), dense },
      { new("llama", { layers = 4, hidden = 512, heads = 8, vocab = 1000, tied_embeddings = true }), staged },
      { new("llama", { layers = 4, hidden = 512, heads = 8, vocab = 1000 }), deferred },
      { new("mixtral", { layers = 4, hidden = 512, heads = 8, vocab = 1000, ffn = 1024, experts = 4, top_k = 2 }),
        experts },
      { new("deepseek-v2-lite", { layers = 3 }), experts },
    } do
      local mine, over = one[1], one[2]
      for _, cluster in ipairs { "perlmutter", "dgx_h100" } do
        local s = sweep.new { model = mine, cluster = cluster, over = over, plan = { seq = 1024,
          dp = not over.dp and 4 or nil, global_batch = 16 } }
        assert.is_true(#s.rows >= 24, s.refusal)
        for i = 1, #s.rows, 5 do
          local row, plan = s.rows[i], { seq = 1024, dp = 4, global_batch = 16 }
          for name in pairs(over) do plan[name] = row[name] end
          local e = estimate.new { model = mine, cluster = cluster, plan = plan, interval = false }
          assert.equal(e.step_seconds, row.step_seconds)
          assert.equal(e.memory_bytes, row.memory_bytes)
        end
      end
    end
  end)

  it("has the best plan of a search, with multi-token prediction on chunks", function()
    local predicting = require("ett.model").new("llama", { layers = 24, hidden = 1024, heads = 8, ffn = 2816,
      vocab = 32000, mtp_layers = 1 })
    local vary = { tp = { 1 }, dp = { 2 }, pp = { 1, 4 }, vp = { 1, 2, 3 }, schedule = { "1f1b", "interleaved" } }
    local s = sweep.new { model = predicting, cluster = "dgx_h100", devices = 8, over = vary,
      plan = { seq = 512, global_batch = 64 } }
    local best, chunks = math.huge, 0
    for _, row in ipairs(s.rows) do best, chunks = math.min(best, row.step_seconds), math.max(chunks, row.vp) end
    assert.equal(3, chunks)
    vary.zero, vary.recompute, vary.micro_batch = { 0 }, { "none" }, { 1 }
    for _, name in ipairs { "gradients", "parameters", "sends" } do vary["overlap_" .. name] = { false } end
    local found = require("ett.search.search").new { model = predicting, cluster = "dgx_h100", devices = 8,
      exhaustive = true, plan = { seq = 512, global_batch = 64 }, vary = vary }
    assert.equal(best, found.best.estimate.step_seconds)
    chunks = {}
    for _, row in ipairs(found.rows) do chunks[row.vp] = true end
    assert.is_true(chunks[1] and chunks[2] and chunks[3])
  end)

  it("refuses a field that is fixed and swept", function()
    local ok, why = pcall(run, { tp = { 1, 2 } }, { tp = 4 })
    assert.same({ false, "sweep: field 'tp' is both fixed and swept" }, { ok, tostring(why) })
  end)

  it("adds days, price and energy if the plan gives tokens, as if they were swept", function()
    local fixed = run({ dp = { 1, 2 } }, { tokens = 1e9 })
    local swept = run({ dp = { 1, 2 }, tokens = { 1e9 } })
    assert.is_number(fixed.rows[1].run_days)
    assert.is_number(fixed.rows[2].run_kwh)
    for i, row in ipairs(fixed.rows) do
      row.tokens = 1e9
      assert.same(swept.rows[i], row)
    end
    assert.matches("days", tostring(fixed):match "\n *dp[^\n]*")
    assert.is_nil(run({ dp = { 1, 2 } }).rows[1].run_days)
  end)

  it("estimates days, price and energy of the rows that are read only", function()
    local new, count = estimate.new, 0
    estimate.new = function(given)
      count = count + 1
      return new(given)
    end
    local ok, counts = pcall(function()
      local s = run({ dp = { 1, 2, 4, 8 } }, { tokens = 1e9 })
      local before = count
      for _ = 1, 2 do assert.is_number(s.rows[1].run_days) end
      local one = count
      for _, row in ipairs(s.rows) do assert.is_number(row.run_kwh) end
      return { before, one, count }
    end)
    estimate.new = new
    assert.same({ true, { 0, 1, 4 } }, { ok, counts })
  end)

  it("follows the overlaps of each plan's stack where they are left open", function()
    local s = run({ stack = { "torchtitan", "plain", "megatron" }, zero = { 0, 2, 3 }, pp = { 1, 2 } }, { dp = 8 })
    for _, row in ipairs(s.rows) do
      local plan = { seq = 512, micro_batches = 4, dp = 8, stack = row.stack, zero = row.zero, pp = row.pp }
      local e = estimate.new { model = model, cluster = "perlmutter", profile = false, plan = plan }
      -- Stages of FSDP2 reduce after the last backward pass.
      assert.equal(row.stack == "torchtitan" and not (row.zero >= 2 and row.pp == 2), e.plan.overlap_gradients)
      assert.equal(e.step_seconds, row.step_seconds)
    end
    assert.equal(18, #s.rows)
    s = run({ overlap_parameters = { true, false } }, { dp = 8, zero = 3, stack = "torchtitan" })
    assert.is_true(s.rows[1].step_seconds < s.rows[2].step_seconds)
    assert.is_false(s.rows[2].overlap_parameters)
  end)

  it("slows kernels by gathers of weights in the plans that have them", function()
    local plan = { seq = 4096, micro_batch = 4, micro_batches = 4, stack = "fsdp_eager" }
    local s = sweep.new { model = model, cluster = "dgx_h100", plan = plan, over = { zero = { 0, 3 }, dp = { 1, 8 } } }
    for _, row in ipairs(s.rows) do
      plan.zero, plan.dp = row.zero, row.dp
      assert.equal(estimate.new { model = model, cluster = "dgx_h100", plan = plan }.step_seconds, row.step_seconds)
    end
    assert.equal(4, #s.rows)
  end)

  it("notes steps of different numbers of tokens, and has one column of micro-batches", function()
    local function notes(over, plan, objective)
      plan.seq = 512
      local s = sweep.new { model = model, cluster = "dgx_h100", plan = plan, over = over, objective = objective }
      return #s.notes, select(2, tostring(s):gsub("micro.batches", ""))
    end
    assert.same({ 1, 1 }, { notes({ micro_batches = { 1, 2 } }, {}) })
    assert.same({ 0, 1 }, { notes({ dp = { 1, 2 } }, { global_batch = 4 }) })
    assert.equal(0, notes({ dp = { 1, 2 } }, { micro_batches = 4 }, "tokens_per_second"))
  end)

  it("refuses lists of values that name nothing", function()
    for name, said in pairs { recompute_modules = "unknown module 'true'", lora_targets = "no product 'true'",
      expert_shares = "expert_shares needs a model with experts" } do
      local s = run({ [name] = { { true } } }, { recompute = "selective",
        lora_rank = name == "lora_targets" and 4 or nil })
      assert.equal(0, #s.rows)
      assert.matches(said, s.refusal, 1, true)
    end
  end)

  it("times an all-to-all behind a send of as many ranks as in a single prediction", function()
    local mixture = require("ett.model").new("mixtral", { layers = 8, hidden = 512, heads = 8, vocab = 1000,
      ffn = 1024, experts = 4, top_k = 2 })
    local plan = { seq = 512, pp = 2, dp = 2, micro_batches = 4 }
    for _, row in ipairs(sweep.new({ model = mixture, cluster = "perlmutter", plan = plan, over = { ep = { 1, 2 } } })
      .rows) do
      local e = estimate.new { model = mixture, cluster = "perlmutter", plan = { seq = 512, pp = 2, dp = 2,
        micro_batches = 4, ep = row.ep } }
      assert.equal(e.step_seconds, row.step_seconds, "ep " .. row.ep)
    end
  end)

  it("evaluates fields together if only C reads them", function()
    local mixture = require("ett.model").new("mixtral", { layers = 4, hidden = 512, heads = 8, vocab = 1000,
      ffn = 1024, experts = 4, top_k = 2, tied_embeddings = true })
    local times = require("ett.step.times").new(require("ett.profile.cluster").get "dgx_h100")
    local over = { pp = { 1, 2 }, overlap_all_to_all = { "none", "batch" }, schedule = { "1f1b", "gpipe" },
      recompute = { "none", "full" }, zero = { 0, 3 }, overlap_gradients = { false, true }, prefetch = { 0, 2 } }
    local s = sweep.new { model = mixture, cluster = "dgx_h100", times = times, over = over,
      plan = { seq = 512, dp = 4, ep = 2, global_batch = 32, overlap_parameters = true } }
    local seen = {}
    for _, row in ipairs(s.rows) do
      local one, key = { seq = 512, dp = 4, ep = 2, global_batch = 32, overlap_parameters = true }, {}
      for i, name in ipairs(s.fields) do
        one[name], key[i] = row[name], tostring(row[name])
      end
      key = table.concat(key, " ")
      assert.is_nil(seen[key])
      seen[key] = true
      local e = estimate.new { model = mixture, cluster = "dgx_h100", times = times, plan = one }
      assert.same({ e.step_seconds, e.memory_bytes, e.bubble_percent, e.tokens_per_second, e.fits, e.fit_percent, 8 },
        { row.step_seconds, row.memory_bytes, row.bubble_percent, row.tokens_per_second, row.fits, row.fit_percent,
          row.micro_batches })
    end
    -- "batch" needs 1f1b, no full recomputation and at most ZeRO-2: 1 of 8 passes.
    local refused = 2 * 8 * 4 - 2 * 4
    assert.same({ 2 * 16 * 4 - refused, refused }, { #s.rows, s.refused })
    assert.matches("overlap_all_to_all = 'batch' needs", s.refusal)
  end)

  it("includes host launches beside all-to-alls of another micro-batch", function()
    local mixture = require("ett.model").new("mixtral", { layers = 2, hidden = 512, heads = 8, vocab = 1000,
      ffn = 1024, experts = 8, top_k = 2, shared_experts = 1 })
    local plan = { seq = 512, dp = 8, ep = 8, micro_batches = 4, stack = "megatron_moe" }
    local s = sweep.new { model = mixture, cluster = "dgx_h100", plan = plan,
      over = { overlap_all_to_all = { "shared_experts", "batch" } } }
    for _, row in ipairs(s.rows) do
      plan.overlap_all_to_all = row.overlap_all_to_all
      local e = estimate.new { model = mixture, cluster = "dgx_h100", plan = plan }
      assert.equal(e.step_seconds, row.step_seconds)
    end
    assert.equal(2, #s.rows)
    assert.is_true(s.rows[1].step_seconds < 0.9 * s.rows[2].step_seconds)
  end)

  it("lets C time updates and messages if samples have a regressor", function()
    local times = require("ett.step.times").new(require("ett.profile.cluster").get "perlmutter")
    local asked, of_demand = 0, times.of_demand
    function times.of_demand(...)
      asked = asked + 1
      return of_demand(...)
    end
    local plan = { seq = 512, micro_batches = 4, zero = 1, gradient_dtype = "bf16" }
    local s = sweep.new { model = model, cluster = "perlmutter", times = times, plan = plan,
      over = { dp = { 2, 4, 8, 16, 32, 64 }, pp = { 1, 2, 4 } } }
    assert.equal(18, #s.rows)
    assert.equal(0, asked)
    times.of_demand = nil
    for _, row in ipairs(s.rows) do
      plan.dp, plan.pp = row.dp, row.pp
      assert.equal(estimate.new { model = model, cluster = "perlmutter", times = times, plan = plan }.step_seconds,
        row.step_seconds)
    end
  end)

  it("makes the tiers of its cluster as often for many programs and groups as for one", function()
    local tiers, made = require "ett.profile.network.tiers", 0
    local of = tiers.of
    tiers.of = function(cluster)
      made = made + 1
      return of(cluster)
    end
    local function made_for(over)
      made = 0
      sweep.new { model = model, cluster = "perlmutter", plan = { seq = 512, micro_batches = 4 }, over = over }
      return made
    end
    local one, many = made_for { tp = { 2 }, dp = { 2 } }, made_for { tp = { 1, 2, 4, 8 }, dp = { 2, 4, 8, 16 } }
    tiers.of = of
    assert.equal(one, many)
  end)

  it("has the digits of an estimate where groups share a node's network", function()
    -- The samples of a gather are faster than the cards that four groups share.
    local gemma = require("ett.model").new("gemma3-1b", { layers = 7 })
    local plan = { seq = 1024, global_batch = 36, micro_batch = 18, tp = 4, cp = 2, cp_method = "all_gather",
      overlap_parameters = true }
    local s = sweep.new { model = gemma, cluster = "perlmutter", plan = plan, over = { zero = { 2 } } }
    plan.zero = 2
    local e = estimate.new { model = gemma, cluster = "perlmutter", plan = plan, interval = false }
    assert.equal(e.step_seconds, s.rows[1].step_seconds)
  end)

  it("refuses only the combinations for which a split has the wrong length", function()
    for _, stages in ipairs { { 1, 2, 4 }, { 4, 2 } } do
      local s = run({ pp = stages }, { split = { 3, 5 } })
      assert.same({ 1, 2, #stages - 1 }, { #s.rows, s.rows[1].pp, s.refused })
    end
  end)

  it("counts combinations that the schedule cannot run as refused, and continues", function()
    local s = run({ vp = { 1, 2 }, pp = { 2, 4 } }, { schedule = "zb_h1" })
    assert.equal(2, #s.rows)
    assert.equal(2, s.refused)
    assert.equal("vp = 2 needs a schedule of several chunks, such as 'interleaved'; 'zb_h1' has 1", s.refusal)
  end)

  it("refuses only plans whose messages the model of communication does not support", function()
    local find, files, folder = require "ett.base.find", require "ett.io", os.tmpname()
    os.remove(folder)
    assert(files.make_folder(folder .. "/collectives"))
    assert(files.write(folder .. "/collectives/odd.lua", [[
      return { name = "odd", summary = "not for 4 ranks", source = "a spec", kinds = { "all_reduce" },
        seconds = function(r)
          if r.ranks == 4 then error "no 4 ranks" end
          return 1e-3
        end }]]))
    find.set_folders { folder }
    local cluster = require("ett.profile.cluster").check({ name = "own", summary = "a spec's", gpus_per_node = 8,
      device = "h100_sxm", source = "a spec", links = { intra = { bandwidth = 1e11, source = "a spec" },
        inter = { bandwidth_per_gpu = 1e10, bandwidth_per_node = 8e10, source = "a spec" } },
      collectives = { all_reduce = "odd" } }, "own")
    local ok, s = pcall(sweep.new, { model = model, cluster = cluster, profile = false,
      plan = { seq = 512, micro_batches = 4 }, over = { dp = { 2, 4, 8 }, micro_batch = { 1, 2 } } })
    find.set_folders(nil)
    os.execute("rm -r '" .. folder .. "'")
    assert(ok, s)
    assert.same({ 4, 2 }, { #s.rows, s.refused })
    assert.matches("no 4 ranks", s.refusal)
    for _, row in ipairs(s.rows) do assert.not_equal(4, row.dp) end
  end)
end)

describe("the warnings of a sweep", function()
  it("are those about the samples of the best row", function()
    local json, profile = require "ett.json", slow_samples.profile()
    local function swept(given)
      given.cluster, given.plan = slow_samples.cluster, { seq = 2048, micro_batches = 1 }
      given.over = given.over or { tp = { 1, 2 }, micro_batch = { 1, 2 } }
      return sweep.new(given)
    end
    local function wanted(row, own)
      local e = estimate.new { model = own, cluster = slow_samples.cluster, profile = profile,
        plan = { seq = 2048, micro_batches = 1, tp = row.tp, micro_batch = row.micro_batch } }
      assert.equal(1, #e.warnings)
      return e.warnings
    end
    local s = swept { model = slow_samples.model(), profile = profile }
    assert.same(wanted(s.rows[1], slow_samples.model()), s.warnings)
    assert.is_truthy(tostring(s):find("\nwarning: " .. slow_samples.warning, 1, true))
    assert.same(s.warnings, json.decode(json.encode(s)).warnings)
    s = swept { model = slow_samples.model, hyper = { hidden = { 8192, 4096 } }, profile = profile }
    assert.equal(4096, s.rows[1].hidden)
    assert.same(wanted(s.rows[1], slow_samples.model()), s.warnings)
    s = swept { model = slow_samples.model(), profile = false }
    assert.same({}, s.warnings)
    assert.truthy(json.encode(s):find('"warnings":[]', 1, true))
    -- No plan is left.
    assert.same({}, swept({ model = slow_samples.model(), profile = profile, over = { tp = { 3 } } }).warnings)
  end)

  it("say that the stack of the best row does not run its plan", function()
    local function warnings(cluster, plan)
      local s = sweep.new { model = model, cluster = cluster, plan = plan, over = { dp = { 2 } } }
      return table.concat(s.warnings, "\n")
    end
    assert.equal("zero = 1: the stack torchtitan has only ZeRO 3",
      warnings("dgx_h100", { seq = 512, micro_batches = 1, zero = 1, stack = "torchtitan" }))
    assert.equal("the stack megatron does not run on TPUs, stack=maxtext does",
      warnings("tpu_v5e", { seq = 512, micro_batches = 1, stack = "megatron" }))
  end)
end)

describe("a sweep over hyper-parameters", function()
  local function make(h)
    return require("ett.model").new("llama", { layers = h.layers, hidden = h.hidden, heads = 8, vocab = 1000 })
  end
  local function swept(more)
    local given = { model = make, hyper = { layers = { 4, 8 }, hidden = { 512, 516, 1024 } }, cluster = "perlmutter",
      profile = false, plan = { seq = 512, micro_batches = 4 }, over = { tp = { 1, 2 }, dp = { 1, 2 } } }
    for name, value in pairs(more or {}) do given[name] = value end
    return sweep.new(given)
  end

  it("has the rows of each model, equal to single predictions", function()
    local s = swept()
    assert.same({ 16, 2 }, { s.evaluated, s.refused })
    assert.matches("heads = 8 must divide hidden = 516", s.refusal, 1, true)
    assert.same({ "hidden", "layers", "parameters", "tp", "dp" }, s.fields)
    assert.equal(16, #s.rows)
    for i, row in ipairs(s.rows) do
      local built = make(row)
      local e = estimate.new { model = built, cluster = "perlmutter", profile = false,
        plan = { seq = 512, micro_batches = 4, tp = row.tp, dp = row.dp } }
      assert.equal(e.step_seconds, row.step_seconds)
      assert.equal(require("ett.model.architecture").parameters(built), row.parameters)
      assert.is_true(i == 1 or s.rows[i - 1].step_seconds <= row.step_seconds)
    end
  end)

  it("sorts plans that fit first, and keeps the best", function()
    local fits = swept({ objective = "tokens_per_second" }).rows
    for i = 2, #fits do assert.is_true(fits[i - 1].tokens_per_second >= fits[i].tokens_per_second) end
    local kept = swept({ objective = "tokens_per_second", keep = 3 }).rows
    assert.same(table.move(fits, 1, 3, 1, {}), table.move(kept, 1, 4, 1, {}))
    local mixed = swept({ plan = { seq = 65536, micro_batches = 1 }, hyper = { layers = { 4, 256 },
      hidden = { 1024 } }, objective = "tokens_per_second_per_device" }).rows
    local seen = {}
    for i, row in ipairs(mixed) do
      seen[row.fits] = true
      assert.is_true(i == 1 or mixed[i - 1].fits or not row.fits)
    end
    assert.same({ [true] = true, [false] = true }, seen)
  end)

  it("needs a function of hyper-parameters, lists, and one model that can be built", function()
    local hole = { 1, 2 }
    hole[1] = nil -- its length is 2
    for sentence, more in pairs {
      ["argument 'model' must be a function"] = { model = model },
      ["hyper-parameter 'hidden' must be a non-empty list of values, got 512"] = { hyper = { hidden = 512 } },
      ["hyper-parameter 'layers' must be a non-empty list of values, got a table"] = { hyper = { layers = hole } },
      ["field 'tp' must be a non-empty list of values, got a table"] = { over = { tp = hole } },
      ["no model can be built: llama: heads = 8 must divide hidden = 516"] = { hyper = { layers = { 4 },
        hidden = { 516 } } },
    } do
      assert.matches(sentence, raised(swept, more), 1, true)
    end
  end)
end)

describe("a sweep in which no plan fits", function()
  local own = require("ett.model").new("llama", { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672,
    vocab = 128256 })
  local function swept(plan, over)
    return require("ett.search.sweep").new { model = own, cluster = "dgx_h100", plan = plan, over = over }
  end

  it("reports it first, with a change that fits", function()
    local s = swept({ seq = 4096, micro_batches = 4 }, { tp = { 2, 4 }, pp = { 1, 2 } })
    local first = tostring(s):match("^[^\n]*")
    assert.matches("^no estimate is within the 84.98 GB of a device: the least is [%d%.]+ GB, with tp=4 pp=2; ", first)
    assert.matches("GB; with pp=", (tostring(swept({ seq = 4096, micro_batches = 4 }, {})))) -- no field is swept
    local plan = { seq = 4096, micro_batches = 4, tp = 4, pp = 2 }
    for name, value in first:match("; with (.-) it would fit"):gmatch "([^%s=]+)=(%S+)" do
      plan[name] = require("ett.base.options").value(value)
    end
    assert.is_true(require("ett.step.estimate").new { model = own, cluster = "dgx_h100", plan = plan }.fits)
  end)

  it("gives no message if a plan fits", function()
    local s = swept({ seq = 4096, micro_batches = 4, dp = 8 }, { tp = { 4, 8 }, zero = { 0, 3 } })
    assert.is_nil(s.fit_advice)
    local order = {}
    for i, row in ipairs(s.rows) do order[i] = row.fits end
    assert.same({ true, false, false, false }, order)
    assert.is_true(s.rows[2].step_seconds < s.rows[1].step_seconds)
  end)
end)

describe("a sweep over dtypes", function()
  it("does not depend on their order", function()
    local own = require("ett.model").new("llama", { layers = 24, hidden = 2048, heads = 16, ffn = 5632,
      vocab = 32000 })
    local function times(dtypes)
      local by_dtype = {}
      for _, row in ipairs(require("ett.search.sweep").new { model = own, cluster = "perlmutter",
        plan = { seq = 2048, micro_batches = 4, dp = 8, pp = 2, zero = 1 }, over = { dtype = dtypes } }.rows) do
        by_dtype[row.dtype] = row.step_seconds
      end
      return by_dtype
    end
    local one, other = times { "fp32", "bf16" }, times { "bf16", "fp32" }
    assert.same(one, other)
    for dtype, seconds in pairs(one) do
      assert.equal(require("ett.step.estimate").new { model = own, cluster = "perlmutter", plan = { seq = 2048,
        micro_batches = 4, dp = 8, pp = 2, zero = 1, dtype = dtype } }.step_seconds, seconds)
    end
  end)
end)

describe("rows of a sweep", function()
  local over = { pp = { 1, 2 }, dp = { 1, 2, 4 }, zero = { 0, 1 }, clip_gradients = { true, false } }
  local function swept(given)
    given.model, given.cluster, given.profile, given.over = model, "perlmutter", false, over
    given.plan = { seq = 512, micro_batches = 4 }
    return sweep.new(given)
  end

  it("are sorted: plans that fit first, then by the objective, then in input order; keep takes the first", function()
    for objective, sign in pairs { step_seconds = 1, memory_bytes = 1, tokens_per_second = -1,
      tokens_per_second_per_device = -1 } do
      local rows, place = swept { objective = objective }.rows, {}
      for i, row in ipairs(rows) do
        place[i] = (((row.pp - 1) * 3 + row.dp // 2) * 2 + row.zero) * 2 + (row.clip_gradients and 0 or 1)
      end
      local equal = 0
      for i = 2, #rows do
        local a, b = sign * rows[i - 1][objective], sign * rows[i][objective]
        assert.is_true(a < b or a == b and place[i - 1] < place[i], objective)
        equal = equal + (a == b and 1 or 0)
      end
      assert.equal(24, #rows)
      assert.is_true(equal > 0 or objective == "tokens_per_second_per_device")
      local kept = swept({ objective = objective, keep = 5 }).rows
      assert.same(table.move(rows, 1, 5, 1, {}), table.move(kept, 1, 6, 1, {}))
    end
  end)

  it("are made at their first use and then kept", function()
    local s, n = swept {}, 0
    assert.is_nil(rawget(s.rows, 3))
    assert.equal(s.rows[3], s.rows[3])
    assert.is_nil(s.rows[0] or s.rows[25] or s.rows[1.5] or s.rows.first)
    for i, row in pairs(s.rows) do
      n = n + 1
      assert.equal(s.rows[i], row)
    end
    assert.equal(24, n)
    local json = require "ett.json"
    assert.same(table.move(s.rows, 1, 24, 1, {}), json.decode(json.encode { rows = s.rows }).rows)
  end)
end)

describe("an operator of one's own that refuses plans", function()
  local find, operator = require "ett.base.find", require "ett.operator"
  local search = require "ett.search.search"
  local folder = os.tmpname()

  -- A model whose layers have an operator that refuses context ranks: by `refuse`, or by an error in `shape`.
  local function with(how)
    require("ett.base.folder").write(folder .. "/recurrence.lua", ([[
local op = { name = "recurrence", summary = "s", schema = { tokens = "count" } }
function op.refuse(c) %s end
function op.shape(c) %s return { tokens = c.micro_batch * c.seq // 64 // c.cp } end
function op.parameters(s) return s.tokens // s.tokens end
function op.flops(s) return 2.0 * s.tokens end
function op.bytes(s) return 2.0 * s.tokens end
return op]]):format(how.refuse or "", how.shape or ""))
    operator.forget()
    return require("ett.model").new(function(h)
      local blocks = require "ett.model.blocks"
      return blocks.decoder(h, { name = "mixed", count = h.layers,
        ops = blocks.join(not how.none and "recurrence" or nil, blocks.dense_feed(h)) })
    end, { layers = 2, hidden = 512, heads = 8, ffn = 2048, vocab = 1000 })
  end

  setup(function()
    os.remove(folder)
    require("lfs").mkdir(folder)
    find.set_script_folder(folder)
  end)
  teardown(function()
    find.set_script_folder(nil)
    operator.forget()
    require("ett.base.folder").remove(folder)
  end)

  it("is refused by sweeps, searches and estimates with its reason", function()
    local said = "layer 'mixed': recurrence: cp = 2: no context parallelism"
    for _, how in ipairs {
      { refuse = "if c.cp > 1 then return ('cp = %d: no context parallelism'):format(c.cp) end" },
      { shape = [[if c.cp > 1 then
          require("ett.base.error").raise("plan", "cp = %d: no context parallelism", c.cp)
        end]] },
    } do
      local own = with(how)
      local plan = { seq = 512, micro_batches = 2 }
      local s = sweep.new { model = own, cluster = "dgx_h100", plan = plan, over = { cp = { 1, 2 }, tp = { 1, 2 } } }
      assert.same({ 2, 2 }, { #s.rows, s.refused })
      assert.equal(said, s.refusal)
      assert.matches("2 refused, best by step_seconds\nfirst refusal: " .. said .. "\nnote: recurrence: has no ",
        tostring(s), 1, true)
      assert.equal(said, getmetatable(s).__json(s).refusal)
      local found = search.new { model = own, cluster = "dgx_h100", devices = 4,
        plan = { seq = 512, global_batch = 8, recompute = "none", zero = 1 }, keep = 5 }
      assert.equal(1, found.rows[1].cp)
      local e = found.effort
      assert.is_true(e.refused > 0)
      assert.equal(e.plans, e.forbidden + e.too_large + e.bounded + e.evaluated + e.refused)
      assert.matches("no context parallelism", e.refusal, 1, true)
      local none = search.new { model = own, cluster = "dgx_h100", devices = 2,
        plan = { seq = 512, global_batch = 8, cp = 2 } }
      assert.matches(said, none.nothing, 1, true)
      plan.cp = 2
      assert.equal(said, raised(estimate.new, { model = own, cluster = "dgx_h100", plan = plan }))
    end
  end)

  it("is refused for another answer than a sentence", function()
    local own = with { refuse = "return c.cp > 1" }
    assert.error_matches(function()
      estimate.new { model = own, cluster = "dgx_h100", plan = { seq = 512, micro_batches = 2 } }
    end, "recurrence.lua:2: operator 'recurrence': refuse must return a string or nil, got false", 1, true)
  end)

  it("stops a search by a fault that is no refusal", function()
    local own = with { shape = "if c.cp > 1 then error('a fault') end" }
    assert.error_matches(function()
      search.new { model = own, cluster = "dgx_h100", devices = 2, plan = { seq = 512, global_batch = 8 } }
    end, "a fault", 1, true)
  end)

  it("has its parameters counted at the plan's sequence, not at one token", function()
    local own = with {}
    local e = estimate.new { model = own, cluster = "dgx_h100", plan = { seq = 512, micro_batches = 2 } }
    local plain = require("ett.model.architecture").parameters(with { none = true })
    assert.equal(plain + 2, e.model.parameters)
    assert.error_matches(function()
      estimate.new { model = own, cluster = "dgx_h100", plan = { seq = 32, micro_batches = 2 } }
    end, "layer 'mixed': recurrence: .*field 'tokens' must be a positive integer, got 0")
  end)
end)
