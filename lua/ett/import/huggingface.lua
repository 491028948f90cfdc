--- Converts a Hugging Face config.json to an architecture and its hyper-parameters.
--
--   local name, hyper, notes = huggingface.hyper(config, "config.json")
--
-- Defaults of each model type are in ett.import.huggingface_types. Settings that the estimate ignores are returned as
-- notes.
local error_module = require "ett.base.error"
local expert_layers = require "ett.import.expert_layers"
local json = require "ett.json"
local merged = require "ett.base.merged"
local max_layers = require("ett.model.hyper").fields.layers.most
local schema = require "ett.base.schema"
local types = require "ett.import.huggingface_types"
local watch = require "ett.import.huggingface_unread"

local huggingface = {}

-- Field names of the configurations; the first one found counts.
local common = {
  layers = { "num_hidden_layers", "n_layer", "num_layers", "n_layers" },
  hidden = { "hidden_size", "n_embd", "d_model", "n_embed" },
  heads = { "num_attention_heads", "n_head", "num_heads", "n_heads" },
  kv_heads = { "num_key_value_heads", "num_attention_groups" },
  head_dim = { "head_dim" },
  ffn = { "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size" },
  vocab = { "vocab_size", "padded_vocab_size" },
  tied_embeddings = { "tie_embedding", "tie_word_embeddings" },
  max_positions = { "max_position_embeddings", "n_positions" },
  window = { "sliding_window" },
  experts = { "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts" },
  top_k = { "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k" },
  moe_ffn = { "moe_intermediate_size", "expert_ffn_hidden_size" },
  shared_experts = { "n_shared_experts", "num_shared_expert", "num_shared_experts" },
  shared_ffn = { "shared_expert_intermediate_size", "shared_intermediate_size",
    "share_expert_dim" },
  first_dense_layers = { "first_k_dense_replace", "num_dense_layers" },
  moe_every = { "decoder_sparse_step", "interleave_moe_layer_step" },
  rotary_fraction = { "rotary_pct", "partial_rotary_factor" },
  parallel_block = { "use_parallel_residual" },
  attention_bias = { "attention_bias" },
  mlp_bias = { "mlp_bias" },
  bias = { "use_bias", "bias" },
  qkv_bias = { "use_qkv_bias" },
  q_lora_rank = { "q_lora_rank" }, kv_lora_rank = { "kv_lora_rank" },
  qk_nope_head_dim = { "qk_nope_head_dim" }, qk_rope_head_dim = { "qk_rope_head_dim" },
  v_head_dim = { "v_head_dim" },
}

--- Text for the end of a message about hyper-parameters: the fields of the configuration that they come from; or "".
function huggingface.fields_in(message, config)
  local words = {}
  for _, name in ipairs(schema.keys(common)) do
    local field = common[name][1]
    for _, other in ipairs(common[name]) do
      if config[other] ~= nil and config[other] ~= json.null then
        field = other
        break
      end
    end
    local named = message:find(("'%s'"):format(name), 1, true) or message:find("%f[%w_]" .. name .. " = ")
    if field ~= name and named then words[#words + 1] = ("%s is %s"):format(name, field) end
  end
  return #words > 0 and ("; in the file, %s"):format(table.concat(words, ", ")) or ""
end

local booleans = { tied_embeddings = true, parallel_block = true, attention_bias = true, mlp_bias = true, bias = true,
  qkv_bias = true }

local mixture = { "experts", "top_k", "moe_ffn", "shared_experts", "shared_ffn", "first_dense_layers", "moe_every",
  "dense_layers" }
local latent = { "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim" }

--- The part of a configuration that describes the language model; multi-modal models nest it. Also returns the key of
--- a nested part.
local function text_part(config, label, notes)
  local kind = config.model_type
  -- Qwen Omni has its text model inside 'thinker_config', beside the speech model.
  local outer = type(config.thinker_config) == "table" and config.thinker_config or config
  for _, key in ipairs { "text_config", "llm_config", "language_config" } do
    local inner = outer[key]
    if type(inner) == "table" then
      notes[#notes + 1] = ("only the part '%s' of this %s model is estimated"):format(key,
        tostring(kind))
      local part = merged(inner)
      part.model_type = part.model_type or types.text_of[kind] or types.refused[kind] and kind
      -- Some configurations state this outside the nested part.
      if part.tie_word_embeddings == nil then part.tie_word_embeddings = config.tie_word_embeddings end
      if type(part.model_type) ~= "string" then
        error_module.raise("model", "%s: field '%s': missing field 'model_type' (a string)", label, key)
      end
      return part, key
    end
  end
  for _, key in ipairs { "vision_config", "audio_config", "img_processor", "audio_processor" } do
    if type(config[key]) == "table" then
      notes[#notes + 1] = ("'%s' is ignored: only the language model is estimated"):format(key)
    end
  end
  return config
end

--- Adds the defaults of values that a nested part does not state.
local function add_defaults(config, kind, key, hyper, notes)
  local words = {}
  for _, name in ipairs(schema.keys(types.defaults[kind] or {})) do
    local stated = false
    for _, field in ipairs(common[name]) do stated = stated or config[field] ~= nil end -- null counts
    if not stated then
      hyper[name] = types.defaults[kind][name]
      words[#words + 1] = ("%s = %d"):format(common[name][1], hyper[name])
    end
  end
  if #words > 0 then
    notes[#notes + 1] = ("'%s' lacks some fields; the defaults of %s are used: %s"):format(key, kind,
      table.concat(words, ", "))
  end
end

local function type_of(config, label)
  local kind = config.model_type
  if type(kind) ~= "string" then
    error_module.raise("model", "%s: missing field 'model_type' (a string); is this a Hugging Face config.json?", label)
  end
  local known = types.known[kind]
  if known then return kind, known end
  local why = types.refused[kind]
  if why then
    error_module.raise("model", "%s: field 'model_type': '%s' is %s; ett has no architecture for it",
      label, kind, why)
  end
  local near = error_module.suggestion(kind, schema.keys(types.known))
  if near == "" then near = "; write the type of a known model with the same layers, such as llama" end
  error_module.raise("model", "%s: field 'model_type': unknown model '%s'%s; known are %s", label, kind, near,
    table.concat(schema.keys(types.known), ", "))
end

-- Fields of layers that ett does not support, with a description of these layers.
local structures = {
  use_cla = "layers that share keys and values", num_kv_shared_layers = "layers that share keys and values",
  num_attention_heads_per_layer = "layers with different numbers of heads", block_configs = "layers that all differ",
  swa_num_attention_heads = "windowed layers with heads of their own",
  swa_num_key_value_heads = "windowed layers with heads of their own",
  global_head_dim = "full-attention layers with heads of their own",
  num_global_key_value_heads = "full-attention layers with heads of their own",
}

local function check_structures(config, known, found)
  for _, key in ipairs(schema.keys(structures)) do
    local value = not (known.expresses and known.expresses[key]) and config[key]
    if value == true or type(value) == "number" and value > 0 or type(value) == "table" and next(value) then
      found[#found + 1] = ("field '%s' means %s; ett does not support them"):format(key, structures[key])
    end
  end
end

-- Fields that may be stated per layer.
local for_layers = { ffn = true, moe_ffn = true, top_k = true, shared_experts = true }

-- The common value of a per-layer list; the list itself if the values differ.
local function same_in_all(list)
  for _, value in ipairs(list) do
    if type(value) ~= "number" or value ~= list[1] then return list end
  end
  return list[1] or list
end

--- The first key of a list that the configuration states, with its value; nil if it states none.
local function stated(config, keys)
  for _, key in ipairs(keys) do
    local value = config[key]
    if value ~= nil and value ~= json.null then return key, value end
  end
end

--- Reads the common fields; returns the key found for each.
local function read_common(config, hyper, found)
  local from = {}
  for _, name in ipairs(schema.keys(common)) do
    local wanted = booleans[name] and "boolean" or "number"
    local key, value = stated(config, common[name])
    if type(value) == "table" and for_layers[name] then value = same_in_all(value) end
    from[name] = key
    if type(value) == wanted then
      hyper[name] = value
    elseif key and value ~= false then -- false means "none"
      found[#found + 1] = ("field '%s' must be %s, got %s"):format(key,
        wanted == "boolean" and "true or false" or "a number", schema.describe(value))
    end
  end
  local rope = config.rope_parameters -- transformers 5
  if type(rope) == "table" and not from.rotary_fraction and type(rope.partial_rotary_factor) == "number" then
    hyper.rotary_fraction = rope.partial_rotary_factor
  end
  for _, name in ipairs { "moe_ffn", "shared_ffn", "q_lora_rank" } do
    if hyper[name] == 0 then hyper[name] = nil end -- 0 means "none"
  end
  return from
end

--- Reports fields that no model can do without; `from` as returned by read_common.
local function check_needed(hyper, from, found)
  for _, name in ipairs { "heads", "hidden", "layers", "vocab" } do
    if not from[name] and hyper[name] == nil then
      found[#found + 1] = ("missing field '%s' (a positive integer)"):format(table.concat(common[name], "' or '"))
    end
  end
end

--- The sliding window, and the layers that have it.
local function read_window(config, hyper)
  if config.use_sliding_window == false or hyper.window == 0 then hyper.window = nil end
  if hyper.layer_types then return end -- read later, by model type
  local kinds = type(config.layer_types) == "table" and config.layer_types or nil
  if not hyper.window and not hyper.attention_chunk then
    hyper.window_every = nil
    return
  end
  local every = config.sliding_window_pattern or config._sliding_window_pattern
  if type(every) == "number" then hyper.window_every = every > 1 and every or nil end
  if not kinds then
    local from = config.use_sliding_window and config.max_window_layers
    if type(from) == "number" and type(hyper.layers) == "number" then
      hyper.layer_types, hyper.window_every = {}, nil
      for i = 1, math.min(hyper.layers, max_layers) do
        hyper.layer_types[i] = i <= from and "full_attention" or "sliding_attention"
      end
    end
    return
  end
  local first, regular = nil, true
  for i, kind in ipairs(kinds) do first = first or kind == "full_attention" and i end
  for i, kind in ipairs(kinds) do
    regular = regular and first and kind == (i % first == 0 and "full_attention" or "sliding_attention")
  end
  if regular and first == 1 then
    hyper.window, hyper.window_every = nil, nil
  elseif regular then
    hyper.window_every = first
  else
    hyper.layer_types, hyper.window_every = kinds, nil
  end
end

--- Layers without rotary positions: those that no_rope_layers (or its interval) names, or the full-attention layers of
--- models with windows or chunks.
local function read_nope(config, hyper, rule)
  if not rule or type(hyper.layers) ~= "number" or hyper.layers > max_layers then return end
  local named = type(config.no_rope_layers) == "table" and #config.no_rope_layers > 0 and config.no_rope_layers
  local each = type(config.no_rope_layer_interval) == "number" and config.no_rope_layer_interval or 4
  local kinds, list = hyper.layer_types, {}
  if rule == "full layers" and not (kinds or hyper.window_every) then return end
  for i = 1, hyper.layers do
    local full = not hyper.window_every or i % hyper.window_every == 0
    local kind = kinds and kinds[(i - 1) % #kinds + 1] or full and "full_attention" or "sliding_attention"
    local without = kind == "full_attention"
    if rule == "named layers" then without = named and named[i] == 0 or not named and i % each == 0 end
    list[i] = without and kind == "full_attention" and "nope_attention" or kind
  end
  hyper.layer_types, hyper.window_every = list, nil
end

--- The layers with experts, if a list names them: mlp_only_layers, mlp_layer_types, or a list moe_layer_freq.
local function read_expert_layers(config, hyper, found)
  if type(hyper.layers) ~= "number" or hyper.layers > max_layers then return end
  local list, field = {}, nil
  local function is_table(key)
    field = type(config[key]) == "table" and #config[key] > 0 and key or nil
    return field and config[key]
  end
  local named = type(config.moe_layers_enum) == "string" and config.moe_layers_enum -- "4,5,6": counted from 0
  if named then
    for i = 1, hyper.layers do list[i] = false end
    for i in named:gmatch "%d+" do if list[tonumber(i) + 1] ~= nil then list[tonumber(i) + 1] = true end end
  end
  local given = is_table "mlp_layer_types"
  for i, kind in ipairs(given or {}) do list[i] = kind == "sparse" end
  given = not given and is_table "moe_layer_freq" or nil
  for i, one in ipairs(given or {}) do list[i] = one == 1 end
  given = not named and #list == 0 and is_table "mlp_only_layers" or nil
  if given then
    local every = hyper.moe_every or 1
    for i = 1, hyper.layers do list[i] = i % every == 0 end
    for _, i in ipairs(given) do
      if type(i) ~= "number" then
        found[#found + 1] = ("field '%s' must be a list of numbers, got %s"):format(field, schema.describe(i))
        return
      end
      if list[i + 1] ~= nil then list[i + 1] = false end
    end
  end
  if #list == 0 then return end
  hyper.first_dense_layers, hyper.moe_every, hyper.dense_layers = expert_layers(list)
  if #list ~= hyper.layers then
    found[#found + 1] = ("field '%s': must name all %.14g layers, got %d"):format(field or "moe_layers_enum",
      hyper.layers, #list)
  end
end

-- Names of activations in transformers (activations.py). The estimate uses the time of gelu, or of swiglu if gated.
local activations = {}
for name in ([[gelu gelu_10 gelu_accurate gelu_fast gelu_new gelu_python gelu_python_tanh gelu_pytorch_tanh geglu
    laplace leaky_relu linear mish prelu quick_gelu relu relu2 relu6 sigmoid silu swiglu swish tanh xielu]])
    :gmatch "%S+" do activations[name] = true end

local function check_activation(config, found)
  for _, key in ipairs { "hidden_act", "hidden_activation", "activation_function" } do
    local value = config[key]
    if type(value) == "string" and not activations[value] then
      found[#found + 1] = ("field '%s': unknown activation '%s'%s"):format(key, value,
        error_module.suggestion(value, schema.keys(activations)))
    end
  end
end

local function add_notes(config, hyper, notes)
  if type(config.quantization_config) == "table" then
    local method = config.quantization_config.quant_method
    notes[#notes + 1] = ("quantization_config%s describes stored weights; the estimate uses the plan's dtype"):format(
      type(method) == "string" and (" (%s)"):format(method) or "")
  end
  for _, key in ipairs { "num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers" } do
    local extra = config[key]
    if type(extra) == "number" and extra > 0 then
      notes[#notes + 1] = ("multi-token prediction is left out; mtp_layers=%.14g adds it"):format(extra)
      break
    end
  end
  local dropouts = {}
  for _, key in ipairs { "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "dropout_rate",
    "embd_pdrop", "hidden_dropout", "hidden_dropout_prob", "resid_pdrop", "residual_dropout" } do
    local rate = config[key]
    if type(rate) == "number" and rate > 0 then dropouts[#dropouts + 1] = ("%s = %g"):format(key, rate) end
  end
  if #dropouts > 0 then
    notes[#notes + 1] = ("dropout is left out (%s); dropout=true adds that of the residual stream"):format(
      table.concat(dropouts, ", "))
  end
  local project = config.word_embed_proj_dim
  if type(project) == "number" and hyper.hidden and project ~= hyper.hidden then
    notes[#notes + 1] = ("word_embed_proj_dim = %s is modelled as %s, the width of the layers"):format(project,
      hyper.hidden)
  end
end

local softcaps = { logit_softcap = "final_logit_softcapping", attention_softcap = "attn_logit_softcapping" }

local function read_softcaps(config, hyper)
  for name, key in pairs(softcaps) do
    local cap = config[key]
    if cap ~= nil then hyper[name] = type(cap) == "number" and cap > 0 or nil end
  end
end

--- Hyper-parameters and architecture of a Hugging Face configuration.
---@param config table the decoded config.json
---@param label string its file, for messages
---@return string architecture, table hyper, string[] notes, string kind, table part what describes the language model
function huggingface.hyper(config, label)
  local notes, found, hyper = {}, {}, {}
  local key
  config, key = text_part(config, label, notes)
  local kind, known = type_of(config, label)
  local part = config
  local unread
  config, unread = watch(config)
  for name, value in pairs(known[2] or {}) do hyper[name] = value end
  if key then add_defaults(config, kind, key, hyper, notes) end
  local from = read_common(config, hyper, found)
  check_structures(config, known, found)
  check_activation(config, found)
  local functions = config.encoder_function_list
  if functions ~= nil and functions ~= json.null then hyper.encoder_function_list = functions end
  local name = known[1]
  if known.read then known.read(config, hyper, notes, found) end
  check_needed(hyper, from, found)
  if hyper.experts then read_expert_layers(config, hyper, found) end
  if #found > 0 then error_module.raise("model", "%s: %s", label, table.concat(found, "; ")) end
  name = hyper.architecture or name
  hyper.architecture = nil
  if name ~= "mixtral" and not hyper.keep_mixture then for _, field in ipairs(mixture) do hyper[field] = nil end end
  local values = hyper.keep_value_dim and hyper.v_head_dim
  if not known.latent then for _, field in ipairs(latent) do hyper[field] = nil end end
  hyper.v_head_dim = hyper.v_head_dim or values or nil
  hyper.keep_mixture, hyper.keep_value_dim = nil, nil
  if hyper.position ~= "learned" and not known.learned then hyper.max_positions = nil end
  if hyper.rotary_fraction == 1 then hyper.rotary_fraction = nil end
  read_window(config, hyper)
  read_nope(config, hyper, known.nope)
  read_softcaps(config, hyper)
  add_notes(config, hyper, notes)
  local others = unread()
  if #others > 0 then
    notes[#notes + 1] = ("fields without effect on the estimate: %s"):format(table.concat(others, ", "))
  end
  return name, hyper, notes, kind, part
end

return huggingface
