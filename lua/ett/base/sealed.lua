--- Lua data files whose last line is a hash of the other lines; damaged files are refused.
local error_module = require "ett.base.error"
local files = require "ett.io"

local sealed = {}

--- Appends the hash line to a text of whole lines.
function sealed.text(text) return ("%s-- hash %s\n"):format(text, files.hash(text)) end

--- A long text in lines of 112 characters.
function sealed.wrapped(text) return (text:gsub(("."):rep(112), "%0\n")) end

--- Runs a data file as text without globals, so that it cannot access files or programs.
---@return any value nil on failure
---@return boolean|string own whether the file is as built with ett; on failure, the reason
function sealed.load(path)
  local chunk, own = loadfile(path, "t", {})
  if not chunk then return nil, own end
  local ok, value = pcall(chunk)
  if not ok then return nil, tostring(value) end
  return value, own or false
end

--- Raises if a file does not match its hash.
---@param label string the file, for the message
function sealed.check(path, label)
  local text = assert(files.read(path))
  local hash = text:sub(-64):match "\n%-%- hash (%x+)\n$"
  if not hash then
    error_module.raise("format", "%s: the last line is not its hash: the file is cut off or of another ett version",
      label)
  elseif hash ~= files.hash(text:sub(1, -#hash - #"-- hash \n" - 1)) then
    error_module.raise("format", "%s: the hash in the last line does not match: the file is damaged or was edited",
      label)
  end
end

return sealed
