--- Models: an architecture with its hyper-parameters.
--
--   model.new("llama", { layers = 32, hidden = 4096, heads = 32, vocab = 32000 })
--   model.huggingface "config.json"
--   model.list({ "rms_norm", "linear_qkv", … }, { layers = 32, … })    -- plain operator names
local architecture = require "ett.model.architecture"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local list = require "ett.model.list"
local operator = require "ett.operator"
local schema = require "ett.base.schema"

local model = {}

--- A model of an architecture found by name, or of a function.
function model.new(name, hyper) return architecture.new(name, hyper) end

-- Hyper-parameters with gated_mlp where an operator of the list is gated, as swiglu is.
local function with_gate(names, hyper)
  for _, name in ipairs(type(names) == "table" and names or {}) do
    if operator.exists(name) and operator.get(name).gated then
      if hyper.gated_mlp == false or hyper.activation == "gelu" then
        error_module.raise("model", "encoder_function_list: '%s' is gated, which contradicts %s", name,
          hyper.activation == "gelu" and "activation = 'gelu'" or "gated_mlp = false")
      end
      local copy = { gated_mlp = true }
      for field, value in pairs(hyper) do copy[field] = value end
      return copy
    end
  end
  return hyper
end

--- A model whose repeated layer is a list of operator names (an encoder_function_list).
--- Embedding, final norm, head and loss are added. Collectives enclose each tensor-parallel region.
function model.list(names, hyper)
  hyper = with_gate(names, schema.argument(hyper, "table", "ett.model.list", "hyper"))
  local built = architecture.new(function(clean) return list(names, clean) end, hyper)
  built.name = "encoder_function_list"
  return built
end

--- A model from a Hugging Face config.json. model.notes lists the settings that are ignored.
---@param path string
function model.huggingface(path)
  schema.argument(path, "string", "ett.model.huggingface", "path")
  local config, err = require("ett.json").read(path)
  if config == nil then error(error_module.from(err), 0) end
  if type(config) ~= "table" then error_module.raise("format", "%s: must hold a JSON object", path) end
  local name, hyper, notes, kind = find.load("lua/ett/import", "huggingface").hyper(config, path)
  local built = error_module.wrap(path, architecture.new, name, hyper)
  built.name, built.notes = ("%s (%s)"):format(kind, path:match("([^/]+)$")), notes
  return built
end

--- Whether a name is a file rather than an architecture.
function model.is_file(name)
  return type(name) == "string" and (name:match("%.json$") ~= nil or name:match("/") ~= nil)
end

return model
