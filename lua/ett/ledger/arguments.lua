--- Flags as the two programs take them: `--flag value`, `--flag=value`, any unambiguous
--- prefix, switches without a value; a repeated flag's last value counts.
--
-- A flag is { name, kind [, default] [, required=] [, choices=] [, extension=] [, help=] };
-- kind "int", "float", "text", "choice" or "switch". Extensions are ett's own: they never
-- make a prefix of the others ambiguous.
local error_module = require "ett.base.error"

local arguments = {}

local function usage(program, format, ...)
  error_module.raise("usage", "%s: %s; `ett %s --help` lists the flags", program, format:format(...), program)
end

local function digits(text)
  if text:find("__", 1, true) then return nil end
  local plain = text:gsub("(%d)_(%d)", "%1%2"):gsub("(%d)_(%d)", "%1%2")
  return not plain:find("_", 1, true) and plain or nil
end

--- A whole number as the programs read it ("1_000", " +5 "), or nil.
function arguments.int(text)
  local plain = digits(text:match("^%s*(.-)%s*$"))
  if not plain or not plain:match("^[+-]?%d+$") then return nil end
  plain = plain:gsub("^%+", "")
  return math.tointeger(tonumber(plain)) or tonumber(plain)
end

--- A number, "inf" and "nan" included, or nil.
function arguments.float(text)
  local plain = digits(text:match("^%s*(.-)%s*$"):lower())
  if not plain then return nil end
  local sign, word = plain:match("^([+-]?)(%a+)$")
  if word == "inf" or word == "infinity" then return sign == "-" and -math.huge or math.huge end
  if word == "nan" then return 0 / 0 end
  if not plain:match("^[+-]?%d*%.?%d*e?[+-]?%d*$") then return nil end
  local value = tonumber((plain:gsub("^%+", "")))
  return value and value + 0.0
end

local function starts(text, prefix) return text:sub(1, #prefix) == prefix end

local function lookup(program, flags, word)
  local found, extensions = {}, {}
  for _, flag in ipairs(flags) do
    if flag[1] == word then return flag end
    if starts(flag[1], word) then table.insert(flag.extension and extensions or found, flag) end
  end
  if #found == 0 then found = extensions end
  if #found > 1 then
    local names = {}
    for i, flag in ipairs(found) do names[i] = flag[1] end
    usage(program, "ambiguous option: '%s' could be %s", word, table.concat(names, ", "))
  end
  return found[1]
end

local function convert(program, flag, text)
  local kind = flag[2]
  if kind == "int" or kind == "float" then
    local value = arguments[kind](text)
    if value == nil then
      usage(program, "%s must be %s, got '%s'", flag[1], kind == "int" and "a whole number" or "a number", text)
    end
    return value
  elseif kind == "choice" then
    for _, choice in ipairs(flag.choices) do
      if choice == text then return text end
    end
    usage(program, "%s must be one of %s, got '%s'%s", flag[1], table.concat(flag.choices, ", "), text,
      #text > 1 and error_module.suggestion(text, flag.choices) or "")
  end
  return text
end

local function is_value(word)
  if word == nil or word == "--" then return false end
  if not starts(word, "-") or word == "-" then return true end
  return word:match("^%-%d+$") or word:match("^%-%d*%.%d+$") or (word:find(" ", 1, true) and not word:find("^%-%-"))
end

--- Parses argv; returns { [name without dashes] = value, given = { [name] = true } }.
--- Raises "usage" errors. `--help` gives { help = true }.
function arguments.parse(program, flags, argv)
  local values, stray = { given = {} }, {}
  for _, flag in ipairs(flags) do
    local key = flag[1]:sub(3):gsub("%-", "_")
    values[key] = flag[2] == "switch" and false or flag[3]
    if flag[2] ~= "switch" and flag[3] == nil then values[key] = nil end
  end
  local i = 1
  while i <= #argv do
    local word = argv[i]
    local name, explicit = word:match("^(%-%-[^=]+)=(.*)$")
    name = name or word
    if name == "--help" or name == "-h" then return { help = true } end
    local flag = starts(name, "--") and #name > 2 and lookup(program, flags, name)
    if not flag then
      stray[#stray + 1] = word
    elseif flag[2] == "switch" then
      if explicit then usage(program, "%s takes no value, got '%s'", flag[1], explicit) end
      local key = flag[1]:sub(3):gsub("%-", "_")
      values[key], values.given[key] = true, true
    else
      local text = explicit
      if not text then
        i = i + 1
        text = argv[i]
        if not is_value(text) then usage(program, "%s needs a value", flag[1]) end
      end
      local key = flag[1]:sub(3):gsub("%-", "_")
      values[key], values.given[key] = convert(program, flag, text), true
    end
    i = i + 1
  end
  local missing = {}
  for _, flag in ipairs(flags) do
    if flag.required and not values.given[flag[1]:sub(3)] then missing[#missing + 1] = flag[1] end
  end
  if #missing > 0 then usage(program, "missing %s", table.concat(missing, ", ")) end
  if #stray > 0 then
    local names = {}
    for j, flag in ipairs(flags) do names[j] = flag[1] end
    usage(program, "unknown argument '%s'%s", stray[1], error_module.suggestion(stray[1], names))
  end
  return values
end

--- Sentences about numbers that no run can have: too large to be exact, or not finite.
function arguments.unusable(flags, values)
  local found = {}
  for _, flag in ipairs(flags) do
    local name = flag[1]:sub(3)
    local value = values[name]
    if flag[2] == "int" and value and math.abs(value) > 2 ^ 53 then
      found[#found + 1] = { text = ("%s must be at most 2^53, got %.17g"):format(name, value) }
    elseif flag[2] == "float" and value and (value ~= value or math.abs(value) == math.huge) then
      found[#found + 1] = { text = ("%s must be finite, got %s"):format(name, value ~= value and "nan" or value) }
    elseif flag.positive and value and value <= 0 then
      found[#found + 1] = { text = ("%s must be greater than 0, got %.17g"):format(name, value) }
    end
  end
  return found
end

--- The help text made from the flags.
function arguments.help(program, summary, flags)
  local lines = { ("usage: ett %s --flag value ...\n\n%s\n\nflags (any unambiguous prefix, or --flag=value):")
    :format(program, summary) }
  for _, flag in ipairs(flags) do
    local left = flag[1]
    if flag[2] ~= "switch" then
      left = left .. " " .. (flag.choices and table.concat(flag.choices, "|") or flag[2]:upper())
    end
    local right = flag.help or ""
    if flag.required then
      right = right .. " (required)"
    elseif flag[3] ~= nil then
      right = ("%s (default %s)"):format(right, tostring(flag[3]))
    end
    lines[#lines + 1] = ("  %-44s %s"):format(left, right):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

return arguments
