--- Fields of a configuration that no reader asks for: a later model's field may change its cost.
--
--   local config, unread = watched(config)
--   … config.hidden_size …
--   unread() --> { "attn_res_block_size = 12" }
local error_module = require "ett.base.error"
local json = require "ett.json"
local schema = require "ett.base.schema"

-- Lua patterns of fields that change no cost: names, tokens, constants, initial values, losses, positions, and settings
-- of generation and of files.
local harmless = {}
for pattern in ([[
    _token_id$ _token_ids$ token_index$ ^architectures$ ^auto_map$ dtype$ ^_ ^transformers_ init_ _init _std$ eps$
    epsilon$ theta ^rope_ ^rotary ^use_rotary position base_freq dropout pdrop drop_path ^use_cache$ loss ^aux_
    _coef$ scal multiplier _alpha _beta alpha$ beta$ norm_topk ^norm_ renormalize scoring ^score topk_method
    ^output_ ^return_ ^pretraining_tp$ label2id id2label ^task_specific problem_type ^num_labels$ jitter z_loss
    ^logit ^lm_head logits clip max_seq model_max_length ^seq_length$ max_length ^max_window context router_dtype
    router_bias expert_bias ^routed_ ^moe_router ^router_ ^use_moe$ ^use_moe_router fp32 ^use_flash flash_attn
    _attn_implementation ^is_ ^chunk_size_feed ^name_or_path$ ^finetuning ^tokenizer ^quantization ^compression
    ^unsloth ^generation ^min_ ^time_step ^dt_ ^residual_in ^use_mamba_kernels$ mamba_conv_bias use_conv_bias
    norm_before_gate hidden_act activation ^prefix$ ^add_cross ^gradient_ ^tie_ ^n_group$ ^topk_group$ ^ep_size$
    ^initializer_range$ ^use_sliding ^attention_value_scale$ ^swa_rope ^yarn ^rmsnorm$ ^use_rmsnorm$ ^rms_norm$
    ^hybrid_block_size$ ^group_norm_size$ ^conv_dim ^block_dim$ ^num_heads$ ^img ^image ^video ^audio ^vision ^boi
    ^eoi ^mm_ ^projector ^speech ^embd_layer ^transpose ^layernorm_ ^postnorm$ ^num_logits_to_keep$ ^expand$
    ^mamba_expand$ ^mlp_expansion_factor$ ^att_impl_type$ ^attention_method$ ^use_pos_enc$ ^block_use_
    ^interpolation ^original_max ^model_type$ ^mamba_use_mlp$ ^mamba_inner_layernorms$ ^seq_aux$ ^multi_query$
    ^parallel_attn$ ^n_ctx$ ^summary_ ^experts_per_token$ ^swiglu_limit ^use_mtp$ ^use_routing_bias$
    ^sliding_window_size$]]):gmatch "%S+" do
  harmless[#harmless + 1] = pattern
end

local function is_harmless(name)
  for _, pattern in ipairs(harmless) do if name:find(pattern) then return true end end
  return false
end

--- The text of a field that turns something on: a positive number, true, or a list.
local function meaning(value)
  if value == true then return "true" end
  if type(value) == "number" and value > 0 and value < math.huge then return ("%.14g"):format(value) end
  return type(value) == "table" and next(value) ~= nil and "…" or nil
end

--- The configuration as a table that remembers which fields were asked for, and a function that lists the others.
---@param config table
---@return table watched, fun(): string[] unread
return function(config)
  local asked = {}
  local watched = setmetatable({}, { __index = function(_, name)
    asked[name] = true
    return config[name]
  end })
  return watched, function()
    local list, absent = {}, {}
    for name in pairs(asked) do
      if config[name] == nil or config[name] == json.null then absent[#absent + 1] = name end
    end
    for _, name in ipairs(schema.keys(config)) do
      local text = not asked[name] and type(name) == "string" and not is_harmless(name) and meaning(config[name])
      if text then
        local near = error_module.misspelt(name, absent)
        list[#list + 1] = ("%s = %s%s"):format(name, text, near and (" (did you mean %s?)"):format(near) or "")
      end
    end
    return list
  end
end
