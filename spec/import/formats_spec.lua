-- Files given to an option that does not read them.
local command = require "command"
local error_module = require "ett.base.error"
local formats = require "ett.import.formats"

-- Shortest files of each kind, and the option that reads them.
local files = {
  ["config.json"] = { "--model", '{ "model_type": "llama", "hidden_size": 64 }' },
  ["ds.json"] = { "--plan", '{ "train_micro_batch_size_per_gpu": 1, "zero_optimization": { "stage": 2 } }' },
  ["run.toml"] = { "--plan", "[training]\nseq_len = 64\n" },
  ["base.yml"] = { "--plan", "per_device_batch_size: 1\nici_fsdp_parallelism: 8\n" },
  ["maxtext.sh"] = { "--plan", "python3 train.py per_device_batch_size=1 ici_fsdp_parallelism=8\n" },
  ["neox.yml"] = { "--plan", '{ "pipe-parallel-size": 4,\n"zero_optimization": {} }' },
  ["accelerate.yaml"] = { "--plan", "distributed_type: FSDP\n" },
  ["nanotron.yaml"] = { "--plan", "parallelism:\n  dp: 2\ntokens:\n  batch_accumulation_per_replica: 1\n" },
  ["trl.yaml"] = { "--plan", "model_name_or_path: x\nper_device_train_batch_size: 2\n" },
  ["axolotl.yaml"] = { "--plan", "base_model: x\nmicro_batch_size: 2\n" },
  ["nemo.yaml"] = { "--megatron-args", "model:\n  num_layers: 4\n  tensor_model_parallel_size: 2\n" },
  ["recipe.yaml"] = { "--megatron-args", "ARGS:\n  --tensor-model-parallel-size: 2\n" },
  ["primus.yaml"] = { "--megatron-args", "modules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n" },
  ["run.sh"] = { "--megatron-args", "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64\n" },
  ["args.txt"] = { "--megatron-args", "--tensor-model-parallel-size 4\n" },
  ["flags.py"] = { "--megatron-args", 'command = "pretrain_gpt.py --num-layers 4"\n' },
  ["reference.yml"] = { "--config", "encoders: 4\noperator_data_folder: x\n" },
}

local function message(...)
  local ok, why = pcall(...)
  return not ok and tostring(error_module.from(why)) or ""
end

describe("ett.import.formats", function()
  it("accepts a file at its option, and names that option elsewhere", function()
    for name, file in pairs(files) do
      assert.equal(file[1], formats.option(name, file[2]))
      for _, option in ipairs { "--model", "--plan", "--megatron-args", "--config" } do
        local said = message(formats.check, name, file[2], option)
        if option == file[1] then
          assert.equal("", said)
        else
          assert.matches("^this is a .*; `ett predict` reads it with " .. file[1]:gsub("%-", "%%-") .. "$", said)
        end
      end
    end
    local said = message(formats.check, "recipe.py", "cfg.model.tensor_model_parallel_size = 4", "--plan")
    assert.matches("^this is a Python program; ett does not run it: give its fields as words NAME=VALUE", said)
    assert.equal("", message(formats.check, "other.json", "{}", "--model"))
    assert.equal("", message(formats.check, "mine.txt", "", "--plan"))
  end)

  it("is asked by each reader", function()
    local folder = command.folder()
    for name, file in pairs(files) do command.write(folder, name, file[2]) end
    local function path(name) return folder .. "/" .. name end
    local model = require "ett.model"
    assert.matches("run.sh: this is a launch script of Megatron%-LM; `ett predict` reads it with %-%-megatron%-args",
      message(require("ett.import.trainer").read, path "run.sh", model.new "llama3-8b"))
    assert.matches("ds.json: this is a configuration of DeepSpeed; `ett predict` reads it with %-%-plan",
      message(model.huggingface, path "ds.json"))
    assert.matches("run.toml: this is a configuration of torchtitan",
      message(require("ett.import.megatron").read, path "run.toml"))
    assert.matches("nemo.yaml: this is a configuration of NeMo",
      message(require("ett.import.estimate_train_time").read, path "nemo.yaml"))
    assert.matches("^ett: run.toml: this is a configuration of torchtitan; `ett predict` reads it with %-%-plan",
      (command.ett(folder, "predict --model run.toml")))
    command.remove(folder)
  end)

  it("is not asked of a file that has the name of a model or an architecture", function()
    local folder = command.folder()
    for _, name in ipairs { "llama3-8b", "gpt", "my-model" } do command.write(folder, name, files["run.sh"][2]) end
    for _, name in ipairs { "llama3-8b", "gpt layers=2 hidden=64 heads=2 vocab=128" } do
      assert.equal("ett: plan: missing field 'seq' (a positive integer)\n",
        (command.ett(folder, "predict micro_batches=1 --model " .. name)))
    end
    assert.matches("^ett: my%-model: this is a launch script of Megatron%-LM",
      (command.ett(folder, "predict --model my-model")))
    command.remove(folder)
  end)
end)
