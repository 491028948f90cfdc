--- Hyper-parameters: the fields that any model may have, and fields derived from them.
local error_module = require "ett.base.error"
local layer_kinds = require "ett.model.layer_kinds"
local merged = require "ett.base.merged"
local mixer = require "ett.operator.mixer"
local schema = require "ett.base.schema"

local hyper = {}

local function count(help, bits) return { "count", optional = true, most = 1 << (bits or 20), help = help } end
local function needed(help, bits) return { "count", most = 1 << bits, help = help } end
local function flag(help) return { "boolean", optional = true, help = help } end
local function choice(...) return { "string", optional = true, one_of = { ... } } end

local blocks = {} -- kinds that are blocks without attention
for _, kind in ipairs(schema.keys(layer_kinds)) do if layer_kinds[kind].alone then blocks[#blocks + 1] = kind end end

--- Fields of every architecture. The limits are at least ten times the largest published values, and keep every count
--- of parameters within 64 bits.
hyper.fields = {
  layers = needed("transformer layers", 16), hidden = needed("width of the residual stream", 20),
  heads = needed("attention heads", 14), vocab = needed("rows of the vocabulary", 26),
  kv_heads = count("key and value heads (default heads)", 14),
  head_dim = count("width of a head (default hidden / heads)", 14),
  ffn = count("width of the MLP", 22), vocab_multiple = count "pads the vocabulary (default 128)",
  max_positions = count("rows of learned positions", 26),
  activation = choice("gelu", "swiglu", "geglu"), gated_mlp = flag "MLP with a gate",
  clamped_mlp = flag "the gated activation clamps its inputs (gpt-oss)",
  attention = choice("flash", "fused_softmax", "unfused"), causal = flag "causal mask (default true)",
  window = count("tokens of a sliding window", 40), window_every = count("each n-th layer has no window", 16),
  position = choice("rope", "learned", "alibi", "none"),
  rotary_fraction = { "fraction", optional = true, help = "part of a head that rope rotates" },
  scaled_rope = flag "rope also scales queries and keys (YaRN)",
  norm = choice("layer_norm", "rms_norm"), norm_bias = flag "biases of layer norms",
  gainless = flag "norms without gains and biases",
  value_norm = flag "norm of values, without gains (Gemma 3n)",
  keys_as_values = flag "the keys are the values, too (Gemma 4)",
  borrowed_keys = flag "keys and values of an earlier layer (Gemma 3n)",
  qk_norm = flag "norms of queries and keys", qk_norm_whole = flag "qk_norm as one norm over all heads",
  qk_l2_norm = flag "norms of rotated queries and keys, without gains (Llama 4)",
  shared_norm = flag "one norm for both branches of a parallel block", post_norms = flag "also norms after each block",
  embedding_norm = flag "norm after the embedding",
  parallel_block = flag "attention and MLP side by side", dropout = flag "dropout during training",
  tied_embeddings = flag "the head shares the embedding's weights",
  bias = flag "biases of all linears", qkv_bias = flag "biases of queries, keys and values",
  attention_bias = flag "biases of the attention linears", mlp_bias = flag "biases of the MLP",
  head_bias = flag "bias of the head", logit_softcap = flag "soft cap of the logits (Gemma 2)",
  attention_softcap = flag "soft cap of attention scores (Gemma 2); flash attention has it inside",
  q_lora_rank = count "width of compressed queries (latent attention, multi-matrix factorization attention)",
  kv_lora_rank = count "latent attention: width of compressed keys and values",
  qk_nope_head_dim = count("latent attention: a head's width without positions", 14),
  qk_rope_head_dim = { "natural", optional = true, most = 1 << 14,
    help = "latent attention: a head's width with rotary positions" },
  v_head_dim = count("a head's width of values (default head_dim)", 14),
  experts = count("experts per layer", 16), top_k = count("experts that each token uses", 16),
  moe_latent = count "width of tokens in their experts (default hidden)",
  moe_ffn = count "width of an expert", shared_ffn = count("width of all shared experts together", 22),
  shared_experts = { "natural", optional = true, most = 1 << 10, help = "experts that every token uses" },
  shared_gate = flag "sigmoid gate of the shared experts' output",
  expert_groups = count("groups of experts", 16), top_groups = count("groups that a token may choose from", 16),
  first_dense_layers = { "natural", optional = true, most = 1 << 16, help = "first layers without experts" },
  mtp_layers = { "natural", optional = true, most = 1 << 8, help = "layers of multi-token prediction" },
  layer_types = { "list", optional = true,
    help = ("kind of each layer, repeated: %s; %s only in hybrid"):format(table.concat(schema.keys(layer_kinds), ", "),
      table.concat(blocks, " and ")) },
  layer_fields = { "list", optional = true, help = "fields of each layer that differ from the model's: heads, "
    .. "kv_heads, head_dim, v_head_dim, ffn, moe_ffn, rotary_fraction, attention_sinks, keys_as_values, "
    .. "borrowed_keys, no_attention, no_mlp" },
  dense_layers = { "list", optional = true, help = "layers without experts, counted from 1" },
  mixer = { "string", optional = true, one_of = schema.keys(mixer.kinds),
    help = "mixer of every layer in place of attention" },
  parallel_mixer = { "string", optional = true, one_of = { "mamba2" }, help = "mixer beside attention (Falcon-H1)" },
  attention_chunk = count("tokens of a chunk; attention stays within its chunk", 40),
  attention_gate = flag "sigmoid gate of the attention's output",
  head_gate = flag "attention_gate with one value per head",
  attention_sinks = flag "a learned score per head in the softmax",
  index_heads = count("heads of the lightning indexer", 14), index_head_dim = count("width of an indexer head", 14),
  index_top_k = count("keys that the indexer selects for attention", 24),
  ssm_inner = count("width inside Mamba (default 2 * hidden)", 22), ssm_state = count("states per channel", 16),
  ssm_heads = count("heads of Mamba-2", 16), ssm_head_dim = count("width of a Mamba-2 head (default 64)", 14),
  ssm_groups = count("groups of B and C (default 1)", 14), ssm_dt_rank = count "Mamba: width of the compressed step",
  ssm_norms = flag "norms of Mamba's step, B and C",
  ssm_output_norm = flag "norm of Mamba-2's output (default true)", ssm_bias = flag "biases of Mamba's projections",
  conv_kernel = count("tokens of the convolution before a scan (default 4)", 8),
  scan_chunk = count("tokens of a scan's chunk (default 256, gated delta net 64)", 14),
  linear_key_heads = count("gated delta net: key heads", 14),
  linear_value_heads = count("gated delta net: value heads; lightning attention: heads (default heads)", 14),
  linear_key_dim = count("gated delta net: width of keys (default 128); lightning attention: of a key (default that of "
    .. "values)", 14),
  linear_value_dim = count("gated delta net: width of values (default 128); lightning attention: of a head", 14),
  linear_silu = flag "lightning attention: SiLU of queries, keys and values (default true)",
  linear_rope = flag "lightning attention: rotary positions",
  linear_decays = flag "lightning attention: a decay of each channel of the keys (gated linear attention, RWKV-6)",
  linear_gate_rank = count("Kimi delta attention: width of compressed gates", 14),
  moe_every = count("every n-th layer has experts", 16),
  encoder_function_list = { "list", optional = true, help = "operators of each layer, in place of the architecture's" },
}

-- Their names in Hugging Face's configurations and Megatron-LM's flags (schema.suggestion).
for name, also in pairs { layers = "num_layers num_hidden_layers n_layers n_layer", hidden = "d_model n_embd dim",
  heads = "num_attention_heads num_heads n_heads n_head", vocab = "vocabulary",
  kv_heads = "num_key_value_heads num_query_groups n_kv_heads", ffn = "intermediate ffn_hidden d_ff",
  max_positions = "max_position_embeddings", experts = "num_experts num_local_experts n_routed_experts",
  top_k = "num_experts_per_tok experts_per_token moe_router_topk", moe_ffn = "moe_intermediate moe_ffn_hidden",
  tied_embeddings = "tie_word_embeddings", window = "sliding_window" } do
  hyper.fields[name].also = also
end

--- Fields that only `with` of a layer's entry may set.
hyper.entry_fields = { key_seq = count("tokens of another sequence to which attention attends", 24),
  unquantised = flag "the gathered tensor has 16 bits, also under fp8 and nvfp4" }

--- Fields that blocks set for a kind of layers (ett.model.blocks); no caller states them.
hyper.layer_fields = { no_attention = true, no_mlp = true }
for _, kind in pairs(layer_kinds) do
  for name in pairs(kind.fields) do hyper.layer_fields[name] = true end
end

--- The fields of an architecture: the common ones and the ones that its file declares.
function hyper.fields_with(own) return own and merged(hyper.fields, own) or hyper.fields end

local function set_activation(h, label)
  if not h.activation then return end
  local gated = h.activation ~= "gelu"
  if h.gated_mlp ~= nil and h.gated_mlp ~= gated then
    error_module.raise("model", "%s: activation = '%s' contradicts gated_mlp = %s; give one of them", label,
      h.activation, tostring(h.gated_mlp))
  end
  h.gated_mlp = gated
end

--- Checks that multi-head latent attention has all four of its fields or none.
local function set_latent(h, label)
  local missing = {}
  for _, field in ipairs { "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim" } do
    if h[field] == nil then missing[#missing + 1] = field end
  end
  if #missing == 0 then
    h.head_dim = h.qk_nope_head_dim + h.qk_rope_head_dim
  elseif #missing < 4 and not (#missing == 3 and h.v_head_dim) then -- v_head_dim alone: the width of values
    error_module.raise("model", "%s: multi-head latent attention also needs '%s'", label,
      table.concat(missing, "', '"))
  end
end

--- A checked copy of hyper-parameters, with kv_heads, head_dim and gated_mlp filled in. Raises on contradictions.
---@param own table? rules of the architecture's own fields
---@param label string for messages
function hyper.check(given, own, label)
  local h = schema.check(given, hyper.fields_with(own), label)
  h.kv_heads = h.kv_heads or h.heads
  set_activation(h, label)
  set_latent(h, label)
  if not h.head_dim then
    if h.hidden % h.heads ~= 0 then
      error_module.raise("model", "%s: heads = %d must divide hidden = %d, or give head_dim", label, h.heads, h.hidden)
    end
    h.head_dim = h.hidden // h.heads
  end
  if h.heads % h.kv_heads ~= 0 then
    local divisors = require "ett.base.divisors"
    error_module.raise("model", "%s: kv_heads = %d must divide heads = %d (%s)", label, h.kv_heads, h.heads,
      table.concat(divisors(h.heads), ", "))
  end
  return h
end

return hyper
