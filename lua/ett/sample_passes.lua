--- The passes of a campaign: noise on a machine comes in stretches of milliseconds to seconds, so
--- each shape is measured in several visits some time apart, and what they saw is put together.
local error_module = require "ett.error"

local passes = {}

--- Of two results of the same shape the quicker one, pass by pass; one that kept its processor
--- beats one that did not. For back ends without a merge of their own.
function passes.better(a, b)
  if not a then return b end
  local best = {}
  for pass, result in pairs(b) do
    local before = a[pass]
    if type(result) ~= "table" or type(before) ~= "table" then
      best[pass] = result
    elseif (before.preempted or false) ~= (result.preempted or false) then
      best[pass] = before.preempted and result or before
    else
      best[pass] = before.seconds <= result.seconds and before or result
    end
  end
  return best
end

--- Measures a block of shapes in `count` visits each.
---@param block table[] { values = }; gains results or err, and visits
---@param count integer visits of a shape
---@param visit fun(values, before): table|nil, ett.Error? measures once; before: the result so far
---@param merge fun(before: table|nil, now: table): table, boolean? all visits so far as one result, and whether
--- they are enough
---@param stop fun(): boolean asked before every visit
---@param turn fun(under_way: number) called after every round, with the shapes' worth of visits made
---@return boolean whole: false when it was stopped
function passes.run(block, count, visit, merge, stop, turn)
  for round = 1, count do
    for i, entry in ipairs(block) do
      if stop() then return false end
      if not entry.err and not entry.settled then
        local results, err = visit(entry.values, entry.results)
        if results then
          local settled
          entry.results, settled = merge(entry.results, results)
          entry.settled = settled and 2 * round >= count
        else
          entry.results, entry.err = nil, err
        end
      end
      entry.visits = round
      turn((round - 1 + i / #block) / count * #block, i == #block and round < count)
    end
  end
  return true
end

--- Runs functions side by side: each is left where it calls coroutine.yield and taken up again after
--- the others. What one raises is raised here. Returns what they returned, first done first.
function passes.take_turns(functions)
  local threads, results, alive = {}, {}, #functions
  for i, fn in ipairs(functions) do threads[i] = coroutine.create(fn) end
  while alive > 0 do
    for _, thread in ipairs(threads) do
      if coroutine.status(thread) ~= "dead" then
        local ok, result = coroutine.resume(thread)
        if not ok then
          local object = error_module.from(result)
          object.traceback = object.traceback or debug.traceback(thread)
          error(object, 0)
        end
        if coroutine.status(thread) == "dead" then
          results[#results + 1] = result
          alive = alive - 1
        end
      end
    end
  end
  return results
end

return passes
