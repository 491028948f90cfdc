--- Runs ett as a user does, in a folder of a spec's own, and writes and reads the files there.
local host = require "ett.host"
local lfs = require "lfs"

local command = {}

--- A folder of its own for a spec.
function command.folder()
  local folder = os.tmpname()
  os.remove(folder)
  assert(lfs.mkdir(folder))
  return folder
end

--- Removes such a folder.
function command.remove(folder) require("ett.base.folder").remove(folder) end

--- Writes a file of the folder.
function command.write(folder, name, text)
  local file = assert(io.open(folder .. "/" .. name, "w"))
  file:write(text)
  file:close()
end

--- Text of a file of the folder, or nil.
function command.read(folder, name)
  local file = io.open(folder .. "/" .. name, "r")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

--- Runs a command line of sh: what it prints (both streams) and its exit status.
function command.shell(line)
  local pipe = io.popen(("{ %s; } 2>&1; echo \"status $?\""):format(line))
  local output, status = pipe:read("a"):match("^(.*)status (%d+)\n$")
  pipe:close()
  return output, math.tointeger(tonumber(status))
end

--- Runs `ett ARGUMENTS` in the folder, for a minute at most.
---@param before string? what stands before it on the line in place of that limit: variables, `ulimit -f 8;`, a command
---@return string output, integer status
function command.ett(folder, arguments, before)
  return command.shell(("cd '%s' && %s '%s/bin/ett' %s"):format(folder, before or "timeout 60", host.prefix, arguments))
end

return command
