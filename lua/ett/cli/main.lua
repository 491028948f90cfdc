--- The command line: finds lua/ett/cli/commands/COMMAND.lua and runs it.
local commands = require "ett.cli.commands"
local error_module = require "ett.base.error"
local host = require "ett.host"
local options = require "ett.base.options"

local function print_overview()
  print("usage: ett COMMAND [option ...] [argument ...]\n")
  print("ett predicts the time, memory and cost of training a large model on a cluster.\n")
  local rows = {}
  for i, command in ipairs(commands.all()) do rows[i] = { command.name, command.summary } end
  print(require("ett.report.table").text(rows, "ll", "  "))
  print("\nA first prediction: ett predict --model llama3-8b seq=8192 tp=2 dp=4 zero=1 global_batch=8")
  print("`ett COMMAND --help` explains a command; `ett list models clusters` prints names.")
  print("`ett --version` prints the version.")
end

local function print_help(command, opts)
  local more = command.description
  if type(more) == "function" then more = more(opts) end
  print(options.help(command, more))
end

--- Enters the sandbox if --sandbox or the environment requests it. Help enters it, too: it may run a script.
local function enter_sandbox(command, opts, words, positional)
  if not (command.finds or command.starts) then return end
  local sandbox = os.getenv "ETT_SANDBOX" and require "ett.cli.sandbox"
  if not opts.sandbox and not (sandbox and sandbox.asked()) then return end
  if not command.sandbox and not opts.help then
    error_module.raise("usage", "ett %s does not run in the sandbox; unset ETT_SANDBOX if you trust its files",
      command.name)
  end
  for _, option in ipairs(command.options or {}) do
    if option.writes and opts[options.key(option)] then
      error_module.raise("usage", "%s: --%s writes a file, which the sandbox forbids", command.name,
        option[1])
    end
  end
  require("ett.cli.sandbox").enter(words, command.name == "run" and positional[1])
end

local function main(argv)
  local name = argv[1]
  if name == nil then
    print_overview()
    return 2
  elseif name == "help" and argv[2] then
    return main { argv[2], "--help" }
  elseif name == "--help" or name == "-h" or name == "help" then
    print_overview()
    return 0
  elseif name == "--version" then
    print("ett " .. host.version)
    return 0
  end
  local path = commands.path(name)
  if not path then
    -- Runs a script given as the command, so that `#!/usr/bin/env ett` lines work.
    if name:match("%.lua$") or name:match("/") then
      table.insert(argv, 1, "run")
      path = commands.path("run")
    end
    if not path then
      if name:match("^%-") then
        error_module.raise("usage", "unknown option '%s': options come after the command (`ett COMMAND --help`)", name)
      end
      error_module.raise("usage", "unknown command '%s'%s; `ett --help` lists them", name,
        name == "version" and "; did you mean '--version'?" or error_module.suggestion(name, commands.names()))
    end
  end
  local command = dofile(path)
  local rest = table.move(argv, 2, #argv, 1, {})
  local opts, positional = {}, {}
  if command.raw then opts.help = command.asks_help(rest) else opts, positional = options.parse(command, rest) end
  if opts.path and command.finds then require("ett.base.find").set_folders(opts.path) end
  enter_sandbox(command, opts, rest, positional)
  -- From here `require` also searches ETT_PATH, whose files may be untrusted.
  if os.getenv "ETT_PATH" and (command.finds or command.starts) then require("ett.base.find").set_script_folder(nil) end
  if command.raw and not opts.help then return command.run(rest) or 0 end
  if opts.help and not (command.own_help and positional[1]) then
    if command.models then opts.model = opts.model or positional[1] end -- ett predict --help NAME
    print_help(command, opts)
    return 0
  end
  return command.run(opts, positional) or 0
end

return main
