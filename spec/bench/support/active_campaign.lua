--- Compares active sampling with the full grid, on campaigns with a known time for every shape.
--
-- Both are tested on the same held-out fifth of the kernels; a kernel is held out of every table that has it. The
-- models are those of a profile (ett.profile.fit), one per pool of operators and pass. Active sampling stops
-- automatically: with "grid", if its surfaces predict no gain from further shapes.
local active = require "ett.sampling.active"
local profile_fit = require "ett.profile.fit"
local regress = require "ett.regress"

local campaign = {}

-- Errors below this count as equal: no timing repeats better.
local floor = active.repeatable

local function row_of(file, i) return table.move(file.rows, (i - 1) * file.dims + 1, i * file.dims, 1, {}) end

--- A number in [0, 1) from a text and a seed.
local function unit(text, seed)
  local hash = regress.mix(seed)
  for i = 1, #text do hash = regress.mix(hash ~ text:byte(i)) end
  return (hash >> 11) / 2.0 ^ 53
end

--- The rows of a table that form the campaign: all, or `most` of them, chosen by a seed.
local function drawn(file, most, seed)
  local keys, order = {}, {}
  for i = 1, file.count do keys[i], order[i] = regress.mix(regress.mix(seed) + i), i end
  if file.count <= most then return order end
  table.sort(order, function(a, b) return math.ult(keys[a], keys[b]) end)
  order = table.move(order, 1, most, 1, {})
  table.sort(order)
  return order
end

--- A table of the campaign with its held-out rows (visits: as in ett.sampling.active).
---@param one table name, target (of a campaign; row i is shape i), choice (of ett.profile.fit)?, file { pool, family,
--- dims, rows (flat), count, passes = { { pass =, seconds =, repeated =?, truth =? } } }, entry { gpu, dtype, path? };
--- repeated: what active sampling sees of a shape, which it may visit oftener; truth: what held-out rows are held to
---@param seed integer
---@param most integer rows above which a seeded draw of as many is the campaign
function campaign.split(one, seed, most)
  one.test, one.rest = {}, {}
  for _, i in ipairs(drawn(one.file, most, seed)) do
    local held = unit(one.file.pool .. table.concat(row_of(one.file, i), " "), seed) < 0.2
    table.insert(held and one.test or one.rest, i)
  end
  return one
end

--- The rows of a table that active sampling measures, and its chooser.
---@param stop? fun(chosen: integer[]): boolean called after every round; true stops
---@param known? table features that tables of the same pool had measured before; this one's are added
function campaign.choose(one, target_error, stop, known)
  local chooser = active.chooser(one.target, one.rest, { target_error = target_error, dtype = one.entry.dtype,
    visits = one.visits, trees = not one.choice,
    known = not one.choice and known or nil })
  local chosen = {}
  for at in chooser.next do
    local i, results = one.rest[at], {}
    for _, pass in ipairs(one.file.passes) do
      results[pass.pass] = { seconds = (pass.repeated or pass.seconds)[i] }
    end
    chosen[#chosen + 1] = i
    chooser.add(one.target.shape(one.target.values(i)), results)
    if stop and chooser.waiting() == 0 and #chosen >= profile_fit.least_shapes and stop(chosen) then break end
  end
  return chosen, chooser
end

local function pools_of(tables)
  local pools, order = {}, {}
  for _, one in ipairs(tables) do
    for _, pass in ipairs(one.file.passes) do
      local name = one.file.pool .. " " .. pass.pass
      if not pools[name] then
        pools[name] = {}
        order[#order + 1] = pools[name]
      end
      table.insert(pools[name], { one = one, pass = pass })
    end
  end
  return order
end

local function data_of(pool, rows, repeated)
  local first = pool[1]
  local data = { gpu = first.one.entry.gpu, family = first.one.file.family, dims = first.one.file.dims, rows = {},
    seconds = {}, pass = first.pass.pass, entry = first.one.entry,
    multiprocessors = require("ett.profile.physics").multiprocessors(first.one.entry.gpu) }
  for _, member in ipairs(pool) do
    for _, i in ipairs(rows[member.one]) do
      table.move(row_of(member.one.file, i), 1, data.dims, #data.rows + 1, data.rows)
      data.seconds[#data.seconds + 1] = (repeated and member.pass.repeated or member.pass.seconds)[i]
    end
  end
  return data
end

--- Relative errors of the served models on the held-out rows.
---@param rows table rows to learn from, by table
---@param repeated boolean? whether those were measured as active sampling does
---@return table by table: by pass: { errors (by held-out row), mean =, median = }
function campaign.errors(tables, rows, repeated)
  local errors = {}
  for _, one in ipairs(tables) do errors[one] = {} end
  for _, pool in ipairs(pools_of(tables)) do
    local data = data_of(pool, rows, repeated)
    local model = profile_fit.fit(pool[1].one.choice or assert(profile_fit.choose(data)), data)
    for _, member in ipairs(pool) do
      local test, list, sum = {}, {}, 0
      for _, i in ipairs(member.one.test) do
        table.move(row_of(member.one.file, i), 1, data.dims, #test + 1, test)
      end
      local values = model:predict_rows(test)
      for k, i in ipairs(member.one.test) do
        list[k] = math.abs(values[k] / (member.pass.truth or member.pass.seconds)[i] - 1)
        sum = sum + list[k] / #member.one.test
      end
      local sorted = table.move(list, 1, #list, 1, {})
      table.sort(sorted)
      list.mean, list.median = sum, sorted[(#sorted + 1) // 2]
      errors[member.one][member.pass.pass] = list
    end
    model:close()
  end
  return errors
end

--- A quarter of a table's rows: random, or each the farthest from all earlier ones.
local choices = {}

function choices.random(one)
  local quarter = math.ceil(#one.rest / 4)
  local file = { count = #one.rest }
  local rows = {}
  for _, k in ipairs(drawn(file, quarter, 1)) do rows[#rows + 1] = one.rest[k] end
  return rows
end

choices["space-filling"] = function(one)
  local chooser = active.chooser(one.target, one.rest, { target_error = 0, dtype = one.entry.dtype,
    first = math.ceil(#one.rest / 4) })
  local rows = {}
  repeat
    rows[#rows + 1] = one.rest[chooser.next()]
  until chooser.waiting() == 0
  return rows
end

--- Geometric mean over tables and passes of mean errors over the grid's.
local function ratio_of(tables, errors, full)
  local sum, count = 0, 0
  for _, one in ipairs(tables) do
    for pass, e in pairs(errors[one]) do
      sum, count = sum + math.log(math.max(floor, e.mean) / math.max(floor, full[one][pass].mean)), count + 1
    end
  end
  return math.exp(sum / count)
end

--- Rows of a bench: the error with a quarter of every table, chosen without any time, with the visits of active
-- sampling.
function campaign.blind_rows(tables)
  local all, rows = {}, {}
  for _, one in ipairs(tables) do all[one] = one.rest end
  local full = campaign.errors(tables, all)
  for _, name in ipairs { "random", "space-filling" } do
    local some = {}
    for _, one in ipairs(tables) do some[one] = choices[name](one) end
    rows[#rows + 1] = { measure = ("  a %s quarter of every table: held-out error over the grid's"):format(name),
      value = ("%.2f"):format(ratio_of(tables, campaign.errors(tables, some, true), full)) }
  end
  return rows
end

--- Whether errors exceed others by more than a tenth, beyond the noise of the rows: one-sided, 95 %.
local function surely_worse(errors, others)
  local n, sum, square = #errors, 0, 0
  for k = 1, n do sum = sum + (errors[k] - 1.1 * others[k]) / n end
  for k = 1, n do square = square + (errors[k] - 1.1 * others[k] - sum) ^ 2 / (n - 1) end
  return sum > 1.645 * math.sqrt(square / n)
end

--- Runs active sampling on every table and compares it with the grid.
---@return table used, grid (shapes), visited (shapes, each times its visits), ratio (geometric mean over tables and
--- passes of the mean errors'), full, reached (mean error), worse, surely_worse, compared, charged (shapes, the grid
--- where surely worse), honest, said, lines
function campaign.judge(tables, target_error)
  local all, some, choosers, known = {}, {}, {}, {}
  for _, one in ipairs(tables) do
    all[one] = one.rest
    known[one.file.pool] = known[one.file.pool] or {}
    some[one], choosers[one] = campaign.choose(one, target_error, nil, known[one.file.pool])
  end
  local full, reached = campaign.errors(tables, all), campaign.errors(tables, some, true)
  local r = { used = 0, grid = 0, visited = 0, ratio = 0, full = 0, reached = 0, worse = 0, surely_worse = 0,
    compared = 0, charged = 0, honest = 0, said = 0, lines = {} }
  for _, one in ipairs(tables) do
    local words, sure, median = {}, false, 0
    for _, pass in ipairs(one.file.passes) do
      local f, a = full[one][pass.pass], reached[one][pass.pass]
      local ratio = math.max(floor, a.mean) / math.max(floor, f.mean)
      r.compared, r.ratio = r.compared + 1, r.ratio + math.log(ratio)
      r.full, r.reached = r.full + f.mean, r.reached + a.mean
      if ratio > 1.1 then
        r.worse = r.worse + 1
        sure = sure or surely_worse(a, f)
        if surely_worse(a, f) then r.surely_worse = r.surely_worse + 1 end
      end
      median = math.max(median, a.median)
      words[#words + 1] = ("%s %.2f for %.2f %%"):format(pass.pass, 100 * a.mean, 100 * f.mean)
    end
    local used, grid, chooser = #some[one], #one.rest, choosers[one]
    r.used, r.grid, r.visited = r.used + used, r.grid + grid, r.visited + used * (one.visits or 1)
    r.charged = r.charged + (sure and grid or used)
    r.said, r.honest = r.said + 1, r.honest + (median <= chooser.error and 1 or 0)
    r.lines[#r.lines + 1] = { measure = ("  %s: %d of %d shapes; %s; median %.2f, said at most %.2f %%"):format(
      one.name, used, grid, table.concat(words, ", "), 100 * median, 100 * chooser.error),
      value = ("%.0f %%"):format(100 * used / grid) }
  end
  r.ratio = math.exp(r.ratio / r.compared)
  r.full, r.reached = r.full / r.compared, r.reached / r.compared
  return r
end

--- The number of shapes after which the mean error of every pass of a table is first within `points` of the whole
-- grid's.
local function first_within(one, points)
  local full = campaign.errors({ one }, { [one] = one.rest })[one]
  local chosen = campaign.choose(one, 0, function(chosen)
    local now, within = campaign.errors({ one }, { [one] = chosen }, true)[one], true
    for pass, errors in pairs(now) do within = within and errors.mean <= full[pass].mean + points end
    return within
  end)
  return #chosen
end

--- A row of a bench: the share of shapes after the first round with an error within half a point of the grid's.
function campaign.half_point_row(tables)
  local used, grid = 0, 0
  for _, one in ipairs(tables) do
    used, grid = used + first_within(one, 0.005), grid + #one.rest
  end
  return { measure = "  share when its error is first within half a point of the grid's (told by the held-out shapes)",
    value = ("%.0f %%"):format(100 * used / grid), target = "<= 25 %", pass = used <= 0.25 * grid }
end

local function percent(part, whole) return ("%.0f %%"):format(100 * part / whole) end

--- Rows of a bench for a campaign: targets "grid" and 5 %.
---@param label string
function campaign.rows(label, tables)
  local r = campaign.judge(tables, "grid")
  local rows = {
    { measure = label .. ": share of the shapes when it stopped by itself", value = percent(r.used, r.grid),
      target = "<= 25 %", pass = r.used <= 0.25 * r.grid },
    { measure = "  share of the grid's visits", value = percent(r.visited, r.grid) },
    { measure = ("  its mean held-out error over the whole grid's (%.2f for %.2f %%), mean of %d operators and passes")
      :format(100 * r.reached, 100 * r.full, r.compared), value = ("%.2f"):format(r.ratio), target = "<= 1.10",
      pass = r.ratio <= 1.1 },
    { measure = "  operators and passes more than a tenth above the grid's error; beyond the held-out rows' noise",
      value = ("%d; %d of %d"):format(r.worse, r.surely_worse, r.compared) },
    { measure = "  share of the shapes, with whole grids for these operators",
      value = percent(r.charged, r.grid) },
    { measure = "  operators within the printed error bound (held-out median)",
      value = ("%d of %d"):format(r.honest, r.said) },
  }
  table.move(r.lines, 1, #r.lines, #rows + 1, rows)
  local five = campaign.judge(tables, 0.05)
  rows[#rows + 1] = { measure = ("  with --target-error 0.05: share of the shapes; median as said in %d of %d")
    :format(five.honest, five.said), value = percent(five.used, five.grid) }
  return rows
end

return campaign
