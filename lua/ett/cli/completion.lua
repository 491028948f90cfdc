--- Completes Lua names before the cursor. It reads values but calls no functions or metamethods.
local completion = {}

local keywords = { "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
  "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while" }

local function fields_of(value, methods_only, into)
  local seen = 0
  while value ~= nil and seen < 8 do
    if type(value) == "table" then
      for key, item in next, value do
        if type(key) == "string" and key:match("^[%a_][%w_]*$") and (not methods_only or type(item) == "function") then
          into[key] = true
        end
      end
    end
    local meta = debug.getmetatable(value)
    value = type(meta) == "table" and rawget(meta, "__index") or nil
    seen = seen + 1
  end
end

local function field(value, name)
  for _ = 1, 8 do
    if type(value) == "table" then
      local item = rawget(value, name)
      if item ~= nil then return item end
    end
    local meta = debug.getmetatable(value)
    value = type(meta) == "table" and rawget(meta, "__index") or nil
    if value == nil then return nil end
  end
  return nil
end

--- Names of ett's modules with a prefix: public modules for "", those of a folder for "ett." or "ett.step.".
local function module_names(into, prefix)
  if prefix == "" then
    for _, name in ipairs(require("ett").names()) do into[name] = true end
    return
  end
  local found, lfs = pcall(require, "lfs")
  for name in pairs(package.preload) do
    if name:sub(1, #prefix) == prefix and name:match("^ett%.[%w_]+$") then into[name] = true end
  end
  if not found then return end
  local host = require "ett.host"
  local inside = prefix:gsub("%.", "/")
  for folder, ending in pairs { [host.root .. "/lua/" .. inside] = "%.lua$", [host.prefix .. "/lib/ett/" .. inside] =
    "%.so$" } do
    if lfs.attributes(folder, "mode") == "directory" then
      for entry in lfs.dir(folder) do
        local name = entry:gsub(ending, "")
        if name:match("^[%w_]+$") and name ~= "init" then into[prefix .. name] = true end
      end
    end
  end
end

local function lookup(env, name)
  local value = rawget(env, name)
  if value == nil then value = rawget(_G, name) end
  if value == nil and name == "ett" then return require "ett" end
  local module = value == nil and require("ett").module(name)
  if module then
    local ok, loaded = pcall(require, module)
    if ok then value = loaded end
  end
  return value
end

local function candidates(text, env)
  local names = {}
  local quoted = text:match("require%s*%(?%s*[\"']([%w_%.]*)$")
  if quoted then
    module_names(names, quoted:match("^ett%.[%w_%.]*%.") or "ett.")
    return names, quoted
  end
  local path, last = text:match("([%a_][%w_%.]*[%.:])([%w_]*)$")
  if path then
    local methods_only = path:sub(-1) == ":"
    local value
    for name in path:gmatch("[%a_][%w_]*") do
      if value == nil then
        value = lookup(env, name)
      elseif value == package.loaded.ett then
        value = field(value, name) or lookup({}, name)
      else
        value = field(value, name)
      end
      if value == nil then return names, last end
    end
    if value == package.loaded.ett then module_names(names, "") end
    fields_of(value, methods_only, names)
    return names, last
  end
  last = text:match("([%a_][%w_]*)$")
  if not last then return names, "" end
  for _, word in ipairs(keywords) do names[word] = true end
  fields_of(env, false, names)
  fields_of(_G, false, names)
  module_names(names, "")
  return names, last
end

--- Sorted completions of the last word of the text, and the number of characters already typed.
---@return string[] names, integer typed
function completion.names(text, env)
  local set, start = candidates(text, env)
  local names = {}
  for name in pairs(set) do if name:sub(1, #start) == start then names[#names + 1] = name end end
  table.sort(names)
  return names, #start
end

local function common_prefix(names)
  local first, last = names[1], names[#names]
  local length = 0
  while length < #first and first:byte(length + 1) == last:byte(length + 1) do length = length + 1 end
  return first:sub(1, length)
end

--- The text that Tab inserts, and the list to show if several names fit; nil for none.
---@return string? insert, string? list
function completion.complete(text, env)
  local names, typed = completion.names(text, env)
  if #names == 0 then return nil, nil end
  local prefix = common_prefix(names)
  if #prefix > typed then return prefix:sub(typed + 1), nil end
  if #names == 1 then return nil, nil end
  local shown = table.move(names, 1, math.min(#names, 100), 1, {})
  if #names > 100 then shown[101] = ("... %d more"):format(#names - 100) end
  return nil, table.concat(shown, "  ")
end

return completion
