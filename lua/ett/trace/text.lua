--- Formats results of metrics as aligned text and as CSV.
local stats = require "ett.trace.stats"
local json = require "ett.json"
local report_table = require "ett.report.table"
local schema = require "ett.base.schema"

local text = {}

--- A value in a table: 6 significant digits, integers unrounded, unknown as n/a.
function text.value(value)
  if value == nil or value == stats.null then return "n/a" end
  if type(value) == "number" then
    if math.type(value) == "integer" then return ("%d"):format(value) end
    if value ~= value or value == math.huge or value == -math.huge then return "n/a" end
    if value == math.floor(value) and math.abs(value) < 1e15 then return ("%.0f"):format(value) end
    local magnitude = math.abs(value)
    if magnitude >= 1e6 and magnitude < 1e15 then return ("%.0f"):format(value) end
    return ("%.6g"):format(value)
  end
  if type(value) == "table" then
    local words, flat = {}, #value == 0
    for _, key in ipairs(stats.keys(value)) do
      flat = flat and type(value[key]) ~= "table"
      words[#words + 1] = flat and ("%s %s"):format(key, text.value(value[key])) or nil
    end
    local word = flat and table.concat(words, ", ") or json.encode(value)
    return #word <= 60 and word or word:sub(1, 57) .. "..."
  end
  return tostring(value)
end

local longest = 64 -- characters of a cell
local head, middle = 26, 32 -- of a cell that shows where its text differs

--- Length of the common beginning of each long text and its most similar text, in bytes.
local function shared(words)
  local list, common = {}, {}
  for _, word in ipairs(words) do
    if #word > longest and not common[word] then list[#list + 1], common[word] = word, 0 end
  end
  table.sort(list)
  for i = 2, #list do
    local a, b, n = list[i - 1], list[i], 0
    while n < #a and a:byte(n + 1) == b:byte(n + 1) do n = n + 1 end
    common[a], common[b] = math.max(common[a], n), n
  end
  return common
end

--- Shortens the long texts of a column. Texts that begin alike keep the part where they differ.
local function shorten(words)
  local common = shared(words)
  for i, word in ipairs(words) do
    local n = common[word]
    if n and n < longest - 3 then
      words[i] = word:sub(1, longest - 3) .. "..."
    elseif n then
      local from = math.min(n - 4, #word - middle - 2)
      local last = from + middle + 2 == #word
      words[i] = word:sub(1, head) .. "..." .. (last and word:sub(from) or word:sub(from, from + middle - 1) .. "...")
    end
  end
end

local function is_array(t) return #t > 0 end

local function is_scalar(value) return type(value) ~= "table" or value == stats.null end

--- Lines of a table: columns are { {key=, title=} }, rows tables of values. `indent`: width that the caller puts before
--- each line.
function text.table(columns, rows, indent)
  local cells, align = { {} }, {}
  for r = 1, #rows do cells[r + 1] = {} end
  for c, column in ipairs(columns) do
    local words = {}
    cells[1][c], align[c] = column.title, "l"
    for r, row in ipairs(rows) do
      local value = row[column.key]
      words[r] = text.value(value):gsub("%c", " ")
      if type(value) == "number" then align[c] = "r" end
    end
    shorten(words)
    for r, word in ipairs(words) do cells[r + 1][c] = word end
  end
  local most = require("ett.host").columns
  return report_table.lines(cells, table.concat(align), nil, most and indent and most - indent)
end

local function columns_of(rows, first)
  local keys, columns = {}, { first and { key = first, title = first } }
  for _, row in ipairs(rows) do
    for key in pairs(row) do keys[key] = key ~= first or nil end
  end
  for _, name in ipairs(schema.keys(keys)) do columns[#columns + 1] = { key = name, title = name } end
  return columns
end

local leading = { "name", "kind", "step", "pair", "hlo_category", "group" }

local inner_indent = 4 -- of tables inside a result

local function array_lines(rows)
  if is_scalar(rows[1]) then
    local words = {}
    for i = 1, math.min(#rows, 24) do words[i] = text.value(rows[i]) end
    return { table.concat(words, ", ") .. (#rows > 24 and (", … (%d)"):format(#rows) or "") }
  end
  local first
  for _, name in ipairs(leading) do if rows[1][name] ~= nil then first = first or name end end
  return text.table(columns_of(rows, first), rows, inner_indent)
end

--- The same table with one line per field, for wide tables.
local function transposed(columns, rows)
  local heads, lines = { { key = "field", title = "" } }, {}
  for r, row in ipairs(rows) do heads[r + 1] = { key = r, title = row.key } end
  for c = 2, #columns do
    local line = { field = columns[c].title }
    for r, row in ipairs(rows) do
      local value = row[columns[c].key]
      line[r] = value == nil and stats.null or value
    end
    lines[c - 1] = line
  end
  return text.table(heads, lines, inner_indent)
end

local function map_lines(map)
  local rows, nested = {}, true
  for _, key in ipairs(stats.keys(map)) do
    local value = map[key]
    if is_scalar(value) or is_array(value) then nested = false end
    rows[#rows + 1] = { key = key, value = value }
  end
  if not nested then
    local lines = {}
    for _, line in ipairs(text.table({ { key = "key", title = "" }, { key = "value", title = "" } }, rows,
      inner_indent)) do
      if line ~= "" then lines[#lines + 1] = line end
    end
    return lines
  end
  for _, row in ipairs(rows) do
    local value = row.value
    row.value = nil
    for key, each in pairs(value) do row[key == "key" and "key_" or key] = each end
  end
  local columns = columns_of(rows, "key")
  columns[1].title = ""
  if #columns == 1 then return {} end
  if #columns > 9 and #rows <= 16 then return transposed(columns, rows) end
  return text.table(columns, rows, inner_indent)
end

--- Lines of a metric's result: numbers with their units, then tables.
function text.lines(result, units)
  local lines, scalars, tables = {}, {}, {}
  for _, key in ipairs(stats.keys(result)) do
    if is_scalar(result[key]) then scalars[#scalars + 1] = key else tables[#tables + 1] = key end
  end
  -- Fields with a unit come first.
  table.sort(scalars, function(a, b)
    local x, y = units[a] ~= nil, units[b] ~= nil
    if x ~= y then return x end
    return a < b
  end)
  local width = 0
  for _, key in ipairs(scalars) do width = math.max(width, #key) end
  for _, key in ipairs(scalars) do
    local unit = units[key]
    local word = text.value(result[key])
    lines[#lines + 1] = ("  %s%s  %s%s"):format(key, (" "):rep(width - #key), word,
      word ~= "n/a" and unit and unit ~= "count" and unit ~= "text" and " " .. unit or "")
  end
  for _, key in ipairs(tables) do
    local value = result[key]
    if next(value) ~= nil then
      local inner = is_array(value) and array_lines(value) or map_lines(value)
      if #inner == 1 and #inner[1] < 90 then
        lines[#lines + 1] = ("  %s: %s"):format(key, inner[1])
      elseif #inner > 0 then
        lines[#lines + 1] = "  " .. key .. ":"
        for _, line in ipairs(inner) do lines[#lines + 1] = (" "):rep(inner_indent) .. line end
      end
    end
  end
  return lines
end

--- One CSV line of count values; null and nil are empty cells.
function text.csv_row(values, count)
  local cells = {}
  for i = 1, count do
    local value = values[i]
    cells[i] = (value == nil or value == stats.null) and "" or type(value) == "string" and value or json.encode(value)
  end
  return report_table.csv{ cells }
end

--- Calls emit(path, value) for every scalar of a result, in sorted order; path joins keys with ".".
function text.walk(result, emit, prefix)
  for _, key in ipairs(stats.keys(result)) do
    local value = result[key]
    local path = prefix and prefix .. "." .. tostring(key) or tostring(key)
    if is_scalar(value) then emit(path, value) else text.walk(value, emit, path) end
  end
end

return text
