--- The passes of a campaign: noise on a machine comes in stretches of milliseconds to seconds, so
--- each shape is measured in several visits some time apart, and what they saw is put together.
local error_module = require "ett.base.error"

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

-- One more visit of a shape; settled only after half of the rounds.
local function add(entry, results, merge, late)
  local settled
  entry.results, settled, entry.wanting = merge(entry.results, results)
  entry.settled = settled and late
end

--- Gives a shape the visits that an earlier run made of it.
---@param entry table of a block
---@param made table[] results, visit by visit
---@param count integer visits of a shape
---@param merge function as in run
function passes.restore(entry, made, count, merge)
  for i, results in ipairs(made) do
    add(entry, results, merge, 2 * i >= count)
    entry.visits = i
  end
end

--- Measures a block of shapes in `count` visits each, and those whose visits were disturbed in some more.
---@param block table[] { values = }; gains results or err, and visits; goes on after the visits it has
---@param count integer visits of a shape
---@param tasks table visit(values, before): table|nil, ett.Error? measures once; before: the result so far.
--- merge(before|nil, now): table, boolean?, boolean? all visits so far as one result, whether they are enough, whether
--- too few were undisturbed.
--- stop(): boolean asked before every visit.
--- pace(done): boolean asked before every visit with how much of the block is done, 0 to 1; it may wait for a better
--- moment. False: there is no time for more than half of the visits. nil: there is time.
--- turn(under_way, rounds) called after every visit with the shapes' worth of visits made and the rounds begun.
--- again(): boolean asked before every visit beyond `count`; nil: there are none
---@return boolean whole: false when it was stopped
function passes.run(block, count, tasks)
  local function make(entry, late)
    local results, err = tasks.visit(entry.values, entry.results)
    if results then
      add(entry, results, tasks.merge, late)
    else
      entry.results, entry.err = nil, err
    end
  end
  for round = 1, count do
    for i, entry in ipairs(block) do
      if tasks.stop() then return false end
      if not entry.err and not entry.settled and (entry.visits or 0) < round then
        local late = 2 * round > count
        local timely = not tasks.pace or tasks.pace((round - 1 + (i - 1) / #block) / count)
        if late and not timely then return true end
        make(entry, 2 * round >= count)
      end
      entry.visits = math.max(entry.visits or 0, round)
      tasks.turn(((round - 1) * #block + i) / count, round)
    end
  end
  local round, left = count, tasks.again ~= nil
  while left do
    round, left = round + 1, false
    for _, entry in ipairs(block) do
      if entry.wanting and not entry.err then
        if tasks.stop() then return false end
        if not tasks.again() then return true end
        make(entry, true)
        entry.visits, left = entry.visits + 1, true
        tasks.turn(#block, round)
      end
    end
  end
  return true
end

--- Runs functions side by side: each is left where it calls coroutine.yield(progress), and the one
--- that came least far is taken up next. What one raises is raised here. Returns what they returned, first done
--- first.
---@param functions function[]
---@param after function? called with the least progress whenever one was left: where this itself takes turns with
--- something else, it may yield
---@param quantum number? progress is counted in whole ones of these: a function goes on until it has another
function passes.take_turns(functions, after, quantum)
  local threads, results = {}, {}
  for i, fn in ipairs(functions) do threads[i] = { run = coroutine.create(fn), progress = -1.0 } end
  local left <close> = setmetatable({}, { __close = function() -- luacheck: ignore left
    for _, thread in ipairs(threads) do coroutine.close(thread.run) end -- with what they hold open
  end })
  local function least()
    local thread, at = threads[1], 1
    for i = 2, #threads do
      if threads[i].progress < thread.progress then thread, at = threads[i], i end
    end
    return thread, at
  end
  while #threads > 0 do
    local thread, at = least()
    local ok, result = coroutine.resume(thread.run)
    if not ok then
      local object = error_module.from(result)
      object.traceback = object.traceback or debug.traceback(thread.run)
      error(object, 0)
    end
    if coroutine.status(thread.run) == "dead" then
      results[#results + 1] = result
      table.remove(threads, at)
    else
      thread.progress = quantum and result // quantum or result
      if after then after(least().progress) end
    end
  end
  return results
end

return passes
