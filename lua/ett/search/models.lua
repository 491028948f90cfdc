--- Sweeps over hyper-parameters, and over fields of a plan that others follow: one sweep of plans for each model and
--- plan; rows of all in one list.
--
--   local s = ett.sweep { model = function(h) return ett.model.new("llama", h) end,
--     hyper = { hidden = { 4096, 8192 } }, over = { tp = { 4, 8 } }, … }
--   s.rows[1].hidden, s.rows[1].parameters
local architecture = require "ett.model.architecture"
local error_module = require "ett.base.error"
local json = require "ett.json"
local merged = require "ett.base.merged"
local plan_fields = require "ett.plan.fields"
local schema = require "ett.base.schema"

local models = {}

local descending = { tokens_per_second = true, tokens_per_second_per_device = true }

--- Every combination of the lists; the value of the last name changes fastest.
function models.combinations(names, over)
  local list = { {} }
  for _, name in ipairs(names) do
    if type(over[name]) ~= "table" or over[name][1] == nil then
      error_module.raise("model", "sweep: hyper-parameter '%s' must be a non-empty list of values, got %s", name,
        schema.describe(over[name]))
    end
    local longer = {}
    for _, values in ipairs(list) do
      for _, value in ipairs(over[name]) do longer[#longer + 1] = merged(values, { [name] = value }) end
    end
    list = longer
  end
  return list
end

--- Adds the rows of one model to a result.
local function add(result, s, model, values)
  result.evaluated, result.refused = result.evaluated + s.evaluated, result.refused + s.refused
  result.refusal = result.refusal or s.refusal
  result.unfit[#result.unfit + 1] = s.fit_advice
  for _, note in ipairs(s.notes) do
    if not result.noted[note] then result.notes[#result.notes + 1], result.noted[note] = note, true end
  end
  local own = merged(values, result.sized and { parameters = architecture.parameters(model) })
  for _, row in ipairs(getmetatable(s.rows).__json(s.rows)) do result.rows[#result.rows + 1] = merged(row, own) end
end

--- The warnings of a row: those of a sweep of its plan alone.
local function warnings_of(row, names, given, sweep_of)
  local values, over = {}, {}
  if not row then return {} end
  for _, name in ipairs(names) do values[name] = row[name] end
  for name in pairs(given.over) do over[name] = { row[name] } end
  local model, plan = given.model(values)
  local alone = merged(given, { model = model, plan = plan or given.plan, over = over })
  alone.hyper = nil
  return sweep_of(alone).warnings
end

--- Sorts the rows: plans that fit first, then by the objective, then in input order. Keeps the best.
local function sort(rows, objective, keep)
  local order = {}
  for i, row in ipairs(rows) do order[row] = i end
  table.sort(rows, function(a, b)
    local x, y = a[objective], b[objective]
    if a.fits ~= b.fits then return a.fits end
    if x == y then return order[a] < order[b] end
    if descending[objective] then return x > y end
    return x < y
  end)
  for i = #rows, (keep or math.huge) + 1, -1 do rows[i] = nil end
end

-- Kinds of errors of values that make no model, or no plan.
models.refuses = { model = true, format = true }

--- A sweep over the models of `given.hyper` and the plans of `given.over`. Values that make no model count as refused.
---@param given table of ett.search.sweep; `model` is a function of the hyper-parameters in `hyper`. It may return a
--- plan, too; then `hyper` may also hold fields of the plan
---@param sweep_of fun(given: table): table sweeps the plans of one model
---@return table
function models.sweep(given, sweep_of)
  local names, sweeps = schema.keys(given.hyper), 0
  local result = { evaluated = 0, refused = 0, rows = {}, unfit = {}, notes = {}, noted = {} }
  for _, name in ipairs(names) do result.sized = result.sized or not plan_fields.schema[name] end
  local last, meta
  for _, values in ipairs(models.combinations(names, given.hyper)) do
    local ok, model, plan = pcall(given.model, values)
    if not ok and not models.refuses[error_module.from(model).kind] then error(model, 0) end
    if ok then
      local own = merged(given, { model = model, plan = plan or given.plan })
      own.hyper = nil
      last = sweep_of(own)
      meta, sweeps = getmetatable(last), sweeps + 1
      add(result, last, model, values)
    else
      result.refused, result.refusal = result.refused + 1, result.refusal or tostring(model)
    end
  end
  if not last then
    error_module.raise("limit", "sweep: no %s: %s", result.sized and "model can be built" or "plan is valid",
      (result.refusal:gsub("^ett: ", "")))
  end
  sort(result.rows, last.objective, given.keep)
  local fields = table.move(names, 1, #names, 1, {})
  if result.sized then fields[#fields + 1] = "parameters" end
  table.move(last.fields, 1, #last.fields, #fields + 1, fields)
  return setmetatable({ cluster = last.cluster, model = last.model, fields = fields, objective = last.objective,
    evaluated = result.evaluated, refused = result.refused, refusal = result.refusal,
    fit_advice = #result.unfit == sweeps and result.unfit[1] or nil,
    notes = result.notes, warnings = warnings_of(result.rows[1], names, given, sweep_of),
    rows = setmetatable(result.rows,
      { __json = function(rows) return json.array(table.move(rows, 1, #rows, 1, {})) end }),
    base = last.base }, meta)
end

return models
