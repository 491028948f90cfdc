--- Reads the part of TOML that torchtitan's files use: [tables], NAME = a number, a boolean, a text or a list of these
--- on one line, and comments. Raises an error with the line for the rest of TOML.
local error_module = require "ett.base.error"

local words = { ["true"] = true, ["false"] = false, inf = math.huge, ["+inf"] = math.huge, ["-inf"] = -math.huge }

--- The value at a position, and the position behind it; nil where there is none.
local function value_at(text, at)
  local inside, behind = text:match('^"([^"\\]*)"()', at)
  if not inside then inside, behind = text:match("^'([^']*)'()", at) end
  if inside then return inside, behind end
  local word
  word, behind = text:match("^([%w_%.%+%-]+)()", at)
  if word and words[word] ~= nil then return words[word], behind end
  return word and tonumber((word:gsub("_", ""))), behind
end

local function list_at(text, at)
  local list = {}
  at = text:match("^%[%s*()", at)
  while text:sub(at, at) ~= "]" do
    local value, behind = value_at(text, at)
    if value == nil then return nil end
    list[#list + 1], at = value, text:match("^%s*,?%s*()", behind)
  end
  return list, at + 1
end

--- The document as tables by name; those of [a.b] stand under "a.b".
---@param text string
---@return table<string, table>
return function(text)
  local document, number = { [""] = {} }, 0
  local current = document[""]
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    number = number + 1
    local name, at = line:match "^%s*([%w_%-]+)%s*=%s*()"
    local section, behind = line:match "^%s*%[([%w_%-%.]+)%]()"
    local value
    if section then
      document[section] = document[section] or {}
      current = document[section]
    elseif name then
      value, behind = (line:sub(at, at) == "[" and list_at or value_at)(line, at)
      current[name] = value
    end
    if name and value == nil or not line:find("^%s*$", behind or 1) and not line:find("^%s*#", behind or 1) then
      error_module.raise("format", "line %d: expected [TABLE] or NAME = VALUE, got '%s'", number, line)
    end
  end
  return document
end
