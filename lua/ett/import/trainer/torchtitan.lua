--- A plan from torchtitan's configuration. Defaults are those of torchtitan/config/job_config.py.
local architecture = require "ett.model.architecture"
local check_product = require "ett.import.trainer.product"
local error_module = require "ett.base.error"
local export = require "ett.import.export.torchtitan"

--- ett's name of a value. `names`: torchtitan's names by ett's.
local function choice(field, names, value)
  local known = {}
  for ours, theirs in pairs(names) do
    if theirs:lower() == tostring(value):lower() then return ours end
    known[#known + 1] = theirs
  end
  table.sort(known)
  error_module.raise("format", "%s: unknown value '%s'; known are %s", field, value, table.concat(known, ", "))
end

-- Fields of older releases that have another section or name now.
local moved = {
  { "training", "batch_size", "training.local_batch_size" },
  { "training", "tensor_parallel_degree", "parallelism.tensor_parallel_degree" },
  { "training", "data_parallel_shard_degree", "parallelism.data_parallel_shard_degree" },
  { "training", "data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree" },
  { "experimental", "pipeline_parallel_degree", "parallelism.pipeline_parallel_degree" },
  { "experimental", "context_parallel_degree", "parallelism.context_parallel_degree" },
}

local function refuse_old(config)
  for _, field in ipairs(moved) do
    local section, name, now = table.unpack(field)
    if config(section, name) then
      error_module.raise("format", "%s.%s: torchtitan has renamed this field; write %s", section, name, now)
    end
  end
end

local function type_of(config, name, default)
  return choice(name, { bf16 = "bfloat16", fp16 = "float16", fp32 = "float32" }, config("training", name, default))
end

--- Types of products outside experts and of experts, or nil: converters of nn.Linear leave the experts' grouped
--- products, which have their own (components/quantization: Float8LinearConverter, Float8GroupedMMConverter). Older
--- releases call them quantize.dense and quantize.moe, or have one converter and a list of experts
--- (float8.moe_fqns_prototype).
local function converted(config)
  local dense, experts
  local names = config("model", "converters", {}, "string")
  for name in (type(names) == "table" and table.concat(names, ",") or names):gmatch "[^,%s]+" do
    local dtype = name:find "float8" and "fp8" or name:find "mx" and "mxfp8" or nil
    if name:find "grouped_mm" or name:find "%.moe%." then
      experts = dtype or experts
    elseif dtype then
      dense = dtype
      if #config(dtype == "fp8" and "float8" or "mx", "moe_fqns_prototype", {}, "string") > 0 then experts = dtype end
    end
  end
  return dense, experts
end

local function set_precision(p, config, has_experts, given, note)
  p.dtype = given.dtype or type_of(config, "mixed_precision_param", "bfloat16")
  p.gradient_dtype = type_of(config, "mixed_precision_reduce", "float32")
  local dense, experts = converted(config)
  if given.dtype then return end
  if not has_experts then experts = nil end
  p.dtype = experts or dense or p.dtype
  if not has_experts or dense == experts then return end
  if dense and experts then
    note("products outside experts are in %s, and are modelled as %s", dense, experts)
  else
    p.stack = p.stack .. ":quantised_products=" .. (dense and "dense" or "experts")
  end
end

--- Without FSDP, gradients have the type of the weights (training.dtype), and under tp and pp all has it. Converted
--- products keep theirs, and their results have the type of their inputs (torchao/float8/float8_linear.py).
local function unmix(p, config, note)
  if p.zero == 3 then return end
  local whole = type_of(config, "dtype", "float32")
  p.gradient_dtype = whole
  if p.tp == 1 and p.pp == 1 then return end
  local none = "without FSDP, torchtitan has no mixed precision under tp and pp: "
  if not p.dtype:find "fp8" then
    if whole ~= p.dtype then note(none .. "all is in %s (training.dtype)", whole) end
    p.dtype = whole
  elseif whole ~= "bf16" then
    note(none .. "beside products in %s, all is in %s (training.dtype), and is modelled as bf16", p.dtype, whole)
  end
end

local float8_sections = { "float8", "quantize.linear.float8", "quantize.dense.float8" }

--- The recipe of products in fp8. With scales of rows, tensor ranks gather 16 bits (models/llama3/infra/parallelize.py:
--- enable_float8_tensorwise_tp).
local function set_recipe(p, config, note)
  for _, section in ipairs(float8_sections) do
    local recipe = config(section, "recipe_name", "tensorwise")
    if recipe ~= "tensorwise" and p.dtype == "fp8" then
      p.stack = p.stack .. ":quantised_gathers=none"
      -- torchao, docs/source/workflows/training.md: Llama 3 8B on H100, B200 and MI300X
      note("recipe_name = %s: products are modelled as tensorwise; torchao measured steps 1 to 21 %% longer", recipe)
    end
  end
end

--- Weights, gradients and optimizer states in the host's memory (torch's CPUOffloadPolicy); states in 16 bits
--- (training.dtype).
local function set_states(p, config, note)
  local offloads, optimizer = config("training", "enable_cpu_offload", false), config("optimizer", "name", "AdamW")
  if optimizer:lower():find "muon" then
    p.optimizer = "muon"
  elseif not optimizer:find "^AdamW?$" then
    note("optimizer.name = %s is modelled as AdamW", optimizer)
  end
  -- Until 2025 the field was `fused`: optimizer.py, build_optimizers ("foreach": not fused).
  local older = config("optimizer", "fused", true) == false
  local kernels = choice("optimizer.implementation", { fused = "fused", foreach = "foreach", loop = "for-loop" },
    config("optimizer", "implementation", older and "foreach" or "fused"))
  if kernels == "foreach" then p.stack = p.stack .. ":update=foreach" end
  if kernels == "loop" then note "optimizer.implementation = for-loop is modelled as fused, and takes more time" end
  if p.zero == 3 and offloads then
    p.offload_gradients, p.offload_optimizer, p.offload_weights = 1, 1, 1
  end
  if type_of(config, "dtype", "float32") ~= "fp32" then
    p.optimizer_bytes = p.zero == 3 and 6 or 4 -- FSDP's shard of the weight, and two moments
  elseif p.dtype == "fp32" then
    p.optimizer_bytes = 8 -- two moments: the weight itself is in fp32
  end
end

--- Replicas: DDP, FSDP or both. FSDP overlaps its messages, but for the gradients of pipeline stages. Without
--- resharding, weights stay whole from the forward to the backward pass of a micro-batch, of stages for the step.
local function set_replicas(p, config, given)
  local replicate = config("parallelism", "data_parallel_replicate_degree", 1)
  local shard = config("parallelism", "data_parallel_shard_degree", -1)
  if shard == -1 then
    if not given.dp then
      error_module.raise("format", "data_parallel_shard_degree = -1 takes the ranks that are left; give dp=N, or "
        .. "--devices N to `ett search`")
    elseif given.dp % replicate > 0 then
      error_module.raise("format", "dp = %s must be a multiple of data_parallel_replicate_degree = %s", given.dp,
        replicate)
    end
    shard = given.dp // replicate
  elseif shard < 1 then
    error_module.raise("format", "data_parallel_shard_degree must be above 0 or -1, got %s", tostring(shard))
  end
  check_product { data_parallel_replicate_degree = replicate, data_parallel_shard_degree = shard,
    tensor_parallel_degree = p.tp, pipeline_parallel_degree = p.pp, context_parallel_degree = p.cp,
    local_batch_size = config("training", "local_batch_size", 8) }
  p.dp = given.dp or replicate * shard
  local reshard = choice("fsdp_reshard_after_forward", { always = "always", never = "never", default = "default" },
    config("parallelism", "fsdp_reshard_after_forward", "default"))
  local fsdp = shard * p.cp > 1
  if given.zero then fsdp = given.zero == 2 or given.zero == 3 end
  if fsdp then
    p.zero, p.overlap_parameters = 3, true
    p.reshard = reshard == "always" or reshard == "default" and p.pp == 1
    if replicate > 1 and shard < p.dp and shard * p.cp > 1 then p.shard = shard * p.cp end
  end
  p.overlap_gradients = p.dp > 1 and not (p.zero == 3 and p.pp > 1)
end

-- Layers by which the first and the last stage count as fuller than they are: embedding and head; default 1.
local function counted(config, stage)
  local less = config("parallelism", ("pipeline_parallel_%s_stage_less_layers"):format(stage), -1)
  return less < 0 and 1 or less
end

--- Layers of the slices in model order; nil: evenly.
local function split_of(layers, slices, first, last)
  local each, more, list = (layers + first + last) // slices, (layers + first + last) % slices, {}
  for i = 1, slices do list[i] = each + (i <= more and 1 or 0) end
  list[1], list[slices] = list[1] - first, list[slices] - last
  return first + last > 0 and list[1] >= 0 and list[slices] >= 0 and list or nil
end

local function set_pipeline(p, config, given, layers, note)
  local batch = config("training", "local_batch_size", 8)
  local schedule = config("parallelism", "pipeline_parallel_schedule", "1F1B")
  local micro = config("parallelism", "pipeline_parallel_microbatch_size", 1)
  local each = config("parallelism", "pipeline_parallel_layers_per_stage")
  local first, last = counted(config, "first"), counted(config, "last")
  if p.pp > 1 then
    p.schedule = choice("pipeline_parallel_schedule", export.schedules, schedule)
    if each and each > 0 then
      p.vp = math.max(1, math.ceil((layers + first + last) / each) // p.pp)
    elseif p.schedule ~= "1f1b" and p.schedule ~= "gpipe" then
      p.vp = 2
    end
    local slices = math.tointeger(p.pp * (p.vp or 1)) -- nil or more than layers: the plan's check refuses pp
    if slices and slices <= layers + first + last and not given.vp then
      p.split = split_of(layers, slices, first, last)
    end
  end
  p.micro_batch = p.pp > 1 and micro or batch
  local whole = config("training", "global_batch_size", -1)
  p.global_batch = whole > 0 and whole or batch * p.dp
  if p.pp > 1 and p.global_batch > batch * p.dp then
    note("torchtitan empties the pipeline after each local batch; the plan has one pipeline run for the global batch")
  end
end

--- Selective checkpointing by operator, or of each N-th layer. Half of the layers are those of `recompute = policy`.
local function set_recompute(p, config, given, note)
  local mode = config("activation_checkpoint", "mode", "selective")
  local option = config("activation_checkpoint", "selective_ac_option", "2")
  config("activation_checkpoint", "memory_budget", 0.5)
  if given.recompute then return end
  if mode == "memory_budget" then
    error_module.raise("format", "activation_checkpoint.mode = memory_budget is not modelled: the compiler chooses "
      .. "what is repeated; give recompute=none, policy or full")
  end
  p.recompute = choice("activation_checkpoint.mode", { none = "none", policy = "selective", full = "full" }, mode)
  local every = mode == "selective" and math.tointeger(option:match "^%d+$") -- str.isdigit
  if every == 2 then
    p.stack = p.stack .. ":operator_policy=false"
  elseif every then -- 0: all layers (_apply_layer_sac)
    p.recompute = "full"
    if every == 1 or every == 0 or given.recompute_layer_ids then return end
    p.recompute_layers, p.recompute_method = every, "every"
    if (p.vp or 1) > 1 then
      note("selective_ac_option = %s: torchtitan counts its layers over all chunks of a rank, ett in each chunk",
        option)
    end
  elseif mode == "selective" and option ~= "op" then
    error_module.raise("format", "selective_ac_option must be 'op' or an integer of at least 0, got '%s'", option)
  end
end

--- The stack: layers and loss are compiled apart (models/llama3/infra/parallelize.py: model_compile_enabled;
--- components/loss.py: build_cross_entropy_loss).
local function stack_of(config)
  local enabled = config("compile", "enable", config("training", "compile", false))
  local compiled = { model = false, loss = false }
  for _, name in ipairs(config("compile", "components", { "model", "loss" })) do compiled[name] = enabled end
  local stack = compiled.model and "torchtitan" or "torchtitan_eager"
  if compiled.model == compiled.loss then return stack end
  return stack .. ":cross_entropy=" .. (compiled.loss and "compiled" or "torch")
end

-- The file's size of the model, as in "8B" or "30B-A3B", against the parameters of the given model.
local function compare_flavor(config, model, note)
  local name, flavor = config("model", "name", "llama3"), config("model", "flavor", "")
  local size = tonumber(flavor:match "^([%d%.]+)[Bb]$" or flavor:match "^([%d%.]+)[Bb]%-A[%d%.]+[Bb]$")
  local count = architecture.parameters(model) / 1e9
  if size and (count > 1.4 * size or count < size / 1.4) then
    note("the file's model is %s %s, but the given model has %.3g billion parameters", name, flavor, count)
  end
end

local function note_unmodelled(p, config, note)
  if p.zero ~= 3 and p.dp > 1 and p.tp * p.pp > 1 then -- parallelize.py: apply_ddp
    note "torchtitan refuses replicas without FSDP beside tensor or pipeline ranks: set data_parallel_shard_degree"
  end
  if config("parallelism", "disable_loss_parallel", false) and p.tp > 1 then -- apply_tp: output_layouts
    note("disable_loss_parallel is not modelled: each rank gathers whole logits, %s times those of the estimate", p.tp)
  end
  local backend = config("parallelism", "expert_parallel_comm_backend", "standard")
  if backend ~= "standard" and p.ep > 1 then
    note("expert_parallel_comm_backend = %s is modelled as standard: PyTorch's all-to-all", backend)
  end
  if config("optimizer", "early_step_in_backward", false) then
    note "early_step_in_backward is not modelled: all gradients are held until the optimizer's step"
  end
  for _, section in ipairs(float8_sections) do
    if config(section, "enable_fsdp_float8_all_gather", false) and p.zero == 3 and p.dtype == "fp8" then
      note "enable_fsdp_float8_all_gather is not modelled: weights are gathered in 16 bits"
    end
  end
end

--- Names the sizes and the precision that the file leaves to torchtitan's defaults.
local function add_missing(p, config, given, assume)
  local function is_absent(name, default) return select(3, config("training", name, default)) end
  if not given.seq and is_absent "seq_len" then assume("seq_len (%d)", p.seq) end
  if not given.micro_batch and is_absent "local_batch_size" then
    assume("local_batch_size (%d)", config("training", "local_batch_size", 8))
  end
  if not (given.global_batch or given.micro_batches) and config("training", "global_batch_size", -1) < 0 then
    assume "global_batch_size (one local batch for each replica)"
  end
  if not given.dtype and p.dtype == "bf16" and is_absent("mixed_precision_param", "") then
    assume "mixed_precision_param (bfloat16)"
  end
end

return function(config, given, model, note, assume)
  refuse_old(config)
  -- Other fields depend on the degrees, so words replace these first.
  local function degree(name, theirs)
    local own = config("parallelism", theirs .. "_parallel_degree", 1)
    return given[name] or own
  end
  local p = { seq = config("training", "seq_len", 2048), tp = degree("tp", "tensor"), pp = degree("pp", "pipeline"),
    cp = degree("cp", "context"), ep = degree("ep", "expert"),
    stack = stack_of(config) }
  p.sequence_parallel = p.tp > 1
  p.overlap_tensor = config("parallelism", "enable_async_tensor_parallel", false) and p.tp > 1 or nil
  if model.hyper.experts then p.etp = config("parallelism", "expert_tensor_parallel_degree", p.ep > 1 and 1 or nil) end
  local rotation = config("parallelism", "context_parallel_rotate_method", "allgather")
  if p.cp > 1 then p.cp_method = choice("context_parallel_rotate_method", export.methods, rotation) end
  set_precision(p, config, model.hyper.experts ~= nil, given, note)
  set_replicas(p, config, given)
  unmix(p, config, note)
  set_recipe(p, config, note)
  set_states(p, config, note)
  set_pipeline(p, config, given, model.hyper.layers, note)
  set_recompute(p, config, given, note)
  note_unmodelled(p, config, note)
  add_missing(p, config, given, assume)
  compare_flavor(config, model, note)
  p.clip_gradients = config("training", "max_norm", 1.0) < math.huge
  return p
end
