--- `ett manual`: the man page of a command.
local commands = require "ett.cli.commands"
local error_module = require "ett.base.error"
local host = require "ett.host"
local options = require "ett.base.options"

local page_columns = 72 -- of the 80 of a page, which indents by seven

-- Sets the columns of texts until the returned value is closed.
local function columns(count)
  local before = host.columns
  host.columns = count
  return setmetatable({}, { __close = function() host.columns = before end })
end

return {
  name = "manual",
  offers = commands.names,
  summary = "print the man page of ett or of a command",
  usage = "manual [COMMAND] | man -l -",
  run = function(_, words)
    if #words == 0 then
      io.write(options.overview(commands.all(), host.version))
      return
    end
    if #words > 1 then error_module.raise("usage", "manual: give at most one command, got %d", #words) end
    local command = commands.load(words[1])
    if not command then
      error_module.raise("usage", "manual: unknown command '%s'%s; `ett --help` lists them", words[1],
        error_module.suggestion(words[1], commands.names()))
    end
    local description = command.description
    if type(description) == "function" then
      local _ <close> = columns(page_columns)
      description = description {}
    end
    io.write(options.manual(setmetatable({ description = description }, { __index = command }), host.version))
  end,
}
