--- Models: an architecture with its hyper-parameters, however they are given.
--
--   model.new("llama", { layers = 32, hidden = 4096, heads = 32, vocab = 32000 })
--   model.huggingface "config.json"
--   model.list({ "rms_norm", "linear_qkv", … }, { layers = 32, … })    -- plain operator names
local architecture = require "ett.architecture"
local error_module = require "ett.error"
local schema = require "ett.schema"

local model = {}

--- A model of an architecture found by name, or of a function.
function model.new(name, hyper) return architecture.new(name, hyper) end

--- A model whose repeated layer is a list of operator names.
function model.list(names, hyper)
  local built = architecture.from_list(names, hyper)
  built.name = "encoder_function_list"
  return built
end

-- Field names of the Hugging Face configurations, first found wins.
local common = {
  layers = { "num_hidden_layers", "n_layer", "num_layers" },
  hidden = { "hidden_size", "n_embd", "d_model" },
  heads = { "num_attention_heads", "n_head", "num_heads" },
  kv_heads = { "num_key_value_heads" },
  head_dim = { "head_dim" },
  ffn = { "intermediate_size", "n_inner", "ffn_dim" },
  vocab = { "vocab_size" },
  tied_embeddings = { "tie_word_embeddings" },
  max_positions = { "max_position_embeddings", "n_positions" },
  window = { "sliding_window" },
  experts = { "num_local_experts", "num_experts", "n_routed_experts" },
  top_k = { "num_experts_per_tok" },
  moe_ffn = { "moe_intermediate_size" },
  shared_experts = { "n_shared_experts" },
  first_dense_layers = { "first_k_dense_replace" },
  rotary_fraction = { "rotary_pct", "partial_rotary_factor" },
  parallel_block = { "use_parallel_residual" },
}

--- model_type -> architecture and what its configuration leaves unsaid.
local types = {
  llama = { "llama" }, mistral = { "llama" }, qwen2 = { "llama", { qkv_bias = true } },
  qwen3 = { "llama", { qk_norm = true } }, phi3 = { "llama" }, gemma = { "llama", { tied_embeddings = true } },
  gemma2 = { "llama", { tied_embeddings = true } }, olmo = { "llama" }, olmo2 = { "llama", { qk_norm = true } },
  yi = { "llama" }, internlm2 = { "llama" },
  mixtral = { "mixtral" }, qwen2_moe = { "mixtral", { qkv_bias = true } },
  qwen3_moe = { "mixtral", { qk_norm = true } }, olmoe = { "mixtral", { qk_norm = true } },
  gpt2 = { "gpt", { tied_embeddings = true } },
  gpt_neox = { "gpt", { position = "rope", tied_embeddings = false, parallel_block = true } },
  gptj = { "gpt", { position = "rope", tied_embeddings = false, parallel_block = true } },
  opt = { "gpt", { tied_embeddings = true } },
}

--- Hyper-parameters and architecture of a Hugging Face configuration.
---@param config table the decoded config.json
---@param label string its file, for messages
---@return string architecture, table hyper
function model.huggingface_hyper(config, label)
  local kind = config.model_type
  if type(kind) ~= "string" then
    error_module.raise("model", "%s: missing field 'model_type' (a string); is this a Hugging Face config.json?", label)
  end
  local known = types[kind]
  if not known then
    error_module.raise("model", "%s: field 'model_type': unknown model '%s'%s; known are %s", label, kind,
      error_module.suggestion(kind, schema.keys(types)), table.concat(schema.keys(types), ", "))
  end
  local hyper, from, found = {}, {}, {}
  for name, value in pairs(known[2] or {}) do hyper[name] = value end
  for _, name in ipairs(schema.keys(common)) do
    for _, key in ipairs(common[name]) do
      local value = config[key]
      if type(value) == "number" or type(value) == "boolean" then
        hyper[name], from[name] = value, key
        break
      elseif type(value) == "string" then
        found[#found + 1] = ("field '%s' must be a number, got %s"):format(key, schema.describe(value))
        from[name] = key
      end
    end
  end
  for _, name in ipairs { "heads", "hidden", "layers", "vocab" } do
    if not from[name] then
      found[#found + 1] = ("missing field '%s' (a positive integer)"):format(table.concat(common[name], "' or '"))
    end
  end
  if #found > 0 then error_module.raise("model", "%s: %s", label, table.concat(found, "; ")) end
  if config.use_sliding_window == false then hyper.window = nil end
  if known[1] ~= "mixtral" then
    hyper.experts, hyper.top_k, hyper.moe_ffn, hyper.shared_experts, hyper.first_dense_layers = nil, nil, nil, nil, nil
  end
  if known[1] == "llama" or known[1] == "mixtral" then hyper.parallel_block, hyper.max_positions = nil, nil end
  if hyper.window == 0 then hyper.window = nil end
  return known[1], hyper
end

--- A model from a Hugging Face config.json.
---@param path string
function model.huggingface(path)
  local config, err = require("ett.json").read(path)
  if config == nil then error(error_module.from(err), 0) end
  if type(config) ~= "table" then error_module.raise("format", "%s: must hold a JSON object", path) end
  local name, hyper = model.huggingface_hyper(config, path)
  local built = error_module.wrap(path, architecture.new, name, hyper)
  built.name = ("%s (%s)"):format(name, path:match("([^/]+)$"))
  return built
end

--- Whether a name is a file rather than an architecture.
function model.is_file(name) return name:match("%.json$") ~= nil or name:match("/") ~= nil end

return model
