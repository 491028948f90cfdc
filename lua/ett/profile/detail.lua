--- The text `detail` on the origin of an answer of a profile.
--
-- An answer is { seconds, low_seconds, high_seconds, provenance, detail }. It may have these fields, too:
--   outside      log2 of the ratio to the nearest sampled size
--   scaled_from  name of the cluster whose time was scaled
--   borrowed     true: the cluster has no samples of this operator, but tables of its device or another cluster have;
--                or the samples are accepted ones of another device
--   by_rates     true: from the device's rates alone, without samples or tables
--   limited      true: the time was raised to the limit of the device's peak rates
--   caution      a warning about the samples
--   model        of a message: the name of the model of communication
--   sharing      of a message: how it shares links with other groups. "placed": computed from the placement of the
--                group; "together": sampled with all sends at once; nil: one group alone
--
-- A search computes thousands of answers and shows a few. So a detail may be { format, argument, … } until it is read;
-- the arguments may also be details.
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
