--- The section `peft` of NeMo and Megatron-Bridge: LoRA adapters as flags of ett's own.
--
-- Fields and defaults: Megatron-Bridge's and NeMo 2's class LoRA (peft/lora.py: rank 32 on the four products of
-- attention and MLP), NeMo 1's peft.lora_tuning (nlp/parts/peft_config.py: LoraPEFTConfig, on attention_qkv).
local error_module = require "ett.base.error"
local null = require("ett.yaml").null

local usual_rank = 32
local usual, usual_of_tuning = { "linear_qkv", "linear_proj", "linear_fc1", "linear_fc2" }, { "attention_qkv" }

-- ett's products by the names of modules.
local products = { linear_qkv = "linear_qkv", linear_proj = "linear_proj", linear_fc1 = "linear_up",
  linear_fc2 = "linear_down", attention_qkv = "linear_qkv", attention_dense = "linear_proj", mlp_fc1 = "linear_up",
  mlp_fc2 = "linear_down", linear_q_down_proj = "linear_q_down", linear_q_up_proj = "linear_q_up",
  linear_kv_down_proj = "linear_kv_down", linear_kv_up_proj = "linear_kv_up" }
local several = { attention = { "attention_qkv", "attention_dense" }, mlp = { "mlp_fc1", "mlp_fc2" },
  all = { "attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2" } }

local function given(value) return value ~= nil and value ~= null and value or nil end

--- The name of the method, in lower case; nil for none, "" for one that the file does not name.
local function scheme_of(section)
  if type(section) ~= "table" then return given(section) and tostring(section):lower() or nil end
  if section.enabled == false or next(section) == nil then return nil end
  if section.peft_scheme == nil and section._target_ == nil then return "" end -- fields of a recipe's method
  local name = given(section.peft_scheme) or given(section._target_) and tostring(section._target_):match "[^.]*$"
  return name and tostring(name):lower() or nil
end

--- ett's names of modules such as "linear_qkv", or "*.linear_qkv" with a wildcard for all layers, each once.
local function targets_of(modules)
  local list, seen = {}, {}
  for _, module in ipairs(modules) do
    local name = tostring(module):match "^%*%.([^*.]+)$" or tostring(module)
    for _, each in ipairs(several[name] or { name }) do
      local product = products[each]
      if not product then
        error_module.raise("format", "peft: target_modules: '%s' is not modelled; give lora_targets=NAME,NAME", name)
      end
      if not seen[product] then list[#list + 1] = product end
      seen[product] = true
    end
  end
  return list
end

--- Adds flags of a section: peft-rank, peft-targets and peft-dropout, or some that are not modelled.
---@param section any the value of `peft`
---@param add fun(name: string, ...: string)
return function(section, add)
  local scheme = scheme_of(section)
  if not scheme or scheme == "none" or scheme == "false" then return end
  if scheme ~= "lora" then return add("peft", scheme) end
  local own = type(section) == "table" and section or {}
  local tuning = given(own.lora_tuning)
  own = type(tuning) == "table" and tuning or own
  add("peft-rank", tostring(given(own.dim) or given(own.adapter_dim) or usual_rank))
  local dropout = given(own.dropout) or given(own.adapter_dropout) or 0
  if dropout ~= 0 then add("peft-dropout", tostring(dropout)) end
  local modules = given(own.target_modules) or tuning and usual_of_tuning or usual
  add("peft-targets", table.unpack(targets_of(type(modules) == "table" and modules or { modules })))
  for _, name in ipairs { "exclude_modules", "layer_selection" } do
    local list = given(own[name])
    if type(list) == "table" and #list > 0 then add("peft-" .. name:gsub("_", "-"), tostring(list[1])) end
  end
end
