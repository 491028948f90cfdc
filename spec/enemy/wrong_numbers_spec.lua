--- Values that earlier versions answered: each is refused with the sentence given here.
local refusal = require "refusal"
local folders = require "ett.base.folder"
local refused, write = refusal.refused, refusal.write

local plan = " hidden=1024 layers=4 heads=8 vocab=1000 seq=128 micro_batches=4"
local llama = "predict --model llama" .. plan

teardown(refusal.clean)

describe("ranges of the ledger's commands", function()
  local run = "transformer --num_layers 2 --d_model 1024 --dataset_size "
  local simple = "simple-transformer --n_layers 2 --d_model 64 "
  for words, sentence in pairs {
    [run .. "-1"] = "transformer: option '--dataset_size' must be a number above 0, got '-1'",
    [run .. "10"] = "transformer: option '--dataset_size' must be at least one batch, batch_size * seq_len = 4194304 "
      .. "tokens, got 10",
    [run .. "1e9 --utilization 5"] = "transformer: option '--utilization' must be at most 1, got '5'",
    [run .. "1e9 --optimizer_bytes -100"] = "transformer: option '--optimizer_bytes' must be at least 0, got '-100'",
    [run .. "1e9 --overlap 9"] = "transformer: option '--overlap' must be at most 1, got '9'",
    [simple .. "--dataset_size -5"] = "simple-transformer: option '--dataset_size' must be a number above 0, got '-5'",
    [simple .. "--dataset_size 10"] = "simple-transformer: option '--dataset_size' must be at least one batch, "
      .. "batch_size * seq_len = 4194304 tokens, got 10",
    [simple .. "--base_utilization 50"] =
      "simple-transformer: option '--base_utilization' must be at most 1, got '50'",
    ["optimize --gap -1"] = "optimize: option '--gap' must be at least 0, got '-1'",
    ["optimize --utilization 50"] = "optimize: option '--utilization' must be at most 1, got '50'",
  } do
    it(words, function() refused(words, sentence, 2) end)
  end
end)

describe("names and numbers of a model or plan", function()
  local function config(more)
    write("config.json", '{"model_type":"llama","hidden_size":1024,"num_hidden_layers":4,"num_attention_heads":8,'
      .. '"intermediate_size":4096,"vocab_size":1000,' .. more .. "}")
  end

  it("an activation that no model has", function()
    config '"hidden_act":"silo"'
    refused("predict --model config.json seq=128 micro_batches=4",
      "config.json: field 'hidden_act': unknown activation 'silo'; did you mean 'silu'?")
  end)

  it("a list of operators in a configuration that has none", function()
    config '"encoder_function_list":["rms_norm","gelu"]'
    refused("predict --model config.json seq=128 micro_batches=4", "config.json: field 'encoder_function_list' goes "
      .. "into ett.model.list of a script, or a YAML file of --config")
    refused(llama .. " encoder_function_list=gelu", "predict: unknown field 'encoder_function_list'", 2)
  end)

  it("chunks under a schedule of one chunk", function()
    refused(llama .. " schedule=zb_h1 vp=2 pp=2", "plan: vp = 2 needs schedule = 'interleaved', got 'zb_h1'")
  end)

  it("swiglu in a list of operators implies the gate, or contradicts it", function()
    local model = require "ett.model"
    local parameters = require("ett.model.architecture").parameters
    local function count(gated, activation)
      return parameters(model.list({ "linear_qkv", "linear_proj", "linear_up", "swiglu", "linear_down" },
        { layers = 4, hidden = 1024, heads = 8, vocab = 1000, ffn = 4096, gated_mlp = gated, activation = activation }))
    end
    -- Vaswani's block with a gate: qkv 3 h^2, projection h^2, up 2 h f, down h f; embedding and head of 1024 rows.
    local h, f = 1024, 4096
    local weights = 4 * (4 * h * h + 3 * h * f)
    local found = count(nil)
    assert.is_true(found >= weights + 2 * 1000 * h and found < weights + 2 * 1024 * h + 64 * h, found)
    assert.equal(found, count(true))
    assert.equal(found, count(nil, "swiglu"))
    assert.has_error(function() count(false) end)
    assert.has_error(function() count(nil, "gelu") end)
  end)
end)

describe("words of trace, calibrate and sample", function()
  it("a card, a trace or a tolerance that cannot be", function()
    write("tr/rank0.json", '{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2,'
      .. '"args":{"stream":7,"device":0}}]}')
    refused("trace tr device_time --card missing", "trace: --card: cannot read 'missing': no such file")
    refused("trace --all tr missing", "trace: cannot read 'missing': no such file, folder or metric")
    refused("trace tr device_time --tolerance-us -1", "trace: option '--tolerance-us' must be at least 0, got '-1'", 2)
    folders.remove(refusal.folder .. "/tr")
  end)

  it("picture with words, a date that is none, a time that is none", function()
    refused("picture x", "picture: takes no arguments, got 'x'", 2)
    refused("calibrate dgx_a100 . --source x --date foo", "calibrate: option '--date' must be YYYY-MM-DD, got 'foo'", 2)
    if not pcall(require, "ett.sample") then return end
    write("c.lua", 'return { name = "c", samples = { { operator = "gelu", shapes = { tokens = 1, width = 8 } } } }')
    local command = require "command"
    for _, text in ipairs { "abc", "-1", "0", "inf" } do
      local output, status = command.ett(refusal.folder, "sample c.lua", "ETT_KERNEL_SECONDS=" .. text)
      assert.equal(2, status)
      assert.equal(("ett: ETT_KERNEL_SECONDS must be a number of seconds above 0 and at most 86400, got '%s'\n"):format(
        text), output)
    end
  end)
end)
