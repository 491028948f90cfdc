--- Held-out error, coverage and width of the regressors on the shared sample files.
--- Skips with a message if the files are missing.
local find = require "ett.base.find"
local floor = require "holdout_floor"
local holdout = require "ett.profile.holdout"
local median = require "ett.base.median"
local shared_samples = require "shared_samples"

local bench = { summary = ("held-out error of the regressors, seed %d"):format(holdout.seed) }

local targets = {
  random = { 2.4, 1.4, 85, 95 }, grouped = { 2.5, 2.2, 85, 95 }, extrapolation = { 3.7, 2.4, 80, 100 },
  tenth = { 3.3, 2.5, 85, 95 },
}

-- The reference's own errors on these very splits (spec/bench/holdout_reference.py).
local function reference_errors()
  local path = find.path("spec/bench", "holdout"):gsub("holdout%.lua$", "holdout_reference.tsv")
  local errors = {}
  for line in io.lines(path) do
    local cluster, file, pass, split, value = line:match("^(%S+)\t(%S+)\t(%S+)\t(%S+)\t(%S+)$")
    if cluster then errors[table.concat({ cluster, file, pass, split }, " ")] = tonumber(value) end
  end
  return errors
end

local function row(rows, measure, value, format, target, pass)
  rows[#rows + 1] = { measure = measure, value = format:format(value), target = target, pass = pass }
end

-- Entries worse than the reference, each with the floor of its held-out rows: where that lies above what is asked
-- for, no answer that keeps to the link's rate can meet it.
local function against_reference(rows, results, files)
  local errors, by_path, worse, within, compared = reference_errors(), {}, {}, 0, 0
  for _, file in ipairs(files) do by_path[file.path] = file end
  for _, r in ipairs(results) do
    local theirs = errors[table.concat({ r.cluster, r.file, r.pass, r.split }, " ")]
    if theirs then
      compared = compared + 1
      if r.error > 1.1 * theirs then
        local file = by_path[r.path]
        local least, faster, n = floor.of(file, holdout.test_rows(file, r.split), r.pass)
        worse[#worse + 1] = { r = r, theirs = theirs, floor = least, faster = faster, rows = n }
        if least <= 1.1 * theirs then within = within + 1 end
      end
    end
  end
  row(rows, ("files, passes and splits worse than the reference by more than 10 %%, of %d"):format(compared), #worse,
    "%d", "0", #worse == 0)
  row(rows, "  those that an answer within the link's rate could meet", within, "%d", "0", within == 0)
  for _, w in ipairs(worse) do
    row(rows, ("  %s %s %s %s%s: reference %.2f %%, floor %.2f %% (%d of %d rows faster)"):format(w.r.cluster, w.r.file,
      w.r.pass, w.r.split, w.r.corrupt and " (corrupt)" or "", 100 * w.theirs, 100 * w.floor, w.faster, w.rows),
      100 * w.r.error, "%.2f %%")
  end
end

--- Means and medians over entries, one row per split.
---@return table[] { split, entries, mean_error (no corrupt files), median_error (all), coverage, half_width }
local function measures(results)
  local rows = {}
  for _, split in ipairs(holdout.splits) do
    local sum, n, covered, all, widths = 0.0, 0, 0.0, {}, {}
    for _, r in ipairs(results) do
      if r.split == split then
        all[#all + 1] = r.error
        widths[#widths + 1] = r.half_width
        if not r.corrupt then
          sum, n, covered = sum + r.error, n + 1, covered + r.coverage
        end
      end
    end
    if n > 0 then
      rows[#rows + 1] = { split = split, entries = #all, mean_error = sum / n, median_error = median(all) or 0 / 0,
        coverage = covered / n, half_width = median(widths) or 0 / 0 }
    end
  end
  return rows
end

function bench.run()
  local files = shared_samples.read()
  if not files then
    return { { measure = "skipped: no shared sample files (set ETT_REFERENCE)", value = "-" } }
  end
  local rows, results = {}, holdout.run(files, { threads = 2, as_sampled = true })
  for _, m in ipairs(measures(results)) do
    local t = targets[m.split]
    row(rows, m.split .. ": mean error, all files less the corrupt five", 100 * m.mean_error, "%.2f %%",
      ("<= %.1f %%"):format(t[1]), 100 * m.mean_error <= t[1])
    row(rows, m.split .. ": median error over files, nothing excluded", 100 * m.median_error, "%.2f %%",
      ("<= %.1f %%"):format(t[2]), 100 * m.median_error <= t[2])
    row(rows, m.split .. ": coverage of the 90 % interval, less the corrupt five", 100 * m.coverage, "%.1f %%",
      ("%d to %d %%"):format(t[3], t[4]), 100 * m.coverage >= t[3] and 100 * m.coverage <= t[4])
    row(rows, m.split .. ": median half-width of the interval", 100 * m.half_width, "%.1f %%", "<= 10 %",
      m.half_width <= 0.1)
  end
  for _, r in ipairs(shared_samples.linear2(files)) do
    row(rows, ("Perlmutter linear2 at mp > 1, %s, %d withheld rows of its siblings"):format(r.pass, r.rows),
      100 * r.error, "%.2f %%", "<= 5 %", r.error <= 0.05)
  end
  against_reference(rows, results, files)
  return rows
end

return bench
