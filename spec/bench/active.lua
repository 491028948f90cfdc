--- Active sampling against the full grid: both judged on the same shapes, which neither saw.
--
-- The whole grid is measured once. A fifth of it is held out; the full grid's surface is fitted
-- to all the rest, the active one chooses from the rest until its held-out error is no more. Three
-- scores: the first time that its error comes within half a point of the grid's, taking each shape's
-- worse pass (the measure) or every pass by itself; and, without the half point, the shapes after which
-- it is at the grid's error or below twice in a row.
local campaign = require "ett.campaign"
local sample = require "ett.sample"

local bench = { summary = "shapes that active sampling needs for the full grid's held-out error" }

--- Median held-out error: of each shape's worse pass, and of every pass by itself.
local function median_errors(profile, op, test)
  local worst, each = {}, {}
  for i, entry in ipairs(test) do
    worst[i] = 0
    for pass, result in pairs(entry.results) do
      local e = math.abs(profile:operator(op.name, entry.s, "fp32", pass).seconds / result.seconds - 1)
      worst[i], each[#each + 1] = math.max(worst[i], e), e
    end
  end
  table.sort(worst)
  table.sort(each)
  return worst[(#worst + 1) // 2], each[(#each + 1) // 2]
end

local function one(entry)
  local active = require "ett.active"
  local sample_profile = require "ett.sample_profile"
  local given = campaign.resolve { name = "active", samples = { entry } }
  local target = given.targets[1]
  local backend = require("ett.sampler").backend "cpu"
  local session = assert(backend.open { budget_seconds = 0.012, min_repeats = 3, passes = 1 })
  local rows = {}
  -- Three sweeps over the grid: noise comes in stretches.
  for sweep = 1, 3 do
    for i = 1, target.total do
      local s = target.shape(target.values(i))
      rows[i] = rows[i] or { s = s }
      rows[i].results = session.merge(sweep > 1 and rows[i].results, assert(session.measure(target.operator, s)))
    end
  end
  session.close()
  local test, rest = {}, {}
  for i, row in ipairs(rows) do
    if sample.halton(i, 1, 5) < 0.2 then test[#test + 1] = row else rest[#rest + 1] = i end
  end
  local full = sample_profile.new "fp32"
  for _, i in ipairs(rest) do
    for pass, result in pairs(rows[i].results) do full:add(target.operator, rows[i].s, pass, result.seconds) end
  end
  local goal, goal_each = median_errors(full, target.operator, test)
  -- A target of 0 never ends the choice: it is stopped when the error on the held-out fifth is reached.
  local chooser = active.chooser(target, rest, { target_error = 0, dtype = "fp32" })
  local used, within, each, strict, before = 0, nil, nil, nil, nil
  while used < #rest and not (strict and each) do
    local at = chooser.next()
    if not at then break end
    chooser.add(rows[rest[at]].s, rows[rest[at]].results)
    used = used + 1
    if chooser.waiting() == 0 and used >= 8 then
      local reached, reached_each = median_errors(chooser.profile, target.operator, test)
      local now = { used = used, reached = reached }
      if reached <= goal + 0.005 then within = within or now end
      if reached_each <= goal_each + 0.005 then each = each or now end
      if reached > goal then now = nil elseif before then strict = strict or before end
      before = now
    end
  end
  local all = { used = #rest, reached = goal }
  return { name = target.name, grid = #rest, goal = goal, within = within or all, each = each or all,
    strict = strict or all }
end

function bench.run()
  local ok, why = require("ett.find").load("samplers", "cpu").available()
  if not ok then return { { measure = "skipped: " .. why, value = "-" } } end
  local lines, within, each, strict, grid = {}, 0, 0, 0, 0
  local entries = {
    { operator = "linear_qkv", shapes = { tokens = { 32, 64, 96, 128, 192, 256, 384 },
      in_features = { 64, 96, 128, 192, 256, 384, 512 }, out_features = { 64, 128, 192, 256, 384, 512 } } },
    { operator = "gelu", shapes = { tokens = { start = 64, stop = 512, step = 32 },
      width = { start = 128, stop = 1024, step = 64 } } },
    { operator = "cross_entropy", shapes = { tokens = { start = 64, stop = 512, step = 32 },
      vocab = { start = 128, stop = 2048, step = 128 } } },
  }
  for _, entry in ipairs(entries) do
    local r = one(entry)
    within, each, strict = within + r.within.used, each + r.each.used, strict + r.strict.used
    grid = grid + r.grid
    lines[#lines + 1] = { measure = ("  %s: %d, by pass %d, strictly %d, of %d shapes; error %.1f, strictly %.1f, "
      .. "grid's %.1f %%"):format(r.name, r.within.used, r.each.used, r.strict.used, r.grid, 100 * r.within.reached,
      100 * r.strict.reached, 100 * r.goal), value = ("%.0f %%"):format(100 * r.within.used / r.grid) }
  end
  local function share(used) return ("%.0f %%"):format(100 * used / grid) end
  table.insert(lines, 1, { measure = "share of the campaign's shapes, same error within 0.5 points an operator",
    value = share(within), target = "<= 25 %", pass = within / grid <= 0.25 })
  table.insert(lines, 2, { measure = "the same, every pass by itself", value = share(each) })
  table.insert(lines, 3, { measure = "the same, strictly: the grid's error or less, twice in a row",
    value = share(strict) })
  return lines
end

return bench
