--- Output of commands for programs: a value as JSON, or with --csv its tables as CSV.
--
--   io.write(output.text(opts, value))   -- opts.csv, opts.table: options that every command with --json has
--
-- A list of records is a table with one column per field; a field F of a record in field NAME is the column NAME.F.
-- Single values form the table "values" of fields and values. A list in a record becomes a separate table, whose first
-- column is the number of the record. Values of a list in one cell are separated by "; ". Numbers have all digits; an
-- absent value is an empty cell.
local error_module = require "ett.base.error"
local json = require "ett.json"
local tables = require "ett.report.table"

local output = {}

local function sorted_keys(record)
  local keys = {}
  for key in pairs(record) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if math.type(a) == "integer" and math.type(b) == "integer" then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

local function is_single(value) return type(value) ~= "table" or value == json.null end

local function words(list)
  local texts = {}
  for i, value in ipairs(list) do texts[i] = is_single(value) and tostring(value) or json.encode(value) end
  return table.concat(texts, "; ")
end

local flatten

-- Adds the table of a list of records; `number` is that of the record that holds the list.
local function add_list(found, name, list, holder, number)
  local known = found.by_name[name]
  if not known then
    known = { name = name, columns = {}, has = {}, rows = {}, holder = holder }
    found.by_name[name], found[#found + 1] = known, known
  end
  for i, record in ipairs(list) do
    local row = {}
    if is_single(record) then row.value = record else flatten(found, row, nil, record, name, i) end
    if holder then row[holder] = number end
    for key in pairs(row) do known.has[key] = true end
    known.rows[#known.rows + 1] = row
  end
end

-- Fields of a record as cells of `row`; lists of records become tables.
function flatten(found, row, prefix, record, holder, number)
  for _, key in ipairs(sorted_keys(record)) do
    local value, name = record[key], prefix and ("%s.%s"):format(prefix, key) or tostring(key)
    if value == json.null then
      row[name] = ""
    elseif is_single(value) then
      row[name] = value
    elseif #value > 0 and not is_single(value[1]) and #value[1] == 0 then
      add_list(found, holder and ("%s.%s"):format(holder, name) or name, value, holder, number)
    elseif #value > 0 then
      row[name] = words(value)
    else
      flatten(found, row, name, value, holder, number)
    end
  end
end

-- Order of a table's columns: number of the holding record, names, all others.
local leading = { name = 1, kind = 2, field = 3 }
local function columns_of(known)
  local columns = {}
  for key in pairs(known.has) do columns[#columns + 1] = key end
  local function rank(key) return key == known.holder and 0 or leading[key] or 9 end
  table.sort(columns, function(a, b)
    if rank(a) ~= rank(b) then return rank(a) < rank(b) end
    return a < b
  end)
  return columns
end

local function cell(value)
  if value == nil or value == json.null or type(value) == "function" then return "" end
  return value
end

local function csv_text(known)
  local columns = columns_of(known)
  local rows = { columns }
  for r, row in ipairs(known.rows) do
    rows[r + 1] = {}
    for c, name in ipairs(columns) do rows[r + 1][c] = cell(row[name]) end
  end
  return tables.csv(rows)
end

--- The tables of a value: list of { name, text }.
function output.tables(value)
  local found, row = { by_name = {} }, {}
  if is_single(value) then
    row.value = value
  elseif #value > 0 then
    add_list(found, "rows", value)
  else
    flatten(found, row, nil, value)
  end
  local list, pairs_of = {}, { name = "values", has = { field = true, value = true }, rows = {} }
  for _, key in ipairs(sorted_keys(row)) do
    pairs_of.rows[#pairs_of.rows + 1] = { field = key, value = row[key] }
  end
  if #pairs_of.rows > 0 then list[1] = { name = "values", text = csv_text(pairs_of) } end
  for _, known in ipairs(found) do list[#list + 1] = { name = known.name, text = csv_text(known) } end
  return list
end

local function chosen(list, name)
  if not name or name == "all" then return list end
  local names = {}
  for i, each in ipairs(list) do
    if each.name == name then return { each } end
    names[i] = each.name
  end
  error_module.raise("usage", "--table: no table '%s'%s; there are %s", name, error_module.suggestion(name, names),
    #names > 0 and table.concat(names, ", ") or "none")
end

--- A value as JSON, or with opts.csv its tables as CSV.
---@param opts { csv: boolean?, table: string? }
---@param main string? the table that --csv prints without --table
---@return string text with a newline at its end
function output.text(opts, value, main)
  if not opts.csv then return json.encode(value, { indent = 2 }) end
  local meta = getmetatable(value)
  if type(meta) == "table" and meta.__json then value = meta.__json(value) end
  local parts, list = {}, chosen(output.tables(value), opts.table or main)
  for i, each in ipairs(list) do
    parts[i] = #list > 1 and ("# %s\n%s\n"):format(each.name, each.text) or each.text .. "\n"
  end
  return table.concat(parts, "\n")
end

return output
