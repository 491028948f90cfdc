--- Hugging Face model types whose layers differ in their widths, or have mixers other than attention.
--
-- Returns a function that fills the table of ett.import.huggingface_types; its argument `add` registers one type.
local hybrids = require "ett.import.huggingface_hybrids"
local merged = require "ett.base.merged"
local max_layers = require("ett.model.hyper").fields.layers.most

local number, kinds, groups, check_kinds = hybrids.number, hybrids.kinds, hybrids.groups, hybrids.check_kinds

local function table_of(value) return type(value) == "table" and value or {} end

--- LFM2 (arXiv 2511.23404): short convolutions and attention.
local function lfm2(config, hyper, _, found)
  check_kinds(config, "layer_types", hyper.layers, { conv = true, full_attention = true }, found)
  local at, given = {}, config.layer_types
  for _, i in ipairs(table_of(config.full_attn_idxs)) do at[i] = true end
  hyper.layer_types = kinds(hyper.layers, "short_convolution", function(i)
    if type(given) == "table" then return given[i + 1] == "full_attention" end
    return type(config.full_attn_idxs) ~= "table" or at[i] or false
  end)
  hyper.conv_kernel, hyper.ssm_bias = number(config.conv_L_cache) or 3, config.conv_bias == true
end

--- The width of LFM2's dense MLP, adjusted as its class does.
local function lfm2_dense(config, hyper, notes, found)
  lfm2(config, hyper, notes, found)
  local width = number(config.block_ff_dim) or number(config.intermediate_size)
  if width and config.block_auto_adjust_ff_dim ~= false then
    width = math.floor((number(config.block_ffn_dim_multiplier) or 1.0) * (2 * width // 3))
    local multiple = number(config.block_multiple_of) or 256
    if multiple > 0 then width = (width + multiple - 1) // multiple * multiple end
  end
  hyper.ffn = width and math.tointeger(width) or width
end

--- MiniMax-01 and M1 (arXiv 2501.08313): lightning attention, and softmax attention in each eighth layer.
local function minimax(config, hyper, _, found)
  check_kinds(config, "layer_types", hyper.layers, { linear_attention = true, full_attention = true }, found)
  local given = table_of(config.attn_type_list)
  if #given > 0 and #given ~= hyper.layers then
    found[#found + 1] = "field 'attn_type_list' must have 0 or 1 for each layer"
  end
  if #given == 0 then given = table_of(config.layer_types) end
  hyper.layer_types = kinds(hyper.layers, "lightning_attention", function(i)
    local kind = given[i + 1]
    if kind == nil then return i % 2 == 0 end -- the default of the class
    return kind == 1 or kind == "full_attention"
  end)
  hyper.scan_chunk = number(config.block_size) or 256
  local turned, head = number(config.rotary_dim), number(config.head_dim)
  if turned and head and head > 0 then hyper.rotary_fraction = math.min(1, turned / head) end
end

--- Ring-linear and Ling 2.5: lightning attention, and softmax attention in the last layer of each group.
local function bailing_linear(config, hyper, _, found)
  local group = number(config.layer_group_size) or 1
  hyper.layer_types = group > 0 and kinds(hyper.layers, "lightning_attention", function(i)
    return (i + 1) % group == 0 or i >= hyper.layers // group * group
  end) or nil
  hyper.qk_norm = config.use_qk_norm == true or nil
  hyper.linear_silu = config.linear_silu == true or config.use_linear_silu == true
  hyper.linear_rope = config.linear_rope ~= false
  hyper.scan_chunk = 256
  hyper.linear_value_heads, hyper.linear_value_dim = hyper.heads, number(config.head_dim)
  local shared, width = number(hyper.shared_experts) or 0, number(config.moe_shared_expert_intermediate_size)
  if width and shared > 0 then hyper.shared_ffn = shared * width end
  groups(config, hyper)
  if hyper.kv_lora_rank then
    hyper.kv_heads, hyper.head_dim, hyper.rotary_fraction = nil, nil, nil
    if not hyper.linear_value_dim then found[#found + 1] = "missing field 'head_dim' (a positive integer)" end
  end
end

-- Features of later Kimi models that ett does not support.
local kimi_others = { attn_res_block_size = "attention over the residuals of blocks of layers",
  mla_use_output_gate = "a gate of the latent attention's output" }

--- Kimi Linear (arXiv 2510.26692): Kimi delta attention, and latent attention without positions.
local function kimi_linear(config, hyper, _, found)
  local linear, full = table_of(config.linear_attn_config), {}
  for _, i in ipairs(table_of(linear.full_attn_layers)) do full[i] = true end -- counted from 1
  hyper.layer_types = kinds(hyper.layers, "linear_attention", function(i) return full[i + 1] or false end)
  local heads, dim = number(linear.num_heads), number(linear.head_dim)
  hyper.linear_key_heads, hyper.linear_value_heads = heads, heads
  hyper.linear_key_dim, hyper.linear_value_dim, hyper.linear_gate_rank = dim, dim, dim
  hyper.conv_kernel = number(linear.short_conv_kernel_size) or 4
  if not (heads and dim) then
    found[#found + 1] = "field 'linear_attn_config' must have num_heads and head_dim (positive integers)"
  end
  for key, what in pairs(kimi_others) do
    local value = config[key]
    if value == true or (number(value) or 0) > 0 then
      found[#found + 1] = ("field '%s' means %s; ett does not support it"):format(key, what)
    end
  end
  if linear.use_full_rank_gate == true then
    found[#found + 1] = "field 'linear_attn_config.use_full_rank_gate' must be false; ett supports no other gate"
  end
  if config.mla_use_nope == true then hyper.position = "none" end
  hyper.moe_latent = number(config.routed_expert_hidden_size)
  hyper.kv_heads, hyper.head_dim, hyper.moe_every = nil, nil, nil
  if (number(config.num_expert_group) or 1) > 1 then
    hyper.expert_groups, hyper.top_groups = number(config.num_expert_group), number(config.topk_group)
  end
end

--- Step-3 (arXiv 2507.19427): multi-matrix factorization attention with one head of keys.
local function step3(config, hyper)
  hyper.q_lora_rank, hyper.kv_heads = number(config.share_q_dim) or number(config.head_dim), 1
  if config.moe_layers_enum == nil then hyper.first_dense_layers = 1 end
end

--- The fields of each layer that has a window, else of each other layer.
local function fields_where(hyper, wanted, fields)
  local list, types = {}, hyper.layer_types or {}
  for i = 1, math.min(number(hyper.layers) or 0, max_layers) do list[i] = types[i] == wanted and fields or false end
  return list
end

--- The first n kinds of a list: some lists also name the layers of multi-token prediction.
local function first_kinds(list, n)
  local kept = {}
  for i, kind in ipairs(table_of(list)) do if i <= (number(n) or 0) then kept[i] = kind end end
  return #kept > 0 and kept or nil
end

--- Step-3.5: layers with a window have more heads; each head has a gate.
local function step3p5(config, hyper)
  hyper.layer_types = first_kinds(config.layer_types, hyper.layers)
  hyper.head_gate = config.use_head_wise_attn_gate == true or nil
  local other, turned = table_of(config.attention_other_setting), table_of(config.partial_rotary_factors)
  local list = fields_where(hyper, tostring(other.attention_type), { heads = number(other.num_attention_heads),
    kv_heads = number(other.num_attention_groups), head_dim = number(other.head_dim) })
  for i, own in ipairs(list) do
    local fields = merged({ rotary_fraction = turned[i] ~= 1 and number(turned[i]) or nil }, own or nil)
    list[i] = next(fields) and fields or false
  end
  hyper.layer_fields = list
end

--- MiMo-V2: layers with a window have other heads and attention sinks; values are narrower than keys.
local function mimo_v2(config, hyper, _, found)
  local pattern, list = table_of(config.hybrid_layer_pattern), {}
  for i, windowed in ipairs(pattern) do list[i] = windowed == 1 and "sliding_attention" or "full_attention" end
  if #list ~= hyper.layers then
    found[#found + 1] = "field 'hybrid_layer_pattern' must have 0 or 1 for each layer"
  end
  hyper.layer_types, hyper.window = list, hyper.window or number(config.sliding_window_size)
  hyper.keep_value_dim = true
  hyper.qkv_bias, hyper.attention_bias = config.attention_bias == true, false
  hyper.attention_sinks = config.add_full_attention_sink_bias == true or nil
  local sinks = config.add_swa_attention_sink_bias == true
  hyper.layer_fields = fields_where(hyper, "sliding_attention", { heads = number(config.swa_num_attention_heads),
    kv_heads = number(config.swa_num_key_value_heads), head_dim = number(config.swa_head_dim),
    v_head_dim = number(config.swa_v_head_dim), attention_sinks = sinks })
  groups(config, hyper)
end

--- Falcon-H1 (arXiv 2507.22448): attention and Mamba-2 side by side.
local function falcon_h1(config, hyper, _, found)
  hybrids.mamba(config, hyper)
  local inner = number(config.mamba_d_ssm) or hyper.ssm_inner
  hyper.ssm_inner, hyper.parallel_mixer = inner, "mamba2"
  hyper.ssm_heads = hyper.ssm_heads or 128
  hyper.ssm_head_dim = number(config.mamba_d_head) or inner and hyper.ssm_heads > 0 and inner // hyper.ssm_heads or nil
  hyper.ssm_output_norm = config.mamba_rms_norm == true
  if (config.projectors_bias == true) ~= (config.mamba_proj_bias == true) then
    found[#found + 1] = "field 'projectors_bias' must equal mamba_proj_bias; ett has one field for both"
  end
end

--- Nemotron-NAS (Puzzle, arXiv 2411.19146): attention and MLP of each layer have their own widths, or are left out.
local function nemotron_nas(config, hyper, _, found)
  local list, heads, hidden = {}, number(hyper.heads) or 1, number(hyper.hidden) or 1
  local keys = table_of(config.num_key_value_heads_per_layer) -- DeciLM
  for i = 1, #table_of(config.block_configs) > 0 and 0 or #keys do list[i] = { kv_heads = number(keys[i]) } end
  for i, block in ipairs(table_of(config.block_configs)) do
    local attention, mlp = table_of(table_of(block).attention), table_of(table_of(block).ffn)
    local group, ratio, own = number(attention.n_heads_in_group), number(mlp.ffn_mult), {}
    own.kv_heads = group and group > 0 and heads // group or number(attention.num_key_value_heads)
    own.ffn = number(mlp.intermediate_size)
      or ratio and (math.floor(2 * ratio * hidden / 3) + 255) // 256 * 256 or nil
    own.no_attention, own.no_mlp = attention.no_op == true or nil, mlp.no_op == true or nil
    if own.no_attention then own.kv_heads = nil end
    for part, fields in pairs { attention = attention, ffn = mlp } do
      if fields.replace_with_linear == true then
        found[#found + 1] = ("field 'block_configs': layer %d: '%s' is replaced by a linear layer; "
          .. "ett does not support it"):format(i, part)
      end
    end
    list[i] = own
  end
  if #list ~= hyper.layers then
    found[#found + 1] = "field 'block_configs' must have an entry for each layer"
  end
  hyper.layer_fields = list
end

--- The fields of Gemma 3n's and 4's per-layer embeddings.
local function per_layer(config, hyper)
  hyper.per_layer_width = number(config.hidden_size_per_layer_input)
  hyper.per_layer_vocab = number(config.vocab_size_per_layer_input)
  if (hyper.per_layer_width or 0) == 0 then hyper.per_layer_vocab = nil end
end

--- The first layer (counted from 1) that uses keys and values of an earlier one.
local function first_sharing(config, hyper)
  local shared = number(config.num_kv_shared_layers) or 0
  return shared > 0 and (number(hyper.layers) or 0) - shared + 1 or math.huge
end

local windows = { sliding_attention = true, full_attention = true }

local function gemma3n(config, hyper, notes, found)
  check_kinds(config, "layer_types", hyper.layers, windows, found)
  per_layer(config, hyper)
  hyper.altup_streams, hyper.laurel_rank = number(config.altup_num_inputs) or 4, number(config.laurel_rank) or 64
  hyper.layer_types = kinds(hyper.layers, "sliding_attention", function(i)
    local kind = table_of(config.layer_types)[i + 1]
    if kind then return kind == "full_attention" end
    return (i + 1) % 5 == 0
  end)
  local first, list = first_sharing(config, hyper), {}
  for i = 1, math.min(number(hyper.layers) or 0, max_layers) do
    list[i] = i >= first and { borrowed_keys = true } or false
  end
  hyper.layer_fields = list
  if first < math.huge then
    notes[#notes + 1] = "weights of keys and values in the layers that share them are not counted: nothing uses them"
  end
  if #table_of(config.activation_sparsity_pattern) > 0 then
    notes[#notes + 1] = "activation_sparsity_pattern: its statistics take no time here, and products are dense"
  end
end

--- Gemma 4: layers without a window have wider heads, whose keys may be the values.
local function gemma4(config, hyper, _, found)
  check_kinds(config, "layer_types", hyper.layers, windows, found)
  per_layer(config, hyper)
  hyper.layer_types = kinds(hyper.layers, "sliding_attention", function(i)
    local kind = table_of(config.layer_types)[i + 1]
    if kind then return kind == "full_attention" end
    return (i + 1) % 6 == 0
  end)
  if config.enable_moe_block == true then
    hyper.top_k, hyper.keep_mixture = number(config.top_k_experts), true
  else
    hyper.experts, hyper.top_k, hyper.moe_ffn = nil, nil, nil
  end
  local turned = table_of(table_of(config.rope_parameters).full_attention)
  local first, same, list = first_sharing(config, hyper), config.attention_k_eq_v == true, {}
  for i, kind in ipairs(hyper.layer_types or {}) do
    local own = i >= first and { borrowed_keys = true, ffn = config.use_double_wide_mlp == true and number(hyper.ffn)
      and 2 * hyper.ffn or nil } or {}
    if kind == "full_attention" then
      own.head_dim, own.rotary_fraction = number(config.global_head_dim), number(turned.partial_rotary_factor)
      own.kv_heads = same and number(config.num_global_key_value_heads) or nil
      own.keys_as_values = same and not own.borrowed_keys or nil
    end
    list[i] = next(own) and own or false
  end
  hyper.layer_fields = list
end

--- LongCat-Flash (arXiv 2509.01322): two blocks of attention and MLP in each layer, experts beside the second.
local function longcat(config, hyper, notes)
  local zero, real = number(config.zero_expert_num) or 0, number(hyper.experts) or 0
  hyper.zero_experts = zero
  if zero > 0 and number(hyper.top_k) then
    notes[#notes + 1] = ("a token uses %.1f real experts on average: %.14g of %.14g return their input"):format(
      hyper.top_k * real / (real + zero), zero, real + zero)
  end
  hyper.kv_heads, hyper.head_dim, hyper.keep_mixture = nil, nil, true
end

return function(add)
  add("lfm2", "llama", { tied_embeddings = true, qk_norm = true }, { read = lfm2_dense })
  add("lfm2_moe", "mixtral", { tied_embeddings = true, qk_norm = true, first_dense_layers = 2 }, { read = lfm2 })
  add("minimax minimax_text_01 minimax_m1", "mixtral", nil, { read = minimax })
  add("bailing_moe_linear bailing_moe_v2_5", "mixtral", nil, { latent = true, read = bailing_linear })
  add("kimi_linear", "mixtral", nil, { latent = true, read = kimi_linear })
  add("step3_text", "mixtral", { first_dense_layers = 0 }, { latent = true, read = step3 })
  add("step3p5", "mixtral", { qk_norm = true }, { read = step3p5 })
  add("mimo_v2_flash mimo_v2", "mixtral", nil, { read = mimo_v2,
    expresses = { swa_num_attention_heads = true, swa_num_key_value_heads = true } })
  add("falcon_h1", "llama", nil, { read = falcon_h1 })
  add("nemotron-nas deci", "llama", nil, { read = nemotron_nas, expresses = { block_configs = true } })
  local gemma = { tied_embeddings = true, qk_norm = true, value_norm = true }
  add("gemma3n gemma3n_text", "gemma3n", gemma, { read = gemma3n, expresses = { num_kv_shared_layers = true } })
  add("gemma4 gemma4_text", "gemma3n", gemma, { read = gemma4, expresses = { num_kv_shared_layers = true,
    global_head_dim = true, num_global_key_value_heads = true } })
  add("longcat_flash", "longcat", nil, { latent = true, read = longcat })
end
