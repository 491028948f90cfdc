--- Finds the training command of a launch script, and the flags that it gets.
--
-- A word of a script belongs to a command, or to a variable or an array. A command gets its own words and those of
-- the variables that it names, directly or through other variables.
local known_flags = require "ett.import.megatron.flags"

local command = {}

-- Flags that state devices. Those of other commands count, too: slime gives them to `ray start`.
local devices = { ["nproc-per-node"] = true, nnodes = true, ["num-gpus"] = true, ["num-nodes"] = true,
  ["world-size"] = true }

--- Adds the names of the variables in an unexpanded text to a set. "@": the script's or a function's arguments.
function command.add_uses(uses, text)
  for name in text:gmatch "[$\1]{?!?([%a_][%w_]*)" do uses[name] = true end
  if text:find "[$\1]{?[@*]" then uses["@"] = true end
  if text:find("${!", 1, true) then uses["!"] = true end
end

--- The names that a set of names reaches through the variables' own uses.
local function reached(uses, uses_of)
  local all, open = {}, {}
  for name in pairs(uses) do open[#open + 1] = name end
  while #open > 0 do
    local name = table.remove(open)
    if not all[name] then
      all[name] = true
      for next_name in pairs(uses_of[name] or {}) do open[#open + 1] = next_name end
    end
  end
  return all
end

--- Whether a command, or a variable that it reaches, has a word of a pattern.
local function has_word(each, found, pattern)
  local function among(words)
    for _, word in ipairs(words or {}) do if word.text and word.text:find(pattern) then return true end end
    return false
  end
  if among(each.words) then return true end
  for name in pairs(each.reached) do if among(found.words_of[name]) then return true end end
  return false
end

--- The commands that have a word of a pattern.
local function having(found, pattern)
  local list = {}
  for _, each in ipairs(found.commands) do
    if has_word(each, found, pattern) then list[#list + 1] = each end
  end
  return list
end

-- Programs that train.
local programs = { "%f[%w_]pretrain_[%w_]+%.py", "%f[%w_]train[%w_]*%.py" }

--- Whether a word is the path of such a program.
function command.is_program(text)
  for _, pattern in ipairs(programs) do if text:find("^[^%s=]*" .. pattern .. "$") then return true end end
  return false
end

--- The training commands: those that start pretrain_NAME.py, else trainNAME.py, else the only one with --num-layers, or
--- with fields of a section `model`, `train` or `trainer`.
local function training(found)
  for _, program in ipairs(programs) do
    local list = having(found, program)
    if list[1] then return list end
  end
  for _, word in ipairs { "^%-%-num[_-]layers%f[=\0]", "^%+*model%.[%w_%.]+=", "^%+*traine?r?%.[%w_%.]+=" } do
    local list = having(found, word)
    if #list == 1 then return list end
  end
end

--- Whether the arguments of the training commands may come from outside their own text.
local function is_open(list, found)
  for _, each in ipairs(list) do
    if each.reached["!"] or each.reached["@"] and found.functions then return true end
    for name in pairs(found.sources and each.whole or {}) do
      if not found.uses_of[name] then return true end
    end
  end
  return false
end

--- Whether a list of words has a word that may hold flags: a variable without a value, or the output of a command.
--- Values of flags, files of redirections and names of programs do not count.
---@param first integer? the first word that counts
local function has_open_word(words, first)
  for i = first or 1, #(words or {}) do
    local text = words[i].text or ""
    local unknown = text:find "^%s*%$" or text:find("$(", 1, true) or text:find("`", 1, true)
    if unknown and not text:find "%.py$" and not known_flags.precedes_value(words, i - 1) then return true end
  end
  return false
end

--- Whether the file holds every flag of its training command.
local function is_complete(list, found)
  if not list or found.looped or found.dropped or is_open(list, found) then return false end
  for _, each in ipairs(list) do
    local first = each.words[1] and each.words[1].text
    if each.reached["@"] or first == "eval" or has_word(each, found, "^%-%-yaml[_-]cfg") then return false end
    if has_open_word(each.words, each.program) then return false end
    for name in pairs(reached(each.bare, found.bare_of)) do if not found.uses_of[name] then return false end end
    for name in pairs(reached(each.behind or each.uses, found.uses_of)) do
      if has_open_word(found.words_of[name]) then return false end
    end
  end
  return true
end

--- Removes the flags that the training command does not get. Flags that belong to nothing, as in a list of flags, stay.
---@param flags table[] { name =, values =, word = }, or { path =, value =, word = } of a field of a recipe
---@param found table { commands, words_of, uses_of, functions, sources } of ett.import.megatron.script
---@return table[] flags, string? note about the flags removed, or about a script that could not be followed
---@return boolean? complete whether the file holds every flag of the training command
function command.flags(flags, found)
  for _, each in ipairs(found.commands) do each.reached = reached(each.uses, found.uses_of) end
  local list, gets = training(found), {}
  for _, each in ipairs(list or {}) do
    gets[each] = true
    for name in pairs(each.reached) do gets[name] = true end
  end
  local front, rest, unused, layers, dropped = {}, {}, {}, {}, 0
  for _, flag in ipairs(flags) do
    local owner = flag.word.owner or flag.word.array or flag.word.command
    local kept = owner == nil or gets[owner]
    layers[kept and 1 or 2] = layers[kept and 1 or 2] or flag.name == "num-layers" or flag.path == "model.num_layers"
    if kept then
      rest[#rest + 1] = flag
    elseif devices[flag.name] then
      front[#front + 1] = flag
    else
      dropped = dropped + 1
      if type(owner) == "string" and not unused[owner] then
        unused[owner], unused[#unused + 1] = true, owner
      end
    end
  end
  local complete = is_complete(list, found)
  if dropped == 0 or not list and not having(found, "^%-%-%a")[1] then return flags, nil, complete end
  if not list or is_open(list, found) or layers[2] and not layers[1] then
    return flags, "the training command of the script is not clear; the flags of all commands and variables are used"
  end
  table.move(rest, 1, #rest, #front + 1, front)
  return front, unused[1] and "the training command does not use the flags of " .. table.concat(unused, ", ") or nil,
    complete
end

return command
