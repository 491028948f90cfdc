--- The commands: files of lua/ett/cli/commands.
local host = require "ett.host"

local commands = {}
local folder = host.root .. "/lua/ett/cli/commands"

function commands.path(name)
  if not name:match "^%a[%w%-]*$" then return nil end
  local path = ("%s/%s.lua"):format(folder, name)
  local file = io.open(path, "r")
  if not file then return nil end
  file:close()
  return path
end

--- Sorted names of all commands.
function commands.names()
  local names = {}
  for entry in require("lfs").dir(folder) do
    local name = entry:match "^(%a[%w%-]*)%.lua$"
    if name then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

function commands.load(name)
  local path = commands.path(name)
  return path and dofile(path)
end

--- Every command that `ett --help` lists.
function commands.all()
  local list = {}
  for _, name in ipairs(commands.names()) do
    local command = commands.load(name)
    if not command.hidden then list[#list + 1] = command end
  end
  return list
end

return commands
