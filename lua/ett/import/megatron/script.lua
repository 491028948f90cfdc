--- Extracts flags from a launch script or a list of flags, as a shell would pass them.
--
--   script.flags "--num-layers 32 --swiglu" --> { { name = "num-layers", values = { "32" } }, { name = "swiglu", … } }
--
-- Supported: comments, quotes, continued lines, NAME=VALUE, $NAME, ${NAME:-default}, $((arithmetic)), arrays, and
-- if-blocks that compare texts or numbers, with && and ||. Other conditions count as true. The output of commands is
-- unknown. Other shell syntax is kept as text.
local script = {}

--- Integer arithmetic of $((…)): digits, + - * / % and parentheses only.
local function arithmetic(text)
  if not text:match "^[%d%s%+%-%*/%%%(%)]+$" then return nil end
  local chunk = load("return " .. text:gsub("/", "//"), "=arithmetic", "t", {})
  local ok, value = pcall(chunk or error)
  return ok and math.type(value) == "integer" and tostring(value) or nil
end

local function expand(text, variables)
  text = text:gsub("%$%{([%w_]+):?%-([^{}]*)%}", function(name, default)
    local value = variables[name]
    return value and value ~= "" and value or (default:gsub("[\"']", ""))
  end)
  text = text:gsub("%$%{([%a_][%w_]*)%}", variables)
  text = text:gsub("%$([%a_][%w_]*)", variables)
  return (text:gsub("%$%(%((.-)%)%)", function(inside)
    return arithmetic((inside:gsub("[%a_][%w_]*", variables)))
  end))
end

--- Reads a quoted text, $(…) or `…` that begins at `at`: returns its content, its kind and the position after it.
local function enclosed(text, at)
  local first = text:sub(at, at)
  if first == "`" then
    local last = text:find("`", at + 1, true) or #text + 1
    return "$(" .. text:sub(at + 1, last - 1) .. ")", "command", last + 1
  end
  if first == "'" then
    local last = text:find("'", at + 1, true) or #text + 1
    return text:sub(at + 1, last - 1), "single", last + 1
  elseif first == '"' then
    local last = at + 1
    while last <= #text and text:sub(last, last) ~= '"' do
      last = last + (text:sub(last, last) == "\\" and 2 or 1)
    end
    return text:sub(at + 1, last - 1):gsub("\\\n", " "), "double", last + 1
  end
  local block = text:match("^%$(%b())", at)
  return "$" .. (block or "("), "command", at + 1 + #(block or "(")
end

--- Tokens of a script: { text =, quoted = } for words; "\n", "(" and ")" as they are. Words are not expanded. In
--- single-quoted texts "$" is replaced by "\1".
local function tokens_of(text)
  local list, at, word, quoted = {}, 1, nil, false
  local function finish()
    if word then list[#list + 1] = { text = word, quoted = quoted } end
    word, quoted = nil, false
  end
  text = text:gsub("\r", ""):gsub("\\\n", " ")
  while at <= #text do
    local ch = text:sub(at, at)
    if ch == "#" and not word then
      at = (text:find("\n", at, true) or #text + 1) - 1
    elseif ch == "'" or ch == '"' or ch == "`" or text:match("^%$%(", at) then
      local inside, kind, behind = enclosed(text, at)
      if kind == "single" then inside = inside:gsub("%$", "\1") end
      word, quoted, at = (word or "") .. inside, quoted or kind ~= "command", behind - 1
    elseif ch == "\n" or ch == ";" then
      finish()
      list[#list + 1] = "\n"
    elseif ch:match "%s" then
      finish()
    elseif (ch == "(" or ch == ")") and not (word and word:match "^%[" ) then
      finish()
      list[#list + 1] = ch
    elseif ch == "\\" then
      at = at + 1
      word = (word or "") .. text:sub(at, at)
    else
      word = (word or "") .. ch
    end
    at = at + 1
  end
  finish()
  list[#list + 1] = "\n"
  return list
end

local numeric = { ["-eq"] = function(a, b) return a == b end, ["-ne"] = function(a, b) return a ~= b end,
  ["-lt"] = function(a, b) return a < b end, ["-le"] = function(a, b) return a <= b end,
  ["-gt"] = function(a, b) return a > b end, ["-ge"] = function(a, b) return a >= b end }

--- Whether one test, without its brackets, holds; nil: unknown.
local function test_holds(text)
  local denied = text:match "^! (.*)"
  if denied then
    local held = test_holds(denied)
    if held == nil then return nil end
    return not held
  end
  text = (" " .. text .. " "):gsub(" %$%{?[%a_][%w_]*%}? ", " '' ") -- variables that the file does not set are empty
  if text:find("$", 1, true) then return nil end
  local kind, word = text:match "^ %-([nz]) (%S+) $"
  if kind then return (word == "''") == (kind == "z") end
  local a, sign, b = text:match "^ (%S*) ([=!]=?) (%S*) $"
  if a then return (a == b) == (sign ~= "!=") end
  a, sign, b = text:match "^ (%S+) (%-%a%a) (%S+) $"
  if numeric[sign] and tonumber(a) and tonumber(b) then return numeric[sign](tonumber(a), tonumber(b)) end
  return nil
end

-- And, or of values of which nil is unknown.
local function both(a, b)
  if a == false or b == false then return false end
  return a and b
end

local function either(a, b)
  if a or b then return true end
  if a == nil or b == nil then return nil end
  return false
end

--- Folds the parts of words[first..last] between the given sign: value of each part, joined by `join`.
local function folded(words, sign, join, value_of)
  local held, part, any = nil, {}, false
  for i = 1, #words + 1 do
    if words[i] == nil or words[i] == sign then
      local own = value_of(part)
      if any then held = join(held, own) else held = own end
      part, any = {}, true
    else
      part[#part + 1] = words[i]
    end
  end
  return held
end

--- Whether tests between brackets hold: && binds tighter than ||.
local function bracket_holds(words)
  return folded(words, "||", either, function(part)
    return folded(part, "&&", both, function(test) return test_holds(table.concat(test, " ")) end)
  end)
end

--- Whether the condition of an `if` holds: bracketed tests joined by && and ||, from left to right; nil: unknown.
local function holds(words)
  local held, join, part, inside = nil, nil, {}, false
  for i = 1, #words + 1 do
    local word = words[i]
    if word == nil or not inside and (word == "&&" or word == "||") then
      local own = bracket_holds(part)
      if join == nil then held = own else held = (join == "&&" and both or either)(held, own) end
      join, part = word, {}
    elseif word:match "^%[%[?$" or word:match "^%]%]?$" then
      inside = word:sub(1, 1) == "["
    else
      part[#part + 1] = word
    end
  end
  return held
end

-- Commands whose words are not training flags.
local other_commands = { echo = true, printf = true, mkdir = true, cd = true, source = true, set = true, rm = true }

--- The active words, expanded, in order; NAME=VALUE sets `variables`.
local function words_of(tokens, variables)
  -- leave: the token that ends a skipped part. chains: the open if-blocks, with the state of the current branch.
  local words, start, condition, chains, leave = {}, true, nil, {}, nil
  local function skipped()
    for _, chain in ipairs(chains) do if chain.skips then return true end end
    return false
  end
  for _, token in ipairs(tokens) do
    local text = type(token) == "table" and expand(token.text, variables):gsub("\1", "$") or nil
    if leave then
      if token == leave or text == leave then leave = nil end
    elseif start and (text == "case" or other_commands[text]) then
      leave = text == "case" and "esac" or "\n"
    elseif condition then
      if text == "then" then
        local chain = chains[#chains]
        chain.skips = chain.taken or holds(condition) == false
        chain.taken = chain.taken or not chain.skips
        condition = nil
      elseif text then
        condition[#condition + 1] = text == "" and "''" or text
      end
    elseif start and (text == "if" or text == "elif") then
      if text == "if" or not chains[1] then chains[#chains + 1] = {} end
      condition = {}
    elseif start and text == "else" then
      if chains[1] then chains[#chains].skips = chains[#chains].taken end
    elseif start and text == "fi" then
      table.remove(chains)
    elseif not skipped() then
      local name, value
      if text and start then name, value = text:match "^([%a_][%w_]*)%+?=(.*)$" end
      if name and not value:match "%-%-%a" then
        variables[name] = value
      elseif name then -- a variable with flags: they count at the assignment, not at each use
        variables[name] = ""
        for part in value:gmatch "%S+" do words[#words + 1] = part end
      elseif text and token.quoted and text:match "^%-%-%S+%s" then
        for part in text:gmatch "%S+" do words[#words + 1] = part end
      elseif text and text ~= "" and not text:match "^%$%{?[%a_][%w_]*%[@%]%}?$" then
        words[#words + 1] = text
      elseif not text then
        words[#words + 1] = token == "\n" and "\n" or nil
      end
    end
    start = token == "\n" or text == "export" or text == "then" or text == "else"
  end
  return words
end

--- All flags in order: { name =, values = { text, … } }.
---@param text string
---@return table[]
function script.flags(text)
  local flags, current = {}, nil
  for _, word in ipairs(words_of(tokens_of(text), {})) do
    local name, value = word:match "^%-%-([%w_%-]+)=(.*)$"
    name = name or word:match "^%-%-([%a][%w_%-]*)$"
    if name then
      current = { name = name:gsub("_", "-"), values = { value } }
      flags[#flags + 1] = current
    elseif word == "\n" then
      if current and #current.values > 0 then current = nil end
    elseif current then
      current.values[#current.values + 1] = word:gsub("^['\"]", ""):gsub("['\"]$", "")
    end
  end
  return flags
end

return script
