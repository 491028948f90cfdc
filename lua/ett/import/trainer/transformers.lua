--- A plan from a YAML file of Transformers' arguments (training_args.py), as TRL and LLaMA-Factory read them, or of
--- Axolotl (utils/schemas/config.py). The file names the model, but does not describe it.
local compiled = require "ett.import.trainer.compiled"
local deepspeed = require "ett.import.trainer.deepspeed"
local error_module = require "ett.base.error"
local fsdp = require "ett.import.trainer.fsdp"
local hjson = require "ett.import.trainer.hjson"
local json = require "ett.json"
local lora = require "ett.import.trainer.lora"
local merged = require "ett.base.merged"
local plan_rules = require "ett.plan.rules"
local reader = require "ett.import.trainer.reader"
local schema = require "ett.base.schema"

local transformers = {}

local function has_line(text, name) return ("\n" .. text):find("\n" .. name .. ":") ~= nil end

--- Whether a text holds fields of Transformers, LLaMA-Factory or Axolotl.
function transformers.known(text)
  return has_line(text, "per_device_train_batch_size") or has_line(text, "finetuning_type")
    or has_line(text, "base_model") and has_line(text, "micro_batch_size")
end

--- The DeepSpeed configuration that a file names: at its path, or beside the file. nil: neither can be read.
local function deepspeed_file(name, path)
  for _, place in ipairs { name, (path:match "^(.*/)[^/]*$" or "") .. name:match "[^/]*$" } do
    local text = require("lfs").attributes(place, "mode") == "file" and require("ett.io").read(place, 1 << 20)
    if text then return error_module.must(json.decode(hjson(text), { name = place })) end
  end
end

function transformers.fields(text, path)
  local fields = error_module.must(require("ett.yaml").decode(text))
  if type(fields) ~= "table" then return fields end
  for name, value in pairs(fields) do -- YAML 1.1 has numbers such as 8_192
    if type(value) == "string" and value:find "^%d[%d_]*$" then fields[name] = tonumber((value:gsub("_", ""))) end
  end
  local own = fields.deepspeed
  if type(own) == "string" then fields.deepspeed = deepspeed_file(own, path) or own end
  return fields
end

-- Whether one of several switches is on: true, or a word such as "auto".
local function is_on(config, ...)
  local found = false
  for _, name in ipairs { ... } do
    local value, is_auto = config("", name, false, "string")
    found = found or is_auto or value ~= false and value ~= "false"
  end
  return found
end

-- The first stated number of several names; nil: none.
local function first(config, ...)
  local found
  for _, name in ipairs { ... } do
    local value = config("", name)
    found = found or value
  end
  return found
end

-- Methods whose examples are pairs of a chosen and a rejected sequence, which run in one batch: LLaMA-Factory
-- (data/collator.py, PairwiseDataCollatorWithPadding), TRL (trainer/dpo_trainer.py, concatenated_forward).
local paired = { dpo = true, ipo = true, orpo = true, rm = true, simpo = true }

-- Losses of TRL's trainers of pairs (trainer/dpo_config.py, cpo_config.py), and of single completions (kto_config.py).
local losses = { kto = "kto", apo_zero_unpaired = "kto" }
for name in ("sigmoid hinge ipo exo_pair nca_pair robust bco_pair sppo_hard aot aot_pair aot_unpaired discopop "
  .. "apo_zero apo_down sigmoid_norm simpo"):gmatch "%S+" do losses[name] = "dpo" end

-- Fields that only one of TRL's trainers has: reward_config.py, kto_config.py, dpo_config.py, cpo_config.py.
local trainers = { center_rewards_coefficient = "rm", desirable_weight = "kto", undesirable_weight = "kto",
  rpo_alpha = "dpo", reference_free = "dpo", f_divergence_type = "dpo", cpo_alpha = "dpo", simpo_gamma = "dpo" }

--- The method of TRL's file, by the fields of its trainer. `beta` alone is a field of several trainers.
local function trl_method(config)
  local kinds, found = config("", "loss_type", {}, "string"), nil
  for _, name in ipairs(type(kinds) == "table" and kinds or { kinds }) do found = found or losses[name] end
  for _, name in ipairs(schema.keys(trainers)) do
    local _, _, is_absent = config("", name, 0, name == "reference_free" and "boolean" or "string")
    if not is_absent then found = trainers[name] end
  end
  return found or config("", "stage", "sft")
end

-- The method of a file: sft, pt, dpo, …
local function method_of(config, program)
  if program == "trl" then return trl_method(config) end
  return config("", program == "axolotl" and "rl" or "stage", "sft")
end

--- Batches and lengths, with the defaults of the program.
local function set_sizes(p, config, given, program, assume)
  local usual = { axolotl = { 512, 1 }, factory = { 2048, 8 }, trl = { 1024, 8 } }
  local length = first(config, "sequence_len", "cutoff_len", "max_length", "max_seq_length")
  p.seq = given.seq or length
  local prompt, completion = first(config, "max_prompt_length"), first(config, "max_completion_length")
  if prompt and completion then p.seq = p.seq or prompt + completion end -- trl/trainer/grpo_config.py
  if not p.seq then
    p.seq = usual[program][1]
    assume("the length of sequences (%d)", p.seq)
  end
  local batch = first(config, "micro_batch_size", "per_device_train_batch_size")
  p.micro_batch = given.micro_batch or batch
  if not p.micro_batch then
    p.micro_batch = usual[program][2]
    assume("the batch of a device (%d)", p.micro_batch)
  end
  local steps = first(config, "gradient_accumulation_steps")
  if program == "axolotl" then -- utils/config/__init__.py, normalize_config
    local whole = first(config, "batch_size")
    steps = steps or whole and math.max(1, whole // p.micro_batch)
  end
  p.micro_batches = given.micro_batches or not given.global_batch and (steps or 1) or nil
  if p.micro_batches and not steps and not given.micro_batches then assume "gradient_accumulation_steps (1)" end
  if paired[method_of(config, program)] and not given.micro_batch then p.micro_batch = 2 * p.micro_batch end
end

--- Degrees. Axolotl states replicas apart from expert and context ranks.
local function set_degrees(p, config, given, model, assume)
  p.tp = given.tp or first(config, "tensor_parallel_size") or 1
  p.cp = given.cp or first(config, "context_parallel_size", "sequence_parallel_degree") or 1
  -- Axolotl's kernels of ring-flash-attn (utils/schemas/validation.py, validate_ring_attn_func).
  local method = config("", "ring_attn_func", is_on(config, "sample_packing") and "varlen_llama3" or "batch_ring")
  if p.cp > 1 then p.cp_method = method == "varlen_llama3" and "all_gather" or "ring" end
  local ep = first(config, "expert_parallel_size")
  if model.hyper.experts then p.ep = given.ep or ep end
  local shard, replicas = first(config, "dp_shard_size"), first(config, "dp_replicate_size")
  p.dp = given.dp or (shard or replicas) and (shard or 1) * (replicas or 1) * (ep or 1)
  if (replicas or 1) > 1 and shard and not given.shard then p.shard = shard * p.cp end
  if not p.dp then assume "the number of devices (dp = 1: give dp=N)" end
end

--- Precision. Axolotl and TRL take bf16 by default (axolotl/utils/schemas/config.py, trl/trainer/base_config.py).
local function set_precision(p, config, given, program, note, assume)
  local bf16, fp16 = is_on(config, "bf16", "pure_bf16", "bfloat16"), is_on(config, "fp16", "float16")
  local is_absent = select(3, config("", "bf16", false, "string"))
  if is_absent and not (bf16 or given.dtype) and (program == "axolotl" or program == "trl" and not fp16) then
    bf16 = true
    assume("bf16 (true, as in %s)", program == "trl" and "TRL" or "Axolotl")
  end
  p.dtype = given.dtype or bf16 and "bf16" or fp16 and "fp16" or "fp32"
  if not (given.dtype or bf16 or fp16) then assume "bf16 and fp16 (fp32; dtype=bf16 replaces it)" end
  if is_on(config, "fp8") and not given.dtype then note "fp8 is modelled as 16 bits; dtype=fp8 replaces it" end
end

--- Whether weights are held in bf16 without a fp32 copy. FSDP and DeepSpeed hold one (accelerate/accelerator.py).
--- Axolotl loads weights in bf16 (utils/config/__init__.py, resolve_dtype), TRL in `dtype`. LLaMA-Factory converts
--- weights to fp32 unless `pure_bf16` is true (model/adapter.py).
local function lacks_master(p, config, program, holds_copy)
  local own = { axolotl = true, factory = is_on(config, "pure_bf16") }
  for _, name in ipairs { "torch_dtype", "dtype" } do
    local value, is_auto = config("", name, "")
    own.trl = own.trl or is_auto or value == "bfloat16" -- "auto": as in the checkpoint
  end
  return own[program] and p.dtype == "bf16" and not holds_copy
end

-- Numbers of an optimizer's state per parameter, as Transformers calls it (trainer.py). Others have Adam's two.
local state_numbers = { adafactor = 0, adagrad = 1, lion = 1, rmsprop = 1, sgd = 0 }

--- Bytes of optimizer states: the fp32 copy of a weight, and the numbers of the state. holds_copy: whether weights have
--- a fp32 copy or adapters.
local function set_states(p, config, program, holds_copy, note, assume)
  local stated = config("", "optim", config("", "optimizer", "")):lower()
  local name = stated ~= "" and stated or "adamw_torch_fused"
  local muon = name:find "muon" ~= nil -- Adam's bytes are those of the weights that Adam updates
  local numbers, known, own_file = 2, muon or name:find "adam" ~= nil, config("", "deepspeed", {}, "string")
  if type(own_file) == "table" and own_file.optimizer then return end -- DeepSpeed's file states it
  if name ~= stated then assume("optim (%s)", name) end
  for _, own in ipairs(schema.keys(state_numbers)) do
    if name:find(own, 1, true) then numbers, known = state_numbers[own], true end
  end
  local pure = lacks_master(p, config, program, holds_copy)
  local bytes = (pure and 2) or 4
  if name:find "8bit" then bytes = 1 elseif name:find "4bit" then bytes = 0.5 end
  if pure then p.gradient_dtype = p.dtype end
  p.optimizer_bytes = ((pure or p.dtype == "fp32") and 0 or 4) + numbers * bytes
  local is_short = p.dtype == "bf16" or p.dtype == "fp16"
  if is_short and not (pure or holds_copy) then p.stack = p.stack .. ":autocast" end -- Accelerate's
  if name == "adamw_torch" then p.stack = p.stack .. ":update=foreach" end -- trainer.py, get_optimizer_cls_and_kwargs
  if not known then note("optimizer %s is modelled as AdamW", name) end
  if muon then p.optimizer = "muon" end
end

--- DeepSpeed's settings, in which Transformers replaces "auto".
local function set_deepspeed(p, config, given, model, note)
  local own = config("", "deepspeed", {}, "string")
  if type(own) == "string" then
    if not given.zero then
      error_module.raise("format", "deepspeed names '%s', which ett finds neither at this path nor beside the "
        .. "file; give its ZeRO stage: zero=N", own)
    end
    note("deepspeed names '%s', which is not found: DeepSpeed's other settings have their defaults", own)
    own = {}
  end
  local document = merged(own, { train_micro_batch_size_per_gpu = p.micro_batch,
    gradient_accumulation_steps = p.micro_batches or "auto", bf16 = { enabled = p.dtype == "bf16" },
    fp16 = { enabled = p.dtype == "fp16" } })
  document.train_batch_size = nil
  local fixed = merged(given, { dp = p.dp, stack = given.stack or "transformers", recompute = "none" })
  local q = error_module.wrap("deepspeed", deepspeed, reader(document, {}), fixed, model, note, function() end)
  q.tp, q.cp = nil, nil
  return merged(q, p, { zero = q.zero })
end

--- Fields of FSDP with and without their prefix, and the words of `fsdp`.
local function set_fsdp(p, config, given, note)
  local words = config("", "fsdp", {}, "string")
  words = type(words) == "table" and table.concat(words, " ") or words
  local version = first(config, "fsdp_version")
  fsdp(p, function(name, default, other)
    if name == "version" and version then return version end
    local value, _, is_absent = config("fsdp_config", "fsdp_" .. name, default, other)
    if is_absent then value, _, is_absent = config("fsdp_config", name, default, other) end
    if name == "sharding_strategy" and is_absent then
      for _, word in ipairs { "hybrid_shard_zero2", "hybrid_shard", "shard_grad_op", "no_shard" } do
        if words:find(word, 1, true) then return word end
      end
    end
    if name == "offload_params" and words:find("offload", 1, true) then return true end
    return value
  end, given, nil, note)
end

--- The kernel of the loss; nil: that of the stack. Liger computes head and loss in chunks unless told otherwise
--- (liger_kernel/transformers/monkey_patch.py). Axolotl's plugin has a field for each (integrations/liger/args.py).
--- LLaMA-Factory keeps the logits for stages that need them (model/model_utils/liger_kernel.py). Axolotl's trainers of
--- preferences are those of TRL (core/builders/rl.py). They call the model without labels, so its loss does not run.
local function loss_of(config, plugins, program)
  local method = method_of(config, program)
  local has_labels = method == "sft" or method == "pt"
  local linear, alone = is_on(config, "liger_fused_linear_cross_entropy"), is_on(config, "liger_cross_entropy")
  local changed = config("", "liger_kernel_config", {})
  local cut, _, is_absent = config("", "cut_cross_entropy", true)
  if program == "axolotl" and not has_labels then return nil end
  if plugins:find "CutCrossEntropy" and (cut or is_absent) then return "recomputed" end
  if is_on(config, "use_liger_kernel", "use_liger", "enable_liger_kernel") then
    linear = changed.fused_linear_cross_entropy ~= false and has_labels
    alone = changed.cross_entropy == true or not has_labels
  end
  return linear and "linear" or alone and "fused" or nil
end

-- Kernels of Liger without the loss: the stack's field, Axolotl's names, and the names in liger_kernel_config.
local of_liger = { { ":norm=fused", { "liger_rms_norm", "liger_layer_norm" }, { "rms_norm" } },
  { ":rope=1", { "liger_rope" }, { "rope" } },
  { ":gated_mlp=1", { "liger_glu_activation", "liger_swiglu" }, { "swiglu", "geglu" } } }

--- Fields of the stack for Liger's kernels. Axolotl's plugin takes those that the file names (integrations/liger:
--- args.py, plugin.py), and the switch of Transformers all that liger_kernel_config does not exclude.
local function liger_kernels(config, plugins)
  local all, text = is_on(config, "use_liger_kernel", "use_liger", "enable_liger_kernel"), ""
  local changed = config("", "liger_kernel_config", {})
  for _, kernel in ipairs(of_liger) do
    local has = all
    for _, name in ipairs(kernel[3]) do has = has and changed[name] ~= false end
    if plugins:find "Liger" then has = is_on(config, table.unpack(kernel[2])) or has end
    if has then text = text .. kernel[1] end
  end
  return text
end

--- The stack: fused kernels of Liger, and the kernel of attention.
local function stack_of(stack, config, given, program, note)
  local plugins = config("", "plugins", {}, "string")
  plugins = type(plugins) == "table" and table.concat(plugins, " ") or plugins
  if is_on(config, "torch_compile") then stack = stack .. compiled(note, "torch_compile", given) end
  stack = stack .. liger_kernels(config, plugins)
  local loss = loss_of(config, plugins, program)
  if loss then stack = stack .. ":cross_entropy=" .. loss end
  local attention = config("", "attn_implementation", config("", "flash_attn", config("", "attention", "")))
  if attention:find "3" then stack = stack .. ":attention=flash3" end
  if is_on(config, "flash_attn_rms_norm") then stack = stack .. ":norm=fused" end
  if attention == "eager" or attention == "disabled" or is_on(config, "eager_attention") then
    note "eager attention is modelled as FlashAttention 2"
  end
  return stack
end

--- What the backward pass repeats. LLaMA-Factory repeats all unless told otherwise (disable_gradient_checkpointing),
--- TRL unless gradient_checkpointing is false (trl/trainer/base_config.py). Axolotl's values offload and offload_disk
--- store the inputs of layers elsewhere.
local function set_recompute(p, config, given, program, assume)
  local on = is_on(config, "gradient_checkpointing")
  local value, _, is_absent = config("", "gradient_checkpointing", false, "string")
  if program == "trl" and is_absent and not given.recompute then
    on = true
    assume "gradient_checkpointing (true, as in TRL)"
  end
  if program == "axolotl" and type(value) == "string" and on then p.offload_activations = 1 end
  if program == "factory" then on = not is_on(config, "disable_gradient_checkpointing") end
  if is_on(config, "activation_offloading") then p.offload_activations = 1 end
  if not given.recompute then p.recompute = on and "full" or "none" end
end

--- Layers that LLaMA-Factory trains with finetuning_type = freeze: the last ones, 2 by default; a negative number of
--- the first ones; with use_llama_pro, layers at equal distances (model/adapter.py, _setup_freeze_tuning).
local function set_frozen(p, config, method, model, note)
  local trained, _, is_absent = config("", "freeze_trainable_layers", 0)
  local spread, layers = config("", "use_llama_pro", false), plan_rules.middle_layers(model)
  if method ~= "freeze" then return end
  trained = is_absent and 2 or trained
  if trained > 0 and not spread then
    p.frozen_layers = math.max(0, layers - trained)
  else
    p.frozen_layers = trained > 0 and math.max(0, layers // trained - 1) or 0
    note "frozen layers after the first trained one are modelled as trained, which takes more time and memory"
  end
end

--- Notes on steps that are more than a pass over one batch.
local function note_method(config, program, note)
  local stage, has_beta = method_of(config, program), not select(3, config("", "beta", 0))
  if stage ~= "sft" and stage ~= "pt" then
    note("%s: %sonly the trained model is modelled, not references (see examples/preference), rewards or generation",
      stage, paired[stage] and "a pair is two sequences of the micro-batch; " or "")
  elseif first(config, "num_generations") then
    note "only the update of the trained model is modelled, not generation, references or rewards"
  elseif has_beta and program == "trl" then
    note "beta is a field of several trainers: for pairs of sequences (DPO) give micro_batch=N, two for each pair"
  end
end

local function has_fsdp(config)
  local words, section = config("", "fsdp", {}, "string"), config("", "fsdp_config", {})
  return #words > 0 or next(section) ~= nil or first(config, "fsdp_version") ~= nil
end

function transformers.plan(config, given, model, note, assume)
  local method = config("", "finetuning_type", "")
  local program = config("", "base_model", "") ~= "" and "axolotl"
    or (method ~= "" or first(config, "cutoff_len")) and "factory" or "trl"
  local norm, _, is_absent = config("", "max_grad_norm", 0)
  local p = { clip_gradients = is_absent or norm > 0 }
  set_sizes(p, config, given, program, assume)
  set_degrees(p, config, given, model, assume)
  set_precision(p, config, given, program, note, assume)
  set_recompute(p, config, given, program, assume)
  set_frozen(p, config, method, model, note)
  note_method(config, program, note)
  local sections, is_sharded = config("", "deepspeed", {}, "string"), true
  if #sections > 0 or type(sections) == "table" and next(sections) then
    p = set_deepspeed(p, config, given, model, note)
    p.stack = "transformers" .. (p.zero == 0 and ":copies_gradients=false" or "") -- no DDP
  elseif has_fsdp(config) then
    set_fsdp(p, config, given, note)
  else
    is_sharded = (given.zero or 0) > 0
    if program == "trl" and not given.zero then
      assume "sharding, which Accelerate's file states (none: give zero=N)"
    end
    p.overlap_gradients, p.stack = (p.dp or 1) > 1, "transformers" -- DistributedDataParallel
  end
  p.stack = stack_of(p.stack, config, given, program, note)
  lora(p, config, given, program, model, note, is_sharded)
  set_states(p, config, program, is_sharded or p.lora_rank or given.lora_rank, note, assume)
  local packs = config("", "stage", "sft") == "pt" or next((config("", "pretraining_dataset", {}))) ~= nil
  if not (is_on(config, "sample_packing", "packing", "neat_packing") or packs) then
    note "the file does not pack sequences: every sequence counts as full, and shorter ones take less time"
  end
  return p
end

return transformers
