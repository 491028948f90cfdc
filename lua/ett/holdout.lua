--- Held-out error of the regressors over sample files: seeded splits, one entry per file and
--- pass. Held-out rows touch no fit, no choice and no threshold.
--
--   random   a fifth of the rows
--   grouped  a fifth of the kernels: every row, of every pooled file, of the same shape
--   extrapolation  rows above the 80th percentile of size, trained on those below; under
--            pooling every file's own percentile holds, and a shape held out of one file is
--            held out of all
--   tenth    nine tenths of the rows, trained on one tenth
local regress = require "ett.regress"
local regressor = require "ett.regressor"
local samples = require "ett.samples"

local holdout = {}

holdout.seed = 20261121
holdout.splits = { "random", "grouped", "extrapolation", "tenth" }

--- Files that hold faults of their sampling, by cluster initial (issue 2, section 7).
holdout.corrupt = {
  ["P allgather_large"] = true, ["P allgather_large_1_4"] = true, ["V allgather_large_4_1"] = true,
  ["V allgather_large_8_1"] = true, ["V firstStage_optimizer"] = true,
}

local function unit(key) return (key >> 11) / 2.0 ^ 53 end

-- Rows ordered by a seeded key; the first `count` are marked true.
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

local function append_row(flat, rows, i, dims)
  for d = (i - 1) * dims + 1, i * dims do flat[#flat + 1] = rows[d] end
end

-- Kernels held out of any file of a pool are held out of all of them.
local function blocked_kernels(members, tests)
  local blocked = {}
  for m, file in ipairs(members) do
    for i, kernel in ipairs(file.kernels) do if tests[m][i] then blocked[kernel] = true end end
  end
  return blocked
end

local function summarise(file, rows, predicted, low, high, seconds)
  local total, covered, errors, widths = 0.0, 0, {}, {}
  for i, row in ipairs(rows) do
    local t = seconds[row]
    errors[i] = math.abs(predicted[i] / t - 1)
    total = total + errors[i]
    if low[i] <= t and t <= high[i] then covered = covered + 1 end
    widths[i] = (high[i] - low[i]) / 2 / predicted[i]
  end
  table.sort(errors)
  table.sort(widths)
  local n = #rows
  return { cluster = file.cluster, file = file.label, rows = n, error = total / n, median = errors[(n + 1) // 2],
    coverage = covered / n, half_width = widths[(n + 1) // 2] }
end

-- One fit over the training rows of a pool (and group), then each member's test rows.
local function evaluate(members, tests, pass, options, group, blocked)
  local flat, seconds, dims = {}, {}, members[1].dims
  for m, file in ipairs(members) do
    local times = file.by_pass[pass]
    for i = 1, file.count do
      if not tests[m][i] and (not group or file.group[i] == group)
        and not (blocked and blocked[file.kernels[i]]) then
        append_row(flat, file.rows, i, dims)
        seconds[#seconds + 1] = times[i]
      end
    end
  end
  local given = { family = members[1].family, backward = pass == "backward", dims = dims,
    multiprocessors = members[1].multiprocessors, rows = flat, seconds = seconds, threads = options.threads }
  for field, value in pairs(options.fit or {}) do given[field] = value end
  local model, outliers = regressor.fit(given)
  local answers = {}
  for m, file in ipairs(members) do
    local asked, rows = {}, {}
    for i = 1, file.count do
      if tests[m][i] and (not group or file.group[i] == group) then
        append_row(asked, file.rows, i, dims)
        rows[#rows + 1] = i
      end
    end
    local value, low, high = model:predict_rows(asked)
    answers[m] = { rows = rows, value = value, low = low, high = high }
  end
  model:close()
  return answers, #outliers
end

local function groups_of(file)
  if not file.group then return { false } end
  local seen, list = {}, {}
  for _, g in ipairs(file.group) do
    if not seen[g] then
      seen[g] = true
      list[#list + 1] = g
    end
  end
  table.sort(list)
  return list
end

-- Results of one pool, pass and split, added to `results`.
local function run_pool(members, pass, split, options, results)
  local tests = {}
  for m, file in ipairs(members) do tests[m] = options.test_rows(file, split) end
  local blocked = #members > 1 and split == "extrapolation" and blocked_kernels(members, tests) or nil
  local joined, dropped = {}, 0
  for m in ipairs(members) do joined[m] = { rows = {}, value = {}, low = {}, high = {} } end
  for _, group in ipairs(groups_of(members[1])) do
    local answers, outliers = evaluate(members, tests, pass, options, group or nil, blocked)
    dropped = dropped + outliers
    for m, answer in ipairs(answers) do
      for _, field in ipairs { "rows", "value", "low", "high" } do
        table.move(answer[field], 1, #answer[field], #joined[m][field] + 1, joined[m][field])
      end
    end
  end
  for m, file in ipairs(members) do
    local j = joined[m]
    local one = summarise(file, j.rows, j.value, j.low, j.high, file.by_pass[pass])
    one.pass, one.split, one.dropped, one.corrupt = pass, split, dropped, file.corrupt
    results[#results + 1] = one
    if options.each then options.each(file, pass, split, j) end
  end
end

--- Reads every sample file of a folder for the hold-out.
function holdout.read_folder(folder, initial, multiprocessors)
  local index, err = samples.index(folder)
  if not index then error(err, 0) end
  local files = {}
  for _, entry in ipairs(index) do
    local file, why = samples.read(entry)
    if not file then error(why, 0) end
    file.label = entry.name .. (entry.nodes and ("_%d_%d"):format(entry.nodes, entry.gpus) or "")
    file.cluster, file.multiprocessors, file.path = initial, multiprocessors, entry.path
    file.corrupt = holdout.corrupt[initial .. " " .. file.label] or false
    file.design = { family = file.family, dims = file.dims, multiprocessors = multiprocessors }
    file.kernels = regress.kernels(file.design, file.rows)
    file.by_pass = {}
    for _, p in ipairs(file.passes) do file.by_pass[p.pass] = p.seconds end
    -- Collectives of each topology stand alone; operators pool by kernel.
    file.key = initial .. " " .. (entry.collective and file.label or file.pool)
    files[#files + 1] = file
  end
  return files
end

--- Where the reference's shared data is, or nil: $ETT_REFERENCE, else beside the source tree.
function holdout.reference_folder()
  local host = require "ett.host"
  local root = os.getenv("ETT_REFERENCE") or (host.root .. "/../shared/reference")
  local folder = root .. "/estimate-train-time/regressors"
  return require("lfs").attributes(folder, "mode") == "directory" and folder or nil
end

--- The sample files of both clusters of the reference, or nil.
function holdout.read_reference()
  local folder = holdout.reference_folder()
  if not folder then return nil end
  local files = holdout.read_folder(folder .. "/Perlmutter", "P", 108)
  for _, file in ipairs(holdout.read_folder(folder .. "/Vista", "V", 132)) do files[#files + 1] = file end
  return files
end

--- Error at Perlmutter linear2's shapes with tensor ranks, which nobody sampled under that name:
--- the same GEMMs are measured in the sibling files (linear4 at four times the ranks, say).
--- Those rows are withheld from every file, the pool is fitted, and asked for them.
---@return table[] { pass=, rows=, error= }
function holdout.linear2(files, options)
  local members, own = {}, nil
  for _, file in ipairs(files) do
    if file.key == "P gemm" then
      members[#members + 1] = file
      if file.label == "linear2" then own = file end
    end
  end
  if not own then return {} end
  local wanted = {}
  for i = 1, own.count do
    local m, n = own.rows[4 * i - 2], own.rows[4 * i - 1]
    for _, tp in ipairs { 2, 4, 8, 16 } do
      if n % tp == 0 then wanted[regress.kernels(own.design, { 1, m, n, n // tp })[1]] = true end
    end
  end
  local tests = {}
  for m, file in ipairs(members) do
    tests[m] = {}
    for i, kernel in ipairs(file.kernels) do tests[m][i] = wanted[kernel] or false end
  end
  local results = {}
  for _, pass in ipairs { "forward", "backward" } do
    local answers = evaluate(members, tests, pass, options or {})
    local total, rows = 0.0, 0
    for m, file in ipairs(members) do
      for i, row in ipairs(answers[m].rows) do
        total = total + math.abs(answers[m].value[i] / file.by_pass[pass][row] - 1)
        rows = rows + 1
      end
    end
    results[#results + 1] = { pass = pass, rows = rows, error = total / rows }
  end
  return results
end

--- Runs the splits over read files.
---@param files table[] from holdout.read_folder
---@param options table? { splits=, threads=, only=function(file), test_rows=, fit= fields for regressor.fit,
---  each=function(file, pass, split, { rows=, value=, low=, high= }) for the held-out answers themselves }
---@return table[] results, one per file, pass and split
function holdout.run(files, options)
  options = options or {}
  options.test_rows = options.test_rows or holdout.test_rows
  local pools, order, results = {}, {}, {}
  for _, file in ipairs(files) do
    if not options.only or options.only(file) then
      if not pools[file.key] then
        pools[file.key] = {}
        order[#order + 1] = file.key
      end
      table.insert(pools[file.key], file)
    end
  end
  for _, split in ipairs(options.splits or holdout.splits) do
    for _, key in ipairs(order) do
      for _, p in ipairs(pools[key][1].passes) do
        run_pool(pools[key], p.pass, split, options, results)
      end
    end
  end
  return results
end

local function median(values)
  table.sort(values)
  local n = #values
  if n == 0 then return 0 / 0 end
  return n % 2 == 1 and values[(n + 1) // 2] or (values[n // 2] + values[n // 2 + 1]) / 2
end

--- Means and medians over entries, one row per split: the measures of issue 2, section 7.
---@return table[] { split, entries, mean_error (less the corrupt), median_error (all), coverage, half_width }
function holdout.measures(results)
  local rows = {}
  for _, split in ipairs(holdout.splits) do
    local sum, n, covered, all, widths, covered_all = 0.0, 0, 0.0, {}, {}, 0.0
    for _, r in ipairs(results) do
      if r.split == split then
        all[#all + 1] = r.error
        widths[#widths + 1] = r.half_width
        covered_all = covered_all + r.coverage
        if not r.corrupt then
          sum, n, covered = sum + r.error, n + 1, covered + r.coverage
        end
      end
    end
    if n > 0 then
      rows[#rows + 1] = { split = split, entries = #all, mean_error = sum / n, median_error = median(all),
        coverage = covered / n, coverage_all = covered_all / #all, half_width = median(widths) }
    end
  end
  return rows
end

return holdout
