-- Bad input gives one line that names file, field, value and valid values; exit status 1, or 2 if the
-- command line itself is wrong; no traceback; no files remain.
local refusal = require "refusal"
local refused, run, write = refusal.refused, refusal.run, refusal.write

local config = [[
gpu_name: NVIDIAA100-SXM4-80GB
operator_data_folder: ./regressors/Perlmutter/operator
nccl_data_folder: ./regressors/Perlmutter/nccl
training_config: [4, 2, 2, 4, 32, 4096, 4096, 8, 4]
comm_bucket: 1260000000
encoders: 32
function_list: [embedding, RMSlayernorm, linear1, RoPE, flash_atten, linear2, linear3, gelu, linear4, linear_final,
  parallel_cross_entropy_128, res_add]
encoder_function_list: [RMSlayernorm, linear1, RoPE, flash_atten, linear2, RMSlayernorm, res_add, linear3, gelu,
  linear4, res_add]
layernorm_name: RMSlayernorm
fwd_syncs: 2
bwd_syncs: 2
]]

local function changed(from, to)
  local start, stop = config:find(from, 1, true)
  assert(start, from)
  return config:sub(1, start - 1) .. to .. config:sub(stop + 1)
end

describe("a configuration", function()
  for name, case in pairs {
    ["with a missing key"] = { changed("fwd_syncs: 2\n", ""),
      "c.yml: missing field 'fwd_syncs' (an integer of at least 0)" },
    ["with an unknown key"] = { changed("encoders", "encoder"),
      "^c.yml: unknown field 'encoder'; did you mean 'encoders'%?" },
    ["with a bucket of 0"] = { changed("1260000000", "0"),
      "c.yml: field 'comm_bucket' must be a positive integer, got 0" },
    ["with a string for a number"] = { changed("1260000000", "'many'"),
      "c.yml: field 'comm_bucket' must be a positive integer, got 'many'" },
    ["with null for a number"] = { changed("1260000000", "~"),
      "c.yml: field 'comm_bucket' must be a positive integer, got null" },
    ["with an unknown operator"] = { changed("[embedding, RMSlayernorm,", "[embedding, RMSlayernrm,"),
      "^c.yml: field 'function_list.*'RMSlayernrm'.*did you mean 'RMSlayernorm'%?" },
    ["with a size of zero"] = { changed("4096, 4096, 8, 4]", "0, 4096, 8, 4]"),
      "^c.yml: field 'training_config%[6%]'.* got 0" },
    ["with a negative size"] = { changed("[4, 2, 2", "[4, -2, 2"), "^c.yml: field 'training_config%[2%]'.* got %-2" },
    ["with too few numbers"] = { changed(", 8, 4]", ", 8]"), "^c.yml: field 'training_config' must hold 9 numbers" },
    ["with a key twice"] = { config .. "encoders: 3\n", "c.yml: line 14: key 'encoders' appears twice" },
    ["that is not YAML"] = { changed("8, 4]", "8, 4"),
      "^c.yml: line %d+: column %d+: did not find expected ',' or '%]'" },
    ["that is not UTF-8"] = { changed("encoders", "enc\xFFders"), "^c.yml: line 6: not UTF%-8 at byte %d+ %(0xff%)" },
    ["that is a list"] = { "[1, 2]", "^c.yml: " },
    ["that is a number"] = { "12", "^c.yml: " },
    ["that is empty"] = { "", "c.yml: holds no value (empty, or comments only)" },
    ["of two documents"] = { config .. "---\na: 1\n", "c.yml: line 14: expected one document, found a second" },
    ["that nests without end"] = { ("["):rep(100000), "c.yml: line 1: nested deeper than 64 levels" },
  } do
    it(name, function()
      write("c.yml", case[1])
      refused("predict --config c.yml --composition reference", case[2])
      refused("predict --config c.yml", case[2])
    end)
  end

  it("that is missing or a folder is refused", function()
    refused("predict --config nothing.yml", "cannot read 'nothing.yml': no such file or directory")
    refused("predict --config .", "cannot read '.': is a directory")
  end)
end)

describe("the command line", function()
  local llama = "predict --model llama hidden=4096 layers=32 heads=32 vocab=32000 seq=4096 "
  for words, case in pairs {
    ["predct"] = { "unknown command 'predct'; did you mean 'predict'?; `ett --help` lists them", 2 },
    ["version"] = { "unknown command 'version'; did you mean '--version'?; `ett --help` lists them", 2 },
    ["predict"] = { "^predict: needs %-%-model", 2 },
    ["predict --modl x"] = { "predict: unknown option '--modl'; did you mean '--model'?", 2 },
    ["predict --model"] = { "predict: option '--model' requires an argument", 2 },
    ["predict --model lama"] = { "unknown model 'lama'; did you mean 'llama'?", 2 },
    ["predict --model llama"] = { "^llama: missing field 'heads'.*missing field 'hidden'.*missing field 'layers'", 1 },
    [llama .. "--cluster perlmuter"] = { "unknown cluster 'perlmuter'; did you mean 'perlmutter'?", 2 },
    [llama .. "--cluster nothing.lua"] = { "^.*nothing.lua", 1 },
    [llama .. "hiden=3"] = { "predict: unknown field 'hiden'; did you mean 'hidden'?", 2 },
    [llama .. "pp=0"] = { "^.*'pp' must be a positive integer, got 0", 2 },
    [llama .. "pp=x"] = { "^.*'pp' must be a positive integer, got 'x'", 2 },
    [llama .. "tp=5 pp=5 global_batch=7 dp=2"] = { "^.*tp.*", 1 },
    [llama .. "dtype=fp17"] = { "^.*'dtype' must be one of .*'fp17'", 2 },
    [llama .. "schedule=1f1c"] = { "^.*'1f1c'.*did you mean '1f1b'", 2 },
    [llama .. "nonsense"] = { "predict: expected NAME=VALUE, got 'nonsense'; see `ett predict --help`", 2 },
    ["run nothing.lua"] = { "cannot read 'nothing.lua': no such file", 1 },
    ["cluster add-curve x.lua x.txt --out x"] = { "cluster: --out has no effect on add-curve", 2 },
    ["submit cpu_30s --time 10"] = { "submit: unknown option '--time'; did you mean '--minutes'?", 2 },
    [llama .. "--cluster x.json"] = { "unknown cluster 'x.json'; `ett list clusters` names them all", 2 },
    ["cluster init x --tier x"] = { "cluster: --tier has no effect on init", 2 },
    ["bench nonsense"] = { "^bench: unknown benchmark 'nonsense'; known are active, ", 2 },
  } do
    it("ett " .. words, function() refused(words, case[1], case[2]) end)
  end

  it("reports every violation of a plan at once, with values that would pass", function()
    local _, _, err = run(llama .. "tp=5 pp=3 cp=7")
    for _, name in ipairs { "tp", "cp" } do assert.matches(name .. " ?%d? ?", err) end
    assert.matches("heads", err)
  end)
end)

describe("an architecture of one's own", function()
  local words = "layers=2 hidden=512 heads=8 vocab=1000 seq=512 micro_batches=1 "
  local mine = [[
local blocks = require "ett.model.blocks"
return { schema = { attention_every = { "count", default = 2, help = "layers from one attention to the next" } },
  build = function(h)
    return blocks.decoder(h, { name = "block", count = h.layers // h.attention_every, ops = { "gelu" } })
  end }
]]

  it("has its declared fields on every command line and in --help", function()
    write("mine.lua", mine)
    for _, command in ipairs { "predict --quiet", "sweep --quiet tp=1,2" } do
      local seconds = {}
      for i, every in ipairs { 1, 2 } do
        local code, out, err = run(("%s --path . --model mine %s attention_every=%d"):format(command, words, every))
        assert.equal(0, code, err)
        seconds[i] = tonumber(out)
      end
      assert.is_true(seconds[1] > seconds[2])
      refused(("%s --path . --model mine %s attention_evry=1"):format(command, words),
        ("%s: unknown field 'attention_evry'; did you mean 'attention_every'?"):format(command:match("%a+")), 2)
    end
    for _, command in ipairs { "predict", "sweep" } do
      assert.matches("attention_every +layers from one attention to the next %(default 2%)",
        select(2, run(command .. " --path . --model mine --help")), nil)
    end
  end)
end)

describe("a user's cluster, model or profile", function()
  local llama = "predict --model llama hidden=4096 layers=32 heads=32 vocab=32000 seq=4096 "
  it("with a fault in the file is refused", function()
    write("mine.lua", "return { name = 'mine',")
    refused(llama .. "--cluster mine.lua", "^.*mine.lua:1: .*")
    write("mine.lua", "x = 1 return {}")
    refused(llama .. "--cluster mine.lua", "^.*mine.lua.*undeclared global 'x'")
    write("mine.lua", "local function f() x = 1 end\nf() return {}")
    refused(llama .. "--cluster mine.lua", "^.*mine.lua:1: assignment to undeclared global 'x'")
    write("mine.lua", "return 3")
    refused(llama .. "--cluster mine.lua", "^.*mine.lua")
    write("mine.lua", [[return { name = "mine", summary = "s", source = "s", gpus_per_node = 1,
      links = { intra = { bandwidth = 1e9, source = "s" } },
      device = { name = "d", source = "s", peak_flops = {}, memory_bytes = 1e9, memory_bandwidth = 1e9 } }]])
    refused(llama .. "--cluster mine.lua", "mine.lua: device: field 'peak_flops' is empty")
    write("mine.lua", [[return { name = "mine", backend = "cpuu", samples = { { operator = "gelu",
      shapes = { tokens = 16, width = 16 } } } }]])
    refused("sample mine.lua --out .",
      "mine.lua: unknown back end 'cpuu'; did you mean 'cpu'?; known are cpu, cuda, mpi, nccl, torch")
    write("mine.lua", 'return { name = "mine", summary = "s", source = "s", communication_share = 1 }')
    refused(llama .. "--path . stack=mine micro_batches=1",
      "plan: mine.lua: field 'communication_share' must be at most 0.99, got 1")
  end)

  it("whose Hugging Face config is not valid is refused", function()
    write("config.json", '{"hidden_size": 4096,')
    refused("predict --model config.json seq=4096",
      "^config.json:1:22: expected object key string ")
    write("config.json", '{"hidden_size": "many", "num_hidden_layers": 2, "num_attention_heads": 2}')
    refused("predict --model config.json seq=4096", "^config.json: ")
    write("config.json", '{"model_type": "llama", "hidden_size": "4096", "num_hidden_layers": 2, "n_head": 2}')
    refused("predict --model config.json seq=4096",
      "^config.json: field 'hidden_size' must be a number, got '4096'; missing field 'vocab_size'")
  end)

  it("whose timings are not valid is refused", function()
    write("c.yml", config)
    write("t.json", "[1, 2")
    refused("predict --config c.yml --composition reference --timings t.json", "^t.json:1:6: ")
  end)
end)

teardown(refusal.clean)
