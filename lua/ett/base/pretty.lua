--- Formats any value as text for people: sorted keys, limited depth and length, marked cycles. For programs use
--- ett.json.
local pretty = {}

local limits = { width = 100, depth = 6, entries = 200, text = 2000 }

local function number_text(value)
  if math.type(value) == "integer" then return tostring(value) end
  if value ~= value then return "nan" end
  if value == math.huge or value == -math.huge then return value > 0 and "inf" or "-inf" end
  return ("%.6g"):format(value)
end

local function key_text(key)
  if type(key) == "string" then
    if key:match("^[%a_][%w_]*$") then return key end
    return ("[%q]"):format(key):gsub("\n", "n")
  end
  return "[" .. tostring(key) .. "]"
end

--- Keys in a fixed order: numbers, strings, the rest.
local function sorted_keys(t)
  local rank = { number = 1, string = 2 }
  local keys = {}
  for key in next, t do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local ra, rb = rank[type(a)] or 3, rank[type(b)] or 3
    if ra ~= rb then return ra < rb end
    if ra < 3 then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

local function scalar(value)
  if type(value) == "number" then return number_text(value) end
  if type(value) == "string" then
    local text = #value > limits.text and value:sub(1, limits.text) .. "..." or value
    return '"' .. text:gsub('[%c"\\]', function(c)
      return ({ ["\n"] = "\\n", ["\t"] = "\\t", ['"'] = '\\"', ["\\"] = "\\\\" })[c] or ("\\%d"):format(c:byte())
    end) .. '"'
  end
  return tostring(value)
end

local show

local function custom(value)
  local meta = getmetatable(value)
  if type(meta) ~= "table" or not meta.__tostring then return nil end
  local ok, text = pcall(tostring, value)
  return ok and text or ("<%s: its __tostring failed>"):format(type(value))
end

local function entries(t, indent, depth, open)
  local parts, count = {}, 0
  local length = #t
  for i = 1, length do
    if count == limits.entries then break end
    count = count + 1
    parts[count] = show(rawget(t, i), indent .. "  ", depth + 1, open)
  end
  for _, key in ipairs(sorted_keys(t)) do
    if count == limits.entries then break end
    if not (math.type(key) == "integer" and key >= 1 and key <= length) then
      count = count + 1
      parts[count] = key_text(key) .. " = " .. show(rawget(t, key), indent .. "  ", depth + 1, open)
    end
  end
  if count == limits.entries then
    local total = 0
    for _ in next, t do total = total + 1 end
    if total > count then parts[count + 1] = ("... %d more"):format(total - count) end
  end
  return parts
end

show = function(value, indent, depth, open)
  if type(value) ~= "table" then return custom(value) or scalar(value) end
  local own = depth > 0 and custom(value)
  if own then return own:find("\n", 1, true) and "<" .. own:match("[^\n]*") .. " ...>" or own end
  if open[value] then return "<cycle>" end
  if next(value) == nil then return "{}" end
  if depth >= limits.depth then return "{...}" end
  open[value] = true
  local parts = entries(value, indent, depth, open)
  open[value] = nil
  local line = "{ " .. table.concat(parts, ", ") .. " }"
  if #line + #indent <= limits.width and not line:find("\n", 1, true) then return line end
  return "{\n" .. indent .. "  " .. table.concat(parts, ",\n" .. indent .. "  ") .. ",\n" .. indent .. "}"
end

--- Text with control characters other than tab and newline shown as \xNN, and invisible ones as \u{N}. Names from
--- untrusted files must not reach the terminal as control sequences, nor change the order of the shown text.
---@param text string
---@return string
function pretty.plain(text) return text:find "[^\n -~]" and require("ett.io").plain(text) or text end

--- The same in one line: newlines and tabs are shown as \xNN, too. For names of files in messages of one line.
---@param text string
---@return string
function pretty.line(text)
  return (pretty.plain(text):gsub("[\n\t]", function(c) return ("\\x%02x"):format(c:byte()) end))
end

--- A value as text: objects by their __tostring, tables with sorted keys, strings bare.
---@return string
function pretty.show(value)
  if type(value) == "string" then return value end
  return custom(value) or show(value, "", 0, {})
end

--- The same with quoted strings, as in the REPL.
---@return string
function pretty.value(value) return custom(value) or show(value, "", 0, {}) end

--- A value in one short line, for headings and defaults.
---@return string
function pretty.inline(value)
  if type(value) == "string" then return value end
  local text = show(value, "", 0, {}):gsub("%s*\n%s*", " ")
  return #text > 80 and text:sub(1, 77) .. "..." or text
end

return pretty
