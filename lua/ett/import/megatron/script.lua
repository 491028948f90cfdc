--- Extracts flags from a launch script or a list of flags, as a shell would pass them.
--
--   script.flags "--num-layers 32 --swiglu" --> { { name = "num-layers", values = { "32" } }, { name = "swiglu", … } }
--
-- Supported: comments, quotes, continued lines, NAME=VALUE, $NAME, ${NAME:-default}, ${NAME:=default}, $((arithmetic)),
-- arrays, case, if-blocks that compare texts (* and ?) or numbers, && and ||, lines like [ TEST ] && COMMAND, and
-- here-documents. Other conditions count as true, and are returned. The output of commands is unknown. Other shell
-- syntax is kept as text.
local arithmetic = require "ett.import.megatron.arithmetic"
local command = require "ett.import.megatron.command"
local error_module = require "ett.base.error"
local flags = require "ett.import.megatron.flags"
local table_at = require "ett.base.table_at"

local script = {}

-- The most bytes that all uses of variables in a script may add. A value that holds itself twice doubles with each
-- line.
local most_bytes = 1 << 22

local used = setmetatable({}, { __mode = "k" }) -- bytes added so far, by table of variables

--- The value of a variable at a use of it; nil if it is not known.
local function used_value(variables, name)
  local value = variables[name]
  used[variables] = (used[variables] or 0) + #(value or "")
  if used[variables] > most_bytes then
    error_module.raise("limit", "the variables of the script expand to more than %d MiB", most_bytes >> 20)
  end
  return value
end

--- The text with the values of the known variables that a pattern names.
local function replaced(text, pattern, variables)
  return (text:gsub(pattern, function(name) return used_value(variables, name) end))
end

--- Replaces $((…)) where its value is known.
local function computed(text, variables)
  return (text:gsub("%$%((%b())%)", function(inside)
    local value = arithmetic(replaced(computed(inside, variables), "[%a_][%w_]*", variables))
    return value and ("%d"):format(value)
  end))
end

--- Sets $1 to ${99} and $# to a list of words; words that are not given are empty, as in a shell. nil: not known.
local function set_words(variables, words)
  for i = 1, 99 do variables[tostring(i)] = words and (words[i] or "") end
  variables["#"] = words and tostring(#words)
end

--- Expands $@, $*, ${@:N} and $#, if the words are known.
local function expand_words(text, variables)
  local function from(first)
    local list = {}
    for i = math.max(1, tonumber(first) or 1), variables["#"] do
      list[#list + 1] = used_value(variables, tostring(i))
    end
    return table.concat(list, " ")
  end
  return replaced(text:gsub("%${[@*]:?(%d*)}", from):gsub("%$[@*]", from), "%$(#)", variables)
end

--- Expands variables. With `sets`, ${NAME:=default} sets them.
local function expand(text, variables, sets)
  if variables["#"] then text = expand_words(text, variables) end
  text = text:gsub("%$%{([%w_]+):?([%-=])([^{}]*)%}", function(name, sign, default)
    local value = used_value(variables, name)
    value = value and value ~= "" and value or default:gsub("[\"']", "")
    if sets and sign == "=" then variables[name] = value end
    return value
  end)
  for _, pattern in ipairs { "%$%{([%w_]+)%}", "%$([%a_][%w_]*)", "%$(%d)" } do
    text = replaced(text, pattern, variables)
  end
  return computed(text, variables)
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
    return text:sub(at + 1, last - 1), "double", last + 1
  end
  local block = text:match("^%$(%b())", at)
  return "$" .. (block or "("), "command", at + 1 + #(block or "(")
end

--- The lines behind `at`, a line's end, up to the word that ends a here-document, and the position of that word's end;
--- nil without such a word.
local function document_behind(text, at, word)
  local from = at + 1
  for start, line, behind in text:gmatch("()([^\n]*)()", from) do
    if line:match "^%s*(.-)%s*$" == word then return text:sub(from, start - 1), behind end
  end
end

--- The word that ends the here-document of "<<WORD" at a position, and the position behind; nil for others, such as the
--- shift of (( a << b )).
local function document_word(text, at)
  if text:sub(math.max(1, at - 200), at):match("[^\n]*$"):find("((", 1, true) then return nil end
  return text:match("^<<%-?%s*[\"'\\]?([%a_][%w_]*)[\"']?()", at)
end

-- Commands whose input holds flags or commands, as in `read -r -d '' ARGS <<EOF` and `srun bash <<EOF`.
local reads = { bash = true, mapfile = true, read = true, readarray = true, sbatch = true, sh = true, ssh = true }

--- Whether the last line of a list of tokens has such a command.
local function reads_input(list)
  for i = #list, 1, -1 do
    if list[i] == "\n" then return false end
    if reads[list[i].text] then return true end
  end
  return false
end

--- Tokens of a script: { text =, quoted = } for words; "\n", "(" and ")" as they are. Words are not expanded. In
--- single-quoted texts "$", in double-quoted ones "\$", is replaced by "\1". Here-documents are skipped, unless they
--- start a program of Python, or are read by the script or a shell.
local function tokens_of(text)
  local list, at, word, quoted, ending, kept = {}, 1, nil, false, nil, false
  local function finish()
    if word then list[#list + 1] = { text = word, quoted = quoted } end
    word, quoted = nil, false
  end
  text = text:gsub("\r", "")
  while at <= #text do
    local ch = text:sub(at, at)
    if ch == "#" and not word then
      at = (text:find("\n", at, true) or #text + 1) - 1
    elseif ch == "'" or ch == '"' or ch == "`" or text:match("^%$%(", at) then
      local inside, kind, behind = enclosed(text, at)
      inside = inside:gsub("\\\n", " ")
      if kind == "single" then inside = inside:gsub("%$", "\1") end
      if kind == "double" then inside = inside:gsub("\\%$", "\1") end
      word, quoted, at = (word or "") .. inside, quoted or kind ~= "command", behind - 1
    elseif ch == "\n" or ch == ";" then
      finish()
      list[#list + 1] = text:match("^;;", at) or "\n"
      at = at + #list[#list] - 1
      if ch == "\n" and ending then
        local document, behind = document_behind(text, at, ending)
        kept = document and (kept or document:find "%.py%f[%s]")
        for _, token in ipairs(kept and tokens_of(document) or {}) do
          list[#list + 1] = token
        end
        at, ending = document and behind - 1 or at, nil
      end
    elseif ch == "<" and text:match("^<<<", at) then
      at = at + 2
    elseif ch == "<" and document_word(text, at) then
      finish()
      ending, at = document_word(text, at)
      kept = reads_input(list)
      at = at - 1
    elseif ch:match "%s" then
      finish()
    elseif (ch == "(" or ch == ")") and not (word and word:match "^%[" ) then
      finish()
      list[#list + 1] = ch
    elseif text:match("^\\\n", at) then -- a continued line
      finish()
      at = at + 1
    elseif ch == "\\" then
      at = at + 1
      word = (word or "") .. text:sub(at, at)
    else
      local plain = text:match("^[%w%-_./:=,]+", at) or ch
      word, at = (word or "") .. plain, at + #plain - 1
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

--- Whether a text matches one of the alternatives of a `case` pattern. An unknown text matches none.
local function matches(text, pattern)
  if text:find("$", 1, true) then return false end
  for each in pattern:gmatch "[^|]+" do
    local escaped = each:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
    if text:match("^" .. escaped .. "$") then return true end
  end
  return false
end

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
  if a and a ~= b and b:find("[", 1, true) then return nil end -- a set of characters
  if a then return (a == b or b:find "[%*%?]" ~= nil and matches(a, b)) == (sign ~= "!=") end
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

--- The values of the parts of a list of words that `sign` separates, joined from left to right.
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

--- Replaces a loop of slime's scripts and the printf after it by a variable in the syntax of --moe-layer-freq. The loop
--- fills an array with 0 for the first layers and 1 for the others.
local function with_lists_of_loops(text)
  local loop = "for %(%(%s*i%s*=%s*0;%s*i%s*<%s*([%w_]+);[^\n]*\n%s*if %(%(%s*i%s*<%s*([%w_]+)%s*%)%).-\n%s*done"
  local layers, dense = text:match(loop)
  if not layers then return text end
  return (text:gsub(loop, ""):gsub('printf %-v ([%w_]+) "%[%%s%]"[^\n]*', function(name)
    return ('%s="[0]*$((%s))+[1]*$((%s-%s))"'):format(name, dense, layers, dense)
  end))
end

-- Words between two commands of a line.
local separators = { ["&&"] = true, ["||"] = true, ["|"] = true, ["&"] = true }

--- Reads a script's tokens one by one: the open if- and case-blocks, variables, active words.
local Reader = {}
Reader.__index = Reader

function Reader:skipped()
  for _, chain in ipairs(self.chains) do if chain.skips then return true end end
  return false
end

--- Enters a branch of the innermost block. held: whether its condition holds; nil: unknown, counted as true.
function Reader:branch(held, condition)
  local chain = self.chains[#self.chains]
  chain.skips = chain.taken or held == false
  chain.taken = chain.taken or not chain.skips
  chain.unknown = held == nil and not chain.skips and condition or nil
end

--- Notes the unknown conditions under which a flag or a variable stands, each once.
function Reader:note_conditions()
  for _, chain in ipairs(self.chains) do
    if chain.unknown then self.unknown[#self.unknown + 1] = chain.unknown end
    chain.unknown = nil
  end
end

--- Adds a word. owner: the variable that it is a value of, if any.
function Reader:add(text, owner)
  if text:match "^%-%-%a" then self:note_conditions() end
  local word = { text = text, owner = owner, array = self.array, command = self.command }
  if not owner and not self.array and self.command then
    table.insert(self.command.words, word)
  end
  self.words[#self.words + 1] = word
  local holder = owner or self.array
  if holder then table.insert(table_at(self.words_of, holder), word) end
  if owner then table.insert(table_at(self.owned, owner), word) end
end

--- Notes a variable that is a word of its own in the value of another one, behind words[last]. "?": it has no value
--- there, so it comes from outside the file.
function Reader:note_bare(name, holder, words, last)
  if not name or flags.precedes_value(words, last) then return end
  table_at(self.bare_of, holder)[self.uses_of[name] and name or "?"] = true
end

--- The name of the variable at the start of a word; nil: none.
local function leading_name(word) return word:match "^%${?([%a_][%w_]*)%f[^%w_]" end

--- Sets a variable. Flags in its value count at the assignment, not at each use. They replace those of an earlier
--- value, unless the new value contains the earlier one.
function Reader:assign(name, value, raw)
  local kept = raw:match("^" .. name .. "%+=") or raw:find("%$" .. name .. "%f[^%w_]") or raw:find("%${" .. name .. "}")
  self:note_conditions()
  if not kept then
    for _, word in ipairs(self.owned[name] or {}) do word.text = nil end
    self.bare_of[name] = nil
  end
  local parts = {}
  for part in raw:gsub("^[%a_][%w_]*%+?=", ""):gmatch "%S+" do
    self:note_bare(leading_name(part), name, parts, #parts)
    parts[#parts + 1] = part
  end
  if not kept then self.owned[name], self.uses_of[name] = nil, nil end
  command.add_uses(table_at(self.uses_of, name), raw)
  self.variables[name] = value:match "%-%-%a" and "" or value
  if not value:match "%-%-%a" then return end
  for part in value:gmatch "%S+" do self:add(part, name) end
end

--- A token inside the condition of an if, or the word and the patterns of a case. Returns false for others.
function Reader:control(token, text)
  local chain = self.chains[#self.chains]
  if self.condition then
    if text == "then" then
      self:branch(holds(self.condition), table.concat(self.condition, " "))
      self.condition = nil
    elseif text then
      self.condition[#self.condition + 1] = text == "" and "''" or text
    end
  elseif chain and chain.patterns and text ~= "esac" then
    if not chain.word then
      chain.word = text or chain.word
    elseif token == ")" then
      self:branch(matches(chain.word, chain.patterns))
      chain.patterns = nil
    elseif text and text ~= "in" then
      chain.patterns = chain.patterns .. text
    end
  elseif token == ";;" and chain and chain.word then
    chain.patterns, chain.skips = "", true
  else
    return false
  end
  return true
end

--- The first word of a command that opens, continues or closes a block. Returns false for others.
function Reader:block(text)
  local chains = self.chains
  if text == "if" or text == "elif" then
    if text == "if" or not chains[1] then chains[#chains + 1] = {} end
    self.condition = {}
  elseif text == "case" then
    chains[#chains + 1] = { patterns = "", skips = true }
  elseif text == "else" then
    if chains[1] then self:branch(true) end
  elseif text == "fi" or text == "esac" then
    table.remove(chains)
  else
    return false
  end
  return true
end

--- Reads [ TEST ] && COMMAND and [ TEST ] || COMMAND. The command is a branch up to the end of its line.
---@return string? "test" for a token of the test, "command" for the first word of the command, nil for others
function Reader:test(text, start)
  local test = self.tested
  if not test then
    if not (start and text and text:match "^%[%[?$") or self.condition or self:skipped() then return nil end
    test = { open = false }
    self.tested = test
  end
  local last = test[#test]
  if not text then -- a test without a command
    self.tested = nil
    return nil
  elseif test.open or not (last == "&&" or last == "||") or text:match "^%[%[?$" then
    if text:match "^%[%[?$" then test.open = true elseif text:match "^%]%]?$" then test.open = false end
    test[#test + 1] = text == "" and "''" or text
    return "test"
  end
  test[#test], self.tested = nil, nil
  local held = holds(test)
  if last == "||" and held ~= nil then held = not held end
  self.chains[#self.chains + 1] = { line = true }
  self:branch(held, table.concat(test, " "))
  return "command"
end

--- Ends the branch of [ TEST ] && COMMAND at the end of its line.
function Reader:end_line()
  if self.chains[1] and self.chains[#self.chains].line then table.remove(self.chains) end
end

--- Reads "shift" and its number, which remove the first words of the script. Returns false for other tokens.
function Reader:shift(text, start)
  local number = self.shifting and text and text:match "^%d+$"
  self.shifting = start and text == "shift"
  if not (number or self.shifting) or self:skipped() then return false end
  if self.depth > 0 then return true end -- a function's own words
  local count = number and math.max(0, math.min(tonumber(number), 99) - 1) or 1
  table.move(self.given, count + 1, #self.given + count, 1)
  set_words(self.variables, self.given)
  self.looped = self.looped or self.loops > 0
  return true
end

--- Follows functions, in which $1 is not the script's, and loops. Tokens are read before they are expanded.
---@param start boolean whether the token begins a command
function Reader:follow(token, start)
  local raw = type(token) == "table" and not token.quoted and token.text or token
  local last, before = self.last, self.before
  self.last, self.before = raw, last
  if raw == "{" and (self.depth > 0 or self.named or before == "function") then
    if self.depth == 0 then set_words(self.variables, nil) end
    self.depth = self.depth + 1
  elseif raw == "}" and self.depth > 0 then
    self.depth = self.depth - 1
    if self.depth == 0 then set_words(self.variables, self.given) end
  elseif start and (raw == "for" or raw == "while" or raw == "until") then
    self.loops, self.header = self.loops + 1, true
  elseif raw == "do" then
    self.header = false
  elseif start and raw == "done" then
    self.loops = math.max(0, self.loops - 1)
  end
  if raw ~= "\n" then self.named = raw == ")" and last == "(" end
end

--- Notes the training program of a command: words before it are those of launchers, such as mpirun -x $NAME.
function Reader:note_program(own, token, text)
  if own.behind then
    command.add_uses(own.behind, token.text)
  elseif command.is_program(text) and not self:awaits() then
    own.program, own.behind, own.bare = #own.words + 1, {}, {}
  end
end

--- Notes to which command or array the words from this token on belong, and which variables they name.
---@param start boolean whether the token begins a command
function Reader:place(token, text, start)
  if token == "(" then
    self.array = self.assigned
  elseif token == ")" then
    self.functions = self.functions or self.opened and not self.array
    self.array = nil
  end
  self.opened = token == "("
  local name = start and not self.array and text and text:match "^([%a_][%w_]*)%+?="
  self.assigned = name and text:match "=$" and name
  if not text then return end
  if (start or separators[text]) and not self.array then
    self.sources = self.sources or text == "."
    self.command = not text:match "^%-" and { words = {}, uses = {}, whole = {}, bare = {} } or nil
    self.commands[#self.commands + 1] = self.command
  end
  if name then return end -- also the environment of the command behind it
  local own = not self.array and self.command
  command.add_uses(own and own.uses or table_at(self.uses_of, self.array or ""), token.text)
  if own then self:note_program(own, token, text) end
  local whole = leading_name(token.text)
  if self.array then self:note_bare(whole, self.array, self.words, #self.words) end
  if not (own and whole) then return end
  if not self:awaits() then own.whole[whole] = true end
  if not flags.precedes_value(self.words, #self.words) then own.bare[whole] = true end
end

--- Whether the word may be the value of the flag before it.
function Reader:awaits()
  local last = self.words[#self.words]
  return last and last ~= "\n" and last.text and flags.awaits(last.text)
end

function Reader:word(token, text, start)
  local name, value
  if start then name, value = text:match "^([%a_][%w_]*)%+?=(.*)$" end
  local all = token.text and token.text:match "^%${?[@*]:?%d*}?$"
  local array = text:match "^%$%{?([%a_][%w_]*)%[[@*]%]%}?$"
  if name then
    self:assign(name, value, token.text)
  elseif all and self.header then -- for WORD in "$@"
    self.looped = true
  elseif text ~= token.text and (all or token.text and not token.quoted and not (token.text .. text):find "%$%(") then
    for part in text:gmatch "%S+" do self:word({}, part) end
  elseif token.quoted and (text:match "^%-%-%S+%s" or text:find "%s%-%-%a" and not self:awaits()) then
    -- also bash -c "torchrun … --flag …"
    for part in expand(text, self.variables, true):gmatch "%S+" do self:word({}, part) end
  elseif array then -- its words belong to it
    self.dropped = self.dropped or not self.words_of[array]
  elseif text ~= "" and text ~= "$@" and text ~= "$*" then
    self:add(text)
  end
end

-- Commands whose words are variables.
local declares = { export = true, declare = true, typeset = true, readonly = true, ["local"] = true }

--- Reads the active words, expanded, in order, the conditions that are unknown, and to whom the words belong.
--- NAME=VALUE sets variables.
---@param given string[]? the script's own words; changed
local function read_words(tokens, variables, given)
  local reader = setmetatable({ words = {}, owned = {}, unknown = {}, chains = {}, variables = variables,
    commands = {}, words_of = {}, uses_of = {}, bare_of = {}, given = given, loops = 0, depth = 0 }, Reader)
  local start, skips_line, declaring = true, false, false
  if given then set_words(variables, given) end
  for _, token in ipairs(tokens) do
    if given then reader:follow(token, start) end
    local text = type(token) == "table"
      and expand(token.text, reader.variables, not reader:skipped()):gsub("\1", "$") or nil
    local part = reader:test(text, start)
    if part == "test" then
      start = false
    else
      start = start or part == "command"
      if skips_line then
        skips_line = token ~= "\n" and token ~= ";;" and not separators[text]
      elseif start and other_commands[text] then
        skips_line, reader.sources = true, reader.sources or text == "source"
      elseif not (given and reader:shift(text, start)
        or reader:control(token, text) or start and reader:block(text)) and not reader:skipped() then
        reader:place(token, text, start)
        if text then reader:word(token, text, start) elseif token == "\n" then table.insert(reader.words, token) end
      end
      declaring = start and declares[text] or declaring and text ~= nil
      start = token == "\n" or token == ";;" or token == ")" or declaring or text == "then" or text == "else"
        or separators[text] and not reader.condition
      if token == "\n" then reader:end_line() end
    end
  end
  return reader
end

-- Sections of Megatron-Bridge and NeMo, whose fields follow a recipe on a command line: model.seq_length=4096. Two of
-- them are also fields.
local sections = { mixed_precision = "field", peft = "field" }
for name in ([=[checkpoint comm_overlap data dataset ddp dist exp_manager log logger model optim optimizer profiling
  resume rng scheduler tokenizer train trainer training]=]):gmatch "%S+" do sections[name] = "section" end

--- The path and the value of SECTION.FIELD=VALUE, also behind Hydra's "+" or "++"; nil for other words.
local function override_of(word)
  local path, value = word:match "^%+?%+?([%a_][%w_%.]*)=(.*)$"
  local kind = path and sections[path:match "^[^.]*"]
  if not kind or kind == "section" and not path:find(".", 1, true) then return nil end
  return path, (value:gsub("^(['\"])(.*)%1$", "%2"))
end

--- The flags of the training command in order: { name =, values = { text, … } }; all flags if it is not clear. Also the
--- conditions that count as true though they are unknown, a note about flags that the command does not get, and the
--- fields of sections that follow a recipe. Last, whether the file holds every flag of the command.
---@param variables table<string, string>? those set before the script runs; changed
---@param given string[]? the script's own words; changed
---@return table[] flags, string[] unknown, string? note, string[][] overrides { path, value }, boolean complete
function script.flags(text, variables, given)
  local all, current, owner = {}, nil, nil
  local found = read_words(tokens_of(with_lists_of_loops(text)), variables or {}, given)
  for _, entry in ipairs(found.words) do
    if entry == "\n" then
      if current and #current.values > 0 then current = nil end
    elseif entry.text then -- else replaced by a later value of its variable
      local word = entry.text
      if entry.owner ~= owner then current, owner = nil, entry.owner end
      local name, value = word:match "^%-%-([%w_%-]+)=(.*)$"
      name = name or word:match "^%-%-([%a][%w_%-]*)$"
      local path, own = override_of(word)
      if path then
        all[#all + 1], current = { path = path, value = own, word = entry }, nil
      elseif name then
        current = { name = name:gsub("_", "-"), values = { value }, word = entry }
        all[#all + 1] = current
      elseif current then
        current.values[#current.values + 1] = word:gsub("^['\"]", ""):gsub("['\"]$", "")
      end
    end
  end
  local kept, note, complete = command.flags(all, found)
  if found.looped then
    note = (note and note .. "; " or "") .. "a loop of the script reads its words, and counts as if it ran once"
  end
  local list, overrides = {}, {}
  for _, each in ipairs(kept) do
    if each.path then overrides[#overrides + 1] = { each.path, each.value } else list[#list + 1] = each end
  end
  return list, found.unknown, note, overrides, complete or false
end

return script
