--- Command-line options, declared as data: parsing and help text.
--
--   options = {
--     { "cluster", "NAME", "cluster to predict on", default = "perlmutter" },
--     { "json", "print JSON" },                       -- a flag: two entries
--     { "n", "N", "how many", kind = "count", short = "n" },
--   }
--
-- Kinds: string (the default), number (finite), positive (above 0), integer, count (from 1). Every command has --help
-- and --traceback. Undeclared options are refused.
local error_module = require "ett.base.error"

local options = {}

local suffixes = { k = 1e3, K = 1e3, M = 1e6, G = 1e9, T = 1e12, P = 1e15,
  Ki = 2 ^ 10, Mi = 2 ^ 20, Gi = 2 ^ 30, Ti = 2 ^ 40 }

--- "4096", "4k", "80G", "1.26e9" as a number (integers stay integers), or nil.
function options.number(text)
  local value = tonumber(text)
  if value and not text:match("^%s*0[xX]") then
    return (math.type(value) == "float" and math.tointeger(value)) or value
  end
  local digits, suffix = text:match("^([%d%.eE%+%-]+)(%a+)$")
  if digits and suffixes[suffix] and tonumber(digits) then
    value = tonumber(digits) * suffixes[suffix]
    return math.tointeger(value) or value
  end
  return nil
end

--- A command-line value: a number, true, false or the text itself.
function options.value(text)
  if text == "true" then return true end
  if text == "false" then return false end
  local number = options.number(text)
  if number ~= nil then return number end
  return text
end

local function finite(text)
  local value = options.number(text)
  return value and value - value == 0 and value or nil
end

local function integer(text)
  local value = options.number(text)
  return value and math.tointeger(value)
end

local function above(least, read)
  return function(text)
    local value = read(text)
    return value and value > least and value or nil
  end
end

local convert = { string = function(text) return text end, number = finite, positive = above(0, finite),
  integer = integer, count = above(0, integer) }

local wanted = { number = "a number", positive = "a number above 0", integer = "an integer",
  count = "a positive integer" }

local common = { "help", "traceback" }

--- Parses argv against the declared options: returns opts, positional.
--- `--name value`, `--name=value`, `--`; `name=value` words are positional.
function options.parse(declared, argv, command)
  local by_name, names, opts, positional = {}, {}, {}, {}
  for _, option in ipairs(declared or {}) do
    local flag = #option == 2
    local entry = { name = option[1], flag = flag, kind = option.kind or "string", many = option.many,
      key = option[1]:gsub("%-", "_") }
    by_name["--" .. option[1]] = entry
    if option.short then by_name["-" .. option.short] = entry end
    names[#names + 1] = "--" .. option[1]
    if option.default ~= nil then opts[entry.key] = option.default end
  end
  for _, name in ipairs(common) do
    local long = "--" .. name
    if not by_name[long] then
      by_name[long] = { name = name, key = name, flag = true }
      names[#names + 1] = long
    end
  end
  by_name["-h"] = by_name["-h"] or by_name["--help"]
  local i = 1
  while i <= #argv do
    local word = argv[i]
    if word == "--" then
      for k = i + 1, #argv do positional[#positional + 1] = argv[k] end
      break
    elseif word:match("^%-%-?%a") then
      local name, value = word:match("^(%-%-[^=]+)=(.*)$")
      local entry = by_name[name or word]
      if not entry then
        error_module.raise("usage", "%s: unknown option '%s'%s", command, name or word,
          error_module.suggestion(name or word, names))
      end
      if entry.flag then
        if value then error_module.raise("usage", "%s: option '%s' takes no value", command, name) end
        opts[entry.key] = true
      else
        if not value then
          i = i + 1
          value = argv[i]
          if value == nil then error_module.raise("usage", "%s: option '%s' needs a value", command, word) end
        end
        local clean = convert[entry.kind](value)
        if clean == nil then
          error_module.raise("usage", "%s: option '--%s' must be %s, got '%s'", command, entry.name,
            wanted[entry.kind], value)
        end
        if entry.many then
          opts[entry.key] = opts[entry.key] or {}
          table.insert(opts[entry.key], clean)
        else
          opts[entry.key] = clean
        end
      end
    else
      positional[#positional + 1] = word
    end
    i = i + 1
  end
  return opts, positional
end

--- Words NAME=VALUE as a table of texts. Other words, and a name given twice, are refused.
---@param words string[]
---@param label string the command or script, for messages
---@param hint string? appended to the message about another word
---@return table<string, string>
function options.words(words, label, hint)
  local by_name = {}
  for _, word in ipairs(words) do
    local name, text = word:match("^([%a_][%w_%.]*)=(.*)$")
    if not name then
      error_module.raise("usage", "%s: wanted NAME=VALUE, got '%s'%s", label, word, hint or "")
    end
    if by_name[name] then error_module.raise("usage", "%s: '%s' is given twice", label, name) end
    by_name[name] = text
  end
  return by_name
end

--- The aligned option lines of a help text.
function options.help(declared)
  local lines, width = {}, 0
  local function add(left, text)
    lines[#lines + 1] = { left, text }
    width = math.max(width, #left)
  end
  local has = {}
  for _, option in ipairs(declared or {}) do
    has[option[1]] = true
    local left = (option.short and "-" .. option.short .. ", " or "") .. "--" .. option[1]
    if #option == 3 then left = left .. " " .. option[2] end
    local text = option[#option]
    if option.default ~= nil then text = ("%s (default %s)"):format(text, tostring(option.default)) end
    add(left, text)
  end
  if not has.help then add("--help", "print this help") end
  if not has.traceback then add("--traceback", "print where an error was raised") end
  for i, line in ipairs(lines) do
    lines[i] = ("  %-" .. width .. "s  %s"):format(line[1], line[2])
  end
  return table.concat(lines, "\n")
end

return options
