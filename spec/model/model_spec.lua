--- Models from Hugging Face configurations.
local architecture = require "ett.model.architecture"
local json = require "ett.json"
local model = require "ett.model"
local raised = require "raised"

local function parameters(config)
  local path = os.tmpname()
  assert(json.write(path, config))
  local ok, built = pcall(model.huggingface, path)
  os.remove(path)
  if not ok then error(built, 0) end
  return architecture.parameters(built), built
end

describe("model.huggingface", function()
  it("counts Llama-2-7B's published 6,738,415,616 parameters", function()
    assert.equal(6738415616, parameters { model_type = "llama", hidden_size = 4096, intermediate_size = 11008,
      num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 32, vocab_size = 32000,
      tie_word_embeddings = false })
  end)

  it("counts Mistral-7B's published 7,241,732,096 parameters", function()
    assert.equal(7241732096, parameters { model_type = "mistral", hidden_size = 4096, intermediate_size = 14336,
      num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8, vocab_size = 32000,
      sliding_window = 4096, tie_word_embeddings = false })
  end)

  it("counts Mixtral-8x7B's published 46,702,792,704 parameters", function()
    assert.equal(46702792704, parameters { model_type = "mixtral", hidden_size = 4096, intermediate_size = 14336,
      num_hidden_layers = 32, num_attention_heads = 32, num_key_value_heads = 8, vocab_size = 32000,
      num_local_experts = 8, num_experts_per_tok = 2, tie_word_embeddings = false })
  end)

  it("counts GPT-2's parameters, without its learned positions", function()
    local count = parameters { model_type = "gpt2", n_embd = 768, n_layer = 12, n_head = 12, vocab_size = 50257,
      n_positions = 1024 }
    assert.is_true(count == 124439808 or count == 124439808 - 1024 * 768, ("got %d"):format(count))
  end)

  it("names unknown fields", function()
    assert.matches("field 'model_type': unknown model 'lama'; did you mean 'llama'%?; known are ",
      raised(parameters, { model_type = "lama", hidden_size = 8 }))
    assert.matches("missing field 'model_type'", raised(parameters, { hidden_size = 8 }))
    assert.matches("field 'layers' must be a positive integer, got %-2",
      raised(parameters, { model_type = "llama", num_attention_heads = 8, num_hidden_layers = -2, hidden_size = 64,
        vocab_size = 100 }))
    assert.matches("cannot read '/nowhere/config.json'", raised(model.huggingface, "/nowhere/config.json"))
  end)
end)
