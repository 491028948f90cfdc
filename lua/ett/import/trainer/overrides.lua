--- Fields of MaxText in a YAML file, or in the words NAME=VALUE of a script or a command line. Most of MaxText's fields
--- do not change the step; only those that may are kept, and misspellings of their names.
local error_module = require "ett.base.error"

local kept, names = {}, {}
for name in ([[per_device_batch_size gradient_accumulation_steps max_target_length dtype weight_dtype grad_dtype
  quantization remat_policy opt_type capacity_factor optimizer_memory_host_offload parameter_memory_host_offload
  shard_optimizer_over_data num_vocab_tiling use_batch_split_schedule use_ring_of_experts use_tokamax_splash
  use_iota_embed expert_shard_attention_option decoder_layer_input query_proj key_proj value_proj qkv_proj context
  out_proj mlpwi mlpwi_0 mlpwi_1 mlpwo query_wa_proj kv_wa_proj mla_q mla_kv sparse_matmul]]):gmatch "%S+" do
  kept[name], names[#names + 1] = true, name
end

-- Defaults (configs/base.yml) of fields that the plan cannot state.
local defaults = { grad_dtype = "float32", expert_shard_attention_option = "fsdp", num_vocab_tiling = 1,
  ici_autoregressive_parallelism = 1, ici_context_autoregressive_parallelism = 1,
  dcn_autoregressive_parallelism = 1, dcn_context_autoregressive_parallelism = 1 }

local constants = { True = true, False = false, ["true"] = true, ["false"] = false }

local function value_of(text)
  text = text:match "^'(.*)'$" or text
  if constants[text] ~= nil then return constants[text] end
  return tonumber(text) or text
end

-- A comment begins with '#' at the start of a word.
local function without_comments(text) return (("\n" .. text):gsub("(%s)#[^\n]*", "%1")) end

--- Whether a text holds MaxText's fields outside comments.
local function known(text)
  text = without_comments(text)
  return text:find "per_device_batch_size" ~= nil or text:find "[id]c[in]_%l+_parallelism" ~= nil
end

local function fields(text, is_yaml)
  local all, list = {}, {}
  if is_yaml then
    all = error_module.must(require("ett.yaml").decode(text))
  else
    for name, value in without_comments(text):gmatch '[%s"\'](%l[%w_]*)=([^%s"\\]+)' do
      all[name] = value_of(value)
    end
  end
  for name, value in pairs(type(all) == "table" and all or {}) do
    name = tostring(name)
    if value ~= defaults[name]
      and (kept[name] or name:find "^%l+_[%l_]+_parallelism$" or error_module.misspelt(name, names)) then
      list[name] = value
    end
  end
  return list
end

return { known = known, fields = fields }
