--- Fits in_step.step_spread.facts: the error of steps on devices that have neither samples nor tables.
--
--   ett run spec/bench/support/fit_facts.lua
--
-- Each published step is estimated from the facts of its device alone, and with factors fitted without its source. Each
-- device counts once, and so does each source of a device. Prints the interval score (interval_score.lua) of the best
-- value and of the value in use. Then it leaves out each device in turn, and scores its steps with the value that is
-- best for the others. The facts are first those of datasheets, then also the measured rates of products. Last, the
-- same steps are estimated from the tables of the neighbours, to test that these need no width of their own.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/bench/support/?.lua"
local interval_score = require "interval_score"
local median = require "ett.base.median"
local published = require "published"
local schema = require "ett.base.schema"

-- The steps of clusters without samples, each on a device with fewer facts.
---@param forget fun(device: table)
local function steps(forget)
  local cluster_of = published.cluster
  function published.cluster(row)
    local cluster = cluster_of(row)
    if cluster.profile then return cluster end
    cluster.device.folder = nil
    forget(cluster.device)
    return cluster
  end
  local list = interval_score.steps(function(row, kernels, add)
    local e = not cluster_of(row).profile and published.estimate(row)
    if not e then return end
    add { device = row.device, source = published.source(row), ratio = interval_score.ratio(row, e), low = kernels.low,
      high = kernels.high, share = kernels.share, own_run = kernels.own_run }
  end)
  published.cluster = cluster_of
  return list
end

-- The steps of each device, weighted.
local function by_device(list)
  local counts, sources, devices = {}, {}, {}
  for _, s in ipairs(list) do
    local key = s.device .. s.source
    if not counts[key] then sources[s.device] = (sources[s.device] or 0) + 1 end
    counts[key] = (counts[key] or 0) + 1
    devices[s.device] = devices[s.device] or {}
    table.insert(devices[s.device], s)
  end
  for _, s in ipairs(list) do s.weight = 1 / counts[s.device .. s.source] / sources[s.device] end
  return devices
end

local function show(what, score, inside)
  print(("  %-32s score %.3f, inside %.1f %%"):format(what, score, 100 * inside))
end

local function report(title, forget, part)
  local list = steps(forget)
  list.part = part
  local devices, errors = by_device(list), {}
  for i, s in ipairs(list) do errors[i] = math.abs(1 / s.ratio - 1) end
  print(("%s: %d steps, median error %.1f %%"):format(title, #list, 100 * median(errors)))
  show("in use", interval_score.of(list))
  if not part then return end
  local best = interval_score.best(list)
  show(("best: %.2f"):format(best), interval_score.of(list, best))
  local least, most, sums, names = math.huge, 0.0, { 0.0, 0.0 }, schema.keys(devices)
  for _, name in ipairs(names) do
    local others, own = { part = part }, devices[name]
    for _, s in ipairs(list) do if s.device ~= name then others[#others + 1] = s end end
    local value = interval_score.best(others)
    own.part, least, most = part, math.min(least, value), math.max(most, value)
    local score, inside = interval_score.of(own, value)
    sums = { sums[1] + score / #names, sums[2] + inside / #names }
  end
  show(("without its device: %.2f to %.2f"):format(least, most), table.unpack(sums))
end

report("facts of datasheets", function(device) device.neighbours, device.measured_flops = nil, nil end, "facts")
report("facts with measured rates", function(device) device.neighbours = nil end, "facts")
report("tables of neighbours", function() end)
