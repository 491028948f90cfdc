--- Files whose last line holds a hash of the lines before it: what is damaged is never used.
local error_module = require "ett.base.error"
local io_module = require "ett.io"

local sealed = {}

--- A text of whole lines with its hash.
function sealed.text(text) return ("%s-- hash %s\n"):format(text, io_module.hash(text)) end

--- Raises where a text is not as it was written.
---@param label string the file, for the message
function sealed.check(text, label)
  local body, hash = text:match "^(.*\n)%-%- hash (%x+)\n$"
  if not body then
    error_module.raise("format", "%s: its last line is not its hash: it is cut off, or of another version of ett",
      label)
  elseif hash ~= io_module.hash(body) then
    error_module.raise("format", "%s: its lines do not have the hash of its last line: it is damaged, or was edited",
      label)
  end
end

return sealed
