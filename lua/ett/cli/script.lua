--- Scripts: options declared as data, values from the command line, results printed.
--
--   local script = require "ett.cli.script"
--   local plan = script.options {
--     pp = { "degree", default = 4, help = "pipeline stages" },
--     cluster = { "string", default = "perlmutter", help = "cluster to predict on" },
--   }
--   return estimate                  -- printed by `ett run`; --json calls its metatable's __json
--
-- `ett run script.lua pp=8` sets pp. `ett run script.lua --help` prints the comment that begins the script and
-- lists the options. Under `dofile` the same script uses its defaults.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local options = require "ett.base.options"
local pretty = require "ett.base.pretty"
local schema = require "ett.base.schema"

local script = {}

--- The options of `ett run` itself.
script.command_options = {
  { "json", "print the returned value as JSON" },
  { "quiet", "do not print the returned value" },
}

---@class ett.script.Run
---@field path string
---@field name string the file's last part, for messages
---@field words table<string, string> NAME=VALUE as given
---@field used boolean whether the script called script.options
---@field help boolean
---@field resolved table? what script.options returned

---@type ett.script.Run?
local current

local function rule_parts(rule)
  if type(rule) == "string" then return rule:gsub("%?$", ""), nil, nil end
  return rule[1]:gsub("%?$", ""), rule.default, rule.help
end

--- Converts a word's text to the kind of its option: "4k" is 4000 for a count, lists are split at commas, strings are
-- unchanged.
local function convert(text, kind)
  if kind == "string" or kind == "dtype" then return text end
  return kind == "list" and require("ett.cli.fields").items(text) or options.value(text)
end

local function help_lines(declared)
  local rows = {}
  for i, name in ipairs(schema.keys(declared)) do
    local kind, default, help = rule_parts(declared[name])
    local words = { help }
    if default ~= nil then words[#words + 1] = ("(default %s)"):format(pretty.inline(default)) end
    rows[i] = { ("%s=%s"):format(name, kind:upper()), table.concat(words, " ") }
  end
  return require("ett.report.table").text(rows, "ll", "  ")
end

--- The comment at the start of a file, without dashes, for `--help`.
function script.header(path)
  local lines = {}
  for line in io.lines(path) do
    local text = line:match("^%-%-+%s?(.*)$")
    if text then
      lines[#lines + 1] = text
    elseif not (line:match("^#!") and #lines == 0) then
      break
    end
  end
  return table.concat(lines, "\n")
end

-- Makes the script's own reads of options that it has not declared raise. Other readers get nil.
local function guarded(values, declared)
  local source = current and "@" .. current.path
  return setmetatable(values, { __index = function(_, name)
    if type(name) == "string" and declared[name] == nil and debug.getinfo(2, "S").source == source then
      error_module.raise("argument", "%s", error_module.unknown("option", name, schema.keys(declared)))
    end
  end })
end

--- Declares the options of the running script and returns their values. Rules are those of ett.schema, with `help`
-- beside `default`. Raises one error with all unknown and wrong values.
---@param declared table<string, string|table>
---@return table<string, any>
function script.options(declared)
  schema.argument(declared, "table", "ett.options", "declared")
  local given, words = {}, current and current.words or {}
  if current then
    current.used = true
    current.declared = declared
    if current.help then error({ kind = "help" }, 0) end
  end
  for name, text in pairs(words) do
    local kind = declared[name] and rule_parts(declared[name]) or "string"
    given[name] = convert(text, kind)
  end
  local found, clean = schema.violations(given, declared)
  if #found > 0 then
    for i, sentence in ipairs(found) do found[i] = sentence:gsub("field", "option") end
    error_module.raise("usage", "%s", table.concat(found, "; "))
  end
  if current then current.resolved = clean end
  return guarded(clean, declared)
end

--- The line of the script at which an error occurred, if it is on the stack.
local function line_of(source)
  for level = 3, 250 do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if info.source == source then return info.currentline end
  end
  return nil
end

--- Converts any raised value to an error object with the label "script.lua:12".
local function labelled(value, source, name)
  if type(value) == "table" and value.kind == "help" then return value end
  local line = line_of(source)
  local object = error_module.from(value)
  object.traceback = object.traceback or debug.traceback(nil, 3)
  local path = source:sub(2)
  local message = tostring(object.message)
  if message:sub(1, #path + 1) == path .. ":" then -- Lua has already added the position
    local where, rest = message:sub(#path + 2):match("^(%d+): (.*)$")
    if where then
      line, object.message = tonumber(where), rest
      if object.kind == "internal" then object.kind = "model" end
    end
  end
  return error_module.label(object, line and line > 0 and ("%s:%d"):format(name, line) or name)
end

local function print_help(run)
  local parts = {}
  local header = script.header(run.path)
  if header ~= "" then parts[1] = header end
  if run.declared and next(run.declared) then
    parts[#parts + 1] = "options of the script:\n" .. help_lines(run.declared)
  end
  print(options.help({ name = "run", usage = ("run %s [NAME=VALUE ...] [--json] [--quiet]"):format(run.path),
    options = script.command_options }, parts[1] and table.concat(parts, "\n\n")))
end

local function print_heading(run)
  local host = require "ett.host"
  local words = {}
  for _, name in ipairs(schema.keys(run.resolved or {})) do
    words[#words + 1] = ("%s=%s"):format(name, pretty.inline(run.resolved[name]))
  end
  local set = #words > 0 and ": " .. table.concat(words, " ") or ""
  print(pretty.line(("# ett %s, %s%s"):format(host.version, find.label(run.name), set)))
end

local function print_result(run, opts, value)
  local share = package.loaded["ett.base.share"] -- loaded by searches and sweeps
  if value == nil or share and share.rank() > 0 then return end -- rank 0 prints for all
  if opts.json then
    io.write(require("ett.report.output").text(opts, value))
  elseif not opts.quiet then
    print_heading(run)
    print(pretty.show(value))
  end
end

local function absolute(path)
  if path:sub(1, 1) == "/" then return path end
  return require("lfs").currentdir() .. "/" .. path
end

--- Runs a script file with the words of the command line; returns the exit status.
---@param opts { json: boolean?, quiet: boolean?, help: boolean? }
function script.run(path, words, opts)
  local name = path:match("([^/]+)$") or path
  local attributes = require("lfs").attributes(path)
  if not attributes then error_module.raise("missing", "cannot read '%s': no such file", path) end
  if attributes.mode == "directory" then error_module.raise("io", "cannot read '%s': it is a folder", path) end
  local full = absolute(path)
  find.set_script_folder(full:match("^(.*)/[^/]*$"), full)
  find.protect_globals()
  local chunk, why = loadfile(path, "t", find.environment(full))
  if not chunk then
    why = tostring(why)
    local placed, count = why:gsub("^.-([^/]+:%d+:)", "%1")
    error_module.raise("model", "%s", count > 0 and placed or ("%s: %s"):format(name, why))
  end
  current = { path = path, name = name, words = options.words(words, name), help = opts.help }
  local run, source = current, "@" .. path
  local ok, result, fault = xpcall(chunk, function(value) return labelled(value, source, name) end)
  if not ok then
    local raised = result
    if type(raised) == "table" and raised.kind == "help" then
      print_help(run)
      return 0
    end
    if raised == "not enough memory" then raised = error_module.label(error_module.from(raised), name) end
    error(raised, 0)
  end
  if opts.help then
    print_help(run)
    return 0
  end
  if not run.used and next(run.words) then
    error_module.raise("usage", "%s declares no options, got '%s'", name, next(run.words))
  end
  if result == nil and error_module.is(fault) then error(error_module.label(fault, name), 0) end -- nil, err
  print_result(run, opts, result)
end

return script
