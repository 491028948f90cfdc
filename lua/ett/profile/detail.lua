--- Words on where an answer comes from. A search asks for thousands of answers and shows a few: until someone reads it,
--- a detail may be a format with its arguments, { format, … }, which may be details too.
local detail = {}

--- A detail as text, or nil.
function detail.text(given)
  if type(given) ~= "table" then return given end
  local words = table.move(given, 2, #given, 1, {})
  for i, word in ipairs(words) do words[i] = detail.text(word) end
  return given[1]:format(table.unpack(words))
end

--- An answer whose detail is text.
---@param answer table|nil
function detail.told(answer)
  if answer and type(answer.detail) == "table" then answer.detail = detail.text(answer.detail) end
  return answer
end

return detail
