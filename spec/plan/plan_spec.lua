--- Plans: checks of single fields and of rules between fields, and what follows from fields.
local model_module = require "ett.model"
local plan = require "ett.plan"
local raised = require "raised"

local llama = model_module.new("llama", { layers = 12, hidden = 1024, heads = 16, kv_heads = 4, ffn = 2816,
  vocab = 32000 })

local mixtral = model_module.new("mixtral", { layers = 4, hidden = 1024, heads = 16, experts = 2, top_k = 2,
  moe_ffn = 512, vocab = 32000 })

local function violations(given)
  given.seq = given.seq or 2048
  given.micro_batches = given.micro_batches or (not given.global_batch and 8 or nil)
  return (plan.violations(given, llama, nil))
end

describe("plan", function()
  it("fills defaults and counts the global batch", function()
    local p = plan.new({ dp = 4, micro_batch = 2, micro_batches = 8, seq = 2048 }, llama)
    assert.equal(64, p.global_batch)
    assert.equal("1f1b", p.schedule)
    p = plan.new({ dp = 4, micro_batch = 2, global_batch = 64, seq = 2048 }, llama)
    assert.equal(8, p.micro_batches)
    assert.equal(64 * 2048, plan.tokens(p))
  end)

  it("names each fault once, and the field that has it", function()
    for _, case in ipairs { { { cp = 4, seq = 2050 }, "cp = 4 must divide seq = 2050" },
      { { cp = 4, cp_ulysses = 8, cp_method = "ring" }, "cp_ulysses = 8 must divide cp = 4" },
      { { dp = 4, shard = 2, zero = 0 }, "shard needs zero of at least 1, got 0" },
      { { dp = 2, rank_slowdown = { 1, -1 } }, "number 2 must be above 0 and at most 1000, got -1" },
      { { dp = 2, rank_slowdown = { 1, "a" } }, "number 2 must be above 0 and at most 1000, got 'a'" },
      { { dp = 4, micro_batch = 2, micro_batches = 4, global_batch = 64 }, "global_batch = 64, which gives 8" } } do
      local found = violations(case[1])
      assert.matches(case[2], found[1], 1, true)
      assert.truthy(not found[2] or found[2]:find "^nearest passing plans", found[2])
    end
    assert.same({}, violations { dp = 4, micro_batch = 2, micro_batches = 8, global_batch = 64 })
    local split = plan.violations({ tp = 2, etp = 3, dp = 3, seq = 2048, micro_batches = 1 }, mixtral, nil)
    assert.matches("etp = 3 must divide moe_ffn = 512", table.concat(split, "\n"), 1, true)
  end)

  it("overlaps as the stack's software does, where the plan leaves it open and it has an effect", function()
    local function overlapped(given)
      given.seq, given.micro_batches = 2048, 8
      local p = plan.new(given, llama)
      return (p.overlap_gradients and "gradients " or "") .. (p.overlap_parameters and "weights " or "")
        .. (p.overlap_sends and "sends" or "")
    end
    assert.equal("gradients weights ", overlapped { dp = 4, zero = 3, stack = "fsdp_eager" })
    assert.equal("weights ", overlapped { pp = 2, dp = 4, zero = 3, stack = "fsdp_eager" })
    assert.equal("gradients ", overlapped { pp = 2, dp = 4, stack = "torchtitan" })
    assert.equal("weights ", overlapped { dp = 4, zero = 3, stack = "fsdp_eager", overlap_gradients = false })
    assert.equal("weights ", overlapped { dp = 4, zero = 3, stack = "fsdp_eager:overlap_gradients=false" })
    assert.equal("gradients ", overlapped { dp = 4, stack = "torchtitan" })
    assert.equal("", overlapped { stack = "maxtext" })
    assert.equal("", overlapped { dp = 4, zero = 1 })
    assert.equal("", overlapped { pp = 2, dp = 4, zero = 1, stack = "megatron" })
    assert.equal("sends", overlapped { pp = 2, vp = 2, schedule = "interleaved", dp = 4, stack = "megatron" })
    assert.equal("", overlapped { pp = 2, vp = 2, schedule = "interleaved", dp = 4, stack = "megatron_2021" })
    -- A stack of the cluster counts, too.
    local p = plan.new({ dp = 4, seq = 2048, micro_batches = 8 }, llama, { stack = "torchtitan" })
    assert.is_true(p.overlap_gradients)
    -- A plan as words says what differs from that.
    local words = require("ett.search.text").plan
    assert.equal("seq=2048 stack=torchtitan dp=4 global_batch=32", words(p))
    p.overlap_gradients = false
    assert.equal("seq=2048 stack=torchtitan dp=4 global_batch=32 overlap_gradients=false", words(p))
  end)

  it("ignores the model's widths if every layer has its own, or no operator reads them", function()
    local own = { layers = 2, hidden = 1024, heads = 3, head_dim = 64, ffn = 999, vocab = 32000 }
    own.layer_fields = { { heads = 8, kv_heads = 4, ffn = 2048 }, { heads = 4, kv_heads = 4 } }
    local given = { tp = 4, seq = 2048, micro_batches = 8 }
    assert.equal("tp = 4 must divide ffn = 999; nearest are 3 and 9", (plan.violations(given, model_module.new("llama",
      own), nil)[1]))
    own.layer_fields[2].ffn = 1024
    assert.same({}, (plan.violations(given, model_module.new("llama", own), nil)))
    local mlps = require("ett.model.architecture").new(function(h)
      local blocks = require "ett.model.blocks"
      return blocks.decoder(h, { name = "mlp", count = 2, ops = blocks.dense_feed(h) })
    end, { layers = 2, hidden = 1024, heads = 1, vocab = 32000 })
    assert.same({}, (plan.violations(given, mlps, nil)))
  end)

  it("reports every violation at once, with limits and the nearest passing plans", function()
    assert.same({
      "tp = 3 must divide heads = 16; nearest are 2 and 4",
      "tp = 3 must divide kv_heads = 4; nearest are 2 and 4",
      "tp = 3 must divide ffn = 2816; nearest are 2 and 4",
      "pp * vp = 16 must not exceed the model's 12 layers, embedding and head; the nearest pp is 14",
      "nearest passing plans on 96 devices: pp=12 tp=4 dp=2, or pp=12 tp=2 dp=4, or pp=8 tp=4 dp=3",
    }, violations { tp = 3, pp = 16, dp = 2 })
  end)

  it("suggests the nearest global batches if only that must change", function()
    local rule = "dp * micro_batch = 8 must divide global_batch = %d; nearest global_batch %s"
    assert.same({ rule:format(250, "are 248 and 256"),
      "nearest passing plans on 32 devices: global_batch=248, or global_batch=256" },
      violations { tp = 4, dp = 8, global_batch = 250 })
    assert.same({ rule:format(3, "is 8"), "nearest passing plans on 32 devices: global_batch=8" },
      violations { tp = 4, dp = 8, global_batch = 3 })
    -- An interleaved schedule needs pp micro-batches: 8 sequences are too few for it.
    local found = violations { pp = 2, vp = 2, schedule = "interleaved", dp = 8, global_batch = 15 }
    assert.equal("nearest passing plans on 16 devices: global_batch=16", found[#found])
    found = violations { tp = 3, dp = 8, global_batch = 250 } -- tp must change, too
    assert.matches("nearest passing plans on 24 devices: pp=3 tp=4 dp=2", found[#found], 1, true)
  end)

  it("suggested nearest plans are valid, without a split of other stages", function()
    local with_split, without = 0, 0
    for _, given in ipairs { { tp = 3, pp = 4, dp = 4 }, { tp = 5, pp = 5, dp = 4 }, { pp = 24, dp = 2 },
      { tp = 3, pp = 4, dp = 4, split = { 3, 3, 3, 3 } }, { tp = 3, pp = 2, dp = 4, split = { 7, 5 } },
      { pp = 4, split = { 6, 6 } } } do
      local found = violations(given)
      local last = found[#found]
      assert.matches("nearest passing plans", last, 1, true)
      for text in last:gsub("^.-: ", ""):gmatch("([%l%d= ]+)") do
        local p = { seq = 2048, micro_batches = 8 }
        for name, value in text:gmatch("(%l+)=(%d+)") do p[name] = math.tointeger(value) end
        if text:find "without split" then without = without + 1 else p.split = given.split end
        if p.pp or p.tp or p.dp then
          assert.same({}, (plan.violations(p, llama)))
          with_split = with_split + (p.split and 1 or 0)
        end
      end
    end
    assert.is_true(with_split > 0 and without > 0)
  end)

  it("names unknown, missing and wrong fields", function()
    assert.same({ "unknown field 'micro_bach'; did you mean 'micro_batch'?" }, violations { micro_bach = 4 })
    assert.same({ "missing field 'seq' (a positive integer)" }, (plan.violations({ micro_batches = 1 })))
    assert.same({ "missing field 'seq' (a positive integer)",
      "missing field 'micro_batches' (a positive integer), or 'global_batch' in its place" }, (plan.violations {}))
    assert.same({ "missing field 'micro_batches' (a positive integer), or 'global_batch' in its place" },
      (plan.violations({ seq = 128 })))
    assert.same({ "field 'dp' must be a positive integer, got -2", "field 'tp' must be a positive integer, got 0" },
      violations { tp = 0, dp = -2 })
    assert.same({ "field 'bucket_bytes' must be a positive number, got 0" }, violations { bucket_bytes = 0 })
    assert.same({ "field 'recompute' must be one of none, selective, policy, full, got 'ful'; did you mean 'full'?" },
      violations { recompute = "ful" })
    assert.same({ "field 'schedule': unknown schedule '1fb1'; did you mean '1f1b'?; known are "
      .. table.concat(require("ett.plan.schedules").names(), ", ") }, violations { schedule = "1fb1" })
  end)

  it("names arguments of another kind", function()
    local function message(fn, ...)
      local ok, why = pcall(fn, ...)
      return not ok and require("ett.base.error").is(why) and tostring(why) or ""
    end
    assert.equal("ett.plan.new: argument 'model' must be a model of ett.model.new, .list or .huggingface, got 'x'",
      message(plan.new, { seq = 64, micro_batches = 1 }, "x"))
    assert.equal("ett.plan.devices: argument 'p' must be a table, got 3", message(plan.devices, 3))
    assert.matches("ett.plan.tokens: argument 'p' must be a plan of ett.plan.new", message(plan.tokens, { pp = 2 }))
  end)

  it("names what fields need of others", function()
    for message, given in pairs {
      ["tp = 4 must divide the tokens of a micro-batch = 510 under sequence_parallel; nearest are 3 and 5"] =
        { tp = 4, seq = 510, sequence_parallel = true },
      ["expert_skew needs a model with experts"] = { expert_skew = 1 },
      ["expert_skew and expert_shares exclude each other"] = { expert_skew = 1, expert_shares = { 0.5, 0.5 } },
      ["expert_shares: number 1 must be from 0 to 1 / top_k = 0.5, got 0.6"] = { expert_shares = { 0.6, 0.4 } },
      ["shard = 1 makes 4 replicas; their number must divide the 2 ranks that share experts"] =
        { dp = 4, ep = 2, shard = 1, zero = 1 },
      ["ep * etp = 3 must divide dp * cp * tp = 4; nearest are 2 and 4"] = { dp = 4, ep = 1, etp = 3 },
      ["rank_slowdown excludes jitter and slow_share"] = { rank_slowdown = { 1 }, jitter = 0.1 },
      ["micro_batches = 3 contradicts global_batch = 8, which gives 4; give only one of them"] =
        { dp = 2, micro_batches = 3, global_batch = 8 },
      ["overlap_all_to_all = 'batch' needs ep of at least 2, got 1; with ep = 1 there is no all-to-all"] =
        { overlap_all_to_all = "batch" },
      ["serial_sends and overlap_sends exclude each other"] = { pp = 2, serial_sends = true, overlap_sends = true },
      ["schedule = 'dualpipe_v' needs vp = 2, got 1"] = { pp = 2, schedule = "dualpipe_v" },
      ["schedule = 'dualpipe' needs vp = 1, got 2"] = { pp = 2, vp = 2, schedule = "dualpipe" },
      ["interleave_group needs schedule = 'interleaved', got '1f1b'"] = { pp = 2, interleave_group = 2 },
      ["schedule = 'interleaved' needs pp of at least 2, got 1"] = { vp = 2, schedule = "interleaved" },
      ["schedule = 'interleaved' needs vp of at least 2, got 1"] = { pp = 2, schedule = "interleaved" },
      ["schedule = 'interleaved' needs at least pp = 4 micro-batches, got 3"] =
        { pp = 4, vp = 2, schedule = "interleaved", micro_batches = 3 },
      ["mtp_slice = 1: schedule = 'dualpipe' is bidirectional; its layers of multi-token prediction are on slice 2"] =
        { pp = 2, schedule = "dualpipe", split = { 12, 0 }, mtp_slice = 1 },
    } do
      local model = (message:find "shar" or message:find "^ep ") and mixtral or llama
      given.seq, given.micro_batches = given.seq or 2048, given.micro_batches or 8
      local found = plan.violations(given, model, nil)
      local said = false
      for _, text in ipairs(found) do said = said or text == message end
      assert(said, message .. "\ngot: " .. table.concat(found, "\n"))
    end
  end)

  it("checks batches, schedules and splits", function()
    assert.matches("^dp %* micro_batch = 8 must divide global_batch = 12; nearest global_batch are 8 and 16$",
      violations({ dp = 4, micro_batch = 2, global_batch = 12 })[1])
    assert.equal("kv_heads = 4 must divide tp = 6; nearest tp are 4 and 8", violations({ tp = 6 })[2])
    assert.same({}, violations { pp = 4, vp = 2, schedule = "interleaved", micro_batches = 6 })
    assert.equal("interleave_group must be at least pp = 4, got 3",
      violations({ pp = 4, vp = 2, schedule = "interleaved", interleave_group = 3 })[1])
    assert.equal("interleave_group = 5 leaves a last group of 3 micro-batches; it must have at least pp = 4, or none",
      violations({ pp = 4, vp = 2, schedule = "interleaved", interleave_group = 5, micro_batches = 8 })[1])
    assert.equal("vp = 2 needs a schedule of several chunks, such as 'interleaved'; '1f1b' has 1",
      violations({ pp = 2, vp = 2 })[1])
    assert.equal("split must add up to the model's 12 layers, got 11", violations({ pp = 2, split = { 5, 6 } })[1])
    assert.equal("split must hold pp * vp = 2 numbers of layers, got 3", violations({ pp = 2, split = { 4, 4, 4 } })[1])
    assert.equal("mtp_slice must be at most pp * vp = 2, the last slice, got 3",
      violations({ pp = 2, mtp_slice = 3 })[1])
    assert.equal("mtp_slice = 1 needs a split without layers behind that slice",
      violations({ pp = 2, mtp_slice = 1 })[1])
    assert.equal("mtp_slice = 1: split must have no layers behind that slice, got 5",
      violations({ pp = 2, split = { 7, 5 }, mtp_slice = 1 })[1])
    assert.same({}, violations({ pp = 2, split = { 12, 0 }, mtp_slice = 1 }))
    assert.equal("overlap_tensor is not supported by the stack 'gpt_neox'",
      violations({ tp = 2, overlap_tensor = true, stack = "gpt_neox" })[1])
    assert.same({}, violations { tp = 2, overlap_tensor = true, stack = "megatron" })
    assert.same({}, violations { tp = 2, stack = "gpt_neox" })
    for _, stack in ipairs { "gpt_neox", "megatron_deepspeed", "megatron_deepspeed:overlap_gradients" } do
      local given = { dp = 8, pp = 4, zero = 1, gradient_all_reduce = true, stack = stack,
        overlap_gradients = not stack:find ":" or nil }
      assert.same({ ("overlap_gradients needs pp = 1, got 4: pipelines of the stack '%s' reduce gradients after the "
        .. "last backward pass"):format(stack) }, { violations(given)[1] })
      given.pp = 1
      assert.same({}, violations(given))
      given.pp, given.overlap_gradients = 4, false
      assert.same({}, violations(given))
    end
    assert.same({}, violations { dp = 8, pp = 4, overlap_gradients = true, stack = "megatron" })
    assert.equal("overlap_sends is not supported by the stack 'gpt_neox': its pipelines compute nothing while they "
      .. "send", violations({ pp = 4, overlap_sends = true, stack = "gpt_neox" })[1])
    assert.equal("overlap_sends is not supported by the stack 'plain:serial_sends': its pipelines compute nothing "
      .. "while they send", violations({ pp = 4, overlap_sends = true, stack = "plain:serial_sends" })[1])
    assert.equal("overlap_sends needs schedule = 'interleaved' with the stack 'megatron_fsdp', got '1f1b'",
      violations({ pp = 4, overlap_sends = true, stack = "megatron_fsdp" })[1])
    local sends = { pp = 4, overlap_sends = true, stack = "megatron", micro_batches = 8 }
    assert.equal("overlap_sends needs schedule = 'interleaved' with the stack 'megatron', got '1f1b'",
      violations(sends)[1])
    for field, value in pairs { schedule = "interleaved", stack = "plain", pp = 1 } do
      local own = require "ett.base.merged"(sends, { [field] = value, vp = field == "schedule" and 2 or 1 })
      assert.is_nil(table.concat(violations(own)):find("overlap_sends", 1, true), field)
    end
    assert.equal("overlap_parameters needs zero = 3, got 1: the stack 'transformers' gathers weights after the update "
      .. "at stages 1 and 2", violations({ dp = 8, zero = 1, overlap_parameters = true, stack = "transformers" })[1])
    assert.same({}, violations { dp = 8, zero = 3, overlap_parameters = true, stack = "transformers" })
    local cast, named = violations { dp = 8, zero = 1, dtype = "fp32", gradient_dtype = "bf16",
      stack = "transformers:autocast" }, "autocast of the stack 'transformers:autocast' needs "
    assert.equal(named .. "zero = 0, got 1; stack=transformers_fsdp is FSDP's mixed precision", cast[1])
    assert.equal(named .. "dtype = 'bf16' or 'fp16', got 'fp32'", cast[2])
    assert.equal(named .. "gradient_dtype = 'fp32', got 'bf16'; reduce_dtype is the type of messages", cast[3])
    cast = violations { dp = 8, offload_optimizer = 0.5, offload_weights = 1, stack = "transformers:autocast" }
    assert.equal(named .. "offload_optimizer = 0, got 0.5: the passes read the optimizer's fp32 weights", cast[1])
    assert.equal(named .. "offload_weights = 0, got 1: the passes read the optimizer's fp32 weights", cast[2])
    assert.equal("field 'split[2]' must be an integer of at least 0, got -1",
      violations({ pp = 2, split = { 13, -1 } })[1])
    assert.equal("ep = 2 needs a model with experts; the nearest is 1", violations({ ep = 2, dp = 2 })[1])
  end)

  it("reports a cluster with too few devices", function()
    local found = plan.violations({ pp = 2, tp = 4, dp = 2, seq = 2048, micro_batches = 4 }, llama,
      { name = "tiny", nodes = 1, gpus_per_node = 8 })
    assert.equal("the plan needs 16 devices, tiny has 8", found[1])
  end)

  it("splits layers like DeepSpeed", function()
    assert.same({ 8, 9, 9, 6 }, plan.deepspeed_split(32, 4))
    assert.same({ 5, 6, 6, 6, 6, 6, 6, 3 }, plan.deepspeed_split(44, 8))
    assert.same({ 32 }, plan.deepspeed_split(32, 1))
    for pp = 2, 12 do
      local sum = 0
      for _, n in ipairs(plan.deepspeed_split(32, pp)) do sum = sum + n end
      assert.equal(32, sum)
    end
    assert.matches("at most pp = 12$", raised(plan.deepspeed_split, 32, 16))
  end)

  it("reports missing batch sizes and wrong degrees together", function()
    local found = plan.violations({ tp = 3, seq = 128 }, llama)
    assert.equal("missing field 'micro_batches' (a positive integer), or 'global_batch' in its place", found[1])
    assert.matches("^tp = 3 must divide heads", found[2])
  end)

  it("raises one error object with all of them", function()
    local ok, why = pcall(plan.new, { tp = 3, seq = 2048, micro_batches = 1 }, llama)
    assert.is_false(ok)
    assert.equal("plan", why.kind)
    assert.equal(4, #why.violations)
  end)
end)
