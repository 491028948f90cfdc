--- Text on the origin of an answer. A search computes thousands of answers and shows a few, so a detail may stay a
--- format with its arguments, { format, … }, until it is read. The arguments may be details too.
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
function detail.as_text(answer)
  if answer and type(answer.detail) == "table" then answer.detail = detail.text(answer.detail) end
  return answer
end

--- An answer as multiple values: seconds, low, high, provenance, detail, model of communication, sharing. Timers return
--- these values, and compute the detail only if their second argument is true. The sharing of links with other groups:
--- "placed": computed from the placement of the group; "together": sampled with all sends at once; nil: one group
--- alone.
---@param answer table|nil
function detail.values(answer)
  if not answer then return nil end
  return answer.seconds, answer.low_seconds, answer.high_seconds, answer.provenance, answer.detail, answer.model,
    answer.together and "together" or nil
end

--- The values of a timer as an answer table; nil if seconds is nil.
function detail.answer(seconds, low, high, provenance, words, model)
  return seconds and { seconds = seconds, low_seconds = low, high_seconds = high, provenance = provenance,
    detail = words, model = model }
end

return detail
