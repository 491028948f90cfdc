--- Active sampling: measures where the regressor is least sure, until its held-out error is
--- small enough.
--
-- The candidates are the campaign's own shapes. After a low-discrepancy start, each round fits
-- a surface to what was measured (ett.sample_profile) and takes the shapes that would lower its
-- variance over all candidates most (Cohn 1996), apart from each other. It stops when the 90 % upper bound of the
-- leave-one-out median error is below the target for every pass.
local campaign_operator = require "ett.operator"
local error_module = require "ett.error"
local sample_profile = require "ett.sample_profile"
local sampler = require "ett.sampler"

local active = {}

--- Upper 90 % bound of the median of sorted errors, by its order statistic (a binomial of 1/2).
function active.median_bound(sorted)
  local n = #sorted
  local at = math.ceil(0.5 * n + 0.64 * math.sqrt(n)) -- 1.28 * sqrt(n) / 2
  return sorted[math.min(n, at)]
end

--- Positions of `count` starting shapes, spread over the list by the golden ratio.
local function start(list, count)
  local chosen, seen, n = {}, {}, #list
  local fraction = 0.5
  while #chosen < math.min(count, n) do
    local at = 1 + math.floor(fraction * n)
    if not seen[at] then
      seen[at] = true
      chosen[#chosen + 1] = at
    end
    fraction = (fraction + 0.6180339887498949) % 1
    if #chosen < n and #chosen >= count then break end
  end
  return chosen, seen
end

--- Largest leave-one-out bound over the passes of an operator.
local function error_of(profile, keys)
  local worst = 0
  for _, key in ipairs(keys) do
    local errors = profile:held_out(key)
    table.sort(errors)
    worst = math.max(worst, active.median_bound(errors))
  end
  return worst
end

--- Chooses shapes of a list one round at a time.
---@param target table operator target of a campaign
---@param list integer[] indices of its shapes that may be measured
---@param options table target_error, first (12), batch (4), dtype
function active.chooser(target, list, options)
  local op = campaign_operator.get(target.operator.name)
  local profile = sample_profile.new(options.dtype)
  local shapes, keys = {}, {}
  for i, index in ipairs(list) do
    local ok, s = pcall(target.shape, target.values(index))
    shapes[i] = ok and s or false
  end
  local queue, taken = start(list, options.first or math.max(8, 4 * #target.columns))
  local chooser = { profile = profile, measured = 0 }

  --- Takes in one measurement.
  function chooser.add(s, results)
    for pass, result in pairs(results) do
      local key = sample_profile.pool_name(op) .. " " .. pass
      local known = false
      for _, k in ipairs(keys) do known = known or k == key end
      if not known then keys[#keys + 1] = key end
      profile:add(op, s, pass, result.seconds)
    end
    chooser.measured = chooser.measured + 1
  end

  local function refill()
    if chooser.measured < 4 then return end
    chooser.error = error_of(profile, keys)
    if chooser.error <= options.target_error then
      chooser.done = true
      return
    end
    -- Largest gain first; a shape near one already chosen this round waits.
    local points, places = {}, {}
    for i, s in ipairs(shapes) do
      if s then
        local x = sample_profile.features(op, s)
        table.move(x, 1, #x, #points + 1, points)
        places[#places + 1] = { at = i, gain = 0, x = x }
      end
    end
    for _, key in ipairs(keys) do
      for i, gain in ipairs(profile:surface(key):gain(points)) do places[i].gain = places[i].gain + gain end
    end
    local ranked = {}
    for _, place in ipairs(places) do if not taken[place.at] then ranked[#ranked + 1] = place end end
    table.sort(ranked, function(a, b)
      if a.gain == b.gain then return a.at < b.at end
      return a.gain > b.gain
    end)
    local picked = {}
    for _, candidate in ipairs(ranked) do
      local apart = true
      for _, other in ipairs(picked) do
        local distance = 0
        for d = 1, #candidate.x do distance = math.max(distance, math.abs(candidate.x[d] - other.x[d])) end
        apart = apart and distance > 0.3
      end
      if apart then
        picked[#picked + 1] = candidate
        taken[candidate.at] = true
        queue[#queue + 1] = candidate.at
        if #picked == (options.batch or 4) then break end
      end
    end
  end

  --- After add() of earlier rows: as many starting shapes are not needed any more.
  function chooser.resume()
    for _ = 1, math.min(chooser.measured, #queue) do taken[table.remove(queue)] = nil end
  end

  --- How many chosen shapes wait for their turn.
  function chooser.waiting() return #queue end

  --- The next position of the list, or nil when the target is met or nothing is left.
  function chooser.next()
    if #queue == 0 and not chooser.done then refill() end
    if chooser.done then return nil end
    return table.remove(queue, 1)
  end
  return chooser
end

--- Runs a campaign actively: `ett sample --active --target-error E`.
function active.run(given, options, target_error)
  if options.share then
    error_module.raise("usage", "--active chooses one shape after the other: run it on one rank")
  end
  options.chooser = function(target, list, precision, path)
    if target.kind ~= "operator" then return nil end
    local chooser = active.chooser(target, list, { target_error = target_error, dtype = precision })
    -- Rows of an earlier run count.
    for _, row in ipairs(sample_profile.read(path).rows) do
      local values, results = table.move(row, 1, #target.columns, 1, {}), {}
      for i, pass in ipairs(target.operator.passes) do results[pass] = { seconds = row[#target.columns + i] * 1e-6 } end
      local ok, s = pcall(target.shape, values)
      if ok then chooser.add(s, results) end
    end
    chooser.resume()
    return chooser
  end
  return sampler.run(given, options)
end

return active
