--- Hyper-parameters: the fields that any model may have, and what follows from the given ones.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local hyper = {}

local function upto(bits, optional) return { "count", optional = optional ~= false, most = 1 << bits } end

--- Fields of every architecture. Their limits are at least ten times what has been built. They keep every count of
--- parameters within 64 bits.
hyper.fields = {
  layers = upto(16, false), hidden = upto(20, false), heads = upto(14, false), vocab = upto(26, false),
  kv_heads = upto(14), head_dim = upto(14), ffn = upto(22), vocab_multiple = upto(20), max_positions = upto(26),
  gated_mlp = "boolean?", bias = "boolean?", qkv_bias = "boolean?", attention_bias = "boolean?",
  mlp_bias = "boolean?", head_bias = "boolean?", norm_bias = "boolean?", causal = "boolean?",
  window = "count?", window_every = "count?",
  norm = { "string", optional = true, one_of = { "layer_norm", "rms_norm" } },
  activation = { "string", optional = true, one_of = { "gelu", "swiglu", "geglu" } },
  attention = { "string", optional = true, one_of = { "flash", "fused_softmax", "unfused" } },
  position = { "string", optional = true, one_of = { "rope", "learned", "alibi", "none" } },
  rotary_fraction = "fraction?", parallel_block = "boolean?", tied_embeddings = "boolean?", dropout = "boolean?",
  qk_norm = "boolean?", qk_norm_whole = "boolean?",
  shared_norm = "boolean?", post_norms = "boolean?", embedding_norm = "boolean?",
  q_lora_rank = upto(20), kv_lora_rank = upto(20), qk_nope_head_dim = upto(14), qk_rope_head_dim = upto(14),
  v_head_dim = upto(14),
  experts = upto(16), top_k = upto(16), moe_ffn = upto(20), shared_ffn = upto(22),
  shared_experts = { "natural", optional = true, most = 1 << 10 }, expert_groups = upto(16), top_groups = upto(16),
  first_dense_layers = { "natural", optional = true, most = 1 << 16 }, moe_every = upto(16),
  encoder_function_list = "list?",
}

--- The fields of an architecture: the common ones and those that its file declares.
function hyper.fields_with(own)
  if not own then return hyper.fields end
  local fields = {}
  for name, rule in pairs(hyper.fields) do fields[name] = rule end
  for name, rule in pairs(own) do fields[name] = rule end
  return fields
end

local function set_activation(h, label)
  if not h.activation then return end
  local gated = h.activation ~= "gelu"
  if h.gated_mlp ~= nil and h.gated_mlp ~= gated then
    error_module.raise("model", "%s: activation = '%s' contradicts gated_mlp = %s; give one of them", label,
      h.activation, tostring(h.gated_mlp))
  end
  h.gated_mlp = gated
end

--- Multi-head latent attention has all of its four fields or none.
local function set_latent(h, label)
  local missing = {}
  for _, field in ipairs { "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim" } do
    if h[field] == nil then missing[#missing + 1] = field end
  end
  if #missing == 0 then
    h.head_dim = h.qk_nope_head_dim + h.qk_rope_head_dim
  elseif #missing < 4 then
    error_module.raise("model", "%s: multi-head latent attention also needs '%s'", label,
      table.concat(missing, "', '"))
  end
end

--- A checked copy of hyper-parameters, with kv_heads, head_dim and gated_mlp filled in.
---@param given table
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
    error_module.raise("model", "%s: kv_heads = %d must divide heads = %d", label, h.kv_heads, h.heads)
  end
  return h
end

return hyper
