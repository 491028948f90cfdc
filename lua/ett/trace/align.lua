--- Matches collectives of several ranks by their position in the sequence.
--
-- Within a process group every rank issues the same collectives in the same order. The i-th collective of one rank is
-- the (i + offset)-th of another, whose recording starts earlier or later. A collective ends on all ranks within
-- microseconds, because they share its transfer. The offset is therefore the one with the smallest median |end
-- difference|. If that median exceeds the tolerance, the ranks cannot be matched (a sampled trace, or different host
-- clocks) and no lag is computed. Clocks with a constant difference give nearly equal end differences. Mode "clocks"
-- finds the offset with the most equal differences and takes their median as the clock difference. Mode "auto" does so
-- only if the differences are within the tolerance but have a much smaller spread than magnitude.
local sequence = require "ett.sequence"

local align = {}

local clock_pairs = 4 -- an offset leaves at least half of the pairs; fewer pairs cannot show a constant difference

--- Whether the run is too periodic to distinguish a clock difference from a late recording.
local function is_regular(found, tolerance)
  return found.second and found.second < math.max(3 * found.median, tolerance / 50)
end

--- The offset of two sequences in mode "auto": the one with the smallest differences. Adds {clock=} for a constant
--- clock difference above 1/10 of the tolerance, {suspected=} above 1/50.
local function automatic(reference, list, tolerance)
  local found = reference:align(list)
  local few = math.min(#reference, #list) < 2 * clock_pairs
  if not found or few or found.median <= tolerance / 1000 then return found end
  local steady = reference:align(list, true)
  local clock = steady and 4 * steady.median < found.median and math.abs(steady.clock) or 0
  local same = steady and steady.offset == found.offset
  if clock > tolerance / 10 and clock <= 2 * tolerance and (same or not is_regular(steady, tolerance)) then
    return steady
  end
  if same and clock > tolerance / 50 then found.suspected = steady.clock end
  return found
end

--- Matches the collectives of several ranks.
---@param lists any[] an ett.sequence for each rank, with types
---@param options table mode = "auto" (align, subtract a constant difference of clocks, refuse
---  when the ends disagree), "none" (by index),
---  "clocks" (align, and subtract a constant difference of clocks) or "force" (align, never refuse);
---  tolerance in ticks
---@return table? result { offsets, medians, clocks, suspected, matches (ett.sequence) }
---@return string? reason why the ranks cannot be matched
---@return table? offsets those tried, when refused
function align.match(lists, options)
  local mode = options.mode or "auto"
  local result = { offsets = {}, medians = {}, clocks = {}, suspected = {} }
  local reference = lists[1]
  for r, list in ipairs(lists) do
    if #list == 0 then return nil, ("rank %d of the group has no collective in the window"):format(r - 1) end
    if r == 1 or mode == "none" then
      result.offsets[r] = 0
      result.medians[r] = r == 1 and 0.0 or reference:align(list, false, 0).median
    else
      local found
      if mode == "auto" then
        found = automatic(reference, list, options.tolerance)
      else
        found = reference:align(list, mode == "clocks")
      end
      if not found then
        return nil, "the ranks ran different kernels at every offset tried"
      elseif mode == "clocks" and is_regular(found, options.tolerance) then
        return nil, "the run is too regular to tell a clock difference from a late recording"
      end
      result.offsets[r], result.medians[r] = found.offset, found.median
      result.clocks[r] = found.clock and math.floor(found.clock + 0.5)
      result.suspected[r] = found.suspected
    end
  end
  if mode == "auto" or mode == "clocks" then
    for r = 2, #lists do
      if result.medians[r] > options.tolerance then return nil, "ends", result end
    end
  end
  result.matches = sequence.matches(lists, result.offsets, result.clocks)
  if #result.matches == 0 then return nil, "no collective was recorded by every rank" end
  return result
end

--- Why a group of View:matched_groups was not matched, as a message.
function align.refusal(view, each)
  if each.reason ~= "ends" then return each.reason end
  if each.group.pair then
    return ("the ends of the sends and receives %s differ by %.1f us (median): a send may end before its receive; "
      .. "--align force reports them anyway"):format(each.group.pair:gsub(">", " to "), view:us(each.tried.medians[2]))
  end
  local worst, apart, reference = 0, 0, each.group.members[1].list
  for r = 2, #each.tried.medians do worst = math.max(worst, each.tried.medians[r]) end
  for r = 2, #each.group.members do
    local found = reference:align(each.group.members[r].list, true)
    if not found or found.median > view:tolerance() then
      apart = nil
      break
    end
    apart = math.max(apart, math.abs(found.clock))
  end
  if apart then
    return ("the ends of the same collective differ by %.1f us (median) between ranks, by a constant: the clocks "
      .. "differ by up to %.1f us; --align clocks corrects that"):format(view:us(worst), view:us(apart))
  end
  return ("the ends of the same collective differ by %.1f us (median) between ranks even at the best offset, "
    .. "so the trace is sampled or the hosts' clocks differ; --align force reports it anyway")
    :format(view:us(worst))
end

return align
