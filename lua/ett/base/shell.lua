--- Words of a command line for `sh`.
local shell = {}

--- A word as sh reads it back: plain words stay as they are, others go in single quotes.
---@param text string
---@return string
function shell.quote(text)
  if text:match("^[%w%./_%-=,:]+$") then return text end
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

return shell
