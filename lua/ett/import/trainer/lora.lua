--- LoRA adapters in the files of Transformers, LLaMA-Factory and Axolotl (peft/tuners/lora/config.py).
local error_module = require "ett.base.error"
local plan_rules = require "ett.plan.rules"
local quantised = require "ett.operator.quantised"
local schema = require "ett.base.schema"

-- ett's products by the names of modules in Transformers' models.
local products = {}
for product, names in pairs { linear_qkv = "q_proj k_proj v_proj qkv_proj query_key_value c_attn W_pack",
  linear_proj = "o_proj out_proj dense", linear_up = "gate_proj up_proj gate_up_proj dense_h_to_4h fc1 w1 w3",
  linear_down = "down_proj dense_4h_to_h fc2 w2" } do
  for name in names:gmatch "%S+" do products[name] = product end
end

-- Ranks that a program takes by default.
local ranks = { axolotl = 8, factory = 8, trl = 16 }
local dropouts = { trl = 0.05 } -- trl/trainer/model_config.py

--- The names of modules that a regular expression with alternatives matches, such as `layers.*.(q|v)_proj`.
local function expand(pattern, list)
  local before, group, after = pattern:match "^(.-)%(([^()]*)%)(.*)$"
  if not group or #list > 99 then
    list[#list + 1] = pattern:gsub("[%^$*+?\\]", ""):match "[^.]*$"
    return list
  end
  for each in group:gsub("^%?:", ""):gmatch "[^|]+" do expand(before .. each .. after, list) end
  return list
end

-- Modules that compute all outputs of a product: one adapter.
local whole = { qkv_proj = true, query_key_value = true, c_attn = true, W_pack = true, gate_up_proj = true }

-- Modules that are one product of ett.
local joined = { { "q_proj", "k_proj", "v_proj" }, { "gate_proj", "up_proj" } }

--- Notes modules without an adapter of their own, which ett counts as adapted with their neighbours.
local function note_neighbours(seen, model, note)
  for _, names in ipairs(joined) do
    local has, lacks = {}, {}
    for _, name in ipairs(names) do
      if name ~= "gate_proj" or model.hyper.gated_mlp then table.insert(seen[name] and has or lacks, name) end
    end
    if has[1] and lacks[1] then
      note("adapters of %s: ett counts %s too", table.concat(has, " and "), table.concat(lacks, " and "))
    end
  end
end

--- The products of module names that a model has outside experts; nil: all of attention and MLP.
local function targets_of(modules, model, note)
  local seen, has, own = {}, plan_rules.adaptable(model), {}
  for _, name in ipairs(modules) do
    if name == "all" or name == "all-linear" then return nil end
    local product = products[name]
    if product and has[product] then
      seen[product], own[name] = true, true
    else
      note("adapters of %s are not modelled%s", name, product and " in experts" or "")
    end
  end
  note_neighbours(own, model, note)
  return schema.keys(seen)
end

--- The format of frozen weights (frozen_weights of a plan), or nil. fp4 has the bytes of nf4. Axolotl's qlora
--- (loaders/model.py) and LLaMA-Factory (double_quantization) quantise scales by default, TRL and Transformers do not.
--- The second result is true if another library holds them in fewer than 16 bits.
local function format_of(config, program, method, note)
  local bits = config("", "quantization_bit", 16)
  local in_4 = config("", "load_in_4bit", false) or method == "qlora" or bits == 4
  local in_8 = config("", "load_in_8bit", false) or bits == 8
  local double = config("", "use_bnb_nested_quant", false)
  if program == "factory" then
    double = config("", "double_quantization", true)
  elseif program == "axolotl" then
    double = config("", "bnb_config_kwargs", {}).bnb_4bit_use_double_quant
    if double == nil then double = method == "qlora" end
  end
  local library = config("", "quantization_method", "bnb")
  if bits < 16 and not (in_4 or in_8) or library ~= "bnb" and library ~= "bitsandbytes" then
    bits = in_4 and 4 or in_8 and 8 or bits
    if bits < 16 then note("frozen weights in %d bits of %s are modelled in 16 bits", bits, library) end
    return nil, bits < 16
  end
  return in_4 and (double and "nf4_double" or "nf4") or in_8 and "int8" or nil
end

--- Whether kernels of Axolotl or Unsloth compute adapters. They cast no input to fp32. Axolotl enables its own unless
--- the file states one of them, `rl` or `trust_remote_code` (utils/schemas/config.py).
local function has_kernels(config, program, note)
  local own, is_stated = {}, config("", "rl", "") ~= "" or config("", "trust_remote_code", false)
  for _, name in ipairs { "lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel",
    "use_unsloth" } do
    local value, _, is_absent = config("", name, false)
    is_stated = is_stated or not is_absent
    if value then own[#own + 1] = name end
  end
  if own[1] then note("%s: adapters are modelled without these kernels", table.concat(own, ", ")) end
  return own[1] or program == "axolotl" and not is_stated
end

--- Whether adapters have fp32 weights beside frozen weights of 16 bits, under torch.autocast (huggingface/peft#1706).
--- TRL holds weights in `dtype`. Axolotl and LLaMA-Factory hold them in 16 bits (utils/config/__init__.py,
--- model/patcher.py). With `pure_bf16` there is no autocast. DeepSpeed and FSDP cast weights themselves.
local function are_fp32(p, config, program, note)
  local kernels, pure = has_kernels(config, program, note), config("", "pure_bf16", false)
  local casts, half = config("", "peft_autocast_adapter_dtype", true), program ~= "trl"
  for _, name in ipairs { "torch_dtype", "dtype" } do
    local value, is_auto = config("", name, "")
    half = half or is_auto or value == "bfloat16" or value == "float16"
  end
  return casts and half and not (kernels or pure) and (p.dtype == "bf16" or p.dtype == "fp16")
end

--- Sets the fields of adapters.
---@param program string axolotl, factory or trl
---@param is_sharded boolean whether DeepSpeed or FSDP runs the model
return function(p, config, given, program, model, note, is_sharded)
  local method = config("", "adapter", config("", "finetuning_type", program == "factory" and "lora" or ""))
  local rank = config("", "lora_r", config("", "lora_rank", ranks[program]))
  local listed = config("", "lora_target_modules", config("", "lora_target", {}, "string"), "string")
  local linear = config("", "lora_target_linear", false)
  local dropout, auto, absent = config("", "lora_dropout", 0)
  local format, is_other = format_of(config, program, method, note)
  local is_lora = method ~= "oft"
  if method == "oft" then
    note("oft is modelled as LoRA of rank %d", given.lora_rank or rank)
    method, listed = "lora", config("", "oft_target", "all", "table")
  end
  if not (method == "lora" or method == "qlora" or config("", "use_peft", false)) then
    if method ~= "" and method ~= "full" and method ~= "freeze" then note("%s is modelled as full training", method) end
    return
  end
  p.frozen_weights = given.frozen_weights or format
  -- sft_trainer.py and trainer/utils.py: prepare_model_for_kbit_training, unless FSDP or ZeRO-3 shards the weights.
  if program == "trl" and quantised.format_of(p) and (given.zero or p.zero or 0) < 3 then
    p.stack = p.stack .. ":fp32_norms"
  end
  p.lora_rank = given.lora_rank or rank
  if auto or absent then dropout = dropouts[program] or 0 end
  dropout = given.lora_dropout or dropout
  if dropout ~= 0 then p.lora_dropout = dropout end
  local fp32 = are_fp32(p, config, program, note)
  if fp32 and is_lora and not (is_sharded or is_other or quantised.format_of(p)) then
    p.stack = p.stack .. ":fp32_adapters"
  end
  local modules = {}
  for name in (type(listed) == "table" and table.concat(listed, " ") or listed):gmatch "[^,%s]+" do
    expand(name, modules)
  end
  for _, name in ipairs(modules) do
    if whole[name] then
      p.stack = p.stack .. ":separate_projections=false"
      break
    end
  end
  if linear or program == "factory" and not modules[1] then modules = { "all" } end
  if not modules[1] then modules = { "q_proj", "v_proj" } end -- PEFT's choice for most models
  if given.lora_targets then return end
  p.lora_targets = targets_of(modules, model, note)
  if p.lora_targets and not p.lora_targets[1] then
    error_module.raise("format", "adapters of %s: the model has no such product outside experts; give lora_targets=%s",
      table.concat(modules, ", "), table.concat(schema.keys(plan_rules.adaptable(model)), ","))
  end
end
