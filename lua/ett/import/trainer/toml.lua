--- Reads the part of TOML that torchtitan's files use: [tables], NAME = a number, a boolean, a text or a list of these,
--- and comments. A list may extend over lines. Raises an error with the line for the rest of TOML.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local words = { ["true"] = true, ["false"] = false, inf = math.huge, ["+inf"] = math.huge, ["-inf"] = -math.huge }

--- The position behind spaces, ends of lines and comments.
local function skipped(text, at)
  repeat
    local from = at
    at = text:match("^%s*()", at)
    at = text:match("^#[^\n]*()", at) or at
  until at == from
  return at
end

--- The value at a position, and the position behind it; nil where there is none.
local function value_at(text, at)
  local inside, behind = text:match('^"([^"\\\n]*)"()', at)
  if not inside then inside, behind = text:match("^'([^'\n]*)'()", at) end
  if inside then return inside, behind end
  local word
  word, behind = text:match("^([%w_%.%+%-]+)()", at)
  if word and words[word] ~= nil then return words[word], behind end
  return word and tonumber((word:gsub("_", ""))), behind
end

local function list_at(text, at)
  local list = {}
  at = skipped(text, at + 1)
  while text:sub(at, at) ~= "]" do
    local value, behind = value_at(text, at)
    if value == nil then return nil end
    list[#list + 1], at = value, skipped(text, behind)
    if text:sub(at, at) == "," then
      at = skipped(text, at + 1)
    elseif text:sub(at, at) ~= "]" then
      return nil
    end
  end
  return list, at + 1
end

local function refuse(text, at)
  local _, lines_before = text:sub(1, at - 1):gsub("\n", "")
  error_module.raise("format", "line %d: expected [TABLE] or NAME = VALUE, got %s", lines_before + 1,
    schema.describe(text:match("^[^\r\n]*", at)))
end

--- The document as tables by name; those of [a.b] stand under "a.b".
---@param text string
---@return table<string, table>
return function(text)
  local document = { [""] = {} }
  local current = document[""]
  local at = skipped(text, 1)
  while at <= #text do
    local section, behind = text:match("^%[([%w_%-%.]+)%]()", at)
    if section then
      document[section] = document[section] or {}
      current = document[section]
    else
      local name, value_start = text:match("^([%w_%-]+)[ \t]*=[ \t]*()", at)
      if not name then refuse(text, at) end
      local value
      value, behind = (text:sub(value_start, value_start) == "[" and list_at or value_at)(text, value_start)
      if value == nil then refuse(text, at) end
      current[name] = value
    end
    if not text:find("^[ \t]*\r?\n", behind) and not text:find("^[ \t]*#", behind)
      and not text:find("^[ \t]*\r?$", behind) then refuse(text, at) end
    at = skipped(text, behind)
  end
  return document
end
