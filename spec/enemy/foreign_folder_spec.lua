--- A downloaded folder holds Lua files. Work in that folder must not run them; `--path` must.
local command = require "command"
local ended = command.ended
local folders = require "ett.base.folder"

local llama = "llama hidden=1024 layers=4 heads=8 vocab=1000 seq=128 micro_batches=4"

describe("Lua files of the current folder", function()
  local folder
  setup(function()
    folder = command.folder()
    local trap = 'os.execute("touch ' .. folder .. '/ran") '
    for path, text in pairs {
      ["lua/ett/trace/communication/zz.lua"] = 'return { name = "zz", patterns = { "^zz" } }',
      ["operators/zzz.lua"] = 'return { name = "zzz", summary = "zzz", aliases = { "zz" } }',
      ["zzz.lua"] = 'return { name = "zzz" }', ["gelu.lua"] = 'return { name = "gelu" }',
      ["lua/architectures/zzz.lua"] = "return {}", ["clusters/zzz.lua"] = "return {}",
      ["lua/ett/metrics/zzz.lua"] = "return {}", ["lua/schedules/zzz.lua"] = "return {}",
      ["lua/ett/base/find.lua"] = "return {}", ["samplers/zzz/init.lua"] = "return {}",
      ["clusters/devices/zzz/init.lua"] = "return {}", ["samplers/campaigns/zzz.lua"] = "return {}",
      ["lua/ett/import/zzz/init.lua"] = "return {}",
    } do
      folders.make((folder .. "/" .. path):match("^(.*)/"))
      folders.write(folder .. "/" .. path, trap .. text)
    end
    folders.write(folder .. "/trace.json", '{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,'
      .. '"ts":1,"dur":2,"args":{"stream":7,"device":0}}]}')
    folders.write(folder .. "/c.yml", [[
gpu_name: NVIDIAA100-SXM4-80GB
operator_data_folder: ./regressors/Perlmutter/operator
nccl_data_folder: ./regressors/Perlmutter/nccl
training_config: [4, 2, 2, 4, 32, 4096, 4096, 8, 4]
comm_bucket: 1260000000
encoders: 32
function_list: [embedding, RMSlayernorm, linear1, zzz, linear4, linear_final, parallel_cross_entropy_128, res_add]
encoder_function_list: [RMSlayernorm, linear1, zzz, linear4, res_add]
layernorm_name: RMSlayernorm
fwd_syncs: 2
bwd_syncs: 2
]])
  end)
  teardown(function() command.remove(folder) end)

  local function untouched(arguments)
    local output, status = command.ett(folder, arguments, "unset ETT_PATH; timeout 300")
    assert.is_nil(command.read(folder, "ran"), arguments .. " ran a file of the folder:\n" .. output)
    return output, status
  end

  it("are not run by commands that find files by name", function()
    for _, arguments in ipairs { "trace . device_time", "trace --list-metrics", "trace . zzz", "predict --config c.yml",
      "predict --model zzz", "predict --cluster zzz --model " .. llama, "predict --help --model zzz",
      "predict schedule=zzz --model " .. llama, "sweep tp=1,2 --model " .. llama, "list", "list operators",
      "list architectures", "list clusters", "list metrics --json", "list schedules", "list devices",
      "list campaigns", "sample zzz", "fit .", "calibrate zzz . --source x", "compare --model zzz --cluster zzz" } do
      untouched(arguments)
    end
  end)

  it("are not named by messages", function()
    local output, status = untouched "predict --model zzz"
    assert.equal("ett: unknown model 'zzz'; `ett list models` and `ett list architectures` name them all\n", output)
    assert.equal(2, status)
  end)

  it("are not found by the prompt or by a script of another folder", function()
    command.remove(folder .. "/ran")
    ended(0, command.shell(("cd '%s' && echo 'return ett.operator.list()' | timeout 300 '%s/bin/ett' repl")
      :format(folder, require("ett.host").prefix)))
    assert.is_nil(command.read(folder, "ran"))
    local elsewhere = command.folder()
    command.write(elsewhere, "s.lua", 'return #require("ett").operator.list()')
    untouched("run " .. elsewhere .. "/s.lua")
    command.remove(elsewhere)
  end)

  it("are run when --path names the folder", function()
    command.ett(folder, "list operators --path .")
    assert.is_truthy(command.read(folder, "ran"))
    os.remove(folder .. "/ran")
  end)

  it("are not run by a pattern that names all files of a folder", function()
    local own = command.folder()
    folders.write(own .. "/zz.lua", "error 'was run'")
    folders.write(own .. "/a.json", "{}")
    for _, words in ipairs { "trace %s/*", "trace --all %s/*", "trace %s/zz.lua", "trace --diff %s/*" } do
      local output, status = command.ett(folder, words:format(own))
      assert.same({ ("ett: trace: '%s/zz.lua' is a Lua file, not a trace; --metric %s/zz.lua uses it as a metric\n")
        :format(own, own), 2 }, { output, status }, words)
    end
    assert.matches("was run", (command.ett(folder, ("trace %s --metric %s/zz.lua"):format(own, own))))
    command.remove(own)
  end)

  it("--path finds an operator, a metric and an architecture of the user", function()
    local own = command.folder()
    folders.make(own .. "/lua/ett/metrics")
    folders.write(own .. "/lua/ett/metrics/rows.lua", 'return { name = "rows", summary = "rows", definition = "rows", '
      .. 'needs = "rows", units = { rows = "" }, compute = function() return { rows = 42 } end }')
    folders.write(own .. "/flat.lua", 'local blocks = require "ett.model.blocks"\n'
      .. "return function(h) return blocks.decoder(h, table.unpack(blocks.dense_layers(h))) end")
    local output, status = command.ett(folder, "trace trace.json rows --json --path " .. own)
    assert.equal("0 42", status .. " " .. tostring(output:match('"rows": (%d+)')), output)
    ended(0, command.ett(own, "predict --quiet --path . --model " .. llama:gsub("^llama", "flat")))
    command.remove(own)
    output, status = command.ett(folder, "list operators --path " .. own)
    assert.equal(("ett: --path: '%s' is not a folder\n"):format(own), output)
    assert.equal(2, status)
  end)

  it("replace no module of ett, nor its libraries, even where --path, ETT_PATH or the script's folder has one of the "
    .. "name", function()
    local own = command.folder()
    for _, path in ipairs { "ett/step", "lua/ett/step" } do
      folders.make(own .. "/" .. path)
      folders.write(own .. "/" .. path .. "/estimate.lua", 'error("replaced", 0)')
    end
    for _, name in ipairs { "argparse", "cjson", "lfs" } do
      command.write(own, name .. ".lua", 'error("replaced", 0)')
    end
    command.write(own, "config.json", '{"model_type":"llama","hidden_size":256,"num_hidden_layers":2,'
      .. '"num_attention_heads":4,"intermediate_size":512,"vocab_size":1000}')
    command.write(own, "s.lua", 'return require("ett.step.estimate") and require("ett.json").decode "[1]"[1]')
    for _, arguments in ipairs { "predict --quiet --path . --model " .. llama, "run s.lua", "run s.lua --sandbox",
      "predict --quiet --path . --model config.json seq=128 micro_batches=4", "list models --quiet" } do
      for _, before in ipairs { "timeout 300", "ETT_PATH=" .. own } do -- a process that has loaded no module
        ended(0, command.ett(own, arguments, before))
      end
    end
    command.remove(own)
  end)
end)
