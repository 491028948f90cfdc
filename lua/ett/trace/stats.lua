--- Statistics shared by metrics, and the null value of their results.
local bulk = require "ett.bulk"
local json = require "ett.json"
local median = require "ett.base.median"

local stats = {}

--- An unknown value in a result ("n/a" in tables, null in JSON).
stats.null = json.null

--- Rows of a table without --top.
stats.default_top = 20

--- The value, or null.
function stats.known(value)
  if value == nil or value ~= value then return json.null end
  return value
end

--- a / b, or null when b is 0.
function stats.ratio(a, b)
  if b == 0 then return json.null end
  return a / b
end

--- A list for a result: also an empty one is a list in JSON.
stats.list = json.array

--- Sum of a list (float).
function stats.sum(list)
  local sum = 0.0
  for _, value in ipairs(list) do sum = sum + value end
  return sum
end

--- Mean of a list, or null when it is empty.
function stats.mean(list)
  if #list == 0 then return json.null end
  return stats.sum(list) / #list
end

--- Sample standard deviation (n - 1); 0 for fewer than two values.
function stats.deviation(list)
  if #list < 2 then return 0.0 end
  local mean, sum = stats.sum(list) / #list, 0.0
  for _, value in ipairs(list) do sum = sum + (value - mean) ^ 2 end
  return math.sqrt(sum / (#list - 1))
end

function stats.sorted(list)
  local sorted = #list > 64 and bulk.sorted(list)
  if sorted then return sorted end
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy)
  return copy
end

--- The value at position floor(share * n), counted from 0, of a sorted list; null when empty.
function stats.percentile(sorted, share)
  local n = #sorted
  if n == 0 then return json.null end
  return sorted[math.min(n, math.floor(share * n) + 1)]
end

--- Median of a list (mean of the middle two), or null.
function stats.median(list) return median(stats.sorted(list), true) or json.null end

function stats.keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local x, y = tonumber(a), tonumber(b)
    if x and y and x ~= y then return x < y end
    if (x == nil) ~= (y == nil) then return x ~= nil end
    return tostring(a) < tostring(b)
  end)
  return keys
end

--- Columns of a selection by name: stats.columns(rows, { "ts", "dur" }).ts[1] (false where absent).
---@param selection any a selection of ett.trace
---@param fields string[] column names, or args requested when the trace was opened
function stats.columns(selection, fields)
  local arrays, out = table.pack(selection:columns(fields)), {}
  for i, field in ipairs(fields) do out[field] = arrays[i] end
  return out
end

function stats.count(t, key, amount) t[key] = (t[key] or 0) + (amount or 1) end

return stats
