--- Which program's configuration a file is, and the option of `ett predict` that reads it: for launch scripts given to
--- --plan, and for messages about a file that was given to another option.
local accelerate = require "ett.import.trainer.accelerate"
local error_module = require "ett.base.error"
local nanotron = require "ett.import.trainer.nanotron"
local neox = require "ett.import.trainer.neox"
local overrides = require "ett.import.trainer.overrides"
local transformers = require "ett.import.trainer.transformers"

local formats = {}

-- Whether a text contains one of the words.
local function has(text, words)
  for word in words:gmatch "%S+" do
    if text:find(word, 1, true) then return true end
  end
  return false
end

-- Each kind: its name, its option, whether a file is of this kind, and the advice if no option reads it. Only words
-- that other kinds never hold decide.
local kinds = {
  { "a Hugging Face configuration", "--model", function(path, text)
    return path:find "%.json$" and text:find '"model_type"' and text:find '"hidden_size"'
  end },
  { "a configuration of DeepSpeed", "--plan", function(path, text)
    return path:find "%.json$" and has(text, '"zero_optimization" "train_batch_size" "train_micro_batch_size_per_gpu"')
  end },
  { "a configuration of torchtitan", "--plan", function(path) return path:find "%.toml$" end },
  { "a configuration of estimate-train-time", "--config", function(path, text)
    return path:find "%.ya?ml$" and text:find "\noperator_data_folder:"
  end },
  { "a configuration of NeMo, Megatron-Bridge or Primus", "--megatron-args", function(path, text)
    return path:find "%.ya?ml$" and (text:find "\n%s+%-*tensor[_-]model[_-]parallel[_-]size:"
      or text:find "\n%s+overrides:" and text:find "\n%s+framework:")
  end },
  { "a launch script of Megatron-LM", "--megatron-args", function(path, text)
    return not path:find "%.%w*ml$" and not path:find "%.json$"
      and has(text, "--num-layers --tensor-model-parallel-size")
  end },
  { "a script or configuration of MaxText", "--plan", function(path, text)
    return not path:find "%.json$" and overrides.known(text)
  end },
  { "a configuration of GPT-NeoX", "--plan", function(path, text)
    return path:find "%.ya?ml$" and neox.known(text)
  end },
  { "a configuration of Accelerate", "--plan", function(path, text)
    return path:find "%.ya?ml$" and accelerate.known(text)
  end },
  { "a configuration of nanotron", "--plan", function(path, text)
    return path:find "%.ya?ml$" and nanotron.known(text)
  end },
  { "a configuration of Transformers or Axolotl", "--plan", function(path, text)
    return path:find "%.ya?ml$" and transformers.known(text)
  end },
  { "a Python program", nil, function(path) return path:find "%.py$" end,
    "ett does not run it: give its fields as words NAME=VALUE, or a YAML file or a launch script" },
}

-- The kind of a file: its name, its option and the advice; nil if no words decide.
local function kind_of(path, text)
  for _, kind in ipairs(kinds) do
    local name, option, is, advice = table.unpack(kind, 1, 4)
    if is(path, text) then return name, option, advice end
  end
end

--- The option of `ett predict` that reads a file; nil if its words do not decide.
function formats.option(path, text) return (select(2, kind_of(path, text))) end

--- Raises for an empty file, and for one that is not text. MaxText's scripts may have comments in any encoding.
function formats.check_text(text)
  if not text:find "%S" then error_module.raise("format", "the file is empty") end
  if not (utf8.len(text) or overrides.known(text)) then
    error_module.raise("format", "the file is not text in UTF-8")
  end
end

--- Raises if a file is of a kind that another option reads.
---@param path string
---@param text string its content
---@param option string the option to which it was given
function formats.check(path, text, option)
  local name, own, advice = kind_of(path, text)
  if not name or own == option then return end
  error_module.raise("format", "this is %s; %s", name, own and ("`ett predict` reads it with %s"):format(own) or advice)
end

return formats
