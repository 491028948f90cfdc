--- Data files in Lua whose last line holds a hash of the lines before it: what is damaged is never used.
local error_module = require "ett.base.error"
local files = require "ett.io"

local sealed = {}

--- A text of whole lines with its hash.
function sealed.text(text) return ("%s-- hash %s\n"):format(text, files.hash(text)) end

--- Runs a data file, text only, without globals: it cannot reach files or programs.
---@return any value nil where it does not run
---@return boolean|string own whether the file is as it was when ett was built; in place of a value, the reason
function sealed.load(path)
  local chunk, own = loadfile(path, "t", {})
  if not chunk then return nil, own end
  local ok, value = pcall(chunk)
  if not ok then return nil, tostring(value) end
  return value, own or false
end

--- Raises where a file is not as it was written.
---@param label string the file, for the message
function sealed.check(path, label)
  local text = assert(files.read(path))
  local hash = text:sub(-64):match "\n%-%- hash (%x+)\n$"
  if not hash then
    error_module.raise("format", "%s: its last line is not its hash: it is cut off, or of another version of ett",
      label)
  elseif hash ~= files.hash(text:sub(1, -#hash - #"-- hash \n" - 1)) then
    error_module.raise("format", "%s: its lines do not have the hash of its last line: it is damaged, or was edited",
      label)
  end
end

return sealed
