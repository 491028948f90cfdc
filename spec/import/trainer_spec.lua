--- Plans of torchtitan's TOML, DeepSpeed's JSON and MaxText's fields: the export read back, files as users write them,
--- and faults.
local command = require "command"
local estimate = require "ett.step.estimate"
local export = require "ett.import.export"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local raised = require "raised"
local random_plans = require "random_plans"
local trainer = require "ett.import.trainer"

local folder
setup(function() folder = command.folder() end)
teardown(function() command.remove(folder) end)

-- The plan and the notes of a file; apart, the note on settings that the file leaves out: most files here are as short
-- as they can be.
local function read(name, text, model, given)
  command.write(folder, name, text)
  local plan, notes = trainer.read(folder .. "/" .. name, model or model_module.new "llama3-8b", given)
  local missing
  for i = #notes, 1, -1 do
    if notes[i]:find "^not in the file" then missing = table.remove(notes, i) end
  end
  return plan, notes, missing
end

local function same_step(model, plan, again)
  local function of(a_plan) return estimate.new { model = model, plan = a_plan, cluster = "dgx_h100" } end
  local a, b = of(plan), of(again)
  for _, name in ipairs { "step_seconds", "memory_bytes", "devices" } do
    assert.equal(a[name], b[name], name .. "\n" .. tostring(a) .. tostring(b))
  end
  -- The intervals are equal once each plan states what the other states.
  assert.equal(of(merged(again, plan)).low_seconds, of(merged(plan, again)).low_seconds)
end

it("an export lists what the file cannot state", function()
  local model = model_module.new "llama3-8b"
  for _, case in ipairs {
    { "torchtitan", "recompute_method = 'block': torchtitan repeats each N-th layer; exported as full",
      { recompute = "full", recompute_layers = 4, recompute_method = "block" } },
    { "torchtitan", "recompute_layer_ids: torchtitan repeats each N-th layer; exported as full",
      { recompute = "full", recompute_layer_ids = { 3 } } },
    { "torchtitan", "optimizer_bytes = 6: torchtitan's Adam has 12", { optimizer_bytes = 6 } },
    { "torchtitan", "sequence_parallel = false: torchtitan's tensor parallelism always has it",
      { tp = 2, sequence_parallel = false } },
    { "torchtitan", "zero = 2: torchtitan also shards the weights", { dp = 2, pp = 2, zero = 2 } },
    { "torchtitan", "zero = 2: torchtitan also shards the weights, and gathers them for each micro-batch",
      { dp = 2, zero = 2 } },
    { "deepspeed", "offload_gradients = 1: DeepSpeed moves gradients with the optimizer's states, from stage 2 on",
      { dp = 2, zero = 1, offload_gradients = 1 } },
    { "deepspeed", "overlap_parameters = true: DeepSpeed gathers weights during computing at stage 3 only",
      { dp = 2, zero = 1, overlap_parameters = true } },
    { "deepspeed", "optimizer_bytes = 6: DeepSpeed's Adam has 12", { dp = 2, zero = 1, optimizer_bytes = 6 } },
    { "deepspeed", "zero = 2 with pp = 2: DeepSpeed's pipelines allow at most stage 1", { dp = 2, pp = 2, zero = 2 } },
  } do
    local given = case[3]
    given.seq, given.micro_batches = 2048, 4
    local plan = estimate.new({ model = model, cluster = "dgx_h100", plan = given }).plan
    local found = select(2, export.text(case[1], model, plan))
    assert.matches("\n" .. case[2] .. "\n", "\n" .. table.concat(found, "\n") .. "\n", 1, true)
  end
end)

describe("a plan as torchtitan's TOML", function()
  it("gives the same step when it is read back, to the last digit", function()
    local pick, compared = random_plans.generator(11), 0
    for _ = 1, 60 do
      local model = model_module.new(pick { "llama3-8b", "qwen3-14b", "qwen3-30b-a3b" }, { layers = 32 })
      local moe, pp, zero = model.hyper.experts ~= nil, pick { 1, 2, 4 }, pick { 0, 3, 3 }
      local plan = { seq = pick { 2048, 8192 }, tp = pick { 1, 2 }, pp = pp, dp = pick { 8, 16 }, zero = zero,
        cp = zero == 3 and pick { 1, 2 } or 1, ep = moe and zero == 3 and pick { 1, 8 } or 1,
        micro_batch = pick { 1, 2 }, micro_batches = pick { 8, 16 }, dtype = pick { "bf16", "bf16", "fp8", "fp32" },
        gradient_dtype = pick { "fp32", "bf16" }, recompute = pick { "none", "policy", "full" },
        overlap_gradients = zero == 0 or pp == 1, overlap_parameters = zero == 3 or nil,
        stack = pick { "torchtitan", "torchtitan:operator_policy=false" } }
      if plan.recompute ~= "policy" then
        plan.stack = pick { "torchtitan", "torchtitan_eager", "torchtitan:update=foreach" }
      end
      if zero == 3 then plan.reshard = pick { true, false } end
      if zero == 3 and pick { true, false } then plan.shard = 4 * plan.cp end
      if zero == 0 then plan.gradient_dtype = "fp32" end
      if zero == 0 and (plan.tp > 1 or pp > 1) then plan.dtype, plan.dp = "fp32", 1 end
      plan.optimizer_bytes = plan.dtype == "fp32" and 8 or nil
      if plan.cp > 1 then plan.cp_method = pick { "all_gather", "ring", false } or nil end
      if plan.tp > 1 then plan.sequence_parallel, plan.overlap_tensor = true, pick { true, false } end
      if moe and plan.tp > 1 and plan.ep > 1 then plan.etp = pick { 1, 2 } end
      local which = moe and pick { "all", "dense", "experts" } or "all"
      if moe and plan.dtype == "fp8" and (pp > 1 or plan.cp > 1) then which = "dense" end
      plan.stack = plan.stack .. ":quantised_products=" .. which
      if pp > 1 then
        plan.schedule = pick { "1f1b", "gpipe", "interleaved", "interleaved_zb", "zb_v" }
        plan.vp = (plan.schedule == "1f1b" or plan.schedule == "gpipe") and 1 or 2
      end
      local ok, e = pcall(estimate.new, { model = model, plan = plan, cluster = "dgx_h100" })
      if ok then
        local text, left_out = export.text("torchtitan", model, e.plan)
        assert.same({}, left_out)
        local again, notes = read("random.toml", text, model)
        assert.same({}, notes)
        same_step(model, plan, again)
        compared = compared + 1
      end
    end
    assert.is_true(compared >= 40, compared)
  end)

  it("is read as users write it", function()
    local text = [==[
# a run on 64 GPUs
[job]
description = "Llama 3 8B training # not a comment"
[model]
name = 'llama3'   # a flavor follows
converters = [ # one
  "quantize.linear.float8",   # to a line

]
[training]
local_batch_size = 1
seq_len = 8_192
max_norm = inf
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
tensor_parallel_degree = 4
context_parallel_load_balancer = "headtail"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "3"
]==]
    local plan, notes = read("run.toml", text, nil, { dp = 16 })
    for name, value in pairs { seq = 8192, tp = 4, dp = 16, shard = 8, zero = 3, reshard = true, global_batch = 16,
      micro_batch = 1, sequence_parallel = true, dtype = "fp8", clip_gradients = false, recompute = "full",
      recompute_layers = 3, recompute_method = "every", stack = "torchtitan_eager" } do
      assert.equal(value, plan[name], name)
    end
    assert.same({ "fields of parallelism that are not modelled: context_parallel_load_balancer" }, notes)
    plan = read("run.toml", text, nil, { dp = 16, micro_batches = 4, seq = 4096 })
    assert.same({ 4, 4096 }, { plan.micro_batches, plan.seq })
    assert.is_nil(plan.global_batch)
  end)

  it("repeats each N-th layer", function()
    local text = "[parallelism]\ndata_parallel_shard_degree = 8\n%s[activation_checkpoint]\nmode = 'selective'\n"
      .. "selective_ac_option = '%s'\n"
    local function of(option, more)
      local p, notes = read("run.toml", text:format(more or "", option))
      return { p.recompute, p.recompute_layers or "-", p.stack, notes[1] }
    end
    assert.same({ "full", "-", "torchtitan_eager" }, of "1")
    assert.same({ "full", "-", "torchtitan_eager" }, of "0")
    assert.same({ "policy", "-", "torchtitan_eager:operator_policy=false" }, of "2")
    assert.same({ "full", 4, "torchtitan_eager" }, of "4")
    local listed = read("run.toml", text:format("", "4"), nil, { recompute_layer_ids = { 0 } })
    assert.same({ "full", "nil", "nil" },
      { listed.recompute, tostring(listed.recompute_layers), tostring(listed.recompute_method) })
    assert.same({ "policy", "-", "torchtitan_eager" }, of "op")
    assert.same({ "full", 4, "torchtitan_eager",
      "selective_ac_option = 4: torchtitan counts its layers over all chunks of a rank, ett in each chunk" },
      of("4", "pipeline_parallel_degree = 2\npipeline_parallel_schedule = 'Interleaved1F1B'\n"))
    for _, option in ipairs { "x", "4.5", "-2", "0x4", "4e0", "", ("9"):rep(30) } do
      assert.equal(("selective_ac_option must be 'op' or an integer of at least 0, got '%s'"):format(option),
        select(2, pcall(of, option)).message)
    end
    local model = model_module.new "llama3-8b"
    local plan = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 2048, micro_batches = 2, dp = 8,
      zero = 3, recompute = "full", recompute_layers = 4, recompute_method = "every", stack = "torchtitan" } }.plan
    local out, left_out = export.text("torchtitan", model, plan)
    assert.same({}, left_out)
    local again = read("again.toml", out, model)
    same_step(model, plan, again)
    assert.equal(4, again.recompute_layers)
  end)

  it("states which of layers and loss are compiled", function()
    local model = model_module.new "llama3-8b"
    for _, stack in ipairs { "torchtitan", "torchtitan_eager", "torchtitan:cross_entropy=torch",
      "torchtitan_eager:cross_entropy=compiled" } do
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 2048, dp = 8, zero = 3,
        micro_batches = 1, overlap_parameters = true, stack = stack } }
      local text, left_out = export.text("torchtitan", model, e.plan)
      assert.same({}, left_out)
      assert.equal(stack, (read("run.toml", text)).stack)
    end
    local e = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 2048, dp = 8, micro_batches = 1,
      stack = "llm_foundry" } }
    assert.matches("[compile]\nenable = false\n\n", (export.text("torchtitan", model, e.plan)), 1, true)
  end)

  it("runs what is compiled, with PyTorch's attention and checkpointing by operator either way", function()
    local function stack(compile)
      local text = "[parallelism]\ndata_parallel_shard_degree = 8\n[activation_checkpoint]\n"
        .. 'selective_ac_option = "op"\n[compile]\n'
      return (read("run.toml", text .. compile)).stack
    end
    assert.equal("torchtitan", stack "enable = true\n")
    assert.equal("torchtitan", stack 'enable = true\ncomponents = ["model", "loss"]\n')
    assert.equal("torchtitan_eager", stack "enable = false\n")
    assert.equal("torchtitan_eager:cross_entropy=compiled", stack 'enable = true\ncomponents = ["loss"]\n')
    assert.equal("torchtitan:cross_entropy=torch", stack 'enable = true\ncomponents = ["model"]\n')
    for name, expected in pairs { fused = { "" }, foreach = { ":update=foreach" },
      ["for-loop"] = { "", "optimizer.implementation = for-loop is modelled as fused, and takes more time" },
      [true] = { "" }, [false] = { ":update=foreach" } } do -- the older field `fused`
      local line = type(name) == "string" and "implementation = '%s'\n" or "fused = %s\n"
      local plan, notes = read("run.toml", "[parallelism]\ndata_parallel_shard_degree = 8\n[optimizer]\n"
        .. line:format(name))
      assert.same({ "torchtitan_eager" .. expected[1] .. ":operator_policy=false", expected[2] },
        { plan.stack, notes[1] })
    end
    local compiled, eager = require("ett.operator.stack").get "torchtitan",
      require("ett.operator.stack").get "torchtitan_eager"
    for _, name in ipairs { "attention", "operator_policy", "keeps_head_input", "zero_stages" } do
      assert.equal(compiled[name], eager[name], name)
    end
  end)

  it("follows the degrees of words", function()
    local text = "[training]\nlocal_batch_size = 8\n[parallelism]\ndata_parallel_shard_degree = 8\n"
      .. "tensor_parallel_degree = 2\nenable_async_tensor_parallel = true\n"
    local plan = read("run.toml", text, nil, { tp = 1, pp = 2 })
    assert.is_false(plan.sequence_parallel)
    assert.is_nil(plan.overlap_tensor)
    assert.same({ 1, "1f1b", false, 64 }, { plan.micro_batch, plan.schedule, plan.reshard, plan.global_batch })
    plan = read("run.toml", text:gsub("tensor_parallel_degree = 2", ""), nil, { tp = 4, cp = 2 })
    assert.same({ true, "all_gather" }, { plan.sequence_parallel, plan.cp_method })
  end)

  it("has mixed precision under tp and pp with FSDP only", function()
    local function of(degrees, more, given)
      local plan, notes = read("run.toml", "[training]\n" .. (more or "") .. "[parallelism]\n" .. degrees, nil, given)
      return { plan.dtype, plan.gradient_dtype, plan.optimizer_bytes or 12, notes[1] }
    end
    local alone = "data_parallel_shard_degree = 1\n"
    local note = "without FSDP, torchtitan has no mixed precision under tp and pp: all is in %s (training.dtype)"
    assert.same({ "fp32", "fp32", 8, note:format "fp32" }, of(alone .. "tensor_parallel_degree = 8\n"))
    assert.same({ "fp32", "fp32", 8 }, of(alone .. "tensor_parallel_degree = 8\n",
      "mixed_precision_param = 'float32'\n"))
    assert.same({ "bf16", "fp32", 12 }, of(alone .. "tensor_parallel_degree = 8\ndata_parallel_replicate_degree = 2\n",
      nil, { zero = 3 })) -- the word brings FSDP
    assert.same({ "fp32", "fp32", 8, note:format "fp32" }, of("data_parallel_shard_degree = 2\ntensor_parallel_degree "
      .. "= 8\n", nil, { zero = 0 }))
    assert.same({ "bf16", "bf16", 4 }, of(alone .. "pipeline_parallel_degree = 2\n", "dtype = 'bfloat16'\n"))
    local fp8 = alone .. 'tensor_parallel_degree = 8\n[model]\nconverters = ["float8"]\n'
    assert.same({ "fp8", "fp32", 12, "without FSDP, torchtitan has no mixed precision under tp and pp: beside products "
      .. "in fp8, all is in fp32 (training.dtype), and is modelled as bf16" }, of(fp8))
    assert.same({ "fp8", "bf16", 4 }, of(fp8, "dtype = 'bfloat16'\n"))
    assert.same({ "bf16", "fp32", 12 }, of(alone .. "tensor_parallel_degree = 8\ncontext_parallel_degree = 2\n"))
    assert.same({ "bf16", "fp32", 12 }, of(alone .. "data_parallel_replicate_degree = 8\n"))
    assert.same({ "bf16", "fp32", 12 }, of(alone .. "data_parallel_replicate_degree = 8\n",
      "mixed_precision_reduce = 'bfloat16'\n"))
    local e = estimate.new { model = model_module.new "llama3-8b", cluster = "dgx_h100", plan = { seq = 2048, tp = 2,
      micro_batches = 1, sequence_parallel = true } }
    assert.same({ "dtype = 'bf16', gradient_dtype = 'fp32': torchtitan without FSDP has no mixed precision under tp "
      .. "and pp" }, select(2, export.text("torchtitan", model_module.new "llama3-8b", e.plan)))
    local function left_out(more)
      for name, value in pairs(more) do e.plan[name] = value end
      return select(2, export.text("torchtitan", model_module.new "llama3-8b", e.plan))
    end
    assert.same({}, left_out { gradient_dtype = "bf16", optimizer_bytes = 4 }) -- all in bf16
    assert.same({}, left_out { dtype = "fp8" })
    assert.same({}, left_out { dtype = "bf16" })
    assert.same({ "gradient_dtype = 'bf16': torchtitan without FSDP has gradients of training.dtype" },
      left_out { tp = 1, dp = 2, sequence_parallel = false, optimizer_bytes = 12 })
    assert.same({}, left_out { gradient_dtype = "fp32" })
  end)

  it("says that torchtitan empties the pipeline after each local batch", function()
    local text = "[training]\nlocal_batch_size = 4\nglobal_batch_size = %d\n[parallelism]\n"
      .. "pipeline_parallel_degree = 2\ndata_parallel_shard_degree = 2\n"
    local note = "torchtitan empties the pipeline after each local batch; the plan has one pipeline run for the global "
      .. "batch"
    assert.same({}, select(2, read("run.toml", text:format(8))))
    local plan, notes = read("run.toml", text:format(16))
    assert.same({ note }, notes)
    assert.equal(16, plan.global_batch)
  end)

  it("has torchtitan's own split: the first and the last stage hold a layer less", function()
    local model = model_module.new "llama3-8b"
    local text = "[parallelism]\npipeline_parallel_degree = 2\ndata_parallel_shard_degree = 2\n%s"
    local function split_of(more) return read("run.toml", text:format(more), model).split end
    assert.same({ 16, 16 }, split_of "") -- 34 / 2 - 1
    assert.same({ 8, 9, 8, 7 }, split_of 'pipeline_parallel_schedule = "Interleaved1F1B"\n')
    assert.same({ 8, 9, 8, 7 }, split_of('pipeline_parallel_schedule = "Interleaved1F1B"\n'
      .. "pipeline_parallel_layers_per_stage = 9\n"))
    local plan = read("run.toml", text:format 'pipeline_parallel_schedule = "Interleaved1F1B"\n', model, { vp = 4 })
    assert.same({ 4 }, { plan.vp, plan.split }) -- the file's split has other slices
    assert.is_nil(split_of("pipeline_parallel_first_stage_less_layers = 0\n"
      .. "pipeline_parallel_last_stage_less_layers = 0\n"))
  end)

  it("has no note on modelled fields of a dimension with one rank", function()
    assert.same({}, select(2, read("run.toml", "[parallelism]\npipeline_parallel_degree = 1\n"
      .. "pipeline_parallel_schedule = '1F1B'\npipeline_parallel_microbatch_size = 1\n"
      .. "pipeline_parallel_first_stage_less_layers = 1\ncontext_parallel_rotate_method = 'allgather'\n"
      .. "data_parallel_shard_degree = 8\n")))
  end)

  it("states offloading and 16-bit states", function()
    local text = "[training]\nenable_cpu_offload = true\ndtype = 'bfloat16'\n[parallelism]\n"
      .. "data_parallel_shard_degree = 8\n"
    local plan = read("run.toml", text)
    assert.same({ 1, 1, 6 }, { plan.offload_optimizer, plan.offload_weights, plan.optimizer_bytes })
    -- Weight, gradient and two moments in 16 bits, in a shard or whole.
    for _, shards in ipairs { 1, 8 } do
      local model = model_module.new "llama3-8b"
      plan = read("run.toml", ("[training]\ndtype = 'bfloat16'\nmixed_precision_reduce = 'bfloat16'\n[parallelism]\n"
        .. "data_parallel_shard_degree = %d\n"):format(shards))
      plan.stack = plan.stack .. ":frees_gradients=false" -- all gradients, not only those beyond the passes
      local stage = estimate.new { model = model, cluster = "dgx_h200", plan = plan }.stages[1]
      assert.near(8, (stage.weight_bytes + stage.gradient_bytes + stage.optimizer_bytes) * shards / stage.parameters,
        1e-3, shards)
    end
  end)

  it("has replicas without FSDP alone", function()
    local function notes_of(tp, pp, shard)
      local text = "[training]\nmixed_precision_param = 'float32'\n[parallelism]\n"
        .. "data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = %d\ntensor_parallel_degree = %d\n"
        .. "pipeline_parallel_degree = %d\n"
      return select(2, read("run.toml", text:format(shard or 1, tp, pp)))
    end
    local note = "torchtitan refuses replicas without FSDP beside tensor or pipeline ranks: set "
      .. "data_parallel_shard_degree"
    assert.same({ note }, notes_of(2, 1))
    assert.same({ note }, notes_of(1, 2))
    assert.same({}, notes_of(1, 1))
    assert.same({}, notes_of(2, 1, 2))
    local function left_out(plan)
      plan.seq, plan.micro_batches, plan.zero, plan.sequence_parallel = 2048, 4, 0, true
      plan.dtype, plan.optimizer_bytes, plan.stack = "fp32", 8, "torchtitan"
      local model = model_module.new "llama3-8b"
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = plan }
      return select(2, export.text("torchtitan", model, e.plan))
    end
    assert.same({ "zero = 0 with dp = 4: torchtitan refuses DDP beside tp or pp; zero = 3 shards" },
      left_out { tp = 2, dp = 4 })
    assert.same({}, left_out { tp = 2, dp = 1 })
  end)

  it("is refused if integers of its degrees would wrap", function()
    local text = "[parallelism]\ndata_parallel_replicate_degree = 4294967296\n"
      .. "data_parallel_shard_degree = 4294967296\n"
    assert.matches("data_parallel_shard_degree = 4294967296, local_batch_size = 8: their product must be below 2^53",
      raised(read, "run.toml", text), 1, true)
  end)

  it("notes what is not modelled, and a model of another size", function()
    local function notes_of(more, given)
      local text = "[parallelism]\ndata_parallel_shard_degree = 8\n" .. more
      return select(2, read("run.toml", text, nil, given))
    end
    assert.same({ "early_step_in_backward is not modelled: all gradients are held until the optimizer's step" },
      notes_of "[optimizer]\nearly_step_in_backward = true\n")
    assert.same({}, notes_of "[optimizer]\nearly_step_in_backward = false\n")
    local whole = "[parallelism]\ndata_parallel_shard_degree = 8\ntensor_parallel_degree = %d\n"
      .. "disable_loss_parallel = %s\n"
    local function of_loss(...) return select(2, read("run.toml", whole:format(...))) end
    assert.same({ "disable_loss_parallel is not modelled: each rank gathers whole logits, 4 times those of the "
      .. "estimate" }, of_loss(4, "true"))
    assert.same({}, of_loss(4, "false"))
    assert.same({}, of_loss(1, "true"))
    for _, section in ipairs { "float8", "quantize.linear.float8" } do
      local float8 = ("[%s]\nenable_fsdp_float8_all_gather = %s\n[model]\nconverters = [%s]\n")
      assert.same({ "enable_fsdp_float8_all_gather is not modelled: weights are gathered in 16 bits" },
        notes_of(float8:format(section, "true", '"float8"')))
      assert.same({}, notes_of(float8:format(section, "false", '"float8"')))
      assert.same({}, notes_of(float8:format(section, "true", "")))
      local recipe = '[%s]\nrecipe_name = "%s"\n[model]\nconverters = ["float8"]\n'
      local rows, notes = read("run.toml", recipe:format(section, "rowwise"), nil, { dp = 8 })
      assert.same({ "recipe_name = rowwise: products are modelled as tensorwise; torchao measured steps 1 to 21 % "
        .. "longer" }, notes)
      assert.matches(":quantised_gathers=none", rows.stack, 1, true)
      local e = estimate.new { model = model_module.new "llama3-8b", plan = rows, cluster = "dgx_h100" }
      assert.matches('%[quantize%.linear%.float8%]\nrecipe_name = "rowwise"',
        (export.text("torchtitan", model_module.new "llama3-8b", e.plan)))
      local tensors, none = read("run.toml", recipe:format(section, "tensorwise"), nil, { dp = 8 })
      assert.same({}, none)
      assert.is_nil(tensors.stack:find "quantised_gathers")
    end
    assert.same({ "the file's model is llama3 405B, but the given model has 8.03 billion parameters" },
      notes_of "[model]\nname = 'llama3'\nflavor = '405B'\n")
    assert.same({ "the file's model is qwen3 30B-A3B, but the given model has 8.03 billion parameters" },
      notes_of "[model]\nname = 'qwen3'\nflavor = '30B-A3B'\n")
    for _, flavor in ipairs { "8B", "debugmodel", "17bx16e" } do
      assert.same({}, notes_of("[model]\nflavor = '" .. flavor .. "'\n"))
    end
  end)

  it("quantises the products that its converters name", function()
    local function of(converters, more, name)
      local plan, notes = read("run.toml", "[parallelism]\ndata_parallel_shard_degree = 8\n[model]\nconverters = ["
        .. converters .. "]\n" .. (more or ""), model_module.new(name or "qwen3-30b-a3b"))
      return { plan.dtype, plan.stack:match ":quantised_products=(%a+)" or "all", notes[1] }
    end
    local linear, grouped = '"quantize.linear.float8"', '"quantize.grouped_mm.float8"'
    assert.same({ "fp8", "dense" }, of(linear))
    assert.same({ "fp8", "experts" }, of(grouped))
    assert.same({ "fp8", "all" }, of(linear .. ", " .. grouped))
    assert.same({ "mxfp8", "experts" }, of '"quantize.grouped_mm.mx"')
    assert.same({ "mxfp8", "all", "products outside experts are in fp8, and are modelled as mxfp8" },
      of(linear .. ', "quantize.grouped_mm.mx"'))
    assert.same({ "mxfp8", "all" }, of '"quantize.dense.mx", "quantize.moe.mx"')
    assert.same({ "fp8", "dense" }, of '"float8"')
    assert.same({ "fp8", "all" }, of('"float8"', '[float8]\nmoe_fqns_prototype = ["experts"]\n'))
    assert.same({ "mxfp8", "all" }, of('"mx"', '[mx]\nmoe_fqns_prototype = "experts"\n'))
    assert.same({ "mxfp8", "dense" }, of('"mx"', "[mx]\nmoe_fqns_prototype = []\n"))
    assert.same({ "fp8", "all" }, of(linear, nil, "llama3-8b"))
    assert.same({ "bf16", "all" }, of(grouped, nil, "llama3-8b")) -- no experts
    local e = estimate.new { model = model_module.new "qwen3-30b-a3b", cluster = "dgx_h100", plan = { seq = 2048,
      pp = 2, dp = 8, micro_batches = 4, zero = 3, dtype = "fp8", overlap_parameters = true, stack = "torchtitan",
      optimizer_bytes = 12 } }
    assert.same({ "dtype = 'fp8': torchtitan's float8 products of experts need pp = 1 and cp = 1" },
      select(2, export.text("torchtitan", model_module.new "qwen3-30b-a3b", e.plan)))
  end)

  it("notes all that no reader asked for, but not what leaves the step as it is", function()
    local text = [==[
[job]
dump_folder = "./outputs"
[profiling]
enable_profiling = true
[metrics]
log_freq = 10
[model]
name = "llama3"
flavor = "8B"
hf_assets_path = "./assets"
converters = "float8"
[optimizer]
name = "AdamW"
lr = 8e-4
eps = 1e-8
[lr_scheduler]
warmup_steps = 2_000
[training]
local_batch_size = 1
seq_len = 8192
max_norm = 1.0
steps = 10_000
dataset = "c4"
enable_cpu_offload = false
[parallelism]
data_parallel_replicate_degree = 4
data_parallel_shard_degree = 1
fsdp_reshard_after_forward = "default"
[checkpoint]
enable = true
interval = 500
[activation_checkpoint]
mode = "full"
[compile]
enable = true
components = ["model", "loss"]
[float8]
enable_fsdp_float8_all_gather = true
precompute_float8_dynamic_scale_for_fsdp = true
filter_fqns = ["output"]
[quantize.moe.float8]
fqns = ["experts"]
[validation]
enabled = false
freq = 5
]==]
    assert.same({}, select(2, read("run.toml", text)))
    local more = text:gsub("local_batch_size", "local_batch_sizes"):gsub("seq_len", "seq_lenn")
      :gsub('"AdamW"', '"Sophia"'):gsub("enabled = false", "enable = true") .. "[lora]\nrank = 8\n"
    assert.same({ "optimizer.name = Sophia is modelled as AdamW",
      "fields of training that are not modelled: local_batch_sizes (did you mean local_batch_size?), seq_lenn (did "
      .. "you mean seq_len?)", "not modelled: lora, validation" }, select(2, read("run.toml", more)))
    assert.equal("muon", read("run.toml", (text:gsub('"AdamW"', '"Muon"'))).optimizer)
    local section = "[parallelizm]\ndata_parallel_shard_degree = 8\n"
    assert.same({ "not modelled: parallelizm (did you mean parallelism?)" },
      select(2, read("run.toml", section, nil, { dp = 8 })))
    -- The field itself is there, too.
    assert.same({ "fields of training that are not modelled: seq_lens" }, select(2, read("run.toml",
      "[training]\nseq_len = 4096\nseq_lens = 3\n", nil, { dp = 8 })))
    local defaults = "[parallelism]\nenable_compiled_autograd = false\nmodule_fqns_per_model_part = []\n"
      .. 'expert_parallel_comm_backend = "standard"\nenable_loss_parallel = true\ndata_parallel_shard_degree = 8\n'
      .. '[experimental]\ncustom_import = ""\n'
    assert.same({}, select(2, read("run.toml", defaults)))
    local others = "[parallelism]\nenable_compiled_autograd = true\nmodule_fqns_per_model_part = ['layers.0']\n"
      .. "enable_loss_parallel = false\ndata_parallel_shard_degree = 8\n"
    assert.same({ "fields of parallelism that are not modelled: enable_compiled_autograd, enable_loss_parallel, "
      .. "module_fqns_per_model_part" }, select(2, read("run.toml", others)))
    local experts = "[parallelism]\ndata_parallel_shard_degree = 8\nexpert_parallel_degree = 8\n"
      .. "expert_parallel_comm_backend = 'deepep'\n"
    assert.same({ "expert_parallel_comm_backend = deepep is modelled as standard: PyTorch's all-to-all" },
      select(2, read("run.toml", experts, model_module.new "qwen3-30b-a3b")))
    assert.same({ "not modelled: imports" }, select(2, read("run.toml", "imports = ['x']\n" .. text)))
  end)

  it("leaves recomputation within a memory budget to a word", function()
    local text = "[parallelism]\ndata_parallel_shard_degree = 8\n[activation_checkpoint]\nmode = 'memory_budget'\n"
      .. "memory_budget = 0.3\n"
    local plan, notes = read("run.toml", text, nil, { recompute = "policy" })
    assert.same({ "policy", 0 }, { plan.recompute, #notes })
  end)

  it("is refused if half a replica is left over", function()
    local why = raised(read, "half.toml", "[parallelism]\ndata_parallel_replicate_degree = 3.5\n", nil, { dp = 8 })
    assert.matches("dp = 8 must be a multiple of data_parallel_replicate_degree = 3.5", why, 1, true)
  end)

  for text, message in pairs {
    ["[training]\nseq_len = \n"] = "line 2: expected [TABLE] or NAME = VALUE, got 'seq_len = '",
    ["[training\n"] = "line 1: expected [TABLE] or NAME = VALUE, got '[training'",
    ["[training]\nx = [1, 2\n"] = "line 2: expected [TABLE] or NAME = VALUE, got 'x = [1, 2'",
    ["[training]\n\nx = [1 # [\n2]\n"] = "line 3: expected [TABLE] or NAME = VALUE, got 'x = [1 # ['",
    ["[training]\nx = [1,\n# end\n,]\n"] = "line 2: expected [TABLE] or NAME = VALUE, got 'x = [1,'",
    ["[training]\nx = 1 2\n"] = "line 2: expected [TABLE] or NAME = VALUE, got 'x = 1 2'",
    ["[training]\nx = \"a\n"] = "line 2: expected [TABLE] or NAME = VALUE, got 'x = \"a'",
    ["[training]\nseq_len = \"8k\"\n"] = "training.seq_len must be a number, got '8k'",
    ["[parallelism]\n"] = "data_parallel_shard_degree = -1 takes the ranks that are left; give dp=N, "
      .. "or --devices N to `ett search`",
    ["[parallelism]\ndata_parallel_shard_degree = 0\n"] =
      "data_parallel_shard_degree must be above 0 or -1, got 0",
    ["[training]\nbatch_size = 2\n"] = "training.batch_size: torchtitan has renamed this field; write "
      .. "training.local_batch_size",
    ["[experimental]\ncontext_parallel_degree = 2\n"] =
      "experimental.context_parallel_degree: torchtitan has renamed this field; write "
        .. "parallelism.context_parallel_degree",
    ["[training]\nmixed_precision_param = 'int4'\n"] =
      "mixed_precision_param: unknown value 'int4'; known are bfloat16, float16, float32",
    ["[parallelism]\ndata_parallel_shard_degree=2\nfsdp_reshard_after_forward='maybe'\n"] =
      "fsdp_reshard_after_forward: unknown value 'maybe'; known are always, default, never",
    ["[parallelism]\ndata_parallel_shard_degree=2\ncontext_parallel_degree=2\ncontext_parallel_rotate_method='x'\n"] =
      "context_parallel_rotate_method: unknown value 'x'; known are allgather, alltoall",
    ["[parallelism]\ndata_parallel_shard_degree=2\n[activation_checkpoint]\nmode='memory_budget'\n"] =
      "activation_checkpoint.mode = memory_budget is not modelled: the compiler chooses what is repeated; give "
      .. "recompute=none, policy or full",
    ["[parallelism]\ndata_parallel_shard_degree=2\n[activation_checkpoint]\nmode='some'\n"] =
      "activation_checkpoint.mode: unknown value 'some'; known are full, none, selective",
    ["[parallelism]\npipeline_parallel_degree=2\ndata_parallel_shard_degree=2\npipeline_parallel_schedule='x'\n"] =
      "pipeline_parallel_schedule: unknown value 'x'; known are 1F1B, DualPipeV, GPipe, Interleaved1F1B, "
      .. "InterleavedZeroBubble, LoopedBFS, ZBVZeroBubble",
  } do
    it("is refused with its line: " .. message, function()
      assert.equal(folder .. "/bad.toml: " .. message, raised(read, "bad.toml", text))
    end)
  end
end)

describe("a degree that no model can have", function()
  for _, degree in ipairs { 1.5, 1 << 40 } do
    it(("%s is left to the plan's check"):format(degree), function()
      local plan = read("half.toml", ("[parallelism]\npipeline_parallel_degree = %s\n"):format(degree)
        .. "data_parallel_shard_degree = 2\n")
      assert.equal(degree, plan.pp)
      assert.is_nil(plan.split)
    end)
  end
end)

describe("a plan as DeepSpeed's JSON", function()
  it("gives the same step when it is read back with the degrees that it does not hold", function()
    local pick, compared = random_plans.generator(5), 0
    local model = model_module.new "llama3-8b"
    for _ = 1, 40 do
      local zero, dtype, pp = pick { 0, 1, 2, 3 }, pick { "bf16", "fp16", "fp32" }, pick { 1, 2 }
      if pp > 1 then zero = math.min(zero, 1) end
      local plan = { seq = 2048, tp = pick { 1, 2 }, pp = pp, dp = pick { 8, 16 }, zero = zero,
        micro_batch = pick { 1, 2 }, micro_batches = pick { 4, 16 }, dtype = dtype,
        gradient_dtype = pick { dtype, "fp32" }, bucket_bytes = pick { 2e8, 1e9 },
        overlap_gradients = pick { true, false } and pp == 1, clip_gradients = pick { true, false },
        stack = "megatron_deepspeed" }
      if pp > 1 then plan.serial_sends, plan.scatter_sends = true, plan.tp > 1 end
      if zero == 3 then plan.overlap_parameters = plan.overlap_gradients end
      if zero > 0 then plan.offload_optimizer = pick { 0, 1 } end
      if zero > 1 then plan.offload_gradients = plan.offload_optimizer end
      if zero == 3 then plan.offload_weights, plan.shard = pick { 0, 1 }, pick { 4, 8 } end
      if zero > 0 and dtype == "fp32" then plan.optimizer_bytes = 12 end -- its shards are copies
      if zero == 0 then plan.gradient_dtype = dtype end
      plan.reduce_dtype = pick { "bf16", "fp32" }
      plan.gradient_all_reduce = (zero == 1 or zero == 2) or zero == 3 and pick { true, false } or nil
      if zero == 0 and dtype == "bf16" and pp > 1 then plan.dtype, plan.gradient_dtype = "fp16", "fp16" end
      local ok, e = pcall(estimate.new, { model = model, plan = plan, cluster = "dgx_h100" })
      if ok then
        local text, left_out = export.text("deepspeed", model, e.plan)
        for _, sentence in ipairs(left_out) do
          for _, name in ipairs { "optimizer_bytes", "gradient_dtype", "reduce_dtype", "gradient_all_reduce" } do
            assert.is_nil(sentence:find(name, 1, true), sentence)
          end
        end
        local again, notes = read("random.json", text, model, { seq = 2048, tp = plan.tp, pp = pp, stack = plan.stack })
        assert.equal(zero == 0 and plan.dtype == "bf16" and 1 or 0, #notes)
        assert.equal(plan.dp, again.dp)
        same_step(model, plan, again)
        compared = compared + 1
      end
    end
    assert.is_true(compared >= 20, compared)
  end)

  it("leaves 'auto' to the plan, and takes two of three batch numbers", function()
    local text = [[{ "train_batch_size": %s, "train_micro_batch_size_per_gpu": %s, "gradient_accumulation_steps": %s,
      "bf16": { "enabled": true }, "zero_optimization": { "stage": 3, "reduce_bucket_size": "auto",
      "offload_optimizer": { "device": "nvme" }, "zero_quantized_weights": true } }]]
    local auto = '"auto"'
    local given = { dp = 8, micro_batch = 2, global_batch = 32 }
    local plan, notes = read("ds.json", text:format(auto, auto, auto), nil, given)
    assert.same({ 8, 2, 32, 3, true, true, 1, "bf16", "bf16" }, { plan.dp, plan.micro_batch, plan.global_batch,
      plan.zero, plan.overlap_gradients, plan.overlap_parameters, plan.offload_optimizer, plan.dtype,
      plan.gradient_dtype })
    assert.same({ "offload_optimizer to nvme is modelled as offloading to the host's memory",
      "the file does not name the training program; stack=transformers or stack=megatron_deepspeed adds its costs, "
        .. "most of the step if experts run in a loop",
      "fields of zero_optimization that are not modelled: zero_quantized_weights" }, notes)
    assert.equal(8, read("ds.json", text:format(64, 2, 4)).dp)
    assert.same({ 4, 64 }, { read("ds.json", text:format(64, 2, auto), nil, { dp = 4 }).dp,
      read("ds.json", text:format(64, 2, auto), nil, { dp = 4 }).global_batch })
    assert.is_nil(read("ds.json", text:format(64, 1 << 32, 1 << 32)).dp) -- their product is 0 in 64 bits
    plan = read("ds.json", text:format(auto, 2, 4), nil, { dp = 4 })
    assert.same({ 4, 2, 4 }, { plan.dp, plan.micro_batch, plan.micro_batches })
  end)

  it("has DeepSpeed's own numbers of a batch where the file leaves some out", function()
    local function batch(text, given)
      given = given or { dp = 8 }
      local plan = read("ds.json", "{ " .. text .. " }", nil, given)
      return { plan.micro_batch or "-", plan.micro_batches or "-", plan.global_batch or "-" }
    end
    assert.same({ 32, "-", 256 }, batch '"train_batch_size": 256')
    assert.same({ 4, "-", 64 }, batch '"train_batch_size": 64, "gradient_accumulation_steps": 2')
    assert.same({ 4, 1, "-" }, batch '"train_micro_batch_size_per_gpu": 4')
    assert.same({ 8, "-", 64 }, batch('"train_batch_size": 256', { dp = 8, global_batch = 64 }))
    assert.same({ 4, "-", 64 }, batch('"train_micro_batch_size_per_gpu": 4', { dp = 8, global_batch = 64 }))
    assert.same({ "-", "-", 64 }, batch('"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto"'))
    assert.same({ "-", "-", 64 }, batch("", { dp = 8, global_batch = 64 }))
    assert.same({ "-", 3, "-" }, batch("", { dp = 8, micro_batches = 3 }))
    assert.matches("a batch of 64 sequences must be a multiple of gradient_accumulation_steps %* dp = 24",
      raised(batch, '"train_batch_size": 64, "gradient_accumulation_steps": 3'))
  end)

  it("has the types of the words, else those of DeepSpeed's defaults", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "%s": { "enabled": %s },
      "zero_optimization": { "stage": %d } }]]
    local function types(given, ...)
      given.dp, given.stack = 8, "transformers"
      local plan, notes = read("ds.json", text:format(...), nil, given)
      return { plan.dtype, plan.gradient_dtype, plan.overlap_parameters, #notes }
    end
    assert.same({ "bf16", "bf16", nil, 1 }, types({}, "bf16", "true", 0))
    assert.same({ "bf16", "bf16", nil, 0 }, types({}, "bf16", "true", 1))
    assert.same({ "fp32", "fp32", nil, 1 }, types({}, "bf16", '"auto"', 1))
    assert.same({ "bf16", "bf16", true, 0 }, types({ dtype = "bf16", zero = 3 }, "bf16", '"auto"', 1))
    assert.same({ "fp16", "fp16", nil, 0 }, types({}, "fp16", "true", 0))
    assert.same({ "bf16", "bf16", nil, 0 }, types({}, "bfloat16", "true", 2)) -- the older name
  end)

  it("shards the states of bf16 without ZeRO where DeepSpeed does", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
      "%s": { "enabled": true }%s }]]
    local function of(type, more, given)
      given = require("ett.base.merged")({ dp = 8, stack = "transformers" }, given or {})
      local plan, notes = read("ds.json", text:format(type, more or ""), nil, given)
      return { plan.zero, plan.gradient_dtype, plan.reduce_dtype or "-", plan.gradient_all_reduce or false, notes[1] }
    end
    local older = "DeepSpeed before #7515 (2025) shards these states, with fp32 sums: zero=1 gradient_dtype=fp32"
    assert.same({ 0, "bf16", "-", false, older }, of "bf16")
    assert.same({ 1, "bf16", "-", true, "DeepSpeed's pipelines in bf16 shard the optimizer states without ZeRO, too "
      .. "(zero=1)" }, of("bf16", nil, { pp = 2 }))
    local sums = ', "data_types": { "grad_accum_dtype": "fp32" }'
    local newer = "without ZeRO, fp32 sums of bf16 come with sharded states (zero=1); DeepSpeed since #7790 (2026) "
      .. "refuses them"
    assert.same({ 1, "fp32", "bf16", true, newer }, of("bf16", sums))
    assert.same({ 0, "fp32", "bf16", false }, of("bf16", sums, { zero = 0 }))
    assert.same({ 1, "fp32", "bf16", true }, of("bf16", nil, { zero = 1, gradient_dtype = "fp32" })) -- as advised
    assert.same({ 0, "fp16", "-", false }, of("fp16", nil, { pp = 2 }))
    assert.same({ 0, "fp32", "fp16", false, "DeepSpeed without ZeRO refuses grad_accum_dtype = fp32 with weights in "
      .. "fp16" }, of("fp16", sums))
  end)

  it("overlaps reductions of gradients only without DeepSpeed's pipelines", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "fp16": { "enabled": true },
      "zero_optimization": { "stage": 1, "overlap_comm": true } }]]
    local function of(pp)
      local plan, notes = read("ds.json", text, nil, { dp = 8, stack = "gpt_neox", pp = pp, tp = 2 })
      return { plan.overlap_gradients, plan.serial_sends or false, plan.scatter_sends or false, notes[1] }
    end
    assert.same({ true, false, false }, of(nil))
    assert.same({ true, false, false }, of(1))
    assert.same({ false, true, true, "overlap_comm: DeepSpeed's pipelines do not overlap reductions" }, of(4))
  end)

  it("reduces gradients with DeepSpeed's messages", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
      "bf16": { "enabled": true }%s, "zero_optimization": { "stage": %d, "reduce_bucket_size": 1000%s } }]]
    local function of(stage, zero, more, given)
      given = require("ett.base.merged")({ dp = 8, stack = "transformers" }, given or {})
      local plan, notes = read("ds.json", text:format(more or "", stage, zero or ""), nil, given)
      return { plan.gradient_dtype, plan.reduce_dtype or "-", plan.bucket_bytes or "-", plan.gradient_all_reduce,
        notes[1] }
    end
    local sums, scatters = ', "data_types": { "grad_accum_dtype": "fp32" }', ', "reduce_scatter": false'
    local by_rank = ', "use_multi_rank_bucket_allreduce": false'
    local note = "use_multi_rank_bucket_allreduce = false: a reduction to each rank is modelled as a reduce_scatter"
    for stage = 1, 2 do
      assert.same({ "bf16", "-", 2000, true }, of(stage))
      assert.same({ "bf16", "-", 2000, true }, of(stage, by_rank .. scatters))
      assert.same({ "bf16", "-", 2000, false, note }, of(stage, by_rank))
      assert.same({ "fp32", "bf16", 2000, true }, of(stage, nil, sums))
    end
    assert.same({ "fp32", "bf16", 2000, true }, of(1, by_rank, sums)) -- BF16_Optimizer
    assert.same({ "fp32", "bf16", 2000, false, note }, of(2, by_rank, sums))
    assert.same({ "bf16", "-", "-", false }, of(3))
    assert.same({ "bf16", "-", "-", true }, of(3, scatters))
    assert.same({ "bf16", "-", "-", false }, of(3, scatters .. ', "contiguous_gradients": false'))
    assert.same({ "bf16", "fp32", 4000, true }, of(1, nil, ', "communication_data_type": "fp32"'))
    assert.same({ "bf16", "fp32", 4000, true }, of(1, nil, ', "sequence_parallel_size": 4'))
    assert.same({ "bf16", "-", 2000, true }, of(1, nil, ', "seq_parallel_communication_data_type": "bf16"', { cp = 4 }))
  end)

  it("states the type of messages where DeepSpeed's default differs", function()
    local model = model_module.new "llama3-8b"
    local function types(plan)
      plan.seq, plan.dp, plan.micro_batches, plan.zero = 1024, 4, 4, 2
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = plan }
      local config = require("ett.json").decode((export.text("deepspeed", model, e.plan)))
      return { config.communication_data_type or "-", config.seq_parallel_communication_data_type or "-" }
    end
    assert.same({ "fp32", "-" }, types {})
    assert.same({ "-", "-" }, types { reduce_dtype = "bf16" })
    assert.same({ "-", "-" }, types { cp = 2, cp_method = "ulysses" })
    assert.same({ "-", "bf16" }, types { cp = 2, cp_method = "ulysses", reduce_dtype = "bf16" })
  end)

  it("states only what DeepSpeed runs without ZeRO and at stages 1 and 2", function()
    local model = model_module.new "llama3-8b"
    local function exported(plan)
      plan.seq, plan.dp, plan.micro_batches, plan.stack = 1, 8, 4, "transformers"
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = plan }
      local text, left_out = export.text("deepspeed", model, e.plan)
      return { require("ett.json").decode(text).data_types.grad_accum_dtype, table.unpack(left_out) }
    end
    local sums = "gradient_dtype = 'fp32': without ZeRO, DeepSpeed adds up gradients in the type of the weights"
    assert.same({ "fp16", sums }, exported { zero = 0, dtype = "fp16" })
    assert.same({ "fp16" }, exported { zero = 0, dtype = "fp16", gradient_dtype = "fp16" })
    assert.same({ "bf16", sums, "zero = 0 in bf16: DeepSpeed before #7515 (2025) refuses sums in bf16" },
      exported { zero = 0 })
    assert.same({ "bf16", "zero = 0: DeepSpeed's pipelines shard the optimizer states of bf16",
      "pp = 2: set by the training script, not by DeepSpeed's configuration",
      "serial_sends = false: DeepSpeed's stages compute nothing while they send" },
      exported { zero = 0, pp = 2, gradient_dtype = "bf16" })
    assert.same({ "fp32" }, exported { zero = 2, gradient_all_reduce = true })
    assert.same({ "fp32", "dtype = 'fp8'" }, exported { zero = 0, dtype = "fp8" })
    assert.same({ "fp32", "gradient_all_reduce = false: DeepSpeed all-reduces gradients at stage 2" },
      exported { zero = 2 })
  end)

  it("has the states of its optimizer, and null in place of absent fields", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "gradient_clipping": %s,
      "optimizer": %s, "fp16": null,
      "zero_optimization": { "stage": 3, "overlap_comm": null, "offload_param": null } }]]
    local function states(optimizer, clip, given)
      given = given or {}
      given.dp, given.stack = 8, "transformers"
      local plan, notes = read("ds.json", text:format(clip or "1.0", optimizer), nil, given)
      return { plan.optimizer_bytes or 12, plan.clip_gradients, plan.overlap_gradients, notes[1] or plan.optimizer }
    end
    assert.same({ 12, true, true }, states "null")
    assert.same({ 12, true, true, "optimizer.type = onebitadam: its compressed messages are not modelled, "
      .. "gradients are reduced in full" }, states('{ "type": "OneBitAdam" }', '"auto"'))
    assert.matches("onebitlamb: its compressed messages", states('{ "type": "OneBitLamb" }')[4], 1, true)
    assert.same({ 8, false, true }, states('{ "type": "Lion" }', "0"))
    assert.same({ 12, true, true, "optimizer.type = sophia is modelled as Adam" }, states '{ "type": "Sophia" }')
    assert.same({ 12, true, true, "muon" }, states '{ "type": "Muon" }')
    assert.same({ 12, true, true }, states("null", nil, { dtype = "fp32" })) -- ZeRO copies the weights
    assert.equal(8, states("null", nil, { dtype = "fp32", zero = 0 })[1])
    assert.equal(4, states('{ "type": "SGD" }', nil, { dtype = "fp32", zero = 0 })[1])
    assert.equal(12, states("null", nil, { dtype = "bf16", zero = 0 })[1])
  end)

  it("takes AutoTP's and Ulysses' ranks, unless words replace them", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
      "tensor_parallel": { "autotp_size": %s }, "sequence_parallel_size": %s }]]
    local function degrees(tp, cp, given)
      local plan = read("ds.json", text:format(tp, cp), nil, given or { dp = 8 })
      return { plan.tp or "-", plan.cp or "-", plan.cp_method or "-" }
    end
    assert.same({ 4, 2, "ulysses" }, degrees(4, 2))
    assert.same({ "-", "-", "-" }, degrees(0, 0))
    assert.same({ 1, 1, "-" }, degrees(1, 1))
    assert.same({ 8, 4, "ring" }, degrees(4, 2, { dp = 8, tp = 8, cp = 4, cp_method = "ring" }))
  end)

  it("says that it does not state recomputation", function()
    local model = model_module.new "llama3-8b"
    local plan = { seq = 2048, dp = 8, micro_batches = 4, zero = 1, recompute = "full", stack = "megatron_deepspeed" }
    local e = estimate.new { model = model, plan = plan, cluster = "dgx_h100" }
    local text = export.text("deepspeed", model, e.plan)
    local _, notes = read("full.json", text, model, { stack = plan.stack })
    assert.same({ "the file does not state which layers are recomputed; add recompute=full or policy if the program "
      .. "does" }, notes)
    _, notes = read("full.json", text, model, { stack = plan.stack, recompute = "full" })
    assert.same({}, notes)
    text = text:gsub('"activation_checkpointing": {', '%0 "cpu_checkpointing": true,')
    assert.equal(1, read("full.json", text, model, { stack = plan.stack, recompute = "full" }).offload_activations)
    assert.is_nil(read("full.json", text, model, { stack = plan.stack, recompute = "none" }).offload_activations)
  end)

  it("takes AutoEP's ranks, and notes all that is not modelled", function()
    local model = model_module.new "qwen3-30b-a3b"
    local function of(text, given)
      given = given or { dp = 8 }
      given.stack = "transformers"
      return read("ds.json", '{ "train_micro_batch_size_per_gpu": 1, ' .. text .. " }", model, given)
    end
    local experts = '"expert_parallel": { "enabled": %s, "autoep_size": 8, "preset_model": "qwen3_moe" }'
    local plan, notes = of(experts:format "true")
    assert.same({ 8, 0 }, { plan.ep, #notes })
    assert.equal(4, of(experts:format "true", { dp = 8, ep = 4 }).ep)
    assert.is_nil(of(experts:format "false").ep)
    plan, notes = of [["sequence_parallel": { "enabled": true, "size": 4 }, "compile": { "deepcompile": true },
      "fp8": { "enabled": true }, "amp": { "enabled": false }, "communication_data_type": "fp32",
      "sparse_gradients": false, "_comment": "a run", "steps_per_print": 10, "scheduler": { "type": "WarmupLR" },
      "bf16": { "enabled": true, "loss_scale": 0, "bf16_master_weights_and_grads": true },
      "optimizer": { "type": "AdamW", "params": { "lr": "auto" } }]]
    assert.is_nil(plan.cp)
    assert.equal("fp32", plan.reduce_dtype)
    assert.same({ "DeepSpeed before #7515 (2025) shards these states, with fp32 sums: zero=1 gradient_dtype=fp32",
      "fields of bf16 that are not modelled: bf16_master_weights_and_grads",
      "not modelled: compile, fp8, sequence_parallel" }, notes)
  end)

  it("is read with the comments and commas that DeepSpeed allows", function()
    local text = [[# a run
{ // the batch
  "train_micro_batch_size_per_gpu": 2, /* two, "not" 3,
  */ "gradient_accumulation_steps": 4, # steps
  "_comment": "no // comment, \"# either\\",
  "zero_optimization": { "stage": 3, }, // the end }
}
]]
    for _, name in ipairs { "ds.json", "ds.conf" } do
      local plan = read(name, text, nil, { dp = 8 })
      assert.same({ 2, 4, 3 }, { plan.micro_batch, plan.micro_batches, plan.zero })
    end
    assert.equal(512, read("run.conf", "# a run\n[training]\nseq_len = 512\n", nil, { dp = 8 }).seq)
    local ok, why = pcall(read, "ds.json", '{ // one\n  "a": ]\n}')
    assert.is_false(ok)
    assert.matches("^[^:]*/ds%.json:2:8: ", tostring(why))
  end)

  it("is read as Hjson, as DeepSpeed does", function()
    local text = [=[
{
  train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 4
  zero_optimization: {
    stage: 3 // of three
    offload_optimizer: { device: 'cpu' }
    offload_param: {
      device: cpu
    },
    reduce_bucket_size: 5e8
  }
  optimizer: { type: Lion
    params: { betas: [0.9
      0.99,], lr: auto // "auto", too
  } }
  bf16: { enabled: true }
  job: http://host, a "name" # all of the line
}
]=]
    local wanted, notes = read("ds.json", [=[{ "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
      "zero_optimization": { "stage": 3, "offload_optimizer": { "device": "cpu" },
        "offload_param": { "device": "cpu" }, "reduce_bucket_size": 5e8 }, "optimizer": { "type": "Lion" },
      "bf16": { "enabled": true }, "job": "x" }]=], nil, { dp = 8 })
    assert.same({ 1, 1, 8 }, { wanted.offload_weights, wanted.offload_optimizer, wanted.optimizer_bytes })
    for _, own in ipairs { text, (text:gsub("\n", "\r\n")), text:match "^{(.*)}\n$" } do
      for _, name in ipairs { "ds.json", "ds.hjson" } do
        assert.same({ wanted, notes }, { read(name, own, nil, { dp = 8 }) })
      end
    end
    local hjson, json = require "ett.import.trainer.hjson", require "ett.json"
    for own, value in pairs { ["{ a: 'it\\'s \"x\\\\\"' }"] = 'it\'s "x\\"', ["{ 'a': 007\n}"] = "007",
      ["a: 1 /* x */"] = 1, ["{ a: 'x\n}"] = "'x", ["{ a: true, }"] = true, ["{ a: truth\n}"] = "truth",
      ['{ a: x // y\n}'] = "x // y" } do
      assert.same({ a = value }, json.decode(hjson(own)), own)
    end
    for own, line in pairs { ["{\na: 1,, b: 2 }"] = 2, ["{ a b: 1 }"] = 1, ["{ a: 1\n} b"] = 2,
      ["{\n a: [1\n }"] = 3, ["{ a: 'x"] = 1, ['a: "x'] = 1 } do
      local decoded, why = json.decode(hjson(own))
      assert.is_nil(decoded)
      assert.matches(("json:%d:"):format(line), tostring(why), 1, true)
    end
  end)

  it("is refused if the program chooses the batch", function()
    for text, name in pairs { ['"gradient_accumulation_steps": "auto"'] = "gradient_accumulation_steps",
      ['"train_batch_size": "auto"'] = "train_batch_size" } do
      assert.equal(("%s/ds.json: %s is 'auto': give micro_batches=N or global_batch=N"):format(folder, name),
        raised(read, "ds.json", "{ " .. text .. " }", nil, { dp = 8 }))
    end
  end)

  it("has MiCS as shards of stage 3", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "zero_optimization": { "stage": %d, "mics_shard_size": %d,
      "mics_hierarchical_params_gather": %s } }]]
    local function shard(...)
      local plan, notes = read("ds.json", text:format(...), nil, { dp = 64, stack = "transformers", micro_batches = 1 })
      return { plan.shard or 0, notes[1] }
    end
    assert.same({ 8 }, shard(3, 8, "false"))
    assert.same({ 0 }, shard(3, -1, "false"))
    assert.same({ 8, "mics_hierarchical_params_gather is modelled as a gather by the cluster's collectives" },
      shard(3, 8, "true"))
    assert.same({ 0, "mics_shard_size = 8 has no effect at stage 2" }, shard(2, 8, "false"))
    local e = estimate.new { model = model_module.new "llama3-8b", cluster = "dgx_h100", plan = { seq = 1, dp = 16,
      zero = 1, shard = 8, micro_batches = 4 } }
    local _, left_out = export.text("deepspeed", model_module.new "llama3-8b", e.plan)
    assert.equal("shard = 8: DeepSpeed's MiCS is for stage 3", left_out[1])
  end)

  it("states no share of offloaded weights, which DeepSpeed refuses", function()
    local model = model_module.new "llama3-8b"
    local function exported(share)
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 1, dp = 8, micro_batches = 4,
        zero = 3, offload_weights = share, overlap_parameters = true, overlap_gradients = true } }
      local text, left_out = export.text("deepspeed", model, e.plan)
      return require("ett.json").decode(text).zero_optimization.offload_param, left_out
    end
    assert.same({ { device = "cpu" }, {} }, { exported(1) })
    assert.same({ { device = "cpu" }, { "offload_weights = 0.5: DeepSpeed moves all weights or none" } },
      { exported(0.5) })
  end)

  it("has shares of offloaded states at stage 3 only", function()
    local text = [[{ "train_micro_batch_size_per_gpu": 1, "zero_optimization": { "stage": %d,
      "offload_optimizer": { "device": "cpu", "ratio": 0.5 }, "offload_param": { "device": "cpu", "ratio": 0.5 } } }]]
    local plan = read("ds.json", text:format(3), nil, { dp = 8 })
    assert.same({ 0.5, 1 }, { plan.offload_optimizer, plan.offload_weights })
    assert.equal(1, read("ds.json", text:format(2), nil, { dp = 8 }).offload_optimizer)
    local model = model_module.new "llama3-8b"
    local function exported(zero)
      local e = estimate.new { model = model, cluster = "dgx_h100", plan = { seq = 1, dp = 8, micro_batches = 4,
        zero = zero, offload_optimizer = 0.5, offload_gradients = zero > 1 and 0.5 or 0, overlap_gradients = true,
        overlap_parameters = zero == 3 or nil, gradient_all_reduce = zero == 2 } }
      local written, left_out = export.text("deepspeed", model, e.plan)
      return { require("ett.json").decode(written).zero_optimization.offload_optimizer, left_out }
    end
    assert.same({ { device = "cpu", ratio = 0.5 }, {} }, exported(3))
    local left = { "offload_optimizer = 0.5: before stage 3 DeepSpeed moves all states or none" }
    assert.same({ { device = "cpu" }, left }, exported(2))
  end)

  it("is refused where it is no configuration", function()
    for text, message in pairs { ["[1"] = ".", ["3"] = "must hold fields with names, got 3",
      ['{ "fp16": 1 }'] = "'fp16' must hold fields with names, got 1",
      ['{ "zero_optimization": { "stage": "x" } }'] = "zero_optimization.stage must be a number, got 'x'",
      ['{ "bf16": { "enabled": 1 } }'] = "bf16.enabled must be true or false, got 1" } do
      assert.matches(message, raised(read, "bad.json", text), 1, message ~= ".")
    end
    for name, given in pairs { ["a.json"] = { zero = "x" }, ["b.json"] = { pp = "x" }, ["a.toml"] = { tp = "x" } } do
      assert.matches("^plan: field '%w+' must be ", raised(read, name, name:find "json" and "{}" or "", nil, given))
    end
  end)
end)

describe("a plan of GPT-NeoX", function()
  -- configs/20B.yml of EleutherAI/gpt-neox, without most of the fields that change no step.
  local text = [[
# comment
{
  "pipe-parallel-size": 4,
  "model-parallel-size": 2,
  "num-layers": 44, "hidden-size": 6144, "num-attention-heads": 64, "seq-length": 2048, "rotary_pct": 0.25,
  "optimizer": { "type": "Adam", "params": { "lr": 0.97e-4, "betas": [0.9, 0.95], } },
  "zero_optimization": { "stage": 1, "allgather_bucket_size": 1260000000, "overlap_comm": True,
    "reduce_bucket_size": 1260000000, },
  "train_micro_batch_size_per_gpu": 4, "gas": 32, "data-impl": "mmap",
  "checkpoint-activations": true, "checkpoint-num-layers": 1, "synchronize-each-layer": true,
  "fp16": { "fp16": true, "enabled": true }, "train-iters": 150000,
}]]
  local model = model_module.new("gpt", { layers = 44, hidden = 6144, heads = 64, vocab = 50432, position = "rope" })
  local function changed(...)
    local own = text
    for _, change in ipairs { ... } do
      local name = change:match('^"([%w_-]+)": '):gsub("-", "%%-")
      own = own:gsub(('"%s": %%b{},'):format(name), ""):gsub(('"%s": [^,{]*,'):format(name), "")
        :gsub("\n}$", " " .. change .. ",\n}")
    end
    return own
  end

  it("is that of DeepSpeed, with GPT-NeoX' degrees and recomputation", function()
    local plan, notes = read("20B.yml", text, model, { dp = 12 })
    local wanted = { pp = 4, tp = 2, dp = 12, seq = 2048, micro_batch = 4, micro_batches = 32, zero = 1, dtype = "fp16",
      gradient_dtype = "fp16", gradient_all_reduce = true, recompute = "full", bucket_bytes = 2.52e9,
      overlap_gradients = false, serial_sends = true, scatter_sends = true, clip_gradients = true,
      stack = "gpt_neox" }
    for name, value in pairs(wanted) do assert.equal(value, plan[name], name) end
    assert.same({ "overlap_comm: DeepSpeed's pipelines do not overlap reductions",
      "attention_config is not flash in all layers; the stack gpt_neox computes FlashAttention 2 in all layers" },
      notes)
    assert.is_true(estimate.new({ model = model, plan = plan, cluster = "dgx_a100" }).step_seconds > 0)
    plan = read("20B.yml", changed('"global_num_gpus": 96', '"gradient_clipping": 0',
      '"checkpoint-activations": false'), model, { pp = 2 })
    assert.same({ 2, 24, false, "none" }, { plan.pp, plan.dp, plan.clip_gradients, plan.recompute })
  end)

  it("follows its precision, chunks of recomputed layers, split and fused kernels", function()
    local plan, notes = read("n.yml", changed('"fp16": { "type": "bfloat16", "enabled": true }',
      '"checkpoint-num-layers": 2', '"checkpoint-in-cpu": true', '"pipe_partition_method": "uniform"',
      '"rms_norm_fusion": true', '"rope_fusion": true', '"attention_config": [[["flash"], 44]]',
      '"partition-activations": true', '"data_types": { "grad_accum_dtype": "fp32" }', '"te_mha": true',
      '"hidden-size": 8192'), model, { dp = 12 })
    assert.same({ "bf16", "fp32", "uniform", 2, 1, "gpt_neox:norm=fused:rope=1" }, { plan.dtype, plan.gradient_dtype,
      plan.recompute_method, plan.recompute_layers, plan.offload_activations, plan.stack })
    assert.same({ 11, 12, 12, 9 }, plan.split)
    assert.same({ "overlap_comm: DeepSpeed's pipelines do not overlap reductions",
      "partition_activations is not modelled: each rank stores whole inputs of layers, 2 times those of the run",
      "the file's model differs from the given one: hidden_size = 8192, not 6144", "not modelled: te_mha" }, notes)
  end)

  it("has offloading by the switches of older releases, and is refused without a length", function()
    local plan = read("z.yml", '{ "model_parallel_size": 1, "seq_length": 512, "train_micro_batch_size_per_gpu": 4,\n'
      .. '"zero_optimization": { "stage": 3, "cpu_offload": true } }', nil, { dp = 8 })
    assert.same({ 3, 1, 1, 1 }, { plan.zero, plan.offload_optimizer, plan.offload_gradients, plan.pp })
    assert.matches("missing field 'seq_length'", raised(read, "z.yml", '{ "model-parallel-size": 1 }', nil, { dp = 8 }))
    assert.matches("missing field 'train_micro_batch_size_per_gpu'; or give micro_batch=N", raised(read, "z.yml",
      '{ "model-parallel-size": 1, "seq_length": 512 }', nil, { dp = 8 }))
    assert.matches("pp %* tp %* cp = 8 must divide the file's 12 devices",
      raised(read, "z.yml", changed '"global_num_gpus": 12', nil, { pp = 4 }))
  end)
end)

describe("a plan of Accelerate", function()
  local function of(kind, lines, given)
    return read("a.yaml", ("compute_environment: LOCAL_MACHINE\ndistributed_type: %s\nmixed_precision: 'bf16'\n"
      .. "num_machines: 2\nnum_processes: 16\nrdzv_backend: static\n%s"):format(kind, lines), nil,
      require "ett.base.merged"({ seq = 2048 }, given))
  end
  local no_recompute = "the file does not state which layers are recomputed; add recompute=full if the script does"

  it("has FSDP's strategy by name and number, in both releases", function()
    for strategy, wanted in pairs { FULL_SHARD = { 3, true }, ["2"] = { 3, false }, NO_SHARD = { 0, true },
      ["3"] = { 0, true }, ["4"] = { 3, true, 8 }, HYBRID_SHARD_ZERO2 = { 3, false, 8 } } do
      local plan, notes, missing = of("FSDP", "fsdp_config:\n  fsdp_sharding_strategy: " .. strategy)
      local stack = "transformers_fsdp" .. (wanted[1] == 0 and ":copies_gradients=false" or "") -- no DDP
      assert.same({ 16, "bf16", stack, table.unpack(wanted) }, { plan.dp, plan.dtype, plan.stack,
        plan.zero, plan.reshard, plan.shard })
      assert.same({ no_recompute }, notes)
      assert.equal("not in the file: the batch of a device (1: give micro_batch=N), gradient accumulation (1 "
        .. "micro-batch: give micro_batches=N)", missing)
    end
    local one_machine = read("a.yaml", "distributed_type: FSDP\nnum_processes: 4\nfsdp_config:\n"
      .. "  fsdp_sharding_strategy: HYBRID_SHARD", nil, { seq = 2048, dp = 8 })
    assert.equal(4, one_machine.shard)
    local plan, notes = of("FSDP", "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n"
      .. "  fsdp_activation_checkpointing: true\n  fsdp_offload_params: true\n  fsdp_cpu_ram_efficient_loading: true\n"
      .. "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 2\n"
      .. "  parallelism_config_tp_size: 2\n  parallelism_config_cp_size: 2\n"
      .. "  parallelism_config_cp_comm_strategy: alltoall", { micro_batches = 4 })
    assert.same({ 4, 4, 2, 2, "ring", 3, false, "full", 1, 1, 1 }, { plan.dp, plan.shard, plan.tp, plan.cp,
      plan.cp_method, plan.zero, plan.reshard, plan.recompute, plan.offload_weights, plan.offload_gradients,
      plan.offload_optimizer })
    assert.same({}, notes)
    assert.matches("fsdp_sharding_strategy: unknown value 'ALL'",
      raised(of, "FSDP", "fsdp_config:\n  fsdp_sharding_strategy: ALL"))
  end)

  it("has DeepSpeed's stage, Megatron-LM's degrees, and replicas of DistributedDataParallel", function()
    local plan, notes = of("DEEPSPEED", "deepspeed_config:\n  gradient_accumulation_steps: 16\n"
      .. "  zero3_init_flag: false\n  offload_optimizer_device: cpu\n  offload_param_device: none\n  zero_stage: 2\n"
      .. "  overlap_comm: true")
    assert.same({ 2, 16, 16, 1, true, "transformers" }, { plan.zero, plan.dp, plan.micro_batches,
      plan.offload_optimizer, plan.clip_gradients, plan.stack })
    assert.same({ no_recompute, "fields of deepspeed_config that are not modelled: overlap_comm" }, notes)
    assert.matches("gradient_accumulation_steps is 'auto': give micro_batches=N or global_batch=N",
      raised(of, "DEEPSPEED", "deepspeed_config:\n  zero_stage: 2\n  gradient_accumulation_steps: auto"))
    plan = of("DEEPSPEED", "deepspeed_config:\n  zero_stage: 0")
    local no_buckets = "transformers:copies_gradients=false" -- those of DistributedDataParallel
    assert.same({ 0, 1, no_buckets }, { plan.zero, plan.micro_batches, plan.stack })
    assert.matches("deepspeed_config_file names 'x.json', which holds the plan: give that file to %-%-plan, with dp=16",
      raised(of, "DEEPSPEED", "deepspeed_config:\n  deepspeed_config_file: x.json"))
    plan, notes = of("MEGATRON_LM", "megatron_lm_config:\n  megatron_lm_tp_degree: 4\n  megatron_lm_pp_degree: 2\n"
      .. "  megatron_lm_num_micro_batches: 8\n  megatron_lm_recompute_activations: false\n"
      .. "  megatron_lm_sequence_parallelism: true\n  megatron_lm_use_distributed_optimizer: true")
    assert.same({ 4, 2, 2, 8, true, 1, "megatron" }, { plan.tp, plan.pp, plan.dp, plan.micro_batches,
      plan.sequence_parallel, plan.zero, plan.stack })
    assert.same({}, notes)
    plan = of("MEGATRON_LM", "megatron_lm_config:\n  megatron_lm_tp_degree: 4") -- absent switches are off
    assert.same({ "none", false }, { plan.recompute, plan.sequence_parallel })
    assert.is_nil(plan.zero)
    plan, notes = of("MULTI_GPU", "dynamo_config:\n  dynamo_backend: INDUCTOR")
    local fused = ":norm=compiled:cross_entropy=compiled:rope=1:gated_mlp=1:adaptive_norm=1:launch_seconds=1.2e-05"
    assert.same({ true, 16, "transformers:autocast" .. fused }, { plan.overlap_gradients, plan.dp, plan.stack })
    assert.equal("transformers", of("MULTI_GPU", "", { zero = 1 }).stack)
    assert.matches("dynamo_backend = INDUCTOR is modelled as torchtitan's compiled layers", notes[1], 1, true)
    for backend, note in pairs { EAGER = false, TENSORRT = "dynamo_backend = TENSORRT is not modelled; the stack "
      .. "transformers runs single operators" } do
      plan, notes = of("MULTI_GPU", "dynamo_config:\n  dynamo_backend: " .. backend, { recompute = "none" })
      assert.same({ "transformers:autocast", note }, { plan.stack, notes[1] or false })
    end
    assert.same({}, select(2, of("MULTI_GPU", "dynamo_config:\n  dynamo_backend: INDUCTOR", { stack = "plain",
      recompute = "none" })))
    -- The fields are those in which the stacks of torchtitan differ, without those that compiled.lua leaves out.
    local stacks = require "ett.operator.stack"
    local eager, whole = stacks.get("torchtitan_eager" .. fused), stacks.get "torchtitan"
    local left_out, others = { "base", "combine", "compared", "gather_seconds", "moe_launches", "name",
      "overlaps_context", "overlaps_tensor", "separate_projections", "source", "summary", "tensor_launches" }, {}
    for name in pairs(require "ett.base.merged"(eager, whole)) do
      if eager[name] ~= whole[name] then others[#others + 1] = name end
    end
    table.sort(others)
    assert.same(left_out, others)
    assert.matches("distributed_type: 'XLA' is not read; known are DEEPSPEED,", raised(of, "XLA", ""))
    assert.matches("tp %* pp %* cp = 3 must divide num_processes = 16", raised(of, "MULTI_GPU", "", { tp = 3 }))
    for _, processes in ipairs { "1.5", "-4", "0" } do
      assert.matches("num_processes must be a positive integer, got " .. processes:gsub("%p", "%%%0"),
        raised(read, "a.yaml", "distributed_type: FSDP\nnum_processes: " .. processes, nil, { seq = 2048 }))
    end
    assert.matches("the training script states the length of sequences, not this file: give seq=N",
      raised(read, "a.yaml", "distributed_type: FSDP\nnum_processes: 8"))
  end)
end)

describe("a plan of Transformers' arguments", function()
  local padded = "the file does not pack sequences: every sequence counts as full, and shorter ones take less time"

  it("is that of LLaMA-Factory, which repeats layers and trains adapters by default", function()
    local text = "model_name_or_path: x\nstage: sft\ntemplate: llama3\ncutoff_len: 2_048\nper_device_train_batch_size: "
      .. "2\ngradient_accumulation_steps: 8\nlearning_rate: 1.0e-4\nbf16: true\n"
    local plan, notes, missing = read("lf.yaml", text .. "finetuning_type: lora\nlora_target: all\n", nil, { dp = 8 })
    assert.same({ 2048, 2, 8, "bf16", "full", 8, true, true, "transformers:fp32_adapters" }, { plan.seq,
      plan.micro_batch, plan.micro_batches, plan.dtype, plan.recompute, plan.lora_rank, plan.lora_targets == nil,
      plan.overlap_gradients, plan.stack })
    assert.same({ { padded }, "not in the file: optim (adamw_torch_fused)" }, { notes, missing })
    plan = read("lf.yaml", text .. "finetuning_type: freeze\ndisable_gradient_checkpointing: true\n"
      .. "neat_packing: true\n", nil, { dp = 8 })
    assert.same({ 30, "none" }, { plan.frozen_layers, plan.recompute })
    assert.is_nil(plan.lora_rank)
    for trained, frozen in pairs { ["8\nuse_llama_pro: true"] = 3, ["-2"] = 0 } do
      plan, notes = read("lf.yaml", text .. "finetuning_type: freeze\nfreeze_trainable_layers: " .. trained .. "\n")
      assert.equal(frozen, plan.frozen_layers)
      assert.matches("frozen layers after the first trained one are modelled as trained", notes[1])
    end
    plan, notes = read("lf.yaml", text:gsub("sft", "pt") .. "finetuning_type: oft\noft_target: q_proj\n")
    assert.same({ 8, { "linear_qkv" } }, { plan.lora_rank, plan.lora_targets })
    assert.same({ "oft is modelled as LoRA of rank 8",
      "adapters of q_proj: ett counts k_proj and v_proj too" }, notes) -- stage pt packs sequences
    for lines, format in pairs { ["4"] = "nf4_double", ["4\ndouble_quantization: false"] = "nf4", ["8"] = "int8",
      ["4\nquantization_method: hqq"] = false, ["16\nload_in_4bit: true\nquantization_method: hqq"] = false } do
      plan, notes = read("lf.yaml", text:gsub("sft", "pt") .. "finetuning_type: lora\nquantization_bit: " .. lines
        .. "\n")
      assert.equal(format, plan.frozen_weights or false)
      assert.same(not format and { "frozen weights in 4 bits of hqq are modelled in 16 bits" } or {}, notes)
    end
    plan = read("lf.yaml", text:gsub("sft", "pt") .. "finetuning_type: lora\nlora_target: qkv_proj,o_proj\n")
    assert.matches("^transformers.*:separate_projections=false$", plan.stack)
    plan, notes = read("lf.yaml", (text:gsub("sft", "dpo"):gsub("bf16: true", "pure_bf16: true"))
      .. "finetuning_type: full\noptim: lion_8bit\n")
    assert.same({ 1, "bf16" }, { plan.optimizer_bytes, plan.gradient_dtype })
    local muon = read("lf.yaml", text .. "finetuning_type: full\noptim: muon\n")
    assert.same({ 12, "muon" }, { muon.optimizer_bytes, muon.optimizer })
    assert.matches("^dpo: a pair is two sequences of the micro%-batch; only the trained model is modelled", notes[1])
    assert.equal(2 * read("lf.yaml", text .. "finetuning_type: full\n").micro_batch, plan.micro_batch)
    assert.equal(3, read("lf.yaml", text:gsub("sft", "dpo") .. "finetuning_type: full\n", nil, { micro_batch = 3 })
      .micro_batch)
    local full = text .. "finetuning_type: full\ndeepspeed: examples/ds_z3.json\n"
    assert.matches("deepspeed names 'examples/ds_z3.json', which ett finds neither at this path nor beside the",
      raised(read, "lf.yaml", full, nil, { dp = 8 }))
    plan, notes = read("lf.yaml", full, nil, { dp = 8, zero = 2 })
    assert.same({ 2, 8, 8 }, { plan.zero, plan.dp, plan.micro_batches })
    assert.matches("DeepSpeed's other settings have their defaults", notes[1])
    assert.matches("^transformers:copies_gradients=false", read("lf.yaml", full, nil, { dp = 8, zero = 0 }).stack)
    command.write(folder, "ds_z3.json", '{ "zero_optimization": { "stage": 3,'
      .. '"offload_optimizer": { "device": "cpu" } }, "optimizer": { "type": "Lion" },'
      .. '"train_batch_size": "auto", "gradient_clipping": "auto" }')
    plan, notes = read("lf.yaml", full, nil, { dp = 8 })
    assert.equal(8, plan.optimizer_bytes)
    assert.same({ 3, 1, 2, 8, true, "transformers" }, { plan.zero, plan.offload_optimizer, plan.micro_batch,
      plan.micro_batches, plan.clip_gradients, plan.stack })
    assert.same({ padded }, notes)
  end)

  it("is that of TRL, with Liger's kernels, and its defaults noted", function()
    local text = "model_name_or_path: x\nattn_implementation: flash_attention_2\n"
      .. "per_device_train_batch_size: 4\ngradient_checkpointing: true\npacking: true\nuse_liger_kernel: true\n"
      .. "use_peft: true\nload_in_4bit: true\nlora_target_modules: [q_proj, lm_head]\noptim: adamw_8bit\n"
      .. "torch_compile: true\nmax_grad_norm: 0\nseq_wrong: 1\nhub_strategy: end\n"
    for _, given in ipairs { { zero = 3, dp = 8 }, { frozen_weights = "none" } } do -- no fp32 norms
      assert.not_matches("fp32_norms", read("trl.yaml", text, nil, given).stack)
    end
    local plan, notes, missing, _ = read("trl.yaml", text)
    assert.same({ "full", "bf16", 16, 0.05, "nf4", { "linear_qkv" }, 6, false,
      "transformers:norm=compiled:cross_entropy=compiled:rope=1:gated_mlp=1:adaptive_norm=1:launch_seconds=1.2e-05"
      .. ":norm=fused:rope=1:gated_mlp=1:cross_entropy=linear:fp32_norms" },
      { plan.recompute, plan.dtype, plan.lora_rank,
      plan.lora_dropout, plan.frozen_weights, plan.lora_targets, plan.optimizer_bytes, plan.clip_gradients,
      plan.stack })
    assert.same({ "torch_compile is modelled as torchtitan's compiled layers: fused norms, rotation, activations and "
      .. "loss, fewer launches",
      "adapters of lm_head are not modelled",
      "adapters of q_proj: ett counts k_proj and v_proj too",
      "not modelled: seq_wrong" }, notes)
    assert.equal("not in the file: the length of sequences (1024), gradient_accumulation_steps (1), the number of "
      .. "devices (dp = 1: give dp=N), bf16 (true, as in TRL), sharding, which Accelerate's file states (none: give "
      .. "zero=N)", missing)
    plan, _, missing = read("trl.yaml", "per_device_train_batch_size: 4\ndtype: bfloat16\n", nil, { lora_rank = 8 })
    assert.matches("optim (adamw_torch_fused)", missing, 1, true)
    assert.same({ "transformers", 12 }, { plan.stack, plan.optimizer_bytes }) -- adapters: no autocast, a fp32 copy
    plan, notes, missing = read("grpo.yaml", "per_device_train_batch_size: 4\nmax_prompt_length: 512\npacking: true\n"
      .. "max_completion_length: 1536\nnum_generations: 8\nfp16: true\noptim: adafactor\n", nil, { dp = 8 })
    assert.same({ 2048, "full", "fp16", 4, "transformers:autocast" }, { plan.seq, plan.recompute, plan.dtype,
      plan.optimizer_bytes, plan.stack })
    assert.matches("^only the update of the trained model is modelled", notes[1])
    assert.matches("gradient_accumulation_steps .1., gradient_checkpointing .true, as in TRL.", missing)
    plan = read("trl.yaml", "per_device_train_batch_size: 4\ntorch_dtype: bfloat16\nbf16: true\n"
      .. "optim: adamw_torch\n", nil, { seq = 512 })
    assert.same({ 4, "bf16", "transformers:update=foreach" }, { plan.optimizer_bytes, plan.gradient_dtype,
      plan.stack }) -- weights and states in bf16
    plan = read("trl.yaml", "per_device_train_batch_size: 4\ndtype: auto\n", nil, { seq = 512, zero = 3 })
    assert.equal(12, plan.optimizer_bytes)
    for lines, sequences in pairs { ["loss_type: [sigmoid, bco_pair]\nbeta: 0.1\n"] = 8, ["loss_type: kto\n"] = 4,
      ["center_rewards_coefficient: 0.01\n"] = 8, ["desirable_weight: 1.5\n"] = 4, ["reference_free: true\n"] = 8,
      ["loss_type: dapo\nnum_generations: 8\n"] = 4, ["loss_type: nll\n"] = 4, ["stage: dpo\n"] = 8 } do
      plan, notes = read("trl.yaml", "per_device_train_batch_size: 4\n" .. lines)
      assert.equal(sequences, plan.micro_batch, lines)
      assert.equal(not lines:find "nll", notes[1]:find "only the .- model is modelled" ~= nil, lines)
    end
    notes = select(2, read("trl.yaml", "per_device_train_batch_size: 4\nbeta: 0.1\n"))
    assert.matches("^beta is a field of several trainers: for pairs of sequences %(DPO%) give micro_batch=N", notes[1])
    for lines, casts in pairs { ["dtype: bfloat16\n"] = true, ["dtype: auto\n"] = true, [""] = false } do
      for zero = 0, 2, 2 do
        plan = read("trl.yaml", "per_device_train_batch_size: 4\nuse_peft: true\n" .. lines, nil, { zero = zero })
        assert.equal(casts and zero == 0, plan.stack:find "fp32_adapters" ~= nil, lines)
      end
    end
    for name, counted in pairs { ["llama3-8b"] = { "adapters of up_proj: ett counts gate_proj too" }, gpt2 = {} } do
      assert.same(counted, select(2, read("trl.yaml", "per_device_train_batch_size: 4\nuse_peft: true\n"
        .. "lora_dropout: 0\npacking: true\nlora_target_modules: [up_proj]\n", model_module.new(name))))
    end
  end)

  it("is that of Axolotl, with FSDP's fields with and without their prefix", function()
    local text = "base_model: x\nsequence_len: 4096\nmicro_batch_size: 1\nsample_packing: true\nbf16: auto\n"
      .. "gradient_accumulation_steps: 2\nwandb_project:\ndatasets:\n  - path: y\n    type: alpaca\n"
    local plan, notes = read("ax.yml", text .. "dp_shard_size: 4\ndp_replicate_size: 2\ntensor_parallel_size: 2\n"
      .. "context_parallel_size: 2\nfsdp_version: 2\nfsdp_config:\n  offload_params: true\n  state_dict_type: "
      .. "FULL_STATE_DICT\n  reshard_after_forward: false\n  activation_checkpointing: true\nadapter:\n"
      .. "lora_dropout: 0.05\n")
    assert.same({ 8, 8, 2, 2, "all_gather", 3, false, 1, "full", "bf16", "transformers_fsdp" }, { plan.dp, plan.shard,
      plan.tp, plan.cp, plan.cp_method, plan.zero, plan.reshard, plan.offload_weights, plan.recompute,
      plan.dtype, plan.stack })
    assert.same({}, notes)
    plan, notes = read("ax.yml", text .. "fsdp:\n  - shard_grad_op\n  - auto_wrap\nfsdp_config:\n"
      .. "  fsdp_limit_all_gathers: true\n  fsdp_offload_params: false\nadapter: qlora\nlora_r: 32\n"
      .. "lora_target_linear: true\nlora_dropout: 0.05\nflash_attention: true\nactivation_offloading: legacy\n", nil,
      { dp = 4, lora_dropout = 0.2 })
    assert.same({ "nf4_double", 3, false, 0, 32, 0.2, true, 1 }, { plan.frozen_weights, plan.zero, plan.reshard,
      plan.offload_weights or 0, plan.lora_rank, plan.lora_dropout, plan.lora_targets == nil,
      plan.offload_activations })
    assert.same({}, notes)
    plan, notes = read("ax.yml", text .. "expert_parallel_size: 2\ndp_shard_size: 2\nadapter: lora\n"
      .. "lora_target_modules:\n  - q_proj\n  - gate_proj\nplugins:\n  - axolotl.CutCrossEntropyPlugin\n",
      model_module.new "qwen3-30b-a3b")
    assert.same({ 4, 2, { "linear_qkv" } }, { plan.dp, plan.ep, plan.lora_targets })
    assert.matches(":cross_entropy=recomputed", plan.stack, 1, true)
    assert.same({ "adapters of gate_proj are not modelled in experts",
      "adapters of q_proj: ett counts k_proj and v_proj too" }, notes)
    local e = estimate.new { model = model_module.new "qwen3-30b-a3b", plan = plan, cluster = "dgx_h100" }
    assert.is_true(e.memory_bytes > 0)
    local function own(lines)
      return read("ax.yml", "base_model: x\nmicro_batch_size: 2\n" .. lines, nil, { dp = 8 })
    end
    local liger = "plugins: [axolotl.integrations.liger.LigerPlugin]\n"
    for lines, fields in pairs { ["liger_fused_linear_cross_entropy: true\n"] = ":cross_entropy=linear",
      ["liger_cross_entropy: true\n"] = ":cross_entropy=fused", [""] = "",
      ["liger_rms_norm: true\nliger_rope: true\nliger_glu_activation: true\n"] = ":norm=fused:rope=1:gated_mlp=1",
      ["liger_rms_norm: false\nliger_swiglu: true\n"] = ":gated_mlp=1" } do
      plan, notes = own(liger .. lines)
      assert.equal("transformers" .. fields, plan.stack)
      assert.not_matches("liger", table.concat(notes, "\n"))
    end
    assert.equal("transformers:autocast:update=foreach", read("trl.yaml", "per_device_train_batch_size: 4\n"
      .. "bf16: true\noptim: adamw_torch\nuse_liger_kernel: true\nliger_kernel_config: { rms_norm: false, rope: false, "
      .. "swiglu: false, fused_linear_cross_entropy: false }\n").stack)
    for _, lines in ipairs { liger .. "liger_fused_linear_cross_entropy: true\n",
      "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n" } do
      assert.matches(":cross_entropy=", own(lines).stack, 1, true)
      assert.not_matches("cross_entropy", own(lines .. "rl: dpo\n").stack) -- no labels, so the logits stay
    end
    plan = own("batch_size: 16\ncontext_parallel_size: 2\ngradient_checkpointing: offload\n"
      .. "optimizer: adamw_bnb_8bit\n")
    assert.same({ 8, "ring", "bf16", "full", 1, 2, "bf16" }, { plan.micro_batches, plan.cp_method, plan.dtype,
      plan.recompute, plan.offload_activations, plan.optimizer_bytes, plan.gradient_dtype })
    plan = own "adapter: qlora\nload_in_4bit: true\nbnb_config_kwargs:\n  bnb_4bit_use_double_quant: false\n"
    assert.equal("nf4", plan.frozen_weights)
    assert.equal("int8", own("adapter: lora\nload_in_8bit: true\n").frozen_weights)
    assert.equal(0.1, own("adapter: lora\nlora_dropout: 0.1\n").lora_dropout)
    assert.is_nil(own("adapter: lora\n").lora_dropout)
    local off = "lora_mlp_kernel: false\n" -- else Axolotl's kernels compute adapters
    for lines, casts in pairs { [off] = true, ["rl: dpo\n"] = true, [""] = false,
      [off .. "peft_autocast_adapter_dtype: false\n"] = false,
      [off .. "fsdp_version: 2\n"] = false, [off .. "load_in_8bit: true\n"] = false } do
      local stack = own("adapter: lora\n" .. lines).stack
      assert.equal(casts, require("ett.operator.stack").get(stack).fp32_adapters, lines)
    end
    plan, notes = own "adapter: lora\nlora_qkv_kernel: true\n"
    assert.not_matches("fp32_adapters", plan.stack)
    assert.matches("lora_qkv_kernel: adapters are modelled without these kernels", notes[1], 1, true)
    plan = own "adapter: lora\nlora_target_modules: 'layers.[\\d]+.(mlp|self_attn).(?:up|q|o)_proj'\n"
    assert.same({ { "linear_proj", "linear_qkv", "linear_up" }, 12 }, { plan.lora_targets, plan.optimizer_bytes })
    assert.matches("adapters of lm_head: the model has no such product outside experts; give lora_targets=linear_down,",
      raised(own, "adapter: lora\nlora_target_modules: [lm_head]\n"))
  end)
end)

describe("a plan of nanotron", function()
  -- examples/config_tiny_llama.yaml with other sizes.
  local text = "general:\n  seed: 42\nmodel:\n  ddp_bucket_cap_mb: 25\n  dtype: bfloat16\n  model_config:\n"
    .. "    hidden_size: 4096\n    num_hidden_layers: 30\noptimizer:\n  accumulate_grad_in_fp32: true\n"
    .. "  clip_grad: 1.0\n  zero_stage: 1\nparallelism:\n  dp: 4\n  expert_parallel_size: 1\n  pp: 2\n"
    .. "  pp_engine: afab\n  tp: 2\n  tp_linear_async_communication: true\n  tp_mode: REDUCE_SCATTER\n"
    .. "  recompute_layer: true\ntokens:\n"
    .. "  batch_accumulation_per_replica: 8\n  micro_batch_size: 2\n  sequence_length: 1024\n  train_steps: 15\n"

  it("has its degrees, batches and stages, and notes what is not modelled", function()
    local plan, notes, missing = read("n.yaml", text)
    local wanted = { dp = 4, pp = 2, tp = 2, schedule = "gpipe", sequence_parallel = true, recompute = "full",
      seq = 1024, micro_batch = 2, micro_batches = 8, zero = 1, dtype = "bf16", gradient_dtype = "fp32",
      clip_gradients = true, overlap_gradients = true, stack = "nanotron" }
    for name, value in pairs(wanted) do assert.equal(value, plan[name], name) end
    assert.same({ 18, 14 }, plan.split) -- the head counts as four layers
    assert.same({ "tp_linear_async_communication is not modelled: messages of tensor ranks are exposed",
      "the file's model differs from the given one: num_hidden_layers = 30, not 32" }, notes)
    assert.is_nil(missing)
    local e = estimate.new { model = model_module.new "llama3-8b", plan = plan, cluster = "dgx_h100" }
    assert.is_false(e.plan.overlap_parameters)
    plan = read("n.yaml", (text:gsub("  pp: 2\n", "  pp: 2\n  pp_layer_partition: [20, 12]\n")))
    assert.same({ 20, 12 }, plan.split)
    plan = read("n.yaml", "\xEF\xBB\xBF" .. text:gsub("  dtype: bfloat16\n", "")) -- a byte order mark
    assert.equal("bf16", plan.dtype)
    assert.matches("field 'pp' must be a positive integer, got 1.5", raised(function()
      local own = read("n.yaml", (text:gsub("  pp: 2\n", "  pp: 1.5\n")))
      return estimate.new { model = model_module.new "llama3-8b", plan = own, cluster = "dgx_h100" }
    end))
    assert.matches("tp_mode: unknown value 'SPLIT'; known are all_reduce, reduce_scatter",
      raised(read, "n.yaml", (text:gsub("REDUCE_SCATTER", "SPLIT"))))
  end)
end)

describe("settings that a file leaves out", function()
  local function missing(name, text, given) return (select(3, read(name, text, nil, given))) end

  it("are noted with torchtitan's defaults", function()
    local degrees = "[parallelism]\ndata_parallel_shard_degree = 4\n"
    assert.equal("not in the file: seq_len (2048), local_batch_size (8), global_batch_size (one local batch for "
      .. "each replica), mixed_precision_param (bfloat16)", missing("run.toml", degrees))
    assert.equal("not in the file: local_batch_size (8)",
      missing("run.toml", degrees, { seq = 4096, micro_batches = 2, dtype = "bf16" }))
    assert.is_nil(missing("run.toml", degrees .. "[training]\nseq_len = 1024\nlocal_batch_size = 1\n"
      .. "global_batch_size = 8\nmixed_precision_param = 'bfloat16'\n"))
  end)

  it("are noted with DeepSpeed's defaults, and a single device", function()
    local batch = '{ "train_micro_batch_size_per_gpu": 2%s }'
    assert.equal("not in the file: fp16 and bf16 (fp32; dtype=bf16 replaces it), gradient_accumulation_steps (1), the "
      .. "number of devices (dp = 1: give dp=N)", missing("ds.json", batch:format ""))
    assert.equal("not in the file: gradient_accumulation_steps (1)",
      missing("ds.json", batch:format "", { dp = 8, dtype = "bf16" }))
    local steps = ', "gradient_accumulation_steps": 4, "bf16": { "enabled": %s }'
    for _, enabled in ipairs { "true", "false" } do
      assert.is_nil(missing("ds.json", batch:format(steps:format(enabled)), { dp = 8 }))
    end
    assert.equal("not in the file: train_micro_batch_size_per_gpu ('auto': 1)", missing("ds.json",
      '{ "train_micro_batch_size_per_gpu": "auto", "bf16": { "enabled": true } }', { dp = 8, micro_batches = 4 }))
  end)

  it("are noted with MaxText's defaults", function()
    assert.equal("not in the file: max_target_length (2048), per_device_batch_size (12), dtype (bfloat16), "
      .. "dcn_data_parallelism (one slice)", missing("base.yml", "ici_fsdp_parallelism: 8\n"))
    assert.is_nil(missing("base.yml", "ici_fsdp_parallelism: 8\nmax_target_length: 1024\nper_device_batch_size: 1\n"
      .. "dtype: bfloat16\ndcn_data_parallelism: 2\n"))
    local given = { seq = 1024, micro_batch = 1, dtype = "bf16", dp = 8 }
    assert.is_nil(missing("base.yml", "ici_fsdp_parallelism: 8\n", given))
  end)

  it("are those of a precision in words", function()
    local text = "[parallelism]\ndata_parallel_shard_degree = 4\n[training]\nmixed_precision_param = 'float32'\n"
    local file, words = read("run.toml", text), read("run.toml", text, nil, { dtype = "bf16" })
    assert.same({ "fp32", 8 }, { file.dtype, file.optimizer_bytes })
    assert.same({ "bf16", nil }, { words.dtype, words.optimizer_bytes })
  end)
end)

describe("ett predict --plan", function()
  it("needs a model, and prints the file's notes", function()
    command.write(folder, "a.json", '{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4 }')
    local output, status = command.ett(folder, "predict --plan a.json")
    assert.same({ 2, "ett: predict: --plan needs --model: the file does not describe the model\n" }, { status, output })
    output, status = command.ett(folder, "predict --plan a.json --model llama3-8b seq=2048 dp=8")
    assert.equal(0, status, output)
    assert.matches("micro%-batch 1 x 4, sequence 2048, fp32", output)
    assert.matches("the file does not name the training program", output)
  end)

  it("names the file and its fields if a rule refuses the plan", function()
    command.write(folder, "t.toml", "[training]\nseq_len = 256\n[parallelism]\ntensor_parallel_degree = 3\n")
    command.write(folder, "m.sh", "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --vocab-"
      .. "size 32000 --micro-batch-size 1 --global-batch-size 2 --tensor-model-parallel-size 3 --nproc-per-node 3")
    for words, names in pairs { ["--model llama3-8b --plan t.toml dp=2"] = { "t.toml", "tensor_parallel_degree" },
      ["--megatron-args m.sh"] = { "m.sh", "--tensor-model-parallel-size" } } do
      local output = command.ett(folder, "predict " .. words)
      assert.matches(("ett: %s: plan: tp = 3 must divide heads"):format(names[1]), output, 1, true)
      assert.matches("; in the file tp is " .. names[2], output, 1, true)
    end
    assert.is_nil(command.ett(folder, "predict --model llama3-8b --plan t.toml dp=2 tp=5"):find "in the file tp")
  end)

  it("does so in all commands, for fields that no word replaces", function()
    command.write(folder, "all.conf", '{ "train_micro_batch_size_per_gpu": 3, "train_batch_size": 64,\n'
      .. '"zero_optimization": { "stage": 9 } }')
    command.write(folder, "q.yaml", "per_device_train_batch_size: 1\ncutoff_len: 512\nload_in_8bit: false\n"
      .. "quantization_bit: 8\n")
    local split = "predict --model llama3-8b --plan q.yaml tp=2"
    assert.matches("; in the file frozen_weights is quantization_bit\n", command.ett(folder, split), 1, true)
    assert.matches("LoRA rank 8, stack", command.ett(folder, split .. " frozen_weights=none"), 1, true)
    local batch, stage = "; in the file global_batch is train_batch_size", "; in the file zero is stage\n"
    for words, said in pairs { ["compare dp=8 zero=1"] = { "ett: all.conf: plan: ", batch },
      ["compare dp=8 tp=1 tp=2"] = { "ett: side A: all.conf: plan: field 'zero' must be", stage },
      ["sweep dp=8 tp=1,2"] = { "ett: all.conf: sweep: plan: field 'zero' must be", stage },
      ["sweep dp=8 zero=1,2"] = { "ett: all.conf: sweep: no plan is valid; the first was refused: dp * ", batch },
      ["search --devices 8 dp=8 micro_batch=3"] = { "ett: all.conf: search: no layout: each one violates", batch } } do
      local output = command.ett(folder, words .. " seq=2048 --model llama3-8b --plan all.conf")
      assert.matches(said[1], output, 1, true)
      assert.matches(said[2], output, 1, true)
    end
    command.write(folder, "t.toml", "[parallelism]\ntensor_parallel_degree = 3\n")
    for _, words in ipairs { "sweep dp=8 tp=3,5", "search --devices 24 --vary tp=3,5 --global-batch 8" } do
      assert.is_nil(command.ett(folder, words .. " --model llama3-8b --plan t.toml"):find "in the file tp")
    end
    command.write(folder, "bad.conf", '{ "zero_optimization": {')
    assert.matches("^ett: bad.conf:1:%d+: expected [^\n]*; the file is read as DeepSpeed's JSON\n$",
      (command.ett(folder, "predict --model llama3-8b --plan bad.conf")))
  end)

  it("says what a file is that no trainer reads", function()
    local said = { ["missing.sh"] = "cannot read 'missing.sh': no such file or directory",
      ["."] = "cannot read '.': is a directory", ["binary.sh"] = "binary.sh: the file is not text in UTF-8" }
    command.write(folder, "binary.sh", "\127ELF\0\255\254")
    for _, ending in ipairs { "sh", "toml", "json", "yml" } do
      command.write(folder, "empty." .. ending, " \n")
      said["empty." .. ending] = ("empty.%s: the file is empty"):format(ending)
    end
    for file, message in pairs(said) do
      for _, before in ipairs { "predict", "predict --model llama3-8b dp=8", "sweep pp=1,2", "compare" } do
        local output, status = command.ett(folder, ("%s --plan %s"):format(before, file))
        assert.same({ "ett: " .. message .. "\n", true }, { output, status ~= 0 })
      end
    end
    for name, text in pairs { ["words.sh"] = "hello\n", ["plan.yaml"] = "tp: 4\n", ["x.toml"] = "[project]\na = 1\n",
      ["x.json"] = '{ "tp": 4 }', ["hf.yml"] = "bf16: true\n",
      ["x.txt"] = "# zero_optimization\n" } do
      command.write(folder, name, text)
      assert.matches(("^ett: %s: no trainer's file: found no section of torchtitan %%(%%[training%%], "):format(name),
        (command.ett(folder, "predict --model llama3-8b dp=8 seq=8 --plan " .. name)))
    end
    command.write(folder, "list.json", "[1]")
    assert.equal("ett: list.json: must hold fields with names, got a list\n",
      (command.ett(folder, "predict --model llama3-8b --plan list.json")))
  end)
end)

describe("a plan of MaxText's fields", function()
  local args = [[
#!/bin/bash
XLA_FLAGS=" --xla_tpu_scoped_vmem_limit_kib=98304 --2a886c8_chip_config_name=megachip_tccontrol "
MAXTEXT_ARGS="\
model_name=llama2-70b \
per_device_batch_size=%s \
%s \
max_target_length=4096 \
attention=flash dataset_type=synthetic enable_checkpointing=False steps=30 \
run_name=${WORKLOAD_NAME}"
job submit --topology 16x16 --command "python3 -m MaxText.train MaxText/configs/base.yml ${MAXTEXT_ARGS} | tee log"
]]
  local function of(batch, more, given, model)
    return read("run_recipe.sh", args:format(batch, more), model, given)
  end

  it("is read from the words of a script", function()
    local plan, notes = of("3", "ici_fsdp_parallelism=1 ici_fsdp_transpose_parallelism=-1 "
      .. "remat_policy=qkv_proj_offloaded", { dp = 256 })
    for name, value in pairs { dp = 256, tp = 1, cp = 1, ep = 1, micro_batch = 3, micro_batches = 1, seq = 4096,
      zero = 3, dtype = "bf16", gradient_dtype = "bf16", recompute = "policy", stack = "maxtext",
      overlap_parameters = true } do
      assert.equal(value, plan[name], name)
    end
    assert.is_nil(plan.shard)
    assert.same({}, notes)
    assert.equal("maxtext:attention=tokamax", of("3", "ici_fsdp_parallelism=8 use_tokamax_splash=True").stack)
    assert.equal("maxtext:one_hot_embedding", of("3", "ici_fsdp_parallelism=8 use_iota_embed=True").stack)
    assert.is_true(estimate.new { model = model_module.new "llama2-70b", cluster = "tpu_v6e", plan = plan }.fits)
  end)

  it("stores the outputs that a policy of recomputation names, on the device or the host", function()
    local function kept(policy, model)
      local plan, notes = of("3", "ici_fsdp_parallelism=8 remat_policy=" .. policy, nil, model)
      return { plan.recompute, plan.recompute_keeps or false, plan.offload_activations or 0 }, notes[1]
    end
    local hidden, qkv = 4096, (32 + 2 * 8) * 128
    assert.same({ "full", false, 0 }, (kept "full"))
    assert.same({ "none", false, 0 }, (kept "none"))
    assert.same({ "policy", { "linear_qkv" }, qkv / (hidden + qkv) }, (kept "qkv_proj_offloaded"))
    assert.same({ "policy", { "linear_proj" }, 0 }, (kept "save_out_proj"))
    assert.same({ "policy", { "linear_qkv", "linear_proj", "linear_down" }, 0 }, (kept "save_dot_except_mlpwi"))
    assert.same({ "full", false, 1 }, (kept "custom decoder_layer_input=offload"))
    assert.same({ "policy", { "linear_qkv", "flash_attention" }, 0 },
      (kept "custom context=device query_proj=device key_proj=device value_proj=device"))
    assert.same({ "policy", { "linear_up" }, hidden / (hidden + 2 * 14336) },
      (kept "custom decoder_layer_input=offload mlpwi=device"))
    assert.same({ "policy", { "linear_up" }, 1600 / (1600 + 4 * 1600) }, -- neither gated nor with a width of its own
      (kept("custom decoder_layer_input=offload mlpwi=device", model_module.new "gpt2-xl")))
    local moe = model_module.new "mixtral-8x7b"
    assert.same({ "policy", { "expert_linear2" }, 2 / 3 }, (kept("custom mlpwo=offload", moe)))
    local mixed, note = kept "custom query_proj=offload key_proj=offload"
    assert.same({ { "policy", { "linear_qkv" }, qkv / (hidden + qkv) },
      "query_proj, key_proj, value_proj are modelled as offload" }, { mixed, note })
    assert.same({ { "full", false, 0 }, "remat_policy = minimal_offloaded is modelled as full, which stores less and "
      .. "repeats more; copies to the host are not modelled" }, { kept "minimal_offloaded" })
    mixed, note = kept("custom query_proj=device key_proj=device value_proj=device", model_module.new "deepseek-v3")
    assert.same({ "full", false, 0 }, mixed)
    assert.equal("query_proj, key_proj, value_proj of latent attention are modelled as remat", note)
    assert.same({ "policy", { "flash_attention" }, 128 * 128 / (7168 + 128 * 128) }, -- v_head_dim
      (kept("custom context=offload", model_module.new "deepseek-v3")))
    local deepseek = model_module.new "deepseek-v3"
    assert.same({ "policy", { "mla_q", "mla_kv" }, 2048 / (7168 + 2048) },
      (kept("custom mla_q=offload mla_kv=offload", deepseek)))
    assert.same({ "policy", { "mla_kv" }, 7168 / (7168 + 512) },
      (kept("custom decoder_layer_input=offload mla_kv=device", deepseek)))
    assert.same({ "policy", { "linear_q_down", "linear_kv_down" }, 576 / (7168 + 1536 + 576) },
      (kept("custom query_wa_proj=device kv_wa_proj=offload", deepseek)))
    local lite = model_module.new "deepseek-v2-lite" -- without compressed queries
    assert.same({ "full", false, 0 }, (kept("custom mla_q=offload query_wa_proj=device", lite)))
    mixed, note = kept "custom mla_q=offload mla_kv=offload" -- MaxText has no such tensors here
    assert.same({ { "full", false, 0 } }, { mixed, note })
  end)

  it("has the argument's recomputation in place of the file's policy, without a note", function()
    local plan, notes = of("3", "ici_fsdp_parallelism=8 remat_policy=custom query_proj=device", { recompute = "full" })
    assert.same({ "full", {} }, { plan.recompute, notes })
    assert.is_nil(plan.recompute_keeps)
  end)

  it("is not read from comments", function()
    local text = "python3 -m MaxText.train base.yml per_device_batch_size=2 run_name=a#1 ici_fsdp_parallelism=8 \\\n"
      .. "  max_target_length=4096 # ici_fsdp_parallelism=64\n# max_target_length=16384\n"
    local plan = read("run.sh", text)
    assert.same({ 8, 2, 4096 }, { plan.dp, plan.micro_batch, plan.seq })
    plan = read("ds.hjson", "# not per_device_batch_size\n{ train_micro_batch_size_per_gpu: 3 }", nil,
      { dp = 8, seq = 2048 })
    assert.equal(3, plan.micro_batch)
  end)

  it("has the ranks of the axes, and a replica's batch of all its devices", function()
    local plan, notes = of("0.5", "ici_tensor_parallelism=4 ici_data_parallelism=2 dcn_data_parallelism=2 "
      .. "gradient_accumulation_steps=3 remat_policy=minimal weight_dtype=bfloat16 quantization=fp8", { dp = 64 })
    assert.same({ 64, 4, 2, 3, 16, 6, "fp8" }, { plan.dp, plan.tp, plan.micro_batch, plan.micro_batches, plan.shard,
      plan.optimizer_bytes, plan.dtype })
    assert.same({ "selective", { "core_attn", "layernorm", "mlp_act" } }, { plan.recompute, plan.recompute_modules })
    assert.same({}, notes)
    plan, notes = of("1", "ici_fsdp_parallelism=8 remat_policy=minimal_with_context")
    assert.same({ "selective", { "layernorm", "mlp_act" }, {} }, { plan.recompute, plan.recompute_modules, notes })
    local moe = model_module.new "mixtral-8x7b"
    plan = of("4", "ici_expert_parallelism=8 ici_fsdp_parallelism=4 capacity_factor=1.25", nil, moe)
    assert.same({ 32, 8, 1, 1.25, 3 }, { plan.dp, plan.ep, plan.etp, plan.capacity_factor, plan.zero })
    assert.is_nil(plan.pad_to_capacity)
    plan = of("4", "ici_expert_parallelism=8 ici_fsdp_parallelism=4 capacity_factor=1.25 sparse_matmul=False", nil, moe)
    assert.same({ 1.25, true }, { plan.capacity_factor, plan.pad_to_capacity })
    plan, notes = of("4", "ici_expert_parallelism=8 ici_fsdp_parallelism=4 sparse_matmul=False", nil, moe)
    assert.is_nil(plan.pad_to_capacity)
    assert.matches("computes every expert", notes[1])
    plan = of("1", "ici_fsdp_parallelism=1 ici_data_parallelism=8")
    assert.same({ 8, 0, "fp32" }, { plan.dp, plan.zero, plan.gradient_dtype or "fp32" })
  end)

  it("is read from YAML, with notes on fields that change the step", function()
    local plan, notes = read("base.yml", "model_name: llama3-8b\nper_device_batch_size: 2.0\nici_fsdp_parallelism: 8\n"
      .. "max_target_length: 8192\nremat_policy: 'none'\nscan_layers: true\nnum_vocab_tiling: 4\nopt_type: sgd\n"
      .. "shard_optimizer_over_data: false\n")
    assert.same({ 8, 2, 8192, "none" }, { plan.dp, plan.micro_batch, plan.seq, plan.recompute })
    assert.same({ "opt_type = sgd is modelled as adamw", "not modelled: num_vocab_tiling" }, notes)
  end)

  it("has no notes on MaxText's defaults", function()
    local text = "per_device_batch_size: 12.0\nmax_target_length: 2048\nremat_policy: 'full'\n"
      .. "decoder_layer_input: 'device'\ngrad_dtype: \"float32\"\nsparse_matmul: true\ncapacity_factor: -1.0\n"
      .. "expert_shard_attention_option: \"fsdp\"\nnum_vocab_tiling: 1\nshard_optimizer_over_data: False\n"
    local tensors = "context mlpwi mlpwi_0 mlpwi_1 mlpwo query_proj key_proj value_proj qkv_proj out_proj mla_q mla_kv"
    for name in tensors:gmatch "%S+" do text = text .. name .. ": 'remat'\n" end
    for name in ("data fsdp_transpose context_autoregressive autoregressive tensor"):gmatch "%S+" do
      text = text .. ("ici_%s_parallelism: 1\n"):format(name)
    end
    local plan, notes = read("base.yml", text .. "dcn_autoregressive_parallelism: 1\nici_fsdp_parallelism: -1\n", nil,
      { dp = 8 })
    assert.same({ "full", 8, {} }, { plan.recompute, plan.dp, notes })
  end)

  it("notes misspelt fields", function()
    local _, notes = read("run.sh", "python3 train.py run_name=x ici_fsdp_parallelism=8 per_device_batch_size=1 "
      .. "ici_tensr_parallelism=2 remat_polcy=minimal steps=5\n")
    assert.same({ "not modelled: ici_tensr_parallelism (did you mean ici_tensor_parallelism?), remat_polcy (did you "
      .. "mean remat_policy?)" }, notes)
  end)

  it("is refused where it leaves the plan open", function()
    for more, wanted in pairs {
      ["remat_policy=full"] = "ici_fsdp_parallelism = -1 takes the devices that are left; give dp=N, "
        .. "or --devices N to `ett search`",
      ["ici_tensor_parallelism=-1 ici_fsdp_parallelism=2"] = "ici_tensor_parallelism = -1 takes the devices that are "
        .. "left; give tp=N",
      ["ici_tensor_parallelism=-1"] = "= -1: ici_fsdp_parallelism is -1 already, and only one axis",
      ["ici_fsdp_parallelism=4 ici_pipeline_parallelism=2"] = "dcn_pipeline_parallelism must be 1, their product is 2",
      ["ici_fsdp_parallelism=4 quantization=int8"] = "quantization: unknown value 'int8'",
      ["ici_fsdp_parallelism=4 remat_policy=custom out_proj=divice"] = "out_proj: unknown value 'divice'; did you mean "
        .. "'device'?; known are device, offload, remat",
      ["ici_fsdp_parallelism=4294967296 ici_data_parallelism=4294967296"] = "their product must be below "
        .. "2^53, got 1.84e+19",
    } do
      assert.matches(wanted, raised(of, "1", more), 1, true)
    end
    assert.matches("each of the 4 replicas gets 0.5 sequences, not a whole number; give micro_batch=N",
      raised(of, "0.5", "ici_fsdp_parallelism=4"), 1, true)
    assert.matches("dp = 6 must be a multiple of the other axes' 4",
      raised(of, "1", "ici_data_parallelism=4", { dp = 6 }), 1, true)
  end)
end)
