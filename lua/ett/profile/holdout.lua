--- Held-out error of the regressors over sample files: seeded splits, one result per file and pass.
--
--   random         holds out a fifth of the rows
--   grouped        holds out a fifth of the kernels: all rows of a shape, in every file of the pool
--   extrapolation  holds out the rows above the 80th percentile of each file's sizes, and their shapes in every file
--                  of the pool
--   tenth          holds out all but a tenth of the rows
--
-- ett.profile.fit chooses the kind of model from all rows of the pool. Fits and thresholds use no held-out row.
local merged = require "ett.base.merged"
local must = require("ett.base.error").must
local profile_fit = require "ett.profile.fit"
local regress = require "ett.regress"
local samples = require "ett.profile.samples"
local table_at = require "ett.base.table_at"

local holdout = {}

holdout.seed = 20261121
holdout.splits = { "random", "grouped", "extrapolation", "tenth" }

local function unit(key) return (key >> 11) / 2.0 ^ 53 end

-- Marks `count` rows, chosen by a seeded hash.
local function marked(rows, count, salt, seed)
  local keys, order, mark = {}, {}, {}
  local start = regress.mix(seed + salt)
  for i = 1, rows do
    keys[i] = regress.mix(start + i - 1)
    order[i] = i
    mark[i] = false
  end
  table.sort(order, function(a, b)
    if keys[a] == keys[b] then return a < b end
    return math.ult(keys[a], keys[b])
  end)
  for i = 1, count do mark[order[i]] = true end
  return mark
end

--- Marks the test rows of one read file.
---@param file table from samples.read, with design
---@param split string
---@return boolean[]
function holdout.test_rows(file, split, seed)
  seed = seed or holdout.seed
  local n = file.count
  if split == "random" then return marked(n, n // 5, 0, seed) end
  if split == "tenth" then
    local train = marked(n, math.max(1, n // 10), 1, seed)
    for i = 1, n do train[i] = not train[i] end
    return train
  end
  local test = {}
  if split == "grouped" then
    for i, kernel in ipairs(regress.kernels(file.design, file.rows)) do
      test[i] = unit(regress.mix(kernel ~ (seed + 2))) < 0.2
    end
    return test
  end
  local sizes = regress.sizes(file.design, file.rows)
  local sorted = table.move(sizes, 1, n, 1, {})
  table.sort(sorted)
  local limit = sorted[math.floor(0.8 * (n - 1)) + 1]
  for i = 1, n do test[i] = sizes[i] > limit end
  return test
end

-- If a kernel is held out of one file of a pool, it is held out of all files of the pool.
local function blocked_kernels(members, tests)
  local blocked = {}
  for m, file in ipairs(members) do
    for i, kernel in ipairs(file.kernels) do if tests[m][i] then blocked[kernel] = true end end
  end
  return blocked
end

local function summarise(file, points)
  local total, covered, errors, widths, n = 0.0, 0, {}, {}, 0
  for _, p in ipairs(points) do
    if p.held_out then
      n = n + 1
      errors[n] = math.abs(p.predicted / p.seconds - 1)
      total = total + errors[n]
      if p.low <= p.seconds and p.seconds <= p.high then covered = covered + 1 end
      widths[n] = (p.high - p.low) / 2 / p.predicted
    end
  end
  local result = { cluster = file.cluster, file = file.label, path = file.path, entry = file.entry,
    rows = n }
  if n == 0 then return result end
  table.sort(errors)
  table.sort(widths)
  result.error, result.median, result.ninety = total / n, errors[(n + 1) // 2], errors[math.ceil(0.9 * n)]
  result.coverage, result.half_width = covered / n, widths[(n + 1) // 2]
  return result
end

-- Rows of the pool's members (and group) that `wanted(m, i)` selects.
local function rows_of(members, pass, group, wanted, threads)
  local data = samples.data(members, pass, group or nil, wanted)
  data.multiprocessors, data.threads = members[1].multiprocessors, threads
  return data
end

-- Adds the model's predictions of the rows to points[m].
local function add_points(points, model, data, members, group, fields)
  if #data.seconds == 0 then return end
  local value, low, high = model:predict_rows(data.rows)
  for k, origin in ipairs(data.origins) do
    local m, i = origin.file, origin.row
    local point = { row = i, line = members[m].lines[i], seconds = data.seconds[k], predicted = value[k], low = low[k],
      high = high[k], group = group or nil }
    table.insert(points[m], merged(point, fields))
  end
end

-- Fits the training rows of a pool (and group). Adds the predictions of each member's test rows and dropped training
-- rows to `points[m]`. Returns the number of dropped rows, or nil and the reason why there is no model.
local function evaluate(members, tests, pass, options, group, blocked, points)
  local all = rows_of(members, pass, group, nil, options.threads)
  local choice, why = profile_fit.choose(all)
  if choice and options.as_sampled then choice.unbound = true end
  if choice and choice.void and not options.as_sampled then choice, why = nil, "void: " .. choice.void end
  if not choice then return nil, why end
  local train = rows_of(members, pass, group, function(m, i)
    return not tests[m][i] and not (blocked and blocked[members[m].kernels[i]])
  end, options.threads)
  local lacking = profile_fit.shortage(train)
  if lacking then
    return nil, ("%s to fit; at least %d are needed: measure more shapes"):format(lacking, profile_fit.least_shapes)
  end
  local model, outliers = profile_fit.fit(choice, train, options.fit)
  add_points(points, model, rows_of(members, pass, group, function(m, i) return tests[m][i] end), members, group,
    { held_out = true })
  if options.points then
    local dropped = {}
    for _, outlier in ipairs(outliers) do
      local origin = train.origins[outlier.row]
      table_at(dropped, origin.file)[origin.row] = true
    end
    add_points(points, model, rows_of(members, pass, group, function(m, i) return dropped[m] and dropped[m][i] end),
      members, group, { dropped = true })
  end
  model:close()
  return #outliers
end

local function groups_of(members)
  local seen, list = {}, {}
  for _, file in ipairs(members) do
    for _, g in ipairs(file.group or { false }) do
      if not seen[g] then
        seen[g] = true
        list[#list + 1] = g
      end
    end
  end
  table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
  return list
end

local function answers_of(points)
  local answers = { rows = {}, value = {}, low = {}, high = {} }
  for _, p in ipairs(points) do
    if p.held_out then
      local n = #answers.rows + 1
      answers.rows[n], answers.value[n], answers.low[n], answers.high[n] = p.row, p.predicted, p.low, p.high
    end
  end
  return answers
end

local function run_pool(members, pass, split, options, results)
  local tests = {}
  for m, file in ipairs(members) do tests[m] = options.test_rows(file, split) end
  local blocked = #members > 1 and split == "extrapolation" and blocked_kernels(members, tests) or nil
  local points, dropped, faults = {}, 0, {}
  for m in ipairs(members) do points[m] = {} end
  for _, group in ipairs(groups_of(members)) do
    local outliers, why = evaluate(members, tests, pass, options, group, blocked, points)
    dropped = dropped + (outliers or 0)
    if why then faults[#faults + 1] = (group and group .. ": " or "") .. why end
  end
  for m, file in ipairs(members) do
    if not options.of or options.of(file) then
      local one = summarise(file, points[m])
      one.pass, one.split, one.dropped, one.corrupt = pass, split, dropped, file.corrupt or false
      one.points = options.points and points[m] or nil
      one.fault = #faults > 0 and table.concat(faults, "; ") or one.rows == 0 and "no row is held out" or nil
      results[#results + 1] = one
      if options.each then options.each(file, pass, split, answers_of(points[m])) end
    end
  end
end

--- Reads sample files for the hold-out.
---@param index table[] of ett.profile.samples.index
---@param initial string marks the cluster in each file's key
function holdout.read_files(index, initial, multiprocessors)
  local files = {}
  for _, entry in ipairs(index) do
    local file = must(samples.read(entry))
    file.label = entry.name .. (entry.nodes and ("_%d_%d"):format(entry.nodes, entry.gpus) or "")
    file.cluster, file.multiprocessors, file.path = initial, multiprocessors, entry.path
    file.design = { family = file.family, dims = file.dims, multiprocessors = multiprocessors }
    file.kernels = regress.kernels(file.design, file.rows)
    -- The same pools as ett.profile: collectives by name and topology, operators by kernel, fp16 and bf16 together.
    file.key = ("%s %s %s"):format(initial, entry.collective and file.label or file.pool,
      entry.dtype == "bf16" and "fp16" or entry.dtype)
    files[#files + 1] = file
  end
  return files
end

--- Runs the splits over read files.
---@param files table[] from holdout.read_files
---@param options table? { splits=, threads=, only=function(file), test_rows=, fit= fields for regressor.fit,
---  of=function(file): report only these files (their pools are still fitted whole); as_sampled= skip the physical
---  bound and keep void passes; points= add each row's prediction to the results;
---  each=function(file, pass, split, { rows=, value=, low=, high= }) receives the held-out predictions }
---@return table[] results, one per file, pass and split: error, median, ninety (90th percentile), coverage over `rows`
---  held-out rows; `fault` is the reason if a file has no result
function holdout.run(files, options)
  options = options or {}
  options.test_rows = options.test_rows or holdout.test_rows
  local pools, order, results = {}, {}, {}
  for _, file in ipairs(files) do
    for _, p in ipairs((not options.only or options.only(file)) and file.passes or {}) do
      local key = file.key .. "\0" .. p.pass
      if not pools[key] then
        pools[key] = { pass = p.pass, dims = file.dims }
        order[#order + 1] = key
      end
      if file.dims == pools[key].dims then table.insert(pools[key], file) end
    end
  end
  for _, split in ipairs(options.splits or holdout.splits) do
    for _, key in ipairs(order) do
      local wanted = not options.of
      for _, file in ipairs(pools[key]) do wanted = wanted or options.of(file) end
      if wanted then run_pool(pools[key], pools[key].pass, split, options, results) end
    end
  end
  return results
end

return holdout
