--- Command-line options, declared as data; lua-argparse parses them and prints the help.
--
--   options = {
--     { "cluster", "NAME", "cluster to predict on", default = "perlmutter" },
--     { "json", "print JSON" },                       -- a flag: two entries
--     { "n", "N", "how many", kind = "count", short = "n" },
--     { "format", "NAME", "file format", choices = { "csv", "json" }, required = true },
--   }
--
-- Completion offers the `choices` of an option, or what its function `offers` returns.
--
-- Kinds: string (the default), number (finite), positive (above 0), integer, count (from 1), whole (digits only, at
-- most 2^53), list (names between commas, each once). `least` and `most` are limits of a number. A command with --json
-- has --csv and --table. `hints` of a command name replacements for options of other tools: { name = text }. `many =
-- true` collects the values of a repeated option; `several` is the advice of the message if a list is given. Every
-- command has --help and --traceback. A command that finds files by name (`finds = true`) has --path. A command with
-- `sandbox = true` has --sandbox, which refuses options with `writes = true`. With ETT_SANDBOX=1 all other commands
-- that find files or start programs (`starts = true`) are refused.
local error_module = require "ett.base.error"

local options = {}

local suffixes = { k = 1e3, K = 1e3, M = 1e6, G = 1e9, B = 1e9, T = 1e12, P = 1e15, -- reports print 8.03 B parameters
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

--- Text for the end of a message if a text is a number with an unknown suffix ("8GB"): the known ones; else "".
function options.suffix_hint(text)
  local digits = text:match "^(.-)%s*%a+$"
  if not tonumber(digits) or options.number(text) then return "" end
  return "; numbers may end in k, M, G or B, T, P (powers of 1000) or Ki, Mi, Gi, Ti (of 1024)"
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

local function whole(text)
  local value = text:match("^[+-]?%d+$") and tonumber((text:gsub("^%+", "")))
  return value and math.abs(value) <= 2 ^ 53 and value or nil
end

local function above_zero(read)
  return function(text)
    local value = read(text)
    return value and value > 0 and value or nil
  end
end

--- The names of "a,b,c"; nil if the list is empty or has duplicates.
local function names_of(text)
  local names, seen = {}, {}
  for name in text:gmatch "[^,%s]+" do
    if seen[name] then return nil end
    names[#names + 1], seen[name] = name, true
  end
  return names[1] and names
end

local kinds = {
  list = { names_of, "names separated by commas, each once" },
  string = { function(text) return text end },
  number = { finite, "a number" },
  positive = { above_zero(finite), "a number above 0" },
  integer = { integer, "an integer" },
  whole = { whole, "a whole number of at most 2^53, in digits" },
  count = { above_zero(integer), "a positive integer" },
}

--- The options that a command with --json also gets (lua/ett/report/output.lua).
options.csv = {
  { "csv", "print tables as CSV; with several tables, a line # NAME begins each", extension = true },
  { "table", "NAME", "with --csv: print only this table (all: every table)", extension = true },
}

--- The field name of an option's value.
function options.key(option) return (option[1]:gsub("%-", "_")) end

local function is_flag(option) return #option == 2 end

local function declared(command, name)
  for _, option in ipairs(command.options or {}) do if option[1] == name then return true end end
  return false
end

--- The declared options; --path, --help and --traceback are added if not declared.
local function all_of(command)
  local list, has = {}, {}
  for _, option in ipairs(command.options or {}) do
    list[#list + 1] = option
    has[option[1]] = true
  end
  if has.json and not has.csv then
    for _, option in ipairs(options.csv) do list[#list + 1] = option end
  end
  if command.finds then
    list[#list + 1] = { "path", "DIR", "also find operators, clusters and other files by name in DIR (repeatable)",
      many = true, extension = true }
  end
  if command.sandbox then
    list[#list + 1] = { "sandbox", "run untrusted Lua files without writing, programs and network (also: "
      .. "ETT_SANDBOX=1): at most ETT_SANDBOX_SECONDS (60) of processor time, and 10 times as long by the clock",
      extension = true }
  end
  if not has.help then list[#list + 1] = { "help", "print this help", extension = true } end
  if not has.traceback then list[#list + 1] = { "traceback", "print where an error was raised", extension = true } end
  return list
end

--- Converts the text of an option: its value, or nil and a message.
local function read(option, text)
  if option.choices then
    for _, choice in ipairs(option.choices) do if choice == text then return text end end
    return nil, error_module.message("option '--%s' must be one of %s, got '%s'%s", option[1],
      table.concat(option.choices, ", "), text, error_module.suggestion(text, option.choices))
  end
  local kind = kinds[option.kind or "string"]
  local value = kind[1](text)
  if value == nil then
    return nil, error_module.message("option '--%s' must be %s, got '%s'%s", option[1], kind[2], text,
      option.several and (text:find "," or text:find "%.%.") and ("; for several: " .. option.several)
        or option.kind ~= "whole" and options.suffix_hint(text) or "")
  end
  local bound = option.least and value < option.least and "least" or option.most and value > option.most and "most"
  if bound then
    return nil, error_module.message("option '--%s' must be at %s %g, got '%s'", option[1], bound, option[bound], text)
  end
  return value
end

local function description(option)
  local text = option[#option]
  if option.required then return text .. " (required)" end
  if option.default ~= nil then return ("%s (default %s)"):format(text, tostring(option.default)) end
  return text
end

local function add_option(parser, option)
  local label = "--" .. option[1]
  local added = parser:option(label):description(description(option)):count("*"):target(options.key(option)):init(nil)
  if is_flag(option) then
    added:args(0):action("store_true")
  else
    label = label .. " " .. (option.choices and table.concat(option.choices, "|") or option[2])
    local first -- the text of the option on this command line
    added:convert(function(text)
      if first and not option.many then
        return nil, error_module.message("option '--%s' is given twice: '%s' and '%s'", option[1], first, text)
      end
      first = text
      return read(option, text)
    end):action(option.many and "append" or "store")
  end
  if option.short then
    added:hidden_name("-" .. option.short)
    label = ("-%s, %s"):format(option.short, label)
  elseif option[1] == "help" then
    added:hidden_name("-h")
  end
  added._get_label_lines = function() return { label } end -- argparse would print a line for each name
  return added, #label
end

---@param columns integer? of the terminal; options take at most three fifths of them
local function new_parser(command, columns)
  local parser = require "argparse"(command.name):add_help(false)
  local group, width = {}, 0
  for i, option in ipairs(all_of(command)) do
    local length
    group[i], length = add_option(parser, option)
    width = math.max(width, length)
  end
  parser:group("options", table.unpack(group))
  return parser:help_usage_margin(2):help_description_margin(math.min(width, 40, (columns or 80) * 3 // 5 - 4) + 4)
end

--- Completes the prefix of a long option's name. Options marked `extension` never make a prefix ambiguous.
local function complete(command, name)
  local found, extensions = {}, {}
  for _, option in ipairs(all_of(command)) do
    local long = "--" .. option[1]
    if long == name then return name end
    if long:sub(1, #name) == name then table.insert(option.extension and extensions or found, long) end
  end
  if #found == 0 then found = extensions end
  if #found > 1 then
    error_module.raise("usage", "%s: ambiguous option '%s': it may be %s", command.name, name,
      table.concat(found, ", "))
  end
  return found[1] or name
end

--- Prepares argv for argparse: completes prefixes and joins negative numbers to the previous option.
local function prepare(command, argv)
  local valued, words = {}, {}
  for _, option in ipairs(all_of(command)) do
    valued["--" .. option[1]] = not is_flag(option) and "="
    if option.short then valued["-" .. option.short] = not is_flag(option) and "" end
  end
  local i = 1
  while i <= #argv and argv[i] ~= "--" do
    local word = argv[i]
    local name, value = word:match("^(%-%-[^=]+)(.*)$")
    if name and command.prefixes then word = complete(command, name) .. value end
    local join = valued[word]
    if join and (argv[i + 1] or ""):match("^%-[%d%.]") then
      word = word .. join .. argv[i + 1]
      i = i + 1
    end
    words[#words + 1] = word
    i = i + 1
  end
  return table.move(argv, i, #argv, #words + 1, words)
end

--- Raises a message of argparse as a usage error, with ett's own suggestion of the nearest option.
local function refuse(command, message)
  local unknown = message:match("^unknown option '(.-)'")
  if unknown then
    local names = {}
    for i, option in ipairs(all_of(command)) do names[i] = "--" .. option[1] end
    local hint = (command.hints or {})[unknown:match "^%-%-([^=]*)"]
    local near = hint and "; " .. hint or error_module.suggestion(unknown, names)
    message = error_module.message("unknown option '%s'%s", unknown, near ~= "" and near
      or ("; `ett %s --help` lists them"):format(command.name))
  end
  error_module.raise("usage", "%s: %s", command.name, message)
end

local current -- the command of the command line

--- The option of the command line's command with the name of a field, or nil: "--chrome-trace" for "chrome_trace".
function options.named(name)
  local dashed = name:gsub("_", "-")
  return current and declared(current, dashed) and "--" .. dashed or nil
end

--- Options and words of an argv of options with whole names, each at most once and valid; nil for all others. Loading
--- and filling argparse takes a tenth of a short command's time.
local function read_plain(command, argv)
  local by_word, opts, positional, i = {}, {}, {}, 0
  for _, option in ipairs(all_of(command)) do by_word["--" .. option[1]] = option end
  while i < #argv do
    i = i + 1
    local word = argv[i]
    local option = by_word[word]
    if word:byte() ~= 45 then -- "-"
      positional[#positional + 1] = word
    elseif not option or option.many or opts[options.key(option)] ~= nil then
      return nil
    elseif is_flag(option) then
      opts[options.key(option)] = true
    else
      i = i + 1
      local text = argv[i]
      local value = text and text:byte() ~= 45 and read(option, text)
      if not value then return nil end
      opts[options.key(option)] = value
    end
  end
  return opts, positional
end

--- The values of argv's options, and the other words.
local function parsed(command, argv)
  local plain, others = read_plain(command, argv)
  if plain then return plain, others end
  local parser = new_parser(command)
  local words = "words of the command" -- no option has this name
  parser:argument(words):args("*"):hidden(true)
  parser.error = function(_, message) refuse(command, message) end
  local opts = parser:parse(prepare(command, argv))
  local positional = opts[words]
  opts[words] = nil
  return opts, positional
end

--- Parses argv against a command's options: returns opts, positional. `--name value`, `--name=value`, `-n value`, `--`.
--- Refuses a second value of an option without `many`.
---@param command { name: string, options: table[]?, prefixes: boolean?, words: boolean?, finds: boolean? } `words =
---  false` refuses words
---@param argv string[]
---@return table<string, any> opts, string[] positional
function options.parse(command, argv)
  current = command
  local opts, positional = parsed(command, argv)
  if opts.help then return opts, positional end
  local missing = {}
  for _, option in ipairs(command.options or {}) do
    local key = options.key(option)
    if opts[key] == nil then
      opts[key] = option.default
      if option.required then missing[#missing + 1] = "--" .. option[1] end
    end
  end
  local name = command.name
  if #missing > 0 then
    error_module.raise("usage", "%s: missing %s; `ett %s --help` lists the options", name,
      table.concat(missing, ", "), name)
  end
  if opts.csv and opts.json then error_module.raise("usage", "%s: give --json or --csv, not both", name) end
  if opts.table and not opts.csv then error_module.raise("usage", "%s: --table needs --csv", name) end
  if opts.csv and not declared(command, "csv") then opts.json = true end -- ett.report.output prints either
  if command.words == false and positional[1] then
    error_module.raise("usage", "%s: takes no arguments, got '%s'", name, positional[1])
  end
  return opts, positional
end

--- Parses words NAME=VALUE to a table of texts. Refuses other words and repeated names.
---@param words string[]
---@param label string the command or script, for messages
---@param hint string? appended to the message about another word
---@return table<string, string>
function options.words(words, label, hint)
  local by_name = {}
  for _, word in ipairs(words) do
    local name, text = word:match("^([%a_][%w_%.%-]*)=(.*)$")
    if not name then
      error_module.raise("usage", "%s: expected NAME=VALUE, got '%s'%s", label, word, hint or "")
    end
    if by_name[name] then
      error_module.raise("usage", "%s: '%s' is given twice: '%s' and '%s'", label, name, by_name[name], text)
    end
    by_name[name] = text
  end
  return by_name
end

-- The values of these options and plan fields are names that `ett list KIND` prints.
local named_options = { model = "models", cluster = "clusters" }
local named_fields = { { "schedule", "schedules" }, { "stack", "stacks" } }

-- The command with which a shell lists the names of a kind.
local list_names = "ett list %s --quiet 2>/dev/null"

-- The text with {{KIND}} replaced by the command that lists these names.
local function with_lists(text)
  return (text:gsub("{{(%a+)}}", function(kind) return list_names:format(kind) end))
end

--- Words that completion offers: those of a list or of a function, or the command that lists the names of a kind.
local function offered(offers)
  if type(offers) == "string" then return ("$({{%s}})"):format(offers) end
  return table.concat(type(offers) == "function" and offers() or offers, " ")
end

-- A line for each list of words that arguments of commands may be: format(the commands joined by `between`, the words).
local function of_arguments(commands, between, format)
  local names, order = {}, {}
  for _, command in ipairs(commands) do
    local words = command.offers and offered(command.offers)
    if words and not names[words] then names[words], order[#order + 1] = {}, words end
    if words then table.insert(names[words], command.name) end
  end
  local lines = {}
  for i, words in ipairs(order) do lines[i] = format:format(table.concat(names[words], between), words) end
  return table.concat(lines)
end

-- Each function completes the script of argparse for a shell. @KIND@, a choice that argparse wrote, becomes the names
-- of that kind. Words such as stack=NAME are completed, too, and the arguments that a command offers.
local finish = {}

-- Bash takes "=" as a word of its own. A word after an option may be its value.
function finish.bash(script, commands)
  local cases = {}
  for i, field in ipairs(named_fields) do
    cases[i] = ("        %s=) names=$({{%s}}) ;;\n"):format(field[1], field[2])
  end
  return with_lists(script:gsub('"@(%a+)@"', '"$({{%1}})"') .. [==[

_ett_or_name() {
    local names= cur="${COMP_WORDS[COMP_CWORD]}" at=$((COMP_CWORD-1))
    if [ "$cur" = "=" ]; then
        cur= at=$COMP_CWORD
    fi
    case "${COMP_WORDS[at-1]}${COMP_WORDS[at]}" in
]==] .. table.concat(cases) .. [==[
        *=) _ett; return ;;
        *)
            _ett
            [[ ${#COMPREPLY[@]} -gt 0 || "$cur" = -* || "${COMP_WORDS[at]}" = -* || $at = 0 ]] && return
            case "${COMP_WORDS[1]}" in
]==] .. of_arguments(commands, "|", "                %s) names=\"%s\" ;;\n") .. [==[
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$names" -- "$cur"))
    [[ "${COMPREPLY[0]}" = *= ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -F _ett_or_name -o bashdefault -o default ett
]==])
end

function finish.zsh(script, commands)
  local cases = {}
  for i, field in ipairs(named_fields) do
    cases[i] = ("    %s=*) compset -P '*='; compadd -- $({{%s}}) ;;\n"):format(field[1], field[2])
  end
  local functions = "_ett_names() {\n  _alternative \"names:name:($(" .. list_names:format "$1"
    .. "))\" 'files:file:_files'\n}\n\n_ett_words() {\n  case $PREFIX in\n" .. table.concat(cases)
    .. "    *)\n      local -a offered\n      case $words[1] in\n"
    .. of_arguments(commands, "|", "        %s) offered=(%s) ;;\n") .. "      esac\n"
    .. "      compadd -S '' -- ${(M)offered:#*=} || compadd -- ${offered:#*=} || _files ;;\n  esac\n}\n"
  local before, call = script:match "^(.*\n)(_ett\n)$"
  return with_lists(before:gsub(": :%(@words@%)", ": :_ett_words"):gsub(": :%(@(%a+)@%)", ": : _ett_names %1")
    .. functions .. "\n" .. call)
end

function finish.fish(script, commands)
  local lines = {}
  for i, field in ipairs(named_fields) do
    lines[i] = ("complete -c ett -n 'string match -q \"%s=*\" -- (commandline -ct)' -a '%s=({{%s}})'\n"):format(
      field[1], field[1], field[2])
  end
  return with_lists(script:gsub("%-xa '@(%a+)@'", "-ra '({{%1}})'") .. table.concat(lines)
    .. of_arguments(commands, " ", "complete -c ett -n 'contains -- (__fish_ett_print_command) %s' -a '%s'\n")
      :gsub("%$%(", "("))
end

--- The script for shell completion of ett commands.
---@param commands table[] as in options.parse, with summaries
---@param shell "bash"|"zsh"|"fish"
function options.completion(commands, shell)
  local parser = require "argparse" "ett"
  for _, command in ipairs(commands) do
    local sub = parser:command(command.name):summary(command.summary):add_help(false)
    for _, option in ipairs(all_of(command)) do
      local added = sub:option("--" .. option[1]):description(option[#option])
      local kind = named_options[option[1]]
      if is_flag(option) then added:args(0) end
      local choices = option.choices or option.offers and option.offers() or kind and { "@" .. kind .. "@" }
      if choices then added:choices(choices) end
    end
    if command.words ~= false then sub:argument("words"):args("*"):choices { "@words@" } end
  end
  return finish[shell](parser["get_" .. shell .. "_complete"](parser), commands)
end

--- Text escaped for roff: leading dots and quotes, dashes, backslashes.
local function roff(text)
  return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("\n([.'])", "\n\\&%1"):gsub("^([.'])", "\\&%1"))
end

--- A description for roff: indented lines, which are tables, remain as they are; others are filled.
local function roff_lines(text)
  local parts, table_open = {}, false
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    local is_table = line:find "^ " ~= nil
    if is_table ~= table_open then parts[#parts + 1] = is_table and ".nf" or ".fi" end
    parts[#parts + 1], table_open = roff(line), is_table
    if not is_table and line ~= "" then parts[#parts + 1] = ".br" end
  end
  if table_open then parts[#parts + 1] = ".fi" end
  return table.concat(parts, "\n")
end

--- A man page of section 1.
---@param command table as in options.parse, with usage, summary and a text as description
function options.manual(command, version)
  local parts = { (".TH ETT\\-%s 1 \"\" \"ett %s\"\n.SH NAME\nett\\-%s \\- %s\n.SH SYNOPSIS\n.B ett %s\n"):format(
    command.name:upper(), version, roff(command.name), roff(command.summary), roff(command.usage or command.name)) }
  if command.description then
    parts[#parts + 1] = (".SH DESCRIPTION\n%s\n"):format(roff_lines(command.description))
  end
  parts[#parts + 1] = ".SH OPTIONS\n"
  for _, option in ipairs(all_of(command)) do
    local value = is_flag(option) and "" or " " .. (option.choices and table.concat(option.choices, "|") or option[2])
    parts[#parts + 1] = (".TP\n.B %s\n%s\n"):format(roff("--" .. option[1] .. value), roff(description(option)))
  end
  return table.concat(parts)
end

--- The page of the program: its commands. Its files are named from the prefix of the installation.
function options.overview(commands, version)
  local parts = { (".TH ETT 1 \"\" \"ett %s\"\n.SH NAME\nett \\- %s\n.SH SYNOPSIS\n.B ett\nCOMMAND [option ...] "
    .. "[argument ...]\n.SH COMMANDS\n"):format(version,
    "predict the time, memory and cost of training a large model on a cluster") }
  for _, command in ipairs(commands) do
    parts[#parts + 1] = (".TP\n.BR ett\\-%s (1)\n%s\n"):format(roff(command.name), roff(command.summary))
  end
  parts[#parts + 1] = ".SH FILES\n.TP\nshare/doc/ett/README.md\nfirst steps, and what the lines of an estimate mean\n"
    .. ".TP\nshare/doc/ett/ACCURACY.md\nerrors by device, precision and model\n"
    .. ".TP\nshare/ett/examples\nscripts to copy\n"
  return table.concat(parts)
end

--- Usage lines of at most `columns`; bracketed parts are not split if possible.
local function usage_lines(text, columns)
  local lines = {}
  for line in text:gmatch "[^\n]+" do
    local indent, used = line:match "^ *", #line:match "^ *"
    local parts = { indent }
    for part in line:gsub("%b[]", function(group) return (group:gsub(" ", "\0")) end):gmatch "%S+" do
      if used > #indent and used + 1 + #part > columns then
        parts[#parts + 1], used = "\n           ", 11
      elseif used > #indent then
        parts[#parts + 1], used = " ", used + 1
      end
      parts[#parts + 1], used = part:gsub("%z", " "), used + #part
    end
    lines[#lines + 1] = table.concat(parts)
  end
  return table.concat(lines, "\n")
end

--- The help text of a command: usage, summary, description, options.
---@param command { name: string, usage: string?, summary: string?, options: table[]? }
---@param more string? printed after the summary
---@return string
function options.help(command, more)
  local usage, columns = "usage: ett " .. (command.usage or command.name), require("ett.host").columns
  local parser = new_parser(command, columns)
  if columns then
    usage = usage_lines(usage, columns)
    parser:help_max_width(columns)
  end
  parser:usage(usage)
  local texts = { command.summary or more, command.summary and more }
  if texts[1] then parser:description(table.concat(texts, "\n\n")) end
  return parser:get_help()
end

return options
