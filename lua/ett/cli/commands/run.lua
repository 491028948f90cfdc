--- Runs a script and prints its value. A script declares its own options.
local error_module = require "ett.base.error"
local script = require "ett.cli.script"

-- Hints for unknown options: those of the script are words. A misspelt option of `ett run` has none.
local hints = setmetatable({}, { __index = function(_, name)
  local own = { "path", "sandbox", "help", "traceback" }
  for i, option in ipairs(script.command_options) do own[4 + i] = option[1] end
  if error_module.nearest(name, own) then return nil end
  return ("options of a script have no dashes: %s=VALUE"):format(name:gsub("%-", "_"))
end })

return {
  name = "run",
  finds = true,
  sandbox = true,
  summary = "run a script",
  usage = "run SCRIPT.lua [NAME=VALUE ...] [--json] [--quiet]",
  description = "Options of a script are words NAME=VALUE; `ett run SCRIPT.lua --help` lists them.\n"
    .. "The value that the script returns is printed as a table, or with --json as JSON.",
  hints = hints,
  options = script.command_options,
  own_help = true,
  run = function(opts, words)
    local path = table.remove(words, 1)
    if not path then
      error_module.raise("usage", "run: missing SCRIPT.lua; usage: ett run SCRIPT.lua [NAME=VALUE ...]")
    end
    return script.run(path, words, opts)
  end,
}
