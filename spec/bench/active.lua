--- Active sampling against the full grid: both judged on the same shapes, which neither saw.
--
-- The whole grid is measured once. A fifth of it is held out; the full grid's surface is fitted
-- to all the rest, the active one chooses from the rest until its held-out error is no more.
local campaign = require "ett.campaign"
local sample = require "ett.sample"

local bench = { summary = "shapes that active sampling needs for the full grid's held-out error" }

local function median_error(profile, op, test)
  local errors = {}
  for i, entry in ipairs(test) do
    local worst = 0
    for pass, result in pairs(entry.results) do
      worst = math.max(worst, math.abs(profile:operator(op.name, entry.s, "fp32", pass).seconds / result.seconds - 1))
    end
    errors[i] = worst
  end
  table.sort(errors)
  return errors[(#errors + 1) // 2]
end

local function one(entry)
  local active = require "ett.active"
  local sample_profile = require "ett.sample_profile"
  local given = campaign.resolve { name = "active", samples = { entry } }
  local target = given.targets[1]
  local backend = require("ett.sampler").backend "cpu"
  local session = assert(backend.open { budget_seconds = 0.012, min_repeats = 3, passes = 1 })
  local rows = {}
  -- Three sweeps over the grid, the best of each shape: noise comes in stretches.
  for sweep = 1, 3 do
    for i = 1, target.total do
      local s = target.shape(target.values(i))
      local results = assert(session.measure(target.operator, s))
      rows[i] = rows[i] or { s = s, results = results }
      for pass, result in pairs(results) do
        if sweep > 1 and result.seconds < rows[i].results[pass].seconds then rows[i].results[pass] = result end
      end
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
  local goal = median_error(full, target.operator, test)
  -- A target of 0 never ends the choice: it is stopped when the error on the held-out fifth is reached.
  local chooser = active.chooser(target, rest, { target_error = 0, dtype = "fp32" })
  local used, reached = 0, nil
  while used < #rest do
    local at = chooser.next()
    if not at then break end
    chooser.add(rows[rest[at]].s, rows[rest[at]].results)
    used = used + 1
    if chooser.waiting() == 0 and used >= 8 then
      reached = median_error(chooser.profile, target.operator, test)
      if reached <= goal + 0.005 then break end
    end
  end
  return { name = target.name, grid = #rest, used = used, goal = goal, reached = reached or 0 / 0 }
end

function bench.run()
  local ok, why = require("ett.find").load("samplers", "cpu").available()
  if not ok then return { { measure = "skipped: " .. why, value = "-" } } end
  local lines, used, grid = {}, 0, 0
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
    local share = r.used / r.grid
    used, grid = used + r.used, grid + r.grid
    lines[#lines + 1] = { measure = ("  %s: %d of %d shapes; held-out median error %.1f %% against the grid's %.1f %%")
      :format(r.name, r.used, r.grid, 100 * r.reached, 100 * r.goal), value = ("%.0f %%"):format(100 * share) }
  end
  table.insert(lines, 1, { measure = "share of the campaign's shapes, same error within 0.5 points an operator",
    value = ("%.0f %%"):format(100 * used / grid), target = "<= 25 %", pass = used / grid <= 0.25 })
  return lines
end

return bench
