--- Hjson as JSON, for files of DeepSpeed, which reads them with hjson.load (deepspeed/runtime/config.py). Line ends and
--- faults stay in the text, so that the reader of JSON names the line of a fault.
--
--   hjson "{ zero_optimization: { stage: 3 } # all\n}" --> '{ "zero_optimization": { "stage": 3 }      \n}'
--
-- As in hjson/decoder.py: comments (#, // and /* */), commas at the end or none, names and texts without quotes or with
-- single ones, and an object without its braces. A text without quotes ends with its line. Texts of several lines in
-- ''' are not read.
local json = require "ett.json"

--- The position behind spaces and comments.
local function skipped(text, at)
  repeat
    local from = at
    at = text:match("^%s*()", at)
    at = text:match("^#[^\n]*()", at) or text:match("^//[^\n]*()", at) or text:match("^/%*.-%*/()", at) or at
  until at == from
  return at
end

-- The characters that JSON writes differently, in a text between single quotes.
local of_single = { ["\\'"] = "'", ['"'] = '\\"' }

--- A text between quotes as JSON, and the position behind it; nil for others.
local function quoted_at(text, at)
  local quote = text:match("^[\"']", at)
  if not quote then return nil end
  local plain = ("^[^%s\\]*()"):format(quote)
  local last = text:match(plain, at + 1)
  while text:sub(last, last) == "\\" do last = text:match(plain, last + 2) or #text + 1 end
  local behind = math.min(last, #text) + 1
  if quote == '"' then return text:sub(at, behind - 1), behind end
  if last > #text then return nil end
  return '"' .. text:sub(at + 1, last - 1):gsub("\\?.", of_single) .. '"', behind
end

--- The JSON of a value that is no object and no list, and the position behind it.
local function value_at(text, at)
  local value, behind = quoted_at(text, at)
  if value then return value, behind end
  value, behind = text:match("^([%w%.+-]+)[ \t\r]*()", at)
  local ends = behind and (behind > #text or text:find("^[\n,}%]#]", behind) or text:find("^/[/*]", behind))
  local plain = value == "true" or value == "false" or value == "null"
    or value and value:find "^-?%d+%.?%d*[eE]?[+-]?%d*$" and not value:find "^-?0%d" and tonumber(value)
  if ends and plain then return value, behind end
  value, behind = text:match("^([^\n]*)()", at)
  return json.encode((value:gsub("%s+$", ""))), behind
end

-- The name of a field at a position, as JSON, and the position behind it; nil for none.
local function name_at(text, at)
  local name, behind = quoted_at(text, at)
  if name then return name, behind end
  name, behind = text:match("^([^%s:{}%[%],\"]+)()", at)
  return name and json.encode(name), behind
end

--- Adds the next part at a position. `open`: the open objects and lists, { object =, filled =, comma =, named = }.
---@return integer behind
local function step(text, at, parts, open)
  local sign, inside = text:sub(at, at), open[#open]
  local function add(part) parts[#parts + 1] = part end
  if sign == "}" or sign == "]" then
    open[#open] = nil
    add(sign)
    return at + 1
  elseif not inside and parts.root or sign == ":" and not (inside and inside.named) then -- a fault
    add(sign)
    return at + 1
  elseif sign == "," then
    add(inside and inside.filled and not (inside.comma or inside.named) and " " or ",")
    if inside then inside.comma = true end
    return at + 1
  end
  parts.root = true
  if inside and inside.object and not inside.named then
    local name, behind = name_at(text, at)
    add((inside.filled and "," or "") .. (name or sign))
    local colon = skipped(text, behind or at + 1)
    inside.named = name and text:sub(colon, colon) == ":"
    if inside.named then add ":" end
    return inside.named and colon + 1 or behind or at + 1
  end
  if inside then
    if inside.filled and not inside.object then add "," end
    inside.filled, inside.named, inside.comma = true, nil, nil
  end
  if sign == "{" or sign == "[" then
    open[#open + 1] = { object = sign == "{" }
    add(sign)
    return at + 1
  end
  local value, behind = value_at(text, at)
  add(value)
  return behind
end

---@param text string
---@return string
return function(text)
  local parts, open = {}, {}
  local at = skipped(text, 1)
  local name, behind = name_at(text, at)
  local bare = name and text:find("^:", skipped(text, behind))
  if bare then open[1], parts[1], parts.root = { object = true }, "{", true end
  parts[#parts + 1] = text:sub(1, at - 1):gsub("[^\n]", " ")
  while at <= #text do
    behind = step(text, at, parts, open)
    at = skipped(text, behind)
    parts[#parts + 1] = text:sub(behind, at - 1):gsub("[^\n]", " ")
  end
  if bare then parts[#parts + 1] = "}" end
  return table.concat(parts)
end
