--- Runs ett as a user does, in a temporary folder, and writes and reads files there.
local host = require "ett.host"
local lfs = require "lfs"

local command = {}

--- A temporary folder for a spec.
function command.folder()
  local folder = os.tmpname()
  os.remove(folder)
  assert(lfs.mkdir(folder))
  return folder
end

--- Removes such a folder.
function command.remove(folder) require("ett.base.folder").remove(folder) end

--- A folder that each spec of the file, or of the describe block, finds empty.
---@param busted table before_each and after_each, as a spec file has them
function command.each_folder(busted)
  local folder = os.tmpname()
  os.remove(folder)
  busted.before_each(function() assert(lfs.mkdir(folder)) end)
  busted.after_each(function() command.remove(folder) end)
  return folder
end

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

--- Runs a command line of sh; returns its output (both streams) and its exit status.
function command.shell(line)
  local pipe = io.popen(("{ %s; } 2>&1; echo \"status $?\""):format(line))
  local output, status = pipe:read("a"):match("^(.*)status (%d+)\n$")
  pipe:close()
  return output, math.tointeger(tonumber(status))
end

--- Checks the exit status of a command; returns its output, which is the message if the status is another one.
---   assert.matches("2 measured", command.ended(0, command.ett(folder, "sample c.lua")))
function command.ended(wanted, output, status)
  if status ~= wanted then error(("exit status %s, expected %d:\n%s"):format(status, wanted, output), 2) end
  return output
end

-- The words of a command line; nil if it needs a shell.
local function words_of(line)
  if line:find "[|&;<>$`\\*?()#~\n]" or line:find "^[%w_]+=" then return nil end
  local words, at = {}, 1
  while true do
    at = line:find("%S", at)
    if not at then return words end
    local word = ""
    while at <= #line and not line:find("^%s", at) do
      local quote = line:match("^[\"']", at)
      local stop = quote and line:find(quote, at + 1, true) or (line:find("[%s\"']", at) or #line + 1) - 1
      if not stop then return nil end
      word = word .. (quote and line:sub(at + 1, stop - 1) or line:sub(at, stop))
      at = stop + 1
    end
    words[#words + 1] = word
  end
end

--- Runs ett with these words in the folder, in a forked child, which has the modules of this process. This is much
-- faster than starting a program. Its output goes to two files, which may be the same.
---@param words string[]
---@return integer status
function command.forked(folder, words, output, errors)
  local status, modules = require("ett.testing").command(folder, output, errors, words)
  for name in modules:gmatch "[^\n]+" do -- the next child starts with these Lua modules
    if not package.loaded[name] and package.searchpath(name, package.path) then pcall(require, name) end
  end
  return status
end

--- The words of a line that can run in a forked child; nil if it needs a shell, or if oom_shim.so is loaded.
---@param line string
---@return string[]?
function command.words(line) return not os.getenv "LD_PRELOAD" and words_of(line) or nil end

--- Runs `ett ARGUMENTS` in the folder, for five minutes at most.
---@param arguments string|string[] words of a shell's line, or of command.words
---@param before string? words before it on the line, instead of the limit: variables, `ulimit -f 8;`, a command;
--- then ett is started as a program
---@return string output, integer status
function command.ett(folder, arguments, before)
  local words = type(arguments) == "table" and arguments or not before and command.words(arguments)
  if not words then
    return command.shell(("cd '%s' && %s '%s/bin/ett' %s"):format(folder, before or "timeout 300", host.prefix,
      arguments))
  end
  local said = os.tmpname()
  local status = command.forked(folder, words, said, said)
  local file = assert(io.open(said))
  local output = file:read("a")
  file:close()
  os.remove(said)
  return output, status
end

return command
