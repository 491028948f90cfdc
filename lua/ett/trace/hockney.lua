--- Fits T = steps * alpha + volume * beta to the transfer times of collectives.
--
-- steps and volume are those of the ring algorithm of the collective on n ranks (ett.trace.comm.ring; Thakur,
-- Rabenseifner, Gropp, 2005): an all-reduce of S bytes takes 2 (n - 1) steps and moves 2 (n - 1) / n * S bytes. The
-- time of a collective is its transfer time, first end - last start over the ranks: waiting for a late rank is
-- excluded. If the matched collectives have fewer than two sizes, as with only one recorded rank, those of unmatched
-- groups are used, too. Of these the minimum time of each size counts, and the result states it. The fit to the
-- medians of the sizes has the least absolute relative deviations (iteratively reweighted). So one outlier among the
-- sizes does not move it.
local collective = require "ett.trace.collective"
local comm = require "ett.trace.comm"
local error_module = require "ett.base.error"
local stats = require "ett.trace.stats"

local hockney = {}

--- Adds the times of the collectives of a sort. group_size: if the trace states none.
local function add(points, each, times, group_size)
  local n = each.group_size or group_size
  if not each.bytes or each.bytes <= 0 or not n or n < 2 then return end
  local steps, volume = comm.ring(each.kind, n)
  if not steps then return end
  local sizes = points[each.bytes] or {}
  points[each.bytes] = sizes
  for _, ticks in ipairs(times) do
    if ticks > 0 then
      local point = sizes[n]
      if not point then
        point = { kind = each.kind, bytes = each.bytes, n = n, steps = steps, volume = volume * each.bytes, times = {} }
        sizes[n] = point
      end
      point.times[#point.times + 1] = ticks
    end
  end
end

--- Times by size and ranks of the matched groups, those of the other groups, and the number of these.
local function gather(view, kind, group_size)
  local matched, alone, unmatched, results = {}, {}, 0, {}
  local function add_all(points, member, lists)
    local sorts = member.lane:collectives().sorts
    for n, times in pairs(lists) do
      if not kind or sorts[n].kind == kind then add(points, sorts[n], times, group_size) end
    end
  end
  for _, each in ipairs((view:matched_groups(view.options.align == "clocks" and "clocks" or "auto"))) do
    results[each.group] = each.result
  end
  for _, group in ipairs(view:collective_groups()) do
    if results[group] then
      add_all(matched, group.members[1], results[group].matches:transfers())
    else
      unmatched = unmatched + 1
      for _, member in ipairs(group.members) do add_all(alone, member, member.list:durations()) end
    end
  end
  return matched, alone, unmatched
end

--- Points for the fit, one for each size and number of ranks. Of transfer times the median; of times that include
--- waiting the minimum, which has the least of it.
local function points_of(view, by_size, waiting)
  local points = {}
  for _, bytes in ipairs(stats.keys(by_size)) do
    for _, n in ipairs(stats.keys(by_size[bytes])) do
      local point = by_size[bytes][n]
      local time = waiting and stats.sorted(point.times)[1] or stats.median(point.times)
      points[#points + 1] = { kind = point.kind, bytes = point.bytes, n = point.n, steps = point.steps,
        volume = point.volume, t = view:s(time), weight = math.sqrt(#point.times), count = #point.times }
    end
  end
  return points
end

--- Number of different sizes, by the volume of a step.
local function distinct_sizes(points)
  local sizes = {}
  for _, p in ipairs(points) do stats.count(sizes, p.volume / p.steps) end
  return #stats.keys(sizes)
end

--- alpha, beta of least absolute relative deviations over {steps, volume, t, weight}.
local function fit(points)
  local weights = {}
  for i, p in ipairs(points) do weights[i] = p.weight / (p.t * p.t) end
  local alpha, beta = 0, 0
  for _ = 1, 60 do
    local ss, sv, vv, st, vt = 0, 0, 0, 0, 0
    for i, p in ipairs(points) do
      local w = weights[i]
      ss, sv, vv = ss + w * p.steps * p.steps, sv + w * p.steps * p.volume, vv + w * p.volume * p.volume
      st, vt = st + w * p.steps * p.t, vt + w * p.volume * p.t
    end
    local det = ss * vv - sv * sv
    if det <= 1e-12 * ss * vv then return nil end
    alpha, beta = (st * vv - vt * sv) / det, (ss * vt - sv * st) / det
    for i, p in ipairs(points) do
      local deviation = math.abs(p.t - alpha * p.steps - beta * p.volume) / p.t
      weights[i] = p.weight / (p.t * p.t) / math.max(deviation, 1e-6)
    end
  end
  return alpha, beta
end

--- The fit for a view: alpha_s, beta_s_per_byte, residual, points …; raises "missing" when the sizes do not
--- determine alpha and beta.
---@param options table n_chips? (group size where the trace has none), collective? (all_reduce), tolerance_us?
function hockney.fit(view, options)
  return view:cached("hockney", function()
    local kind = comm.kind_of(options.collective or "all_reduce")
    if not kind then
      error_module.raise("argument", "unknown collective '%s' for the fit; give all_reduce, all_gather, …",
        options.collective)
    end
    local matched, alone, unmatched = gather(view, kind, options.n_chips)
    local points, removed = points_of(view, matched), true
    if distinct_sizes(points) < 2 then
      local others = points_of(view, alone, true)
      removed = #others == 0 and #points > 0
      table.move(others, 1, #others, #points + 1, points)
    end
    local distinct = distinct_sizes(points)
    if distinct == 0 then
      view:missing("needs %s calls with known bytes and group size%s", kind,
        options.n_chips and "" or " (give --n-chips if the trace has no group size)")
    elseif distinct == 1 then
      local calls = 0
      for _, p in ipairs(points) do calls = calls + p.count end
      view:missing("alpha and beta are not identifiable: every %s in the trace has the same size (%s bytes, %d calls)",
        kind, ("%.0f"):format(points[1].bytes), calls)
    end
    local alpha, beta = fit(points)
    if not alpha then view:missing("alpha and beta are not identifiable: the sizes of %s hardly differ", kind) end
    local residuals, table_ = {}, {}
    for i, p in ipairs(points) do
      local model = alpha * p.steps + beta * p.volume
      residuals[i] = math.abs(p.t - model) / p.t
      table_[i] = { bytes = p.bytes, ranks = p.n, calls = p.count, time_us = p.t * 1e6, model_us = model * 1e6 }
    end
    local verdict = "identified"
    if beta <= 0 or alpha < 0 then verdict = "not physical: " .. (beta <= 0 and "beta <= 0" or "alpha < 0")
    elseif distinct == 2 then verdict = "two sizes only: the line passes through both, so the fit is untested" end
    return {
      collective = kind, alpha_s = alpha, beta_s_per_byte = beta,
      inverse_beta_Bps = beta > 0 and 1 / beta or stats.null,
      median_relative_residual = stats.median(residuals), sizes = distinct, identifiability = verdict,
      arrival_skew_removed = removed, groups_not_matched = unmatched, points = table_,
    }
  end)
end

--- A metric that is one number of the fit (and the whole fit with it).
---@param m table { name=, field= (of the fit), unit=, what= }
function hockney.metric(m)
  return {
    name = m.name,
    summary = m.what .. ", by T = steps alpha + volume beta",
    definition = [[Least absolute relative deviations over the median transfer time of each size; steps and volume
are the ring algorithm's (lua/ett/trace/hockney.lua). Transfer time is first end - last start over the ranks.
The result includes the residual, the number of sizes, and whether they determine the fit. One size alone does
not.]],
    needs = "all-reduces of at least two sizes with known bytes and group size (--n-chips), best on two ranks or more",
    units = { [m.name] = m.unit },
    args = collective.args,
    options = { "n_chips", "collective", "tolerance_us" },
    differs = "the public tool fits kernel durations, which include waiting for the last rank",
    compute = function(view, options)
      view:events_needed()
      local found = hockney.fit(view, options)
      return require "ett.base.merged"(found, { [m.name] = found[m.field] })
    end,
  }
end

return hockney
