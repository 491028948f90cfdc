--- Encodes the rows of a search as compact columns for a page's script.
--
-- A field is a list of its values and a code of one or two bytes per row. Seconds and bytes are quantised to 16 bits
-- on a logarithmic scale between their minimum and maximum; the last code is a missing value. A measure equal to step
-- seconds, or their inverse, times one of a few factors is stored as these factors. Rows are sorted by their fields, so
-- that neighbours are similar.
local json = require "ett.json"
local tables = require "ett.report.table"

local columns = {}

local most_factors = 256

--- The value of a field as a row's filter shows it: lists as text, "" for none.
local function key_of(row, name)
  local value = row[name]
  if value == nil then return "" end
  return type(value) == "table" and tables.value(value) or value
end

--- The sorted distinct values of a field, and the code of each row, counted from 0.
local function codes_of(rows, name)
  local seen, values = {}, {}
  for _, row in ipairs(rows) do
    local key = key_of(row, name)
    if seen[key] == nil then seen[key], values[#values + 1] = true, key end
  end
  table.sort(values, function(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    if type(a) == "boolean" then return b and not a end
    return a < b
  end)
  local index, codes = {}, {}
  for i, value in ipairs(values) do index[value] = i - 1 end
  for i, row in ipairs(rows) do codes[i] = index[key_of(row, name)] end
  return values, codes
end

--- Numbers below 65536 as bytes: all low bytes, then all high bytes if any are needed.
local function bytes_of(codes, wide)
  local parts = {}
  for shift = 0, wide and 8 or 0, 8 do
    local list = {}
    for i = 1, #codes do list[i] = codes[i] >> shift & 255 end
    for i = 1, #list, 128 do parts[#parts + 1] = string.char(table.unpack(list, i, math.min(i + 127, #list))) end
  end
  return table.concat(parts)
end

local function permuted(codes, order)
  local list = {}
  for i, k in ipairs(order) do list[i] = codes[k] end
  return list
end

local function order_of(fields, count)
  local keys, scale = {}, 1
  for i = 1, count do keys[i] = 0 end
  for f = #fields, 1, -1 do
    local codes, size = fields[f].codes, #fields[f].values
    if scale > (1 << 38) // size then break end
    for i = 1, count do keys[i] = keys[i] + codes[i] * scale end
    scale = scale * size
  end
  for i = 1, count do keys[i] = keys[i] << 24 | i end
  table.sort(keys)
  for i = 1, count do keys[i] = keys[i] & 0xffffff end
  return keys
end

--- A measure as factors of step seconds: { power, values, codes }, or nil.
local function factors_of(rows, name)
  for power = -1, 1, 2 do
    local index, values, codes = {}, {}, {}
    for i, row in ipairs(rows) do
      local value = row[name]
      if type(value) ~= "number" then return nil end
      local factor = power == 1 and value / row.step_seconds or value * row.step_seconds
      local key = ("%.9g"):format(factor)
      local code = index[key]
      if not code then
        if #values >= most_factors then break end
        values[#values + 1] = factor
        code = #values - 1
        index[key] = code
      end
      codes[i] = code
    end
    if #codes == #rows then return { power = power, values = values, codes = codes } end
  end
end

local missing = 65535

--- A positive measure, quantised to 16 bits of its logarithm. nil if no row has a value, or a value is not positive.
local function steps_of(rows, name)
  local low, high = math.huge, 0.0
  for _, row in ipairs(rows) do
    local value = row[name]
    if value ~= nil then
      if type(value) ~= "number" or value <= 0 or value == math.huge then return nil end
      low, high = math.min(low, value), math.max(high, value)
    end
  end
  if high == 0 then return nil end
  local step = math.log(high / low) / (missing - 1)
  local codes = {}
  for i, row in ipairs(rows) do
    local value = row[name]
    codes[i] = value == nil and missing or step > 0 and math.floor(math.log(value / low) / step + 0.5) or 0
  end
  return { low = low, step = step, codes = codes }
end

--- Packs rows into a page.
---@param page table from ett.report.page
---@param rows table[] each with step_seconds
---@param fields string[] names of the fields, @param measures string[] names of the numbers
---@return table for the script, integer[] order of the rows: position -> index
function columns.pack(page, rows, fields, measures)
  local out, used = { count = #rows, fields = {}, measures = {}, fixed = {} }, {}
  for _, name in ipairs(fields) do
    local values, codes = codes_of(rows, name)
    if #values == 1 then
      out.fixed[#out.fixed + 1] = json.array { name, values[1] }
    elseif #values <= 65536 then
      used[#used + 1] = { name = name, values = values, codes = codes }
    end
  end
  local order = order_of(used, #rows)
  for i, f in ipairs(used) do
    local wide = #f.values > 256
    out.fields[i] = { name = f.name, values = json.array(f.values), wide = wide,
      blob = page:pack(bytes_of(permuted(f.codes, order), wide)) }
  end
  for _, name in ipairs(measures) do
    local factors = name ~= "step_seconds" and factors_of(rows, name)
    local m = { name = name }
    if factors then
      m.power, m.values = factors.power, json.array(factors.values)
      m.blob = page:pack(bytes_of(permuted(factors.codes, order), false))
    else
      local steps = steps_of(rows, name)
      if steps then
        m.low, m.step = steps.low, steps.step
        m.blob = page:pack(bytes_of(permuted(steps.codes, order), true))
      end
    end
    if m.blob then out.measures[#out.measures + 1] = m end
  end
  out.fields, out.measures, out.fixed = json.array(out.fields), json.array(out.measures), json.array(out.fixed)
  return out, order
end

return columns
