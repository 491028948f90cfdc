--- Converts a campaign file of estimate-train-time to the description that ett.sampling.campaign measures.
--
-- Every entry of `starts` is a dimension, whatever first_n_column says (moe.yml says 5 for its 7). Dimensions beyond
-- the list of operators are 'add' ranges.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local default_repeats, most_repeats = 10, 4000

local fields = { module_name = "string?", kernel_name = "string", function_name = "string?",
  columns_name = "list", targets = "list?", first_n_column = "count", starts = "list", steps = "list",
  ends = "list", operators = "list", warmup_shapes = "list?", wait = { "natural", default = 0 },
  warmup = { "natural", default = 0 }, active = { "count", default = default_repeats, most = most_repeats },
  shapes = "list?",
  run = { "string", default = "get_all", one_of = { "get_all", "get_one", "get_profiler", "run_function" } } }

local function check_lengths(clean, label)
  local dimensions = #clean.starts
  if #clean.steps ~= dimensions or #clean.ends ~= dimensions then
    error_module.raise("model", "%s: starts, steps and ends must have the same length, got %d, %d and %d", label,
      dimensions, #clean.steps, #clean.ends)
  end
  if #clean.operators > dimensions or #clean.columns_name < dimensions then
    error_module.raise("model", "%s: %d dimensions need at most as many operators and at least as many columns, "
      .. "got %d and %d", label, dimensions, #clean.operators, #clean.columns_name)
  end
  if dimensions == 0 then error_module.raise("model", "%s: field 'starts' is empty", label) end
  for i, value in ipairs(clean.shapes or {}) do
    if math.type(value) ~= "integer" or value < 1 then
      error_module.raise("model", "%s: field 'shapes': value %d must be a positive integer, got %s", label, i,
        schema.describe(value))
    end
  end
  return dimensions
end

---@param document any decoded YAML
---@param label string the file's name, for messages
---@return table { name, columns, axes, row_columns, targets, one, run, notes, schedule }
return function(document, label)
  local clean = schema.check(document, fields, label)
  local dimensions = check_lengths(clean, label)
  local columns, axes, notes = {}, {}, {}
  for i = 1, dimensions do
    local name = clean.columns_name[i]
    columns[i] = name
    if type(name) == "string" then
      axes[name] = { start = clean.starts[i], step = clean.steps[i], stop = clean.ends[i],
        op = clean.operators[i] or "add" }
    end
    if not clean.operators[i] then
      notes[#notes + 1] = ("dimension '%s' has no operator: 'add' is used"):format(name)
    end
  end
  local whole = clean.shapes and #clean.shapes == dimensions
  if clean.shapes and not whole then
    notes[#notes + 1] = ("shapes has %d values for %d dimensions: get_one, get_profiler and run_function take the "
      .. "first shape of the ranges"):format(#clean.shapes, dimensions)
  end
  return { name = clean.kernel_name, columns = columns, axes = axes, row_columns = clean.columns_name,
    targets = clean.targets, one = whole and clean.shapes or nil, run = clean.run, notes = notes,
    schedule = { wait = clean.wait, warmup = clean.warmup, active = clean.active,
      warmup_shapes = clean.warmup_shapes } }
end
