--- Active sampling against the full grid on this machine's processor.
--
-- Every shape of three grids of some 550 is measured, in sweeps over all of them: noise comes in stretches. The
-- grid's model has every third of the visits of each shape, active sampling's has all of the few that it chooses, and
-- held-out shapes are held to all visits. The same times serve as small grids too: every other value of every
-- dimension. The recorded campaigns of GPUs are `active_recorded`.
local active = require "ett.sampling.active"
local active_campaign = require "active_campaign"
local campaign = require "ett.sampling.campaign"
local samples = require "ett.profile.samples"

local seed, sweeps = 20261121, 3

local bench = { summary = ("shapes that active sampling needs for the grid's held-out error, seed %d"):format(seed) }

local entries = {
  { operator = "linear_qkv", shapes = { tokens = { 32, 48, 64, 96, 128, 192, 256, 384 },
    in_features = { 64, 96, 128, 160, 192, 256, 320, 384, 512 },
    out_features = { 64, 96, 128, 192, 256, 320, 384, 512 } } },
  { operator = "gelu", shapes = { tokens = { start = 64, stop = 512, step = 16 },
    width = { start = 128, stop = 1024, step = 48 } } },
  { operator = "cross_entropy", shapes = { tokens = { start = 64, stop = 512, step = 16 },
    vocab = { start = 128, stop = 2048, step = 112 } } },
}

--- The grid of an entry as a table of the campaign, its times still to come.
local function table_of(entry)
  local target = campaign.resolve({ name = "active", samples = { entry } }).targets[1]
  local file = { rows = {}, count = target.total, passes = {} }
  for i = 1, target.total do
    local pool, family, dims = samples.dims(target.operator, target.shape(target.values(i)))
    file.pool, file.family, file.dims = pool, family, #dims
    table.move(dims, 1, #dims, #file.rows + 1, file.rows)
  end
  for k, pass in ipairs(target.operator.passes) do file.passes[k] = { pass = pass, seconds = {}, repeated = {} } end
  return active_campaign.split({ name = target.name, target = target, file = file, choice = { kind = "surface" },
    visits = active.visits, entry = { gpu = "cpu", dtype = "fp32" } }, seed, math.huge)
end

local function measure(tables)
  local backend = require("ett.sampling.sampler").backend "cpu"
  local session = assert(backend.open { budget_seconds = 0.012, min_repeats = 3, visits = 1, seed = seed })
  for _, one in ipairs(tables) do
    local results, grid, target = {}, {}, one.target
    for sweep = 1, sweeps * active.visits do
      for i = 1, target.total do
        local now = assert(session.measure(target.operator, target.shape(target.values(i))))
        results[i] = session.merge(results[i], now)
        if sweep % active.visits == 1 then grid[i] = session.merge(grid[i], now) end
        for _, pass in ipairs(one.file.passes) do
          pass.seconds[i] = grid[i][pass.pass].seconds
          pass.repeated[i] = results[i][pass.pass].seconds
          pass.truth = pass.repeated
        end
      end
    end
  end
  session.close()
end

--- The campaign of every other value of every dimension of a table.
local function coarse(one)
  local kept = {} -- by column
  for c = 1, #one.target.columns do
    local values, seen = {}, {}
    for i = 1, one.target.total do
      local value = one.target.values(i)[c]
      if not seen[value] then values[#values + 1] = value end
      seen[value] = true
    end
    table.sort(values)
    kept[c] = {}
    for k = 1, #values, 2 do kept[c][values[k]] = true end
  end
  local function kept_of(list)
    local some = {}
    for _, i in ipairs(list) do
      local all = true
      for c, value in ipairs(one.target.values(i)) do all = all and kept[c][value] end
      if all then some[#some + 1] = i end
    end
    return some
  end
  return setmetatable({ test = kept_of(one.test), rest = kept_of(one.rest) }, { __index = one })
end

function bench.run()
  local ok, why = require("ett.base.find").load("samplers", "cpu").available()
  if not ok then return { { measure = "skipped: " .. why, value = "-" } } end
  local tables = {}
  for i, entry in ipairs(entries) do tables[i] = table_of(entry) end
  measure(tables)
  local rows, small = active_campaign.rows("this processor", tables), {}
  rows[#rows + 1] = active_campaign.half_point_row(tables)
  for i, one in ipairs(tables) do small[i] = coarse(one) end
  for _, row in ipairs(active_campaign.rows("small grids", small)) do rows[#rows + 1] = row end
  for _, row in ipairs(active_campaign.blind_rows(small)) do rows[#rows + 1] = row end
  return rows
end

return bench
