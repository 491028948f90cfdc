--- Public models by name: counts of parameters, spellings, changed hyper-parameters.
local architecture = require "ett.model.architecture"
local find = require "ett.base.find"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local published_count = require "published_count"
local raised = require "raised"

describe("a preset", function()
  for _, name in ipairs(find.names "lua/models") do
    it(name .. " counts the parameters that its file states", function()
      local built = model_module.new(name)
      local preset = find.load_file(find.path("lua/models", name))
      local count, published = architecture.parameters(built), preset.parameters
      assert.is_true(published_count.agrees(count, published), ("%s: %.0f against %.0f"):format(name, count, published))
      assert.equal(name, built.name)
    end)
  end

  it("exists for each well-known model family", function()
    local names = " " .. table.concat(find.names "lua/models", " ")
    for word in ([[llama2 llama3 llama3.1 llama4 mistral mixtral qwen2 qwen2.5 qwen3 deepseek-v2 deepseek-v3 gemma
      gemma2 gemma3 phi gpt3 gpt-neox opt bloom falcon kimi-k2 glm-4.5 gpt-oss olmo2 granite nemotron]]):gmatch "%S+" do
      assert.is_truthy(names:find(" " .. word, 1, true), word)
    end
  end)

  it("is named if an architecture's name stands alone", function()
    assert.matches("'mixtral' is an architecture, its models are mixtral-8x22b, mixtral-8x7b", raised(model_module.new,
      "mixtral", {}), 1, true)
    assert.matches("missing field 'heads'.*'llama' is an architecture", raised(model_module.new, "llama"))
    assert.is_nil(raised(model_module.new, "mixtral", { hidden = 4096 }):find("is an architecture", 1, true))
    require("ett.base.folder").within(function(folder) -- a file is no public model
      local file = require("ett.base.folder").write(folder .. "/mine.lua", "return function(h) return h.x.y end")
      local text = raised(model_module.new, file, {})
      assert.matches("missing field 'hidden'", text, 1, true)
      assert.is_nil(text:find("is an architecture", 1, true))
    end)
  end)

  it("counts most of them to the last weight", function()
    local exact, all = 0, find.names "lua/models"
    for _, name in ipairs(all) do
      local preset = find.load_file(find.path("lua/models", name))
      if architecture.parameters(model_module.new(name)) == preset.parameters then exact = exact + 1 end
    end
    assert.is_true(exact >= 81, exact)
  end)

  it("is found regardless of case and punctuation, and by a part of its name", function()
    for spelt, name in pairs { ["Llama-3-70B"] = "llama3-70b", llama3_1_8b = "llama3.1-8b",
      ["GPT-3 175B"] = "gpt3-175b", ["qwen3-235b"] = "qwen3-235b-a22b", ["kimi_k2"] = "kimi-k2",
      maverick = "llama4-maverick", ["meta-llama/Meta-Llama-3-70B"] = "llama3-70b",
      ["qwen/qwen3-8b"] = "qwen3-8b", ["DeepSeek-R1"] = "deepseek-v3", ["glm 4.6"] = "glm-4.5",
      ["Kimi K2.5"] = "kimi-k2", ["GLM-4.7"] = "glm-4.5", ["glm-4.7-flash"] = "glm-4.7-flash",
      ["Llama-3.3-70B"] = "llama3.1-70b", ["Llama-3-405B"] = "llama3.1-405b", ["llama3-3b"] = "llama3.2-3b",
      ["llama3-1b"] = "llama3.2-1b", ["OLMo-2-7B"] = "olmo2-7b", ["ibm-granite/granite-3.1-8b-instruct"] =
      "granite-3.1-8b" } do
      assert.equal(name, model_module.new(spelt).name)
    end
  end)

  it("accepts other hyper-parameters and shows them in its name", function()
    local built = model_module.new("llama3-70b", { layers = 40, vocab = 128256 })
    assert.equal("llama3-70b with layers=40", built.name)
    assert.same({ 40, 28672 }, { built.hyper.layers, built.hyper.ffn })
    assert.equal("llama3-70b: llama: heads = 7 must divide hidden = 8192, or give head_dim",
      raised(model_module.new, "llama3-70b", { heads = 7, kv_heads = 7 }))
    assert.equal("llama3-70b: llama: unknown field 'layer'; did you mean 'layers'?",
      raised(model_module.new, "llama3-70b", { layer = 7 }))
  end)

  it("with an ambiguous or unknown name is refused", function()
    assert.equal("the model 'falcon' may be falcon-180b, falcon-40b, falcon-7b, falcon-h1-34b; give one of them",
      raised(model_module.new, "falcon"))
    assert.equal("the model 'olmo' may be olmo2-13b, olmo2-32b, olmo2-7b, olmo3-32b; give one of them",
      raised(model_module.new, "olmo"))
    assert.matches("^the model 'qwen' may be qwen2%-0.5b, .*, …; give one of them$", raised(model_module.new, "qwen"))
    assert.equal("unknown model 'step4'; did you mean 'step3'?", raised(model_module.new, "step4"))
    assert.equal("unknown model 'lama3-70b'; did you mean 'llama3-70b'?", raised(model_module.new, "lama3-70b"))
    assert.equal("unknown model 'x/config.json'; ett.model.huggingface reads a config.json", raised(model_module.new,
      "x/config.json"))
    assert.equal("unknown model 'zzzzzzzzz'; `ett list models` and `ett list architectures` name them all",
      raised(model_module.new, "zzzzzzzzz"))
  end)

  it("with a wrong field is refused by file", function()
    local folder = require("command").folder()
    find.set_script_folder(folder)
    require("ett.base.folder").write(folder .. "/mine.lua",
      'return { name = "mine", summary = "s", source = "s", architecture = "llama", hypr = {} }')
    local why = raised(model_module.new, "mine")
    find.set_script_folder(nil)
    require("ett.base.folder").remove(folder)
    assert.equal("mine.lua: unknown field 'hypr'; did you mean 'hyper'?; missing field 'hyper' (a table); "
      .. "missing field 'parameters' (a positive number)", why)
  end)
end)

describe("a model's file", function()
  local command, folder = require "command", nil
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  it("may be an architecture or a preset", function()
    command.write(folder, "plain.lua", [[local blocks = require "ett.model.blocks"
      return function(hyper)
        return blocks.decoder(hyper, { name = "block", count = hyper.layers,
          ops = { "rms_norm", blocks.enter, "linear_up", "gelu", "linear_down", blocks.leave, "residual_add" } })
      end]])
    command.write(folder, "small.lua", [[return { name = "small", summary = "s", source = "s", architecture = "llama",
      parameters = 1e6, hyper = { layers = 2, hidden = 256, heads = 4, vocab = 1000 } }]])
    local words = "--cluster dgx_h100 seq=128 micro_batches=2 layers=3 "
    local output, status = command.ett(folder, "predict --model plain.lua hidden=256 heads=4 vocab=1000 " .. words)
    assert.same({ 0, "plain" }, { status, output:match "^%S+" })
    output, status = command.ett(folder, "predict --model ./small.lua " .. words)
    assert.same({ 0, "small with layers=3" }, { status, output:match "^(.-) %(" })
    command.write(folder, "wrong.lua", [[return { name = "small", summary = "s", source = "s", architecture = "llama",
      parameters = 1e6, hyper = { layers = 2, hiden = 256, heads = 4, vocab = 1000 } }]])
    output, status = command.ett(folder, "predict --model wrong.lua " .. words)
    assert.same({ 1, "ett: wrong.lua: llama: unknown field 'hiden'" }, { status, output:match "^[^;]*" })
    command.write(folder, "wrong.lua", [[return { name = "small", summary = "s", source = "s", architecture = "lama",
      parameters = 1e6, hyper = { layers = 2, hidden = 256, heads = 4, vocab = 1000 } }]])
    output, status = command.ett(folder, "predict --model wrong.lua " .. words)
    assert.same({ 1, "ett: wrong.lua: unknown architecture 'lama'; did you mean 'llama'?\n" }, { status, output })
    output, status = command.ett(folder, "predict --model none.lua " .. words)
    assert.same({ 1, "ett: cannot read 'none.lua': no such file or directory\n" }, { status, output })
  end)
end)

describe("defaults of hyper-parameters", function()
  it("are constants of an architecture that do not depend on the width", function()
    local defaults = model_module.defaults "llama"
    assert.same({ "rms_norm", "rope", true }, { defaults.norm, defaults.position, defaults.gated_mlp })
    assert.is_nil(defaults.ffn)
    assert.is_nil(defaults.layers)
    assert.equal("rms_norm", model_module.defaults("mixtral").norm)
  end)

  it("are found for an architecture with required fields", function()
    local command = require "command"
    local folder = command.folder()
    command.write(folder, "needs_fields.lua", [[return {
      schema = { wide = { "count", help = "width of a side path" }, kind = { "string", one_of = { "a", "b" } } },
      build = function(hyper)
        hyper.norm, hyper.ffn = hyper.norm or "rms_norm", hyper.ffn or 3 * hyper.wide
        return { layers = { { name = "x", ops = { hyper.norm } } } }
      end }]])
    command.write(folder, "cannot.lua", "return function(hyper) return { layers = { {} } } end")
    find.set_folders { folder }
    local defaults = model_module.defaults "needs_fields"
    local none, why = model_module.defaults "cannot"
    find.set_folders(nil)
    command.remove(folder)
    assert.equal("rms_norm", defaults.norm)
    assert.is_nil(defaults.wide)
    assert.same({}, none)
    assert.matches("missing field 'name'", why)
  end)

  it("are a preset's values", function()
    assert.same({ 8192, "rms_norm", 28672 }, { model_module.defaults("llama3-70b").hidden,
      model_module.defaults("llama3-70b").norm, model_module.defaults("llama3-70b").ffn })
  end)
end)

describe("an encoder_function_list among the hyper-parameters", function()
  local names = { "layer_norm", "linear_qkv", "flash_attention", "linear_proj", "residual_add", "linear_up", "swiglu",
    "linear_down", "residual_add" }
  local hyper = { layers = 4, hidden = 1024, heads = 8, vocab = 1024, ffn = 4096 }

  local function with(more) return merged(hyper, more) end

  it("defines the repeated layer, with its norm and its gate", function()
    local built = model_module.new("llama", with { encoder_function_list = names })
    local seen = {}
    for _, entry in ipairs(built.layers[2].ops) do seen[#seen + 1] = entry.op end
    assert.same(names, seen)
    assert.same({ 4, "layer_norm", true }, { built.layers[2].count, built.hyper.norm, built.hyper.gated_mlp })
    -- Four layers: qkv and projection 4 h^2, three matrices of the MLP; norms have gain and bias; embedding and head.
    local h, f = 1024, 4096
    assert.equal(4 * (4 * h * h + 3 * h * f + 2 * h) + 2 * 1024 * h + 2 * h, architecture.parameters(built))
  end)

  it("without a gated operator has no gate, whatever the architecture", function()
    local plain = model_module.new("llama", with { encoder_function_list = { "linear_up", "gelu", "linear_down" } })
    assert.equal(4 * 2 * 1024 * 4096 + 2 * 1024 * 1024 + 1024, architecture.parameters(plain))
  end)

  it("keeps the architecture's other parts: GPT-2's positions and tied head", function()
    local whole = model_module.new("gpt2")
    local listed = model_module.new("gpt2", { encoder_function_list = { "layer_norm", "linear_qkv", "flash_attention",
      "linear_proj", "residual_add", "layer_norm", "linear_up", "gelu", "linear_down", "residual_add" } })
    assert.equal(architecture.parameters(whole), architecture.parameters(listed))
  end)

  it("is refused where it is empty, unknown or contradicts", function()
    assert.matches("encoder_function_list: entry 1: unknown operator 'geluu'; did you mean 'gelu'",
      raised(model_module.new, "llama", with { encoder_function_list = { "geluu" } }), 1, true)
    assert.matches("encoder_function_list must be a non-empty list",
      raised(model_module.new, "llama", with { encoder_function_list = {} }), 1, true)
    assert.matches("'swiglu' is gated, which contradicts activation = 'gelu'",
      raised(model_module.new, "llama", with { encoder_function_list = names, activation = "gelu" }), 1, true)
  end)
end)
