--- Text on the origin of an answer of a profile: { seconds, low_seconds, high_seconds, provenance, detail }. Answers of
--- messages have `model` (of communication) and `sharing` of links with other groups: "placed", computed from the
--- placement of the group; "together", sampled with all sends at once; nil, one group alone. Facts of an answer are
--- fields beside its text: `outside` (log2 of the ratio to the nearest sampled size), `scaled_from` (another cluster),
--- `limited` (to the device's peak rates), `caution` (a warning about the samples).
--
-- A search computes thousands of answers and shows a few, so a detail may stay a format with its arguments,
-- { format, … }, until it is read. The arguments may be details too.
local detail = {}

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

return detail
