--- Converts YAML files of NeMo, Megatron-Bridge, Primus and Megatron-LM's moe_recipes to Megatron-LM's flags. Sections
--- are ignored: a key is recognised by its name, which is usually that of the flag.
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"
local null = require("ett.yaml").null
local peft = require "ett.import.megatron.peft"
local schema = require "ett.base.schema"

local nemo = {}

-- NeMo's key -> Megatron-LM's flag, if they differ by more than "_" and "-".
local renamed = { encoder_seq_length = "seq-length", num_moe_experts = "num-experts", activations_checkpoint_granularity
  = "recompute-granularity", activations_checkpoint_method = "recompute-method", activations_checkpoint_num_layers =
  "recompute-num-layers", virtual_pipeline_model_parallel_size = "num-virtual-stages-per-pipeline-rank", devices =
  "nproc-per-node", num_nodes = "nnodes", gradient_clip_val = "clip-grad", rotary_percentage = "rotary-percent",
  ub_tp_comm_overlap = "tp-comm-overlap", num_gpus_per_node = "nproc-per-node", overlap_grad_sync =
  "overlap-grad-reduce", overlap_param_sync = "overlap-param-gather", moe_router_topk = "moe-router-topk",
  sequence_length = "seq-length", moe_shared_expert_intermediate_size = "moe-shared-expert-intermediate-size",
  ngroups_mamba = "mamba-num-groups", window_size = "window-size", clip_grad = "clip-grad",
  fp8_params = "fp8-param-gather", fp8_param = "fp8-param-gather",
  num_layers_in_first_pipeline_stage = "decoder-first-pipeline-num-layers",
  num_layers_in_last_pipeline_stage = "decoder-last-pipeline-num-layers", bucket_size = "ddp-bucket-size",
  microbatch_group_size_per_vp_stage = "microbatch-group-size-per-virtual-pipeline-stage" }

-- NeMo's keys without effect on the step, and keys of unrelated sections.
local ignored = {}
for name in ([[name restore_from_path max_epochs max_steps val_check_interval check_val_every_n_epoch log_every_n_steps
  limit_val_batches limit_test_batches limit_train_batches accumulate_grad_batches benchmark enable_checkpointing logger
  replace_sampler_ddp use_distributed_sampler accelerator explicit_log_dir exp_dir project create_wandb_logger
  wandb_logger_kwargs mcore_gpt use_cpu_initialization init_method_std layernorm_epsilon
  apply_query_key_layer_scaling use_scaled_init_method pre_process post_process persist_layer_norm headscale
  transformer_block_type openai_gelu normalize_attention_scores native_amp_init_scale native_amp_growth_interval
  hysteresis fp32_residual_connection fp16_lm_cross_entropy seed resume_from_checkpoint apex_transformer_log_level
  gradient_as_bucket_view sync_batch_comm fp8_margin fp8_interval fp8_amax_history_len fp8_amax_compute_algo
  fp8_wgrad use_emha reduce_amax ub_tp_comm_overlap_cfg use_flash_attention transformer_engine masked_softmax_fusion
  bias_dropout_add_fusion get_attention_mask_from_fusion apply_rope_fusion
  grad_div_ar_fusion nsys_profile start_step end_step ranks gen_shape lr weight_decay betas warmup_steps constant_steps
  min_lr sched eps library type model merge_file vocab_file delimiter sentencepiece_legacy data_prefix index_mapping_dir
  data_impl splits_string skip_warmup num_workers dataloader_type reset_position_ids reset_attention_mask eod_mask_loss
  validation_drop_last no_seqlen_plus_one_input_tokens pad_samples_to_global_batch_size shuffle_documents
  micro_batch_size_split mmap bin_files seq_len_interpolation_factor rotary_base attention_type
  attention_softmax_in_fp32 barrier_with_L1_time deterministic_mode inspect_generated enable_megatron_timers
  megatron_timer_kwargs bucket_cap_mb contiguous_grad_bucket num_sanity_val_steps resume_if_exists
  resume_ignore_no_checkpoint create_checkpoint_callback checkpoint_callback_params log_step_timing step_timing_kwargs
  rampup_batch_size_increment fold_padding_mask nccl_communicator_config_path num_layers_in_first_stage
  target_class onnx_safe data_type variable_seq_lengths do_layer_norm_weight_decay batch_p2p_comm ffn_dropout
  enable_model_summary rope_scaling _target_ activation_func masked_softmax_fusion autocast_dtype pipeline_dtype
  params_dtype fp8_param_dtype gc_interval grad_allreduce_chunk_size_mb contiguous_grad_buffer contiguous_param_buffer
  TEST_TYPE METRICS scale_positional_embedding target nemo_version fsdp_sharded_checkpoint
  torch_distributed_checkpoint path_to_cache skip_getting_attention_mask_from_dataset
  enable_megatron_core_experimental throughput_window_size
  seconds_to_sleep max_time split_matrix check_for_nan_in_grad gradient_reduce_div_fusion preserve_fp32_weights
  use_gloo_process_groups cpu_offloading_activations cpu_offloading_weights cuda_graph_warmup_steps high_freq_factor
  low_freq_factor old_context_len scale_factor parallel_output deallocate_pipeline_outputs moe_deepep_num_sms
  decoupled_weight_decay pin_cpu_grads pin_cpu_params use_mamba_mem_eff_path peft
  auto_continue_train disable_last_saving enable_primus_turbo stderr_sink_level]])
  :gmatch "%S+" do ignored[name] = true end

local skipped_sections = { DEPENDENCIES = true, ENV_VARS = true, env_vars = true, run = true,
  exp_manager = true, hydra = true, data = true, tokenizer = true, nsys_profile = true,
  megatron_timer_kwargs = true, sched = true, gen_shape = true, logger = true, checkpoint = true, peft = true }

-- Members of Megatron-LM's AttnBackend by number.
local backends = { "flash", "fused", "unfused", "local", "auto" }

--- Whether a table is Megatron-Bridge's form of a Python object that is no section, such as an initialiser.
local function is_object(value) return value._call_ ~= nil or value._partial_ ~= nil end

--- The text of such an object: the name of a type, or of a backend of attention; nil for others.
local function text_of(object)
  local target = tostring(object._target_)
  local member = target:match "AttnBackend$" and type(object._args_) == "table" and backends[object._args_[1]]
  return member or target:match "^torch%.%l+%d+$"
end

--- Leaves of a configuration: { key =, value = }, sorted by path.
local function leaves(config, into)
  for _, key in ipairs(schema.keys(config)) do
    local value = config[key]
    if type(value) == "table" and value[1] == nil then
      if is_object(value) then
        local text = text_of(value)
        if text then into[#into + 1] = { key = key, value = text } end
      elseif not skipped_sections[key] then
        leaves(value, into)
      end
    elseif key ~= "defaults" then -- Hydra's list of further files
      into[#into + 1] = { key = key, value = value }
    end
  end
  return into
end

-- Fields that a recipe of mixed precision, given by its name, sets in other sections.
local of_recipe = {}
for name in ([[bf16 fp16 fp8 fp8_recipe fp8_param fp8_param_gather fp4 fp4_recipe first_last_layers_bf16
  num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 grad_reduce_in_fp32]]):gmatch "%S+" do
  of_recipe[name] = true
end

--- The leaves of a configuration. Fields of Megatron-Bridge's section mixed_precision replace those of the same name in
--- other sections (training/mixed_precision.py: update_config_with_precision_overrides).
local function effective_leaves(config)
  local precision, others = config.mixed_precision, {}
  if type(precision) ~= "table" and type(precision) ~= "string" then return leaves(config, {}) end
  local replaced = type(precision) == "table" and precision or of_recipe
  for key, section in pairs(config) do if section ~= precision then others[key] = section end end
  local kept = {}
  for _, leaf in ipairs(leaves(others, {})) do
    if replaced[leaf.key] == nil then kept[#kept + 1] = leaf end
  end
  return leaves({ mixed_precision = precision }, kept)
end

--- Converts a key to flags: a list of { name, text or nil }; nil if it is a plain flag.
local special = {
  precision = function(value)
    local text = tostring(value)
    if text:match "bf16" then return { { "bf16" } } end
    return text:match "16" and { { "fp16" } } or {}
  end,
  params_dtype = function() return {} end,
  attention_backend = function(value) return { { "attention-backend", tostring(value):match "[^.]*$" } } end,
  fp8 = function(value)
    if value == false then return {} end
    return { { "fp8-format", type(value) == "string" and value or "hybrid" } }
  end,
  fp4 = function(value) return value and { { "fp4-format", "e2m1" } } or {} end,
  fp8_hybrid = function() return {} end, fp8_e4m3 = function() return {} end,
  activation = function(value)
    local known = { swiglu = "swiglu", geglu = "quick-geglu", reglu = "quick-geglu", ["squared-relu"] = "squared-relu" }
    local flag = known[tostring(value):gsub("^fast%-", "")]
    return flag and { { flag } } or {}
  end,
  normalization = function(value)
    local rms = tostring(value):lower():match "rms"
    return { { "normalization", rms and "RMSNorm" or "LayerNorm" } }
  end,
  num_query_groups = function(value)
    return { { "group-query-attention" }, { "num-query-groups", tostring(value) } }
  end,
  gated_linear_unit = function(value) return value == true and { { "swiglu" } } or {} end,
  mixed_precision = function(value) -- such as bf16_with_fp8_current_scaling_mixed (Megatron-Bridge, NeMo 2)
    local text = tostring(value):gsub("-", "_")
    -- The recipe of Bridge's MixedPrecisionConfig, which also the optimizer gets.
    local list = { { text:match "fp16" and "fp16" or "bf16" }, { "fp8-recipe", "tensorwise" } }
    if text:match "nvfp4" then
      list[3] = { "fp4-format", "e2m1" }
    elseif text:match "fp8" then
      local current = text:match "current_scaling"
      local recipe = text:match "mxfp8" or (text:match "subchannel" or text:match "^nanov2") and "blockwise"
        or current and "tensorwise" or "delayed"
      list[3], list[2] = { "fp8-format", "hybrid" }, { "fp8-recipe", recipe }
      -- training/mixed_precision.py: all but one keep weights in fp8, as MXFP8 did not at first.
      if not text:match "subchannel" then list[#list + 1] = { "fp8-param-gather" } end
      if current then list[#list + 1] = { "first-last-layers-bf16" } end
    end
    return list
  end,
  store_param_remainders = function(value) return value == false and { { "no-store-param-remainders" } } or {} end,
  grad_sync_dtype = function(value) return value == "bf16" and { { "grad-reduce-in-bf16" } } or {} end,
}

for _, key in ipairs { "exp_avg_dtype", "exp_avg_sq_dtype", "main_grads_dtype", "main_params_dtype" } do
  local names = { float32 = "fp32", float16 = "fp16", bfloat16 = "bf16", uint8 = "fp8" }
  special[key] = function(value)
    local name = tostring(value):match "[^.]*$"
    return { { (key:gsub("_", "-")), names[name] or name } }
  end
end

for key, flag in pairs { bias = "disable-bias-linear", add_bias_linear = "disable-bias-linear",
  grad_reduce_in_fp32 = "grad-reduce-in-bf16", overlap_p2p_comm = "no-overlap-p2p-communication",
  share_embeddings_and_output_weights = "untie-embeddings-and-output-weights",
  bias_activation_fusion = "no-bias-swiglu-fusion",
  gradient_accumulation_fusion = "no-gradient-accumulation-fusion" } do
  special[key] = function(value) return value == false and { { flag } } or {} end
end

-- Functions of NeMo's references: ${multiply:4, ${.hidden_size}}.
local functions = { multiply = function(a, b) return a * b end, divide_floor = function(a, b) return a // b end,
  divide_ceil = function(a, b) return -(-a // b) end }

--- Resolves references by their last key, and functions of them; other values are returned unchanged.
---@param depth integer? of a reference inside others; cyclic ones are not resolved
local function resolved(value, all, depth)
  depth = depth or 0
  if type(value) ~= "string" or depth > 8 then return value end
  local name, a, b = value:match "^%${([%a_]+):%s*(.-)%s*,%s*(.-)%s*}$"
  if functions[name] then
    local x, y = tonumber(resolved(a, all, depth + 1)), tonumber(resolved(b, all, depth + 1))
    local ok, result = pcall(functions[name], x, y)
    return ok and result or value
  end
  local key = value:match "^%${[%w_%.]-([%w_]+)}$"
  for _, leaf in ipairs(key and all or {}) do
    local found = leaf.key == key and leaf.value ~= value and resolved(leaf.value, all, depth + 1) or nil
    if found ~= nil and not tostring(found):find("${", 1, true) then return found end
  end
  return value
end

--- The words of a value; nil if it is no text, number, switch or list of them.
---@param splits boolean whether a text is several words, as on a command line
local function words_of(value, splits)
  local words = {}
  if type(value) == "string" and splits then
    for word in value:gmatch "%S+" do words[#words + 1] = word end
    return words
  end
  if type(value) ~= "table" then return { tostring(value) } end
  for i, each in ipairs(value) do
    if type(each) == "table" then return nil end
    words[i] = tostring(each)
  end
  return words
end

-- Flags whose value is a list in brackets: one word.
local bracketed = { ["moe-layer-freq"] = true, ["linear-attention-freq"] = true,
  ["window-attn-skip-freq"] = true }

--- The NAME of "name: megatron_NAME", at the top of a file or in exp_manager.
local function model_name(config)
  local manager = type(config.exp_manager) == "table" and config.exp_manager or {}
  for _, name in ipairs { config.name or "", manager.name or "" } do
    local own = type(name) == "string" and name:match "^megatron_(%w+)"
    if own then return own end
  end
end

--- Flags of NeMo 1's megatron_amp_O2 (megatron_base_model.py). With it, Apex's optimizer stores the lower halves of
--- fp32 weights (setup_optimization), as Megatron-Core's does. Without it, weights are in fp32; their lower halves
--- count as states. Then gradients are in fp32, unless optim.grad_sync_dtype states bf16, and no product adds to them
--- (_validate_and_override_config). optim.dtype of Apex's optimizer is the type of the moments. In the type of the
--- weights it has no master weights (store_params).
---@param list table[] for a flag that no script states
---@param dtype any optim.dtype
local function add_states(list, add, amp, apex, dtype)
  if amp == nil or amp and not apex then return end
  local narrow = amp and tostring(dtype or ""):lower():gsub("^torch%.", "")
  if narrow == "bf16" or narrow == "bfloat16" then
    list[#list + 1] = { name = "apex-bf16-states", values = {}, own = true }
    return
  end
  add "use-precision-aware-optimizer"
  if amp then return end
  add("main-params-dtype", "bf16")
  add "no-gradient-accumulation-fusion"
  add "accumulate-allreduce-grads-in-fp32"
  add("megatron-amp-O2", "false")
end

local strategies = { full = true, hybrid = true, grad = true }

--- What NeMo's FSDP shards (nlp_overrides.py, NLPFSDPStrategy). No script can state this value.
local function add_strategy(list, strategy)
  if not strategies[strategy] then
    error_module.raise("format", "fsdp_sharding_strategy: %s", error_module.unknown("value", strategy,
      schema.keys(strategies)))
  end
  list[#list + 1] = { name = "fsdp-sharding-strategy", values = { strategy }, own = true }
end

--- Whether a file is one of NeMo 1: its optimizer is a part of the model.
local function is_first(config) return type(config.model) == "table" and type(config.model.optim) == "table" end

-- Keys that state the precision.
local precisions = { precision = true, mixed_precision = true, bf16 = true, fp16 = true }

--- Flags of a configuration, whether its keys are flags of Megatron-LM, and whether one states the precision.
---@param amp boolean? megatron_amp_O2 of NeMo 1, unless the configuration states it
local function flags_of(config, amp)
  local list, distributed, sharded, strategy, reduced = {}, false, false, nil, "32"
  local flags = type(config.ARGS) == "table" -- Megatron-LM's examples/moe_recipes: keys are flags, "_" for "-"
  local whole = flags
  local apex, precise = nil, false -- whether NeMo 1 shards states by Apex's optimizer
  local function add(name, ...) list[#list + 1] = { name = name, values = { ... } } end
  local all = effective_leaves(config)
  for _, section in ipairs { config, config.model } do
    if type(section) == "table" then peft(section.peft, add) end
  end
  for _, leaf in ipairs(all) do
    local key, value = leaf.key:gsub("^%-%-", ""), resolved(leaf.value, all) -- some files use whole flags as keys
    whole, precise = whole or key ~= leaf.key, precise or precisions[key] or false
    local name = renamed[key] or key:gsub("_", "-")
    local words = words_of(value, (flags or key ~= leaf.key) and not bracketed[name])
    local text = words and table.concat(words, " ")
    if key == "name" and text and (text:match "distributed_fused_adam" or text:match "mcore_distributed") then
      distributed, apex = true, text:match "distributed_fused_adam" ~= nil
    elseif key == "megatron_amp_O2" then
      amp = value == true
    elseif ignored[key] then
      add "seed" -- a flag without effect
    elseif not words then
      add(name, "a list of tables") -- the key is reported as unknown
    elseif key == "fsdp" then
      sharded = value == true
    elseif key == "fsdp_sharding_strategy" then
      strategy = value ~= null and text or nil
    elseif key == "fsdp_grad_reduce_dtype" then
      reduced = value == null and "" or text
    elseif text:find("${", 1, true) then
      add(name, text) -- an unresolved reference: an error if its value is needed
    elseif value == "" or value == null or value == false and not special[key] then
      add "seed"
    elseif special[key] then
      for _, pair in ipairs(special[key](value)) do add(pair[1], pair[2]) end
    elseif value == true then
      add(name)
    elseif type(value) == "table" and bracketed[name] then
      add(name, "[" .. table.concat(words, ",") .. "]")
    else
      add(name, table.unpack(words))
    end
  end
  if distributed then add "use-distributed-optimizer" end
  if not sharded then add_states(list, add, amp, apex, is_first(config) and config.model.optim.dtype) end
  if sharded then
    add "use-megatron-fsdp"
    -- Without a type, NeMo's NLPFSDPStrategy reduces gradients in that of the weights.
    if reduced:find "32" then add "accumulate-allreduce-grads-in-fp32" else add "grad-reduce-in-bf16" end
    add("data-parallel-sharding-strategy", "optim_grads_params")
    add_strategy(list, strategy or "full")
  end
  return list, whole, precise
end

--- The value of ${NAME:default} in a file of Primus when the environment does not set NAME (primus/core/utils/
--- yaml_utils.py, parse_yaml). Other values are returned unchanged.
local function without_environment(value)
  if type(value) ~= "string" then return value end
  local text, count = value:gsub("%${[^:{}]+:([^}]*)}", "%1")
  if count == 0 then return value end
  local decoded = require("ett.yaml").decode(text)
  return decoded == nil and text or decoded
end

-- Defaults of primus/configs/modules/megatron/pre_trainer.yaml that differ from Megatron-LM's; of other files, only the
-- first line is assumed.
local of_primus = { bf16 = true, use_distributed_optimizer = true }
local sizes = { seq_length = 1024, micro_batch_size = 2, global_batch_size = 16 }
local of_pre_trainer = merged(of_primus, sizes)

--- The module with the settings in a file of Primus, and its name: pre_trainer if there is one. Otherwise it is the
--- first by name that runs Megatron-LM, else the first by name. nil for other files.
local function trainer_of(config)
  local modules, first = type(config.modules) == "table" and config.modules or {}, nil
  local function holds(name) return type(modules[name]) == "table" and type(modules[name].overrides) == "table" end
  if holds "pre_trainer" then return modules.pre_trainer, "pre_trainer" end
  for _, name in ipairs(schema.keys(modules)) do
    if holds(name) then
      if without_environment(modules[name].framework) == "megatron" then return modules[name], name end
      first = first or name
    end
  end
  return modules[first], first
end

--- Takes the settings out that ett.import.megatron reads under a name of its own. Returns flags:
---   primus-even-routing    balance is forced, and the experts of a token are next to each other: (token * top_k + i)
---                          modulo the experts. This is the default (docs, moe_router_force_load_balancing_type).
---   primus-defaults        settings of pre_trainer.yaml that the overrides do not state
---   primus-grouped-kernel  Primus-Turbo computes the experts in one kernel (PrimusGroupedMLP)
---   primus-separate-activation  beside it, kernels of their own activate, multiply and weigh. In a step of Qwen3-30B
---                          they take 1.1 s (agent/workspace/qwen3_fp8_tw_gfx950_20261010/prompt.md) in place of 0.195.
local function own_of_primus(all, turbo, stated)
  local list, missing = {}, {}
  local function add(name, values) list[#list + 1] = { name = name, values = values or {}, own = true } end
  for _, key in ipairs(schema.keys(sizes)) do
    if stated[key] == nil and all[key] then missing[#missing + 1] = ("%s (%s)"):format(key, all[key]) end
  end
  if missing[1] then add("primus-defaults", missing) end
  local kind = all.moe_router_force_load_balancing_type
  if all.moe_router_force_load_balancing == true and (kind == nil or kind == "even") then add "primus-even-routing" end
  if turbo and (all.use_turbo_grouped_mlp == true or all.use_turbo_grouped_gemm == true) then
    add "primus-grouped-kernel"
    if all.use_turbo_fused_act_with_probs ~= true then add "primus-separate-activation" end
  end
  for _, key in ipairs { "moe_router_force_load_balancing_type", "use_turbo_grouped_mlp", "use_turbo_grouped_gemm",
    "use_turbo_fused_act_with_probs" } do all[key] = nil end
  return list
end

--- The settings of a file of Primus: the overrides of its trainer and Primus' defaults; and flags of ett's own names.
--- nil for other files.
local function primus(config)
  local trainer, name = trainer_of(config)
  if not trainer then return nil end
  local framework = without_environment(trainer.framework)
  if framework ~= "megatron" then
    error_module.raise("format", "modules.%s.framework must be 'megatron', got %s", name, schema.describe(framework))
  end
  local own = without_environment(trainer.config)
  local all = merged((own == nil or own == "pre_trainer.yaml") and of_pre_trainer or of_primus)
  for key, value in pairs(trainer.overrides) do all[key] = without_environment(value) end
  local turbo = all.enable_primus_turbo == true
  if turbo and all.use_turbo_deepep == true then
    all.moe_token_dispatcher_type, all.moe_enable_deepep, all.use_turbo_deepep = "flex", true, nil
  end
  local own_flags = own_of_primus(all, turbo, trainer.overrides)
  for _, key in ipairs(turbo and {} or schema.keys(all)) do
    if key:find "^use_turbo_" or key:find "^turbo_" then all[key] = nil end
  end
  return all, own_flags
end

--- Flags of a NeMo file, in the form of ett.import.megatron.script, and the name of its model.
---@return table[] flags
---@return string? name such as "gpt"
---@return boolean whole whether its keys are flags of Megatron-LM
---@return boolean apart whether the model is in another file
---@return boolean precise whether a key states the precision
function nemo.flags(path)
  local config = error_module.must(require("ett.yaml").read(path))
  if type(config) ~= "table" then error_module.raise("format", "must hold sections of fields") end
  local settings, own_flags = primus(config)
  if settings then
    local list, _, precise = flags_of(settings)
    return table.move(own_flags, 1, #own_flags, #list + 1, list), nil, true, true, precise
  end
  local amp
  if is_first(config) then amp = false end -- megatron_base_model.py: cfg.get('megatron_amp_O2', False)
  local list, whole, precise = flags_of(config, amp)
  return list, model_name(config), whole, false, precise
end

--- Flags of fields on a command line. A later field replaces an earlier one (NeMo-Run's cli_parser.py: parse_cli_args):
--- fields behind peft=lora belong to LoRA, and peft=lora replaces those before it.
---@param list string[][] { path such as "model.seq_length", value }
---@return table[] flags, boolean precise whether a field states the precision
function nemo.overridden(list)
  local config, decode = {}, require("ett.yaml").decode
  for _, field in ipairs(list) do
    -- NeMo 2 has the batch in `data`, which in files is a section of data sets.
    local path, text = field[1]:gsub("^training%.", ""):gsub("^data%.", "dataset."), field[2]
    local holder, key = config, path:match "[^.]+$" or path
    for name in path:sub(1, -#key - 1):gmatch "[^.]+" do
      if type(holder[name]) ~= "table" then holder[name] = { _target_ = holder[name] } end
      holder = holder[name]
    end
    local value = decode(text)
    holder[key] = value == nil and text or value
  end
  local flags, _, precise = flags_of(config)
  return flags, precise
end

return nemo
