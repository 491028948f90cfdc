--- `ett predict --composition reference` as its users run it: YAML in, recorded times in, JSON out.
local command = require "command"
local host = require "ett.host"
local json = require "ett.json"

local folder = (os.getenv("ETT_REFERENCE") or "../shared/reference") .. "/estimate-train-time"

local function run(arguments) return command.shell(("%s/bin/ett %s"):format(host.prefix, arguments)) end

local function temporary(text) return require("ett.base.folder").write(os.tmpname(), text) end

describe("a prediction in a new process", function()
  it("loads no module that it does not use", function()
    local path = temporary(([[
      local loaded = package.loaded
      require("ett.cli.main") { "run", %q, "--quiet" }
      assert(loaded["ett.step.estimate"] and loaded["ett.profile.coefficients"])
      for _, name in ipairs { "argparse", "ett.operator.doubles", "ett.profile.cache", "ett.profile.fit",
        "ett.profile.kernels.attention", "ett.profile.kernels.attention_training", "ett.profile.kernels.gemm",
        "ett.profile.kernels.transfer", "ett.report.table", "ett.step.variation",
        "ett.import.estimate_train_time.campaign" } do
        if loaded[name] then print(name) end
      end]]):format(host.root .. "/examples/llemma_7b.lua"))
    local text = run(("run %s --quiet"):format(path))
    os.remove(path)
    assert.equal("", text)
  end)
end)

describe("ett predict --composition reference", function()
  if not require("lfs").attributes(folder .. "/golden.json") then
    pending("skipped: the recorded runs are not at " .. folder)
    return
  end
  local configs = json.read(folder .. "/golden.json").configs

  it("reads the tool's own YAML and prints the recorded run's keys", function()
    for _, name in ipairs { "llemma_7b_4_2_2_P", "llemma_7b_4_2_2_V" } do
      local timings = temporary(json.encode(configs[name].model_calls))
      local text, status = run(("predict --config %s/examples/%s.yml --composition reference --timings %s --json")
        :format(folder, name, timings))
      os.remove(timings)
      assert.equal(0, status, text)
      local result = json.decode(text)
      assert.is_true(math.abs(result.total_us / configs[name].total_us - 1) < 1e-12)
      assert.same(configs[name].layers_head_middle_tail, result.layers_head_middle_tail)
      assert.same(configs[name].parameters, result.parameters)
    end
  end)

  it("has the stack of GPT-NeoX in the other composition, unless a word says another", function()
    local given = ("predict --config %s/examples/llemma_7b_4_2_2_P.yml --cluster dgx_a100"):format(folder)
    assert.matches(", stack gpt_neox\n", (run(given)), 1, true)
    assert.matches(", stack plain\n", (run(given .. " stack=plain")), 1, true)
  end)

  it("every crashing configuration gets one sentence and exit 1, or works", function()
    local works = { ["x_bucket_string_1.26e9"] = true }
    for name, run_of in pairs(configs) do
      if name:match("^x_") and not works[name] then
        local config = temporary(json.encode(run_of.config)) -- JSON is YAML
        local timings = temporary(json.encode(run_of.model_calls))
        local text, status = run(("predict --config %s --composition reference --timings %s"):format(config, timings))
        os.remove(config)
        os.remove(timings)
        assert.equal(1, status, name .. ": " .. text)
        assert.matches("^ett: [^\n]+\n$", text, name)
        assert.is_nil(text:find("stack traceback", 1, true), name)
      end
    end
  end)

  it("requires --config", function()
    local text, status = run "predict --composition reference"
    assert.equal("ett: predict: --composition reference needs --config FILE.yml\n", text)
    assert.equal(2, status)
  end)
end)
