--- Steps composed of held-out samples: does the interval of a step contain the measured sum?
--
-- Rows of the shared sample files contain their configuration (mp, b, l, h, dim). A
-- fifth of the configurations (b, l, dim) is held out of every file at once and every pool is fitted
-- on the rest. A step at a held-out configuration is then a sum of held-out measured times over counts
-- of a random number of layers, against the sum of the predictions and its interval, combined from the operators'
-- intervals as in estimates.
local holdout = require "ett.profile.holdout"
local regress = require "ett.regress"

local step_intervals = {}

local function unit(key) return (key >> 11) / 2.0 ^ 53 end

local function raw_columns(file)
  local t = assert(require("ett.csv").read(file.path))
  local columns, has = {}, {}
  for _, name in ipairs(t:names()) do has[name] = true end
  for _, name in ipairs { "mp", "b", "l", "h", "dim", "encoders" } do
    if has[name] then columns[name] = assert(t:numbers(name)) end
  end
  t:close()
  return columns
end

local function key_of(columns, row, names)
  local words = {}
  for i, name in ipairs(names) do words[i] = columns[name] and ("%d"):format(columns[name][row]) or "-" end
  return table.concat(words, " ")
end

local function hash_of(text, seed)
  local h = regress.mix(seed)
  for i = 1, #text do h = regress.mix(h ~ text:byte(i)) end
  return h
end

--- Marks the rows of held-out configurations.
local function configuration_rows(seed)
  return function(file)
    file.columns = file.columns or raw_columns(file)
    local test, optimizer = {}, not file.columns.b -- updates have no configuration of a step
    for i = 1, file.count do
      local key = optimizer and ("%s %d"):format(file.label, i) or key_of(file.columns, i, { "b", "l", "dim" })
      test[i] = unit(hash_of(key, seed)) < 0.2
    end
    return test
  end
end

-- Uses of each operator: a layer, or a whole model.
local layer_uses = { linear1 = 1, linear2 = 1, linear3 = 1, linear4 = 1, RoPE = 1, gelu = 1,
  res_add = 2 }
local model_uses = { embedding = 1, linear_final = 1, parallel_cross_entropy_128 = 1 }
local unfused = { baddbmm = 1, bmm = 1, fillmask = 1, softmax = 1 }
local fused = { baddbmm = 1, bmm = 1, ScaledUpperTriangMaskedSoftmax = 1 }

--- Held-out answers by cluster, operator and configuration.
---@return table answers[cluster][file][key] = { list of { measured, value, low, high } by pass }
local function collect(files, seed, split)
  local answers = {}
  holdout.run(files, { threads = 2, as_sampled = true, splits = { split or "random" },
    only = function(file) return file.family ~= "collective" and not file.corrupt end,
    test_rows = not split and configuration_rows(seed) or function(file, name)
      file.columns = file.columns or raw_columns(file)
      return holdout.test_rows(file, name, seed)
    end,
    each = function(file, pass, _, j)
      local of = answers[file.cluster] or {}
      answers[file.cluster] = of
      of[file.label] = of[file.label] or {}
      for i, row in ipairs(j.rows) do
        local key = key_of(file.columns, row, { "mp", "b", "l", "h", "dim" })
        local a = of[file.label][key] or {}
        of[file.label][key] = a
        a[pass] = { measured = file.by_pass[pass][row], value = j.value[i], low = j.low[i], high = j.high[i] }
      end
    end })
  return answers
end

-- The answer of an operator at a configuration; its file may lack some of the columns.
local function at(of, name, c)
  local file = of[name]
  if not file then return nil end
  for _, mp in ipairs { c.mp, "-" } do
    for _, h in ipairs { c.h, "-" } do
      for _, dim in ipairs { c.dim, "-" } do
        local a = file[table.concat({ mp, c.b, c.l, h, dim }, " ")]
        if a then return a end
      end
    end
  end
end

--- The parts of a step: { name, measured, value, down, up } in seconds, passes of one operator joined.
local function parts_of(of, c, layers, key)
  local parts = {}
  local function add(name, uses)
    local a = at(of, name, c)
    if not a then return false end
    local part = { name = name, measured = 0.0, value = 0.0, down = 0.0, up = 0.0 }
    for _, one in pairs(a) do
      part.measured = part.measured + uses * one.measured
      part.value = part.value + uses * one.value
      part.down = part.down + uses * (one.value - one.low)
      part.up = part.up + uses * (one.high - one.value)
    end
    parts[#parts + 1] = part
    return true
  end
  local core = ({ { flash_atten = 1 }, unfused, fused })[key % 3 + 1]
  local norm = (key >> 8) % 2 == 0 and "RMSlayernorm" or "layernorm"
  local gemms = 0
  for _, name in ipairs(require("ett.base.schema").keys(layer_uses)) do
    if add(name, layers * layer_uses[name]) and name:match "^linear" then gemms = gemms + 1 end
  end
  for _, name in ipairs(require("ett.base.schema").keys(core)) do add(name, layers * core[name]) end
  add(norm, 2 * layers + 1)
  for _, name in ipairs(require("ett.base.schema").keys(model_uses)) do add(name, model_uses[name]) end
  return gemms >= 3 and parts or nil
end

--- Steps of one seed: a list of { cluster, parts }.
function step_intervals.steps(files, seed, split)
  local answers, steps = collect(files, seed, split), {}
  for _, cluster in ipairs(require("ett.base.schema").keys(answers)) do
    local of = answers[cluster]
    for _, key in ipairs(require("ett.base.schema").keys(of.flash_atten or {})) do
      local mp, b, l, h, dim = key:match "^(%S+) (%S+) (%S+) (%S+) (%S+)$"
      local hash = hash_of(key .. cluster, seed + 1)
      local parts = parts_of(of, { mp = mp, b = b, l = l, h = h, dim = dim }, 4 + (hash >> 16) % 61, hash >> 24)
      if parts then steps[#steps + 1] = { cluster = cluster, configuration = key, parts = parts } end
    end
  end
  return steps
end

--- Interval of a step from its parts, as ett_step_interval combines them.
function step_intervals.interval(parts, correlation)
  local value, down, up, down2, up2 = 0.0, 0.0, 0.0, 0.0, 0.0
  for _, p in ipairs(parts) do
    value = value + p.value
    down, down2 = down + p.down, down2 + p.down ^ 2
    up, up2 = up + p.up, up2 + p.up ^ 2
  end
  return value, value - math.sqrt((1 - correlation) * down2 + correlation * down ^ 2),
    value + math.sqrt((1 - correlation) * up2 + correlation * up ^ 2)
end

local function measured(parts)
  local sum = 0.0
  for _, p in ipairs(parts) do sum = sum + p.measured end
  return sum
end

--- Share of steps whose interval holds the measured sum, mean error and median half-width.
function step_intervals.coverage(steps, correlation)
  local inside, total, widths = 0, 0.0, {}
  for i, s in ipairs(steps) do
    local value, low, high = step_intervals.interval(s.parts, correlation)
    local t = measured(s.parts)
    if low <= t and t <= high then inside = inside + 1 end
    total = total + math.abs(value / t - 1)
    widths[i] = (high - low) / 2 / value
  end
  table.sort(widths)
  return { steps = #steps, coverage = inside / #steps, error = total / #steps, half_width = widths[(#steps + 1) // 2] }
end

--- Correlation of the errors of different operators of one step: each error in units of its own
--- half-width on the side where it fell, weighted as it enters the interval. The estimate solves
---   sum of (sum e)^2 = (1 - r) sum of (sum d^2) k + r sum of (sum d)^2 k
--- where k scales half-widths to errors: k = sum of e^2 / sum of d^2.
function step_intervals.correlation(steps)
  local square_of_sum, squares_e, squares_d, sum_d_squared = 0.0, 0.0, 0.0, 0.0
  for _, s in ipairs(steps) do
    local e, d, value = 0.0, 0.0, 0.0
    for _, p in ipairs(s.parts) do value = value + p.value end
    for _, p in ipairs(s.parts) do
      local error = (p.measured - p.value) / value
      local half = (error < 0 and p.down or p.up) / value
      e, d = e + error, d + half
      squares_e, squares_d = squares_e + error ^ 2, squares_d + half ^ 2
    end
    square_of_sum, sum_d_squared = square_of_sum + e ^ 2, sum_d_squared + d ^ 2
  end
  local k = squares_e / squares_d
  return (square_of_sum / k - squares_d) / (sum_d_squared - squares_d), k
end

return step_intervals
