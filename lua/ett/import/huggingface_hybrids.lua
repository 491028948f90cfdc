--- Hugging Face model types with state-space or linear-attention layers, and encoders.
--
-- hybrids.register fills the table of ett.import.huggingface_types; its argument `add` registers one type.
local schema = require "ett.base.schema"
local max_layers = require("ett.model.hyper").fields.layers.most

local hybrids = {}

--- The value if it is a number, else nil.
function hybrids.number(value) return type(value) == "number" and value or nil end
local number = hybrids.number

--- Routers that choose groups of experts first.
function hybrids.groups(config, hyper)
  if (number(config.n_group) or 1) > 1 then
    hyper.expert_groups, hyper.top_groups = number(config.n_group), number(config.topk_group)
  end
end

local function text_is(value, wanted) return type(value) == "string" and value == wanted end

--- Mamba's fields under the names used by hybrids.
function hybrids.mamba(config, hyper)
  local expand = number(config.mamba_expand) or 2
  hyper.ssm_inner = number(hyper.hidden) and math.floor(expand * hyper.hidden)
  hyper.ssm_state, hyper.conv_kernel = number(config.mamba_d_state), number(config.mamba_d_conv)
  hyper.ssm_dt_rank, hyper.ssm_bias = number(config.mamba_dt_rank), config.mamba_proj_bias == true
  hyper.ssm_groups, hyper.scan_chunk = number(config.mamba_n_groups), number(config.mamba_chunk_size)
  hyper.ssm_heads, hyper.ssm_head_dim = number(config.mamba_n_heads), number(config.mamba_d_head)
  if hyper.ssm_heads and not hyper.ssm_head_dim and hyper.ssm_inner then -- "auto"
    hyper.ssm_head_dim = hyper.ssm_inner // hyper.ssm_heads
  end
end
local mamba = hybrids.mamba

--- A list of layer kinds: attention for the layers (counted from 0) that is_attention accepts, `other` for the rest.
function hybrids.kinds(layers, other, is_attention)
  local list = {}
  for i = 1, math.min(number(layers) or 0, max_layers) do
    list[i] = is_attention(i - 1) and "full_attention" or other
  end
  return #list > 0 and list or nil
end
local kinds = hybrids.kinds

--- Reports a list of kinds that is too short or has an unknown kind. No list is no fault.
---@param allowed table<string, boolean>
function hybrids.check_kinds(config, field, layers, allowed, found)
  local list = config[field]
  if type(list) ~= "table" then return end
  for i = 1, math.min(number(layers) or 0, max_layers) do
    local kind = list[i]
    if type(kind) ~= "string" or not allowed[kind] then
      found[#found + 1] = ("field '%s': layer %d must be %s, got %s"):format(field, i,
        table.concat(schema.keys(allowed), " or "), schema.describe(kind))
      return
    end
  end
end

local function jamba(config, hyper, _, found)
  mamba(config, hyper)
  hyper.ssm_norms, hyper.position = true, "none"
  local period, offset = number(config.attn_layer_period) or 8, number(config.attn_layer_offset) or 4
  hyper.layer_types = period > 0 and kinds(hyper.layers, "mamba", function(i) return i % period == offset end) or nil
  local every = number(config.expert_layer_period) or 2
  if (number(config.expert_layer_offset) or 1) ~= every - 1 then
    found[#found + 1] = ("field 'expert_layer_offset' must be expert_layer_period - 1 = %.14g, got %s"):format(
      every - 1, tostring(config.expert_layer_offset))
  end
  hyper.experts = hyper.experts or 16
  hyper.top_k, hyper.moe_every, hyper.moe_ffn = hyper.top_k or 2, every, hyper.ffn
  if hyper.experts == 1 then hyper.architecture = "llama" end
end

--- Bamba and Granite 4: Mamba-2 and attention layers; a list names the layers of one kind.
local function bamba(config, hyper, _, found)
  mamba(config, hyper)
  local known = { mamba = true, attention = true, full_attention = true, linear_attention = true }
  hybrids.check_kinds(config, "layer_types", hyper.layers, known, found)
  hybrids.check_kinds(config, "layers_block_type", hyper.layers, known, found)
  local at = {}
  for _, i in ipairs(type(config.attn_layer_indices) == "table" and config.attn_layer_indices or {}) do at[i] = true end
  local given = config.layer_types or config.layers_block_type
  hyper.layer_types = kinds(hyper.layers, "mamba2", function(i)
    if type(given) == "table" then return given[i + 1] == "attention" or given[i + 1] == "full_attention" end
    return at[i] or false
  end)
  local turned = number(config.attn_rotary_emb)
  if turned and number(hyper.hidden) and number(hyper.heads) and hyper.heads > 0 then
    hyper.rotary_fraction = math.min(1, turned * hyper.heads / hyper.hidden)
  end
  if text_is(config.position_embedding_type, "nope") then hyper.position = "none" end
  if (number(hyper.experts) or 0) == 0 then
    hyper.architecture = "llama"
    if hyper.shared_ffn then hyper.ffn = hyper.shared_ffn end
  else
    hyper.moe_ffn = hyper.ffn
  end
end

local letters = { M = "mamba2", ["-"] = "mlp", ["*"] = "full_attention", E = "moe" }

local letter_of = { mamba = "M", mlp = "-", attention = "*", moe = "E" }

--- Nemotron-H: one block per layer, given by a string of letters, in transformers 5 by a list of names.
local function nemotron_h(config, hyper, _, found)
  local list, pattern = {}, config.hybrid_override_pattern
  if type(config.layers_block_type) == "table" then
    pattern = ""
    for i, name in ipairs(config.layers_block_type) do
      if i <= max_layers then pattern = pattern .. (letter_of[name] or "?") end
    end
  end
  for letter in (type(pattern) == "string" and pattern or ""):gmatch "." do
    list[#list + 1] = letters[letter] or "?"
  end
  if hyper.layers == nil and #list > 0 then hyper.layers = #list end -- transformers 5 writes null
  if #list == 0 or #list ~= hyper.layers or table.concat(list, " "):find("?", 1, true) then
    found[#found + 1] = "field 'hybrid_override_pattern' must have a letter M, -, * or E for each layer"
    return
  end
  hyper.layer_types = list
  hyper.ssm_heads, hyper.ssm_head_dim = number(config.mamba_num_heads), number(config.mamba_head_dim)
  hyper.ssm_state, hyper.ssm_groups = number(config.ssm_state_size), number(config.n_groups)
  hyper.scan_chunk, hyper.conv_kernel = number(config.chunk_size), number(config.conv_kernel)
  hyper.ssm_bias, hyper.mlp_bias = config.mamba_proj_bias == true, config.mlp_bias == true
  hyper.bias = nil
  hyper.head_dim = hyper.head_dim or number(config.attention_head_dim)
  hyper.shared_ffn = number(config.moe_shared_expert_intermediate_size)
  hyper.moe_latent = number(config.moe_latent_size)
  hyper.shared_experts = nil
  hyper.keep_mixture = (number(hyper.experts) or 0) > 0
end

--- Pure Mamba and Mamba-2: no attention, so `heads` is that of the scan.
local function pure(kind)
  return function(config, hyper)
    local inner = number(config.intermediate_size)
      or number(hyper.hidden) and math.floor((number(config.expand) or 2) * hyper.hidden)
    hyper.layer_types, hyper.ssm_inner, hyper.ffn, hyper.bias = { kind }, inner, nil, nil
    hyper.ssm_state, hyper.conv_kernel = number(config.state_size), number(config.conv_kernel)
    hyper.ssm_dt_rank, hyper.ssm_bias = number(config.time_step_rank), config.use_bias == true
    if kind == "mamba2" then
      hyper.ssm_head_dim, hyper.ssm_groups = number(config.head_dim) or 64, number(config.n_groups) or 8
      hyper.ssm_heads, hyper.scan_chunk = number(config.num_heads), number(config.chunk_size)
      if not hyper.ssm_heads and inner then hyper.ssm_heads = inner // hyper.ssm_head_dim end
    end
    hyper.heads, hyper.kv_heads = kind == "mamba2" and hyper.ssm_heads or inner, nil
    hyper.head_dim = 1
  end
end

local function qwen3_next(config, hyper, notes)
  hyper.attention_bias = nil
  if config.attn_output_gate == false then -- modeling_qwen3_5.py (Qwen3_5Attention) does not read it
    notes[#notes + 1] = "attn_output_gate = false: Transformers builds the gate in each case; attention_gate=false "
      .. "removes it"
  end
  hyper.linear_key_heads = number(config.linear_num_key_heads) or 16
  hyper.linear_value_heads = number(config.linear_num_value_heads) or 32
  hyper.linear_key_dim = number(config.linear_key_head_dim)
  hyper.linear_value_dim = number(config.linear_value_head_dim)
  hyper.conv_kernel = number(config.linear_conv_kernel_dim)
  local every = number(config.full_attention_interval) or 4
  hyper.layer_types = type(config.layer_types) == "table" and config.layer_types or every > 0
    and kinds(hyper.layers, "linear_attention", function(i) return (i + 1) % every == 0 end) or nil
end

local function bert(config, hyper)
  hyper.token_types = number(config.type_vocab_size)
  if text_is(config.position_embedding_type, "relative_key") then hyper.position = "none" end
end

local function vit(config, hyper, notes)
  local labels = 0
  for _ in pairs(type(config.id2label) == "table" and config.id2label or {}) do labels = labels + 1 end
  hyper.vocab = number(config.num_labels) or labels > 0 and labels or 1000
  local size, patch = number(config.image_size) or 224, number(config.patch_size) or 16
  hyper.patch_size, hyper.image_channels = patch, number(config.num_channels) or 3
  local patches = patch > 0 and (size // patch) ^ 2 or 0
  hyper.max_positions = math.tointeger(patches) and math.tointeger(patches) + 1
  if config.qkv_bias == false then hyper.qkv_bias = false end
  notes[#notes + 1] = ("a sequence is an image: seq=%d for %d patches and the class token"):format(patches + 1, patches)
end

local function t5(config, hyper)
  hyper.encoder_layers = hyper.layers
  hyper.layers = number(config.num_decoder_layers) or hyper.layers
  hyper.ffn, hyper.head_dim = number(config.d_ff), number(config.d_kv)
  hyper.relative_buckets = number(config.relative_attention_num_buckets)
  local form = config.feed_forward_proj
  hyper.gated_mlp = type(form) == "string" and form:match "^gated" ~= nil
  if config.is_gated_act ~= nil then hyper.gated_mlp = config.is_gated_act == true end
end

function hybrids.register(add)
  add("jamba", "mixtral", { tied_embeddings = false }, { read = jamba })
  add("bamba", "llama", nil, { read = bamba })
  add("granitemoehybrid", "mixtral", nil, { read = bamba })
  add("nemotron_h", "hybrid", { gated_mlp = false, heads = 1 }, { read = nemotron_h })
  add("mamba falcon_mamba", "hybrid", { heads = 1, tied_embeddings = true }, { read = pure "mamba" })
  add("mamba2", "hybrid", { heads = 1, tied_embeddings = false }, { read = pure "mamba2" })
  add("qwen3_next qwen3_5_moe_text", "mixtral", { qk_norm = true, attention_gate = true, shared_gate = true,
    rotary_fraction = 0.25 }, { read = qwen3_next })
  add("qwen3_5_text", "llama", { qk_norm = true, attention_gate = true, rotary_fraction = 0.25 }, { read = qwen3_next })
  add("bert", "encoder", { token_types = 2 }, { read = bert, learned = true })
  add("roberta xlm-roberta", "encoder", { token_types = 1, pooler = false }, { read = bert, learned = true })
  add("vit", "encoder", { vocab = 1000 }, { read = vit, learned = true })
  add("t5 mt5 umt5", "encoder_decoder", { tied_embeddings = true }, { read = t5 })
end

return hybrids
