--- Quoting of words for `sh`.
local shell = {}

--- A word quoted for sh; plain words are unchanged, others go in single quotes.
---@param text string
---@return string
function shell.quote(text)
  if text:match("^[%w%./_%-=,:]+$") then return text end
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

return shell
