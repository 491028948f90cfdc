--- Hugging Face model types: architecture, defaults, and special cases of each.
--
-- The defaults are those of the transformers library's configuration classes
-- (src/transformers/models/*/configuration_*.py). Specs compare parameter counts with published ones.
local hybrids = require "ett.import.huggingface_hybrids"

local types = {}

-- An entry: { architecture, default hyper-parameters, read = function(config, hyper, notes, found) }.
local known = {}
types.known = known

local function add(names, architecture, unsaid, more)
  local entry = more or {}
  entry[1], entry[2] = architecture, unsaid
  for name in names:gmatch "%S+" do known[name] = entry end
end

local number, groups = hybrids.number, hybrids.groups

--- RMS norm, rotary positions, gated MLP.
add("llama mistral ministral ministral3 phi3 phi3_v phi4mm yi internlm2 granite exaone helium cwm xverse", "llama")
add("orion", "llama", { norm = "layer_norm" })
add("nanochat", "llama", { qk_norm = true, gated_mlp = false, embedding_norm = true })
--- Masked diffusion: attention to all tokens (LLaDA, arXiv 2502.09992).
add("llada", "llama", { causal = false }, { read = function(config, hyper, _, found)
  hyper.kv_heads, hyper.ffn = number(config.n_kv_heads), number(config.mlp_hidden_size)
  hyper.vocab, hyper.tied_embeddings = number(config.embedding_size) or hyper.vocab, config.weight_tying == true
  hyper.bias, hyper.qkv_bias = config.include_bias == true, config.include_qkv_bias == true
  if config.block_type ~= nil and config.block_type ~= "llama" then
    found[#found + 1] = ("field 'block_type' must be 'llama', got '%s'"):format(tostring(config.block_type))
  end
end })
add("Dream dream", "llama", { causal = false, qkv_bias = true }, {
  read = function(_, hyper) hyper.attention_bias = nil end,
})
add("smollm3", "llama", { tied_embeddings = true }, { nope = "named layers" })
add("minicpm", "llama", { tied_embeddings = true })
add("qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text", "llama", { qkv_bias = true }, {
  read = function(_, hyper) hyper.attention_bias = nil end,
})
add("qwen3 qwen3_vl_text hunyuan_v1_dense", "llama", { qk_norm = true })
add("exaone4", "llama", { qk_norm = true }, { nope = "full layers" })
add("mimo", "llama", nil, { read = function(config, hyper)
  hyper.qkv_bias, hyper.attention_bias = config.attention_bias == true, false
end })
add("glm", "llama", { qkv_bias = true, attention_bias = false, rotary_fraction = 0.5 }, { read = function(config, hyper)
  hyper.qkv_bias, hyper.attention_bias = config.attention_bias ~= false, false
end })
add("olmo2 olmo3", "llama", { qk_norm = true, qk_norm_whole = true })
add("arcee", "llama", { gated_mlp = false })
add("internlm3", "llama", nil, { read = function(config, hyper)
  hyper.qkv_bias, hyper.bias = config.qkv_bias == true, config.bias == true
end })
known.internlm2 = { "llama", nil, read = function(config, hyper)
  hyper.attention_bias, hyper.bias = config.bias == true, false
end }

--- Gemma: tied embeddings. Gemma 2 and 3 also have norms after each block, and alternate local and global layers.
add("gemma", "llama", { tied_embeddings = true })
add("vaultgemma", "llama", { tied_embeddings = true, window_every = 2 })
add("gemma2", "llama", { tied_embeddings = true, post_norms = true, window_every = 2, logit_softcap = true,
  attention_softcap = true })
add("gemma3_text", "llama", { tied_embeddings = true, post_norms = true, qk_norm = true, window_every = 6 })

--- Layer norms; otherwise as llama.
add("olmo", "llama", { norm = "layer_norm", gainless = true }) -- transformers, modeling_olmo.py: OlmoLayerNorm
add("stablelm", "llama", { norm = "layer_norm", rotary_fraction = 0.25 }, { read = function(config, hyper)
  if hyper.parallel_block then hyper.shared_norm = true end
  if config.qk_layernorm then hyper.qk_norm, hyper.qk_norm_whole = true, true end
end })
add("starcoder2", "llama", { norm = "layer_norm", gated_mlp = false, bias = true, tied_embeddings = true })
add("nemotron", "llama", { norm = "layer_norm", gated_mlp = false, rotary_fraction = 0.5 })
local function cohere(config, hyper)
  if config.use_qk_norm then hyper.qk_norm, hyper.qk_norm_whole = true, true end
end
add("cohere", "llama", { norm = "layer_norm", norm_bias = false, tied_embeddings = true, parallel_block = true,
  shared_norm = true }, { read = cohere })
add("cohere2", "llama", { norm = "layer_norm", norm_bias = false, tied_embeddings = true, parallel_block = true,
  shared_norm = true, window_every = 4 }, { read = cohere, nope = "full layers" })

--- Layer norm, GELU.
add("gpt2", "gpt", { tied_embeddings = true })
add("gpt_bigcode", "gpt", { tied_embeddings = true }, { read = function(config, hyper)
  if config.multi_query ~= false then hyper.kv_heads = 1 end
end })
add("gpt_neox", "gpt", { position = "rope", tied_embeddings = false, parallel_block = true, rotary_fraction = 0.25 })
add("gptj", "gpt", { position = "rope", tied_embeddings = false, parallel_block = true, shared_norm = true,
  attention_bias = false, head_bias = true }, { read = function(config, hyper)
  local turned = number(config.rotary_dim)
  if turned and number(hyper.hidden) and number(hyper.heads) and hyper.heads > 0 and hyper.hidden >= hyper.heads then
    hyper.rotary_fraction = math.max(0, math.min(1, turned / (hyper.hidden / hyper.heads)))
  end
end })
add("phi", "gpt", { position = "rope", tied_embeddings = false, parallel_block = true, shared_norm = true,
  head_bias = true, rotary_fraction = 0.5 }, { read = function(config, hyper)
  if config.qk_layernorm then hyper.qk_norm = true end
end })
add("opt", "gpt", { tied_embeddings = true }, { learned = true, read = function(config, hyper)
  -- The position table has two extra rows in front.
  if number(hyper.max_positions) then hyper.max_positions = hyper.max_positions + 2 end
  if config.enable_bias == false then hyper.bias = false end
end })
known.gpt2.learned, known.gpt_bigcode.learned = true, true
add("bloom", "gpt", { position = "alibi", tied_embeddings = true, embedding_norm = true })
add("mpt", "gpt", { position = "alibi", tied_embeddings = true }, { read = function(config, hyper, notes)
  local ratio = number(config.expansion_ratio)
  if ratio and number(hyper.hidden) then hyper.ffn = hyper.hidden * ratio end
  local no_bias = config.no_bias ~= false
  hyper.bias, hyper.norm_bias = not no_bias, not no_bias
  local attention = type(config.attn_config) == "table" and config.attn_config or {}
  if attention.alibi == false then
    hyper.position = "learned"
    hyper.max_positions = number(config.max_seq_len)
  end
  local kv = number(attention.kv_n_heads)
  if kv then hyper.kv_heads = kv end
  if attention.attn_type == "multiquery_attention" then hyper.kv_heads = 1 end
  if number(config.logit_scale) then notes[#notes + 1] = "logit_scale is ignored: it takes no time" end
end })
add("falcon", "gpt", { position = "rope", tied_embeddings = true, bias = false }, { read = function(config, hyper)
  local new = config.new_decoder_architecture == true
  if config.alibi then hyper.position = "alibi" end
  if new then
    hyper.kv_heads = number(config.num_kv_heads) or hyper.heads
  elseif config.multi_query ~= false then
    hyper.kv_heads = 1
  end
  hyper.parallel_block = new or config.parallel_attn ~= false
  local norms = number(config.num_ln_in_parallel_attn) or (new and 2 or 1)
  hyper.shared_norm = hyper.parallel_block and norms == 1 or nil
end })

--- Mixtures of experts.
add("mixtral", "mixtral")
add("qwen2_moe", "mixtral", { qkv_bias = true, shared_gate = true },
  { read = function(_, hyper) hyper.attention_bias = nil end })
add("qwen3_moe qwen3_vl_moe_text qwen3_omni_moe_text", "mixtral", { qk_norm = true })
add("olmoe flex_olmo", "mixtral", { qk_norm = true, qk_norm_whole = true })
add("granitemoe granitemoeshared", "mixtral")
add("phimoe", "mixtral", { norm = "layer_norm" }, { read = function(config, hyper)
  hyper.head_bias = config.lm_head_bias == true
end })
add("gpt_oss", "mixtral", { bias = true, window_every = 2, attention_sinks = true, clamped_mlp = true,
  scaled_rope = true })
add("llama4_text", "mixtral", { shared_experts = 1 }, { nope = "full layers", read = function(config, hyper)
  hyper.qk_l2_norm = config.use_qk_norm == true or nil
  hyper.attention_chunk = number(config.attention_chunk_size)
  if hyper.attention_chunk and not config.layer_types then -- every fourth layer has global attention
    hyper.layer_types = { "chunked_attention", "chunked_attention", "chunked_attention", "full_attention" }
  end
  -- intermediate_size is the width of an expert; intermediate_size_mlp is that of dense layers.
  hyper.moe_ffn = hyper.ffn
  hyper.ffn = number(config.intermediate_size_mlp) or hyper.ffn
end })

add("deepseek_v2 deepseek_v3 kimi_k2 glm4_moe_lite youtu", "mixtral", nil, { latent = true, read = function(config,
  hyper, notes, found)
  local every = number(config.moe_layer_freq)
  if every and every ~= 1 then
    found[#found + 1] = ("field 'moe_layer_freq' must be 1, got %s; no published model has another value"):format(every)
  end
  hyper.kv_heads, hyper.head_dim, hyper.rotary_fraction = nil, nil, nil
  hyper.moe_every, hyper.attention_bias = nil, nil
  groups(config, hyper)
  if not number(hyper.experts) then
    hyper.architecture = "llama" -- no experts: dense layers with the same attention
    notes[#notes + 1] = "no field 'n_routed_experts': all layers are modelled as dense"
  end
end })

--- Other families of 2023 to 2025.
add("glm4 glm4v_text", "llama", { post_norms = true, rotary_fraction = 0.5 }, { read = function(config, hyper)
  hyper.qkv_bias, hyper.attention_bias = config.attention_bias == true, false
end })
add("glm4_moe glm4v_moe_text", "mixtral", { rotary_fraction = 0.5 }, { read = function(config, hyper)
  hyper.qkv_bias, hyper.attention_bias = config.attention_bias == true, false
  hyper.qk_norm = config.use_qk_norm == true or nil
  groups(config, hyper)
end })
add("dots1", "mixtral", { qk_norm = true }, { read = groups })
add("solar_open", "mixtral", nil, { read = groups })
--- Ling and Ring: version 2 has a norm of queries and keys, and groups of experts.
add("bailing_moe bailing_moe_v2", "mixtral", nil, { read = function(config, hyper)
  hyper.qk_norm = config.use_qk_norm == true or nil
  groups(config, hyper)
end })
add("exaone_moe", "mixtral", { qk_norm = true }, { nope = "full layers", read = groups })
add("afmoe", "mixtral", { qk_norm = true, post_norms = true, attention_gate = true }, { nope = "full layers",
  read = function(config, hyper)
    hyper.window_every = number(config.global_attn_every_n_layers) or 4
    groups(config, hyper)
  end })
add("hunyuan_v1_moe hunyuan", "mixtral", { qk_norm = true, shared_experts = 1, top_k = 1 }, {
  read = function(config, hyper)
    hyper.moe_ffn = hyper.moe_ffn or hyper.ffn
    hyper.first_dense_layers = number(config.moe_layer_num_skipped)
    if hyper.experts == 1 then hyper.architecture = "llama" end
  end })
--- Grok-1: norms behind each block, too.
add("grok-1", "mixtral", { post_norms = true, tied_embeddings = true })
--- Arctic: an MLP as wide as the residual stream beside the experts.
add("arctic", "mixtral", nil, { read = function(config, hyper, notes, found)
  hyper.moe_ffn, hyper.moe_every = hyper.ffn, number(config.moe_layer_frequency)
  if config.parallel_attn_mlp_res ~= true then
    found[#found + 1] = "field 'parallel_attn_mlp_res' must be true; ett supports no other kind of Arctic"
  end
  hyper.shared_ffn = hyper.hidden
  notes[#notes + 1] = "the residual MLP is estimated as a shared expert, without its norm"
end })
add("apertus", "llama", { gated_mlp = false, qk_norm = true })
add("seed_oss", "llama", { qkv_bias = true }, { read = function(config, hyper)
  hyper.qkv_bias, hyper.attention_bias = config.attention_bias ~= false, config.attention_out_bias == true
end })
add("ernie4_5", "llama", { tied_embeddings = true })
add("ernie4_5_moe", "mixtral", { tied_embeddings = true }, { read = function(config, hyper, notes)
  hyper.experts, hyper.top_k = number(config.moe_num_experts) or 64, number(config.moe_k) or 6
  hyper.shared_experts = number(config.moe_num_shared_experts)
  hyper.first_dense_layers = number(config.moe_layer_start_index) or 1
  hyper.moe_every = number(config.moe_layer_interval)
  local last = number(config.moe_layer_end_index)
  if last and last >= 0 and number(hyper.layers) and last < hyper.layers - 1 then
    notes[#notes + 1] = ("the layers after moe_layer_end_index = %d are also modelled with experts"):format(last)
  end
end })
add("minimax_m2", "mixtral", nil, { read = function(config, hyper)
  hyper.moe_ffn = hyper.ffn
  if config.use_qk_norm then hyper.qk_norm, hyper.qk_norm_whole = true, config.qk_norm_type == "per_layer" end
  local turned = number(config.rotary_dim)
  if turned and number(hyper.head_dim) and hyper.head_dim > 0 then
    hyper.rotary_fraction = math.min(1, turned / hyper.head_dim)
  end
end })
add("dbrx", "mixtral", { norm = "layer_norm", norm_bias = false }, { read = function(config, hyper)
  local attention = type(config.attn_config) == "table" and config.attn_config or {}
  local feed = type(config.ffn_config) == "table" and config.ffn_config or {}
  hyper.kv_heads = number(attention.kv_n_heads)
  hyper.ffn, hyper.experts = number(feed.ffn_hidden_size) or 3584, number(feed.moe_num_experts) or 4
  hyper.top_k = number(feed.moe_top_k) or 1
end })
add("baichuan", "llama", nil, { read = function(config, hyper)
  -- The 13B models use another field for their length, and have ALiBi.
  if not number(config.max_position_embeddings) then hyper.position = "alibi" end
end })
add("chatglm", "llama", { rotary_fraction = 0.5, tied_embeddings = false }, { read = function(config, hyper)
  local inner = number(config.inner_hidden_size)
  if inner then -- the first ChatGLM: layer norms, biases, an ungated MLP, one embedding table
    hyper.ffn, hyper.norm, hyper.gated_mlp, hyper.bias = inner, "layer_norm", false, true
    hyper.tied_embeddings, hyper.rotary_fraction = true, nil
    return
  end
  hyper.head_dim = number(config.kv_channels)
  if config.multi_query_attention then hyper.kv_heads = number(config.multi_query_group_num) end
  hyper.bias, hyper.qkv_bias = config.add_bias_linear == true, config.add_qkv_bias == true
  if config.rmsnorm == false then hyper.norm = "layer_norm" end
end })
add("deepseek_v32", "mixtral", nil, { latent = true, read = function(config, hyper, notes, found)
  known.deepseek_v3.read(config, hyper, notes, found)
  hyper.index_heads = number(config.index_n_heads) or 64
  hyper.index_head_dim = number(config.index_head_dim) or 128
  hyper.index_top_k = number(config.index_topk) or 2048
end })
add("glm_moe_dsa", "mixtral", nil, { latent = true, read = function(config, hyper, notes, found)
  known.deepseek_v32.read(config, hyper, notes, found)
  hyper.index_heads = number(config.index_n_heads) or 32
end })
add("minicpm3", "llama", { tied_embeddings = true }, { latent = true, read = function(_, hyper)
  hyper.kv_heads = nil
  if not hyper.v_head_dim and number(hyper.hidden) and number(hyper.heads) and hyper.heads > 0 then
    hyper.v_head_dim = hyper.hidden // hyper.heads
  end
end })
hybrids.register(add)
require "ett.import.huggingface_layers"(add)

--- Default model type of the language model inside multi-modal models.
types.text_of = {
  gemma3n = "gemma3n_text", gemma4 = "gemma4_text", step3_vl = "step3_text", step3p7 = "step3p5", lfm2_vl = "lfm2",
  kimi_k3 = "kimi_linear", gemma3 = "gemma3_text", kimi_k25 = "kimi_k2", kimi_vl = "deepseek_v3",
  qwen3_5 = "qwen3_5_text", qwen3_5_moe = "qwen3_5_moe_text", qwen3_vl = "qwen3_vl_text",
  qwen3_vl_moe = "qwen3_vl_moe_text", llava = "llama", llava_next = "llama", llama4 = "llama4_text",
  mistral3 = "mistral", idefics3 = "llama", paligemma = "gemma", qwen2_vl = "qwen2", qwen2_5_vl = "qwen2",
  video_llava = "llama", vipllama = "llama",
}

--- Default values of the configuration classes in Hugging Face transformers. A nested part of a file states only what
--- differs from them.
types.defaults = {
  llama = { hidden = 4096, ffn = 11008, layers = 32, heads = 32, vocab = 32000 },
  mistral = { hidden = 4096, ffn = 14336, layers = 32, heads = 32, kv_heads = 8, vocab = 32000, window = 4096 },
  qwen2 = { hidden = 4096, ffn = 22016, layers = 32, heads = 32, vocab = 151936 },
  gemma = { hidden = 3072, ffn = 24576, layers = 28, heads = 16, head_dim = 256, vocab = 256000 },
  gemma2 = { hidden = 2304, ffn = 9216, layers = 26, heads = 8, kv_heads = 4, head_dim = 256, vocab = 256000,
    window = 4096 },
  gemma3_text = { hidden = 2304, ffn = 9216, layers = 26, heads = 8, kv_heads = 4, head_dim = 256, vocab = 262208,
    window = 4096 },
}

--- Refused model types, with the reason.
types.refused = {}
for names, why in pairs {
  ["longt5 bart mbart pegasus marian m2m_100 whisper switch_transformers"] = "an encoder-decoder other than T5",
  ["deberta deberta-v2"] = "an encoder with disentangled attention",
  distilbert = "a distilled encoder", ["electra clip"] = "a pair of encoders",
  modernbert = "an encoder that unpads its sequences",
  ["rwkv rwkv7 recurrent_gemma xlstm"] = "a recurrent model",
  ["zamba zamba2"] = "a hybrid whose attention layers share weights",
  diffllama = "a model with differential attention", bitnet = "a model with ternary weights",
  jetmoe = "a model with a mixture of attention heads", blt = "a model of bytes in patches of varying length",
  ["phi4flash phi4_flash"] = "a model whose layers share keys, values and states",
  ["mllama mllama_text_model"] = "a model with cross-attention layers",
  ["ernie4_5_moe_vl ernie4_5_vl_moe"] = "a model with separate experts for text and images",
  hymba = "a model with attention and Mamba side by side in each layer",
  laguna = "a model whose layers differ in their heads",
  deepseek_v4 = "a model with compressed attention and several residual streams",
} do
  for name in names:gmatch "%S+" do types.refused[name] = why end
end

return types
