--- Dialects: how the files of another tool name operators and lay out sample tables.
--
-- A dialect is a file lua/ett/import/NAME/dialect.lua under a root (ett.base.find). All of them are read once:
--   { name =, summary =, source =,
--     operators = { linear_qkv = { aliases = { "linear1" }, columns = { "mp", "b" }, shape = function(op, row) … end,
--       check = function(row) … end } },       -- check raises for an impossible row
--     collectives = { allreduce_large = "all_reduce" },
--     campaign = function(document, label) … end,
--     stand_ins = { optimizer = { lacks = "tensors", operator =, shape = function(s) … end } } }
-- `campaign`: a decoded YAML campaign as { name, columns, axes, row_columns, targets?, one?, run, notes, schedule }
-- (ett.sampling.campaign), or nil if the document is not the tool's.
-- `stand_ins`: if a shape lacks the field `lacks`, samples of another operator are used, with the shape that is given.
local find = require "ett.base.find"
local schema = require "ett.base.schema"

local dialect = {}

local fields = { name = "string", summary = "string", source = "string", operators = "table?", collectives = "table?",
  stand_ins = "table?", campaign = "function?" }
local operator_fields = { aliases = "list?", columns = "list?", shape = "function?", check = "function?" }
local stand_in_fields = { lacks = "string", operator = "string", shape = "function" }

local known, generation

--- Every dialect found, sorted by name.
function dialect.list()
  if known and generation == find.generation then return known end
  local list = {}
  for _, entry in ipairs(find.list "lua/ett/import") do
    local path = entry.path:match("^(.*)/init%.lua$")
    local file = path and io.open(path .. "/dialect.lua", "r")
    if file then
      file:close()
      local label = entry.name .. "/dialect.lua"
      local one = schema.check(find.load_file(path .. "/dialect.lua"), fields, label)
      for name, op in pairs(one.operators or {}) do
        one.operators[name] = schema.check(op, operator_fields, ("%s: operators: %s"):format(label, name))
      end
      for name, stand_in in pairs(one.stand_ins or {}) do
        one.stand_ins[name] = schema.check(stand_in, stand_in_fields, ("%s: stand_ins: %s"):format(label, name))
      end
      one.path = path .. "/dialect.lua"
      list[#list + 1] = one
    end
  end
  known, generation = list, find.generation -- only if no file is faulty
  return known
end

--- Adds the names in all dialects to an operator, and `sample_row` unless its file has one.
function dialect.complete(op)
  for _, one in ipairs(dialect.list()) do
    local given = one.operators and one.operators[op.name] or {}
    for _, alias in ipairs(given.aliases or {}) do op.aliases[#op.aliases + 1] = alias end
    if given.columns and not op.sample_row then
      op.sample_row = { columns = given.columns, check = given.check,
        shape = function(row) return given.shape(op, row) end }
    end
  end
end

--- The operator that a dialect calls `name`, or nil; the first by name if they differ.
function dialect.operator(name)
  local first
  for _, one in ipairs(dialect.list()) do
    for own, given in pairs(one.operators or {}) do
      for _, alias in ipairs(given.aliases or {}) do
        if alias == name and (not first or own < first) then first = own end
      end
    end
  end
  return first
end

--- The kind of collective that a dialect calls `name`, or nil.
function dialect.collective(name)
  for _, one in ipairs(name ~= nil and dialect.list() or {}) do
    local kind = one.collectives and one.collectives[name]
    if kind then return kind end
  end
  return nil
end

--- The description of another tool's campaign, or nil.
function dialect.campaign(document, label)
  for _, one in ipairs(dialect.list()) do
    local given = one.campaign and one.campaign(document, label)
    if given then return given end
  end
  return nil
end

--- The stand-ins of an operator: { lacks =, operator =, shape = }. The first with a field missing in the shape applies.
function dialect.stand_ins(name)
  local list = {}
  for _, one in ipairs(dialect.list()) do list[#list + 1] = one.stand_ins and one.stand_ins[name] end
  return list
end

return dialect
