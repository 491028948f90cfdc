--- A campaign: which operators or collectives to measure, on which shapes. samplers/campaigns/README.md lists the
--- fields of a Lua file; ett.sampling.space makes the shapes. YAML files are another tool's (ett.operator.dialect).
local campaign_space = require "ett.sampling.space"
local collective = require "ett.operator.collective"
local dialect = require "ett.operator.dialect"
local error_module = require "ett.base.error"
local ett_io = require "ett.io"
local find = require "ett.base.find"
local host = require "ett.host"
local operator = require "ett.operator"
local sample = require "ett.sample"
local schema = require "ett.base.schema"

local campaign = {}

local most_repeats = 4000

local file_schema = {
  name = "string", summary = "string?", backend = { "string", default = "cpu" },
  precision = { "any", default = "fp32" }, seed = { "integer", default = 1 },
  samples = "list", budget_seconds = "positive?", target = "positive?",
  min_repeats = { "count", optional = true, most = most_repeats },
  max_repeats = { "count", optional = true, most = most_repeats },
  threads = { "count", optional = true, most = sample.most_threads },
  cold_bytes = { "natural", optional = true, most = sample.most_cold_bytes },
  visits = { "count", optional = true, most = 1000 }, block = "count?", interleave = "boolean?", seconds = "positive?",
  together = "boolean?",
  statistic = { "string", default = "low", one_of = { "low", "median" } },
}
local sample_schema = {
  operator = "string?", collective = "string?", shapes = "table", where = "function?",
  design = { "string", default = "grid", one_of = { "grid", "random", "halton" } },
  count = "count?", columns = "list?", with = "function?", in_place = "boolean?", precision = "any?",
  ranks = "count?", nodes = "count?",
}

local function contains(list, name)
  for _, entry in ipairs(list) do if entry == name then return true end end
  return false
end

local function check_list(list, field)
  local fault = schema.list_fault(list)
  if fault then error_module.raise("model", "field '%s': %s", field, fault) end
end

--- Checks that the precisions of a campaign or a sample are a name or a list of names. prefix: of messages.
local function check_precision(given, prefix)
  local names = type(given) == "table" and given or { given }
  local good = #names > 0 and not schema.list_fault(names)
  for _, name in ipairs(names) do good = good and type(name) == "string" end
  if not good then
    error_module.raise("model", "%sfield 'precision' must be a name such as \"fp32\" or a list of names, got %s",
      prefix, schema.describe(given))
  end
  for i, name in ipairs(names) do
    if contains({ table.unpack(names, 1, i - 1) }, name) then
      error_module.raise("model", "%sfield 'precision' names '%s' twice", prefix, name)
    end
  end
end

local function check_columns(columns, field)
  check_list(columns, field)
  local seen = {}
  for i, name in ipairs(columns) do
    if type(name) ~= "string" or name == "" or name:find('[,"%c]') then -- a column of a CSV table
      error_module.raise("model", "field '%s': value %d must be a name without commas, got %s", field, i,
        schema.describe(name))
    end
    if seen[name] then error_module.raise("model", "field '%s' names '%s' twice", field, name) end
    seen[name] = true
  end
end

--- The dimensions of an operator's table in the campaign's order, else the operator's, else by name; checked against
--- the operator's schema.
local function columns_of(op, entry)
  local fields = schema.keys(op.schema)
  if entry.columns then check_columns(entry.columns, "columns") end
  local columns = entry.columns or op.columns or schema.keys(entry.shapes)
  for _, list in ipairs { schema.keys(entry.shapes), columns } do
    for _, name in ipairs(list) do
      if not contains(fields, name) then
        error_module.raise("model", "operator '%s' has no dimension '%s'%s; it has %s", op.name, name,
          error_module.suggestion(name, fields), table.concat(fields, ", "))
      end
    end
  end
  local missing = {}
  for _, name in ipairs(fields) do
    local given = entry.shapes[name] ~= nil
    if not given and (contains(columns, name) or not schema.optional(op.schema[name])) then
      missing[#missing + 1] = ("'%s'"):format(name)
    elseif given and not contains(columns, name) then
      error_module.raise("model", "dimension '%s' of shapes is not among columns", name)
    end
  end
  if #missing > 0 then
    error_module.raise("model", "operator '%s' needs dimension%s %s", op.name, #missing > 1 and "s" or "",
      table.concat(missing, ", "))
  end
  return columns
end

--- The dimensions of an operator that its schema allows to be 0.
local function zeros_of(op)
  local zero = {}
  for name, rule in pairs(op.schema) do
    local kind = type(rule) == "table" and rule[1] or rule
    zero[name] = kind:match("^natural%??$") ~= nil or kind:match("^integer%??$") ~= nil or nil
  end
  return zero
end

local function operator_target(entry, seed, index)
  local op = operator.get(entry.operator)
  for _, field in ipairs { "in_place", "nodes", "ranks" } do
    if entry[field] ~= nil then error_module.raise("model", "field '%s' is for collectives only", field) end
  end
  local columns = columns_of(op, entry)
  entry.zero = zeros_of(op)
  local space = campaign_space.of(columns, entry, seed + index)
  return {
    kind = "operator", operator = op, name = op.name, columns = columns, total = space.total,
    values = space.shape, precision = entry.precision,
    shape = function(values) return operator.check_shape(op, campaign_space.named(columns, values)) end,
  }
end

--- How a row counts the elements of a collective: back ends take the whole message; tables of all_gather hold the share
--- of one rank.
local function message_of(kind)
  if kind ~= "all_gather" then return function(elements) return elements end end
  return function(elements, topology) return elements * topology.nodes * topology.ranks_per_node end
end

local function collective_target(entry, seed, index)
  local kind = collective.kind(entry.collective)
  local columns = { "shape" }
  if entry.columns then
    error_module.raise("model", "field 'columns' needs an operator; a collective has the dimension 'shape'")
  end
  if entry.shapes.shape == nil then
    error_module.raise("model", "collective '%s' needs dimension 'shape' (elements)", entry.collective)
  end
  for _, name in ipairs(schema.keys(entry.shapes)) do
    if name ~= "shape" then
      error_module.raise("model", "collective '%s' has no dimension '%s'; it has shape (elements)", kind, name)
    end
  end
  local space = campaign_space.of(columns, entry, seed + index)
  return { kind = "collective", collective = kind, message = message_of(kind), columns = columns,
    name = entry.name or entry.collective, total = space.total, values = space.shape, ranks = entry.ranks,
    in_place = entry.in_place or false, nodes = entry.nodes, precision = entry.precision }
end

local function meet(a, b) return a == nil or b == nil or a == b end

--- Whether two targets have a common precision; default: the campaign's.
local function share_precision(a, b, default)
  local function names(target)
    local given = target.precision or default
    return type(given) == "table" and given or { given }
  end
  for _, name in ipairs(names(a)) do if contains(names(b), name) then return true end end
  return false
end

--- Raises if samples of one table disagree: a collective in place or out of place, the order of an operator's columns.
--- Otherwise rows of one sample would count as rows of the other.
local function check_one_table(targets, where, precision)
  local new = targets[#targets]
  for i = 1, #targets - 1 do
    local old = targets[i]
    if new.name == old.name and new.kind == "collective" and old.kind == "collective" and old.in_place ~= new.in_place
      and meet(old.ranks, new.ranks) and meet(old.nodes, new.nodes) then
      error_module.raise("model", "%s: %s %s and %s (sample %d) would write into one table; give "
        .. "each its own campaign and folder (--out)", where, new.collective,
        new.in_place and "in place" or "out of place", old.in_place and "in place" or "out of place", i)
    end
    local columns, before = table.concat(new.columns, ","), table.concat(old.columns, ",")
    if new.name == old.name and new.kind == old.kind and columns ~= before
      and share_precision(new, old, precision) then
      error_module.raise("model", "%s: %s has columns %s, sample %d has %s, and both have one table; give both the "
        .. "same 'columns'", where, new.name, columns, i, before)
    end
  end
end

--- Resolves the table of a Lua campaign into targets.
function campaign.resolve(given, label)
  local clean = schema.check(given, file_schema, label)
  local prefix = label and label .. ": " or ""
  check_precision(clean.precision, prefix)
  if #clean.samples == 0 then
    error_module.raise("model", "%sfield 'samples' is empty: there is nothing to measure", prefix)
  end
  local list_fault = schema.list_fault(clean.samples)
  if list_fault then error_module.raise("model", "%sfield 'samples': %s", prefix, list_fault) end
  local targets = {}
  for i, entry in ipairs(clean.samples) do
    local where = ("%ssample %d"):format(prefix, i)
    entry = schema.check(entry, sample_schema, where)
    if entry.precision ~= nil then check_precision(entry.precision, where .. ": ") end
    if (entry.operator == nil) == (entry.collective == nil) then
      error_module.raise("model", "%s: expected either operator or collective", where)
    end
    targets[i] = error_module.wrap(where, entry.operator and operator_target or collective_target, entry,
      clean.seed, i)
    check_one_table(targets, where, clean.precision)
  end
  if clean.min_repeats and clean.max_repeats and clean.min_repeats > clean.max_repeats then
    error_module.raise("model", "%smin_repeats = %d is more than max_repeats = %d", prefix, clean.min_repeats,
      clean.max_repeats)
  end
  clean.samples = nil
  clean.targets = targets
  return clean
end

--- The operator of a name. Raises an error if its samples lack one of the columns.
local function operator_with(name, columns, label)
  local op = error_module.wrap(label, operator.get, name)
  for _, column in ipairs(op.sample_row and op.sample_row.columns and columns or {}) do
    if not contains(op.sample_row.columns, column) then
      error_module.raise("model", "%s: field 'columns_name': operator '%s' has no column '%s'; it has %s", label,
        op.name, column, table.concat(op.sample_row.columns, ", "))
    end
  end
  return op
end

--- The shape of an operator in a row of another tool's table.
local function shape_of_row(op, columns, values)
  local row = campaign_space.named(columns, values)
  if not (op.sample_row and op.sample_row.shape) then
    error_module.raise("model", "operator '%s' needs the function sample_row.shape, which makes its shape "
      .. "from a row of these columns", op.name)
  end
  if op.sample_row.check then op.sample_row.check(row) end
  return op.sample_row.shape(row)
end

--- Gives a target its operator, and shapes for rows of the columns. The operator is loaded at its first use, because
--- measurement needs it and enumeration does not.
local function add_operator(target, columns, label)
  setmetatable(target, { __index = function(self, key)
    if key ~= "operator" then return nil end
    local op = operator_with(rawget(self, "name"), columns, label)
    rawset(self, "operator", op)
    return op
  end })
  target.shape = function(values) return shape_of_row(target.operator, columns, values) end
end

--- A campaign from another tool's document, converted by a dialect (ett.operator.dialect), with the columns of that
--- tool's tables.
function campaign.of_document(document, label)
  local given = dialect.campaign(document, label)
  if not given then error_module.raise("format", "%s: unknown campaign format; ett's own is a Lua file", label) end
  error_module.wrap(label, check_columns, given.row_columns, "columns_name")
  local columns, space = given.columns, error_module.wrap(label, campaign_space.grid, given.columns, given.axes)
  local kind = collective.find(given.name)
  local target = { kind = kind and "collective" or "operator", name = given.name, columns = columns,
    total = space.total, values = space.shape, targets = given.targets, one = given.one,
    row_columns = given.row_columns, in_place = kind == "all_reduce", collective = kind,
    message = kind and message_of(kind) }
  if not kind then add_operator(target, columns, label) end
  return { name = given.name, backend = kind and "nccl" or "cuda", precision = "fp16", seed = 1, targets = { target },
    run = given.run, notes = given.notes, min_repeats = given.schedule.active, schedule = given.schedule }
end

--- The hash of an operator's file; nil for a bundled operator, whose version is ett's.
function campaign.operator_fingerprint(op)
  local bundled = host.root .. "/operators/"
  return op.path and op.path:sub(1, #bundled) ~= bundled and ett_io.hash_file(op.path) or nil
end

--- Reads a campaign file (.lua, .yml, .yaml) or a bundled campaign by name.
function campaign.load(path)
  schema.argument(path, "string", "ett.campaign.load", "path")
  if not path:match("%.%w+$") then
    local bundled = find.path("samplers/campaigns", path)
    if not bundled then
      error_module.raise("missing", "%s; a path ends in .lua or .yml",
        error_module.unknown("campaign", path, find.names "samplers/campaigns"))
    end
    path = bundled
  end
  local text = error_module.must(ett_io.read(path))
  local loaded
  if path:match("%.ya?ml$") then
    local yaml = require "ett.yaml"
    local document, why = yaml.decode(text)
    if document == nil then error_module.raise("format", "%s: %s", path, tostring(why)) end
    loaded = campaign.of_document(document, path)
  else
    local folder, name = path:match("^(.*)/[^/]*$") or ".", path:match("([^/]+)$")
    if not path:find("samplers/campaigns", 1, true) then find.set_script_folder(folder, folder .. "/" .. name) end
    loaded = campaign.resolve(find.load_file(path), name)
  end
  loaded.path = path
  loaded.fingerprint = ett_io.hash(text)
  return loaded
end

return campaign
