--- Regressors: models fitted to measurements that predict a time with its interval.
--
--   local r, outliers = regressor.fit { kind = "hybrid", family = "gemm", rows = { { 1, 4096, 4096, 4096 }, … },
--     seconds = { … } }
--   r:predict { 1, 8192, 4096, 4096 }   --> { value=, low=, high=, provenance=, outside=, base= }
--   r:save "gemm.ett"; regressor.load "gemm.ett"
--
-- Kinds: hybrid (default: a base model, and boosted trees on log(time / base)), boosted_trees, random_forest,
-- robust_linear, alpha_beta. runtime/regress/serve/design.h lists the families and their dimensions. Prediction does
-- not need XGBoost; fitting loads it.
local error_module = require "ett.base.error"
local merged = require "ett.base.merged"
local physics = require "ett.profile.physics"
local regress = require "ett.regress"
local schema = require "ett.base.schema"

local regressor = {}

--- Increase this when fits may change; it is part of the key of a cached fit.
regressor.version = "19"

regressor.kinds = { "hybrid", "boosted_trees", "random_forest", "robust_linear", "alpha_beta" }

-- Chosen on development splits of the samples, with other seeds and sizes (below the 80th percentile) than those that
-- `ett bench holdout` reports.
local deep = { rounds = 100, relative = true, delta = 0.005, parameters = { max_depth = 6, eta = 0.19,
  subsample = 0.8, colsample_bytree = 0.8, min_child_weight = 0.02, lambda = 0.5, max_bin = 64 } }
-- Libraries choose a product's kernel from several dimensions at once: this needs deeper trees, finer bins and smaller
-- steps.
local deeper = merged(deep, { rounds = 150,
  parameters = merged(deep.parameters, { max_depth = 7, eta = 0.13, max_bin = 128 }) })
-- For one dimension and heavy-tailed errors: small trees, large leaves.
local shallow = { rounds = 100, relative = true, delta = 0.005, parameters = { max_depth = 6, eta = 0.15,
  subsample = 0.8, colsample_bytree = 0.8, min_child_weight = 1, lambda = 2, max_bin = 256 } }

local tuned = { gemm = deeper, collective = shallow, alpha_beta = shallow }

-- Small models of a few kilobytes, for coefficient files.
local small = { rounds = 40, difficulty_rounds = 10, parameters = { max_depth = 5, eta = 0.2, min_child_weight = 0.1 } }

local fields = {
  kind = { "string", default = "hybrid" }, family = "string?", backward = { "boolean", default = false },
  multiprocessors = { "positive", default = physics.assumed_multiprocessors }, dims = "count?",
  rows = "table", seconds = "table", least_seconds = "table?", parameters = "table?", rounds = "count?",
  folds = "count?", difficulty_rounds = { "count", default = 40 }, compact = "boolean?",
  threads = { "count", default = 2 }, gate = { "boolean", default = true }, gate_ratio = { "positive", default = 3 },
  loss = "string?", log = { "boolean", default = true },
}

local function flatten(rows, dims)
  if type(rows[1]) ~= "table" then return rows, dims end
  local flat, n = {}, 0
  dims = dims or #rows[1]
  for i, row in ipairs(rows) do
    if #row ~= dims then
      error_module.raise("argument", "row %d must have %d dimensions, got %d", i, dims, #row)
    end
    for j = 1, dims do
      n = n + 1
      flat[n] = row[j]
    end
  end
  return flat, dims
end

-- Values of XGBoost's parameters whose predictions are sums of leaves, as the compiled trees compute them. The fit
-- sets base_score itself.
local served = { base_score = {}, booster = { "gbtree" },
  objective = { "reg:squarederror", "reg:pseudohubererror" } }

-- Parameters as XGBoost reads them, sorted by name.
local function listed(parameters)
  local list = {}
  for _, name in ipairs(schema.keys(parameters)) do
    local value, allowed = parameters[name], served[name]
    for _, one in ipairs(allowed or {}) do if value == one then allowed = nil end end
    if allowed then
      error_module.raise("argument", "regressor.fit: parameters: predictions do not support %s = %s%s", name,
        schema.describe(value), #allowed > 0 and "; it may be " .. table.concat(allowed, ", ") or "; omit it")
    end
    list[#list + 1] = { name, type(value) == "number" and ("%.9g"):format(value) or tostring(value) }
  end
  return list
end

-- Half of a small table fits much worse than the whole. Made-up products, 12 rows: error 12.3 % on new rows; 18.6 %
-- held out by two folds, 13.5 % by ten. 100 rows: 8.2 %, 8.2 % and 8.1 %, and ten folds take three times as long.
local function folds_of(rows) return rows < 40 and 10 or 2 end

--- The request of runtime/bind/regress/fit.c, and the family.
local function plan(given)
  local kind, parameters = given.kind, nil
  local family = given.family or (kind == "alpha_beta" and "alpha_beta") or "raw"
  local out = { base = true, trees = true, twins = true, relative = false, delta = deep.delta, rounds = 1,
    log = given.log, gate = given.gate, folds = given.folds or folds_of(#given.seconds), threads = given.threads,
    gate_ratio = given.gate_ratio, loss = given.loss or "absolute", difficulty_rounds = given.difficulty_rounds }
  if kind == "hybrid" then
    local defaults = tuned[family] or deep
    out.rounds, out.relative, out.delta = given.rounds or defaults.rounds, out.log, defaults.delta
    parameters = merged(defaults.parameters, given.parameters)
    if given.compact then
      out.rounds, out.difficulty_rounds, out.twins = small.rounds, small.difficulty_rounds, false
      parameters = merged(parameters, small.parameters)
    end
  elseif kind == "boosted_trees" then
    out.base, out.rounds = false, given.rounds or 300
    parameters = merged({ max_depth = 6, eta = 0.1, subsample = 0.8 }, given.parameters)
  elseif kind == "random_forest" then
    out.base = false
    parameters = merged({ max_depth = 12, eta = 1, lambda = 0, subsample = 0.632, num_parallel_tree = 100,
      min_child_weight = 1 }, given.parameters)
    if parameters.max_depth == 0 then parameters = merged({ tree_method = "hist", max_bin = 1024 }, parameters) end
  elseif kind == "robust_linear" or kind == "alpha_beta" then
    out.trees, out.loss, parameters = false, given.loss or "huber", {}
  else
    error_module.raise("argument", "%s", error_module.unknown("kind of regressor", kind, regressor.kinds))
  end
  if out.trees and not parameters.tree_method then
    parameters.tree_method = #given.seconds < 1000 and "exact" or "hist"
  end
  if parameters.tree_method == "exact" then parameters.max_bin = nil end
  out.parameters = listed(parameters)
  return out, family
end

local Regressor = { __name = "ett.regressor" }
Regressor.__index = Regressor

local function wrap(model) return setmetatable({ model = model, facts_ = model:facts() }, Regressor) end

--- One prediction.
---@param dims number[]|number the family's dimensions, or its only one
---@return number value, number low, number high, string provenance, number outside (log2 of the distance), number base
function Regressor:values(dims) return self.model:predict(dims) end

--- The model for C (ett.regress).
function Regressor:compiled() return self.model end

--- The prediction as a table { value, low, high, base (seconds), provenance, outside }.
function Regressor:predict(dims)
  local value, low, high, provenance, outside, base = self.model:predict(dims)
  return { value = value, low = low, high = high, provenance = provenance, outside = outside, base = base }
end

--- Predictions for rows of dimensions: a list of rows, or one flat list.
---@return number[] values, number[] lows, number[] highs, string[] provenances
function Regressor:predict_rows(rows) return self.model:predict_rows((flatten(rows, self.facts_.dims))) end

--- Facts of the fit: rows, dropped, error_mean and error_median of held-out folds, ranges.
function Regressor:facts() return self.facts_ end

--- The regressor as bytes; regressor.open reads them.
function Regressor:bytes() return self.model:bytes() end

--- Writes a model file atomically.
---@return true|nil, ett.Error?
function Regressor:save(path) return require("ett.io").write(path, self.model:bytes()) end

function Regressor:close() self.model:close() end

function Regressor:__tostring() return tostring(self.model) end

--- A regressor from bytes.
---@return ett.Regressor|nil, ett.Error?
function regressor.open(bytes)
  local model, err = regress.open(bytes)
  if not model then return nil, err end
  return wrap(model)
end

--- A regressor from the text of a coefficient file.
---@return ett.Regressor|nil, ett.Error?
function regressor.from_text(text)
  if type(text) ~= "string" then
    return nil, error_module.new("format", "the text of a regressor is missing, got %s", schema.describe(text))
  end
  local model, err = regress.from_text(text)
  if not model then return nil, err end
  return wrap(model)
end

--- The regressor as base64 text of a few kilobytes: without twins, leaves rounded to 16 bits.
function Regressor:text() return self.model:text() end

--- Reads a model file and checks it.
---@param tail string? text behind the model, with which the file must end
---@return ett.Regressor|nil, ett.Error?
function regressor.load(path, tail)
  local model, err = regress.load(path, tail)
  if not model then return nil, err end
  return wrap(model)
end

--- The module that fits; nil and the package to install if ett was built without XGBoost.
---@return table|nil, string?
function regressor.fitting()
  return error_module.part("ett.regress_fit", "the module that fits regressors", "install libxgboost-dev")
end

local function loaded()
  local fit, why = regressor.fitting()
  if not fit then error_module.raise("missing", "%s", why) end
  return fit
end

-- Parameters that are no fields of XGBoost's configuration.
local beside = { eval_metric = true, verbosity = true }

--- Adds the names of XGBoost's parameters: fields of the tables *_param of its configuration.
local function add_names(node, inside, names)
  for key, value in pairs(node) do
    if type(value) == "table" then
      add_names(value, type(key) == "string" and key:find "_param$" ~= nil, names)
    elseif inside then
      names[key] = true
    end
  end
  return names
end

--- Refuses parameters that XGBoost would ignore.
local function check_parameters(given, request)
  if not given then return end
  if not request.trees then
    error_module.raise("argument", "regressor.fit: parameters are XGBoost's; this kind of regressor has no trees")
  end
  local text, err = loaded().configuration(request)
  if not text then error(err, 0) end
  local names = add_names(error_module.must(require("ett.json").decode(text)), false, merged(beside))
  for _, name in ipairs(schema.keys(given)) do
    if not names[name] then
      error_module.raise("argument", "regressor.fit: parameters: XGBoost does not read '%s'%s", tostring(name),
        error_module.suggestion(tostring(name), schema.keys(names)))
    end
  end
end

-- The request of ett.regress_fit for the arguments of regressor.fit.
local function request_of(given)
  local g = schema.check(given, fields, "regressor.fit")
  local rows, dims = flatten(g.rows, g.dims)
  local request, family = plan(g)
  check_parameters(g.parameters, request)
  request.design = { family = family, backward = g.backward, multiprocessors = g.multiprocessors,
    dims = dims or (#g.seconds > 0 and #rows // #g.seconds or 1) }
  request.rows, request.seconds, request.least_seconds = rows, g.seconds, g.least_seconds
  return request
end

--- Fits regressors at the same time, with the digits of single fits.
---@param list table[] arguments of regressor.fit
---@return table[] results { regressor, outliers }, or { nil, err } of a fit that failed
function regressor.fit_all(list)
  local requests, results = {}, {}
  for i, given in ipairs(list) do requests[i] = request_of(given) end
  for i, found in ipairs(loaded().fit(requests)) do
    local bytes, dropped, outliers = found[1], found[2], {}
    for row, reason in pairs(bytes and dropped or {}) do
      outliers[#outliers + 1] = { row = row, seconds = requests[i].seconds[row], reason = reason }
    end
    table.sort(outliers, function(a, b) return a.row < b.row end)
    results[i] = bytes and { error_module.must(regressor.open(bytes)), outliers } or { nil, dropped }
  end
  return results
end

--- Fits a regressor. Dropped rows are returned as { row, seconds, reason }. Raises on unknown fields and kinds.
---@param given table see the fields above
---@return ett.Regressor, table[] outliers
function regressor.fit(given)
  local found = regressor.fit_all({ given })[1]
  if not found[1] then error(found[2], 0) end
  return found[1], found[2]
end

return regressor
