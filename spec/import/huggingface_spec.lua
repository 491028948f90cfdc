--- Hugging Face configurations: parameter counts, refusals and notes.
-- Configurations and counts were written from memory, without the named sources. They have the fields that shape
-- a model, no more. Each count proves that the reader and the hyper-parameters agree with it, not that it is published.
local architecture = require "ett.model.architecture"
local estimate = require "ett.step.estimate"
local faults = require "ett.model.faults"
local json = require "ett.json"
local model_module = require "ett.model"
local published_count = require "published_count"
local raised = require "raised"

local function built(config)
  local path = os.tmpname()
  assert(json.write(path, config))
  local ok, answer = pcall(model_module.huggingface, path)
  os.remove(path)
  if not ok then error(answer, 0) end
  return answer
end

local function message(config) return raised(built, config) end

-- The refusal of a plan.
local function message_of_plan(m, plan)
  plan.seq, plan.micro_batches = 4096, 1
  return raised(estimate.new, { model = m, cluster = "dgx_h100", plan = plan })
end

local models = {}
local function model(name, published, source, config)
  models[#models + 1] = { name = name, published = published, source = source, config = config }
end

model("bloom-560m", 559214592, "model card of bigscience/bloom-560m", { model_type = "bloom", n_embed = 1024,
    n_layer = 24, num_attention_heads = 16, vocab_size = 250880 })
model("bloom", 176247271424, "model card of bigscience/bloom", { model_type = "bloom", n_embed = 14336, n_layer =
    70, num_attention_heads = 112, vocab_size = 250880 })
model("falcon-7b", 6921720704, "weights as stored on its hub page", { model_type = "falcon", hidden_size = 4544,
    num_hidden_layers = 32, num_attention_heads = 71, vocab_size = 65024, multi_query = true,
    new_decoder_architecture = false, parallel_attn = true, bias = false, alibi = false, num_kv_heads = 71 })
model("falcon-40b", 41303293952, "weights as stored on its hub page", { model_type = "falcon", hidden_size = 8192,
    num_hidden_layers = 60, num_attention_heads = 128, vocab_size = 65024, multi_query = true,
    new_decoder_architecture = true, parallel_attn = true, bias = false, alibi = false, num_kv_heads = 8 })
model("falcon-rw-1b", 1311625216, "weights as stored on its hub page", { model_type = "falcon", hidden_size = 2048,
    num_hidden_layers = 24, num_attention_heads = 32, vocab_size = 50304, multi_query = false,
    new_decoder_architecture = false, parallel_attn = false, bias = true, alibi = true })
model("deepseek-v3", 671e9, "arXiv 2412.19437: 671B total, multi-token prediction apart", { model_type =
    "deepseek_v3", hidden_size = 7168, intermediate_size = 18432, moe_intermediate_size = 2048, num_hidden_layers =
    61, num_attention_heads = 128, num_key_value_heads = 128, n_routed_experts = 256, n_shared_experts = 1,
    num_experts_per_tok = 8, first_k_dense_replace = 3, moe_layer_freq = 1, q_lora_rank = 1536, kv_lora_rank = 512,
    qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128, vocab_size = 129280, num_nextn_predict_layers =
    1, quantization_config = { quant_method = "fp8" } })
model("deepseek-v2", 235741434880, "weights as stored on its hub page", { model_type = "deepseek_v2", hidden_size =
    5120, intermediate_size = 12288, moe_intermediate_size = 1536, num_hidden_layers = 60, num_attention_heads =
    128, num_key_value_heads = 128, n_routed_experts = 160, n_shared_experts = 2, num_experts_per_tok = 6,
    first_k_dense_replace = 1, moe_layer_freq = 1, q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 128,
    qk_rope_head_dim = 64, v_head_dim = 128, vocab_size = 102400 })
model("deepseek-v2-lite", 15706484224, "weights as stored on its hub page", { model_type = "deepseek_v2",
    hidden_size = 2048, intermediate_size = 10944, moe_intermediate_size = 1408, num_hidden_layers = 27,
    num_attention_heads = 16, num_key_value_heads = 16, n_routed_experts = 64, n_shared_experts = 2,
    num_experts_per_tok = 6, first_k_dense_replace = 1, moe_layer_freq = 1, q_lora_rank = json.null, kv_lora_rank =
    512, qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128, vocab_size = 102400 })
model("gpt-neox-20b", 20554567680, "model card of EleutherAI/gpt-neox-20b", { model_type = "gpt_neox", hidden_size =
    6144, intermediate_size = 24576, num_hidden_layers = 44, num_attention_heads = 64, vocab_size = 50432,
    rotary_pct = 0.25, tie_word_embeddings = false })
model("gpt-j-6b", 6050882784, "weights as stored on its hub page", { model_type = "gptj", n_embd = 4096, n_layer =
    28, n_head = 16, n_inner = json.null, rotary_dim = 64, vocab_size = 50400, tie_word_embeddings = false })
model("gpt2-xl", 1557611200, "weights as stored on its hub page", { model_type = "gpt2", n_embd = 1600, n_layer =
    48, n_head = 25, n_positions = 1024, vocab_size = 50257 })
model("opt-6.7b", 6658473984, "weights as stored on its hub page", { model_type = "opt", hidden_size = 4096, ffn_dim
    = 16384, num_hidden_layers = 32, num_attention_heads = 32, max_position_embeddings = 2048, vocab_size = 50272,
    word_embed_proj_dim = 4096 })
model("mistral-7b", 7241732096, "weights as stored on its hub page", { model_type = "mistral", hidden_size = 4096,
    intermediate_size = 14336, num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8, vocab_size
    = 32000, sliding_window = 4096 })
model("qwen2-7b", 7615616512, "weights as stored on its hub page", { model_type = "qwen2", hidden_size = 3584,
    intermediate_size = 18944, num_hidden_layers = 28, num_attention_heads = 28, num_key_value_heads = 4, vocab_size
    = 152064, use_sliding_window = false, sliding_window = 131072 })
model("qwen1.5-moe-a2.7b", 14315784192, "weights as stored on its hub page", { model_type = "qwen2_moe", hidden_size
    = 2048, intermediate_size = 5632, moe_intermediate_size = 1408, shared_expert_intermediate_size = 5632,
    num_hidden_layers = 24, num_attention_heads = 16, num_key_value_heads = 16, num_experts = 60,
    num_experts_per_tok = 4, decoder_sparse_step = 1, vocab_size = 151936 })
model("qwen3-8b", 8190735360, "weights as stored on its hub page", { model_type = "qwen3", hidden_size = 4096,
    intermediate_size = 12288, num_hidden_layers = 36, num_attention_heads = 32, num_key_value_heads = 8, head_dim =
    128, vocab_size = 151936, attention_bias = false })
model("qwen3-30b-a3b", 30532122624, "weights as stored on its hub page", { model_type = "qwen3_moe", hidden_size =
    2048, intermediate_size = 6144, moe_intermediate_size = 768, num_hidden_layers = 48, num_attention_heads = 32,
    num_key_value_heads = 4, head_dim = 128, num_experts = 128, num_experts_per_tok = 8, decoder_sparse_step = 1,
    mlp_only_layers = {}, vocab_size = 151936 })
model("gemma-7b", 8537680896, "weights as stored on its hub page", { model_type = "gemma", hidden_size = 3072,
    intermediate_size = 24576, num_hidden_layers = 28, num_attention_heads = 16, num_key_value_heads = 16, head_dim
    = 256, vocab_size = 256000 })
model("gemma2-9b", 9241705984, "weights as stored on its hub page", { model_type = "gemma2", hidden_size = 3584,
    intermediate_size = 14336, num_hidden_layers = 42, num_attention_heads = 16, num_key_value_heads = 8, head_dim =
    256, vocab_size = 256000, sliding_window = 4096 })
model("gemma3-27b text", 27009346304, "weights as stored on its hub page", { model_type = "gemma3", text_config = {
    model_type = "gemma3_text", hidden_size = 5376, intermediate_size = 21504, num_hidden_layers = 62,
    num_attention_heads = 32, num_key_value_heads = 16, head_dim = 128, vocab_size = 262208, sliding_window = 1024
    }, vision_config = {} })
model("phi-2", 2779683840, "weights as stored on its hub page", { model_type = "phi", hidden_size = 2560,
    intermediate_size = 10240, num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 32,
    vocab_size = 51200, partial_rotary_factor = 0.4, qk_layernorm = false })
model("phi-3-mini", 3821079552, "weights as stored on its hub page", { model_type = "phi3", hidden_size = 3072,
    intermediate_size = 8192, num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 32, vocab_size
    = 32064, sliding_window = 2047 })
model("olmo-7b", 6888095744, "weights as stored on its hub page", { model_type = "olmo", hidden_size = 4096,
    intermediate_size = 11008, num_hidden_layers = 32, num_attention_heads = 32, vocab_size = 50304 })
model("olmo2-7b", 7298617344, "weights as stored on its hub page", { model_type = "olmo2", hidden_size = 4096,
    intermediate_size = 11008, num_hidden_layers = 32, num_attention_heads = 32, vocab_size = 100352 })
model("olmoe", 6919161856, "weights as stored on its hub page", { model_type = "olmoe", hidden_size = 2048,
    intermediate_size = 1024, num_hidden_layers = 16, num_attention_heads = 16, num_key_value_heads = 16,
    num_experts = 64, num_experts_per_tok = 8, vocab_size = 50304 })
model("starcoder2-7b", 7173923840, "weights as stored on its hub page", { model_type = "starcoder2", hidden_size =
    4608, intermediate_size = 18432, num_hidden_layers = 32, num_attention_heads = 36, num_key_value_heads = 4,
    vocab_size = 49152, sliding_window = 4096, use_bias = true })
model("starcoder", 15517456384, "weights as stored on its hub page", { model_type = "gpt_bigcode", n_embd = 6144,
    n_inner = 24576, n_layer = 40, n_head = 48, n_positions = 8192, multi_query = true, vocab_size = 49152 })
model("granite-3.0-8b", 8170848256, "weights as stored on its hub page", { model_type = "granite", hidden_size =
    4096, intermediate_size = 12800, num_hidden_layers = 40, num_attention_heads = 32, num_key_value_heads = 8,
    vocab_size = 49155, tie_word_embeddings = true })
model("stablelm-2-1_6b", 1644515328, "model card of stabilityai/stablelm-2-1_6b", { model_type = "stablelm",
    hidden_size = 2048, intermediate_size = 5632, num_hidden_layers = 24, num_attention_heads = 32,
    num_key_value_heads = 32, vocab_size = 100352, use_qkv_bias = true, partial_rotary_factor = 0.25 })
model("stablelm-2-12b", 12143340544, "model card of stabilityai/stablelm-2-12b", { model_type = "stablelm",
    hidden_size = 5120, intermediate_size = 13824, num_hidden_layers = 40, num_attention_heads = 32,
    num_key_value_heads = 8, vocab_size = 100352, use_qkv_bias = false, qk_layernorm = true, use_parallel_residual =
    true })
model("command-r", 34980831232, "weights as stored on its hub page", { model_type = "cohere", hidden_size = 8192,
    intermediate_size = 22528, num_hidden_layers = 40, num_attention_heads = 64, num_key_value_heads = 64,
    vocab_size = 256000, use_qk_norm = false })
model("command-r-plus", 103810674688, "weights as stored on its hub page", { model_type = "cohere", hidden_size =
    12288, intermediate_size = 33792, num_hidden_layers = 64, num_attention_heads = 96, num_key_value_heads = 8,
    vocab_size = 256000, use_qk_norm = true })
model("mpt-7b", 6649286656, "weights as stored on its hub page", { model_type = "mpt", d_model = 4096, n_heads = 32,
    n_layers = 32, expansion_ratio = 4, max_seq_len = 2048, vocab_size = 50432, no_bias = true, attn_config = {
    alibi = true } })
model("gpt-oss-20b", 20914757184, "weights as stored on its hub page", { model_type = "gpt_oss", hidden_size = 2880,
    intermediate_size = 2880, num_hidden_layers = 24, num_attention_heads = 64, num_key_value_heads = 8, head_dim =
    64, num_local_experts = 32, num_experts_per_tok = 4, vocab_size = 201088, attention_bias = true, sliding_window
    = 128, layer_types = { "sliding_attention", "full_attention" }, quantization_config = { quant_method = "mxfp4" }
    })
model("llama4-scout text", 107769861120, "weights as stored on its hub page", { model_type = "llama4", text_config =
    { model_type = "llama4_text", hidden_size = 5120, intermediate_size = 8192, intermediate_size_mlp = 16384,
    num_hidden_layers = 48, num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128, num_local_experts =
    16, num_experts_per_tok = 1, interleave_moe_layer_step = 1, vocab_size = 202048, attention_chunk_size = 8192,
    use_qk_norm = true }, vision_config = {} })
model("llama4-maverick text", 400711848960, "weights as stored on its hub page", { model_type = "llama4",
    text_config = { model_type = "llama4_text", hidden_size = 5120, intermediate_size = 8192, intermediate_size_mlp
    = 16384, num_hidden_layers = 48, num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128,
    num_local_experts = 128, num_experts_per_tok = 1, interleave_moe_layer_step = 2, vocab_size = 202048,
    attention_chunk_size = 8192 }, vision_config = {} })
model("granite-3.0-1b-a400m", 1334628352, "weights as stored on its hub page", { model_type = "granitemoe",
    hidden_size = 1024, intermediate_size = 512, num_hidden_layers = 24, num_attention_heads = 16,
    num_key_value_heads = 8, num_local_experts = 32, num_experts_per_tok = 8, vocab_size = 49155,
    tie_word_embeddings = true })
model("phi-3.5-moe", 41873153344, "weights as stored on its hub page", { model_type = "phimoe", hidden_size = 4096,
    intermediate_size = 6400, num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8,
    num_local_experts = 16, num_experts_per_tok = 2, vocab_size = 32064, attention_bias = true, lm_head_bias = true,
    sliding_window = 131072 })
model("nemotron-4-minitron-4b", 4.19e9, "model size of nvidia/Minitron-4B-Base on its hub", { model_type =
    "nemotron", hidden_size = 3072, intermediate_size = 9216, num_hidden_layers = 32, num_attention_heads = 24,
    num_key_value_heads = 8, head_dim = 128, vocab_size = 256000 })
model("glm-4-9b", 9399951360, "weights as stored on its hub page", { model_type = "glm", hidden_size = 4096,
    intermediate_size = 13696, num_hidden_layers = 40, num_attention_heads = 32, num_key_value_heads = 2, head_dim =
    128, vocab_size = 151552, attention_bias = true })
model("internlm2-7b", 7737708544, "weights as stored on its hub page", { model_type = "internlm2", hidden_size =
    4096, intermediate_size = 14336, num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8,
    vocab_size = 92544, bias = false })
model("llava-7b text", 6738415616, "weights as stored on its hub page", { model_type = "llava", text_config = {
    model_type = "llama", hidden_size = 4096, intermediate_size = 11008, num_hidden_layers = 32, num_attention_heads
    = 32, vocab_size = 32000 }, vision_config = {} })

-- Nested parts state what differs from their class only.
model("gemma3-4b text, as published", 3880263168, "weights as stored on its hub page", { model_type = "gemma3",
  text_config = { model_type = "gemma3_text", hidden_size = 2560, intermediate_size = 10240, num_hidden_layers = 34,
    sliding_window = 1024 }, vision_config = {} })
model("llava-1.5-7b text, as published", 6738939904, "Llama 7B with 64 more tokens", { model_type = "llava",
  text_config = { model_type = "llama", max_position_embeddings = 4096, vocab_size = 32064 }, vision_config = {} })
model("llava-1.6-mistral-7b text, as published", 7242256384, "Mistral 7B with 64 more tokens", {
  model_type = "llava_next", text_config = { model_type = "mistral", intermediate_size = 14336,
    num_key_value_heads = 8, sliding_window = json.null, vocab_size = 32064 }, vision_config = {} })
model("paligemma-3b text, as published", 2508662784, "Gemma 2B with 1216 more tokens", { model_type = "paligemma",
  text_config = { model_type = "gemma", hidden_size = 2048, intermediate_size = 16384, num_attention_heads = 8,
    num_hidden_layers = 18, num_key_value_heads = 1, vocab_size = 257216 }, vision_config = {} })
model("qwen2.5-omni-7b text", 7615616512, "Qwen2 7B", { model_type = "qwen2_5_omni", thinker_config = { text_config = {
  model_type = "qwen2_5_omni_text", hidden_size = 3584, intermediate_size = 18944, num_hidden_layers = 28,
  num_attention_heads = 28, num_key_value_heads = 4, vocab_size = 152064 } } })
model("phi-4-multimodal text", 3836021760, "weights of phi-4-mini", { model_type = "phi4mm", hidden_size = 3072,
  intermediate_size = 8192, num_hidden_layers = 32, num_attention_heads = 24, num_key_value_heads = 8,
  vocab_size = 200064, tie_word_embeddings = true, partial_rotary_factor = 0.75, img_processor = {} })
model("glm-4.1v-9b text", 9400279040, "weights of glm-4-9b-0414", { model_type = "glm4v", text_config = {
  model_type = "glm4v_text", hidden_size = 4096, intermediate_size = 13696, num_hidden_layers = 40,
  num_attention_heads = 32, num_key_value_heads = 2, vocab_size = 151552, attention_bias = true,
  partial_rotary_factor = 0.5 } })

local function add_all(list)
  for _, m in ipairs(list) do model(m[1], m[2], m[3] or "weights as stored on its hub page", m[4]) end
end

add_all {
  { "glm-4-9b-0414", 9400279040, nil, { model_type = "glm4", hidden_size = 4096, intermediate_size = 13696,
    num_hidden_layers = 40, num_attention_heads = 32, num_key_value_heads = 2, head_dim = 128, vocab_size = 151552,
    attention_bias = true, tie_word_embeddings = false } },
  { "glm-4-32b-0414", 32566081536, nil, { model_type = "glm4", hidden_size = 6144, intermediate_size = 23040,
    num_hidden_layers = 61, num_attention_heads = 48, num_key_value_heads = 2, head_dim = 128, vocab_size = 151552,
    attention_bias = false, tie_word_embeddings = false } },
  { "dbrx", 131596523520, nil, { model_type = "dbrx", d_model = 6144, n_heads = 48, n_layers = 40, vocab_size = 100352,
    attn_config = { kv_n_heads = 8 }, ffn_config = { ffn_hidden_size = 10752, moe_num_experts = 16, moe_top_k = 4 } } },
  { "qwen3-next-80b-a3b", 79674391296, "weights of its class, without multi-token prediction", {
    model_type = "qwen3_next", hidden_size = 2048, intermediate_size = 5120, num_hidden_layers = 48,
    num_attention_heads = 16, num_key_value_heads = 2, head_dim = 256, num_experts = 512, num_experts_per_tok = 10,
    moe_intermediate_size = 512, shared_expert_intermediate_size = 512, decoder_sparse_step = 1, vocab_size = 151936,
    linear_num_key_heads = 16, linear_num_value_heads = 32, linear_key_head_dim = 128, linear_value_head_dim = 128,
    linear_conv_kernel_dim = 4, full_attention_interval = 4, tie_word_embeddings = false } },
  { "minimax-m2", 228689764864, "weights as stored, without the scales of fp8", {
    model_type = "minimax_m2", hidden_size = 3072, intermediate_size = 1536,
    num_hidden_layers = 62, num_attention_heads = 48, num_key_value_heads = 8, head_dim = 128,
    num_local_experts = 256, num_experts_per_tok = 8, rotary_dim = 64, use_qk_norm = true,
    qk_norm_type = "per_layer", vocab_size = 200064 } },
  { "ernie-4.5-0.3b", 360748032, nil, { model_type = "ernie4_5", hidden_size = 1024, intermediate_size = 3072,
    num_hidden_layers = 18, num_attention_heads = 16, num_key_value_heads = 2, head_dim = 128, vocab_size = 103424,
    tie_word_embeddings = true, use_bias = false } },
  { "ernie-4.5-21b-a3b", 21825437888, nil, { model_type = "ernie4_5_moe", hidden_size = 2560,
    intermediate_size = 12288, moe_intermediate_size = 1536, num_hidden_layers = 28, num_attention_heads = 20,
    num_key_value_heads = 4, moe_num_experts = 64, moe_k = 6, moe_num_shared_experts = 2, moe_layer_start_index = 1,
    moe_layer_end_index = 27, moe_layer_interval = 1, vocab_size = 103424, use_bias = false } },
  { "chatglm-6b", 6173286400, nil, { model_type = "chatglm", hidden_size = 4096, inner_hidden_size = 16384,
    num_layers = 28, num_attention_heads = 32, vocab_size = 130528 } },
  { "chatglm3-6b", 6243584000, nil, { model_type = "chatglm", hidden_size = 4096, ffn_hidden_size = 13696,
    num_layers = 28, num_attention_heads = 32, multi_query_attention = true, multi_query_group_num = 2,
    kv_channels = 128, padded_vocab_size = 65024, add_qkv_bias = true, add_bias_linear = false, rmsnorm = true } },
  { "baichuan-7b", 7000559616, nil, { model_type = "baichuan", hidden_size = 4096, intermediate_size = 11008,
    num_hidden_layers = 32, num_attention_heads = 32, max_position_embeddings = 4096, vocab_size = 64000 } },
  { "baichuan-13b", 13264901120, nil, { model_type = "baichuan", hidden_size = 5120, intermediate_size = 13696,
    num_hidden_layers = 40, num_attention_heads = 40, model_max_length = 4096, vocab_size = 64000 } },
  { "apertus-8b", 8053338176, nil, { model_type = "apertus", hidden_size = 4096, intermediate_size = 21504,
    num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8, vocab_size = 131072,
    hidden_act = "xielu", tie_word_embeddings = false } },
  { "dots.llm1", 142774381696, nil, { model_type = "dots1", hidden_size = 4096, intermediate_size = 10944,
    moe_intermediate_size = 1408, num_hidden_layers = 62, num_attention_heads = 32, num_key_value_heads = 32,
    head_dim = 128, n_routed_experts = 128, n_shared_experts = 2, num_experts_per_tok = 6, first_k_dense_replace = 1,
    vocab_size = 152064, tie_word_embeddings = false } },
  { "hunyuan-a13b", 80393183232, nil, { model_type = "hunyuan_v1_moe", hidden_size = 4096, intermediate_size = 3072,
    moe_intermediate_size = { 3072, 3072, 3072 }, num_hidden_layers = 32, num_attention_heads = 32,
    num_key_value_heads = 8, head_dim = 128, num_experts = 64, moe_topk = { 8, 8, 8 }, num_shared_expert = { 1, 1, 1 },
    vocab_size = 128167, tie_word_embeddings = true } },
  { "exaone-4.0-32b", 32003216384, nil, { model_type = "exaone4", hidden_size = 5120, intermediate_size = 27392,
    num_hidden_layers = 64, num_attention_heads = 40, num_key_value_heads = 8, head_dim = 128, vocab_size = 102400,
    tie_word_embeddings = false } },
  { "seed-oss-36b", 36151104512, nil, { model_type = "seed_oss", hidden_size = 5120, intermediate_size = 27648,
    num_hidden_layers = 64, num_attention_heads = 80, num_key_value_heads = 8, head_dim = 128, vocab_size = 155136,
    attention_bias = true, attention_out_bias = false, tie_word_embeddings = false } },
  { "nemotron-3-super", 120668687360, "by hand; its model card: 120B", { model_type = "nemotron_h", hidden_size = 4096,
    num_hidden_layers = 88, num_attention_heads = 32, num_key_value_heads = 2, head_dim = 128, mamba_num_heads = 128,
    mamba_head_dim = 64, ssm_state_size = 128, n_groups = 8, conv_kernel = 4, chunk_size = 128, vocab_size = 131072,
    n_routed_experts = 512, n_shared_experts = 1, num_experts_per_tok = 22, moe_intermediate_size = 2688,
    moe_shared_expert_intermediate_size = 5376, moe_latent_size = 1024, hybrid_override_pattern =
    "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME" } },
  { "smollm3-3b", 3075098624, nil, { model_type = "smollm3", hidden_size = 2048, intermediate_size = 11008,
    num_hidden_layers = 36, num_attention_heads = 16, num_key_value_heads = 4, vocab_size = 128256,
    no_rope_layer_interval = 4, use_sliding_window = false } },
  { "exaone-3.5-7.8b", 7818448896, nil, { model_type = "exaone", hidden_size = 4096, intermediate_size = 14336,
    num_layers = 32, num_attention_heads = 32, num_key_value_heads = 8, vocab_size = 102400,
    activation_function = "silu", tie_word_embeddings = false } },
  { "internlm3-8b", 8804241408, nil, { model_type = "internlm3", hidden_size = 4096, intermediate_size = 10240,
    num_hidden_layers = 48, num_attention_heads = 32, num_key_value_heads = 2, head_dim = 128, vocab_size = 128512,
    bias = false, qkv_bias = false, tie_word_embeddings = false } },
  { "minicpm-2b", 2724880896, nil, { model_type = "minicpm", hidden_size = 2304, intermediate_size = 5760,
    num_hidden_layers = 40, num_attention_heads = 36, num_key_value_heads = 36, vocab_size = 122753 } },
  { "minicpm3-4b", 4073875968, "by hand; its hub page: 4B", { model_type = "minicpm3", hidden_size = 2560,
    intermediate_size = 6400, num_hidden_layers = 62, num_attention_heads = 40, num_key_value_heads = 40,
    q_lora_rank = 768, kv_lora_rank = 256, qk_nope_head_dim = 64, qk_rope_head_dim = 32, vocab_size = 73448 } },
  { "ling-lite", 16801974272, "by hand; arXiv 2503.05139: 16.8B", { model_type = "bailing_moe", hidden_size = 2048,
    intermediate_size = 5632, moe_intermediate_size = 1408, num_hidden_layers = 28, num_attention_heads = 16,
    num_key_value_heads = 4, num_experts = 64, num_shared_experts = 2, num_experts_per_tok = 6,
    first_k_dense_replace = 0, use_bias = false, use_qkv_bias = false, vocab_size = 126464,
    tie_word_embeddings = false } },
  { "ling-mini-2.0", 16255643392, nil, { model_type = "bailing_moe_v2", hidden_size = 2048, intermediate_size = 5120,
    moe_intermediate_size = 512, num_hidden_layers = 20, num_attention_heads = 16, num_key_value_heads = 4,
    head_dim = 128, num_experts = 256, num_shared_experts = 1, num_experts_per_tok = 8, first_k_dense_replace = 1,
    n_group = 8, topk_group = 4, use_qk_norm = true, use_bias = false, use_qkv_bias = false,
    partial_rotary_factor = 0.5, vocab_size = 157184, tie_word_embeddings = false } },
  { "ling-1t", 999705309184, "by hand; its model card: 1T", { model_type = "bailing_moe_v2", hidden_size = 8192,
    intermediate_size = 18432, moe_intermediate_size = 2048, num_hidden_layers = 80, num_attention_heads = 64,
    num_key_value_heads = 8, head_dim = 128, num_experts = 256, num_shared_experts = 1, num_experts_per_tok = 8,
    first_k_dense_replace = 4, n_group = 8, topk_group = 4, use_qk_norm = true, vocab_size = 157184,
    tie_word_embeddings = false } },
  { "grok-1", 315684820992, "by hand; its model card: 314B", { model_type = "grok-1",
    hidden_size = 6144, intermediate_size = 32768,
    num_hidden_layers = 64, num_attention_heads = 48, num_key_value_heads = 8, num_experts = 8,
    num_experts_per_tok = 2, vocab_size = 131072, tie_word_embeddings = true } },
  { "arctic", 478584608768, "by hand; its model card: 480B", { model_type = "arctic",
    hidden_size = 7168, intermediate_size = 4864,
    num_hidden_layers = 35, num_attention_heads = 56, num_key_value_heads = 8, num_local_experts = 128,
    num_experts_per_tok = 2, moe_layer_frequency = 1, parallel_attn_mlp_res = true, use_residual = true,
    vocab_size = 32000, tie_word_embeddings = false } },
  { "trinity-mini", 26123970560, "by hand; its hub page: 26B", { model_type = "afmoe", hidden_size = 2048,
    intermediate_size = 6144, moe_intermediate_size = 1024, num_dense_layers = 2, num_hidden_layers = 32,
    num_attention_heads = 32, num_key_value_heads = 4, head_dim = 128, num_experts = 128, num_experts_per_tok = 8,
    num_shared_experts = 1, vocab_size = 200192, sliding_window = 2048, global_attn_every_n_layers = 4,
    tie_word_embeddings = false } },
  { "solar-open-100b", 102651793408, "by hand; its model card: 102.6B", { model_type = "solar_open", hidden_size = 4096,
    intermediate_size = 10240, moe_intermediate_size = 1280, num_hidden_layers = 48, num_attention_heads = 64,
    num_key_value_heads = 8, head_dim = 128, n_routed_experts = 128, n_shared_experts = 1, num_experts_per_tok = 8,
    first_k_dense_replace = 0, vocab_size = 196608, tie_word_embeddings = false } },
  { "k-exaone-236b", 236571150336, "by hand; its model card: 236B", { model_type = "exaone_moe", hidden_size = 6144,
    intermediate_size = 18432, moe_intermediate_size = 2048, num_hidden_layers = 48, num_attention_heads = 64,
    num_key_value_heads = 8, head_dim = 128, num_experts = 128, num_shared_experts = 1, num_experts_per_tok = 8,
    first_k_dense_replace = 1, vocab_size = 153600, sliding_window = 128, layer_types = { "sliding_attention",
    "sliding_attention", "sliding_attention", "full_attention" }, tie_word_embeddings = false } },
  { "glm-4.7-flash", 29943390976, "by hand; its hub page: 31B with multi-token prediction", {
    model_type = "glm4_moe_lite", hidden_size = 2048, intermediate_size = 10240, moe_intermediate_size = 1536,
    num_hidden_layers = 47, num_attention_heads = 20, num_key_value_heads = 20, n_routed_experts = 64,
    n_shared_experts = 1, num_experts_per_tok = 4, first_k_dense_replace = 1, q_lora_rank = 768, kv_lora_rank = 512,
    qk_nope_head_dim = 192, qk_rope_head_dim = 64, v_head_dim = 256, vocab_size = 154880,
    tie_word_embeddings = false } },
  { "glm-5", 743911199232, "by hand; its model card: 744B", { model_type = "glm_moe_dsa", hidden_size = 6144,
    intermediate_size = 12288, moe_intermediate_size = 2048, num_hidden_layers = 78, num_attention_heads = 64,
    num_key_value_heads = 64, n_routed_experts = 256, n_shared_experts = 1, num_experts_per_tok = 8,
    first_k_dense_replace = 3, moe_layer_freq = 1, q_lora_rank = 2048, kv_lora_rank = 512, qk_nope_head_dim = 192,
    qk_rope_head_dim = 64, v_head_dim = 256, vocab_size = 154880, tie_word_embeddings = false } },
  { "kimi-k2.5 text", 1026408209408, "weights of Kimi K2", { model_type = "kimi_k25", text_config = {
    hidden_size = 7168, intermediate_size = 18432, moe_intermediate_size = 2048, num_hidden_layers = 61,
    num_attention_heads = 64, n_routed_experts = 384, n_shared_experts = 1, num_experts_per_tok = 8,
    first_k_dense_replace = 1, q_lora_rank = 1536, kv_lora_rank = 512,
    qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128,
    vocab_size = 163840 } } },
  { "qwen3.5-27b text", 26895998464, "by hand; 27B with its vision encoder", { model_type = "qwen3_5", text_config = {
    model_type = "qwen3_5_text", hidden_size = 5120, intermediate_size = 17408, num_hidden_layers = 64,
    num_attention_heads = 24, num_key_value_heads = 4, head_dim = 256, vocab_size = 248320,
    linear_num_key_heads = 16, linear_num_value_heads = 48, linear_key_head_dim = 128, linear_value_head_dim = 128,
    linear_conv_kernel_dim = 4, full_attention_interval = 4 }, tie_word_embeddings = false } },
  { "qwen3.5-397b-a17b text", 396346350336, "by hand; its model card: 397B", { model_type = "qwen3_5_moe",
    text_config = { model_type = "qwen3_5_moe_text", hidden_size = 4096, moe_intermediate_size = 1024,
    shared_expert_intermediate_size = 1024, num_hidden_layers = 60, num_attention_heads = 32, num_key_value_heads = 2,
    head_dim = 256, num_experts = 512, num_experts_per_tok = 10, vocab_size = 248320, linear_num_key_heads = 16,
    linear_num_value_heads = 64, linear_key_head_dim = 128, linear_value_head_dim = 128, linear_conv_kernel_dim = 4,
    full_attention_interval = 4 }, tie_word_embeddings = false } },
  { "t5-small", 60506624, nil, { model_type = "t5", d_model = 512, d_ff = 2048, d_kv = 64, num_layers = 6,
    num_heads = 8, relative_attention_num_buckets = 32, vocab_size = 32128 } },
  { "t5-11b", 11307321344, nil, { model_type = "t5", d_model = 1024, d_ff = 65536, d_kv = 128, num_layers = 24,
    num_heads = 128, relative_attention_num_buckets = 32, vocab_size = 32128 } },
  { "flan-t5-xl", 2849757184, nil, { model_type = "t5", d_model = 2048, d_ff = 5120, d_kv = 64, num_layers = 24,
    num_decoder_layers = 24, num_heads = 32, feed_forward_proj = "gated-gelu", tie_word_embeddings = false,
    vocab_size = 32128 } },
  { "bert-base", 110106428, "BertForPreTraining of google-bert/bert-base-uncased", { model_type = "bert",
    hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, num_attention_heads = 12,
    max_position_embeddings = 512, type_vocab_size = 2, vocab_size = 30522 } },
  { "bert-large", 336226108, "BertForPreTraining of google-bert/bert-large-uncased", { model_type = "bert",
    hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24, num_attention_heads = 16,
    max_position_embeddings = 512, type_vocab_size = 2, vocab_size = 30522 } },
  { "roberta-base", 124697433, "RobertaForMaskedLM of FacebookAI/roberta-base", { model_type = "roberta",
    hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, num_attention_heads = 12,
    max_position_embeddings = 514, type_vocab_size = 1, vocab_size = 50265 } },
  { "mamba-codestral-7b", 7285403648, nil, { model_type = "mamba2", hidden_size = 4096, num_hidden_layers = 64,
    num_heads = 128, head_dim = 64, n_groups = 8, state_size = 128, conv_kernel = 4, vocab_size = 32768,
    tie_word_embeddings = false } },
  { "vit-b-16", 86567656, "torchvision's vit_b_16", { model_type = "vit", hidden_size = 768, intermediate_size = 3072,
    num_hidden_layers = 12, num_attention_heads = 12, image_size = 224, patch_size = 16, num_labels = 1000 } },
  { "vit-l-16", 304326632, "torchvision's vit_l_16", { model_type = "vit", hidden_size = 1024,
    intermediate_size = 4096, num_hidden_layers = 24, num_attention_heads = 16, num_labels = 1000 } },
  { "mamba-2.8b", 2768345600, nil, { model_type = "mamba", hidden_size = 2560, intermediate_size = 5120,
    num_hidden_layers = 64, state_size = 16, conv_kernel = 4, time_step_rank = 160, vocab_size = 50280 } },
  { "mamba2-2.7b", 2702599680, "state-spaces/mamba2-2.7b", { model_type = "mamba2", hidden_size = 2560, expand = 2,
    head_dim = 64, num_heads = 80, n_groups = 1, state_size = 128, conv_kernel = 4, num_hidden_layers = 64,
    tie_word_embeddings = true, vocab_size = 50288 } },
  { "jamba-v0.1", 51570323328, nil, { model_type = "jamba", hidden_size = 4096, intermediate_size = 14336,
    num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8, num_experts = 16,
    num_experts_per_tok = 2, attn_layer_period = 8, attn_layer_offset = 4, expert_layer_period = 2,
    expert_layer_offset = 1, mamba_d_state = 16, mamba_d_conv = 4, mamba_expand = 2, mamba_dt_rank = 256,
    vocab_size = 65536 } },
  { "nemotron-h-8b", 8.10e9, "arXiv 2504.03624 (8B), its hub page: 8.10B", { model_type = "nemotron_h",
    hidden_size = 4096, intermediate_size = 21504, num_hidden_layers = 52, num_attention_heads = 32,
    num_key_value_heads = 8, attention_head_dim = 128, mamba_num_heads = 128, mamba_head_dim = 64,
    ssm_state_size = 128, n_groups = 8, conv_kernel = 4, chunk_size = 128, vocab_size = 131072,
    hybrid_override_pattern = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-" } },
}

-- Layers of other mixers, or of different widths.
local function indices(from, to)
  local list = {}
  for i = from, to do list[#list + 1] = tostring(i) end
  return table.concat(list, ",")
end

--- The list `unit`, n times.
local function times(n, unit)
  local list = {}
  for _ = 1, n do table.move(unit, 1, #unit, #list + 1, list) end
  return list
end

local lfm2_layers = times(24, { "conv" })
for _, i in ipairs { 3, 7, 11, 15, 19, 22 } do lfm2_layers[i] = "full_attention" end

local granite_layers = times(40, { "mamba" })
for i = 6, 36, 10 do granite_layers[i] = "attention" end

add_all {
  { "llama-2-7b", 6738415616, "its model card", { model_type = "llama", hidden_size = 4096, intermediate_size = 11008,
    num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 32, vocab_size = 32000,
    tie_word_embeddings = false } },
  { "mixtral-8x7b", 46702792704, "weights as stored on its hub page", { model_type = "mixtral", hidden_size = 4096,
    intermediate_size = 14336, num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8,
    vocab_size = 32000, num_local_experts = 8, num_experts_per_tok = 2, tie_word_embeddings = false } },
  { "granite-4.0-h-small", 32207337984, "by hand; its model card: 32B", { model_type = "granitemoehybrid",
    hidden_size = 4096, num_hidden_layers = 40, num_attention_heads = 32, num_key_value_heads = 8,
    intermediate_size = 768, shared_intermediate_size = 1536, num_local_experts = 72, num_experts_per_tok = 10,
    mamba_n_heads = 128, mamba_d_head = 64, mamba_d_state = 128, mamba_d_conv = 4, mamba_expand = 2,
    mamba_n_groups = 1, mamba_chunk_size = 256, vocab_size = 100352, tie_word_embeddings = true,
    position_embedding_type = "nope", layer_types = granite_layers } },
  { "bamba-9b", 9780235392, "by hand; its model card: 9.78B", { model_type = "bamba", hidden_size = 4096,
    num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8, intermediate_size = 14336,
    vocab_size = 128256, mamba_n_heads = 128, mamba_d_head = "auto", mamba_d_state = 128, mamba_d_conv = 4,
    mamba_expand = 2, mamba_n_groups = 1, mamba_chunk_size = 256, attn_layer_indices = { 9, 18, 27 },
    attn_rotary_emb = 64, tie_word_embeddings = false } },
  { "glm-4.5-air", 106852245504, "by hand; its model card: 106B", { model_type = "glm4_moe", hidden_size = 4096,
    num_hidden_layers = 46, num_attention_heads = 96, num_key_value_heads = 8, head_dim = 128,
    intermediate_size = 10944, moe_intermediate_size = 1408, n_routed_experts = 128, n_shared_experts = 1,
    num_experts_per_tok = 8, first_k_dense_replace = 1, n_group = 1, topk_group = 1, vocab_size = 151552,
    attention_bias = true, use_qk_norm = false, partial_rotary_factor = 0.5, tie_word_embeddings = false } },
  { "lfm2-1.2b", 1170340608, nil, { model_type = "lfm2", hidden_size = 2048, block_ff_dim = 12288,
    block_auto_adjust_ff_dim = true, block_ffn_dim_multiplier = 1.0, block_multiple_of = 256, conv_L_cache = 3,
    conv_bias = false, full_attn_idxs = { 2, 5, 8, 10, 12, 14 }, num_hidden_layers = 16, num_attention_heads = 32,
    num_key_value_heads = 8, vocab_size = 65536 } },
  { "lfm2-8b-a1b", 8339929856, nil, { model_type = "lfm2_moe", hidden_size = 2048, intermediate_size = 7168,
    moe_intermediate_size = 1792, num_hidden_layers = 24, num_dense_layers = 2, num_experts = 32, num_experts_per_tok
    = 4, num_attention_heads = 32, num_key_value_heads = 8, conv_L_cache = 3, conv_bias = false, vocab_size = 65536,
    tie_embedding = true, layer_types = lfm2_layers } },
  { "falcon-h1-0.5b", 521411104, nil, { model_type = "falcon_h1", hidden_size = 1024, intermediate_size = 2048,
    num_hidden_layers = 36, num_attention_heads = 8, num_key_value_heads = 2, head_dim = 64, vocab_size = 32784,
    mamba_d_ssm = 1536, mamba_n_heads = 24, mamba_d_head = 64, mamba_n_groups = 1, mamba_d_state = 128, mamba_d_conv
    = 4, mamba_expand = 2, mamba_chunk_size = 128, mamba_rms_norm = false, mamba_norm_before_gate = false,
    mamba_conv_bias = true, mamba_proj_bias = false, projectors_bias = false, tie_word_embeddings = false } },
  { "minimax-text-01", 456089655296, "by hand; its model card: 456B", { model_type = "minimax_text_01",
    hidden_size = 6144, intermediate_size = 9216, num_hidden_layers = 80, num_attention_heads = 64,
    num_key_value_heads = 8, head_dim = 128, rotary_dim = 64, num_local_experts = 32, num_experts_per_tok = 2,
    attn_type_list = times(10, { 0, 0, 0, 0, 0, 0, 0, 1 }), shared_intermediate_size = 0, vocab_size = 200064,
    tie_word_embeddings = false } },
  { "ring-mini-linear-2.0", 16423443456, "by hand; its model card: 16.4B", { model_type = "bailing_moe_linear",
    first_k_dense_replace = 1, head_dim = 128, hidden_size = 2048, intermediate_size = 5120, layer_group_size = 5,
    linear_silu = false, moe_intermediate_size = 512, moe_shared_expert_intermediate_size = 512, n_group = 8,
    topk_group = 4, num_attention_heads = 16, num_experts = 256, num_experts_per_tok = 8, num_hidden_layers = 20,
    num_key_value_heads = 4, num_nextn_predict_layers = 0, num_shared_experts = 1, partial_rotary_factor = 0.5,
    use_qk_norm = true, use_qkv_bias = false, use_bias = false, vocab_size = 157184, tie_word_embeddings = false } },
  { "ring-flash-linear-2.0", 104181657600, "by hand; its model card: 104.2B", { model_type =
    "bailing_moe_linear", first_k_dense_replace = 1, head_dim = 128, hidden_size = 4096, intermediate_size = 9216,
    layer_group_size = 8, linear_silu = false, moe_intermediate_size = 1024, moe_shared_expert_intermediate_size =
    1024, n_group = 8, topk_group = 4, num_attention_heads = 32, num_experts = 256, num_experts_per_tok = 8,
    num_hidden_layers = 32, num_key_value_heads = 4, num_shared_experts = 1, partial_rotary_factor = 0.5, use_qk_norm
    = true, vocab_size = 157184, tie_word_embeddings = false } },
  { "kimi-linear-48b", 49122675072, "by hand; its model card: 48B", { model_type = "kimi_linear", q_lora_rank =
    json.null, mla_use_nope = true, num_expert_group = 1, topk_group = 1, moe_layer_freq = 1, tie_word_embeddings =
    false, hidden_size = 2304, num_hidden_layers = 27, vocab_size = 163840, num_attention_heads = 32,
    num_key_value_heads = 32, head_dim = 72, kv_lora_rank = 512, qk_nope_head_dim = 128, qk_rope_head_dim = 64,
    v_head_dim = 128, num_experts = 256, num_experts_per_token = 8, num_shared_experts = 1, moe_intermediate_size =
    1024, first_k_dense_replace = 1, intermediate_size = 9216, linear_attn_config = { full_attn_layers = { 4, 8, 12,
    16, 20, 24, 27 }, kda_layers = { 1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26 },
    head_dim = 128, num_heads = 32, short_conv_kernel_size = 4 } } },
  { "step3", 316294538240, "by hand; its model card: 316B without vision", { model_type = "step3_vl", text_config
    = { model_type = "step3_text", hidden_size = 7168, intermediate_size = 18432, num_attention_heads = 64,
    num_attention_groups = 1, num_hidden_layers = 61, vocab_size = 128815, moe_intermediate_size = 5120,
    moe_num_experts = 48, moe_top_k = 3, share_expert_dim = 5120, share_q_dim = 2048, head_dim = 256, moe_layers_enum
    = indices(4, 59) } } },
  { "step-3.5-flash", 196956118272, "by hand; its model card: 196B", { model_type = "step3p5", hidden_size =
    4096, intermediate_size = 11264, num_hidden_layers = 45, num_attention_heads = 64, num_attention_groups = 8,
    head_dim = 128, vocab_size = 128896, use_head_wise_attn_gate = true, sliding_window = 512, moe_num_experts = 288,
    moe_top_k = 8, moe_intermediate_size = 1280, share_expert_dim = 1280, moe_layers_enum = indices(3, 44),
    layer_types = times(12, { "full_attention", "sliding_attention", "sliding_attention", "sliding_attention" }),
    attention_other_setting = { attention_type = "sliding_attention", num_attention_heads = 96, num_attention_groups
    = 8, head_dim = 128 }, partial_rotary_factors = times(12, { 0.5, 1.0, 1.0, 1.0 }), num_nextn_predict_layers = 3 }
    },
  { "mimo-v2-flash", 308778768832, "by hand; its model card: 309B", { model_type = "mimo_v2_flash", vocab_size =
    152576, hidden_size = 4096, num_hidden_layers = 48, num_attention_heads = 64, num_key_value_heads = 4, head_dim =
    192, v_head_dim = 128, swa_num_attention_heads = 64, swa_num_key_value_heads = 8, swa_head_dim = 192,
    swa_v_head_dim = 128, partial_rotary_factor = 0.334, sliding_window = 128, sliding_window_size = 128,
    hybrid_layer_pattern = { 0, 1, 1, 1, 1, 0, table.unpack(times(7, { 1, 1, 1, 1, 1, 0 })) }, moe_layer_freq = { 0,
    table.unpack(times(47, { 1 })) }, add_swa_attention_sink_bias = true, add_full_attention_sink_bias = false,
    intermediate_size = 16384, n_routed_experts = 256, num_experts_per_tok = 8, moe_intermediate_size = 2048,
    n_shared_experts = json.null, n_group = 1, topk_group = 1, attention_bias = false, tie_word_embeddings = false }
    },
  { "longcat-flash", 560664958976, "by hand; its model card: 560B", { model_type = "longcat_flash", hidden_size =
    6144, ffn_hidden_size = 12288, expert_ffn_hidden_size = 2048, num_layers = 28, num_attention_heads = 64,
    n_routed_experts = 512, zero_expert_num = 256, moe_topk = 12, q_lora_rank = 1536, kv_lora_rank = 512,
    qk_nope_head_dim = 128, qk_rope_head_dim = 64, v_head_dim = 128, vocab_size = 131072, attention_bias = false,
    router_bias = false } },
  { "falcon-h1-34b", 33642221312, "by hand; its hub page: 33.6B", { model_type = "falcon_h1", hidden_size = 5120,
    intermediate_size = 21504, num_hidden_layers = 72, num_attention_heads = 20, num_key_value_heads = 4, head_dim =
    128, vocab_size = 261120, mamba_d_ssm = 4096, mamba_n_heads = 32, mamba_d_head = 128, mamba_n_groups = 2,
    mamba_d_state = 256, mamba_rms_norm = false, tie_word_embeddings = false } },
}

add_all {
  { "cwm", 32581097472, "by hand; its model card: 32B", { model_type = "cwm", hidden_size = 6144,
    intermediate_size = 21504, num_hidden_layers = 64, num_attention_heads = 48, num_key_value_heads = 8,
    head_dim = 128, vocab_size = 128256, sliding_window = 8192, tie_word_embeddings = false,
    layer_types = times(16, { "full_attention", "sliding_attention", "sliding_attention", "sliding_attention" }) } },
  { "ministral-3-8b text", 8489553920, "by hand; its model card: 8.4B without vision", { model_type = "mistral3",
    text_config = { model_type = "ministral3", hidden_size = 4096, intermediate_size = 14336, num_hidden_layers = 34,
    num_attention_heads = 32, num_key_value_heads = 8, head_dim = 128, vocab_size = 131072,
    tie_word_embeddings = false } } },
  { "llada-8b", 8015581184, "by hand; arXiv 2502.09992: 8B", { model_type = "llada", d_model = 4096,
    n_layers = 32, n_heads = 32, n_kv_heads = 32, mlp_hidden_size = 12288, vocab_size = 126464,
    embedding_size = 126464, weight_tying = false,
    block_type = "llama", include_bias = false, include_qkv_bias = false } },
  { "dream-7b", 7615616512, "weights of Qwen2-7B", { model_type = "Dream", hidden_size = 3584,
    intermediate_size = 18944,
    num_hidden_layers = 28, num_attention_heads = 28, num_key_value_heads = 4, vocab_size = 152064,
    tie_word_embeddings = false } },
  { "nanochat-d20", 561047040, "by hand, with gains of norms; its page: 561M", { model_type = "nanochat",
    hidden_size = 1280, intermediate_size = 5120, num_hidden_layers = 20, num_attention_heads = 10,
    num_key_value_heads = 10,
    vocab_size = 65536, tie_word_embeddings = false } },
}

-- Gemma 3n and 4.
local function windowed(n, every)
  local list = {}
  for i = 1, n do list[i] = i % every == 0 and "full_attention" or "sliding_attention" end
  return list
end

local function gemma3n(layers, ffn, shared)
  return { model_type = "gemma3n", vision_config = {}, audio_config = {}, text_config = { model_type = "gemma3n_text",
    hidden_size = 2048, hidden_size_per_layer_input = 256, intermediate_size = times(layers, { ffn }),
    num_hidden_layers = layers, num_attention_heads = 8, num_key_value_heads = 2, head_dim = 256, vocab_size = 262400,
    vocab_size_per_layer_input = 262144, altup_num_inputs = 4, laurel_rank = 64, num_kv_shared_layers = shared,
    sliding_window = 512, layer_types = windowed(layers, 5) } }
end

local function gemma4(hidden, ffn, layers, heads, kv, more)
  local text = { model_type = "gemma4_text", hidden_size = hidden, intermediate_size = ffn, num_hidden_layers = layers,
    num_attention_heads = heads, num_key_value_heads = kv, head_dim = 256, global_head_dim = 512, vocab_size = 262144,
    vocab_size_per_layer_input = 262144, hidden_size_per_layer_input = 0, num_kv_shared_layers = 0,
    sliding_window = 512, layer_types = windowed(layers, 6),
    rope_parameters = { full_attention = { partial_rotary_factor = 0.25 } } }
  for name, value in pairs(more) do text[name] = value end
  return { model_type = "gemma4", text_config = text }
end

add_all {
  { "gemma-3n-e2b", 4435182688, "by hand; 4.46B with weights of keys and values that nothing uses",
    gemma3n(30, 8192, 10) },
  { "gemma-3n-e4b", 6835235568, "by hand; 6.87B with weights of keys and values that nothing uses",
    gemma3n(35, 16384, 15) },
  { "gemma-4-e2b", 4628569344, "by hand; its model card: 5.1B with vision and audio", gemma4(1536, 6144, 35, 8, 1, {
    hidden_size_per_layer_input = 256, num_kv_shared_layers = 20, use_double_wide_mlp = true,
    layer_types = windowed(35, 5) }) },
  { "gemma-4-e4b", 7463013376, "by hand; its model card: 8B with vision and audio", gemma4(2560, 10240, 42, 8, 2, {
    hidden_size_per_layer_input = 256, num_kv_shared_layers = 18 }) },
  { "gemma-4-31b", 30697345280, "by hand; its model card: 30.7B", gemma4(5376, 21504, 60, 32, 16, {
    attention_k_eq_v = true, num_global_key_value_heads = 4 }) },
  { "gemma-4-26b-a4b", 25233137920, "by hand; its model card: 25.2B", gemma4(2816, 2112, 30, 16, 8, {
    attention_k_eq_v = true, num_global_key_value_heads = 2, enable_moe_block = true, num_experts = 128,
    top_k_experts = 8, moe_intermediate_size = 704 }) },
}

local function changed(name, changes)
  for _, m in ipairs(models) do
    if m.name == name then
      local config = {}
      for key, value in pairs(m.config) do config[key] = value end
      for key, value in pairs(changes) do config[key] = value end
      return config
    end
  end
end

local function names_of(config, tp)
  local m, names = built(config), {}
  local c = architecture.configuration(m.hyper, { tp = tp or 1, micro_batch = 1, seq = 4096 })
  for _, item in ipairs(architecture.operations(m.layers[2], c)) do
    names[#names + 1] = item.name .. (item.pass and " " .. item.pass or "")
  end
  return names, m
end

describe("a Hugging Face configuration", function()
  for _, m in ipairs(models) do
    it(("of %s counts the parameters noted for it (%s, from memory)"):format(m.name, m.source), function()
      local count = architecture.parameters(built(m.config))
      assert.is_true(published_count.agrees(count, m.published), ("%d against %d"):format(count, m.published))
    end)

    it(("of %s has layers without a fault"):format(m.name), function()
      local built_model = built(m.config)
      for tp = 1, 2 do
        local c = architecture.configuration(built_model.hyper, { tp = tp, ep = 1, micro_batch = 1, seq = 2048 })
        assert.same({}, faults(built_model, c))
      end
    end)

    it(("of %s can be estimated"):format(m.name), function()
      local built_model = built(m.config)
      local h = built_model.hyper
      local e = estimate.new { model = built_model, cluster = "dgx_h100",
        plan = { seq = 2048, micro_batches = 2, dp = 8, ep = h.experts and h.kv_lora_rank and 8 or 1 } }
      assert.is_true(e.step_seconds > 0 and e.step_seconds < math.huge)
      assert.is_true(e.low_seconds <= e.step_seconds and e.step_seconds <= e.high_seconds)
      assert.is_true(e.mfu_percent > 0 and e.mfu_percent < 100)
    end)
  end

  it("gives the exact parameter count of regular model classes", function()
    for _, name in ipairs { "bloom-560m", "bloom", "falcon-7b", "falcon-40b", "falcon-rw-1b", "deepseek-v2",
      "deepseek-v2-lite", "gpt-neox-20b", "gpt2-xl", "opt-6.7b", "qwen3-8b", "gemma2-9b", "phi-2", "olmoe", "olmo-7b",
      "starcoder",
      "starcoder2-7b", "command-r-plus", "stablelm-2-1_6b", "gpt-j-6b", "glm-4-9b-0414", "glm-4-32b-0414", "dbrx",
      "ernie-4.5-0.3b", "chatglm-6b", "chatglm3-6b", "baichuan-7b", "baichuan-13b", "seed-oss-36b", "t5-small",
      "hunyuan-a13b", "exaone-4.0-32b",
      "t5-11b", "flan-t5-xl", "vit-b-16", "vit-l-16", "mamba-2.8b", "mamba2-2.7b", "jamba-v0.1", "lfm2-1.2b",
      "lfm2-8b-a1b", "falcon-h1-0.5b", "llama-2-7b", "mistral-7b", "mixtral-8x7b",
      "qwen1.5-moe-a2.7b", "qwen3-next-80b-a3b", "gpt-oss-20b" } do
      for _, m in ipairs(models) do
        if m.name == name then assert.equal(m.published, architecture.parameters(built(m.config)), name) end
      end
    end
    assert.equal(2 * 12288 // 3, built(changed("lfm2-1.2b", { block_multiple_of = 1 })).hyper.ffn)
  end)

  it("of latent attention compresses before it enters the tensor-parallel region", function()
    local names, m = names_of(changed("deepseek-v3", {}), 2)
    assert.same({ "rms_norm", "linear_q_down", "rms_norm", "linear_kv_down", "rms_norm", "all_reduce backward",
      "linear_q_up", "linear_kv_up", "rope", "flash_attention", "linear_proj", "all_reduce forward", "residual_add",
      "rms_norm", "all_reduce backward", "linear_up", "swiglu", "linear_down", "all_reduce forward", "residual_add" },
      names)
    local c = architecture.configuration(m.hyper, { tp = 2, micro_batch = 1, seq = 4096 })
    local by_name, bytes = {}, {}
    for _, item in ipairs(architecture.operations(m.layers[3], c)) do
      if item.operator then by_name[item.name] = by_name[item.name] or item else bytes[#bytes + 1] = item.bytes end
    end
    assert.same({ tokens = 4096, in_features = 1536, out_features = 64 * 192 }, by_name.linear_q_up.shape)
    assert.same({ tokens = 4096, in_features = 512, out_features = 64 * 256 }, by_name.linear_kv_up.shape)
    assert.equal(64 * 128, by_name.linear_proj.shape.in_features)
    local attention = by_name.flash_attention
    assert.same({ 192, 128, 64 }, { attention.shape.head_dim, attention.shape.value_dim, attention.shape.kv_heads })
    assert.equal(2.0 * 64 * (192 + 128) * 4096 * 4096 / 2, attention.operator.flops(attention.shape, "forward"))
    -- what crosses tensor ranks backward is the gradient of the compressed, not of the stream
    assert.equal(2.0 * 4096 * (1536 + 512 + 64), bytes[1])
  end)

  it("of a mixture leaves its first layers dense and runs its shared experts", function()
    local _, m = names_of(changed("deepseek-v3", {}))
    local kinds = {}
    for i, layer in ipairs(m.layers) do kinds[i] = layer.name .. " " .. layer.count end
    assert.same({ "embedding 1", "dense 3", "sparse 58", "head 1" }, kinds)
    local _, maverick = names_of(changed("llama4-maverick text", {}))
    assert.same({ "dense, chunks", "sparse, chunks", "dense, chunks" },
      { maverick.layers[2].name, maverick.layers[3].name, maverick.layers[4].name })
  end)

  it("of a parallel block with one norm enters its region once", function()
    local names = names_of(changed("falcon-7b", { num_attention_heads = 64, hidden_size = 4096 }), 2)
    assert.same({ "layer_norm", "all_reduce backward", "linear_qkv", "rope", "flash_attention", "linear_proj",
      "linear_up", "gelu", "linear_down", "residual_add", "all_reduce forward", "residual_add" }, names)
    names = names_of(changed("bloom-560m", {}))
    assert.same({ "layer_norm", "linear_qkv", "flash_attention", "linear_proj", "residual_add", "layer_norm",
      "linear_up", "gelu", "linear_down", "residual_add" }, names) -- ALiBi: no rope
  end)

  it("splits the norms of queries and keys over tensor ranks", function()
    local m = built(changed("qwen3-8b", {}))
    for tp, rows in pairs { [1] = { 32, 8 }, [8] = { 4, 1 } } do
      local c, seen = architecture.configuration(m.hyper, { tp = tp, micro_batch = 2, seq = 1024 }), {}
      for _, item in ipairs(architecture.operations(m.layers[2], c)) do
        if item.name == "rms_norm" and item.shape.hidden == 128 then seen[#seen + 1] = item.shape.tokens // 2048 end
      end
      assert.same(rows, seen)
    end
  end)

  it("alternates windows as its model does", function()
    local function windows(config)
      local m, list = built(config), {}
      local c = architecture.configuration(m.hyper, { tp = 1, micro_batch = 1, seq = 8192 })
      for _, layer in ipairs(m.layers) do
        for _, item in ipairs(architecture.operations(layer, c)) do
          if item.name == "flash_attention" then
            list[#list + 1] = ("%dx%s"):format(layer.count, item.shape.window or "all")
          end
        end
      end
      return table.concat(list, " ", 1, math.min(4, #list)), #list, m
    end
    assert.equal("32x4096", (windows(changed("mistral-7b", {}))))
    assert.equal("32xall", (windows(changed("mistral-7b", { sliding_window = json.null }))))
    assert.equal("1x4096 1xall 1x4096 1xall", (windows(changed("gemma2-9b", {}))))
    local text, count = windows(changed("gemma3-27b text", {}))
    assert.equal("5x1024 1xall 5x1024 1xall", text)
    assert.equal(21, count)
    assert.equal("28xall", (windows(changed("qwen2-7b", {}))))
    assert.equal("20xall 8x4096", (windows(changed("qwen2-7b", { use_sliding_window = true, max_window_layers = 20,
      sliding_window = 4096 }))))
    local kinds = {}
    for i = 1, 32 do kinds[i] = (i == 1 or i > 30) and "full_attention" or "sliding_attention" end
    assert.equal("1xall 29x4096 2xall", (windows(changed("mistral-7b", { layer_types = kinds }))))
  end)

  it("costs less attention inside a window, by the ratio of FLOPs, and says so", function()
    local function attention(window)
      local e = estimate.new { model = built(changed("mistral-7b", { sliding_window = window })),
        cluster = "perlmutter",
        plan = { seq = 8192, micro_batches = 1, tp = 4 } }
      for _, line in ipairs(e.operators) do if line.name == "flash_attention" then return line end end
    end
    local all, inside = attention(json.null), attention(4096)
    local share = 2 * (4096 / 8192) - (4096 / 8192) ^ 2 -- of the causal half
    assert.is_true(math.abs(inside.seconds / all.seconds - share) < 1e-9)
    assert.matches("window of 4096 tokens: 0.75 of attention to all", inside.detail, 1, true)
  end)

  it("supports routers that choose groups of experts first", function()
    local count, grouped = 0, changed("deepseek-v3", { n_group = 8, topk_group = 4 })
    for _, m in ipairs { { name = "deepseek-v3", config = grouped }, table.unpack(models) } do
      if (m.config.n_group or 1) > 1 then
        local hyper = built(m.config).hyper
        assert.same({ m.config.n_group, m.config.topk_group }, { hyper.expert_groups, hyper.top_groups }, m.name)
        count = count + 1
      end
    end
    assert.is_true(count >= 5)
    assert.is_nil(built(changed("deepseek-v3", { n_group = 1, topk_group = 1 })).hyper.expert_groups)
  end)

  it("notes settings that it ignores", function()
    local m = built(changed("deepseek-v3", {}))
    assert.same({ "quantization_config (fp8) describes stored weights; the estimate uses the plan's dtype",
      "multi-token prediction is left out; mtp_layers=1 adds it" }, m.notes)
    m = built(changed("gemma3-27b text", {}))
    assert.same({ "only the part 'text_config' of this gemma3 model is estimated" }, m.notes)
    local e = estimate.new { model = m, cluster = "dgx_h100", plan = { seq = 1024, micro_batches = 1 } }
    assert.same(m.notes, e.notes)
    assert.matches("\nnote: only the part 'text_config' of this gemma3 model", tostring(e), 1, true)
    assert.same({}, built(changed("bloom", {})).notes)
    m = built { model_type = "qwen2_vl", hidden_size = 3584, intermediate_size = 18944, num_hidden_layers = 28,
      num_attention_heads = 28, num_key_value_heads = 4, vocab_size = 152064, vision_config = { depth = 32 } }
    assert.same({ "'vision_config' is ignored: only the language model is estimated" }, m.notes)
  end)

  it("notes fields that no reader asks for, if they turn something on", function()
    local m = built(changed("qwen3-8b", { new_block_width = 64, new_gate = false, new_rank = 0, bos_token_id = 1,
      rms_norm_eps = 1e-6, router_aux_loss_coef = 0.001, attn_res_layers = { 1, 2 } }))
    assert.same({ "fields without effect on the estimate: attn_res_layers = …, new_block_width = 64" }, m.notes)
    m = built(changed("mistral-7b", { num_key_value_heads = json.null, num_key_value_head = 8 }))
    assert.same({ "fields without effect on the estimate: num_key_value_head = 8 (did you mean num_key_value_heads?)" },
      m.notes)
    assert.same({}, built(changed("qwen3-8b", {})).notes)
  end)

  it("has the gate of Qwen3-Next's attention, which no field removes", function()
    local function gated(value)
      local m = built(changed("qwen3-next-80b-a3b", { attn_output_gate = value }))
      return { architecture.parameters(m), m.notes[1] }
    end
    local count = architecture.parameters(built(changed("qwen3-next-80b-a3b", {})))
    assert.same({ count, built(changed("qwen3-next-80b-a3b", {})).notes[1] }, gated(true))
    assert.same({ count, "attn_output_gate = false: Transformers builds the gate in each case; attention_gate=false "
      .. "removes it" }, gated(false))
  end)

  it("has soft caps where its configuration or its class states them", function()
    local function caps(name, logits, scores)
      local m = built(changed(name, { final_logit_softcapping = logits, attn_logit_softcapping = scores }))
      assert.same({}, m.notes)
      return { m.hyper.logit_softcap or false, m.hyper.attention_softcap or false }
    end
    assert.same({ true, true }, caps("gemma2-9b"))
    assert.same({ true, false }, caps("gemma2-9b", 30.0, json.null))
    assert.same({ false, false }, caps("qwen3-8b"))
    assert.same({ true, false }, caps("qwen3-8b", 30.0))
  end)

  it("notes dropout and multi-token prediction under each of their names", function()
    local m = built(changed("seed-oss-36b", { attention_dropout = 0.1, residual_dropout = 0.1 }))
    assert.same({ "dropout is left out (attention_dropout = 0.1, residual_dropout = 0.1); dropout=true adds that of "
      .. "the residual stream" }, m.notes)
    assert.same({}, built(changed("seed-oss-36b", { attention_dropout = 0 })).notes)
    m = built(changed("minimax-m2", { num_mtp_modules = 3 }))
    assert.same({ "multi-token prediction is left out; mtp_layers=3 adds it" }, m.notes)
  end)

  it("has no rotary positions in the layers where its model has none", function()
    local function ropes(config, name)
      local m, list = built(config), {}
      local c = architecture.configuration(m.hyper, { tp = 1, micro_batch = 1, seq = 4096 })
      for _, layer in ipairs(m.layers) do
        local found = 0
        for _, item in ipairs(architecture.operations(layer, c)) do
          found = found + (item.name == (name or "rope") and 1 or 0)
        end
        if layer.place == "middle" then list[#list + 1] = ("%dx%d"):format(layer.count, found) end
      end
      return table.concat(list, " ", 1, math.min(4, #list))
    end
    assert.equal("3x1 1x0 3x1 1x0", ropes(changed("smollm3-3b", {})))
    local named = {}
    for i = 1, 36 do named[i] = i == 2 and 0 or 1 end
    assert.equal("1x1 1x0 34x1", ropes(changed("smollm3-3b", { no_rope_layers = named })))
    assert.equal("3x1 1x0 3x1 1x0", ropes(changed("llama4-scout text", {})))
    assert.equal("3x4 1x2 3x4 1x2", ropes(changed("llama4-scout text", {}), "rms_norm")) -- of rotated queries and keys
    assert.equal(107769861120, architecture.parameters(built(changed("llama4-scout text", {})))) -- norms without gains
    assert.equal("64x1", ropes(changed("exaone-4.0-32b", { sliding_window = json.null })))
    assert.equal("3x1 1x0 3x1 1x0", ropes(changed("exaone-4.0-32b", { sliding_window = 4096, layer_types = {
      "sliding_attention", "sliding_attention", "sliding_attention", "full_attention" } })))
    assert.equal("2x1 1x1 1x0 3x1", ropes(changed("trinity-mini", {})))
  end)

  it("of narrow experts compresses tokens before it sends them", function()
    local m = built(changed("nemotron-3-super", {}))
    local c = architecture.configuration(m.hyper, { tp = 1, ep = 8, micro_batch = 1, seq = 4096 })
    local names, sent = {}, nil
    for _, layer in ipairs(m.layers) do
      for _, item in ipairs(architecture.operations(layer, c)) do
        if layer.name == "moe" then names[item.name] = item.shape end
        if item.name == "all_to_all" then sent = item.bytes end
      end
    end
    assert.equal(2.0 * 4096 * 1024 * 22, sent)
    assert.same({ 4096, 1024 }, { names.linear_latent_down.in_features, names.linear_latent_down.out_features })
    assert.same({ 1024, 4096 }, { names.linear_latent_up.in_features, names.linear_latent_up.out_features })
    assert.same({ 1024, 1024 }, { names.expert_linear1.in_features, names.expert_linear2.out_features })
    assert.same({ 4096, 4096 }, { names.moe_router.hidden, names.linear_up.in_features }) -- router, shared expert
  end)

  it("of Nemotron-H may name its layers in a list", function()
    local config = changed("nemotron-h-8b", { layers_block_type = {} })
    local names = { M = "mamba", ["-"] = "mlp", ["*"] = "attention" }
    for letter in config.hybrid_override_pattern:gmatch "." do
      table.insert(config.layers_block_type, names[letter])
    end
    config.hybrid_override_pattern, config.num_hidden_layers = nil, json.null -- as transformers 5 writes them
    assert.equal(architecture.parameters(built(changed("nemotron-h-8b", {}))), architecture.parameters(built(config)))
  end)

  it("may list the layers with experts", function()
    local kinds = { "dense", "dense", "dense" }
    for i = 4, 61 do kinds[i] = "sparse" end
    local config = changed("deepseek-v3", { mlp_layer_types = kinds })
    config.first_k_dense_replace = nil
    assert.equal(architecture.parameters(built(changed("deepseek-v3", {}))), architecture.parameters(built(config)))
    local m = built(changed("qwen3-30b-a3b", { mlp_only_layers = { 0, 1 } }))
    assert.same({ 2, 1 }, { m.hyper.first_dense_layers, m.hyper.moe_every })
    m = built(changed("qwen3-30b-a3b", { mlp_only_layers = { 0, 7 } }))
    assert.same({ 0, 1, { 1, 8 } }, { m.hyper.first_dense_layers, m.hyper.moe_every, m.hyper.dense_layers })
    local h = m.hyper.hidden
    local dense, sparse = 3 * h * 6144, h * 128 + 128 * 3 * h * 768
    assert.equal(architecture.parameters(built(changed("qwen3-30b-a3b", {}))) + 2 * (dense - sparse),
      architecture.parameters(m))
    assert.matches("field 'mlp_layer_types': must name all 61 layers, got 2",
      message(changed("deepseek-v3", { mlp_layer_types = { "dense", "sparse" } })), 1, true)
  end)

  it("may give each layer widths of its own, or leave out a block", function()
    local blocks = { { attention = { n_heads_in_group = 8 }, ffn = { ffn_mult = 5.25 } },
      { attention = { no_op = true }, ffn = { ffn_mult = 1.3125 } },
      { attention = { n_heads_in_group = 16 }, ffn = { no_op = true } } }
    local config = { model_type = "nemotron-nas", hidden_size = 8192, num_hidden_layers = 3, num_attention_heads = 64,
      num_key_value_heads = json.null, vocab_size = 128256, intermediate_size = json.null, block_configs = blocks }
    local m, h = built(config), 8192
    assert.equal(2 * 128256 * h + h -- embedding, head and last norm
      + 2 * h + 2 * h * h + 2 * h * 8 * 128 + 3 * h * 28672 -- all of layer 1
      + h + 3 * h * 7168 -- the MLP of layer 2
      + h + 2 * h * h + 2 * h * 4 * 128, architecture.parameters(m)) -- the attention of layer 3
    assert.matches("tp = 3 must divide layer 2: ffn = 7168", message_of_plan(m, { tp = 3 }), 1, true)
    blocks[2].ffn = { replace_with_linear = true }
    assert.matches("field 'block_configs': layer 2: 'ffn' is replaced by a linear layer; ett does not support it",
      message(config), 1, true)
  end)

  it("of Step-3.5 has more heads in its layers with a window", function()
    local m, heads = built(changed("step-3.5-flash", {})), {}
    local c = architecture.configuration(m.hyper, { tp = 2, micro_batch = 1, seq = 4096 })
    for i = 2, 4 do
      for _, item in ipairs(architecture.operations(m.layers[i], c)) do
        if item.name == "flash_attention" then heads[#heads + 1] = { item.shape.heads, item.shape.window or 0 } end
      end
    end
    assert.same({ { 32, 0 }, { 48, 512 }, { 48, 512 } }, heads)
    assert.same({ "dense, full attention, rotary_fraction 0.5", "dense, window, head_dim 128, heads 96, kv_heads 8",
      "sparse, window, head_dim 128, heads 96, kv_heads 8" },
      { m.layers[2].name, m.layers[3].name, m.layers[4].name })
  end)

  it("of Gemma 3n and 4 projects no keys where a layer borrows them, and no values where they are the keys", function()
    local function projections(name, layers, tp)
      local m, list = built(changed(name, {})), {}
      local c = architecture.configuration(m.hyper, { tp = tp, micro_batch = 1, seq = 4096 })
      for _, i in ipairs(layers) do
        for _, item in ipairs(architecture.operations(m.layers[i], c)) do
          if item.name == "linear_qkv" then list[#list + 1] = item.shape.out_features end
        end
      end
      return list, m
    end
    local widths, m = projections("gemma-3n-e2b", { 2, 3, 10 }, 1)
    assert.same({ (8 + 2 * 2) * 256, (8 + 2 * 2) * 256, 8 * 256 }, widths)
    assert.same({ 4, 64, 256 }, { m.hyper.altup_streams, m.hyper.laurel_rank, m.hyper.per_layer_width })
    -- layers with a window; without one: keys are values, heads are twice as wide
    widths = projections("gemma-4-31b", { 2, 3 }, 2)
    assert.same({ (16 + 2 * 8) * 256, (16 + 2) * 512 }, widths)
  end)

  it("of masked diffusion attends to all tokens", function()
    for name, causal in pairs { ["llada-8b"] = 0, ["dream-7b"] = 0, ["qwen2-7b"] = 1 } do
      local m = built(changed(name, {}))
      local c = architecture.configuration(m.hyper, { tp = 1, micro_batch = 1, seq = 4096 })
      for _, item in ipairs(architecture.operations(m.layers[2], c)) do
        if item.name == "flash_attention" then assert.equal(causal, item.shape.causal) end
      end
    end
  end)

  it("with an unknown kind of layer, a short list or a fraction is refused by the field", function()
    for _, case in ipairs {
      { "lfm2-8b-a1b", { layer_types = times(24, { "mamba" }) },
        "field 'layer_types': layer 1 must be conv or full_attention, got 'mamba'" },
      { "lfm2-8b-a1b", { layer_types = { "conv" } },
        "field 'layer_types': layer 2 must be conv or full_attention, got nil" },
      { "minimax-text-01", { attn_type_list = { 0, 1 } }, "field 'attn_type_list' must have 0 or 1 for each layer" },
      { "qwen3-30b-a3b", { mlp_only_layers = { "x" } }, "field 'mlp_only_layers' must be a list of numbers, got 'x'" },
      { "step-3.5-flash", { num_hidden_layers = 3.7 }, "must name all 3.7 layers" },
      { "jamba-v0.1", { expert_layer_period = 3.7 }, "must be expert_layer_period - 1 = 2.7, got 1" },
    } do
      assert.is_truthy(message(changed(case[1], case[2])):find(case[3], 1, true), message(changed(case[1], case[2])))
    end
    assert.matches("mtp_layers=3.7 adds it", built(changed("deepseek-v3", { num_nextn_predict_layers = 3.7 })).notes[2])
  end)

  it("of Gemma 3n sends all streams and the per-layer inputs of later layers", function()
    local m = built(changed("gemma-3n-e2b", {}))
    local c, left = architecture.configuration(m.hyper, { tp = 1, micro_batch = 1, seq = 4096 }), 30
    for i = 2, #m.layers - 1 do
      left = left - m.layers[i].count
      assert.equal(4096 * (4 * 2048 + left * 256) // 2048, m.layers[i].sends(c))
    end
  end)

  it("of MiMo-V2 has values narrower than keys, and sinks where it has a window", function()
    local m, found = built(changed("mimo-v2-flash", {})), {}
    local c = architecture.configuration(m.hyper, { tp = 1, micro_batch = 1, seq = 4096 })
    for i = 2, 3 do
      for _, item in ipairs(architecture.operations(m.layers[i], c)) do
        if item.operator then found[i .. item.name] = item.shape end
      end
    end
    assert.same({ 192, 128, 4 }, { found["2flash_attention"].head_dim, found["2flash_attention"].value_dim,
      found["2flash_attention"].kv_heads })
    assert.equal(64 * 192 + 8 * (192 + 128), found["3linear_qkv"].out_features)
    assert.equal(64 * 128, found["3linear_proj"].in_features)
    assert.is_nil(found["2attention_sinks"])
    assert.is_not_nil(found["3attention_sinks"])
  end)

  it("reads the rotated part of a head where transformers 5 states it", function()
    local m = built(changed("seed-oss-36b", { rope_parameters = { partial_rotary_factor = 0.5 } }))
    assert.equal(0.5, m.hyper.rotary_fraction)
  end)

  it("notes the defaults used for values that a nested part does not state; null is a value", function()
    local m = built(changed("gemma3-4b text, as published", {}))
    assert.equal("'text_config' lacks some fields; the defaults of gemma3_text are used: head_dim = 256, "
      .. "num_attention_heads = 8, num_key_value_heads = 4, vocab_size = 262208", m.notes[2])
    assert.is_nil(built(changed("llava-1.6-mistral-7b text, as published", {})).hyper.window)
    assert.matches("missing field 'vocab_size'", message { model_type = "llama", hidden_size = 64,
      num_hidden_layers = 1, num_attention_heads = 1 })
  end)

  it("reads fields of which a type has two values", function()
    local function hyper(name, changes) return built(changed(name, changes)).hyper end
    local mpt = { attn_config = { alibi = false, attn_type = "multiquery_attention" }, max_seq_len = 2048 }
    assert.same({ "learned", 2048, 1 }, { hyper("mpt-7b", mpt).position, hyper("mpt-7b", mpt).max_positions,
      hyper("mpt-7b", mpt).kv_heads })
    for _, bias in ipairs { true, false } do
      local mimo = hyper("qwen2-7b", { model_type = "mimo", attention_bias = bias })
      assert.same({ bias, false }, { mimo.qkv_bias, mimo.attention_bias })
    end
    local kimi = hyper("kimi-linear-48b", { num_expert_group = 8, topk_group = 4 })
    assert.same({ 8, 4 }, { kimi.expert_groups, kimi.top_groups })
    local bamba, granite = hyper("bamba-9b", {}), hyper("granite-4.0-h-small", {})
    assert.same({ 0.5, 64 }, { bamba.rotary_fraction, bamba.ssm_head_dim })
    assert.same({ "none", "full_attention", "mamba2" }, { granite.position, granite.layer_types[6],
      granite.layer_types[7] })
    local dense = built(changed("deepseek-v2-lite", { n_routed_experts = json.null }))
    assert.equal("llama", dense.architecture)
    assert.matches("no field 'n_routed_experts': all layers are modelled as dense", table.concat(dense.notes, "\n"))
    assert.matches("moe_layer_end_index = 20 are also modelled with experts", table.concat(built { hidden_size = 2560,
      model_type = "ernie4_5_moe", num_hidden_layers = 28, num_attention_heads = 20, num_key_value_heads = 4,
      intermediate_size = 12288, moe_intermediate_size = 1536, vocab_size = 103424, moe_layer_end_index = 20 }.notes,
      "\n"))
  end)

  it("refuses models that it cannot estimate, with their type", function()
    assert.matches("field 'model_type': unknown model 'lama'; did you mean 'llama'%?; known are ",
      message { model_type = "lama", hidden_size = 8 })
    assert.matches("missing field 'model_type'", message { hidden_size = 8 })
    assert.matches("field 'layers' must be a positive integer, got %-2",
      message(changed("llama-2-7b", { num_hidden_layers = -2 })))
    assert.matches("cannot read '/nowhere/config.json'", raised(model_module.huggingface, "/nowhere/config.json"))
    assert.matches("'bart' is an encoder-decoder other than T5; ett has no architecture for it",
      message { model_type = "bart", d_model = 512 }, 1, true)
    assert.matches("'rwkv' is a recurrent model", message { model_type = "rwkv" }, 1, true)
    assert.matches("'jetmoe' is a model with a mixture of attention heads;", message { model_type = "jetmoe" }, 1, true)
    assert.matches("'clip' is a pair of encoders;", message { model_type = "clip" }, 1, true)
    assert.matches("field 'attn_res_block_size' means attention over the residuals of blocks of layers; ett does not "
      .. "support it", message(changed("kimi-linear-48b", { attn_res_block_size = 12 })), 1, true)
    assert.matches("field 'linear_attn_config' must have num_heads and head_dim",
      message(changed("kimi-linear-48b", { linear_attn_config = json.null })), 1, true)
    assert.matches("field 'linear_attn_config.use_full_rank_gate' must be false; ett supports no other gate",
      message(changed("kimi-linear-48b", { linear_attn_config = { full_attn_layers = { 4 }, kda_layers = { 1 },
        num_heads = 32, head_dim = 128, short_conv_kernel_size = 4, use_full_rank_gate = true } })), 1, true)
    assert.matches("field 'block_type' must be 'llama', got 'sequential'",
      message(changed("llada-8b", { block_type = "sequential" })), 1, true)
    assert.matches("field 'layers_block_type': layer 1 must be",
      message(changed("bamba-9b", { layers_block_type = times(32, { "conv" }) })), 1, true)
    assert.matches("field 'projectors_bias' must equal mamba_proj_bias",
      message(changed("falcon-h1-0.5b", { projectors_bias = true })), 1, true)
    assert.matches("field 'hybrid_layer_pattern' must have 0 or 1 for each layer",
      message(changed("mimo-v2-flash", { num_hidden_layers = 47 })), 1, true)
    assert.matches("field 'swa_num_key_value_heads' means windowed layers with heads of their own; "
      .. "ett does not support them",
      message(changed("qwen3-8b", { swa_num_key_value_heads = 4 })), 1, true)
    assert.matches("field 'use_cla' means layers that share keys and values",
      message(changed("hunyuan-a13b", { use_cla = true })), 1, true)
    assert.matches("field 'num_attention_heads_per_layer' means layers with different numbers of heads",
      message(changed("qwen3-8b", { num_attention_heads_per_layer = { 32, 48 } })), 1, true)
    assert.matches("field 'hybrid_override_pattern' must have a letter M, -, * or E for each layer",
      message(changed("nemotron-h-8b", { num_hidden_layers = 51 })), 1, true)
    assert.matches("field 'expert_layer_offset' must be expert_layer_period - 1 = 1, got 0",
      message(changed("jamba-v0.1", { expert_layer_offset = 0 })), 1, true)
    assert.matches("field 'moe_layer_freq' must be 1, got 2", message(changed("deepseek-v3",
      { moe_layer_freq = 2 })), 1,
      true)
    assert.matches("multi-head latent attention also needs 'v_head_dim'",
      message(changed("deepseek-v3", { v_head_dim = json.null })), 1, true)
  end)

  it("with the bare words Infinity and NaN is read; as the number of a field they are refused", function()
    local function of_text(text)
      local path = os.tmpname()
      require("ett.base.folder").write(path, text)
      local answer = table.pack(pcall(model_module.huggingface, path))
      os.remove(path)
      if answer[1] then return architecture.parameters(answer[2]) end
      return (tostring(answer[2]):gsub("^.*" .. path:match "[^/]+$", "c"))
    end
    local text = '{"model_type":"mamba2","hidden_size":1024,"num_hidden_layers":4,"num_heads":32,"head_dim":64,'
      .. '"expand":2,"n_groups":1,"state_size":128,"vocab_size":1000,"_name":"NaN, \\"Infinity","time_step_limit":%s}'
    local count = of_text(text:format "[0.0,1e9]")
    assert.equal("number", type(count), count)
    for _, limit in ipairs { "[0.0, Infinity]", "[-Infinity,Infinity]", "NaN", '{"__float__":"Infinity"}' } do
      assert.equal(count, of_text(text:format(limit)))
    end
    assert.equal("c: field 'hidden_size' must be a number, got 'NaN'",
      of_text((text:format("0"):gsub("1024", "NaN"))))
    assert.equal("c:2:3: expected value but found invalid token", of_text '{"a":Infinity,"b":\n  Infinite}')
    assert.matches("^c:1:%d+: ", of_text '{"a":NaN,"b":"\\')
  end)

  it("with impossible, null or wrong values is refused with each of them", function()
    local base = "mistral-7b"
    assert.matches("missing field 'num_hidden_layers' or 'n_layer'",
      message(changed(base, { num_hidden_layers = json.null })), 1, true)
    assert.matches("field 'hidden_size' must be a number, got '4096'", message(changed(base, { hidden_size = "4096" })),
      1, true)
    assert.matches("field 'vocab_size' must be a number, got true", message(changed(base,
      { vocab_size = true })), 1, true)
    assert.matches("field 'num_attention_heads' must be a number, got a list",
      message(changed(base, { num_attention_heads = { 32 } })), 1, true)
    assert.matches("field 'layers' must be at most 65536, got 1000000000",
      message(changed(base, { num_hidden_layers = 1e9 })), 1, true)
    assert.matches("field 'hidden' must be a positive integer, got 1e+308", message(changed(base,
      { hidden_size = 1e308 })),
      1, true)
    assert.matches("field 'hidden' must be a positive integer, got 4096.5",
      message(changed(base, { hidden_size = 4096.5 })), 1, true)
    assert.matches("field 'ffn' must be a positive integer, got -1", message(changed(base,
      { intermediate_size = -1 })), 1,
      true)
    assert.matches("field 'tie_word_embeddings' must be true or false, got 1",
      message(changed(base, { tie_word_embeddings = 1 })), 1, true)
    assert.matches("kv_heads = 5 must divide heads = 32", message(changed(base, { num_key_value_heads = 5 })), 1, true)
    assert.matches("missing field 'hidden_size'", message { model_type = "llama", word_embed_proj_dim = 4.5,
      num_hidden_layers = 4, num_attention_heads = 4, intermediate_size = 64, vocab_size = 9 }, 1, true)
    assert.matches("text_config': missing field 'model_type'",
      message { model_type = "some_vision", text_config = { hidden_size = 8 } }, 1, true)
  end)

  it("is refused with its own names of the fields", function()
    local function refusal(base, changes)
      local path = os.tmpname()
      require("ett.base.folder").write(path, json.encode(changed(base, changes)))
      local ok, why = pcall(model_module.huggingface, path)
      os.remove(path)
      return not ok and tostring(why) or ""
    end
    assert.matches("field 'layers' must be a positive integer, got %-1; in the file, layers is num_hidden_layers$",
      refusal("mistral-7b", { num_hidden_layers = -1 }))
    assert.matches("kv_heads = 5 must divide heads = 32 %(1, 2, 4, 8, 16, 32%); in the file, heads is "
      .. "num_attention_heads, kv_heads is num_key_value_heads$", refusal("mistral-7b", { num_key_value_heads = 5 }))
    assert.matches("needs the fields 'experts' and 'top_k'; in the file, experts is num_local_experts, top_k is "
      .. "num_experts_per_tok$", refusal("gpt-oss-20b", { num_local_experts = json.null }))
    assert.matches("got 'x'$", refusal("mistral-7b", { hidden_size = "x" }))
    assert.matches("heads is num_attention_heads, hidden is hidden_size",
      refusal("mistral-7b", { hidden_size = 4097, text_config = json.null }))
    local other = { num_attention_heads = json.null, n_head = 32, num_key_value_heads = 5 }
    local said = "; in the file, heads is n_head, kv_heads is num_key_value_heads$"
    assert.matches(said, refusal("mistral-7b", other))
    local part = changed("mistral-7b", other)
    assert.matches(said, refusal("mistral-7b", { llm_config = part }))
    assert.matches(said, refusal("mistral-7b", { thinker_config = { text_config = part } }))
  end)
end)
