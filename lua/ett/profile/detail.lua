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

--- An answer as the values that timers return: seconds, low, high, provenance, detail, model of communication, shared.
--- A timer makes a detail only where its second argument says so. shared: "placed", of the cluster's tiers by the place
--- of the group, or "together", sampled with all sends at once; nil: of one group alone.
---@param answer table|nil
function detail.values(answer)
  if not answer then return nil end
  return answer.seconds, answer.low_seconds, answer.high_seconds, answer.provenance, answer.detail, answer.model,
    answer.together and "together" or nil
end

--- The values of a timer as an answer; nil of nil.
function detail.answer(seconds, low, high, provenance, words, model)
  return seconds and { seconds = seconds, low_seconds = low, high_seconds = high, provenance = provenance,
    detail = words, model = model }
end

return detail
