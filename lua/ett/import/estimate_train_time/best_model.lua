--- The tool's choice of regressor for a table: columns Best_model and Best_config of its {gpu}.csv.
--
-- The names are those of scikit-learn and XGBoost in Python.
local error_module = require "ett.base.error"
local json = require "ett.json"
local schema = require "ett.base.schema"

local best_model = {}

--- The fields of ett.profile.regressor.fit for a choice of the tool.
---@param kind string "xgboost" or "rforest", column Best_model
---@param config table
---@return table { kind=, rounds=, parameters= }
function best_model.regressor(kind, config)
  local p = {}
  local function take(name, to, scale)
    local value = config[name]
    if type(value) == "number" then p[to or name] = value * (scale or 1) end
  end
  if kind == "xgboost" then
    for _, name in ipairs { "colsample_bytree", "colsample_bylevel", "colsample_bynode", "gamma", "max_depth",
      "min_child_weight", "subsample", "max_delta_step", "max_leaves", "max_bin", "scale_pos_weight" } do take(name) end
    take("learning_rate", "eta")
    take("reg_lambda", "lambda")
    take("reg_alpha", "alpha")
    take("random_state", "seed")
    return { kind = "boosted_trees", rounds = config.n_estimators or 100, parameters = p }
  elseif kind == "rforest" then
    take("min_samples_leaf", "min_child_weight")
    take("max_depth")
    if not p.max_depth then p.max_depth = 0 end -- None: no limit
    -- A leaf of the library's must weigh min_child_weight; a split needs two of them.
    local split = type(config.min_samples_split) == "number" and config.min_samples_split or 2
    p.min_child_weight = math.max(p.min_child_weight or 1, split / 4)
    if type(config.max_features) == "number" and config.max_features <= 1 then
      p.colsample_bynode = config.max_features
    end
    p.num_parallel_tree = config.n_estimators or 100
    return { kind = "random_forest", parameters = p }
  end
  error_module.raise("argument", "Best_model must be 'xgboost' or 'rforest', got '%s'", tostring(kind))
end

--- A Python dictionary of numbers, names and None as JSON.
local function json_of(text)
  local words = { None = "null", nan = "null", True = "true", False = "false" }
  return (text:gsub("'([^'\"\\]*)'", '"%1"'):gsub("%a+", words):gsub(",%s*([%]}])", "%1"))
end

--- Reads a Python literal such as "{'max_depth': None, 'n_estimators': 400}".
---@return table|nil, ett.Error?
function best_model.read(text)
  local value, err = json.decode(json_of(text), { name = "Best_config" })
  if value == nil then return nil, err end
  if type(value) ~= "table" or #value > 0 then
    return nil, error_module.new("format", "Best_config: expected a dictionary, got %s", schema.describe(value))
  end
  for name, item in pairs(value) do
    if type(item) == "userdata" or item == json.null then value[name] = nil end
  end
  return value
end

return best_model
